//! Processes, signals, identities, limits, scheduling.

use std::arch::naked_asm;

use linux_raw_sys::errno::*;
use linux_raw_sys::general::*;

use super::oracle::{Oracle, raw, scenarios};

scenarios!(waiting, signals, interrupted_waits, identities, limits_and_usage, scheduling, options, security);

/// A child that ends at once with this status.
fn child(status: u64) -> u64 {
    let pid = raw(__NR_fork, &[]);
    if pid == 0 {
        raw(__NR_exit_group, &[status]);
    }
    assert!(pid > 0);
    pid as u64
}

fn waiting(o: &mut Oracle) {
    let (status, usage) = (o.buffer(4), o.buffer(144));
    let pid = child(7);
    assert_eq!(o.ok(__NR_wait4, &[pid, status, 0, usage]), pid as i64);
    assert_eq!(o.half(status), 7 << 8);
    o.fails(ECHILD, __NR_wait4, &[pid, status, 0, usage]);
    let info = o.buffer(28);
    let pid = child(3);
    o.ok(__NR_waitid, &[1, pid, info, 4, usage]);
    // The fields are cleared though there is no such child.
    o.fails(ECHILD, __NR_waitid, &[1, pid, info, 4, usage]);
    assert_eq!(o.half(info + 16), 0);
    // A clone that stores its number in the parent.
    let parent = o.buffer(4);
    let pid = raw(__NR_gettid, &[]);
    assert!(pid > 0);
    let result = o.any(__NR_clone, &[u64::from(CLONE_PARENT_SETTID | SIGCHLD), 0, parent, 0, 0]);
    if result == 0 {
        raw(__NR_exit_group, &[0]);
    }
    assert_eq!(i64::from(o.half(parent)), result);
    o.ok(__NR_wait4, &[result as u64, status, 0, 0]);
    // The same by structure, with a descriptor of the process.
    let (parent, pidfd) = (o.buffer(4), o.buffer(4));
    let flags = u64::from(CLONE_PARENT_SETTID) | u64::from(CLONE_PIDFD);
    let args = o.put_words(&[flags, pidfd, 0, parent, u64::from(SIGCHLD), 0, 0, 0, 0, 0, 0]);
    let result = o.any(__NR_clone3, &[args, 88]);
    if result == 0 {
        raw(__NR_exit_group, &[0]);
    }
    if result > 0 {
        o.ok(__NR_wait4, &[result as u64, status, 0, 0]);
        let pidfd = o.half(pidfd).into();
        o.close(&[pidfd]);
    }
}

fn signals(o: &mut Oracle) {
    let (old, set) = (o.buffer(8), o.put_words(&[0]));
    o.ok(__NR_rt_sigprocmask, &[0, set, old, 8]);
    o.fails(EINVAL, __NR_rt_sigprocmask, &[0, set, old, 4]);
    let pending = o.buffer(8);
    o.ok(__NR_rt_sigpending, &[pending, 8]);
    o.ok(__NR_rt_sigpending, &[pending, 3]);
    let action = o.buffer(32);
    o.ok(__NR_rt_sigaction, &[u64::from(SIGUSR2), 0, action, 8]);
    let stack = o.buffer(24);
    o.ok(__NR_sigaltstack, &[0, stack]);

    // A blocked signal, sent to this thread, taken by waiting for it.
    let blocked = o.put_words(&[1 << (SIGUSR2 - 1)]);
    o.ok(__NR_rt_sigprocmask, &[0, blocked, old, 8]);
    let (pid, tid) = (raw(__NR_getpid, &[]) as u64, raw(__NR_gettid, &[]) as u64);
    o.ok(__NR_tgkill, &[pid, tid, SIGUSR2.into()]);
    let (info, soon) = (o.buffer(128), o.put_words(&[0, 1]));
    assert_eq!(o.ok(__NR_rt_sigtimedwait, &[blocked, info, soon, 8]), i64::from(SIGUSR2));
    o.fails(EAGAIN, __NR_rt_sigtimedwait, &[blocked, info, soon, 8]);
    o.ok(__NR_rt_sigprocmask, &[2, old, 0, 8]);
    let fd = o.ok(__NR_signalfd4, &[u64::MAX, blocked, 8, 0]) as u64;
    o.close(&[fd]);
}

/// A signal handler that does nothing.
#[unsafe(naked)]
extern "C" fn handler() {
    naked_asm!("ret")
}

