//! Counting control transfers.
//!
//! Eight counters in the context count down; a unit always uses the same one, picked by its number, so that successive decrements are
//! not one chain of store-to-load forwards. `bbcount` is what was dealt out minus what is left, plus one. Every decrement is checked
//! by the sign of its result.
//!
//! An exact stop: the budget is dealt evenly to the counters; when one runs out, what is left is dealt again; once less than
//! [`NEAR`] transfers are left the dispatcher runs exact units, one block at a time. A unit subtracts at most
//! [`crate::trace::MAX_TRANSFERS`] at once, so a counter overshoots by less than that and all eight by less than [`NEAR`].

use core::sync::atomic::{Ordering, compiler_fence};

use crate::context::{COUNTERS, Context};
use crate::trace::MAX_TRANSFERS;

/// Closer than this to the stop, blocks run one at a time.
pub const NEAR: u64 = 2 * COUNTERS as u64 * MAX_TRANSFERS as u64;

/// A budget that is never used up in practice: 2^59 transfers.
pub const UNLIMITED: u64 = 1 << 59;

/// Transfers settled since the last call of [`deal`].
fn consumed(context: &Context) -> i64 {
    (0..COUNTERS).map(|index| context.dealt[index] - context.counters[index]).sum()
}

/// Takes what has been counted into `base` and deals out `budget` transfers.
pub fn deal(context: &mut Context, base: &mut u64, budget: u64) {
    *base = base.wrapping_add_signed(consumed(context));
    let each = (budget / COUNTERS as u64) as i64;
    context.counters = [each; COUNTERS];
    context.dealt = context.counters;
    set_total(context, *base);
}

/// Tells emitted code what the count is from now on. (After [`interrupt`] it is told to ask.)
pub fn set_total(context: &mut Context, base: u64) {
    context.count_total = (base as i64).wrapping_add(context.dealt.iter().sum());
}

/// Transfers settled, plus one.
pub fn bbcount(context: &Context, base: u64) -> u64 {
    base.wrapping_add_signed(consumed(context))
}

/// Adds `transfers` to the count.
pub fn settle(context: &mut Context, counter: u8, transfers: i64) {
    context.counters[counter as usize] -= transfers;
}

/// In signal context: has the guest come to an exit soon. Emitted code changes a counter only by single instructions, so there the
/// counters are exhausted at once; engine code may be between reading and writing them, and does it itself before the guest goes on.
pub fn interrupt(context: &mut Context) {
    context.attention = 1;
    if context.engine_runs == 0 {
        exhaust(context);
    } else {
        context.exhaust_due = 1;
    }
}

/// Translated code has been left: see [`interrupt`].
pub fn enter_engine(context: &mut Context) {
    // SAFETY: a field of the context; a signal handler reads it.
    unsafe { (&raw mut context.engine_runs).write_volatile(1) };
    compiler_fence(Ordering::SeqCst);
}

/// Translated code goes on, after nothing that could count.
pub fn leave_engine(context: &mut Context) {
    loop {
        compiler_fence(Ordering::SeqCst);
        // SAFETY: fields of the context, which a signal handler reads and writes. A signal before this write leaves a word that is seen
        // behind it, one after it does all by itself.
        let due = unsafe {
            (&raw mut context.engine_runs).write_volatile(0);
            compiler_fence(Ordering::SeqCst);
            (&raw const context.exhaust_due).read_volatile()
        };
        if due == 0 {
            return;
        }
        enter_engine(context);
        context.exhaust_due = 0;
        exhaust(context);
    }
}

/// Makes the next decrement of any counter negative without changing the count.
fn exhaust(context: &mut Context) {
    for index in 0..COUNTERS {
        let left = context.counters[index];
        context.dealt[index] -= left + 1;
        context.counters[index] = -1;
    }
}
