//! From the first instruction of this program to the first of the guest.
//!
//! ```text
//!   _start (kernel's stack) ─► main: arena, control pages ─► setup (engine's stack): plan, events, unmap all else, map the guest,
//!   registers, signal handlers, vector state ─► Engine::run
//! ```
//!
//! The program is static, at a fixed address that no guest uses, and without libc. It is started with three descriptors (see
//! [`crate::plan`]) and closes them once they are mapped: from then on it has none.

use core::sync::atomic::Ordering;

use engine::sys::{self, UContext, raw};
use engine::{Engine, FaultInfo, Options, arena, reg, vector};
use recording::Time;

use crate::control::{self, Reason, SLOT_BYTES, SLOTS, Slot, value};
use crate::drive::Drive;
use crate::host::{Guest, ReplayHost};
use crate::log::Log;
use crate::plan::{CONTROL_FD, EVENTS_FD, IMAGE_FD, MAGIC, Mapped, Mapping, NO_IMAGE};
use crate::space::{Map, Space};
use crate::status::Accesses;
use crate::touch::Toucher;
use crate::vm::{self, Vm};
use crate::watch::Points;

/// Where the plan is mapped: the recorder's access log is not there at replay.
const PLAN: u64 = arena::ACCESS_LOG;
const USER_END: u64 = 0x7fff_ffff_f000;
const FAULTS: [u32; 5] = [raw::SIGSEGV, raw::SIGBUS, raw::SIGFPE, raw::SIGILL, raw::SIGTRAP];

/// Which slot is ours, for whoever cannot ask the host.
const OWN_SLOT: *mut u64 = arena::HOST_STATE as *mut u64;

#[cfg(target_os = "none")]
core::arch::global_asm!(".global _start", "_start:", "xor ebp, ebp", "and rsp, -16", "call {main}", "ud2", main = sym main);

/// The nanoseconds of a clock that never goes back.
pub fn clock() -> u64 {
    let [seconds, nanoseconds] = sys::clock_gettime(raw::CLOCK_MONOTONIC);
    seconds * 1_000_000_000 + nanoseconds
}

/// # Safety
/// The control pages are mapped and `index < SLOTS`.
pub unsafe fn slot(index: usize) -> Slot {
    // SAFETY: the host's state begins with our slot's number; the control pages by the caller's promise.
    unsafe {
        OWN_SLOT.write(index as u64);
        Slot::new(arena::CONTROL as *mut u8, index)
    }
}

/// Lets the kernel kill this process when the controlling one ends; ends it now if that has happened already.
pub fn die_with(controller: i32) {
    sys::prctl(sys::PR_SET_PDEATHSIG, u64::from(raw::SIGKILL));
    if sys::getppid() != controller {
        sys::exit_group(1);
    }
}

fn fail(what: core::fmt::Arguments<'_>) -> ! {
    end(Reason::Failed, what)
}

/// What was recorded cannot be rebuilt here.
fn unfit(what: core::fmt::Arguments<'_>) -> ! {
    end(Reason::Unfit, what)
}

/// Tells the controlling process why this one ends, and ends it.
fn end(reason: Reason, what: core::fmt::Arguments<'_>) -> ! {
    // SAFETY: whoever comes here has mapped the control pages and the host's state.
    let slot = unsafe { Slot::new(arena::CONTROL as *mut u8, (OWN_SLOT.read() as usize).min(SLOTS - 1)) };
    let mut text = Line { bytes: [0; 512], length: 0 };
    let _ = core::fmt::write(&mut text, what);
    slot.set_data(&text.bytes[..text.length]);
    slot.set_value(value::REASON, u64::from(reason as u32));
    let head = slot.head();
    head.reply.store(head.request.load(Ordering::Relaxed), Ordering::Release);
    sys::futex_wake(&head.reply);
    sys::exit_group(2)
}

/// A text of bounded length, so that nothing is allocated.
struct Line {
    bytes: [u8; 512],
    length: usize,
}

