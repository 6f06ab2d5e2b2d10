//! The validator: a program natively, instruction by instruction under ptrace, against its recording as it is replayed.
//!
//! Natively each instruction is decoded here and the control transfers are counted by the definition alone; so a state has the time at
//! which the replay must show the very same registers, flags and memory. Some states are reached by single steps, others from far away,
//! through linked traces.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Formatter, GasFormatter, Mnemonic};
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::Pid;
use replayer::{Cancel, Direction, Points, Registers, Replay, StopReason, Timeline};

use crate::run::set_environment;

/// The status flags and the direction flag.
const FLAGS: u64 = 0xcd5;
const RSP: usize = 4;
const NAMES: [&str; 16] = ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];

/// What is compared.
pub struct Plan {
    /// Where comparing begins: both sides have the same registers there, but for rsp.
    pub from: u64,
    /// Bytes of the native program to change, where the validator itself is tested: what a wrong rule would make of an instruction.
    pub changed: Vec<(u64, u8)>,
    /// Compared ranges of memory: address and length.
    pub memory: Vec<(u64, usize)>,
    /// Instructions compared by single steps.
    pub steps: usize,
    /// Instructions from one state to the next that is sought from afar, and how many such states.
    pub stride: usize,
    pub strides: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// Transfers since the first state.
    pub transfers: u64,
    pub pc: u64,
    /// rsp is relative to the first state's.
    pub gpr: [u64; 16],
    pub flags: u64,
    /// Empty where it was not looked at.
    pub memory: Vec<u8>,
}

impl State {
    /// What is not the same, or `None`.
    pub fn difference(&self, replayed: &State) -> Option<String> {
        let mut text = String::new();
        if self.pc != replayed.pc {
            let _ = write!(text, " pc {:#x}, not {:#x};", replayed.pc, self.pc);
        }
        for (name, (native, replayed)) in NAMES.iter().zip(self.gpr.iter().zip(&replayed.gpr)).filter(|(_, (a, b))| a != b) {
            let _ = write!(text, " {name} {replayed:#x}, not {native:#x};");
        }
        if self.flags != replayed.flags {
            let _ = write!(text, " flags {:#x}, not {:#x};", replayed.flags, self.flags);
        }
        if let Some(at) = self.memory.iter().zip(&replayed.memory).position(|(a, b)| a != b) {
            let _ = write!(text, " byte {at} of the memory {:#x}, not {:#x};", replayed.memory[at], self.memory[at]);
        }
        text.pop().map(|_| text)
    }
}

/// A program stopped under ptrace.
struct Native {
    pid: Pid,
    memory: File,
    transfers: u64,
    first_rsp: Option<u64>,
}

impl Native {
    /// Runs the program up to its first arrival at `from`.
    fn start(program: &Path, directory: &Path, from: u64, changed: &[(u64, u8)]) -> Result<Self> {
        let mut command = Command::new(program);
        command.current_dir(directory).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        set_environment(&mut command, directory);
        // SAFETY: only asks to be traced.
        unsafe { command.pre_exec(|| ptrace::traceme().map_err(Into::into)) };
        let child = command.spawn().with_context(|| format!("cannot run {}", program.display()))?;
        let pid = Pid::from_raw(child.id() as i32);
        expect_trap(pid)?;
        ptrace::setoptions(pid, ptrace::Options::PTRACE_O_EXITKILL)?;
        let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem"))?;
        for &(address, byte) in changed {
            memory.write_all_at(&[byte], address)?;
        }
        let mut byte = [0];
        memory.read_exact_at(&mut byte, from)?;
        memory.write_all_at(&[0xcc], from)?;
        ptrace::cont(pid, None)?;
        expect_trap(pid)?;
        memory.write_all_at(&byte, from)?;
        let mut registers = ptrace::getregs(pid)?;
        registers.rip -= 1;
        ptrace::setregs(pid, registers)?;
        ensure!(registers.rip == from, "stopped at {:#x}", registers.rip);
        Ok(Self { pid, memory, transfers: 0, first_rsp: None })
    }

    fn state(&mut self, memory: &[(u64, usize)]) -> Result<State> {
        let r = ptrace::getregs(self.pid)?;
        let mut gpr = [r.rax, r.rcx, r.rdx, r.rbx, r.rsp, r.rbp, r.rsi, r.rdi, r.r8, r.r9, r.r10, r.r11, r.r12, r.r13, r.r14, r.r15];
        gpr[RSP] = gpr[RSP].wrapping_sub(*self.first_rsp.get_or_insert(gpr[RSP]));
        let mut bytes = Vec::new();
        for &(address, length) in memory {
            let start = bytes.len();
            bytes.resize(start + length, 0);
            self.memory.read_exact_at(&mut bytes[start..], address)?;
        }
        Ok(State { transfers: self.transfers, pc: r.rip, gpr, flags: r.eflags & FLAGS, memory: bytes })
    }

