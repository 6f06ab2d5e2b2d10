//! What the engine asks of whoever runs it.
//!
//! Why this trait exists: recording and replay are the same execution; they differ only in where the answers come from that the
//! program cannot compute. One engine, two hosts.
//!
//! # Contract
//! H1. Every method is called between guest instructions, with the guest's registers in `engine.context()` and
//!     `engine.bbcount()` telling the current time; `context().rip` is the instruction that the question is about.
//! H2. A method that answers [`Flow::Continue`] has left in the context the state in which the guest goes on, rip included.
//! H3. [`Flow::Leave`] ends translation: the guest goes on natively from the state in the context.
//! H4. Methods run on the engine's stack and may not touch vector registers, the guest's stack below its red zone, or block on
//!     anything that the guest itself must make happen.

use crate::dispatch::Engine;
use crate::fault::{FaultInfo, SignalContext};
use crate::inline::InlineSite;
use crate::site::Site;
use crate::sys::UContext;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    Continue,
    /// As `Continue`, but the system call asked about was not made and is no transfer; rip is still at it.
    NotMade,
    Leave,
}

/// Instructions whose result the program cannot compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nondeterministic {
    Rdtsc,
    Rdtscp,
    Rdrand,
    Rdseed,
    Cpuid,
    Rdpid,
}

/// Memory that the guest may execute: [start, end).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeRange {
    pub start: u64,
    pub end: u64,
    /// It may write there as well.
    pub writable: bool,
}

impl CodeRange {
    pub fn contains(&self, address: u64) -> bool {
        (self.start..self.end).contains(&address)
    }
}

/// What becomes of an instruction at a shared site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Before {
    /// It runs, on this address.
    Use(u64),
    /// It does not run: the host has answered otherwise (a fault, the end of recording).
    Instead(Flow),
}

/// What follows an instrumented write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum After {
    Done,
    /// Another process came between: the registers in the context are those before the instruction; run it again.
    Again,
}

/// See the module's head.
pub trait Host: Sized {
    /// The guest is at a `syscall` instruction of `length` bytes. The host sets rax, rcx, r11 and rip; the engine counts the transfer.
    fn system_call(&mut self, engine: &mut Engine<Self>, length: u64) -> Flow;

    /// The guest is at an instruction of `length` bytes; the host sets its results and rip. `operand` is the register that
    /// rdrand, rdseed and rdpid write, and its size in bytes.
    fn nondeterministic(&mut self, engine: &mut Engine<Self>, what: Nondeterministic, operand: (usize, usize), length: u64) -> Flow;

    /// The guest is about to execute an instruction at a shared site that touches `address`.
    fn shared_before(&mut self, engine: &mut Engine<Self>, site: &Site, address: u64) -> Before;

    /// The instruction has run on the address that `shared_before` gave. Only called for writes.
    fn shared_after(&mut self, engine: &mut Engine<Self>, site: &Site) -> After;

    /// The guest is at an instruction at a shared site that has no operand to redirect. The host performs it and sets rip; of a
    /// repeated one, all or some repetitions. [`Flow::NotMade`]: it was not performed, and is no transfer.
    fn shared_whole(&mut self, engine: &mut Engine<Self>, site: &Site) -> Flow;

    /// How emitted code may perform and log the accesses at this site by itself. Not asked again for the same translation. Where it
    /// cannot go on it asks as ever; where it faults on anything that is not the guest's own memory the fault is the host's to tell apart.
    fn inline_site(&mut self, site: &Site) -> Option<InlineSite> {
        let _ = site;
        None
    }

    /// An inline access has happened, and its record did not fit the log's words.
    fn inline_dropped(&mut self) {}

    /// The guest is about to execute an instruction that faults (the fault has been undone).
    fn fault(&mut self, engine: &mut Engine<Self>, fault: &FaultInfo) -> Flow;

    /// The time given to `Engine::set_stop` has come, a breakpoint or watchpoint was met, or `Context::attention` is set.
    fn stopped(&mut self, engine: &mut Engine<Self>, why: crate::dispatch::Stopped) -> Flow;

    /// The guest is at something the engine cannot translate.
    fn unsupported(&mut self, engine: &mut Engine<Self>, what: &str) -> Flow;

    /// The memory around `address` that the guest may execute; `None` if it may not execute there.
    fn code_at(&mut self, address: u64) -> Option<CodeRange>;

    /// A place for a new code region within ±2 GB of `near`: base and size, free of mappings. `None`: there is none.
    fn place_region(&mut self, near: u64) -> Option<(u64, u64)>;

    /// Engine or host code itself has faulted: the guest is to go on natively from the context's state, which is that of its last exit.
    fn broken(fault: &FaultInfo) -> !;

    /// Called in signal context for every SIGBUS, wherever it happened. `true`: the address can be used now, and what faulted goes on; then
    /// [`Host::stopped`] is called with `Attention` as soon as possible.
    fn mend(_address: u64) -> bool {
        false
    }

    /// Called in signal context for every signal that is not a fault of translated code. May only touch memory that nothing else is
    /// in the middle of changing. `true`: call [`Host::stopped`] with `Attention` as soon as possible.
    fn on_signal(signal: &SignalContext, frame: &mut UContext) -> bool;
}
