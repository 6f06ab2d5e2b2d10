//! The pages through which the controlling process and the replay processes talk.
//!
//! One shared file of [`SLOTS`] slots; each replay process has one of them. The controller writes a command and counts `request` up; the
//! process carries it out, fills the reply in and makes `reply` equal to `request`. Both wait by futex.
//!
//! ```text
//!    0  4 request   4 4 reply   8 4 cancel   12 4 progress   16 4 command   20 4 status   24 8 data length
//!   32  8 × 8 arguments     96  8 × 16 values
//! 4096  data, 60 KiB
//! ```
//!
//! C1. Between a request and its reply the slot belongs to the process, else to the controller; `cancel` is the controller's always.
//! C2. `request` and `reply` are stored with Release and loaded with Acquire; they order all else.
//! C3. Whoever dies leaves the other waiting, so each wait of the controller is bounded and looks whether the process is alive; processes
//!     are killed by the kernel with the controller.
//! C4. A process that carries out a command counts `progress` up whenever a piece of bounded work is done: a slice, an event, a write, a page
//!     hashed. One that does not for long is broken, and the controller ends it.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

pub const SLOT_BYTES: usize = 64 << 10;
pub const SLOTS: usize = 256;
const DATA_OFFSET: usize = 4096;
/// The most bytes that one command or reply carries.
pub const DATA_BYTES: usize = SLOT_BYTES - DATA_OFFSET;

#[repr(C)]
pub struct Head {
    pub request: AtomicU32,
    pub reply: AtomicU32,
    /// Not 0: the running command is to end soon.
    pub cancel: AtomicU32,
    pub progress: AtomicU32,
    command: AtomicU32,
    status: AtomicU32,
    data_length: AtomicU64,
    args: [AtomicU64; 8],
    values: [AtomicU64; VALUES],
}

const VALUES: usize = 16;
const _: () = assert!(size_of::<Head>() <= DATA_OFFSET);

macro_rules! numbers {
    ($(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$vmeta:meta])* $variant:ident = $value:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u32)]
        $vis enum $name { $($(#[$vmeta])* $variant = $value,)* }

        impl $name {
            pub const fn from_raw(raw: u32) -> Option<Self> {
                match raw { $($value => Some(Self::$variant),)* _ => None }
            }
        }
    };
}

numbers! {
    /// What the controller can ask for.
    pub enum Command {
        /// Arguments: bbcount and pc of the limit (bbcount 0: none; pc 0: the first time of that bbcount), [`run_flags`], nanoseconds
        /// after which to pause (0: never). Replies with a [`Reason`].
        Run = 1,
        /// Arguments: bbcount and pc up to which to step; bbcount 0: one step. Replies with a [`Reason`]; [`value::PREVIOUS_BBCOUNT`] and [`value::PREVIOUS_PC`].
        Step = 2,
        /// Data: u64 number of breakpoints, of watchpoints, of conditions; pcs; (address, length, kind) triples, kind 0 write, 1 read,
        /// 2 access; a condition's breakpoint's pc, its length, its code.
        SetPoints = 3,
        /// Arguments: address, length. Data: as many bytes as there are.
        Read = 4,
        /// Data: [`recording::Registers`] as twenty words.
        Registers = 5,
        /// Data: the xsave image, standard format.
        Xsave = 6,
        /// Argument: index of the first. Data: [`crate::space::Map`]s as words, as many as fit; value 0: how many there are in all.
        Mappings = 7,
        /// Argument: slot of the new process. Value 0: its pid.
        Fork = 8,
        /// Value 0: a hash of all readable memory.
        Hash = 9,
        /// Arguments: address, length. Values: a [`Status`], bbcount, pc.
        SharedStatus = 10,
    }
}

pub mod run_flags {
    /// Stop at breakpoints and watchpoints.
    pub const POINTS: u64 = 1;
    /// Do not stop at them, remember the last hit.
    pub const NOTE_LAST: u64 = 2;
    /// Execute one instruction before looking at breakpoints and the limit.
    pub const MOVE_FIRST: u64 = 4;
}

numbers! {
    /// Why a [`Command::Run`] or [`Command::Step`] ended. The process is at the time that the values give.
    pub enum Reason {
        /// The limit, or the end of a step.
        Arrived = 1,
        Breakpoint = 2,
        /// Detail: index of the watchpoint.
        Watchpoint = 3,
        /// The end of history.
        End = 4,
        /// The time given ran out.
        Paused = 5,
        Cancelled = 6,
        /// The limit was passed without being met.
        Missed = 7,
        /// Data: what differs. The process can only be read now.
        Diverged = 8,
        /// Data: why. The process is gone.
        Failed = 9,
        /// The same before anything ran: the recorded state cannot be rebuilt here.
        Unfit = 10,
    }
}

numbers! {
    pub enum Status {
        Private = 0,
        NeverAccessed = 1,
        LastAccessed = 2,
    }
}

/// Indices of the values of a reply.
pub mod value {
    pub const BBCOUNT: usize = 0;
    pub const PC: usize = 1;
    pub const REASON: usize = 2;
    pub const DETAIL: usize = 3;
    /// Events consumed.
    pub const EVENTS: usize = 4;
    /// 0, or the [`super::Reason`] of the last hit, its time and its detail.
    pub const HIT: usize = 5;
    pub const HIT_BBCOUNT: usize = 6;
    pub const HIT_PC: usize = 7;
    pub const HIT_DETAIL: usize = 8;
    /// bbcount (0: none) and pc of the time before the last step.
    pub const PREVIOUS_BBCOUNT: usize = 9;
    pub const PREVIOUS_PC: usize = 10;
    /// The time when the running began is not asked for; this is the number of memory hashes compared.
    pub const HASHES: usize = 11;
    /// For commands that run nothing.
    pub const FIRST: usize = 12;
    pub const SECOND: usize = 13;
    pub const THIRD: usize = 14;
}

/// One slot, from either side.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    base: *mut u8,
}