    /// Executes one instruction.
    fn step(&mut self, pc: u64) -> Result<()> {
        let mut code = [0; 15];
        self.memory.read_exact_at(&mut code, pc)?;
        let instruction = Decoder::with_ip(64, &code, pc, DecoderOptions::NONE).decode();
        self.transfers += u64::from(!matches!(instruction.flow_control(), FlowControl::Next));
        ptrace::step(self.pid, None)?;
        expect_trap(self.pid)?;
        if instruction.mnemonic() == Mnemonic::Pushfq {
            // It has seen the trap flag by which we step.
            let rsp = ptrace::getregs(self.pid)?.rsp;
            let mut byte = [0];
            self.memory.read_exact_at(&mut byte, rsp + 1)?;
            self.memory.write_all_at(&[byte[0] & !1], rsp + 1)?;
        }
        Ok(())
    }
}

impl Drop for Native {
    fn drop(&mut self) {
        let _ = ptrace::kill(self.pid);
        let _ = waitpid(self.pid, None);
    }
}

fn expect_trap(pid: Pid) -> Result<()> {
    match waitpid(pid, None)? {
        WaitStatus::Stopped(_, Signal::SIGTRAP) => Ok(()),
        other => anyhow::bail!("the native program came to {other:?}"),
    }
}

struct Replayed {
    replay: Replay,
    /// bbcount and rsp of the first state.
    first: (u64, u64),
}

impl Replayed {
    fn start(recording: &Path, from: u64) -> Result<Self> {
        let mut replay = Replay::open(recording)?;
        let points = Points { breakpoints: vec![from], ..Points::default() };
        let stop = replay.resume(Direction::Forward, &points, &Cancel::default())?;
        ensure!(stop.reason == StopReason::Breakpoint, "the recording never comes to {from:#x}");
        let rsp = replay.registers()?.gpr[RSP];
        Ok(Self { replay, first: (stop.time.bbcount, rsp) })
    }

    fn seek(&mut self, state: &State) -> Result<()> {
        self.replay.seek(self.first.0 + state.transfers, Some(state.pc))?;
        Ok(())
    }

    fn state(&mut self, memory: &[(u64, usize)]) -> Result<State> {
        let Registers { mut gpr, rip, rflags, .. } = self.replay.registers()?;
        gpr[RSP] = gpr[RSP].wrapping_sub(self.first.1);
        let mut bytes = Vec::new();
        for &(address, length) in memory {
            let start = bytes.len();
            bytes.resize(start + length, 0);
            self.replay.read_memory(address, &mut bytes[start..])?;
        }
        let transfers = self.replay.now().bbcount.wrapping_sub(self.first.0);
        Ok(State { transfers, pc: rip, gpr, flags: rflags & FLAGS, memory: bytes })
    }
}

/// Compares; `Err` in the inner result tells the first difference.
pub fn compare(program: &Path, directory: &Path, recording: &Path, plan: &Plan) -> Result<Result<(), String>> {
    let mut native = Native::start(program, directory, plan.from, &plan.changed)?;
    let mut replayed = Replayed::start(recording, plan.from)?;
    let mut states = BTreeMap::new();
    let last = plan.steps.max(plan.stride * plan.strides);
    for index in 0..=last {
        let stride = index % plan.stride == 0;
        let state = native.state(if stride { &plan.memory } else { &[] })?;
        let pc = state.pc;
        if index <= plan.steps || stride {
            states.insert(index, state);
        }
        native.step(pc)?;
    }
    for index in 0..=plan.steps {
        let state = &states[&index];
        let found = replayed.state(if state.memory.is_empty() { &[] } else { &plan.memory })?;
        if let Some(difference) = state.difference(&found) {
            return Ok(Err(describe(&mut native, &states, index, "stepwise", &difference)?));
        }
        replayed.replay.step(Direction::Forward)?;
    }
    for index in (0..=last).step_by(plan.stride) {
        let state = &states[&index];
        replayed.seek(state)?;
        if let Some(difference) = state.difference(&replayed.state(&plan.memory)?) {
            return Ok(Err(describe(&mut native, &states, index, "from afar", &difference)?));
        }
    }
    Ok(Ok(()))
}

fn describe(native: &mut Native, states: &BTreeMap<usize, State>, index: usize, how: &str, difference: &str) -> Result<String> {
    let (earlier, state) = states.range(..index).next_back().unwrap_or((&index, &states[&index]));
    let mut code = [0; 15];
    native.memory.read_exact_at(&mut code, state.pc)?;
    let instruction = Decoder::with_ip(64, &code, state.pc, DecoderOptions::NONE).decode();
    let mut text = String::new();
    GasFormatter::new().format(&instruction, &mut text);
    let now = &states[&index];
    let between = if index - earlier > 1 { format!("between instruction {earlier} and it; the first") } else { "by it; it".into() };
    Ok(format!(
        "{how}, instruction {index}, {} transfers on, at {:#x}:{difference}; wrong {between} is {:#x}: {text}",
        now.transfers, now.pc, state.pc
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named() {
        let state = State { transfers: 0, pc: 1, gpr: [0; 16], flags: 4, memory: vec![1, 2] };
        assert_eq!(state.difference(&state), None);
        let mut other = State { flags: 0, memory: vec![1, 3], ..state.clone() };
        other.gpr[3] = 5;
        let said = state.difference(&other).unwrap();
        assert_eq!(said, " rbx 0x5, not 0x0; flags 0x0, not 0x4; byte 1 of the memory 0x3, not 0x2");
    }
}
