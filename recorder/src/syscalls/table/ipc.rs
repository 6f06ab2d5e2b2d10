//! System V objects and keys.

use linux_raw_sys::general::*;

use crate::syscalls::commands::{ipc, keyctl::KEYCTL};
use crate::syscalls::spec::{Class::*, Size::*, *};

pub(super) const CALLS: &[Spec] = &[
    row!(__NR_shmget, Plain, NONE, []),
    row!(__NR_shmat, Memory, NONE, []),
    row!(__NR_shmdt, Memory, NONE, []),
    row!(__NR_shmctl, Plain, NONE, by ipc::SHMCTL),
    row!(__NR_semget, Plain, NONE, []),
    row!(__NR_semop, Plain, BLOCKS, [input(1, ArgTimes(2, 6))]),
    row!(__NR_semtimedop, Plain, BLOCKS, [input(1, ArgTimes(2, 6)), input(3, Fixed(16))]),
    row!(__NR_semctl, Plain, NONE, by ipc::SEMCTL),
    row!(__NR_msgget, Plain, NONE, []),
    // The type of a message stands before its text and is not counted.
    row!(__NR_msgsnd, Plain, BLOCKS, [input(1, ArgPlus(2, 8))]),
    row!(__NR_msgrcv, Plain, BLOCKS, [out(1, RetPlus(2, 8))]),
    row!(__NR_msgctl, Plain, NONE, by ipc::MSGCTL),
    row!(__NR_add_key, Plain, NONE, [path(0), path(1), input(2, Arg(3))]),
    row!(__NR_request_key, Plain, BLOCKS, [path(0), path(1), path(2)]),
    row!(__NR_keyctl, Plain, BLOCKS, by KEYCTL),
];
