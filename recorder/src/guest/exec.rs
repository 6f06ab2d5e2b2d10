//! exec: the end of the recording if it succeeds, an event like others if it fails.
//!
//! Which of both will be is known only when there is nobody left to act on it. So the recording is ended and saved before the call, and
//! taken up again behind it. Failures that are cheap to foresee are foreseen.
//!
//! Where children are recorded (`--on-fork`), so are the programs that they execute: the environment of the new program then says what
//! `live-record` said in this one's.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::Ordering;

use engine::Flow;
use engine::sys::{self, raw};
use recording::EndReason;

use super::calls::{Memory, Turn};
use super::control::control;
use super::host::{Guest, Recorder};
use super::state::{self, OnFork, State};
use super::{borrowed, end};
use crate::launch::{PREFIX, Variable};
use crate::syscalls::GuestMemory;

/// Longer than any string that exec takes.
const STRING_MAX: usize = 128 << 10;
const STRINGS_MAX: usize = 1 << 16;

impl Turn<'_> {
    pub fn execute_program(&mut self, host: &mut Recorder, engine: &mut Guest) -> Flow {
        let by_descriptor = self.number as u32 == raw::__NR_execveat;
        if engine.context().attention != 0 {
            // A signal that can be delivered comes first.
            return Flow::NotMade;
        }
        let mut actual = self.args;
        let environment_at = if by_descriptor { 3 } else { 2 };
        let path = read_string(host, self.args[usize::from(by_descriptor)]);
        let environment = state::existing().and_then(|state| {
            let wanted = wants_to_follow(state, host.events.is_muted()) && path.as_deref().is_some_and(can_preload);
            wanted.then(|| Environment::new(state, host, self.args[environment_at])).flatten()
        });
        if let Some(environment) = &environment {
            actual[environment_at] = environment.pointers.as_ptr() as u64;
        }
        if host.events.is_muted() {
            borrowed::publish(host, engine);
            let result = execute(host, self.number, actual);
            return self.done_simply(host, engine, result);
        }
        if !by_descriptor && let Some(path) = &path {
            const X_OK: u64 = 1;
            // SAFETY: access only looks at the path, which ends in zero.
            let refusal = unsafe { sys::syscall(u64::from(raw::__NR_access), [path.as_ptr() as u64, X_OK, 0, 0, 0, 0]) };
            if refusal != 0 {
                return self.done_simply(host, engine, refusal);
            }
        }
        let mark = host.events.mark();
        let message = "the process executes another program";
        end::finish(host, engine, EndReason::Detached, 0, format_args!("{message}"));
        let foreseen = path.as_deref().is_some_and(is_program);
        if foreseen && environment.is_none() {
            end::say(engine, format_args!("{message} (--on-fork both records that too)"));
        }
        if foreseen && state::existing().is_some_and(|state| state.launched) {
            return self.execute_for_good(host, engine, actual);
        }
        control().executing.store(1, Ordering::Release);
        let result = execute(host, self.number, actual);
        control().executing.store(0, Ordering::Release);
        host.events.rewind(mark);
        if let Some(log) = &mut host.log {
            log.resume();
        }
        self.done_simply(host, engine, result)
    }

    /// The recording has ended and is saved. The new program is to have no child that it does not know: some wait for children of any
    /// kind. So the snapshot ends first, and if the program is refused against expectation this one goes on unrecorded.
    fn execute_for_good(&self, host: &mut Recorder, engine: &mut Guest, args: [u64; 6]) -> Flow {
        end::dismiss_snapshot();
        let result = execute(host, self.number, args);
        end::say_refused(result);
        end::detach(host);
        self.leave_behind(engine, result);
        Flow::Leave
    }
}

/// The call itself, with the guest's own view of its memory and its signals in place. Returns if it fails.
fn execute(host: &mut Recorder, number: u64, args: [u64; 6]) -> i64 {
    host.shared.release();
    sys::rt_sigprocmask(raw::SIG_SETMASK, Some(&u64::MAX), None);
    host.signals.return_queue();
    host.signals.release();
    // SAFETY: the guest asked for it.
    let result = unsafe { sys::syscall(number, args) };
    host.signals.resume();
    host.shared.close();
    result
}

/// Whether the program that this process is about to execute is to be recorded.
fn wants_to_follow(state: &State, is_child: bool) -> bool {
    match state.on_fork {
        OnFork::Parent => false,
        OnFork::Both => !state.library.is_empty(),
        // There the process that `live-record` became is not a child, and is not wanted for its own sake.
        OnFork::Child => !state.library.is_empty() && (is_child || sys::getpid() as u64 != state.first),
    }
}

/// A string of the guest with its terminating zero.
fn read_string(host: &Recorder, address: u64) -> Option<Vec<u8>> {
    let mut text = Vec::new();
    while address != 0 && text.len() < STRING_MAX {
        let at = address.checked_add(text.len() as u64)?;
        let mut piece = [0u8; 256];
        let room = (4096 - at as usize % 4096).min(piece.len());
        if !Memory(&host.shared).read(at, &mut piece[..room]) {
            return None;
        }
        if let Some(end) = piece[..room].iter().position(|&byte| byte == 0) {
            text.extend_from_slice(&piece[..=end]);
            return Some(text);
        }
        text.extend_from_slice(&piece[..room]);
    }
    None
}

