//! The snapshot: a copy-on-write child made when recording starts, which holds the program's memory as it was then and writes the
//! `.undo` file when asked.
//!
//! It has no exit signal, so the guest's wait() does not see it; it closes every descriptor at once, so that no pipe of the guest is
//! held open (only standard error is kept, if it is a file or a terminal); it ignores every signal that can be ignored, and ends with its parent.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use engine::arena;
use engine::sys::{self, SigAction, raw};
use recording::{CpuidLeaf, EndReason, Events, Metadata, Registers};

use super::control::{KEEP, QUIT, REPORT, SAVE, control};
use super::events;
use super::failure::Failure;
use super::host::Recorder;
use super::maps::Map;
use super::message::Descriptor;
use super::packer::Packer;
use super::save::{has_end, is_guest, save};
use crate::launch::SNAPSHOT_NAME;

/// What the snapshot knows besides its memory.
pub struct Start {
    pub maps: Vec<Map>,
    pub metadata: Metadata,
    /// Mappings of ours among `maps`: start addresses.
    pub own: Vec<u64>,
}

/// Makes the snapshot; returns when it is ready.
pub fn make(host: &mut Recorder, start: Start) -> Result<(), i64> {
    let control = control();
    control.ready.store(0, Ordering::Relaxed);
    control.request.store(0, Ordering::Relaxed);
    control.done.store(0, Ordering::Relaxed);
    let parent = sys::getpid();
    control.owner = parent as u32;
    // SAFETY: a plain copy of this process, without exit signal.
    let pid = unsafe { sys::syscall(u64::from(raw::__NR_clone), [0; 6]) };
    if pid == 0 {
        serve(host, start, parent);
    }
    if pid < 0 {
        return Err(pid);
    }
    control.snapshot_pid = pid as u32;
    while control.ready.load(Ordering::Acquire) == 0 {
        sys::futex_wait(&control.ready, 0, 1);
    }
    Ok(())
}

fn serve(host: &Recorder, start: Start, parent: i32) -> ! {
    close_descriptors();
    // Shared memory is no part of the start state, and whoever counts its attachments is not to count ours.
    for map in host.shared.iter() {
        sys::munmap(map.start, map.length());
        sys::munmap(map.alias, map.length());
    }
    ignore_signals();
    sys::prctl(sys::PR_SET_PDEATHSIG, u64::from(raw::SIGUSR1));
    sys::prctl(sys::PR_SET_NAME, SNAPSHOT_NAME.as_ptr() as u64);
    host.vdso.apply();
    let control = control();
    let mut packer = Packer::new();
    control.ready.store(1, Ordering::Release);
    sys::futex_wake(&control.ready);
    let mut done = 0;
    loop {
        let calls = control.calls.load(Ordering::Acquire);
        packer.pack();
        let request = control.request.load(Ordering::Acquire);
        if request == done {
            if sys::getppid() != parent {
                on_orphaned(&start, &mut packer);
            }
            if control.executing.load(Ordering::Acquire) == 1 && has_executed(parent) {
                forget(&start);
            }
            // A timeout covers a parent that died just before PR_SET_PDEATHSIG, and one that became another program.
            sys::futex_wait(&control.calls, calls, 2);
            continue;
        }
        match control.what.load(Ordering::Relaxed) {
            SAVE => {
                let path = until_zero(&control.path);
                let result = save(&start, &mut packer, path).map_or_else(Failure::to_word, |()| 0);
                control.result.store(result, Ordering::Relaxed);
            }
            KEEP => {
                sys::prctl(sys::PR_SET_NAME, c"undo-history".as_ptr() as u64);
            }
            REPORT => {
                sys::write(2, &control.line[..control.line_length as usize]);
            }
            QUIT => {
                control.done.store(request, Ordering::Release);
                sys::futex_wake(&control.done);
                sys::exit_group(0);
            }
            _ => {}
        }
        done = request;
        control.progress.store(100, Ordering::Relaxed);
        control.done.store(request, Ordering::Release);
        sys::futex_wake(&control.done);
    }
}

