//! Replay processes, from outside: one [`Process`] is one of them, waiting at one time.

use std::fs::File;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use memmap2::{MmapOptions, MmapRaw};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use recording::{Registers, Time};
use replay_guest::control::{Command as Order, DATA_BYTES, Reason, SLOT_BYTES, SLOTS, Slot, Status, run_flags, value};
use replay_guest::plan::{CONTROL_FD, EVENTS_FD, IMAGE_FD};
use replay_guest::space::Map;

use crate::timeline::{Cancel, Error, SharedStatus};
use crate::{image, keeper};

/// How often a waiting controller looks whether the process lives and the search was cancelled.
const LOOK: Duration = Duration::from_millis(50);
/// A process that does nothing for so long is broken, see [`Machine::set_patience`].
const PATIENCE: Duration = Duration::from_secs(60);

/// What all processes of one replay share.
pub struct Machine {
    control: MmapRaw,
    free: Mutex<Vec<usize>>,
    image: File,
    events: File,
    control_file: File,
    program: PathBuf,
    patience_ms: AtomicU64,
}

/// Where `replay-guest` is: named by the environment, beside this program, or where `make install` puts it.
fn find_program() -> Result<PathBuf, Error> {
    const NAME: &str = "replay-guest";
    if let Some(path) = std::env::var_os("UNDO_REPLAY_GUEST") {
        return Ok(path.into());
    }
    let own = std::env::current_exe().map_err(|error| Error::Process(format!("cannot tell where this program is: {error}")))?;
    let dir = own.parent().unwrap_or(Path::new("/"));
    let places = [dir.join(NAME), dir.join("../libexec/undo").join(NAME)];
    let found = places.iter().find(|path| path.is_file());
    let shown = places.each_ref().map(|path| path.display().to_string()).join(", ");
    found.cloned().ok_or_else(|| Error::Process(format!("{NAME} is missing; looked for {shown}; UNDO_REPLAY_GUEST can name it")))
}

impl Machine {
    pub fn new(image: File, events: File) -> Result<Arc<Self>, Error> {
        let control_file = image::memory_file("undo-control")?;
        let failed = |error: std::io::Error| Error::Process(format!("cannot make the control pages: {error}"));
        control_file.set_len((SLOTS * SLOT_BYTES) as u64).map_err(failed)?;
        let control = MmapOptions::new().map_raw(&control_file).map_err(failed)?;
        let free = Mutex::new((0..SLOTS).rev().collect());
        let patience_ms = AtomicU64::new(PATIENCE.as_millis() as u64);
        Ok(Arc::new(Self { control, free, image, events, control_file, program: find_program()?, patience_ms }))
    }

