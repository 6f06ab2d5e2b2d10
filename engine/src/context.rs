//! The block of memory that `gs` points to while translated code runs: the guest's registers when it does not run, and the few words
//! that emitted code uses.
//!
//! Emitted code addresses the fields by their offset; the `offset` constants are derived from the struct itself.

/// Emitted code picks one of these counters by its unit's number, so that consecutive decrements do not wait for each other.
pub const COUNTERS: usize = 8;

/// See the module's head. `repr(C)`: emitted code depends on the offsets.
#[repr(C)]
#[derive(Debug)]
pub struct Context {
    /// Guest registers in encoding order; valid whenever engine code runs.
    pub gpr: [u64; 16],
    pub rip: u64,
    pub rflags: u64,
    /// Where the gate puts rsp before it calls `dispatch`.
    pub engine_rsp: u64,
    /// `extern "C" fn(*mut Context) -> host address`.
    pub dispatch: u64,
    /// The context's own address.
    pub this: u64,
    /// Which exit brought us here: an index into the engine's exits.
    pub exit: u64,
    /// Host address the gate jumps to.
    pub target: u64,
    /// Saved rcx, r11 and rax of multi-instruction sequences.
    pub spill: [u64; 3],
    /// The address that an instrumented access uses instead of the guest's.
    pub access_address: u64,
    /// What an inline access keeps of the guest's: registers by number, the flags as `save_flags` leaves them; rax and the flags behind
    /// the instruction; what was in memory before it.
    pub saved: [u64; 16],
    pub saved_flags: u64,
    pub result_rax: u64,
    pub result_flags: u64,
    pub old_value: [u64; 8],
    /// The bbcount if all counters were zero.
    pub count_total: i64,
    /// Countdown of control transfers; a decrement that makes one negative leads to an exit.
    pub counters: [i64; COUNTERS],
    /// What each counter was last set to.
    pub dealt: [i64; COUNTERS],
    /// Set by a signal handler: something waits at the next exit.
    pub attention: u64,
    /// The engine itself, for `dispatch`.
    pub engine: u64,
    /// Not zero while engine or host code runs, which may be in the middle of counting.
    pub engine_runs: u64,
    /// A signal came meanwhile: the counters are exhausted when translated code goes on.
    pub exhaust_due: u64,
}

pub mod offset {
    use super::Context;
    use core::mem::offset_of;

    pub const fn gpr(index: usize) -> u32 {
        (offset_of!(Context, gpr) + 8 * index) as u32
    }
    pub const RIP: u32 = offset_of!(Context, rip) as u32;
    pub const RFLAGS: u32 = offset_of!(Context, rflags) as u32;
    pub const ENGINE_RSP: u32 = offset_of!(Context, engine_rsp) as u32;
    pub const DISPATCH: u32 = offset_of!(Context, dispatch) as u32;
    pub const THIS: u32 = offset_of!(Context, this) as u32;
    pub const EXIT: u32 = offset_of!(Context, exit) as u32;
    pub const TARGET: u32 = offset_of!(Context, target) as u32;
    pub const SPILL_RCX: u32 = offset_of!(Context, spill) as u32;
    pub const SPILL_R11: u32 = offset_of!(Context, spill) as u32 + 8;
    pub const SPILL_RAX: u32 = offset_of!(Context, spill) as u32 + 16;
    pub const ACCESS_ADDRESS: u32 = offset_of!(Context, access_address) as u32;
    pub const fn saved(register: usize) -> u32 {
        (offset_of!(Context, saved) + 8 * register) as u32
    }
    pub const SAVED_FLAGS: u32 = offset_of!(Context, saved_flags) as u32;
    pub const RESULT_RAX: u32 = offset_of!(Context, result_rax) as u32;
    pub const RESULT_FLAGS: u32 = offset_of!(Context, result_flags) as u32;
    pub const OLD_VALUE: u32 = offset_of!(Context, old_value) as u32;
    pub const COUNT_TOTAL: u32 = offset_of!(Context, count_total) as u32;
    pub const ATTENTION: u32 = offset_of!(Context, attention) as u32;
    pub const fn counter(index: usize) -> u32 {
        (offset_of!(Context, counters) + 8 * index) as u32
    }
}

const _: () = assert!(core::mem::size_of::<Context>() <= 4096);

/// Register numbers in encoding order.
pub mod reg {
    pub const RAX: usize = 0;
    pub const RCX: usize = 1;
    pub const RDX: usize = 2;
    pub const RBX: usize = 3;
    pub const RSP: usize = 4;
    pub const RBP: usize = 5;
    pub const RSI: usize = 6;
    pub const RDI: usize = 7;
    pub const R10: usize = 10;
    pub const R11: usize = 11;
}