/// The first bytes of a regular file; `path` ends in zero.
fn head(path: &[u8]) -> Option<[u8; 1024]> {
    let fd = sys::open(path, raw::O_RDONLY | raw::O_CLOEXEC | raw::O_NONBLOCK, 0);
    if fd < 0 {
        return None;
    }
    let mut bytes = [0u8; 1024];
    let got = sys::pread(fd as i32, &mut bytes, 0);
    sys::close(fd as i32);
    (got > 2).then_some(bytes)
}

/// Whether exec will hardly refuse it.
fn is_program(path: &[u8]) -> bool {
    head(path).is_some_and(|bytes| bytes.starts_with(b"\x7fELF") || bytes.starts_with(b"#!"))
}

/// Whether a library can be preloaded into it: a script, or a 64-bit program with an interpreter.
fn can_preload(path: &[u8]) -> bool {
    let Some(bytes) = head(path) else { return false };
    if bytes.starts_with(b"#!") {
        return true;
    }
    let number = |at: usize, size: usize| {
        bytes.get(at..at + size).map_or(0, |field| field.iter().rev().fold(0, |sum, &byte| sum << 8 | usize::from(byte)))
    };
    let (offset, count) = (number(32, 8), number(56, 2));
    bytes.starts_with(b"\x7fELF\x02") && number(18, 2) == 62 && (0..count).any(|index| number(offset.saturating_add(56 * index), 4) == 3)
}

/// The new program's environment: the guest's with our variables and our library.
struct Environment {
    pointers: Vec<u64>,
    /// What the pointers of ours lead to.
    _strings: Vec<String>,
    _preload: Vec<u8>,
}

impl Environment {
    fn new(state: &State, host: &Recorder, list: u64) -> Option<Self> {
        const PRELOAD: &[u8] = b"LD_PRELOAD=";
        let mut pointers = Vec::new();
        let mut preload = [PRELOAD, state.library.as_bytes()].concat();
        let mut place = None;
        while list != 0 && pointers.len() < STRINGS_MAX {
            let mut bytes = [0u8; 8];
            if !Memory(&host.shared).read(list + 8 * pointers.len() as u64, &mut bytes) {
                return None;
            }
            let pointer = u64::from_le_bytes(bytes);
            if pointer == 0 {
                break;
            }
            let mut start = [0u8; PRELOAD.len()];
            if place.is_none() && Memory(&host.shared).read(pointer, &mut start) && start == PRELOAD {
                let old = read_string(host, pointer)?;
                place = Some(pointers.len());
                if old.len() > PRELOAD.len() + 1 {
                    preload.push(b':');
                    preload.extend_from_slice(&old[PRELOAD.len()..old.len() - 1]);
                }
            }
            pointers.push(pointer);
        }
        preload.push(0);
        let strings = variables(state, host.events.is_muted());
        match place {
            Some(place) => pointers[place] = preload.as_ptr() as u64,
            None => pointers.push(preload.as_ptr() as u64),
        }
        pointers.extend(strings.iter().map(|string| string.as_ptr() as u64));
        pointers.push(0);
        Some(Self { pointers, _strings: strings, _preload: preload })
    }
}

/// Our settings as `live-record` would put them, for this process's next program.
fn variables(state: &State, is_unrecorded: bool) -> Vec<String> {
    let mut strings = Vec::new();
    let mut set = |variable: Variable, value: core::fmt::Arguments| {
        let mut text = String::new();
        let _ = write!(text, "{PREFIX}{}={value}\0", variable.name());
        strings.push(text);
    };
    let utf8 = |bytes| core::str::from_utf8(bytes).unwrap_or("");
    let pid = sys::getpid();
    set(Variable::Pid, format_args!("{pid}"));
    set(Variable::First, format_args!("{}", state.first));
    set(Variable::Executed, format_args!("{}", if is_unrecorded { 0 } else { state.executed + 1 }));
    set(Variable::File, format_args!("{}", utf8(state.family_path.as_bytes())));
    if !state.access_log_path.is_empty() {
        set(Variable::ShmemLog, format_args!("{}", utf8(state.access_log_path.as_bytes())));
    }
    set(Variable::ShmemLogSize, format_args!("{}", state.access_log_bytes));
    set(Variable::EventLogSize, format_args!("{}", state.event_log_bytes));
    set(Variable::OnFork, format_args!("{}", if state.on_fork == OnFork::Both { "both" } else { "child" }));
    set(Variable::Quiet, format_args!("{}", u8::from(state.quiet)));
    set(Variable::SaveOnError, format_args!("{}", u8::from(state.save_on == state::SaveOn::Error)));
    set(Variable::SaveOnSignal, format_args!("{}", u8::from(state.save_on == state::SaveOn::Signal)));
    if !state.temporary_directory.is_empty() {
        set(Variable::TemporaryDirectory, format_args!("{}", utf8(state.temporary_directory.as_bytes())));
    }
    strings
}