    /// How long a process may be without progress before it is ended, and whatever it was asked for fails.
    pub fn set_patience(&self, patience: Duration) {
        self.patience_ms.store(u64::try_from(patience.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(self.patience_ms.load(Ordering::Relaxed))
    }

    fn slot(&self, index: usize) -> Slot {
        // SAFETY: the whole control file is mapped as long as the machine lives, and `Process` keeps the machine alive.
        unsafe { Slot::new(self.control.as_mut_ptr(), index) }
    }

    fn take(&self) -> Result<usize, Error> {
        let slot = self.free.lock().ok().and_then(|mut free| free.pop());
        slot.ok_or_else(|| Error::Process("too many replay processes".into()))
    }

    /// Starts the first process; it waits at the begin of history.
    pub fn start(self: &Arc<Self>) -> Result<Process, Error> {
        let index = self.take()?;
        if index != 0 {
            return Err(Error::Process("a replay starts only once".into()));
        }
        let fds = [self.image.as_raw_fd(), self.events.as_raw_fd(), self.control_file.as_raw_fd()];
        let mut command = Command::new(&self.program);
        // A group of its own: a Ctrl-C at the terminal is for the debugger.
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).env_clear().process_group(0);
        // SAFETY: only makes system calls that are async-signal-safe.
        unsafe { command.pre_exec(move || hand_over(fds)) };
        self.slot(index).head().request.store(1, Ordering::Release);
        let pid = keeper::spawn(command).map_err(|error| Error::Process(format!("cannot start {}: {error}", self.program.display())))?;
        let mut process = Process { machine: self.clone(), index, pid, time: Time { bbcount: 0, pc: 0 }, cost_ns: 0, gone: false };
        let reply = process.finish(None)?;
        process.time = reply.time;
        Ok(process)
    }
}

/// Gives the new program its three descriptors, under the numbers it expects.
fn hand_over(fds: [RawFd; 3]) -> std::io::Result<()> {
    use nix::libc;
    let mut high = [0; 3];
    for (to, fd) in high.iter_mut().zip(fds) {
        // SAFETY: plain descriptor calls.
        *to = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 100) };
        if *to < 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    for (fd, number) in high.into_iter().zip([IMAGE_FD, EVENTS_FD, CONTROL_FD]) {
        // SAFETY: as above; dup2 clears close-on-exec.
        if unsafe { libc::dup2(fd, number) } < 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// How a run or step ended.
#[derive(Clone, Debug)]
pub struct Reply {
    pub time: Time,
    pub reason: Reason,
    pub detail: u64,
    /// Events consumed since the begin of history.
    pub events: u64,
    /// Memory hashes compared since then.
    pub hashes: u64,
    pub hit: Option<LastHit>,
    pub previous: Option<Time>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastHit {
    pub time: Time,
    /// Index of the watchpoint; `None`: a breakpoint.
    pub watchpoint: Option<usize>,
}

/// What a run is asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct Run {
    pub limit: Option<Time>,
    /// [`run_flags`].
    pub flags: u64,
    /// Pause after this long.
    pub budget: Option<Duration>,
}

impl Run {
    pub fn to(limit: Time) -> Self {
        Self { limit: Some(limit), ..Self::default() }
    }

    pub fn noting_last(self) -> Self {
        Self { flags: self.flags | run_flags::NOTE_LAST, ..self }
    }
}

/// A replay process at rest. Dropping it ends it.
pub struct Process {
    machine: Arc<Machine>,
    index: usize,
    pid: i32,
    pub time: Time,
    /// How long it takes to replay from the begin of history to here.
    pub cost_ns: u64,
    /// It has been waited for.
    gone: bool,
}

impl Process {
    fn slot(&self) -> Slot {
        self.machine.slot(self.index)
    }

    fn post(&self, order: Order, args: &[u64], data: &[u8]) {
        let slot = self.slot();
        slot.head().cancel.store(0, Ordering::Relaxed);
        slot.set_command(order, args, data);
        slot.head().request.fetch_add(1, Ordering::Release);
        futex(&slot.head().request, None);
    }

    /// Waits for the reply to the last command.
    fn finish(&mut self, cancel: Option<&Cancel>) -> Result<Reply, Error> {
        let slot = self.slot();
        let head = slot.head();
        let wanted = head.request.load(Ordering::Relaxed);
        let mut progress = (head.progress.load(Ordering::Relaxed), Instant::now());
        loop {
            let reply = head.reply.load(Ordering::Acquire);
            if reply == wanted {
                break;
            }
            if cancel.is_some_and(Cancel::is_cancelled) {
                head.cancel.store(1, Ordering::Relaxed);
            }
            futex(&head.reply, Some(reply));
            if head.reply.load(Ordering::Acquire) != wanted
                && let Some(end) = self.has_ended()
            {
                return Err(Error::Process(end));
            }
            let beats = head.progress.load(Ordering::Relaxed);
            if beats != progress.0 {
                progress = (beats, Instant::now());
            } else if progress.1.elapsed() > self.machine.patience() {
                return Err(self.give_up());
            }
        }
        let at = |bbcount: usize, pc: usize| Time { bbcount: slot.value(bbcount), pc: slot.value(pc) };
        let reason = Reason::from_raw(slot.value(value::REASON) as u32).unwrap_or(Reason::Arrived);
        if reason == Reason::Failed {
            return Err(Error::Process(self.text()));
        }
        if reason == Reason::Unfit {
            return Err(Error::Recording(self.text()));
        }
        if slot.status() != 0 {
            return Err(Error::Process(self.text()));
        }
        let hit = (slot.value(value::HIT) != 0).then(|| LastHit {
            time: at(value::HIT_BBCOUNT, value::HIT_PC),
            watchpoint: (slot.value(value::HIT) == Reason::Watchpoint as u64).then(|| slot.value(value::HIT_DETAIL) as usize),
        });
        let previous = at(value::PREVIOUS_BBCOUNT, value::PREVIOUS_PC);
        Ok(Reply {
            time: at(value::BBCOUNT, value::PC),
            reason,
            detail: slot.value(value::DETAIL),
            events: slot.value(value::EVENTS),
            hashes: slot.value(value::HASHES),
            hit,
            previous: (previous.bbcount != 0).then_some(previous),
        })
    }

    /// Ends a process that makes no progress.
    fn give_up(&mut self) -> Error {
        self.end();
        Error::Process(format!("no progress for {:?} behind {}, so it was ended", self.machine.patience(), self.time))
    }

    fn end(&mut self) {
        if !self.gone {
            self.gone = true;
            let pid = Pid::from_raw(self.pid);
            let _ = kill(pid, Signal::SIGKILL);
            let _ = waitpid(pid, None);
        }
    }

    fn text(&self) -> String {
        let mut bytes = vec![0; self.slot().data_length()];
        self.slot().copy_data(&mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// How the process ended, if it did.
    fn has_ended(&mut self) -> Option<String> {
        if self.gone {
            return Some("it has ended".into());
        }
        match waitpid(Pid::from_raw(self.pid), Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::StillAlive) => None,
            Ok(WaitStatus::Exited(_, status)) => {
                self.gone = true;
                Some(format!("it exited with status {status}"))
            }
            Ok(WaitStatus::Signaled(_, signal, _)) => {
                self.gone = true;
                Some(format!("it was killed by {signal}"))
            }
            Ok(_) => None,
            Err(error) => {
                self.gone = true;
                Some(format!("it cannot be waited for: {error}"))
            }
        }
    }

    /// Runs or steps; a difference from the recording is an error.
    fn drive(&mut self, order: Order, args: &[u64], cancel: Option<&Cancel>) -> Result<Reply, Error> {
        let start = Instant::now();
        self.post(order, args, &[]);
        let reply = self.finish(cancel)?;
        self.time = reply.time;
        self.cost_ns += u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if reply.reason == Reason::Diverged {
            return Err(Error::Diverged { time: reply.time, what: self.text() });
        }
        Ok(reply)
    }

    pub fn run(&mut self, run: &Run, cancel: Option<&Cancel>) -> Result<Reply, Error> {
        let limit = run.limit.unwrap_or(Time { bbcount: 0, pc: 0 });
        let budget = run.budget.map_or(0, |budget| u64::try_from(budget.as_nanos()).unwrap_or(0));
        self.drive(Order::Run, &[limit.bbcount, limit.pc, run.flags, budget], cancel)
    }

    /// One step, or up to `until`.
    pub fn step(&mut self, until: Option<Time>) -> Result<Reply, Error> {
        let until = until.unwrap_or(Time { bbcount: 0, pc: 0 });
        self.drive(Order::Step, &[until.bbcount, until.pc], None)
    }

    /// Asks something that runs nothing.
    fn ask(&mut self, order: Order, args: &[u64], data: &[u8]) -> Result<(), Error> {
        self.post(order, args, data);
        self.finish(None).map(drop)
    }

    fn data(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.slot().data_length()];
        self.slot().copy_data(&mut bytes);
        bytes
    }

    fn words(&self) -> Vec<u64> {
        self.data().as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
    }

    pub fn set_points(&mut self, data: &[u8]) -> Result<(), Error> {
        if data.len() > DATA_BYTES {
            return Err(Error::Process(format!("{} bytes of breakpoints and watchpoints are too many", data.len())));
        }
        self.ask(Order::SetPoints, &[], data)
    }

    /// A copy of this process, at the same time.
    pub fn fork(&mut self) -> Result<Process, Error> {
        let index = self.machine.take()?;
        let slot = self.machine.slot(index);
        let head = slot.head();
        // The copy answers as if it had been asked.
        head.request.store(head.reply.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        let mut child = Process { machine: self.machine.clone(), index, pid: 0, time: self.time, cost_ns: self.cost_ns, gone: true };
        self.ask(Order::Fork, &[index as u64], &[])?;
        child.pid = self.slot().value(value::FIRST) as i32;
        child.gone = false;
        child.finish(None)?;
        Ok(child)
    }

    pub fn registers(&mut self) -> Result<Registers, Error> {
        self.ask(Order::Registers, &[], &[])?;
        let words = self.words();
        let Ok(words) = <[u64; 20]>::try_from(words) else { return Err(Error::Process("registers of an unknown form".into())) };
        let mut registers = Registers { rip: words[16], rflags: words[17], fs_base: words[18], gs_base: words[19], ..Registers::default() };
        registers.gpr.copy_from_slice(&words[..16]);
        Ok(registers)
    }

    pub fn xsave(&mut self) -> Result<Vec<u8>, Error> {
        self.ask(Order::Xsave, &[], &[])?;
        Ok(self.data())
    }

    /// As many bytes as are mapped.
    pub fn read(&mut self, address: u64, buffer: &mut [u8]) -> Result<usize, Error> {
        let mut done = 0;
        while done < buffer.len() {
            let wanted = (buffer.len() - done).min(DATA_BYTES);
            self.ask(Order::Read, &[address.wrapping_add(done as u64), wanted as u64], &[])?;
            let got = self.slot().copy_data(&mut buffer[done..]);
            done += got;
            if got < wanted {
                break;
            }
        }
        Ok(done)
    }

    pub fn maps(&mut self) -> Result<Vec<Map>, Error> {
        let mut maps = Vec::new();
        loop {
            self.ask(Order::Mappings, &[maps.len() as u64], &[])?;
            let all = self.slot().value(value::FIRST) as usize;
            let words = self.words();
            let (entries, _) = words.as_chunks::<5>();
            maps.extend(entries.iter().map(|&[start, end, bits, offset, origin]| Map {
                start,
                end,
                prot: bits as u32,
                shared: (bits >> 32) as u32,
                offset,
                origin,
            }));
            if entries.is_empty() || maps.len() >= all {
                return Ok(maps);
            }
        }
    }

    pub fn hash(&mut self) -> Result<u64, Error> {
        self.ask(Order::Hash, &[], &[])?;
        Ok(self.slot().value(value::FIRST))
    }

    pub fn shared_status(&mut self, address: u64, length: u64) -> Result<SharedStatus, Error> {
        self.ask(Order::SharedStatus, &[address, length], &[])?;
        let slot = self.slot();
        let time = Time { bbcount: slot.value(value::SECOND), pc: slot.value(value::THIRD) };
        Ok(match slot.value(value::FIRST) {
            raw if raw == Status::NeverAccessed as u64 => SharedStatus::NeverAccessed,
            raw if raw == Status::LastAccessed as u64 => SharedStatus::LastAccessed(time),
            _ => SharedStatus::Private,
        })
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.end();
        if let Ok(mut free) = self.machine.free.lock() {
            // The next owner starts from whatever the words are now.
            let head = self.machine.slot(self.index);
            head.head().reply.store(head.head().request.load(Ordering::Relaxed), Ordering::Relaxed);
            free.push(self.index);
        }
    }
}

/// Wakes whoever waits on `word`, or waits while it holds `expected`, not longer than [`LOOK`].
fn futex(word: &AtomicU32, expected: Option<u32>) {
    use nix::libc;
    let timeout = libc::timespec { tv_sec: 0, tv_nsec: LOOK.subsec_nanos().into() };
    // SAFETY: the word is mapped; the timeout outlives the call.
    unsafe {
        match expected {
            Some(expected) => libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, expected, &raw const timeout),
            None => libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX),
        };
    }
}
