//! How a recording ends, and what becomes of the program then.

use core::fmt::{self, Write};
use core::sync::atomic::Ordering;

use engine::sys;
use engine::{Flow, arena};
use recording::{Body, End, EndReason};

use super::control::{Control, SAVE, control};
use super::failure::Errno;
use super::hashes;
use super::host::{Guest, Recorder};
use super::message::report;
use super::state::{self, OnFork, Path, SaveOn};

/// A bounded text.
struct Message<'a> {
    bytes: &'a mut [u8],
    length: usize,
}

impl Write for Message<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // Cut at a character boundary.
        let mut taken = text.len().min(self.bytes.len() - self.length);
        while !text.is_char_boundary(taken) {
            taken -= 1;
        }
        self.bytes[self.length..self.length + taken].copy_from_slice(&text.as_bytes()[..taken]);
        self.length += taken;
        Ok(())
    }
}

/// Notes why and where history ends now: what a save from here on will say.
pub fn note(host: &mut Recorder, engine: &mut Guest, reason: EndReason, status: i32, text: fmt::Arguments) {
    let registers = host.registers(engine);
    let control = control();
    control.bbcount = engine.bbcount();
    control.registers = registers;
    control.end_reason = reason.raw();
    control.end_status = status;
    let mut message = Message { bytes: &mut control.message, length: 0 };
    let _ = message.write_fmt(text);
    control.message_length = message.length as u32;
    control.region_count = 0;
    for (slot, region) in control.regions.iter_mut().zip(engine.regions()) {
        *slot = region;
        control.region_count += 1;
    }
}

/// Ends the recording: memory hash, end event, and the save if one was asked for.
pub fn finish(host: &mut Recorder, engine: &mut Guest, reason: EndReason, status: i32, text: fmt::Arguments) {
    if host.events.is_muted() {
        return;
    }
    if reason != EndReason::LogFull {
        // What did not fit has happened to memory already.
        hashes::note_all(host, engine);
    }
    note(host, engine, reason, status, text);
    let control = control();
    let header = host.header(engine);
    let message = core::str::from_utf8(&control.message[..control.message_length as usize]).unwrap_or("");
    let body = Body::End(End { reason, status, message });
    // A log without room for its end event is complete without it: the end is in the metadata as well.
    let _ = host.events.append(&header, &body, |_| Ok(()));
    if let Some(log) = &mut host.log {
        log.end(engine.bbcount());
    }
    let Ok(state) = state::get() else { return };
    let wanted = match state.save_on {
        SaveOn::Always => true,
        SaveOn::Error => status != 0 || reason == EndReason::Signalled,
        SaveOn::Signal => reason == EndReason::Signalled,
    };
    if !state.save_path.is_empty() && wanted {
        let path = state.save_path;
        save(control, &path);
    }
}

/// Has the snapshot write the file; returns 0 or an errno.
pub fn save(control: &mut Control, path: &Path) -> i32 {
    let number = post_save(control, path);
    match control.wait(number) {
        Ok(()) => 0,
        Err(failure) => {
            report(format_args!("cannot save {}: {failure}", text(path)));
            failure.errno
        }
    }
}

/// Asks for the file without waiting.
pub fn post_save(control: &mut Control, path: &Path) -> u32 {
    let bytes = path.with_zero();
    control.path[..bytes.len()].copy_from_slice(bytes);
    control.post(SAVE)
}

fn text(path: &Path) -> &str {
    core::str::from_utf8(path.as_bytes()).unwrap_or("(a path that is not UTF-8)")
}

/// Gives everything back to the guest, for good: it goes on natively.
pub fn detach(host: &mut Recorder) {
    host.shared.release();
    host.shared.clear();
    host.signals.release();
    host.log = None;
    sys::munmap(arena::ACCESS_LOG, arena::ALIASES - arena::ACCESS_LOG);
    if let Some(state) = state::existing() {
        state.recording = false;
    }
}

/// Ends the recording because something cannot be recorded, says so, and lets the program go on natively.
pub fn stop_unsupported(host: &mut Recorder, engine: &mut Guest, what: fmt::Arguments) -> Flow {
    finish(host, engine, EndReason::Unsupported, 0, format_args!("{what}"));
    say(engine, what);
    detach(host);
    leave_history();
    Flow::Leave
}

/// The recording has ended before the program: what there is of it can still be had by `undolr_stop` and `undolr_save`.
pub fn leave_history() {
    match state::existing() {
        Some(state) if is_owner() && !state.launched => state.ended = true,
        _ => dismiss_snapshot(),
    }
}

/// In the parent of a new process: if only children are wanted, its own recording ends unsaved.
pub fn after_fork(host: &mut Recorder, engine: &mut Guest, result: i64, flow: Flow) -> Flow {
    let Some(state) = state::existing() else { return flow };
    if result < 0 || flow != Flow::Continue || state.on_fork != OnFork::Child || host.events.is_muted() {
        return flow;
    }
    state.save_path = Path::empty();
    engine.count_transfer();
    finish(host, engine, EndReason::Detached, 0, format_args!("only children are recorded"));
    detach(host);
    dismiss_snapshot();
    Flow::Leave
}

/// Tells the user, unless asked to be quiet, why the recording ends before the program.
pub fn say(engine: &mut Guest, what: fmt::Arguments) {
    let pc = engine.context().rip;
    if is_owner() && !state::existing().is_some_and(|state| state.quiet) {
        report(format_args!("recording of process {} ends at {pc:#x}: {what}. The program goes on unrecorded.", sys::getpid()));
    }
}

/// The recording has ended for an exec that was refused against expectation.
pub fn say_refused(result: i64) {
    if is_owner() && !state::existing().is_some_and(|state| state.quiet) {
        report(format_args!(
            "recording ends: the process executes another program, which was refused: {}. Process {} goes on unrecorded.",
            Errno(-result as i32),
            sys::getpid()
        ));
    }
}

/// Ends the snapshot process and waits for that. An ended process must not leave it to others either: an ancestor that collects orphans
/// (`PR_SET_CHILD_SUBREAPER`, or the first process of a namespace) would be told of a child that it does not know.
pub fn dismiss_snapshot() {
    if is_owner() && control().ready.load(Ordering::Acquire) != 0 {
        control().dismiss();
    }
}

/// Whether this is the recorded process, not a child of it that is not recorded.
pub fn is_owner() -> bool {
    control().owner == sys::getpid() as u32
}

/// After an internal error: the program goes on natively from its last known state, without its shared mappings being lost.
pub fn abandon() -> ! {
    let Some(state) = state::existing() else { sys::exit_group(127) };
    if state.engine.is_null() || !state.recording {
        sys::exit_group(127);
    }
    state.recording = false;
    // SAFETY: the engine lives as long as the process, and nothing of it runs any more.
    let guest = unsafe { &mut *state.engine };
    // SAFETY: as above; the host exists even while one of its methods runs.
    let host = unsafe { &mut *guest.host_even_if_taken() };
    detach(host);
    dismiss_snapshot();
    // SAFETY: the context holds the guest's state at its last exit.
    unsafe { engine::leave(arena::CONTEXT as *const engine::Context) }
}
