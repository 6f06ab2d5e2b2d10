//! Rough times: time stamp counter readings, and the pairs of (counter, wall clock) that turn them into time of day.
//!
//! They tell people when something happened, to about a millisecond. They never decide what came first.
use crate::sys;

#[inline(always)]
pub(crate) fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has it; where the program forbade it (PR_SET_TSC), the recorder, which owns the signals,
    // has lifted that before it opens a log.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// The counter and CLOCK_REALTIME (ns) at the same moment.
pub(crate) fn now() -> (u64, u64) {
    let before = ticks();
    let ns = sys::realtime_ns();
    let after = ticks();
    (before + (after.wrapping_sub(before)) / 2, ns)
}

/// Ticks per second, to about a thousandth; takes 0.2 ms.
pub(crate) fn rate() -> u64 {
    const SPIN_NS: u64 = 200_000;
    const MAX_READINGS: u32 = 100_000;
    let (first_ticks, first_ns) = (ticks(), sys::monotonic_ns());
    for _ in 0..MAX_READINGS {
        let (ticks, ns) = (ticks(), sys::monotonic_ns());
        let elapsed_ns = ns.wrapping_sub(first_ns);
        if elapsed_ns >= SPIN_NS {
            let elapsed = u128::from(ticks.wrapping_sub(first_ticks));
            return (elapsed * 1_000_000_000 / u128::from(elapsed_ns)) as u64;
        }
    }
    0
}
