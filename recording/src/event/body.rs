//! What is special to each kind of event.
//!
//! ```text
//! SYSCALL        48  4 number   52 4 zero   56 8 result   64 48 arguments                       112 memory writes
//! NONDET         48  2 instruction  50 2 zero  52 4 mask of gprs   56 8 rflags   64 8 per gpr    …  memory writes
//! SHMEM_FIXUP                                                                                    48 memory writes
//! SIGNAL         48  4 number   52 4 action  56 128 siginfo  184 160 registers                  344 memory writes
//! MEMORY_HASH    48  8 hash     56 8 pages   64 (addr 8, len 8)… up to the end
//! SITES_ADDED    48  8 pc
//! END            48  4 reason   52 4 status  56 8 message length  64 message, padded
//! ```

use super::reader::Ranges;
use crate::Registers;
use crate::wire::{Cursor, DecodeError, Expected};

/// Length of the kernel's `siginfo_t`.
pub const SIGINFO_BYTES: usize = 128;

/// A closed list of numbers that the format gives names to.
macro_rules! numbered {
    ($(#[$meta:meta])* $vis:vis enum $name:ident: $repr:ident { $($(#[$vmeta:meta])* $variant:ident = $value:literal $text:literal,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr($repr)]
        $vis enum $name { $($(#[$vmeta])* $variant = $value,)* }

        impl $name {
            /// All of them, in ascending order.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The one that the format writes as `raw`.
            pub const fn from_raw(raw: $repr) -> Option<Self> {
                match raw { $($value => Some(Self::$variant),)* _ => None }
            }

            /// The number that the format writes.
            pub const fn raw(self) -> $repr {
                self as $repr
            }

            /// The name that users see.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }
        }
    };
}

numbered! {
    /// What kind of thing happened.
    ///
    /// Numbers from 16 on are reserved: they have a name, and no recording of this version holds them.
    pub enum EventKind: u16 {
        /// A system call (or, flagged, a vdso call) returned.
        Syscall = 1 "SYSCALL",
        /// An instruction gave a result that the program could not have computed.
        Nondet = 2 "NONDET",
        /// Shared memory held something else than this process last saw there.
        ShmemFixup = 3 "SHMEM_FIXUP",
        /// A signal reached the program.
        Signal = 4 "SIGNAL",
        /// The validator's view of memory at this time.
        MemoryHash = 5 "MEMORY_HASH",
        /// An instruction became a shared site.
        SitesAdded = 6 "SITES_ADDED",
        /// The history ends here.
        End = 7 "END",
        /// Another thread runs from here.
        ThreadSwitch = 16 "THREADSWITCH",
        /// A thread was born.
        NewThread = 17 "NEWTHREAD",
        /// A signal was passed on to a child.
        SigToChild = 18 "SIG_TOCHILD",
        /// The process reported a status to its debugger.
        StatusToDebugger = 19 "STATUS_TODEBUGGER",
    }
}

numbered! {
    /// The instruction behind a [`Nondet`] event.
    pub enum Instruction: u16 {
        Rdtsc = 1 "RDTSC",
        Rdtscp = 2 "RDTSCP",
        Cpuid = 3 "CPUID",
        Rdrand = 4 "RDRAND",
        Rdseed = 5 "RDSEED",
        Xgetbv = 6 "XGETBV",
        Rdpid = 7 "RDPID",
        Rdpmc = 8 "RDPMC",
    }
}

numbered! {
    /// What a signal did to the program.
    pub enum SignalAction: u32 {
        /// A handler ran: its frame is in the memory writes, the registers are those at its first instruction.
        Handler = 1 "handler",
        /// The program ended by it.
        Terminate = 2 "terminate",
        /// The program stopped, and went on later.
        Stop = 3 "stop",
        /// Nothing.
        Ignore = 4 "ignore",
    }
}

numbered! {
    /// Why a history ends.
    pub enum EndReason: u32 {
        /// The program exited; the status is its exit code.
        Exited = 1 "exited",
        /// A signal ended the program; the status is its number.
        Signalled = 2 "killed by a signal",
        /// The program asked for the end of recording.
        StoppedByApi = 3 "recording stopped by the program",
        /// The program did something that cannot be recorded; the message names it.
        Unsupported = 4 "not recordable",
        /// The recorder let go of the program on a user's request.
        Detached = 5 "detached",
        /// A copy was saved while recording went on.
        Saved = 6 "saved while running",
        /// The event log was full.
        LogFull = 7 "event log full",
    }
}

/// A system call with all that it did to the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Syscall {
    pub number: u32,
    /// What it left in rax: a result, or minus an errno.
    pub result: i64,
    /// rdi rsi rdx r10 r8 r9 as they were at the call.
    pub args: [u64; 6],
}

/// New values for some of the general registers, at most four: no instruction of [`Instruction`] sets more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegisterValues {
    /// Bit i: register i, in the order of [`Registers::gpr`], has a new value.
    mask: u16,
    /// The values in ascending order of their registers; zero behind the last.
    values: [u64; Self::MAX],
}

impl RegisterValues {
    /// No more registers than this.
    pub const MAX: usize = 4;

    /// The given (register, value) pairs, ascending by register. Nothing if they are not, or are more than [`Self::MAX`].
    pub fn new(pairs: &[(u8, u64)]) -> Option<Self> {
        let mut these = Self::default();
        for (i, (register, value)) in pairs.iter().enumerate() {
            let bit = 1u16.checked_shl(u32::from(*register))?;
            if these.mask >= bit {
                return None;
            }
            these.mask |= bit;
            *these.values.get_mut(i)? = *value;
        }
        Some(these)
    }

    /// How many registers have a new value.
    pub const fn count(&self) -> usize {
        self.mask.count_ones() as usize
    }

    /// The (register, value) pairs, ascending by register.
    pub fn iter(&self) -> impl Iterator<Item = (u8, u64)> + use<> {
        let Self { mask, values } = *self;
        (0..16u8).filter(move |register| mask & (1 << register) != 0).zip(values)
    }

    /// Sets these registers.
    pub fn apply(&self, registers: &mut Registers) {
        for (register, value) in self.iter() {
            registers.gpr[usize::from(register)] = value;
        }
    }

    pub(super) const fn mask(&self) -> u32 {
        self.mask as u32
    }

    pub(super) const fn values(&self) -> &[u64; Self::MAX] {
        &self.values
    }

    fn decode(mask: u32, cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let mask = u16::try_from(mask)
            .ok()
            .filter(|mask| mask.count_ones() as usize <= Self::MAX)
            .ok_or_else(|| cursor.error_here("gpr mask", Expected::OneOf("at most four of the low 16 bits"), u64::from(mask)))?;
        let mut these = Self { mask, values: [0; Self::MAX] };
        for value in these.values.iter_mut().take(mask.count_ones() as usize) {
            *value = cursor.u64("gpr value")?;
        }
        Ok(these)
    }
}

/// What a non-deterministic instruction gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nondet {
    pub instruction: Instruction,
    pub registers: RegisterValues,
    /// All of rflags behind the instruction.
    pub rflags: u64,
}

/// A signal and what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signal<'a> {
    pub number: u32,
    pub action: SignalAction,
    pub siginfo: &'a [u8; SIGINFO_BYTES],
    /// The registers behind the event: a handler's at its first instruction, else what they were.
    pub registers: Registers,
}

