//! Processes, threads, identities, scheduling, signals.

#![expect(non_upper_case_globals, reason = "named as the kernel names them")]

use linux_raw_sys::errno::E2BIG;
use linux_raw_sys::general::*;

use crate::syscalls::commands::{prctl::PRCTL, process};
use crate::syscalls::spec::{Class::*, Size::*, *};

const RUSAGE: u32 = 144;
const SIGINFO: u32 = 128;

/// Uprobes' trampolines; 336 came later and is not yet in `linux-raw-sys`.
const __NR_uprobe: u32 = 336;

const PROBE: &str = "belongs to the kernel's own probes";

pub(super) const CALLS: &[Spec] = &[
    row!(__NR_rt_sigaction, Signal, NONE, [input(1, Fixed(32)), out(2, Fixed(32))]),
    row!(__NR_rt_sigprocmask, Signal, NONE, [input(1, Arg(3)), out(2, Arg(3))]),
    row!(__NR_rt_sigreturn, Signal, NONE, []),
    row!(__NR_rt_sigpending, Signal, NONE, [out(0, Arg(1))]),
    row!(__NR_rt_sigtimedwait, Signal, BLOCKS, [input(0, Arg(3)), out(1, Fixed(SIGINFO)).on(On::Positive), input(2, Fixed(16)),]),
    row!(__NR_rt_sigqueueinfo, Plain, NONE, [input(2, Fixed(SIGINFO))]),
    row!(__NR_rt_sigsuspend, Signal, BLOCKS.and(SIGMASK), [input(0, Arg(1))]),
    row!(__NR_sigaltstack, Signal, NONE, [input(0, Fixed(24)), out(1, Fixed(24))]),
    row!(__NR_rt_tgsigqueueinfo, Plain, NONE, [input(3, Fixed(SIGINFO))]),
    row!(__NR_pidfd_send_signal, Plain, NONE, [input(2, Fixed(SIGINFO))]),
    row!(__NR_kill, Plain, NONE, []),
    row!(__NR_tkill, Plain, NONE, []),
    row!(__NR_tgkill, Plain, NONE, []),
    row!(__NR_pause, Plain, BLOCKS, []),
    row!(__NR_restart_syscall, Plain, BLOCKS, []),
    row!(
        __NR_clone,
        Process,
        NONE,
        [
            // CLONE_PIDFD and CLONE_PARENT_SETTID.
            out(2, Fixed(4)).if_set(0, 0x0010_1000),
            // CLONE_CHILD_SETTID writes in the child; CLONE_CHILD_CLEARTID when it dies.
            MemArg { arg: 3, dir: Dir::Address, size: Fixed(4), on: On::Reached, only: Only::Set { arg: 0, mask: 0x0120_0000 } },
        ]
    ),
    row!(__NR_fork, Process, NONE, []),
    row!(__NR_vfork, Process, NONE, []),
    row!(__NR_clone3, Process, NONE, [inout(0, CloneArgs(1))]),
    row!(__NR_execve, Process, NONE, [path(0), input(1, Strings), input(2, Strings)]),
    row!(__NR_execveat, Process, NONE, [path(1), input(2, Strings), input(3, Strings)]),
    row!(__NR_exit, Process, NONE, []),
    row!(__NR_exit_group, Process, NONE, []),
    row!(__NR_wait4, Plain, BLOCKS, [out(1, Fixed(4)).on(On::Positive), out(3, Fixed(RUSAGE)).on(On::Positive)]),
    // Six fields, with a hole after the third; cleared also where there is no child.
    row!(
        __NR_waitid,
        Plain,
        BLOCKS,
        [out(2, Part { offset: 0, len: 12 }).always(), out(2, Part { offset: 16, len: 12 }).always(), out(4, Fixed(RUSAGE)),]
    ),
    row!(__NR_getpid, Plain, NONE, []),
    row!(__NR_getppid, Plain, NONE, []),
    row!(__NR_gettid, Plain, NONE, []),
    row!(__NR_getpgrp, Plain, NONE, []),
    row!(__NR_getpgid, Plain, NONE, []),
    row!(__NR_setpgid, Plain, NONE, []),
    row!(__NR_getsid, Plain, NONE, []),
    row!(__NR_setsid, Plain, NONE, []),
    row!(__NR_getuid, Plain, NONE, []),
    row!(__NR_getgid, Plain, NONE, []),
    row!(__NR_geteuid, Plain, NONE, []),
    row!(__NR_getegid, Plain, NONE, []),
    row!(__NR_setuid, Plain, NONE, []),
    row!(__NR_setgid, Plain, NONE, []),
    row!(__NR_setreuid, Plain, NONE, []),
    row!(__NR_setregid, Plain, NONE, []),
    row!(__NR_setresuid, Plain, NONE, []),
    row!(__NR_setresgid, Plain, NONE, []),
    row!(__NR_getresuid, Plain, NONE, [out(0, Fixed(4)), out(1, Fixed(4)), out(2, Fixed(4))]),
    row!(__NR_getresgid, Plain, NONE, [out(0, Fixed(4)), out(1, Fixed(4)), out(2, Fixed(4))]),
    row!(__NR_setfsuid, Plain, NONE, []),
    row!(__NR_setfsgid, Plain, NONE, []),
    // A size of zero only asks for the count.
    row!(__NR_getgroups, Plain, NONE, [out(1, RetTimes(0, 4))]),
    row!(__NR_setgroups, Plain, NONE, [input(1, ArgTimes(0, 4))]),
    // A version that the kernel does not speak is replaced by the one it prefers.
    row!(__NR_capget, Plain, NONE, [inout(0, Part { offset: 0, len: 4 }).always(), input(0, Fixed(8)), out(1, Capabilities)]),
    row!(__NR_capset, Plain, NONE, [inout(0, Part { offset: 0, len: 4 }).always(), input(0, Fixed(8)), input(1, Capabilities)]),
    row!(__NR_personality, Identity, NONE, []),
    row!(__NR_getpriority, Plain, NONE, []),
    row!(__NR_setpriority, Plain, NONE, []),
    row!(__NR_sched_yield, Plain, NONE, []),
    row!(__NR_sched_setparam, Plain, NONE, [input(1, Fixed(4))]),
    row!(__NR_sched_getparam, Plain, NONE, [out(1, Fixed(4))]),
    row!(__NR_sched_setscheduler, Plain, NONE, [input(2, Fixed(4))]),
    row!(__NR_sched_getscheduler, Plain, NONE, []),
    row!(__NR_sched_get_priority_max, Plain, NONE, []),
    row!(__NR_sched_get_priority_min, Plain, NONE, []),
    row!(__NR_sched_rr_get_interval, Plain, NONE, [out(1, Fixed(16))]),
    row!(__NR_sched_setaffinity, Plain, NONE, [input(2, Arg(1))]),
    row!(__NR_sched_getaffinity, Plain, NONE, [out(2, Ret(1))]),
    // Too long a structure: the size the kernel knows is put in its first field.
    row!(__NR_sched_setattr, Plain, NONE, [input(1, SelfSized { offset: 0, min: 48, cap: 6 }), out(1, Fixed(4)).on(On::Error(E2BIG)),]),
    row!(__NR_sched_getattr, Plain, NONE, [out(1, Arg(2))]),
    row!(__NR_ioprio_set, Plain, NONE, []),
    row!(__NR_ioprio_get, Plain, NONE, []),
    row!(__NR_getrlimit, Identity, NONE, [out(1, Fixed(16))]),
    row!(__NR_setrlimit, Identity, NONE, [input(1, Fixed(16))]),
    row!(__NR_prlimit64, Identity, NONE, [input(2, Fixed(16)), out(3, Fixed(16))]),
    row!(__NR_getrusage, Plain, NONE, [out(1, Fixed(RUSAGE))]),
    row!(__NR_getcpu, Plain, NONE, [out(0, Fixed(4)), out(1, Fixed(4))]),
    row!(__NR_unshare, Plain, NONE, []),
    row!(__NR_setns, Plain, NONE, []),
    row!(__NR_kcmp, Plain, NONE, []),
    row!(__NR_pidfd_open, Plain, NEW_FD, []),
    row!(__NR_pidfd_getfd, Plain, NEW_FD, []),
    row!(__NR_prctl, Plain, NONE, by PRCTL),
    row!(__NR_arch_prctl, Identity, NONE, by process::ARCH_PRCTL),
    row!(__NR_modify_ldt, Plain, NONE, by process::MODIFY_LDT),
    row!(__NR_set_tid_address, Identity, KEEPS, [address(0)]),
    row!(__NR_set_robust_list, Identity, KEEPS, [address(0)]),
    row!(__NR_get_robust_list, Identity, NONE, [out(1, Fixed(8)), out(2, Fixed(8))]),
    row!(__NR_rseq, Identity, KEEPS, [address(0)]),
    row!(__NR_seccomp, Plain, NONE, by process::SECCOMP),
    row!(__NR_landlock_create_ruleset, Plain, NEW_FD, [input(0, Arg(1))]),
    row!(__NR_landlock_add_rule, Plain, NONE, [input(2, Fixed(12)).if_equal(1, 1), input(2, Fixed(16)).if_equal(1, 2),]),
    row!(__NR_landlock_restrict_self, Identity, NONE, []),
    row!(__NR_lsm_get_self_attr, Plain, NONE, [out(1, Deref(2)), inout(2, Fixed(4)).always()]),
    row!(__NR_lsm_set_self_attr, Plain, NONE, [input(1, Arg(2))]),
    row!(__NR_lsm_list_modules, Plain, NONE, [out(0, Deref(1)), inout(1, Fixed(4)).always()]),
    row!(__NR_ptrace, Refuse("a debugger cannot be recorded while it controls other processes"), BLOCKS, []),
    row!(__NR_uretprobe, Refuse(PROBE), NONE, []),
    row!(__NR_uprobe, Refuse(PROBE), NONE, []),
    row!(__NR_iopl, Refuse("gives the program direct access to devices"), NONE, []),
    row!(__NR_ioperm, Refuse("gives the program direct access to devices"), NONE, []),
];
