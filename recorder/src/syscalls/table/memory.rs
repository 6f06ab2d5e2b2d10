//! The address space, NUMA placement, futexes.
//!
//! An address that only *names* a range (`munmap`, `mbind`) is no pointer argument: it must not be replaced by an alias.

use linux_raw_sys::errno::ENOMEM;
use linux_raw_sys::general::*;

use crate::syscalls::commands::futex::FUTEX;
use crate::syscalls::spec::{Class::*, Size::*, *};

pub(super) const CALLS: &[Spec] = &[
    row!(__NR_mmap, Memory, NONE, []),
    row!(__NR_mprotect, Memory, NONE, []),
    row!(__NR_munmap, Memory, NONE, []),
    row!(__NR_brk, Memory, NONE, []),
    row!(__NR_mremap, Memory, NONE, []),
    row!(__NR_msync, Memory, NONE, []),
    // A range with holes is answered as far as the hole.
    row!(__NR_mincore, Plain, NONE, [out(2, Pages(1)).on(On::SuccessOr(ENOMEM))]),
    row!(__NR_madvise, Memory, NONE, []),
    row!(__NR_mlock, Memory, NONE, []),
    row!(__NR_munlock, Memory, NONE, []),
    row!(__NR_mlockall, Memory, NONE, []),
    row!(__NR_munlockall, Memory, NONE, []),
    row!(__NR_mlock2, Memory, NONE, []),
    row!(__NR_remap_file_pages, Memory, NONE, []),
    row!(__NR_pkey_mprotect, Memory, NONE, []),
    row!(__NR_pkey_alloc, Plain, NONE, []),
    row!(__NR_pkey_free, Plain, NONE, []),
    row!(__NR_mseal, Memory, NONE, []),
    row!(__NR_process_madvise, Memory, NONE, [input(1, ArgTimes(2, 16))]),
    row!(__NR_process_mrelease, Plain, NONE, []),
    row!(__NR_map_shadow_stack, Refuse("a shadow stack would check return addresses that the translator keeps elsewhere"), NONE, []),
    row!(__NR_memfd_secret, Refuse("secret memory cannot be mapped a second time"), NEW_FD, []),
    row!(__NR_userfaultfd, Refuse("page faults would be handled by another thread or process, out of sight"), NEW_FD, []),
    row!(__NR_mbind, Plain, NONE, [input(3, Bits(4))]),
    row!(__NR_set_mempolicy, Plain, NONE, [input(1, Bits(2))]),
    row!(__NR_get_mempolicy, Plain, NONE, [out(0, Fixed(4)), out(1, Bits(2))]),
    row!(__NR_set_mempolicy_home_node, Plain, NONE, []),
    row!(__NR_migrate_pages, Plain, NONE, [input(2, Bits(1)), input(3, Bits(1))]),
    row!(__NR_move_pages, Plain, NONE, [input(2, ArgTimes(1, 8)), input(3, ArgTimes(1, 4)), out(4, ArgTimes(1, 4)).always(),]),
    row!(__NR_membarrier, Plain, NONE, []),
    row!(__NR_futex, Plain, BLOCKS, by FUTEX),
    row!(__NR_futex_waitv, Plain, BLOCKS, [input(0, FutexWaiters(1)), input(3, Fixed(16))]),
    row!(__NR_futex_wake, Plain, NONE, [address(0)]),
    row!(__NR_futex_wait, Plain, BLOCKS, [input(0, Fixed(4)), input(4, Fixed(16))]),
    row!(__NR_futex_requeue, Plain, NONE, [input(0, FutexPair)]),
    row!(__NR_process_vm_readv, Plain, NONE, [out(1, Iovecs(2)), input(3, ArgTimes(4, 16))]),
    row!(
        __NR_process_vm_writev,
        Refuse("writes into another process without a trace in its recording"),
        NONE,
        [input(1, Iovecs(2)), input(3, ArgTimes(4, 16)),]
    ),
];
