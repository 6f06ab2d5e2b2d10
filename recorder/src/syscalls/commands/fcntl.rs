//! `fcntl(fd, command, argument)`.

use crate::syscalls::spec::{Size::*, *};

/// `struct flock`.
const FLOCK: u32 = 32;

pub(in crate::syscalls) static FCNTL: CommandSet = CommandSet {
    arg: 1,
    shift: 0,
    mask: u32::MAX,
    commands: &[
        command(0, &[]).flags(NEW_FD),                        // F_DUPFD
        command(1, &[]),                                      // F_GETFD
        command(2, &[]),                                      // F_SETFD
        command(3, &[]),                                      // F_GETFL
        command(4, &[]),                                      // F_SETFL
        command(5, &[inout(2, Fixed(FLOCK))]),                // F_GETLK
        command(6, &[input(2, Fixed(FLOCK))]),                // F_SETLK
        command(7, &[input(2, Fixed(FLOCK))]).flags(BLOCKS),  // F_SETLKW
        command(8, &[]),                                      // F_SETOWN
        command(9, &[]),                                      // F_GETOWN
        command(10, &[]),                                     // F_SETSIG
        command(11, &[]),                                     // F_GETSIG
        command(15, &[input(2, Fixed(8))]),                   // F_SETOWN_EX
        command(16, &[out(2, Fixed(8))]),                     // F_GETOWN_EX
        command(17, &[out(2, Fixed(8))]),                     // F_GETOWNER_UIDS
        command(36, &[inout(2, Fixed(FLOCK))]),               // F_OFD_GETLK
        command(37, &[input(2, Fixed(FLOCK))]),               // F_OFD_SETLK
        command(38, &[input(2, Fixed(FLOCK))]).flags(BLOCKS), // F_OFD_SETLKW
        command(1024, &[]),                                   // F_SETLEASE
        command(1025, &[]),                                   // F_GETLEASE
        command(1026, &[]),                                   // F_NOTIFY
        command(1027, &[]),                                   // F_DUPFD_QUERY
        command(1028, &[]),                                   // F_CREATED_QUERY
        command(1029, &[]),                                   // F_CANCELLK
        command(1030, &[]).flags(NEW_FD),                     // F_DUPFD_CLOEXEC
        command(1031, &[]),                                   // F_SETPIPE_SZ
        command(1032, &[]),                                   // F_GETPIPE_SZ
        command(1033, &[]),                                   // F_ADD_SEALS
        command(1034, &[]),                                   // F_GET_SEALS
        command(1035, &[out(2, Fixed(8))]),                   // F_GET_RW_HINT
        command(1036, &[input(2, Fixed(8))]),                 // F_SET_RW_HINT
        command(1037, &[out(2, Fixed(8))]),                   // F_GET_FILE_RW_HINT
        command(1038, &[input(2, Fixed(8))]),                 // F_SET_FILE_RW_HINT
        command(1039, &[inout(2, Fixed(8))]),                 // F_GETDELEG
        command(1040, &[input(2, Fixed(8))]),                 // F_SETDELEG
    ],
    otherwise: Otherwise::Unknown,
}
.checked();
