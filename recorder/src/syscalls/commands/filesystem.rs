//! `sysfs`, `fsconfig`, `quotactl`, `quotactl_fd`.

use crate::syscalls::spec::{Size::*, *};

pub(in crate::syscalls) static SYSFS: CommandSet = CommandSet {
    arg: 0,
    shift: 0,
    mask: u32::MAX,
    commands: &[command(1, &[path(1)]), refuse(2, "writes a name without being told how much room there is"), command(3, &[])],
    otherwise: Otherwise::NoMemory,
}
.checked();

pub(in crate::syscalls) static FSCONFIG: CommandSet = CommandSet {
    arg: 1,
    shift: 0,
    mask: u32::MAX,
    commands: &[
        command(0, &[path(2)]),                   // SET_FLAG
        command(1, &[path(2), path(3)]),          // SET_STRING
        command(2, &[path(2), input(3, Arg(4))]), // SET_BINARY
        command(3, &[path(2), path(3)]),          // SET_PATH
        command(4, &[path(2), path(3)]),          // SET_PATH_EMPTY
        command(5, &[path(2)]),                   // SET_FD
        command(6, &[]),                          // CMD_CREATE
        command(7, &[]),                          // CMD_RECONFIGURE
        command(8, &[]),                          // CMD_CREATE_EXCL
    ],
    otherwise: Otherwise::NoMemory,
}
.checked();

const XFS_QUOTA: u32 = 112;

/// The data is argument 3 in both calls; the low byte of the command says whose quota is meant.
const QUOTA_COMMANDS: &[Command] = &[
    command(0x5801, &[input(3, Fixed(4))]),         // Q_XQUOTAON
    command(0x5802, &[input(3, Fixed(4))]),         // Q_XQUOTAOFF
    command(0x5803, &[out(3, Fixed(XFS_QUOTA))]),   // Q_XGETQUOTA
    command(0x5804, &[input(3, Fixed(XFS_QUOTA))]), // Q_XSETQLIM
    command(0x5805, &[out(3, Fixed(80))]),          // Q_XGETQSTAT
    command(0x5806, &[input(3, Fixed(4))]),         // Q_XQUOTARM
    command(0x5807, &[]),                           // Q_XQUOTASYNC
    command(0x5808, &[inout(3, Fixed(160))]),       // Q_XGETQSTATV
    command(0x5809, &[out(3, Fixed(XFS_QUOTA))]),   // Q_XGETNEXTQUOTA
    command(0x80_0001, &[]),                        // Q_SYNC
    command(0x80_0002, &[path(3)]),                 // Q_QUOTAON
    command(0x80_0003, &[]),                        // Q_QUOTAOFF
    command(0x80_0004, &[out(3, Fixed(4))]),        // Q_GETFMT
    command(0x80_0005, &[out(3, Fixed(24))]),       // Q_GETINFO
    command(0x80_0006, &[input(3, Fixed(24))]),     // Q_SETINFO
    command(0x80_0007, &[out(3, Fixed(72))]),       // Q_GETQUOTA
    command(0x80_0008, &[input(3, Fixed(72))]),     // Q_SETQUOTA
    command(0x80_0009, &[out(3, Fixed(72))]),       // Q_GETNEXTQUOTA
];

pub(in crate::syscalls) static QUOTACTL: CommandSet =
    CommandSet { arg: 0, shift: 8, mask: 0xff_ffff, commands: QUOTA_COMMANDS, otherwise: Otherwise::Unknown }.checked();

pub(in crate::syscalls) static QUOTACTL_FD: CommandSet =
    CommandSet { arg: 1, shift: 8, mask: 0xff_ffff, commands: QUOTA_COMMANDS, otherwise: Otherwise::Unknown }.checked();
