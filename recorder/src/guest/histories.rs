//! Histories that have stopped growing and are kept: what `undolr_stop` hands out.
//!
//! A handle is the address of the control pages that the process shares with the history's snapshot. `undolr_stop` moves them away
//! from where those of the next recording will be, so any number of histories up to [`MAX`] exist beside each other and beside a recording.
//!
//! The descriptor of `undolr_get_select_descriptor` is the reading end of a pipe. The writing end belongs to a *notifier*, a process
//! that shares this one's memory but not its descriptors, sleeps until a save is done, and writes one byte.

use core::arch::global_asm;
use core::sync::atomic::Ordering;

use engine::arena;
use engine::sys::{self, errno, raw};

use super::control::{self, Control, KEEP, control};
use super::end;
use super::state::Path;

pub const MAX: usize = 64;

/// Descriptors that are not the program's own doing start here if its limit allows, out of the way of those it counts on. Below
/// FD_SETSIZE, for select().
const DESCRIPTOR: u64 = 1000;
/// The notifier's stack: the end of the control pages, which nothing else uses once a recording has stopped.
const STACK: u64 = 64 << 10;

#[derive(Clone, Copy)]
struct History {
    /// The request number of the last save; 0 before the first.
    save: u32,
    /// -1 if there is none.
    descriptor: i32,
    notifier: i32,
}

pub struct Histories {
    slots: [Option<History>; MAX],
}

const fn address(slot: usize) -> u64 {
    arena::CONTROL + (slot as u64 + 1) * arena::CONTROL_SIZE
}

const _: () = assert!(address(MAX) <= arena::EVENT_LOG);

/// How far a save has come.
pub struct Progress {
    pub percent: i32,
    /// Once it has ended: whether the file is in place.
    pub result: Option<bool>,
}

impl Histories {
    pub const fn new() -> Self {
        Self { slots: [None; MAX] }
    }

    /// The handle that the next [`Self::keep`] gives.
    pub fn next(&self) -> Result<u64, u32> {
        self.slots.iter().position(Option::is_none).map(address).ok_or(errno::ENOMEM)
    }

    /// Keeps the history of the recording that has just ended.
    pub fn keep(&mut self) -> Result<(), u32> {
        let slot = self.slots.iter().position(Option::is_none).ok_or(errno::ENOMEM)?;
        let number = control().post(KEEP);
        let _ = control().wait(number);
        let flags = raw::MREMAP_MAYMOVE | raw::MREMAP_FIXED;
        let moved = sys::mremap(arena::CONTROL, arena::CONTROL_SIZE, arena::CONTROL_SIZE, flags, address(slot));
        if moved != address(slot) as i64 {
            return Err(errno::ENOMEM);
        }
        // Whoever looks there finds that no recording runs.
        let _ = super::start::map_control();
        self.slots[slot] = Some(History { save: 0, descriptor: -1, notifier: 0 });
        Ok(())
    }

    /// A history of this process; a child's copies of its parent's handles are not valid.
    fn find(&mut self, handle: u64) -> Result<(&'static mut Control, &mut Option<History>), u32> {
        let slot = (0..MAX).find(|&slot| address(slot) == handle && self.slots[slot].is_some()).ok_or(errno::EINVAL)?;
        let control = control::at(handle);
        if control.owner != sys::getpid() as u32 {
            return Err(errno::EINVAL);
        }
        Ok((control, &mut self.slots[slot]))
    }

    pub fn save(&mut self, handle: u64, path: &Path) -> Result<(), u32> {
        let (control, slot) = self.find(handle)?;
        let history = slot.as_mut().ok_or(errno::EINVAL)?;
        if history.save != 0 && !control.is_done(history.save) {
            return Err(errno::EBUSY);
        }
        history.save = end::post_save(control, path);
        Ok(())
    }

    pub fn progress(&mut self, handle: u64) -> Result<Progress, u32> {
        let (control, slot) = self.find(handle)?;
        let history = slot.as_ref().filter(|history| history.save != 0).ok_or(errno::EINVAL)?;
        let result = control.is_done(history.save).then(|| control.answer(history.save).is_ok());
        let percent = if result.is_some() { 100 } else { control.progress.load(Ordering::Relaxed).min(99) as i32 };
        Ok(Progress { percent, result })
    }

    /// The descriptor that becomes readable when a save is done.
    pub fn descriptor(&mut self, handle: u64) -> Result<i32, u32> {
        let (control, slot) = self.find(handle)?;
        let history = slot.as_mut().ok_or(errno::EINVAL)?;
        if history.descriptor < 0 {
            let (reading, writing) = pipe()?;
            let notifier = start_notifier(control, handle, history.save, writing);
            sys::close(writing);
            if notifier < 0 {
                sys::close(reading);
                return Err(-notifier as u32);
            }
            (history.descriptor, history.notifier) = (reading, notifier);
        }
        Ok(history.descriptor)
    }

    /// Frees the history; a save that has not ended is given up.
    pub fn discard(&mut self, handle: u64) -> Result<(), u32> {
        let (control, slot) = self.find(handle)?;
        let history = slot.take().ok_or(errno::EINVAL)?;
        control.dismiss();
        if history.descriptor >= 0 {
            reap(history.notifier);
            sys::close(history.descriptor);
        }
        sys::munmap(handle, arena::CONTROL_SIZE);
        Ok(())
    }
}

