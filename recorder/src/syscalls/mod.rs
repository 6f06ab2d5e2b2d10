//! What every system call does to the program's memory.
//!
//! The recorder executes the guest's system calls natively and has to know, for each: which memory the kernel wrote (replay
//! must put the same bytes there without the call), which it read (reads of shared memory are accesses like any other), which
//! arguments are pointers at all (those into shared mappings are replaced, for the mapping itself is closed to accesses) and
//! who must handle it. Here that knowledge is data: a row per number, a list per multiplexed call, and one walker that gives
//! the rows their meaning.
//!
//! ```text
//!              table: nr → Spec ──► commands: ioctl, fcntl, prctl … → the command's arguments
//!                                          │
//!  Call::capture ─► class ─► for_each_pointer ─► [the call] ─► for_each_input ─► for_each_output
//!   before the call: value-result lengths           with its result: what was really moved
//! ```
//!
//! I1. Every byte that the kernel wrote lies in an output; the tests run the calls and compare.
//! I2. Outputs lie inside the buffers that the program gave. They may be larger than what was written only where the kernel
//!     does not tell (padding of structures, descriptor sets): such bytes are logged as they are and do no harm.
//! I3. A number, command or option that is not listed is never guessed: `Call::class` answers with a `Stop` that names it.
//! I4. Nothing here trusts the program's pointers: all of its memory is read through `GuestMemory`, which may fail.
//! I5. Nothing here allocates, panics or keeps state; it is built without `std` and without vector registers.
//!
//! Limits: arrays that lead to buffers (`iovec`, `msghdr`) are read again after the call. A call that overwrites its own
//! array, or another thread that does, makes the outputs follow the new contents.

mod call;
mod commands;
mod nested;
mod spec;
mod table;
mod walk;

#[cfg(test)]
mod tests;

pub use call::{Call, Pointer, Stop};
pub use spec::{BLOCKS, Class, Dir, FD_TABLE, Flags, KEEPS, NEW_FD, NONE, RESIZES, SIGMASK, Spec};
pub use table::{NUMBERS, all, lookup};
pub use walk::{GuestMemory, Place, Range};
