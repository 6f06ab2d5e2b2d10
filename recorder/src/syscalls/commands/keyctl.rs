//! `keyctl(operation, …)`. Reading calls answer with the full length and copy what fits.

use crate::syscalls::spec::{Size::*, *};

/// `struct keyctl_pkey_params` and the lengths in it: of what goes in, of what comes out or is compared.
const PKEY: MemArg = input(1, Fixed(40));
const PKEY_IN: MemArg = input(3, Field { arg: 1, offset: 4 });
const PKEY_IN2: MemArg = input(4, Field { arg: 1, offset: 8 });
const PKEY_OUT: MemArg = out(4, Field { arg: 1, offset: 8 });

pub(in crate::syscalls) static KEYCTL: CommandSet = CommandSet {
    arg: 0,
    shift: 0,
    mask: u32::MAX,
    commands: &[
        command(0, &[]),                        // GET_KEYRING_ID
        command(1, &[path(1)]),                 // JOIN_SESSION_KEYRING
        command(2, &[input(2, Arg(3))]),        // UPDATE
        command(3, &[]),                        // REVOKE
        command(4, &[]),                        // CHOWN
        command(5, &[]),                        // SETPERM
        command(6, &[out(2, Ret(3))]),          // DESCRIBE
        command(7, &[]),                        // CLEAR
        command(8, &[]),                        // LINK
        command(9, &[]),                        // UNLINK
        command(10, &[path(2), path(3)]),       // SEARCH
        command(11, &[out(2, Ret(3))]),         // READ
        command(12, &[input(2, Arg(3))]),       // INSTANTIATE
        command(13, &[]),                       // NEGATE
        command(14, &[]),                       // SET_REQKEY_KEYRING
        command(15, &[]),                       // SET_TIMEOUT
        command(16, &[]),                       // ASSUME_AUTHORITY
        command(17, &[out(2, Ret(3))]),         // GET_SECURITY
        command(18, &[]),                       // SESSION_TO_PARENT
        command(19, &[]),                       // REJECT
        command(20, &[input(2, AllIovecs(3))]), // INSTANTIATE_IOV
        command(21, &[]),                       // INVALIDATE
        command(22, &[]),                       // GET_PERSISTENT
        // A key derivation's parameters hold two pointers more, to what is only read.
        command(23, &[input(1, Fixed(12)), out(2, Ret(3)), input(4, Fixed(56))]), // DH_COMPUTE
        command(24, &[path(3), out(4, Fixed(56))]),                               // PKEY_QUERY
        command(25, &[PKEY, path(2), PKEY_IN, PKEY_OUT]),                         // PKEY_ENCRYPT
        command(26, &[PKEY, path(2), PKEY_IN, PKEY_OUT]),                         // PKEY_DECRYPT
        command(27, &[PKEY, path(2), PKEY_IN, PKEY_OUT]),                         // PKEY_SIGN
        command(28, &[PKEY, path(2), PKEY_IN, PKEY_IN2]),                         // PKEY_VERIFY
        command(29, &[path(2), path(3)]),                                         // RESTRICT_KEYRING
        command(30, &[]),                                                         // MOVE
        command(31, &[out(1, Arg(2))]),                                           // CAPABILITIES, padded with zeros
        command(32, &[]),                                                         // WATCH_KEY
    ],
    otherwise: Otherwise::Unknown,
}
.checked();
