//! Puts a run of a small program on tape by stepping it, instruction by instruction, under ptrace.
//!
//! What an instruction read and wrote is known from decoding it; where that does not tell (system calls, xsave), all writable memory is
//! compared with what it was.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;

use anyhow::{Context, bail};
use iced_x86::{Code, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, OpAccess, Register, UsedMemory};
use nix::libc;
use nix::sys::personality::{self, Persona};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, execv, fork};
use replayer::{Event, FileInRecording, MappingInfo, Registers, Time};

use crate::syscalls;

pub const PAGE: u64 = 4096;
/// A test program that runs longer has gone astray.
const MAX_MOMENTS: usize = 400_000;

pub struct Program {
    pub path: PathBuf,
    pub arguments: Vec<String>,
    pub start: String,
}

pub struct Change {
    pub address: u64,
    pub old: Vec<u8>,
    pub new: Vec<u8>,
}

pub struct Touch {
    pub address: u64,
    pub length: u64,
    pub write: bool,
}

/// The state before an instruction, and what the instruction then did.
pub struct Moment {
    pub time: Time,
    pub registers: Registers,
    pub xsave: Rc<[u8]>,
    pub changes: Vec<Change>,
    pub touches: Vec<Touch>,
    pub mappings: Rc<[MappingInfo]>,
}

pub struct Trace {
    pub moments: Vec<Moment>,
    /// Memory at the first moment, and pages mapped later as they were first seen.
    pub pages: BTreeMap<u64, Vec<u8>>,
    pub events: Vec<Event>,
    pub auxv: Vec<u8>,
    pub executable: String,
    pub files: Vec<(FileInRecording, Vec<u8>)>,
}

pub fn record(program: &Program) -> anyhow::Result<Trace> {
    let offset = symbol_offset(program)?;
    let pid = spawn(program)?;
    let trace = Tracer::attach(pid, program, offset).and_then(Tracer::run);
    let _ = ptrace::kill(pid);
    let _ = waitpid(pid, None);
    trace
}

fn symbol_offset(program: &Program) -> anyhow::Result<u64> {
    let output = Command::new("nm").arg(&program.path).output().context("nm")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find(|line| line.split(' ').nth(2) == Some(&program.start));
    let address = line.and_then(|line| line.split(' ').next()).with_context(|| format!("no function {}", program.start))?;
    Ok(u64::from_str_radix(address, 16)?)
}

fn spawn(program: &Program) -> anyhow::Result<Pid> {
    let path = CString::new(program.path.as_os_str().as_encoded_bytes())?;
    let mut arguments = vec![path.clone()];
    for argument in &program.arguments {
        arguments.push(CString::new(argument.as_str())?);
    }
    // SAFETY: between fork and exec the child only makes system calls; this process has one thread when a tape is made.
    match unsafe { fork() }? {
        ForkResult::Parent { child } => {
            waitpid(child, None)?;
            ptrace::setoptions(child, ptrace::Options::PTRACE_O_EXITKILL)?;
            Ok(child)
        }
        ForkResult::Child => {
            // The server's output is the protocol; a traced program must not write into it.
            let quiet = ptrace::traceme().is_ok() && personality::set(Persona::ADDR_NO_RANDOMIZE).is_ok() && silence();
            if quiet {
                let _ = execv(&path, &arguments);
            }
            std::process::abort();
        }
    }
}

fn silence() -> bool {
    let Ok(null) = File::options().write(true).open("/dev/null") else {
        return false;
    };
    nix::unistd::dup2_stdout(&null).is_ok() && nix::unistd::dup2_stderr(&null).is_ok()
}

struct Tracer {
    pid: Pid,
    memory: File,
    trace: Trace,
    /// What memory holds now, as far as the tape knows.
    shadow: BTreeMap<u64, Vec<u8>>,
    mappings: Rc<[MappingInfo]>,
    bbcount: u64,
    /// The number of the system call just made.
    call: Option<u64>,
    info: InstructionInfoFactory,
}

impl Tracer {
    fn attach(pid: Pid, program: &Program, offset: u64) -> anyhow::Result<Self> {
        let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        let executable = fs::canonicalize(&program.path)?.display().to_string();
        let base = read_mappings(pid)?.iter().find(|mapping| mapping.name == executable).context("the program is not mapped")?.start;
        let start = if offset < base { base + offset } else { offset };
        run_to(pid, &memory, start)?;
        let mappings: Rc<[MappingInfo]> = read_mappings(pid)?.into();
        let trace = Trace {
            moments: Vec::new(),
            pages: BTreeMap::new(),
            events: Vec::new(),
            auxv: fs::read(format!("/proc/{pid}/auxv"))?,
            executable,
            files: recorded_files(&mappings),
        };
        let mut tracer =
            Tracer { pid, memory, trace, shadow: BTreeMap::new(), mappings, bbcount: 1, call: None, info: InstructionInfoFactory::new() };
        tracer.compare_all(true);
        Ok(tracer)
    }

