//! `shmctl`, `semctl`, `msgctl`: structures of the 64-bit interface only, for x86-64 has no other.

use crate::syscalls::spec::{Size::*, *};

const SHMID: u32 = 112;
const SEMID: u32 = 104;
const MSQID: u32 = 120;

pub(in crate::syscalls) static SHMCTL: CommandSet = CommandSet {
    arg: 1,
    shift: 0,
    mask: u32::MAX,
    commands: &[
        command(0, &[]),                       // IPC_RMID
        command(1, &[input(2, Fixed(SHMID))]), // IPC_SET
        command(2, &[out(2, Fixed(SHMID))]),   // IPC_STAT
        command(3, &[out(2, Fixed(72))]),      // IPC_INFO
        command(11, &[]),                      // SHM_LOCK
        command(12, &[]),                      // SHM_UNLOCK
        command(13, &[out(2, Fixed(SHMID))]),  // SHM_STAT
        command(14, &[out(2, Fixed(48))]),     // SHM_INFO
        command(15, &[out(2, Fixed(SHMID))]),  // SHM_STAT_ANY
    ],
    otherwise: Otherwise::NoMemory,
}
.checked();

pub(in crate::syscalls) static SEMCTL: CommandSet = CommandSet {
    arg: 2,
    shift: 0,
    mask: u32::MAX,
    commands: &[
        command(0, &[]),                           // IPC_RMID
        command(1, &[input(3, Fixed(SEMID))]),     // IPC_SET
        command(2, &[out(3, Fixed(SEMID))]),       // IPC_STAT
        command(3, &[out(3, Fixed(40))]),          // IPC_INFO
        command(11, &[]),                          // GETPID
        command(12, &[]),                          // GETVAL
        command(13, &[out(3, SemaphoreValues)]),   // GETALL
        command(14, &[]),                          // GETNCNT
        command(15, &[]),                          // GETZCNT
        command(16, &[]),                          // SETVAL
        command(17, &[input(3, SemaphoreValues)]), // SETALL
        command(18, &[out(3, Fixed(SEMID))]),      // SEM_STAT
        command(19, &[out(3, Fixed(40))]),         // SEM_INFO
        command(20, &[out(3, Fixed(SEMID))]),      // SEM_STAT_ANY
    ],
    otherwise: Otherwise::NoMemory,
}
.checked();

pub(in crate::syscalls) static MSGCTL: CommandSet = CommandSet {
    arg: 1,
    shift: 0,
    mask: u32::MAX,
    commands: &[
        command(0, &[]),                       // IPC_RMID
        command(1, &[input(2, Fixed(MSQID))]), // IPC_SET
        command(2, &[out(2, Fixed(MSQID))]),   // IPC_STAT
        command(3, &[out(2, Fixed(32))]),      // IPC_INFO
        command(11, &[out(2, Fixed(MSQID))]),  // MSG_STAT
        command(12, &[out(2, Fixed(32))]),     // MSG_INFO
        command(13, &[out(2, Fixed(MSQID))]),  // MSG_STAT_ANY
    ],
    otherwise: Otherwise::NoMemory,
}
.checked();
