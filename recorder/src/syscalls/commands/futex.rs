//! `futex(word, operation, value, timeout or count, second word, value)`.
//!
//! The private and realtime bits do not change what is touched. The kernel writes the word of a priority-inheriting
//! futex also where it fails: the bit that says "somebody waits" stays.

use crate::syscalls::spec::{Size::*, *};

const WORD: MemArg = input(0, Fixed(4));
const LOCK: MemArg = inout(0, Fixed(4)).always();
const TIMEOUT: MemArg = input(3, Fixed(16));

pub(in crate::syscalls) static FUTEX: CommandSet = CommandSet {
    arg: 1,
    shift: 0,
    mask: 0x7f,
    commands: &[
        command(0, &[WORD, TIMEOUT]).flags(BLOCKS),                               // WAIT
        command(1, &[address(0)]),                                                // WAKE
        command(2, &[]),                                                          // FD, gone
        command(3, &[address(0), address(4)]),                                    // REQUEUE
        command(4, &[WORD, address(4)]),                                          // CMP_REQUEUE
        command(5, &[address(0), inout(4, Fixed(4))]),                            // WAKE_OP
        command(6, &[LOCK, TIMEOUT]).flags(BLOCKS),                               // LOCK_PI
        command(7, &[LOCK]),                                                      // UNLOCK_PI
        command(8, &[LOCK]),                                                      // TRYLOCK_PI
        command(9, &[WORD, TIMEOUT]).flags(BLOCKS),                               // WAIT_BITSET
        command(10, &[address(0)]),                                               // WAKE_BITSET
        command(11, &[WORD, TIMEOUT, inout(4, Fixed(4)).always()]).flags(BLOCKS), // WAIT_REQUEUE_PI
        command(12, &[WORD, inout(4, Fixed(4)).always()]),                        // CMP_REQUEUE_PI
        command(13, &[LOCK, TIMEOUT]).flags(BLOCKS),                              // LOCK_PI2
    ],
    otherwise: Otherwise::NoMemory,
}
.checked();