    fn run(mut self) -> anyhow::Result<Trace> {
        while self.trace.moments.len() < MAX_MOMENTS {
            let registers = self.registers()?;
            let xsave = self.xsave()?;
            let time = Time { bbcount: self.bbcount, pc: registers.rip };
            let mappings = self.mappings.clone();
            self.trace.moments.push(Moment { time, registers, xsave, changes: Vec::new(), touches: Vec::new(), mappings });
            if !self.step(time, &registers)? {
                return Ok(self.trace);
            }
        }
        bail!("more than {MAX_MOMENTS} instructions")
    }

    /// Executes one instruction; false where the recording ends.
    fn step(&mut self, time: Time, registers: &Registers) -> anyhow::Result<bool> {
        let mut bytes = [0u8; 16];
        let count = self.memory.read_at(&mut bytes, registers.rip)?;
        let instruction = Decoder::with_ip(64, &bytes[..count], registers.rip, DecoderOptions::NONE).decode();
        let syscall = instruction.code() == Code::Syscall;
        if syscall && registers.gpr[0] == syscalls::EXIT_GROUP {
            self.event(time, registers.gpr[0], 0);
            return Ok(false);
        }
        self.call = syscall.then_some(registers.gpr[0]);
        let repeated = instruction.has_rep_prefix() || instruction.has_repne_prefix();
        let mut current = *registers;
        loop {
            let (touches, known) = self.touches(&instruction, &current);
            ptrace::step(self.pid, None::<Signal>)?;
            if waitpid(self.pid, None)? != WaitStatus::Stopped(self.pid, Signal::SIGTRAP) {
                return Ok(false);
            }
            for touch in &touches {
                if touch.write {
                    self.compare(touch.address, touch.length);
                }
            }
            if syscall {
                self.mappings = read_mappings(self.pid)?.into();
            }
            if syscall || !known {
                self.compare_all(false);
            }
            if let Some(moment) = self.trace.moments.last_mut() {
                moment.touches.extend(touches);
            }
            current = self.registers()?;
            if !repeated || current.rip != registers.rip {
                break;
            }
        }
        if let Some(number) = self.call {
            self.event(time, number, current.gpr[0] as i64);
        }
        if instruction.flow_control() != FlowControl::Next {
            self.bbcount += 1;
        }
        Ok(true)
    }

    fn event(&mut self, time: Time, number: u64, result: i64) {
        self.trace.events.push(Event {
            time,
            name: syscalls::name(number),
            result,
            syscall: Some(number),
            signum: 0,
            address: 0,
            tid: 0,
            timestamp: 0,
            size: 80,
        });
    }

    /// What the instruction will touch, and whether that is all of it.
    fn touches(&mut self, instruction: &Instruction, registers: &Registers) -> (Vec<Touch>, bool) {
        let mut touches = Vec::new();
        let mut known = true;
        for memory in self.info.info(instruction).used_memory() {
            let (read, write) = match memory.access() {
                OpAccess::Read | OpAccess::CondRead => (true, false),
                OpAccess::Write | OpAccess::CondWrite => (false, true),
                OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
                _ => continue,
            };
            let length = memory.memory_size().size() as u64;
            match address_of(memory, registers) {
                Some(address) if length > 0 => {
                    touches.extend(read.then_some(Touch { address, length, write: false }));
                    touches.extend(write.then_some(Touch { address, length, write: true }));
                }
                _ => known &= !write,
            }
        }
        (touches, known)
    }

    /// Takes note of what changed in `address..address + length`.
    fn compare(&mut self, address: u64, length: u64) {
        let mut new = vec![0; length as usize];
        if self.memory.read_exact_at(&mut new, address).is_err() {
            return;
        }
        let mut old = new.clone();
        for (index, byte) in new.iter().enumerate() {
            let at = address + index as u64;
            if let Some(page) = self.shadow.get_mut(&(at / PAGE)) {
                old[index] = std::mem::replace(&mut page[(at % PAGE) as usize], *byte);
            }
        }
        if old != new
            && let Some(moment) = self.trace.moments.last_mut()
        {
            moment.changes.push(Change { address, old, new });
        }
    }