impl core::fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let taken = text.len().min(self.bytes.len() - self.length);
        self.bytes[self.length..self.length + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        Ok(())
    }
}

/// The panic handler.
pub fn panicked(info: &core::panic::PanicInfo<'_>) -> ! {
    fail(format_args!("{info}"))
}

/// A fault that is neither the guest's nor expected.
pub fn crashed(fault: &FaultInfo) -> ! {
    fail(format_args!("signal {} at {:#x} inside the replay itself, address {:#x}", fault.signal, fault.trapno, fault.address))
}

/// What `_start` calls, on the kernel's stack.
pub extern "C" fn main() -> ! {
    let control_bytes = (SLOTS * SLOT_BYTES) as u64;
    let shared = raw::MAP_SHARED | raw::MAP_FIXED_NOREPLACE;
    let control = if arena::map().is_ok() {
        sys::mmap(arena::CONTROL, control_bytes, raw::PROT_READ | raw::PROT_WRITE, shared, CONTROL_FD, 0)
    } else {
        -1
    };
    if control != arena::CONTROL as i64 {
        // Nobody to tell but whoever waits for this process.
        sys::exit_group(3);
    }
    #[cfg(target_os = "none")]
    engine::heap::init();
    // SAFETY: the engine's stack is mapped and nothing is on it; this never comes back.
    unsafe {
        slot(0);
        core::arch::asm!("mov rsp, {top}", "call {setup}", "ud2", top = in(reg) arena::ENGINE_STACK_TOP, setup = sym setup, options(noreturn))
    }
}

const _: () = assert!((SLOTS * SLOT_BYTES) as u64 <= arena::CONTROL_SIZE);

fn map_file(address: u64, length: u64, fd: i32) -> bool {
    let flags = raw::MAP_PRIVATE | raw::MAP_FIXED_NOREPLACE;
    sys::mmap(address, length, raw::PROT_READ, flags, fd, 0) == address as i64
}

extern "C" fn setup() -> ! {
    // SAFETY: the image file begins with a plan; one page of it tells how long that is.
    let plan = unsafe { Mapped::new(PLAN) };
    if !map_file(PLAN, 4096, IMAGE_FD) || plan.head().magic != MAGIC {
        fail(format_args!("the image file is not one"));
    }
    let bytes = plan.head().plan_bytes;
    let events_bytes = plan.head().events_bytes;
    sys::munmap(PLAN, 4096);
    if !map_file(PLAN, bytes, IMAGE_FD) || (events_bytes > 0 && !map_file(arena::EVENT_LOG, events_bytes, EVENTS_FD)) {
        fail(format_args!("cannot map the image and the events"));
    }
    let head = plan.head();
    die_with(head.controller_pid as i32);

    // The kernel's stack, the vdso and whatever else came with this process.
    sys::munmap(0, arena::BASE);
    sys::munmap(arena::END, USER_END - arena::END);
    let mut space = Space::new(head.brk_start, head.brk);
    for mapping in plan.mappings() {
        map_guest(mapping);
        let shared = mapping.flags as u32 & recording::MappingFlags::SHARED.0 != 0;
        space.insert(Map {
            start: mapping.start,
            end: mapping.end,
            prot: mapping.prot as u32,
            shared: u32::from(shared),
            offset: mapping.file_offset,
            origin: mapping.origin,
        });
    }
    // SAFETY: closes all descriptors; nothing here uses one.
    unsafe { sys::syscall(u64::from(raw::__NR_close_range), [0, u64::from(u32::MAX), 0, 0, 0, 0]) };

    // SAFETY: mapped above for good, read-only.
    let events = unsafe { core::slice::from_raw_parts(arena::EVENT_LOG as *const u8, events_bytes as usize) };
    let log = match Log::new(events) {
        Ok(log) => log,
        Err(error) => unfit(format_args!("the event log: {error}")),
    };
    let host = ReplayHost {
        // SAFETY: the control pages are mapped.
        slot: unsafe { slot(0) },
        controller: head.controller_pid as i32,
        log,
        registers_mask: head.registers_mask,
        vm: Vm { space, taken: plan.regions().iter().map(|&[base, size]| (base, size)).collect() },
        accesses: Accesses::default(),
        fs_base: head.registers.fs_base,
        points: Points::default(),
        drive: Drive::new(),
        pending: None,
        toucher: Toucher::new(),
        hashes: 0,
    };
    run(plan, host)
}

