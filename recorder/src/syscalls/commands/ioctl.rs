//! `ioctl(fd, number, argument)`: a few hundred numbers that programs use, and a rule for the rest.
//!
//! Numbers of the `_IOC` kind carry direction and size, and most drivers keep to it: the rule reads those. Listed are the
//! numbers from before that scheme, the ones whose encoding is wrong, and the ones whose structure has an open end.
//! Drivers known to put pointers inside their structures are refused by their letter: the rule would be wrong for them.

use crate::syscalls::spec::{Size::*, *};

const NOTHING: &[MemArg] = &[];
const IN_1: &[MemArg] = &[input(2, Fixed(1))];
const IN_4: &[MemArg] = &[input(2, Fixed(4))];
const IN_8: &[MemArg] = &[input(2, Fixed(8))];
const IN_16: &[MemArg] = &[input(2, Fixed(16))];
const IN_18: &[MemArg] = &[input(2, Fixed(18))];
const IN_36: &[MemArg] = &[input(2, Fixed(36))];
const IN_40: &[MemArg] = &[input(2, Fixed(40))];
const IN_68: &[MemArg] = &[input(2, Fixed(68))];
const IN_72: &[MemArg] = &[input(2, Fixed(72))];
const IN_120: &[MemArg] = &[input(2, Fixed(120))];
const IN_232: &[MemArg] = &[input(2, Fixed(232))];
const IN_304: &[MemArg] = &[input(2, Fixed(304))];
const INOUT_4: &[MemArg] = &[inout(2, Fixed(4))];
const INOUT_32: &[MemArg] = &[inout(2, Fixed(32))];
const INOUT_40: &[MemArg] = &[inout(2, Fixed(40))];
const INOUT_68: &[MemArg] = &[inout(2, Fixed(68))];
const OUT_1: &[MemArg] = &[out(2, Fixed(1))];
const OUT_2: &[MemArg] = &[out(2, Fixed(2))];
const OUT_4: &[MemArg] = &[out(2, Fixed(4))];
const OUT_6: &[MemArg] = &[out(2, Fixed(6))];
const OUT_8: &[MemArg] = &[out(2, Fixed(8))];
const OUT_16: &[MemArg] = &[out(2, Fixed(16))];
const OUT_18: &[MemArg] = &[out(2, Fixed(18))];
const OUT_32: &[MemArg] = &[out(2, Fixed(32))];
const OUT_36: &[MemArg] = &[out(2, Fixed(36))];
const OUT_40: &[MemArg] = &[out(2, Fixed(40))];
const OUT_72: &[MemArg] = &[out(2, Fixed(72))];
const OUT_80: &[MemArg] = &[out(2, Fixed(80))];
const OUT_232: &[MemArg] = &[out(2, Fixed(232))];

/// Extents, deduplicated ranges and digests follow their headers.
const FIEMAP: &[MemArg] = &[input(2, Fixed(32)), out(2, Flexible { header: 32, count: 20, room: 24, width: 4, item: 56 })];
const DEDUPE: &[MemArg] = &[inout(2, Flexible { header: 24, count: 16, room: 16, width: 2, item: 32 })];
const VERITY: &[MemArg] = &[input(2, Fixed(4)), out(2, Flexible { header: 4, count: 2, room: 2, width: 2, item: 1 })];
const ENTROPY: &[MemArg] = &[input(2, Flexible { header: 8, count: 4, room: 4, width: 4, item: 1 })];
const INTERFACES: &[MemArg] = &[inout(2, InterfaceList)];

/// What the rule gives for a number that writes, reads, or does both, from the program's point of view.
pub(in crate::syscalls) const ENCODED: [&[MemArg]; 4] = [NOTHING, &[input(2, Encoded)], &[out(2, Encoded)], &[inout(2, Encoded)]];

