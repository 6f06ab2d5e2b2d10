//! Signals that reach the process while it runs under the engine.
//!
//! The engine's handler stands for every signal the host asks for. A fault of translated code becomes a question to the host at the
//! guest instruction it belongs to; a fault of [`crate::read_guest`] ends the copy; everything else is the host's to queue.

use core::arch::naked_asm;

use crate::context::{Context, reg};
use crate::count;
use crate::dispatch::Engine;
use crate::host::Host;
use crate::sys::{self, SigAction, SigAltStack, UCONTEXT_ORDER, UCONTEXT_RIP, UContext, raw};
use crate::{arena, memory};

/// A fault that a guest instruction caused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FaultInfo {
    pub signal: i32,
    /// The kernel's siginfo.
    pub info: [u64; 16],
    pub trapno: u64,
    pub error: u64,
    /// Faulting address.
    pub address: u64,
}

impl FaultInfo {
    /// A page fault of a write to memory that is mapped without the right.
    pub fn is_write(&self) -> bool {
        self.trapno == 14 && self.error & 3 == 3
    }

    /// The fault of executing at `pc` where nothing is mapped: what the kernel would send.
    pub fn execute(pc: u64) -> Self {
        Self::unmapped(pc, 0x14)
    }

    /// The fault of executing at `pc`, which is mapped, without the right to.
    pub fn no_execute(pc: u64) -> Self {
        Self::new(raw::SIGSEGV, 2, pc, 14, 0x15)
    }

    /// The fault of bytes at `pc` that are no instruction.
    pub fn illegal(pc: u64) -> Self {
        const ILL_ILLOPN: u64 = 2;
        Self::new(raw::SIGILL, ILL_ILLOPN, pc, 6, 0)
    }

    /// The fault of writing to `address` where nothing is mapped.
    pub fn write(address: u64) -> Self {
        Self::unmapped(address, 6)
    }

    /// The fault of reading from `address` where nothing is mapped.
    pub fn read(address: u64) -> Self {
        Self::unmapped(address, 4)
    }

    /// The fault of a write (or read) without the right to it.
    pub fn access(address: u64, write: bool) -> Self {
        Self::new(raw::SIGSEGV, 2, address, 14, if write { 7 } else { 5 })
    }

    /// The fault of an access behind the end of a mapped file.
    pub fn bus(address: u64, write: bool) -> Self {
        Self::new(raw::SIGBUS, 2, address, 14, if write { 6 } else { 4 })
    }

    /// What int3 gives.
    pub fn trap() -> Self {
        const SI_KERNEL: u64 = 0x80;
        Self::new(raw::SIGTRAP, SI_KERNEL, 0, 3, 0)
    }

    fn unmapped(address: u64, error: u64) -> Self {
        Self::new(raw::SIGSEGV, 1, address, 14, error)
    }

    fn new(signal: u32, code: u64, address: u64, trapno: u64, error: u64) -> Self {
        let mut info = [0u64; 16];
        info[0] = u64::from(signal);
        info[1] = code;
        info[2] = address;
        Self { signal: signal as i32, info, trapno, error, address }
    }
}

/// Flags that code of ours must not run with: trap, direction, alignment check.
pub const TRAP: u64 = 0x100;
const DIRECTION: u64 = 0x400;
const ALIGNMENT: u64 = 0x4_0000;
const HINDERING: u64 = TRAP | DIRECTION | ALIGNMENT;
/// Vectors of the exceptions that two of them raise.
const DEBUG_EXCEPTION: u64 = 1;
const ALIGNMENT_CHECK: u64 = 17;

/// A signal that is not a fault of translated code.
#[derive(Clone, Copy, Debug)]
pub struct SignalContext {
    pub signal: i32,
    pub info: [u64; 16],
    /// Where the processor was.
    pub rip: u64,
}

/// Makes the engine's handler stand for `signal`. `flags` are added to SA_SIGINFO | SA_ONSTACK.
pub fn install<H: Host>(signal: i32, flags: u64, old: Option<&mut SigAction>) -> i64 {
    let action = SigAction {
        handler: handler::<H> as *const () as u64,
        flags: u64::from(raw::SA_SIGINFO | raw::SA_ONSTACK | raw::SA_RESTORER) | flags,
        restorer: restorer as *const () as u64,
        mask: u64::MAX,
    };
    // SAFETY: the handler only touches the arena; see its body.
    unsafe { sys::rt_sigaction(signal, &raw const action, old.map_or(core::ptr::null_mut(), core::ptr::from_mut)) }
}

