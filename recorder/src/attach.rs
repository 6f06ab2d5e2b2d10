//! Gets the library into a process that runs already, by ptrace, and starts recording there.
//!
//! The process may have been stopped anywhere, with whatever locks held, so none of its own code is called: the library needs no loader
//! and no C library, and is copied in here. The process then runs a stub of ours on a stack of ours, which starts recording and returns,
//! as from a signal handler, to where the process was: by then it runs in translation.
//!
//! ```text
//!   one new mapping: │ library's image │ stub │ words │ settings │ signal frame, vector state │ stack │
//! ```

use std::ffi::{OsString, c_void};
use std::fs::{self, File};
use std::io;
use std::mem::{offset_of, size_of};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::executable;
use crate::image::Image;

const PAGE: usize = 4096;
/// Where the library's own area begins; see `engine::arena`.
const AREA: &str = "6a0000000000-";
const STACK: usize = 256 << 10;

/// Starts recording process `pid` with these settings, variables as `live-record` gives them to programs that it launches.
pub fn attach(library: &Path, pid: i32, settings: &[(OsString, OsString)]) -> Result<()> {
    let image = Image::read(library)?;
    executable::check_machine(&Path::new("/proc").join(pid.to_string()).join("exe"))?;
    check(pid)?;
    let mut tracee = Tracee::stop(pid)?;
    // What may have changed until it stopped.
    check_threads(pid)?;
    tracee.leave_vdso()?;
    let start = tracee.prepare(&image, library, settings)?;
    tracee.run(&start)
}

/// Refuses what cannot be recorded, by name.
fn check(pid: i32) -> Result<()> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("cannot read its status")?;
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map_or("", str::trim);
    ensure!(!field("State").starts_with(['Z', 'X']), "it has ended");
    ensure!(!field("State").starts_with('T'), "it is stopped; continue it first");
    ensure!(field("TracerPid") == "0", "process {} traces it already", field("TracerPid"));
    ensure!(field("Seccomp") == "0", "it restricts its system calls (seccomp)");
    check_threads(pid)?;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).context("cannot read its mappings")?;
    ensure!(!maps.lines().any(|line| line.starts_with(AREA)), "it is, or was, recorded already");
    Ok(())
}

fn check_threads(pid: i32) -> Result<()> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).context("cannot list its threads")?;
    let names = threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("comm")).ok());
    let names: Vec<String> = names.map(|name| name.trim_end().to_owned()).collect();
    ensure!(names.len() == 1, "it has {} threads: {}", names.len(), names.join(", "));
    Ok(())
}

/// A process that we have stopped. Dropped, it goes on from where it is.
struct Tracee {
    pid: Pid,
    memory: File,
    registers: libc::user_regs_struct,
    /// Blocked signals of the process itself.
    mask: u64,
    /// A `syscall` instruction of the process.
    syscall: u64,
    attached: bool,
}

/// Where the stub is and what it needs.
struct Start {
    stub: u64,
    stack_top: u64,
    /// Three words: done, result, errno.
    words: u64,
}

