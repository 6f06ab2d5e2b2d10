//! Signal frames as the kernel makes them, and system calls that a signal can interrupt.

use alloc::vec::Vec;
use core::arch::global_asm;

use engine::sys::{SigAction, SigAltStack, UCONTEXT_ORDER, UCONTEXT_RIP, UContext, raw};
use engine::{Flow, TRAP, TRAP_FLAG, reg, vector};
use recording::{Body, SIGINFO_BYTES, Signal, SignalAction, Syscall};

use super::end;
use super::host::{Guest, Recorder};
use super::signals::Queued;

/// What [`interruptible`] returns where the call was not even made: ERESTARTSYS, which the kernel never shows.
pub const RESTART: i64 = -512;

global_asm!(
    ".global undo_guarded_call",
    ".hidden undo_guarded_call",
    ".global undo_guarded_start",
    ".hidden undo_guarded_start",
    ".global undo_guarded_syscall",
    ".hidden undo_guarded_syscall",
    ".global undo_guarded_abort",
    ".hidden undo_guarded_abort",
    // (rdi number, rsi args, rdx word that is not zero if a signal waits)
    "undo_guarded_call:",
    "push rbx",
    "mov rbx, rdx",
    "mov rax, rdi",
    "mov r11, rsi",
    "mov rdi, [r11]",
    "mov rsi, [r11 + 8]",
    "mov rdx, [r11 + 16]",
    "mov r10, [r11 + 24]",
    "mov r8, [r11 + 32]",
    "mov r9, [r11 + 40]",
    "undo_guarded_start:",
    "cmp qword ptr [rbx], 0",
    "jne undo_guarded_abort",
    "undo_guarded_syscall:",
    "syscall",
    "pop rbx",
    "ret",
    "undo_guarded_abort:",
    "mov rax, -512",
    "pop rbx",
    "ret",
);

unsafe extern "C" {
    fn undo_guarded_call(number: u64, args: *const u64, waiting: *const u64) -> i64;
    static undo_guarded_start: u8;
    static undo_guarded_syscall: u8;
    static undo_guarded_abort: u8;
}

/// Executes a call of the guest, or returns [`RESTART`] if a signal came before it began to.
pub fn interruptible(number: u64, args: &[u64; 6]) -> i64 {
    let context = engine::arena::CONTEXT as *const engine::Context;
    // SAFETY: the caller has arranged for the arguments; the word is in the context, which is always mapped.
    unsafe { undo_guarded_call(number, args.as_ptr(), &raw const (*context).attention) }
}

/// In signal context: if [`interruptible`] has looked for signals and not entered the kernel yet, it returns.
pub fn keep_awake(frame: &mut UContext) {
    let rip = frame.gpr[UCONTEXT_RIP];
    let (start, syscall) = ((&raw const undo_guarded_start) as u64, (&raw const undo_guarded_syscall) as u64);
    if (start..=syscall).contains(&rip) {
        frame.gpr[UCONTEXT_RIP] = (&raw const undo_guarded_abort) as u64;
    }
}

/// Where the kernel's `rt_sigframe` has its parts: return address, ucontext (304 bytes), siginfo (128 bytes).
const UCONTEXT: u64 = 8;
const SIGINFO: u64 = UCONTEXT + 304;
const FRAME: u64 = SIGINFO + 128;
/// In the legacy xsave area: what the kernel tells about the frame's vector state.
const SOFTWARE_BYTES: usize = 464;
const MAGIC1: u32 = 0x4650_5853;
const MAGIC2: u32 = 0x4650_5845;
const TRAP_AND_DIRECTION: u64 = 0x100 | 0x400;
/// The flags that sigreturn may change: OF DF SF ZF AF PF CF and AC, TF, RF.
const RESTORED_FLAGS: u64 = 0x5_0dd5;