/// Letters of drivers whose structures hold pointers or describe memory that is written later.
const HIDDEN_POINTERS: &[(u8, &str)] = &[
    (b'A', "sound devices take pointers inside their structures"),
    (b'B', "hypercalls take pointers inside their structures"),
    (b'F', "frame buffers take pointers inside their structures"),
    (b'N', "NVMe commands take pointers inside their structures"),
    (b'U', "USB requests are filled in after the call has returned"),
    (b'V', "video devices take pointers inside their structures"),
    (b'X', "this file system takes pointers inside its structures"),
    (b'b', "binder transactions take pointers inside their structures"),
    (b'd', "graphics devices take pointers inside their structures"),
    (b'i', "InfiniBand takes pointers inside its structures"),
    (0x1b, "InfiniBand takes pointers inside its structures"),
    (0x94, "this file system takes pointers inside its structures"),
    (0xaa, "page faults would be handled by another thread or process, out of sight"),
    (0xae, "virtual machines write guest memory at any time"),
    (0xaf, "virtual devices write memory at any time"),
    (0xb3, "memory cards take pointers inside their structures"),
];

/// Numbers under those letters that the rule does fit.
const HARMLESS: &[u32] = &[
    0x4020_940d, // FICLONERANGE
    0x8100_9431, // FS_IOC_GETFSLABEL
    0x4100_9432, // FS_IOC_SETFSLABEL
    0x5000_9403, // BTRFS_IOC_RESIZE
    0x8400_941f, // BTRFS_IOC_FS_INFO
    0xd000_941e, // BTRFS_IOC_DEV_INFO
    0xd000_9412, // BTRFS_IOC_INO_LOOKUP
    0x8008_9418, // BTRFS_IOC_START_SYNC
    0x801c_581f, // FS_IOC_FSGETXATTR
    0x401c_5820, // FS_IOC_FSSETXATTR
    0xc018_5879, // FITRIM
];

/// What an unlisted number does, if it can be told.
pub(in crate::syscalls) fn encoded(number: u32) -> Result<&'static [MemArg], Option<&'static str>> {
    let (direction, size) = (number >> 30, (number >> 16) & 0x3fff);
    if direction == 0 || size == 0 {
        return Err(None);
    }
    let letter = (number >> 8) as u8;
    if let Some((_, reason)) = HIDDEN_POINTERS.iter().find(|(l, _)| *l == letter)
        && !HARMLESS.contains(&number)
    {
        return Err(Some(reason));
    }
    Ok(ENCODED[direction as usize])
}