impl Tracee {
    fn stop(pid: i32) -> Result<Self> {
        let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).map_err(|error| refused(error.into()))?;
        let pid = Pid::from_raw(pid);
        ptrace::seize(pid, ptrace::Options::empty()).map_err(|error| refused(error.into()))?;
        let mut tracee = Self { pid, memory, registers: empty_registers(), mask: 0, syscall: 0, attached: true };
        ptrace::interrupt(pid).context("cannot stop it")?;
        loop {
            match waitpid(pid, Some(WaitPidFlag::__WALL))? {
                WaitStatus::PtraceEvent(..) => break,
                // A signal on its way: the process gets it.
                WaitStatus::Stopped(_, signal) => ptrace::cont(pid, signal)?,
                other => bail!("it did not stop: {other:?}"),
            }
        }
        tracee.registers = ptrace::getregs(pid)?;
        ensure!(tracee.registers.cs == 0x33, "it is not executing 64-bit code");
        tracee.mask = tracee.signal_mask()?;
        Ok(tracee)
    }

    /// The vdso's functions read memory that the kernel changes, so recording must not begin in the middle of one.
    fn leave_vdso(&mut self) -> Result<()> {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid))?;
        let line = maps.lines().find(|line| line.ends_with("[vdso]")).context("it has no vdso")?;
        let (start, end) = line.split(' ').next().and_then(|range| range.split_once('-')).context("its mappings are not understood")?;
        let (start, end) = (u64::from_str_radix(start, 16)?, u64::from_str_radix(end, 16)?);
        // A system call interrupted there, as anywhere, is about to be made again.
        self.rewind_system_call();
        while (start..end).contains(&self.registers.rip) {
            ptrace::setregs(self.pid, self.registers)?;
            self.step()?;
            self.registers = ptrace::getregs(self.pid)?;
        }
        let mut code = vec![0; (end - start) as usize];
        self.memory.read_exact_at(&mut code, start).context("cannot read its vdso")?;
        let at = code.windows(2).position(|bytes| bytes == [0x0f, 0x05]).context("its vdso makes no system calls")?;
        self.syscall = start + at as u64;
        Ok(())
    }

    /// A system call that the stop has interrupted is made again, with its own arguments: a sleep begins anew.
    fn rewind_system_call(&mut self) {
        const RESTARTED: [i64; 4] = [-512, -513, -514, -516];
        let registers = &mut self.registers;
        if registers.orig_rax.cast_signed() >= 0 && RESTARTED.contains(&registers.rax.cast_signed()) {
            registers.rax = registers.orig_rax;
            registers.rip -= 2;
        }
        registers.orig_rax = u64::MAX;
    }

    /// Executes one instruction.
    fn step(&self) -> Result<()> {
        ptrace::step(self.pid, None)?;
        match waitpid(self.pid, Some(WaitPidFlag::__WALL))? {
            WaitStatus::Stopped(_, Signal::SIGTRAP) => Ok(()),
            other => bail!("it ended while it was being attached to: {other:?}"),
        }
    }

    /// Makes a system call in the process.
    fn call(&self, number: libc::c_long, args: [u64; 6]) -> Result<u64> {
        let registers = libc::user_regs_struct {
            rax: number as u64,
            orig_rax: u64::MAX,
            rip: self.syscall,
            rdi: args[0],
            rsi: args[1],
            rdx: args[2],
            r10: args[3],
            r8: args[4],
            r9: args[5],
            ..self.registers
        };
        ptrace::setregs(self.pid, registers)?;
        self.step()?;
        let result = ptrace::getregs(self.pid)?.rax;
        ensure!(result.cast_signed() >= 0 || result.cast_signed() < -4095, "{}", Errno::from_raw(-result.cast_signed() as i32).desc());
        Ok(result)
    }

    /// Lays everything out in the process's memory.
    fn prepare(&self, image: &Image, library: &Path, settings: &[(OsString, OsString)]) -> Result<Start> {
        let vectors = self.vector_state()?;
        let mut layout = Layout { used: image.len().next_multiple_of(PAGE) };
        let stub_at = layout.take(PAGE, PAGE);
        let words_at = layout.take(PAGE, PAGE);
        let settings_size: usize = settings.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
        let settings_at = layout.take(8 * (settings.len() + 2) + settings_size + library.as_os_str().len() + 16, 8);
        let vectors_at = layout.take(vectors.len() + 4, 64);
        let frame_at = layout.take(size_of::<Frame>(), 16);
        let stack_at = layout.take(STACK, PAGE);
        let size = (stack_at + STACK) as u64;

        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let rights = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let base = self.call(libc::SYS_mmap, [0, size, rights, flags, u64::MAX, 0]).context("cannot map memory in it")?;
        let at = |offset: usize| base + offset as u64;
        let write = |offset: usize, bytes: &[u8]| self.memory.write_all_at(bytes, at(offset)).context("cannot write to its memory");

        // The library's `errno` is the third word.
        let errno = [&[0x48, 0xb8][..], &at(words_at + 16).to_le_bytes(), &[0xc3]].concat();
        let errno_at = stub_at + 256;
        write(0, &image.at(base, at(errno_at)))?;
        write(errno_at, &errno)?;
        write(stub_at, &stub(at(settings_at), image.constructor(base), at(words_at), at(frame_at) + 8))?;
        write(settings_at, &environment(at(settings_at), library, settings))?;
        write(vectors_at, &framed(vectors))?;
        let frame = Frame::new(&self.registers, self.mask, at(vectors_at));
        write(frame_at, &frame.bytes())?;
        let own_stack = at(frame_at) + offset_of!(Frame, stack) as u64;
        self.call(libc::SYS_sigaltstack, [0, own_stack, 0, 0, 0, 0]).context("cannot ask for its signal stack")?;
        let code = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        for (start, length) in image.code().chain([(stub_at as u64, PAGE as u64)]) {
            self.call(libc::SYS_mprotect, [base + start, length, code, 0, 0, 0]).context("cannot make its new memory executable")?;
        }
        Ok(Start { stub: at(stub_at), stack_top: base + size, words: at(words_at) })
    }

    /// Runs the stub until recording has started or failed to, and lets the process go.
    fn run(mut self, start: &Start) -> Result<()> {
        // No handler may run on the stub's stack; faults are never blocked.
        const FAULTS: u64 = 1 << (libc::SIGSEGV - 1)
            | 1 << (libc::SIGBUS - 1)
            | 1 << (libc::SIGFPE - 1)
            | 1 << (libc::SIGILL - 1)
            | 1 << (libc::SIGTRAP - 1);
        self.set_signal_mask(!FAULTS)?;
        const DIRECTION_AND_TRAP: u64 = 0x500;
        let eflags = self.registers.eflags & !DIRECTION_AND_TRAP;
        let registers = libc::user_regs_struct { rip: start.stub, rsp: start.stack_top, orig_rax: u64::MAX, eflags, ..self.registers };
        ptrace::setregs(self.pid, registers)?;
        let mut pass = None;
        let words = loop {
            ptrace::syscall(self.pid, pass.take())?;
            match waitpid(self.pid, Some(WaitPidFlag::__WALL))? {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {}
                WaitStatus::Stopped(_, signal) => pass = Some(signal),
                WaitStatus::PtraceEvent(..) => {}
                other => {
                    self.attached = false;
                    bail!("it ended while it was being attached to: {other:?}");
                }
            }
            let mut words = [0; 24];
            self.memory.read_exact_at(&mut words, start.words)?;
            let word = |index: usize| i64::from_le_bytes(words[8 * index..8 * index + 8].try_into().unwrap_or_default());
            if word(0) != 0 {
                break (word(1), word(2));
            }
        };
        // From here on the process goes its way, in translation or, after a failure, natively.
        self.attached = false;
        ptrace::detach(self.pid, pass)?;
        ensure!(words.0 == 0, "{}", Errno::from_raw(words.1 as i32).desc());
        Ok(())
    }

    fn signal_mask(&self) -> Result<u64> {
        let mut mask = 0u64;
        self.request(libc::PTRACE_GETSIGMASK, 8, (&raw mut mask).cast())?;
        Ok(mask)
    }

    fn set_signal_mask(&self, mut mask: u64) -> Result<()> {
        self.request(libc::PTRACE_SETSIGMASK, 8, (&raw mut mask).cast())
    }

    /// All vector registers, as xsave lays them out.
    fn vector_state(&self) -> Result<Vec<u8>> {
        const NT_X86_XSTATE: usize = 0x202;
        let mut bytes = vec![0u8; 64 << 10];
        let mut vector = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
        self.request(libc::PTRACE_GETREGSET, NT_X86_XSTATE, (&raw mut vector).cast()).context("cannot read its vector registers")?;
        bytes.truncate(vector.iov_len);
        ensure!(bytes.len() > 576, "its vector registers have no known form");
        Ok(bytes)
    }

    fn request(&self, what: libc::c_uint, address: usize, data: *mut c_void) -> Result<()> {
        // SAFETY: each caller passes what the request reads or writes, of the length that it says.
        let result = unsafe { libc::ptrace(what, self.pid.as_raw(), address as *mut c_void, data) };
        Errno::result(result)?;
        Ok(())
    }
}