// SAFETY: a slot is atomics and bytes that C1 gives to one side at a time.
unsafe impl Send for Slot {}

impl Slot {
    /// # Safety
    /// `control` points to the whole mapped control file, which stays mapped as long as the slot is used; `index < SLOTS`.
    pub const unsafe fn new(control: *mut u8, index: usize) -> Self {
        // SAFETY: in the mapping, by the caller's promise.
        Self { base: unsafe { control.add(index * SLOT_BYTES) } }
    }

    pub fn head(&self) -> &Head {
        // SAFETY: mapped and aligned (see `new`); the head holds only atomics.
        unsafe { &*self.base.cast::<Head>() }
    }

    /// Tells that a piece of the command's work is done (C4).
    pub fn beat(&self) {
        self.head().progress.fetch_add(1, Ordering::Relaxed);
    }

    /// Writes a command's parts; the caller then counts `request` up.
    pub fn set_command(&self, command: Command, args: &[u64], data: &[u8]) {
        let head = self.head();
        head.command.store(command as u32, Ordering::Relaxed);
        for (index, slot) in head.args.iter().enumerate() {
            slot.store(args.get(index).copied().unwrap_or(0), Ordering::Relaxed);
        }
        self.set_data(data);
    }

    pub fn command(&self) -> Option<Command> {
        Command::from_raw(self.head().command.load(Ordering::Relaxed))
    }

    pub fn arg(&self, index: usize) -> u64 {
        self.head().args.get(index).map_or(0, |arg| arg.load(Ordering::Relaxed))
    }

    pub fn value(&self, index: usize) -> u64 {
        self.head().values.get(index).map_or(0, |value| value.load(Ordering::Relaxed))
    }

    pub fn set_value(&self, index: usize, value: u64) {
        if let Some(slot) = self.head().values.get(index) {
            slot.store(value, Ordering::Relaxed);
        }
    }

    /// 0: done; else the command was refused and the data say why.
    pub fn status(&self) -> u32 {
        self.head().status.load(Ordering::Relaxed)
    }

    pub fn set_status(&self, status: u32) {
        self.head().status.store(status, Ordering::Relaxed);
    }

    pub fn data_length(&self) -> usize {
        (self.head().data_length.load(Ordering::Relaxed) as usize).min(DATA_BYTES)
    }

    /// Copies as much of `data` as fits.
    pub fn set_data(&self, data: &[u8]) {
        let length = data.len().min(DATA_BYTES);
        // SAFETY: the data area is DATA_BYTES long and, by C1, ours now.
        unsafe { core::ptr::copy_nonoverlapping(data.as_ptr(), self.base.add(DATA_OFFSET), length) };
        self.head().data_length.store(length as u64, Ordering::Relaxed);
    }

    /// Copies the data out, as much as `to` has room for; returns how much.
    pub fn copy_data(&self, to: &mut [u8]) -> usize {
        let length = self.data_length().min(to.len());
        // SAFETY: as in `set_data`.
        unsafe { core::ptr::copy_nonoverlapping(self.base.add(DATA_OFFSET), to.as_mut_ptr(), length) };
        length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_side_writes_the_other_reads() {
        let mut file = alloc::vec![0u64; 2 * SLOT_BYTES / 8];
        // SAFETY: two slots of memory, alive to the end of the test.
        let slot = unsafe { Slot::new(file.as_mut_ptr().cast(), 1) };
        slot.set_command(Command::Read, &[7, 8], b"abc");
        slot.set_value(value::PC, 9);
        assert_eq!((slot.command(), slot.arg(0), slot.arg(1), slot.arg(2), slot.arg(99)), (Some(Command::Read), 7, 8, 0, 0));
        let mut data = [0; 8];
        assert_eq!((slot.copy_data(&mut data), &data[..3], slot.value(value::PC)), (3, b"abc".as_slice(), 9));
        slot.set_data(&alloc::vec![1; DATA_BYTES + 1]);
        assert_eq!(slot.data_length(), DATA_BYTES);
    }
}