/// Whether the process that was recorded runs another program by now: our area is no longer mapped there.
fn has_executed(parent: i32) -> bool {
    let path = alloc::format!("/proc/{parent}/maps\0");
    let area = alloc::format!("{:x}-", arena::BASE);
    super::maps::read_file(path.as_bytes()).is_none_or(|text| !text.windows(area.len()).any(|window| window == area.as_bytes()))
}

/// Nobody will ask for the history any more. Ending now would signal the new program the death of a child it never had, so this
/// process stays until that program ends, without the memory it held.
fn forget(start: &Start) -> ! {
    for map in start.maps.iter().filter(|map| is_guest(start, map) && map.inode == 0 && !map.shared) {
        sys::madvise(map.start, map.end - map.start, raw::MADV_DONTNEED);
    }
    loop {
        if sys::getppid() as u32 != control().owner {
            sys::exit_group(0);
        }
        sys::futex_wait(&control().calls, control().calls.load(Ordering::Relaxed), 60);
    }
}

/// Nothing of the program's may be held open, but its standard error is kept for messages where that does no harm.
fn close_descriptors() {
    let first = match Descriptor::of(2) {
        Some(descriptor) if descriptor.may_be_kept() => 3,
        _ => 2,
    };
    for (from, to) in [(0, 1), (first, u64::from(u32::MAX))] {
        // SAFETY: this process uses none of them.
        unsafe { sys::syscall(u64::from(raw::__NR_close_range), [from, to, 0, 0, 0, 0]) };
    }
}

/// The recorded process was killed: what it noted until then is saved if that was asked for.
fn on_orphaned(start: &Start, packer: &mut Packer) -> ! {
    let control = control();
    let path = until_zero(&control.path_if_killed);
    if path.len() > 1 && !has_end() {
        note_kill();
        let _ = save(start, packer, path);
    }
    sys::exit_group(0)
}

/// Without an end of its own making, history ends just before its last event: that is the last time known to have been reached.
fn note_kill() {
    let (control, log) = (control(), events::shared());
    if let Some(last) = Events::new(log.events(log.open())).filter_map(Result::ok).last() {
        control.bbcount = last.time().bbcount;
        // Registers that are all zero say that they are not known.
        control.registers = Registers { rip: last.time().pc, ..Registers::default() };
        log.segment(log.open()).used.store(last.offset(), Ordering::Release);
    }
    control.end_reason = EndReason::Signalled.raw();
    control.end_status = raw::SIGKILL as i32;
}

/// Including the terminating zero.
fn until_zero(path: &[u8]) -> &[u8] {
    let length = path.iter().position(|&byte| byte == 0).unwrap_or(path.len() - 1);
    &path[..=length]
}

fn ignore_signals() {
    let ignore = SigAction { handler: 1, ..SigAction::default() };
    for signal in 1..65u32 {
        // Faults keep the engine's handler, for reads of memory that is not there. SIGUSR1 tells of the parent's death: it must
        // interrupt the wait, which an ignored signal does not.
        if ![raw::SIGSEGV, raw::SIGBUS, raw::SIGUSR1].contains(&signal) {
            // SAFETY: ignoring is not running a handler.
            unsafe { sys::rt_sigaction(signal as i32, &raw const ignore, core::ptr::null_mut()) };
        }
    }
    engine::install_handler::<Recorder>(raw::SIGUSR1 as i32, 0, None);
    sys::rt_sigprocmask(raw::SIG_SETMASK, Some(&0), None);
}

/// What a processor must have to replay: the features that code chooses its way by.
pub fn cpuid() -> Vec<CpuidLeaf> {
    const LEAVES: [(u32, u32, [u32; 4]); 3] =
        [(1, 0, [0, 0, !(1 << 27 | 1 << 31), 0xffff_ffff]), (7, 0, [0, 0xffff_ffff, !(1 << 4), 0xffff_ffff]), (0xd, 1, [0xf, 0, 0, 0])];
    let answer = |&(leaf, subleaf, mask): &(u32, u32, [u32; 4])| {
        let found = core::arch::x86_64::__cpuid_count(leaf, subleaf);
        let value = [found.eax & mask[0], found.ebx & mask[1], found.ecx & mask[2], found.edx & mask[3]];
        CpuidLeaf { leaf, subleaf, mask, value }
    };
    LEAVES.iter().map(answer).collect()
}
