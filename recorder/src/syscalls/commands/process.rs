//! `arch_prctl`, `modify_ldt`, `seccomp`, `syslog`.

use crate::syscalls::spec::{Size::*, *};

const SHADOW_STACK: &str = "a shadow stack would check return addresses that the translator keeps elsewhere";
const FILTER: &str = "a filter of system calls would also judge the recorder's own";
const VDSO: &str = "maps kernel code where the recorder does not see it";

pub(in crate::syscalls) static ARCH_PRCTL: CommandSet = CommandSet {
    arg: 0,
    shift: 0,
    mask: u32::MAX,
    commands: &[
        command(0x1001, &[]),                         // SET_GS
        command(0x1002, &[]),                         // SET_FS
        command(0x1003, &[out(1, Fixed(8))]),         // GET_FS
        command(0x1004, &[out(1, Fixed(8))]),         // GET_GS
        command(0x1011, &[]),                         // GET_CPUID
        command(0x1012, &[]),                         // SET_CPUID
        command(0x1021, &[out(1, Fixed(8))]),         // GET_XCOMP_SUPP
        command(0x1022, &[out(1, Fixed(8))]),         // GET_XCOMP_PERM
        command(0x1023, &[]),                         // REQ_XCOMP_PERM
        command(0x1024, &[out(1, Fixed(8))]),         // GET_XCOMP_GUEST_PERM
        command(0x1025, &[]),                         // REQ_XCOMP_GUEST_PERM
        refuse(0x2001, VDSO),                         // MAP_VDSO_X32
        refuse(0x2002, VDSO),                         // MAP_VDSO_32
        refuse(0x2003, VDSO),                         // MAP_VDSO_64
        command(0x3001, &[]),                         // CET_STATUS of an interface never merged; C libraries probe for it
        command(0x4001, &[out(1, Fixed(8))]),         // GET_UNTAG_MASK
        refuse(0x4002, "addresses would carry tags"), // ENABLE_TAGGED_ADDR
        command(0x4003, &[out(1, Fixed(8))]),         // GET_MAX_TAG_BITS
        command(0x4004, &[]),                         // FORCE_TAGGED_SVA
        refuse(0x5001, SHADOW_STACK),                 // SHSTK_ENABLE
        command(0x5002, &[]),                         // SHSTK_DISABLE
        command(0x5003, &[]),                         // SHSTK_LOCK
        command(0x5004, &[]),                         // SHSTK_UNLOCK
        command(0x5005, &[out(1, Fixed(8))]),         // SHSTK_STATUS
    ],
    otherwise: Otherwise::Unknown,
}
.checked();

pub(in crate::syscalls) static MODIFY_LDT: CommandSet = CommandSet {
    arg: 0,
    shift: 0,
    mask: u32::MAX,
    commands: &[
        command(0, &[out(1, Ret(2))]),
        refuse(1, "segments of the program's own making"),
        command(2, &[out(1, Ret(2))]),
        refuse(0x11, "segments of the program's own making"),
    ],
    otherwise: Otherwise::NoMemory,
}
.checked();

pub(in crate::syscalls) static SECCOMP: CommandSet = CommandSet {
    arg: 0,
    shift: 0,
    mask: u32::MAX,
    commands: &[
        refuse(0, FILTER),                                          // SET_MODE_STRICT
        Command { args: &[input(2, Filter)], ..refuse(1, FILTER) }, // SET_MODE_FILTER
        command(2, &[input(2, Fixed(4))]),                          // GET_ACTION_AVAIL
        command(3, &[out(2, Fixed(6))]),                            // GET_NOTIF_SIZES
    ],
    otherwise: Otherwise::Unknown,
}
.checked();

/// Only the three reading actions copy anything, though others have results above zero too.
pub(in crate::syscalls) static SYSLOG: CommandSet = CommandSet {
    arg: 0,
    shift: 0,
    mask: u32::MAX,
    commands: &[
        command(2, &[out(1, Ret(2))]).flags(BLOCKS), // READ
        command(3, &[out(1, Ret(2))]),               // READ_ALL
        command(4, &[out(1, Ret(2))]),               // READ_CLEAR
    ],
    otherwise: Otherwise::NoMemory,
}
.checked();
