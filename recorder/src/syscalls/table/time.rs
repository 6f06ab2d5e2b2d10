//! Clocks, timers, sleeping, and facts about the machine.

use linux_raw_sys::general::*;

use crate::syscalls::commands::process::SYSLOG;
use crate::syscalls::spec::{Class::*, Size::*, *};

const TIMEX: u32 = 208;

/// The remainder of an interrupted sleep. A sleep that was stopped and continued has left one too, though it succeeds.
const fn remainder(arg: u8) -> MemArg {
    out(arg, Fixed(16)).on(On::SuccessOrInterrupt)
}

pub(super) const CALLS: &[Spec] = &[
    row!(__NR_nanosleep, Plain, BLOCKS, [input(0, Fixed(16)), remainder(1)]),
    row!(__NR_getitimer, Plain, NONE, [out(1, Fixed(32))]),
    row!(__NR_setitimer, Plain, NONE, [input(1, Fixed(32)), out(2, Fixed(32))]),
    row!(__NR_alarm, Plain, NONE, []),
    row!(__NR_uname, Plain, NONE, [out(0, Fixed(390))]),
    row!(__NR_gettimeofday, Plain, NONE, [out(0, Fixed(16)), out(1, Fixed(8))]),
    row!(__NR_settimeofday, Plain, NONE, [input(0, Fixed(16)), input(1, Fixed(8))]),
    row!(__NR_sysinfo, Plain, NONE, [out(0, Fixed(112))]),
    row!(__NR_times, Plain, NONE, [out(0, Fixed(32))]),
    row!(__NR_syslog, Plain, BLOCKS, by SYSLOG),
    row!(__NR_adjtimex, Plain, NONE, [inout(0, Fixed(TIMEX))]),
    row!(__NR_clock_adjtime, Plain, NONE, [inout(1, Fixed(TIMEX))]),
    row!(__NR_time, Plain, NONE, [out(0, Fixed(8))]),
    row!(__NR_timer_create, Plain, NONE, [input(1, Fixed(64)), out(2, Fixed(4))]),
    row!(__NR_timer_settime, Plain, NONE, [input(2, Fixed(32)), out(3, Fixed(32))]),
    row!(__NR_timer_gettime, Plain, NONE, [out(1, Fixed(32))]),
    row!(__NR_timer_getoverrun, Plain, NONE, []),
    row!(__NR_timer_delete, Plain, NONE, []),
    row!(__NR_clock_settime, Plain, NONE, [input(1, Fixed(16))]),
    row!(__NR_clock_gettime, Plain, NONE, [out(1, Fixed(16))]),
    row!(__NR_clock_getres, Plain, NONE, [out(1, Fixed(16))]),
    row!(__NR_clock_nanosleep, Plain, BLOCKS, [input(2, Fixed(16)), remainder(3).if_clear(1, TIMER_ABSTIME as u64)]),
    row!(__NR_timerfd_create, Plain, NEW_FD, []),
    row!(__NR_timerfd_settime, Plain, NONE, [input(2, Fixed(32)), out(3, Fixed(32))]),
    row!(__NR_timerfd_gettime, Plain, NONE, [out(1, Fixed(32))]),
    // The kernel fills the whole buffer, or fails.
    row!(__NR_getrandom, Plain, BLOCKS, [out(0, Ret(1))]),
];
