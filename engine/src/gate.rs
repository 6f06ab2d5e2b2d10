//! The gate: the only way between translated code and the engine.
//!
//! A copy stands at the start of every code region. An exit stub stores its number and jumps to the gate, which saves the guest's
//! integer registers and flags into the context, moves to the engine's stack and calls `dispatch`. That returns the host address to
//! go on at. Vector and x87 state stay where they are: engine code is built without either.

use core::arch::naked_asm;

use crate::arena;
use crate::context::{Context, offset, reg};
use crate::emit::Assembler;

/// Addresses within a gate.
#[derive(Clone, Copy, Debug)]
pub struct Gate {
    /// Exit stubs jump here with the guest's registers live.
    pub exit: u64,
    /// The context already holds the guest's registers: only call `dispatch`.
    pub dispatch: u64,
    /// Default target of the indirect-branch table.
    pub indirect_miss: u64,
}

/// The exit number of an indirect-branch miss, the same in every region.
pub const EXIT_INDIRECT_MISS: u32 = 0;
/// The exit number by which a signal handler asks for a plain continuation at `Context::rip`.
pub const EXIT_RESUME: u32 = 1;
/// Numbers from here on belong to translations.
pub const FIRST_EXIT: u32 = 2;

pub fn emit(asm: &mut Assembler) -> Gate {
    let indirect_miss = asm.here();
    asm.store_immediate(offset::EXIT, EXIT_INDIRECT_MISS);
    let exit = asm.here();
    for index in 0..16 {
        asm.store(offset::gpr(index), index);
    }
    asm.load(reg::RSP, offset::ENGINE_RSP);
    asm.raw(&[0x9c, 0x58]); // pushfq; pop rax
    asm.store(offset::RFLAGS, reg::RAX);
    let dispatch = asm.here();
    asm.load(reg::RSP, offset::ENGINE_RSP);
    asm.raw(&[0xfc]); // cld
    asm.load(reg::RDI, offset::THIS);
    asm.call_via(offset::DISPATCH);
    asm.store(offset::TARGET, reg::RAX);
    asm.load(reg::RAX, offset::RFLAGS);
    asm.raw(&[0x50, 0x9d]); // push rax; popfq
    for index in (0..16).filter(|&index| index != reg::RSP) {
        asm.load(index, offset::gpr(index));
    }
    asm.load(reg::RSP, offset::gpr(reg::RSP));
    asm.jump_via(offset::TARGET);
    Gate { exit, dispatch, indirect_miss }
}

/// Goes to `gate.dispatch` with an empty engine stack and never returns.
///
/// # Safety
/// gs points to a context whose registers, `dispatch` and `engine_rsp` are set.
pub unsafe fn enter(dispatch: u64) -> ! {
    // SAFETY: the gate loads everything it needs from the context.
    unsafe { core::arch::asm!("jmp {}", in(reg) dispatch, options(noreturn)) }
}

/// Leaves translation for good: loads the guest's registers from the context and goes on natively at its rip.
///
/// # Safety
/// gs points to the context; its registers are a state the guest may run in.
pub unsafe fn leave(context: *const Context) -> ! {
    // SAFETY: as above.
    unsafe { leave_asm(context) }
}

#[unsafe(naked)]
unsafe extern "C" fn leave_asm(context: *const Context) -> ! {
    naked_asm!(
        "push qword ptr [rdi + {rflags}]",
        "popfq",
        "mov rax, [rdi + 0]",
        "mov rcx, [rdi + 8]",
        "mov rdx, [rdi + 16]",
        "mov rbx, [rdi + 24]",
        "mov rsp, [rdi + 32]",
        "mov rbp, [rdi + 40]",
        "mov rsi, [rdi + 48]",
        "mov r8, [rdi + 64]",
        "mov r9, [rdi + 72]",
        "mov r10, [rdi + 80]",
        "mov r11, [rdi + 88]",
        "mov r12, [rdi + 96]",
        "mov r13, [rdi + 104]",
        "mov r14, [rdi + 112]",
        "mov r15, [rdi + 120]",
        "mov rdi, [rdi + 56]",
        "jmp qword ptr gs:[{rip}]",
        rflags = const offset::RFLAGS,
        rip = const offset::RIP,
    )
}

/// Points gs to the context.
pub fn set_gs() {
    crate::sys::arch_prctl(crate::sys::ARCH_SET_GS, arena::CONTEXT);
}