/// What memory was at a time, for the validator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryHash<'a> {
    /// [`MemoryHasher::finish`](crate::MemoryHasher::finish) over the ranges.
    pub hash: u64,
    /// Pages in them that were not zero.
    pub pages: u64,
    /// Which memory, ascending. When writing, give none here and push them ([`EventBuilder::push_range`](super::EventBuilder::push_range)).
    pub ranges: Ranges<'a>,
}

/// The end of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End<'a> {
    pub reason: EndReason,
    /// The exit code or signal number, as the reason says.
    pub status: i32,
    /// What a user should read about it; may be empty.
    pub message: &'a str,
}

/// The part of an event that depends on its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    Syscall(Syscall),
    Nondet(Nondet),
    ShmemFixup,
    Signal(Signal<'a>),
    MemoryHash(MemoryHash<'a>),
    SitesAdded { pc: u64 },
    End(End<'a>),
}

impl<'a> Body<'a> {
    /// Which kind this is.
    pub const fn kind(&self) -> EventKind {
        match self {
            Body::Syscall(_) => EventKind::Syscall,
            Body::Nondet(_) => EventKind::Nondet,
            Body::ShmemFixup => EventKind::ShmemFixup,
            Body::Signal(_) => EventKind::Signal,
            Body::MemoryHash(_) => EventKind::MemoryHash,
            Body::SitesAdded { .. } => EventKind::SitesAdded,
            Body::End(_) => EventKind::End,
        }
    }

    /// Reads the fixed part of an event of kind `kind`. The cursor stands at its first byte and is left behind its last.
    pub(super) fn decode(kind: u16, cursor: &mut Cursor<'a>) -> Result<Self, DecodeError> {
        match EventKind::from_raw(kind) {
            Some(EventKind::Syscall) => {
                let number = cursor.u32("syscall number")?;
                expect_zero(cursor)?;
                let result = cursor.u64("syscall result")?.cast_signed();
                let mut args = [0; 6];
                for arg in &mut args {
                    *arg = cursor.u64("syscall argument")?;
                }
                Ok(Body::Syscall(Syscall { number, result, args }))
            }
            Some(EventKind::Nondet) => {
                let raw = cursor.u16("instruction")?;
                let instruction = Instruction::from_raw(raw).ok_or_else(|| {
                    cursor.error_before(2, "instruction", Expected::OneOf("an instruction number (1 to 8)"), u64::from(raw))
                })?;
                let reserved = cursor.u16("reserved")?;
                if reserved != 0 {
                    return Err(cursor.error_before(2, "reserved", Expected::Exactly(0), u64::from(reserved)));
                }
                let mask = cursor.u32("gpr mask")?;
                let rflags = cursor.u64("rflags")?;
                let registers = RegisterValues::decode(mask, cursor)?;
                Ok(Body::Nondet(Nondet { instruction, registers, rflags }))
            }
            Some(EventKind::ShmemFixup) => Ok(Body::ShmemFixup),
            Some(EventKind::Signal) => {
                let number = cursor.u32("signal number")?;
                let raw = cursor.u32("signal action")?;
                let action = SignalAction::from_raw(raw)
                    .ok_or_else(|| cursor.error_before(4, "signal action", Expected::OneOf("an action (1 to 4)"), u64::from(raw)))?;
                let siginfo = cursor.array("siginfo")?;
                let registers = decode_registers(cursor)?;
                Ok(Body::Signal(Signal { number, action, siginfo, registers }))
            }
            Some(EventKind::MemoryHash) => {
                let hash = cursor.u64("memory hash")?;
                let pages = cursor.u64("pages")?;
                let ranges = Ranges::decode(cursor)?;
                Ok(Body::MemoryHash(MemoryHash { hash, pages, ranges }))
            }
            Some(EventKind::SitesAdded) => Ok(Body::SitesAdded { pc: cursor.u64("site pc")? }),
            Some(EventKind::End) => {
                let raw = cursor.u32("end reason")?;
                let reason = EndReason::from_raw(raw)
                    .ok_or_else(|| cursor.error_before(4, "end reason", Expected::OneOf("an end reason (1 to 7)"), u64::from(raw)))?;
                let status = cursor.u32("end status")?.cast_signed();
                let len = cursor.u64("message length")?;
                let start = *cursor;
                let bytes = cursor.padded_bytes(len, "message")?;
                let message = core::str::from_utf8(bytes).map_err(|error| {
                    let at = error.valid_up_to();
                    start.error_here("message", Expected::OneOf("UTF-8 text"), u64::from(bytes.get(at).copied().unwrap_or(0)))
                })?;
                Ok(Body::End(End { reason, status, message }))
            }
            Some(EventKind::ThreadSwitch | EventKind::NewThread | EventKind::SigToChild | EventKind::StatusToDebugger) | None => {
                Err(cursor.error_before(
                    (super::EVENT_HEADER_BYTES - super::offset::KIND) as u64,
                    "kind",
                    Expected::OneOf("a kind that this version knows (1 to 7)"),
                    u64::from(kind),
                ))
            }
        }
    }
}

fn expect_zero(cursor: &mut Cursor<'_>) -> Result<(), DecodeError> {
    match cursor.u32("reserved")? {
        0 => Ok(()),
        found => Err(cursor.error_before(4, "reserved", Expected::Exactly(0), u64::from(found))),
    }
}

/// Bytes of a register set.
pub(crate) const REGISTERS_BYTES: usize = 160;

/// gpr[16] rip rflags fs_base gs_base, 8 bytes each.
pub(crate) fn encode_registers(registers: &Registers) -> [u8; REGISTERS_BYTES] {
    let mut bytes = [0; REGISTERS_BYTES];
    let rest = [registers.rip, registers.rflags, registers.fs_base, registers.gs_base];
    for (slot, value) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(registers.gpr.iter().chain(&rest)) {
        *slot = value.to_le_bytes();
    }
    bytes
}

pub(crate) fn decode_registers(cursor: &mut Cursor<'_>) -> Result<Registers, DecodeError> {
    let mut registers = Registers::default();
    for gpr in &mut registers.gpr {
        *gpr = cursor.u64("registers")?;
    }
    registers.rip = cursor.u64("registers")?;
    registers.rflags = cursor.u64("registers")?;
    registers.fs_base = cursor.u64("registers")?;
    registers.gs_base = cursor.u64("registers")?;
    Ok(registers)
}