/// Puts signal handlers of this thread on the engine's signal stack; returns the stack that was set before.
pub fn set_signal_stack() -> SigAltStack {
    let stack = SigAltStack { sp: arena::SIGNAL_STACK, flags: 0, size: arena::SIGNAL_STACK_SIZE };
    let mut old = SigAltStack::default();
    // SAFETY: the area is the engine's own; `old` is valid.
    unsafe { sys::syscall(u64::from(raw::__NR_sigaltstack), [(&raw const stack) as u64, (&raw mut old) as u64, 0, 0, 0, 0]) };
    old
}

#[unsafe(naked)]
unsafe extern "C" fn restorer() {
    naked_asm!("mov eax, 15", "syscall")
}

fn is_fault(signal: i32) -> bool {
    [raw::SIGSEGV, raw::SIGBUS, raw::SIGFPE, raw::SIGILL, raw::SIGTRAP].contains(&(signal as u32))
}

extern "C" fn broken<H: Host>() -> ! {
    let context = arena::CONTEXT as *mut Context;
    // SAFETY: as in `handler`; nothing else of the engine runs any more.
    let engine = unsafe { &mut *((*context).engine as *mut Engine<H>) };
    let fault = engine.fault.take().unwrap_or(FaultInfo::execute(0));
    H::broken(&fault)
}

extern "C" fn handler<H: Host>(signal: i32, info: *const [u64; 16], ucontext: *mut UContext) {
    // SAFETY: the kernel passes a valid frame; siginfo is 128 bytes.
    let (info, frame) = unsafe { (*info, &mut *ucontext) };
    let rip = frame.gpr[UCONTEXT_RIP];
    let sent_by_kernel = (info[1] as u32 as i32) > 0;
    if signal == raw::SIGBUS as i32 && sent_by_kernel && H::mend(frame.cr2) {
        // SAFETY: as below.
        count::interrupt(unsafe { &mut *(arena::CONTEXT as *mut Context) });
        return;
    }
    if is_fault(signal) && sent_by_kernel {
        if let Some(end) = memory::recover(rip) {
            frame.gpr[UCONTEXT_RIP] = end;
            return;
        }
        let context = arena::CONTEXT as *mut Context;
        // SAFETY: the engine is installed before its handlers are; a fault of translated code means that no engine code is running.
        let engine = unsafe { &mut *((*context).engine as *mut Engine<H>) };
        let gpr = core::array::from_fn(|index| frame.gpr[UCONTEXT_ORDER[index]]);
        if let Some(dispatch) = engine.recover_state(rip, &gpr, frame.eflags) {
            count::enter_engine(engine.context());
            engine.fault = Some(FaultInfo { signal, info, trapno: frame.trapno, error: frame.err, address: frame.cr2 });
            frame.gpr[UCONTEXT_RIP] = dispatch;
            frame.gpr[UCONTEXT_ORDER[reg::RSP]] = arena::ENGINE_STACK_TOP;
            frame.eflags &= !HINDERING;
            return;
        }
        // The guest's flags, with which the engine was entered or which it just loaded. They stay as they are in the context.
        let hindering = match frame.trapno {
            DEBUG_EXCEPTION => TRAP,
            ALIGNMENT_CHECK => ALIGNMENT,
            _ => 0,
        };
        if frame.eflags & hindering != 0 {
            frame.eflags &= !hindering;
            return;
        }
        // A fault of ours. Go there by sigreturn, so that the guest's vector state comes back.
        engine.fault = Some(FaultInfo { signal, info, trapno: rip, error: frame.err, address: frame.cr2 });
        frame.eflags &= !HINDERING;
        frame.gpr[UCONTEXT_RIP] = broken::<H> as *const () as u64;
        frame.gpr[UCONTEXT_ORDER[reg::RSP]] = arena::ENGINE_STACK_TOP - 8;
        return;
    }
    let queued = H::on_signal(&SignalContext { signal, info, rip }, frame);
    if queued {
        // SAFETY: `interrupt` is async-signal-safe and the context is always there.
        count::interrupt(unsafe { &mut *(arena::CONTEXT as *mut Context) });
    }
}