/// The way back from a handler: `rt_sigreturn`.
#[unsafe(naked)]
extern "C" fn restorer() {
    naked_asm!("mov eax, 15", "syscall")
}

/// Has a signal sent to this thread after the call that follows has begun, and again and again should it come too early.
fn interrupting(o: &mut Oracle, run: impl FnOnce(&mut Oracle)) {
    const SA_RESTORER: u64 = 0x0400_0000;
    let action = o.put_words(&[handler as *const () as u64, SA_RESTORER, restorer as *const () as u64, 0]);
    o.ok(__NR_rt_sigaction, &[u64::from(SIGUSR1), action, 0, 8]);
    let tid = raw(__NR_gettid, &[]) as u32;
    let mut event = [0u32; 16];
    (event[2], event[3], event[4]) = (SIGUSR1, SIGEV_THREAD_ID, tid);
    let (event, timer) = (o.put_halves(&event), o.buffer(4));
    o.ok(__NR_timer_create, &[CLOCK_MONOTONIC.into(), event, timer]);
    let timer = o.half(timer).into();
    let often = o.put_words(&[0, 5_000_000, 0, 5_000_000]);
    let old = o.buffer(32);
    o.ok(__NR_timer_settime, &[timer, 0, often, old]);
    run(o);
    o.ok(__NR_timer_gettime, &[timer, old]);
    o.ok(__NR_timer_delete, &[timer]);
}

fn interrupted_waits(o: &mut Oracle) {
    let (empty, writer) = o.pipe(b"");
    interrupting(o, |o| {
        let (long, left) = (o.put_words(&[1000, 0]), o.buffer(16));
        o.fails(EINTR, __NR_nanosleep, &[long, left]);
        o.fails(EINTR, __NR_clock_nanosleep, &[CLOCK_MONOTONIC.into(), 0, long, left]);
        let far = o.put_words(&[1 << 40, 0]);
        o.fails(EINTR, __NR_clock_nanosleep, &[CLOCK_MONOTONIC.into(), TIMER_ABSTIME.into(), far, left]);
        let set = o.put_halves(&[empty as u32, 1]);
        o.fails(EINTR, __NR_ppoll, &[set, 1, long, 0, 8]);
        o.fails(EINTR, __NR_poll, &[set, 1, 1_000_000]);
        let mut words = vec![0u64; empty as usize / 64 + 1];
        words[empty as usize / 64] = 1 << (empty % 64);
        let (reading, timeout) = (o.put_words(&words), o.put_words(&[1000, 0]));
        o.fails(EINTR, __NR_select, &[empty + 1, reading, 0, 0, timeout]);
        o.fails(EINTR, __NR_pselect6, &[empty + 1, reading, 0, 0, long, 0]);
        let buffer = o.buffer(10);
        o.fails(EINTR, __NR_read, &[empty, buffer, 10]);
        let word = o.put_halves(&[5]);
        o.fails(EINTR, __NR_futex, &[word, FUTEX_WAIT.into(), 5, 0, 0, 0]);
        o.fails(EINTR, __NR_pause, &[]);
    });
    o.close(&[empty, writer]);
}

fn identities(o: &mut Oracle) {
    let (real, effective, saved) = (o.buffer(4), o.buffer(4), o.buffer(4));
    o.ok(__NR_getresuid, &[real, effective, saved]);
    o.ok(__NR_getresgid, &[real, effective, saved]);
    let groups = o.buffer(4 * 64);
    o.ok(__NR_getgroups, &[64, groups]);
    o.ok(__NR_getgroups, &[0, groups]);
    for version in [0x1998_0330, 0x2007_1026, 0x2008_0522, 0x1234] {
        let (header, data) = (o.put_halves(&[version, 0]), o.buffer(if version == 0x1998_0330 { 12 } else { 24 }));
        o.any(__NR_capget, &[header, data]);
        let header = o.put_halves(&[version, 0]);
        o.any(__NR_capget, &[header, 0]);
    }
    // An unknown version: nothing is set, but the header comes back changed.
    let (header, data) = (o.put_halves(&[0x1234, 0]), o.buffer(24));
    o.fails(EINVAL, __NR_capset, &[header, data]);
    let (head, len) = (o.buffer(8), o.buffer(8));
    o.ok(__NR_get_robust_list, &[0, head, len]);
}