/// Waits for a child that the program does not know of.
pub fn reap(pid: i32) {
    let args = [pid as u64, 0, u64::from(raw::__WALL), 0, 0, 0];
    // SAFETY: wait4 without a status touches no memory.
    while unsafe { sys::syscall(u64::from(raw::__NR_wait4), args) } == -i64::from(errno::EINTR) {}
}

/// A pipe: (reading end, at a high number; writing end).
fn pipe() -> Result<(i32, i32), u32> {
    const F_DUPFD_CLOEXEC: u64 = 1030;
    let mut ends = [0i32; 2];
    let args = [ends.as_mut_ptr() as u64, u64::from(raw::O_CLOEXEC), 0, 0, 0, 0];
    // SAFETY: pipe2 writes two ints.
    let result = unsafe { sys::syscall(u64::from(raw::__NR_pipe2), args) };
    if result != 0 {
        return Err(-result as u32);
    }
    // SAFETY: fcntl makes another descriptor.
    let high = unsafe { sys::syscall(u64::from(raw::__NR_fcntl), [ends[0] as u64, F_DUPFD_CLOEXEC, DESCRIPTOR, 0, 0, 0]) };
    if high < 0 {
        return Ok((ends[0], ends[1]));
    }
    sys::close(ends[0]);
    Ok((high as i32, ends[1]))
}

global_asm!(
    // (flags, stack, argument): clone; the child calls undo_notify(argument) on the stack.
    ".global undo_clone_notifier",
    ".hidden undo_clone_notifier",
    "undo_clone_notifier:",
    "mov r9, rdx",
    "xor edx, edx",
    "xor r10d, r10d",
    "xor r8d, r8d",
    "mov eax, 56",
    "syscall",
    "test rax, rax",
    "jnz 2f",
    "xor ebp, ebp",
    "mov rdi, r9",
    "call undo_notify",
    "ud2",
    "2: ret",
);

unsafe extern "C" {
    fn undo_clone_notifier(flags: u64, stack: u64, argument: u64) -> i64;
}

/// What the notifier must know; it lies at the bottom of its stack.
struct Notice {
    control: *const Control,
    /// The number of the last save that it need not tell of.
    told: u32,
    descriptor: i32,
}

/// Returns the notifier's process id, or minus an errno.
fn start_notifier(control: &mut Control, handle: u64, save: u32, writing: i32) -> i32 {
    let stack = handle + arena::CONTROL_SIZE;
    let notice = (stack - STACK) as *mut Notice;
    // A save that was asked for before is still to be told of.
    let told = if save == 0 { control.request.load(Ordering::Relaxed) } else { save - 1 };
    // SAFETY: the end of the control pages is free; see `STACK`.
    unsafe { notice.write(Notice { control, told, descriptor: writing }) };
    // A signal's handler must not run there: none can come in.
    let mut mask = 0;
    sys::rt_sigprocmask(raw::SIG_BLOCK, Some(&u64::MAX), Some(&mut mask));
    // SAFETY: the notifier has a stack of its own and uses only what it is given, which stays until it has been waited for.
    let pid = unsafe { undo_clone_notifier(u64::from(raw::CLONE_VM), stack, notice as u64) };
    sys::rt_sigprocmask(raw::SIG_SETMASK, Some(&mask), None);
    pid as i32
}

/// The notifier's whole life.
#[unsafe(no_mangle)]
unsafe extern "C" fn undo_notify(notice: u64) -> ! {
    // SAFETY: written by `start_notifier`; the control pages stay until this process has ended.
    let (notice, control) = unsafe { (&*(notice as *const Notice), &*(*(notice as *const Notice)).control) };
    sys::prctl(sys::PR_SET_PDEATHSIG, u64::from(raw::SIGKILL));
    close_all_but(notice.descriptor);
    // SAFETY: pidfd_open makes a descriptor.
    let snapshot = unsafe { sys::syscall(u64::from(raw::__NR_pidfd_open), [u64::from(control.snapshot_pid), 0, 0, 0, 0, 0]) };
    let mut told = notice.told;
    loop {
        let done = control.done.load(Ordering::Acquire);
        let gone = snapshot < 0 || has_ended(snapshot as i32);
        if control.is_quitting() {
            break;
        }
        if done != told {
            sys::write(notice.descriptor, b"!");
            told = done;
        } else if gone {
            // What was asked for last, if anything, has failed; the end of the pipe tells of whatever is asked for from here on.
            if control.request.load(Ordering::Acquire) != told {
                sys::write(notice.descriptor, b"!");
            }
            break;
        }
        sys::futex_wait(&control.done, done, 1);
    }
    sys::exit_group(0)
}

fn close_all_but(descriptor: i32) {
    let (below, above) = (descriptor as u64, descriptor as u64 + 1);
    if below > 0 {
        // SAFETY: this process uses none of them.
        unsafe { sys::syscall(u64::from(raw::__NR_close_range), [0, below - 1, 0, 0, 0, 0]) };
    }
    // SAFETY: as above.
    unsafe { sys::syscall(u64::from(raw::__NR_close_range), [above, u64::from(u32::MAX), 0, 0, 0, 0]) };
}

/// Whether the process behind a pidfd has ended.
fn has_ended(pidfd: i32) -> bool {
    const POLLIN: u64 = 1;
    let mut poll = pidfd as u32 as u64 | POLLIN << 32;
    // SAFETY: one struct pollfd, no waiting.
    unsafe { sys::syscall(u64::from(raw::__NR_poll), [(&raw mut poll) as u64, 1, 0, 0, 0, 0]) == 1 }
}