impl Drop for Tracee {
    fn drop(&mut self) {
        if self.attached {
            let _ = self.set_signal_mask(self.mask);
            let _ = ptrace::setregs(self.pid, self.registers);
            let _ = ptrace::detach(self.pid, None);
        }
    }
}

/// Adds what is known of the reasons.
fn refused(error: anyhow::Error) -> anyhow::Error {
    let yama = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match error.downcast_ref::<Errno>().copied().or_else(|| error.downcast_ref::<io::Error>()?.raw_os_error().map(Errno::from_raw)) {
        Some(Errno::EPERM | Errno::EACCES) if !["", "0"].contains(&yama.trim()) => {
            error.context("the Yama security module forbids attaching (kernel.yama.ptrace_scope)")
        }
        Some(Errno::EPERM | Errno::EACCES) => error.context("this user may not attach to it"),
        _ => error,
    }
}

struct Layout {
    used: usize,
}

impl Layout {
    fn take(&mut self, size: usize, alignment: usize) -> usize {
        let at = self.used.next_multiple_of(alignment);
        self.used = at + size;
        at
    }
}

/// constructor(0, null, settings); note the result; return as from a signal.
fn stub(settings: u64, constructor: u64, words: u64, frame: u64) -> Vec<u8> {
    let mut code = Vec::new();
    let mut put = |bytes: &[u8], value: Option<u64>| {
        code.extend_from_slice(bytes);
        code.extend(value.iter().flat_map(|value| value.to_le_bytes()));
    };
    put(&[0x48, 0xbb], Some(words)); // mov rbx, words
    put(&[0x31, 0xff, 0x31, 0xf6], None); // xor edi, edi; xor esi, esi
    put(&[0x48, 0xba], Some(settings)); // mov rdx, settings
    put(&[0x48, 0xb8], Some(constructor)); // mov rax, constructor
    put(&[0xff, 0xd0], None); // call rax
    put(&[0x48, 0x89, 0x43, 0x08], None); // mov [rbx + 8], rax
    put(&[0xc6, 0x03, 0x01], None); // mov byte ptr [rbx], 1
    put(&[0x48, 0xbc], Some(frame)); // mov rsp, frame
    put(&[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05], None); // mov eax, rt_sigreturn; syscall
    code
}