/// Puts the guest at the first instruction of its handler, with the frame that the kernel would have made. `None`: there is no room for it.
pub fn enter_handler(host: &mut Recorder, engine: &mut Guest, queued: &Queued, action: &SigAction, fault: [u64; 3]) -> Option<Flow> {
    let header = host.header(engine);
    let before = host.registers(engine);
    let stack = host.signals.stack;
    let on_stack = host.signals.is_on_stack(before.gpr[reg::RSP]);
    let use_stack = action.flags & u64::from(raw::SA_ONSTACK) != 0 && stack.size != 0 && !on_stack;
    let top = if use_stack { stack.sp + stack.size } else { before.gpr[reg::RSP].wrapping_sub(128) };
    let image = vector_image();
    let vector_at = top.wrapping_sub(image.len() as u64) & !63;
    let frame_at = (vector_at.wrapping_sub(FRAME) & !15).wrapping_sub(8);

    let mut frame = alloc::vec![0u8; (vector_at - frame_at) as usize];
    let mut put = |at: u64, value: u64| frame[at as usize..at as usize + 8].copy_from_slice(&value.to_le_bytes());
    put(0, action.restorer);
    put(UCONTEXT, 7); // UC_FP_XSTATE | UC_SIGCONTEXT_SS | UC_STRICT_RESTORE_SS
    put(UCONTEXT + 16, stack.sp);
    put(UCONTEXT + 24, u64::from(stack.flags as u32));
    put(UCONTEXT + 32, stack.size);
    let gregs = UCONTEXT + 40;
    for (index, &place) in UCONTEXT_ORDER.iter().enumerate() {
        put(gregs + 8 * place as u64, before.gpr[index]);
    }
    put(gregs + 8 * UCONTEXT_RIP as u64, before.rip);
    put(gregs + 136, before.rflags);
    put(gregs + 144, 0x002b_0000_0000_0033); // cs, gs, fs, ss
    put(gregs + 152, fault[0]);
    put(gregs + 160, fault[1]);
    put(gregs + 168, host.signals.mask);
    put(gregs + 176, fault[2]);
    put(gregs + 184, vector_at);
    put(UCONTEXT + 296, host.signals.mask);
    for (index, word) in queued.info.iter().enumerate() {
        put(SIGINFO + 8 * index as u64, *word);
    }
    frame.extend_from_slice(&image);

    if !host.kernel_put(engine, frame_at, &frame) {
        return None;
    }
    let registers = {
        let context = engine.context();
        context.gpr[reg::RDI] = queued.signal as u64;
        context.gpr[reg::RSI] = frame_at + SIGINFO;
        context.gpr[reg::RDX] = frame_at + UCONTEXT;
        context.gpr[reg::RAX] = 0;
        context.gpr[reg::RSP] = frame_at;
        context.rip = action.handler;
        context.rflags &= !TRAP_AND_DIRECTION;
        host.registers(engine)
    };
    vector::reset();
    engine.count_transfer();
    let own = if action.flags & u64::from(raw::SA_NODEFER) == 0 { 1 << (queued.signal - 1) } else { 0 };
    let in_force = host.signals.take_mask_in_force();
    host.signals.set_mask(in_force | action.mask | own);
    if stack.flags as u32 & raw::SS_AUTODISARM != 0 {
        host.signals.stack = SigAltStack { sp: 0, flags: raw::SS_DISABLE as i32, size: 0 };
    }
    if action.flags & u64::from(raw::SA_RESETHAND) != 0 {
        host.signals.set_action(queued.signal, SigAction::default());
    }
    let mut siginfo = [0u8; SIGINFO_BYTES];
    siginfo.copy_from_slice(queued.info.map(u64::to_le_bytes).as_flattened());
    let body = Body::Signal(Signal { number: queued.signal as u32, action: SignalAction::Handler, siginfo: &siginfo, registers });
    let fits = host.events.append(&header, &body, |builder| builder.push_write(frame_at, &frame)).is_ok();
    Some(if fits { Flow::Continue } else { end::stop_unsupported(host, engine, format_args!("the event log is full")) })
}

/// The vector state as it stands in a signal frame.
fn vector_image() -> Vec<u8> {
    let mut image = vector::save();
    let size = image.len();
    let xcr0 = vector::xcr0();
    image[SOFTWARE_BYTES..SOFTWARE_BYTES + 4].copy_from_slice(&MAGIC1.to_le_bytes());
    image[SOFTWARE_BYTES + 4..SOFTWARE_BYTES + 8].copy_from_slice(&(size as u32 + 4).to_le_bytes());
    image[SOFTWARE_BYTES + 8..SOFTWARE_BYTES + 16].copy_from_slice(&xcr0.to_le_bytes());
    image[SOFTWARE_BYTES + 16..SOFTWARE_BYTES + 20].copy_from_slice(&(size as u32).to_le_bytes());
    image.extend_from_slice(&MAGIC2.to_le_bytes());
    image
}

/// The guest returns from a handler: its state is in the frame on its stack.
pub fn sigreturn(host: &mut Recorder, engine: &mut Guest, args: &[u64; 6]) -> Flow {
    let header = host.header(engine);
    let ucontext = engine.context().gpr[reg::RSP];
    let mut bytes = [0u8; 304];
    if !host.kernel_get(engine, ucontext, &mut bytes) {
        return end::stop_unsupported(host, engine, format_args!("rt_sigreturn without a frame"));
    }
    let word = |at: usize| super::access::word(&bytes[at..at + 8]);
    if word(40 + 136) & TRAP != 0 {
        return end::stop_unsupported(host, engine, format_args!("{TRAP_FLAG}"));
    }
    if !vector::load_frame(word(40 + 184), |address, buffer| host.kernel_get(engine, address, buffer)) {
        return end::stop_unsupported(host, engine, format_args!("rt_sigreturn with a damaged frame"));
    }
    let context = engine.context();
    for (index, &place) in UCONTEXT_ORDER.iter().enumerate() {
        context.gpr[index] = word(40 + 8 * place);
    }
    context.rip = word(40 + 8 * UCONTEXT_RIP);
    context.rflags = context.rflags & !RESTORED_FLAGS | word(40 + 136) & RESTORED_FLAGS;
    let result = context.gpr[reg::RAX] as i64;
    host.signals.stack = SigAltStack { sp: word(16), flags: word(24) as i32, size: word(32) };
    host.signals.set_mask(word(296));
    let body = Body::Syscall(Syscall { number: raw::__NR_rt_sigreturn, result, args: *args });
    if !host.event(&header, &body) {
        // The reserve is for a few of these; a log that is full has ended the recording long before.
        return end::stop_unsupported(host, engine, format_args!("the event log is full"));
    }
    host.signals.remind(engine);
    Flow::Continue
}
