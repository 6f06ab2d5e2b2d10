//! Administration, asynchronous input/output, and numbers without a call behind them.

use linux_raw_sys::errno::E2BIG;
use linux_raw_sys::general::*;

use crate::syscalls::spec::{Class::*, Size::*, *};

const RING: &str = "its queues are shared with the kernel, which writes results and data at any time";
const ASYNC_IO: &str = "asynchronous input/output writes into buffers at any time before it is collected";
const KERNEL: &str = "replaces the running kernel";

pub(super) const CALLS: &[Spec] = &[
    row!(__NR_io_uring_setup, Refuse(RING), NEW_FD, [inout(1, Fixed(120))]),
    row!(__NR_io_uring_enter, Refuse(RING), BLOCKS, []),
    row!(__NR_io_uring_register, Refuse(RING), KEEPS, []),
    row!(__NR_io_setup, Refuse(ASYNC_IO), NONE, [inout(1, Fixed(8))]),
    row!(__NR_io_destroy, Refuse(ASYNC_IO), NONE, []),
    row!(__NR_io_submit, Refuse(ASYNC_IO), KEEPS, []),
    row!(__NR_io_cancel, Refuse(ASYNC_IO), NONE, []),
    row!(__NR_io_getevents, Refuse(ASYNC_IO), BLOCKS, [out(3, RetTimes(2, 32)), input(4, Fixed(16))]),
    row!(__NR_io_pgetevents, Refuse(ASYNC_IO), BLOCKS.and(SIGMASK), [out(3, RetTimes(2, 32)), input(4, Fixed(16)), input(5, SigsetPair),]),
    row!(__NR_bpf, Refuse("its programs and maps write memory that no table can foresee"), NONE, []),
    row!(
        __NR_perf_event_open,
        Refuse("its ring buffer is written by the kernel at any time"),
        NEW_FD,
        [input(0, SelfSized { offset: 4, min: 64, cap: 6 }), out(0, Part { offset: 4, len: 4 }).on(On::Error(E2BIG)),]
    ),
    row!(__NR_uselib, Refuse("maps a library where the recorder does not see it"), NONE, [path(0)]),
    row!(__NR_kexec_load, Refuse(KERNEL), NONE, []),
    row!(__NR_kexec_file_load, Refuse(KERNEL), NONE, []),
    row!(__NR_acct, Plain, NONE, [path(0)]),
    row!(__NR_swapon, Plain, NONE, [path(0)]),
    row!(__NR_swapoff, Plain, NONE, [path(0)]),
    row!(__NR_reboot, Plain, NONE, [path(3)]),
    row!(__NR_sethostname, Plain, NONE, [input(0, Arg(1))]),
    row!(__NR_setdomainname, Plain, NONE, [input(0, Arg(1))]),
    row!(__NR_vhangup, Plain, NONE, []),
    row!(__NR_init_module, Plain, NONE, [input(0, Arg(1)), path(2)]),
    row!(__NR_finit_module, Plain, NONE, [path(1)]),
    row!(__NR_delete_module, Plain, NONE, [path(0)]),
    // Numbers that Linux 6 answers with ENOSYS, whatever the arguments.
    row!(__NR__sysctl, Plain, NONE, []),
    row!(__NR_create_module, Plain, NONE, []),
    row!(__NR_get_kernel_syms, Plain, NONE, []),
    row!(__NR_query_module, Plain, NONE, []),
    row!(__NR_nfsservctl, Plain, NONE, []),
    row!(__NR_getpmsg, Plain, NONE, []),
    row!(__NR_putpmsg, Plain, NONE, []),
    row!(__NR_afs_syscall, Plain, NONE, []),
    row!(__NR_tuxcall, Plain, NONE, []),
    row!(__NR_security, Plain, NONE, []),
    row!(__NR_set_thread_area, Plain, NONE, []),
    row!(__NR_get_thread_area, Plain, NONE, []),
    row!(__NR_epoll_ctl_old, Plain, NONE, []),
    row!(__NR_epoll_wait_old, Plain, NONE, []),
    row!(__NR_vserver, Plain, NONE, []),
];