/// An environment: pointers, then the strings, to lie at `at`.
fn environment(at: u64, library: &Path, settings: &[(OsString, OsString)]) -> Vec<u8> {
    let preload = [b"LD_PRELOAD=", library.as_os_str().as_bytes(), b"\0"].concat();
    let set = settings.iter().map(|(name, value)| [name.as_bytes(), b"=", value.as_bytes(), b"\0"].concat());
    let strings: Vec<Vec<u8>> = std::iter::once(preload).chain(set).collect();
    let mut place = at + 8 * (strings.len() as u64 + 1);
    let mut bytes = Vec::new();
    for string in &strings {
        bytes.extend(place.to_le_bytes());
        place += string.len() as u64;
    }
    bytes.extend([0; 8]);
    bytes.extend(strings.concat());
    bytes
}

/// Vector state as it stands in a signal frame.
fn framed(mut state: Vec<u8>) -> Vec<u8> {
    const SOFTWARE: usize = 464;
    const MAGIC1: u32 = 0x4650_5853;
    const MAGIC2: u32 = 0x4650_5845;
    // Where the kernel keeps the set of components in what ptrace shows.
    let components: [u8; 8] = state[SOFTWARE..SOFTWARE + 8].try_into().unwrap_or_default();
    let size = state.len() as u32;
    state[SOFTWARE..SOFTWARE + 4].copy_from_slice(&MAGIC1.to_le_bytes());
    state[SOFTWARE + 4..SOFTWARE + 8].copy_from_slice(&(size + 4).to_le_bytes());
    state[SOFTWARE + 8..SOFTWARE + 16].copy_from_slice(&components);
    state[SOFTWARE + 16..SOFTWARE + 20].copy_from_slice(&size.to_le_bytes());
    state.extend(MAGIC2.to_le_bytes());
    state
}

/// The kernel's `rt_sigframe` up to the signal mask.
#[repr(C)]
struct Frame {
    return_address: u64,
    flags: u64,
    link: u64,
    stack: [u64; 3],
    /// r8 … r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags.
    general: [u64; 18],
    segments: u64,
    fault: [u64; 4],
    vectors: u64,
    reserved: [u64; 8],
    mask: u64,
}

impl Frame {
    fn new(registers: &libc::user_regs_struct, mask: u64, vectors: u64) -> Self {
        const XSTATE_AND_SEGMENTS: u64 = 7;
        let r = registers;
        Self {
            return_address: 0,
            flags: XSTATE_AND_SEGMENTS,
            link: 0,
            stack: [0; 3],
            general: [
                r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15, r.rdi, r.rsi, r.rbp, r.rbx, r.rdx, r.rax, r.rcx, r.rsp, r.rip,
                r.eflags,
            ],
            segments: 0x002b_0000_0000_0033,
            fault: [0, 0, mask, 0],
            vectors,
            reserved: [0; 8],
            mask,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let (a, b) = ([self.return_address, self.flags, self.link], [self.segments]);
        let words = a.iter().chain(&self.stack).chain(&self.general).chain(&b).chain(&self.fault);
        let words = words.chain([&self.vectors]).chain(&self.reserved).chain([&self.mask]);
        words.flat_map(|word| word.to_le_bytes()).collect()
    }
}

fn empty_registers() -> libc::user_regs_struct {
    // SAFETY: plain integers.
    unsafe { std::mem::zeroed() }
}