fn limits_and_usage(o: &mut Oracle) {
    let limit = o.buffer(16);
    o.ok(__NR_getrlimit, &[RLIMIT_NOFILE.into(), limit]);
    o.ok(__NR_prlimit64, &[0, RLIMIT_NOFILE.into(), 0, limit]);
    let usage = o.buffer(144);
    o.ok(__NR_getrusage, &[0, usage]);
    let times = o.buffer(32);
    o.ok(__NR_times, &[times]);
    let info = o.buffer(112);
    o.ok(__NR_sysinfo, &[info]);
    let name = o.buffer(390);
    o.ok(__NR_uname, &[name]);
    let (cpu, node) = (o.buffer(4), o.buffer(4));
    o.ok(__NR_getcpu, &[cpu, node, 0]);
    let log = o.buffer(100);
    o.any(__NR_syslog, &[3, log, 100]);
    o.any(__NR_syslog, &[10, 0, 0]);
}

fn scheduling(o: &mut Oracle) {
    for room in [8u64, 64, 200] {
        let set = o.buffer(room);
        o.any(__NR_sched_getaffinity, &[0, room, set]);
    }
    let parameter = o.buffer(4);
    o.ok(__NR_sched_getparam, &[0, parameter]);
    let interval = o.buffer(16);
    o.ok(__NR_sched_rr_get_interval, &[0, interval]);
    for room in [48u64, 56, 100] {
        let attributes = o.buffer(room);
        o.any(__NR_sched_getattr, &[0, attributes, room, 0]);
    }
    let mut large = [0u32; 40];
    large[0] = 160;
    large[39] = 1;
    let large = o.put_halves(&large);
    o.fails(E2BIG, __NR_sched_setattr, &[0, large, 0]);
}

fn options(o: &mut Oracle) {
    let (int, name, word) = (o.buffer(4), o.buffer(16), o.buffer(8));
    for option in [2, 25, 37] {
        o.any(__NR_prctl, &[option, int, 0, 0, 0]);
    }
    o.ok(__NR_prctl, &[16, name, 0, 0, 0]);
    o.any(__NR_prctl, &[40, word, 0, 0, 0]);
    for room in [16u64, 1000] {
        let auxiliary = o.buffer(room);
        o.any(__NR_prctl, &[0x4155_5856, auxiliary, room, 0, 0]);
    }
    o.any(__NR_prctl, &[62, 0, 0, 0, word]);
    for option in [3, 7, 21, 23, 27, 30, 34, 39, 42, 46, 52, 55, 56, 58, 64, 66, 68] {
        o.any(__NR_prctl, &[option, 0, 0, 0, 0]);
    }
    for code in [0x1003, 0x1004, 0x1021, 0x1022, 0x1024, 0x4001, 0x4003, 0x5005] {
        o.any(__NR_arch_prctl, &[code, word]);
    }
    let descriptors = o.buffer(64);
    o.any(__NR_modify_ldt, &[0, descriptors, 64]);
    o.any(__NR_modify_ldt, &[2, descriptors, 64]);
}

fn security(o: &mut Oracle) {
    let (sizes, action) = (o.buffer(6), o.put_halves(&[0x7fff_0000]));
    o.any(__NR_seccomp, &[3, 0, sizes]);
    o.any(__NR_seccomp, &[2, 0, action]);
    for room in [64u32, 8, 1] {
        let (modules, size) = (o.buffer(room.into()), o.put_halves(&[room]));
        o.any(__NR_lsm_list_modules, &[modules, size, 0]);
        let (context, size) = (o.buffer(room.into()), o.put_halves(&[room]));
        o.any(__NR_lsm_get_self_attr, &[100, context, size, 0]);
    }
    let kind = o.put_string("keyring");
    o.any(__NR_request_key, &[kind, kind, 0, 0]);
    let text = o.buffer(80);
    for room in [80, 5, 0] {
        o.any(__NR_keyctl, &[6, u64::MAX - 3, text, room]); // DESCRIBE the user's keyring
        o.any(__NR_keyctl, &[11, u64::MAX - 3, text, room]); // READ
        o.any(__NR_keyctl, &[17, u64::MAX - 3, text, room]); // GET_SECURITY
    }
    for room in [20u64, 1] {
        let capabilities = o.buffer(room);
        o.any(__NR_keyctl, &[31, capabilities, room]);
    }
}