pub(in crate::syscalls) static IOCTL: CommandSet = CommandSet {
    arg: 1,
    shift: 0,
    mask: u32::MAX,
    commands: &[
        command(0x1, INOUT_4),                  // FIBMAP
        command(0x2, OUT_4),                    // FIGETBSZ
        command(0x301, OUT_16),                 // HDIO_GETGEO
        command(0x125d, IN_4),                  // BLKROSET
        command(0x125e, OUT_4),                 // BLKROGET
        command(0x125f, NOTHING),               // BLKRRPART
        command(0x1260, OUT_8),                 // BLKGETSIZE
        command(0x1261, NOTHING),               // BLKFLSBUF
        command(0x1262, NOTHING),               // BLKRASET
        command(0x1263, OUT_8),                 // BLKRAGET
        command(0x1264, NOTHING),               // BLKFRASET
        command(0x1265, OUT_8),                 // BLKFRAGET
        command(0x1267, OUT_2),                 // BLKSECTGET
        command(0x1268, OUT_4),                 // BLKSSZGET
        command(0x1277, IN_16),                 // BLKDISCARD
        command(0x1278, OUT_4),                 // BLKIOMIN
        command(0x1279, OUT_4),                 // BLKIOOPT
        command(0x127a, OUT_4),                 // BLKALIGNOFF
        command(0x127b, OUT_4),                 // BLKPBSZGET
        command(0x127c, OUT_4),                 // BLKDISCARDZEROES
        command(0x127d, IN_16),                 // BLKSECDISCARD
        command(0x127e, OUT_2),                 // BLKROTATIONAL
        command(0x127f, IN_16),                 // BLKZEROOUT
        command(0x4b31, OUT_1),                 // KDGETLED
        command(0x4b32, NOTHING),               // KDSETLED
        command(0x4b33, OUT_1),                 // KDGKBTYPE
        command(0x4b3a, NOTHING),               // KDSETMODE
        command(0x4b3b, OUT_4),                 // KDGETMODE
        command(0x4b44, OUT_4),                 // KDGKBMODE
        command(0x4b45, NOTHING),               // KDSKBMODE
        command(0x4b64, OUT_1),                 // KDGKBLED
        command(0x4b65, NOTHING),               // KDSKBLED
        command(0x4c00, NOTHING),               // LOOP_SET_FD
        command(0x4c01, NOTHING),               // LOOP_CLR_FD
        command(0x4c04, IN_232),                // LOOP_SET_STATUS64
        command(0x4c05, OUT_232),               // LOOP_GET_STATUS64
        command(0x4c06, NOTHING),               // LOOP_CHANGE_FD
        command(0x4c07, NOTHING),               // LOOP_SET_CAPACITY
        command(0x4c08, NOTHING),               // LOOP_SET_DIRECT_IO
        command(0x4c09, NOTHING),               // LOOP_SET_BLOCK_SIZE
        command(0x4c0a, IN_304),                // LOOP_CONFIGURE
        command(0x4c80, NOTHING),               // LOOP_CTL_ADD
        command(0x4c81, NOTHING),               // LOOP_CTL_REMOVE
        command(0x4c82, NOTHING),               // LOOP_CTL_GET_FREE
        command(0x5204, NOTHING),               // RNDZAPENTCNT
        command(0x5206, NOTHING),               // RNDCLEARPOOL
        command(0x5207, NOTHING),               // RNDRESEEDCRNG
        command(0x5401, OUT_36),                // TCGETS
        command(0x5402, IN_36),                 // TCSETS
        command(0x5403, IN_36),                 // TCSETSW
        command(0x5404, IN_36),                 // TCSETSF
        command(0x5405, OUT_18),                // TCGETA
        command(0x5406, IN_18),                 // TCSETA
        command(0x5407, IN_18),                 // TCSETAW
        command(0x5408, IN_18),                 // TCSETAF
        command(0x5409, NOTHING),               // TCSBRK
        command(0x540a, NOTHING),               // TCXONC
        command(0x540b, NOTHING),               // TCFLSH
        command(0x540c, NOTHING),               // TIOCEXCL
        command(0x540d, NOTHING),               // TIOCNXCL
        command(0x540e, NOTHING),               // TIOCSCTTY
        command(0x540f, OUT_4),                 // TIOCGPGRP
        command(0x5410, IN_4),                  // TIOCSPGRP
        command(0x5411, OUT_4),                 // TIOCOUTQ, SIOCOUTQ
        command(0x5412, IN_1),                  // TIOCSTI
        command(0x5413, OUT_8),                 // TIOCGWINSZ
        command(0x5414, IN_8),                  // TIOCSWINSZ
        command(0x5415, OUT_4),                 // TIOCMGET
        command(0x5416, IN_4),                  // TIOCMBIS
        command(0x5417, IN_4),                  // TIOCMBIC
        command(0x5418, IN_4),                  // TIOCMSET
        command(0x5419, OUT_4),                 // TIOCGSOFTCAR
        command(0x541a, IN_4),                  // TIOCSSOFTCAR
        command(0x541b, OUT_4),                 // FIONREAD, SIOCINQ
        command(0x541d, NOTHING),               // TIOCCONS
        command(0x541e, OUT_72),                // TIOCGSERIAL
        command(0x541f, IN_72),                 // TIOCSSERIAL
        command(0x5420, IN_4),                  // TIOCPKT
        command(0x5421, IN_4),                  // FIONBIO
        command(0x5422, NOTHING),               // TIOCNOTTY
        command(0x5423, IN_4),                  // TIOCSETD
        command(0x5424, OUT_4),                 // TIOCGETD
        command(0x5425, NOTHING),               // TCSBRKP
        command(0x5427, NOTHING),               // TIOCSBRK
        command(0x5428, NOTHING),               // TIOCCBRK
        command(0x5429, OUT_4),                 // TIOCGSID
        command(0x542e, OUT_32),                // TIOCGRS485
        command(0x542f, INOUT_32),              // TIOCSRS485
        command(0x5437, NOTHING),               // TIOCVHANGUP
        command(0x5441, NOTHING).flags(NEW_FD), // TIOCGPTPEER
        command(0x5450, NOTHING),               // FIONCLEX
        command(0x5451, NOTHING),               // FIOCLEX
        command(0x5452, IN_4),                  // FIOASYNC
        command(0x5459, OUT_4),                 // TIOCSERGETLSR
        command(0x545c, NOTHING),               // TIOCMIWAIT
        command(0x545d, OUT_80),                // TIOCGICOUNT
        command(0x5460, OUT_8),                 // FIOQSIZE
        command(0x5600, OUT_4),                 // VT_OPENQRY
        command(0x5601, OUT_8),                 // VT_GETMODE
        command(0x5602, IN_8),                  // VT_SETMODE
        command(0x5603, OUT_6),                 // VT_GETSTATE
        command(0x5605, NOTHING),               // VT_RELDISP
        command(0x5606, NOTHING),               // VT_ACTIVATE
        command(0x5607, NOTHING),               // VT_WAITACTIVE
        command(0x7001, NOTHING),               // RTC_AIE_ON
        command(0x7002, NOTHING),               // RTC_AIE_OFF
        command(0x7003, NOTHING),               // RTC_UIE_ON
        command(0x7004, NOTHING),               // RTC_UIE_OFF
        command(0x7005, NOTHING),               // RTC_PIE_ON
        command(0x7006, NOTHING),               // RTC_PIE_OFF
        command(0x8901, IN_4),                  // FIOSETOWN
        command(0x8902, IN_4),                  // SIOCSPGRP
        command(0x8903, OUT_4),                 // FIOGETOWN
        command(0x8904, OUT_4),                 // SIOCGPGRP
        command(0x8905, OUT_4),                 // SIOCATMARK
        command(0x8906, OUT_16),                // SIOCGSTAMP
        command(0x8907, OUT_16),                // SIOCGSTAMPNS
        command(0x890b, IN_120),                // SIOCADDRT
        command(0x890c, IN_120),                // SIOCDELRT
        command(0x8910, INOUT_40),              // SIOCGIFNAME
        command(0x8912, INTERFACES),            // SIOCGIFCONF
        command(0x8913, INOUT_40),              // SIOCGIFFLAGS
        command(0x8914, IN_40),                 // SIOCSIFFLAGS
        command(0x8915, INOUT_40),              // SIOCGIFADDR
        command(0x8916, IN_40),                 // SIOCSIFADDR
        command(0x8917, INOUT_40),              // SIOCGIFDSTADDR
        command(0x8918, IN_40),                 // SIOCSIFDSTADDR
        command(0x8919, INOUT_40),              // SIOCGIFBRDADDR
        command(0x891a, IN_40),                 // SIOCSIFBRDADDR
        command(0x891b, INOUT_40),              // SIOCGIFNETMASK
        command(0x891c, IN_40),                 // SIOCSIFNETMASK
        command(0x891d, INOUT_40),              // SIOCGIFMETRIC
        command(0x891e, IN_40),                 // SIOCSIFMETRIC
        command(0x891f, INOUT_40),              // SIOCGIFMEM
        command(0x8920, IN_40),                 // SIOCSIFMEM
        command(0x8921, INOUT_40),              // SIOCGIFMTU
        command(0x8922, IN_40),                 // SIOCSIFMTU
        command(0x8923, IN_40),                 // SIOCSIFNAME
        command(0x8924, IN_40),                 // SIOCSIFHWADDR
        command(0x8925, INOUT_40),              // SIOCGIFENCAP
        command(0x8926, IN_40),                 // SIOCSIFENCAP
        command(0x8927, INOUT_40),              // SIOCGIFHWADDR
        command(0x8929, INOUT_40),              // SIOCGIFSLAVE
        command(0x8930, IN_40),                 // SIOCSIFSLAVE
        command(0x8931, IN_40),                 // SIOCADDMULTI
        command(0x8932, IN_40),                 // SIOCDELMULTI
        command(0x8933, INOUT_40),              // SIOCGIFINDEX
        command(0x8934, IN_40),                 // SIOCSIFPFLAGS
        command(0x8935, INOUT_40),              // SIOCGIFPFLAGS
        command(0x8936, IN_40),                 // SIOCDIFADDR
        command(0x8937, IN_40),                 // SIOCSIFHWBROADCAST
        command(0x8942, INOUT_40),              // SIOCGIFTXQLEN
        command(0x8943, IN_40),                 // SIOCSIFTXQLEN
        command(0x8947, INOUT_40),              // SIOCGMIIPHY
        command(0x8948, INOUT_40),              // SIOCGMIIREG
        command(0x8949, IN_40),                 // SIOCSMIIREG
        command(0x894b, OUT_4),                 // SIOCOUTQNSD
        command(0x894c, NOTHING).flags(NEW_FD), // SIOCGSKNS
        command(0x8953, IN_68),                 // SIOCDARP
        command(0x8954, INOUT_68),              // SIOCGARP
        command(0x8955, IN_68),                 // SIOCSARP
        command(0x8970, INOUT_40),              // SIOCGIFMAP
        command(0x8971, IN_40),                 // SIOCSIFMAP
        command(0xb701, NOTHING).flags(NEW_FD), // NS_GET_USERNS
        command(0xb702, NOTHING).flags(NEW_FD), // NS_GET_PARENT
        command(0xb703, NOTHING),               // NS_GET_NSTYPE
        command(0xb704, OUT_4),                 // NS_GET_OWNER_UID
        command(0xff01, NOTHING).flags(NEW_FD), // PIDFD_GET_CGROUP_NAMESPACE
        command(0xff02, NOTHING).flags(NEW_FD), // PIDFD_GET_IPC_NAMESPACE
        command(0xff03, NOTHING).flags(NEW_FD), // PIDFD_GET_MNT_NAMESPACE
        command(0xff04, NOTHING).flags(NEW_FD), // PIDFD_GET_NET_NAMESPACE
        command(0xff05, NOTHING).flags(NEW_FD), // PIDFD_GET_PID_NAMESPACE
        command(0xff06, NOTHING).flags(NEW_FD), // PIDFD_GET_PID_FOR_CHILDREN_NAMESPACE
        command(0xff07, NOTHING).flags(NEW_FD), // PIDFD_GET_TIME_NAMESPACE
        command(0xff08, NOTHING).flags(NEW_FD), // PIDFD_GET_TIME_FOR_CHILDREN_NAMESPACE
        command(0xff09, NOTHING).flags(NEW_FD), // PIDFD_GET_USER_NAMESPACE
        command(0xff0a, NOTHING).flags(NEW_FD), // PIDFD_GET_UTS_NAMESPACE
        command(0x4004_4581, NOTHING),          // EVIOCRMFF: a number
        command(0x4004_4590, NOTHING),          // EVIOCGRAB: a number
        command(0x4004_4591, NOTHING),          // EVIOCREVOKE: a number
        command(0x4004_5436, NOTHING),          // TIOCSIG: a number, though encoded as a pointer
        command(0x4004_54ca, INOUT_40),         // TUNSETIFF: encoded as an int, moved as struct ifreq
        command(0x4004_54cb, NOTHING),          // TUNSETPERSIST: a number
        command(0x4004_54cc, NOTHING),          // TUNSETOWNER: a number
        command(0x4004_54cd, NOTHING),          // TUNSETLINK: a number
        command(0x4004_54ce, NOTHING),          // TUNSETGROUP: a number
        command(0x4004_54d0, NOTHING),          // TUNSETOFFLOAD: a number
        command(0x4004_54d9, IN_40),            // TUNSETQUEUE
        command(0x4004_9409, NOTHING),          // FICLONE: a descriptor, not a pointer
        command(0x4008_1271, IN_4),             // BLKBSZSET
        command(0x4008_5203, ENTROPY),          // RNDADDENTROPY
        command(0x4008_6602, IN_4),             // FS_IOC_SETFLAGS
        command(0x4008_700c, NOTHING),          // RTC_IRQP_SET: a number
        command(0x4008_7602, IN_4),             // FS_IOC_SETVERSION
        command(0x8004_54d2, OUT_40),           // TUNGETIFF
        command(0x8008_1270, OUT_4),            // BLKBSZGET: encoded as a long, moved as an int
        command(0x8008_6601, OUT_4),            // FS_IOC_GETFLAGS: encoded as a long, moved as an int
        command(0x8008_7601, OUT_4),            // FS_IOC_GETVERSION
        command(0xc004_5877, NOTHING),          // FIFREEZE
        command(0xc004_5878, NOTHING),          // FITHAW
        command(0xc004_6686, VERITY),           // FS_IOC_MEASURE_VERITY
        command(0xc018_9436, DEDUPE),           // FIDEDUPERANGE
        command(0xc020_660b, FIEMAP),           // FS_IOC_FIEMAP
    ],
    otherwise: Otherwise::IoctlNumber,
}
.checked();