fn map_guest(mapping: &Mapping) {
    let length = mapping.end - mapping.start;
    let result = if mapping.image == NO_IMAGE {
        vm::map_zero(mapping.start, mapping.end, mapping.prot as u32).err().map_or(mapping.start as i64, |refused| refused.error)
    } else {
        let flags = raw::MAP_PRIVATE | raw::MAP_NORESERVE | raw::MAP_FIXED;
        sys::mmap(mapping.start, length, mapping.prot as u32, flags, IMAGE_FD, mapping.image)
    };
    if result != mapping.start as i64 {
        unfit(format_args!("cannot map {length:#x} bytes at {:#x}: error {}", mapping.start, -result));
    }
}

fn run(plan: Mapped, host: ReplayHost) -> ! {
    let head = plan.head();
    let mut engine = Engine::new(host, Options { redirect_sites: false });
    engine.add_region(arena::FAR_CODE, arena::FAR_CODE_SIZE);
    for &[base, size] in plan.regions() {
        if !engine.add_region(base, size) {
            unfit(format_args!("cannot take {size:#x} bytes at {base:#x} for code"));
        }
    }
    for &pc in plan.sites() {
        engine.add_shared_pc(pc);
    }
    let context = engine.context();
    context.gpr = head.registers.gpr;
    context.rip = head.registers.rip;
    context.rflags = head.registers.rflags;
    engine.set_stop(Some((Time { bbcount: 1, pc: 0 }.bbcount, 0)));
    engine::set_signal_stack();
    for signal in FAULTS {
        engine::install_handler::<ReplayHost>(signal as i32, 0, None);
    }
    sys::rt_sigprocmask(raw::SIG_SETMASK, Some(&0), None);
    sys::arch_prctl(sys::ARCH_SET_FS, head.registers.fs_base);
    if !vector::load(plan.xsave()) {
        unfit(format_args!("field xsave: expected a state that this processor can take, found another"));
    }
    engine.run()
}

/// Puts the guest where its return from a signal handler leads: the state is in the frame on its stack. `false` if there is none.
pub fn restore_frame(engine: &mut Guest) -> bool {
    /// The kernel's ucontext up to the signal mask.
    const BYTES: usize = size_of::<UContext>();
    const RESTORED_FLAGS: u64 = 0x5_0dd5;
    let mut bytes = [0u8; BYTES];
    let context = engine.context();
    if engine::read_guest(context.gpr[reg::RSP], &mut bytes) != BYTES {
        return false;
    }
    let word = |index: usize| u64::from_le_bytes(core::array::from_fn(|byte| bytes[8 * index + byte]));
    const GPR: usize = core::mem::offset_of!(UContext, gpr) / 8;
    const FLAGS: usize = core::mem::offset_of!(UContext, eflags) / 8;
    const FPSTATE: usize = core::mem::offset_of!(UContext, fpstate) / 8;
    for (index, &place) in sys::UCONTEXT_ORDER.iter().enumerate() {
        context.gpr[index] = word(GPR + place);
    }
    context.rip = word(GPR + sys::UCONTEXT_RIP);
    context.rflags = context.rflags & !RESTORED_FLAGS | word(FLAGS) & RESTORED_FLAGS;
    vector::load_frame(word(FPSTATE), |address, buffer| engine::read_guest(address, buffer) == buffer.len())
}

const _: () = assert!(control::SLOTS > 0);