    /// Compares all writable memory, and takes in pages not seen before.
    fn compare_all(&mut self, everything: bool) {
        for mapping in self.mappings.clone().iter() {
            for number in mapping.start / PAGE..mapping.end / PAGE {
                let known = self.shadow.contains_key(&number);
                if known && !everything && mapping.prot & 2 == 0 {
                    continue;
                }
                let mut page = vec![0; PAGE as usize];
                if self.memory.read_exact_at(&mut page, number * PAGE).is_err() {
                    continue;
                }
                if known && self.shadow[&number] != page {
                    self.compare(number * PAGE, PAGE);
                } else if !known {
                    self.trace.pages.insert(number, page.clone());
                    self.shadow.insert(number, page);
                }
            }
        }
    }

    fn registers(&self) -> anyhow::Result<Registers> {
        let all = ptrace::getregs(self.pid)?;
        Ok(Registers {
            gpr: [
                all.rax, all.rcx, all.rdx, all.rbx, all.rsp, all.rbp, all.rsi, all.rdi, all.r8, all.r9, all.r10, all.r11, all.r12, all.r13,
                all.r14, all.r15,
            ],
            rip: all.rip,
            rflags: all.eflags & !0x100,
            fs_base: all.fs_base,
            gs_base: all.gs_base,
        })
    }

    fn xsave(&self) -> anyhow::Result<Rc<[u8]>> {
        const NT_X86_XSTATE: libc::c_int = 0x202;
        let mut image = vec![0u8; 4096];
        let mut vector = libc::iovec { iov_base: image.as_mut_ptr().cast(), iov_len: image.len() };
        // SAFETY: the kernel writes at most iov_len bytes to iov_base, which `image` owns, and the count into the iovec.
        let result = unsafe { libc::ptrace(libc::PTRACE_GETREGSET, self.pid.as_raw(), NT_X86_XSTATE, &mut vector) };
        if result != 0 {
            bail!("the vector registers cannot be read");
        }
        image.truncate(vector.iov_len);
        match self.trace.moments.last() {
            Some(moment) if moment.xsave[..] == image[..] => Ok(moment.xsave.clone()),
            _ => Ok(image.into()),
        }
    }
}

fn run_to(pid: Pid, memory: &File, address: u64) -> anyhow::Result<()> {
    let mut original = [0u8; 1];
    memory.read_exact_at(&mut original, address)?;
    memory.write_all_at(&[0xcc], address)?;
    ptrace::cont(pid, None::<Signal>)?;
    if waitpid(pid, None)? != WaitStatus::Stopped(pid, Signal::SIGTRAP) {
        bail!("the program never came to its start function");
    }
    memory.write_all_at(&original, address)?;
    let mut registers = ptrace::getregs(pid)?;
    registers.rip = address;
    Ok(ptrace::setregs(pid, registers)?)
}

fn address_of(memory: &UsedMemory, registers: &Registers) -> Option<u64> {
    memory.virtual_address(0, |register, _, _| {
        let full = register.full_register();
        Some(match full {
            Register::FS => registers.fs_base,
            Register::GS => registers.gs_base,
            _ if register.is_segment_register() => 0,
            Register::RIP => registers.rip,
            _ if full.is_gpr64() => registers.gpr[full.number()],
            // Gathers and the like: not known from the integer registers.
            _ => return None,
        })
    })
}

fn read_mappings(pid: Pid) -> anyhow::Result<Vec<MappingInfo>> {
    let text = fs::read_to_string(format!("/proc/{pid}/maps"))?;
    text.lines().map(|line| parse_mapping(line).with_context(|| format!("strange mapping: {line}"))).collect()
}

fn parse_mapping(line: &str) -> Option<MappingInfo> {
    let mut words = line.split_whitespace();
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let offset = words.next()?;
    let prot = "rwx".chars().enumerate().map(|(bit, letter)| u32::from(rights.contains(letter)) << bit).sum();
    Some(MappingInfo {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        prot,
        shared: rights.ends_with('s'),
        offset: u64::from_str_radix(offset, 16).ok()?,
        name: words.nth(2).unwrap_or_default().to_owned(),
    })
}

fn recorded_files(mappings: &[MappingInfo]) -> Vec<(FileInRecording, Vec<u8>)> {
    let mut files = BTreeMap::new();
    for mapping in mappings.iter().filter(|mapping| mapping.name.starts_with('/')) {
        if let Ok(contents) = fs::read(&mapping.name) {
            files.insert(mapping.name.clone(), contents);
        }
    }
    files.into_iter().map(|(path, contents)| (FileInRecording { path, size: contents.len() as u64 }, contents)).collect()
}
