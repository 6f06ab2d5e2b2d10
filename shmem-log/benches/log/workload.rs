//! The loops that are measured.
use crate::process::{Shared, spawn, wait_ok};
use crossbeam_queue::ArrayQueue;
use nix::sys::signal::{Signal, kill, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use shmem_log::*;
use std::ffi::CString;
use std::hint::black_box;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};
use std::sync::atomic::{AtomicU64, fence};
use std::time::Instant;

pub fn pin(core: usize) {
    // SAFETY: plain integers, for which zero is a value.
    let mut set: nix::libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours, and the core number is far below its size.
    unsafe { nix::libc::CPU_SET(core, &mut set) };
    // SAFETY: the size is that of the set. On a machine with one core the call fails and nothing is pinned.
    unsafe { nix::libc::sched_setaffinity(0, size_of_val(&set), &set) };
}

fn per(start: Instant, count: u64) -> f64 {
    start.elapsed().as_nanos() as f64 / count as f64
}

/// The floor: a ticket from a shared counter and a record in private memory that has been touched.
pub struct Floor {
    counter: Shared,
    records: Vec<AtomicU64>,
}

impl Floor {
    pub fn new() -> Floor {
        Floor { counter: Shared::new(1), records: (0..256 << 10 >> 3).map(|_| AtomicU64::new(1)).collect() }
    }

    pub fn run(&self, count: u64) -> f64 {
        let counter = self.counter.word(0);
        let start = Instant::now();
        let mut slots = self.records.chunks_exact(4).cycle();
        for i in 0..count {
            let ticket = counter.fetch_add(1, AcqRel);
            if let Some(slot) = slots.next() {
                slot[0].store(i, Relaxed);
                slot[1].store(ticket, Relaxed);
                slot[2].store(i, Relaxed);
                slot[3].store(1, Release);
            }
        }
        per(start, count)
    }
}

/// A log in a directory of its own, a writer, and an object whose memory is really there.
pub struct Bench {
    path: std::path::PathBuf,
    _dir: tempfile::TempDir,
    pub log: Log,
    writer: Writer,
    object: ObjectIndex,
    sites: [SiteIndex; 3],
    memory: Shared,
    bbcount: u64,
}

fn info(pid: u32) -> RecordingInfo<'static> {
    RecordingInfo { uuid: [1; 16], pid, start_time: 1, start_wallclock_ns: 1, executable: b"bench", name: b"bench" }
}

impl Bench {
    pub fn new(dir: &Path, bytes: u64) -> Bench {
        let dir = tempfile::tempdir_in(dir).unwrap();
        let path = dir.path().join("bench.shmem");
        let name = CString::new(path.as_os_str().as_bytes()).unwrap();
        let log = Log::create_or_join(&name, bytes, None).unwrap();
        let writer = Writer::new(&log, log.register_recording(&info(1)).unwrap()).unwrap();
        let object = log.register_object(&ObjectInfo { dev: 1, ino: 1, name: b"bench", size: 1 << 16 }).unwrap();
        let sites = [Kind::Read, Kind::Write, Kind::ReadWrite].map(|kind| log.register_site(1, kind, 8).unwrap());
        Bench { path, _dir: dir, log, writer, object, sites, memory: Shared::new(1024), bbcount: 1 }
    }

    /// Accesses to sixteen words in eight lines.
    pub fn append(&mut self, kind: Kind, count: u64) -> f64 {
        let start = Instant::now();
        access_loop(&mut self.writer, self.object, &self.sites, self.memory, kind, count, 0, 15, &mut self.bbcount);
        per(start, count)
    }

    /// As many as fit in, right after creation.
    pub fn first_lap(&mut self) -> f64 {
        let count = self.log.layout().blocks().count * layout::SLOTS_PER_BLOCK as u64;
        self.append(Kind::Write, count)
    }

    pub fn read_back(&mut self) -> f64 {
        let reader = Reader::open(&self.path).unwrap();
        let mut buffer = BlockBuffer::default();
        let (mut count, mut sum) = (0u64, 0u64);
        let start = Instant::now();
        for block in reader.blocks() {
            let Some(view) = reader.load(block, &mut buffer).unwrap() else { continue };
            for access in view.iter() {
                let access = access.unwrap();
                sum = sum.wrapping_add(access.offset + access.value().len() as u64 + access.bbcount);
                count += 1;
            }
        }
        black_box(sum);
        per(start, count)
    }
}

#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn access_loop(
    w: &mut Writer,
    object: ObjectIndex,
    sites: &[SiteIndex; 3],
    memory: Shared,
    kind: Kind,
    count: u64,
    first_word: u64,
    mask: u64,
    bbcount: &mut u64,
) {
    let words = |i: u64| first_word + (i & mask) * 4;
    match kind {
        Kind::Read => (0..count).for_each(|i| {
            let word = words(i);
            let token = w.begin(Kind::Read, object, word * 8, 8);
            let value = memory.word(word as usize).load(Relaxed);
            w.commit(token, sites[0], *bbcount + i, value);
        }),
        Kind::Write => (0..count).for_each(|i| {
            let word = words(i);
            let token = w.begin(Kind::Write, object, word * 8, 8);
            memory.word(word as usize).store(i, Relaxed);
            w.commit(token, sites[1], *bbcount + i, i);
        }),
        Kind::ReadWrite => (0..count).for_each(|i| {
            let word = words(i);
            let token = w.begin_locked(Kind::ReadWrite, object, word * 8, 8);
            let old = memory.word(word as usize).fetch_add(1, AcqRel);
            w.commit_rw(token, sites[2], *bbcount + i, old, old + 1);
        }),
    }
    *bbcount += count;
}

fn bare_loop(memory: Shared, kind: Kind, count: u64) {
    let word = memory.word(0);
    match kind {
        Kind::Read => (0..count).for_each(|_| _ = black_box(word.load(Relaxed))),
        Kind::Write => (0..count).for_each(|i| {
            word.store(i, Relaxed);
            fence(Release);
        }),
        Kind::ReadWrite => (0..count).for_each(|_| _ = black_box(word.fetch_add(1, AcqRel))),
    }
}

#[derive(Clone, Copy)]
pub enum Work {
    Logged(Kind),
    Bare(Kind),
    /// `lock xadd` with private work after each, as programs have that do something with what they share.
    SpacedLogged,
    SpacedBare,
}

/// A hundred dependent multiplications, about 80 ns.
#[inline(always)]
fn private_work(seed: u64) {
    let mut value = seed | 1;
    for _ in 0..100 {
        value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    Own,
    Same,
}

/// What is measured in processes that work at the same time.
#[derive(Clone, Copy)]
pub struct Run {
    pub processes: u64,
    pub work: Work,
    pub lines: Lines,
    pub stopped: bool,
}

/// Rounds of the work that shows whether two cores are two.
const PRIVATE: u64 = 10_000;
/// Private work that takes so many times as long when others work too was done on a core that they share.
const SHARED_CORE: f64 = 1.25;
const READY: usize = 512;
const TIMES: usize = 528;
const BALL: usize = 640;

/// Work that keeps a core's multiplier busy, so that two threads of one core need twice as long for it.
fn saturate(rounds: u64) -> f64 {
    let mut values = [1u64, 3, 5, 7, 9, 11, 13, 15];
    let start = Instant::now();
    for _ in 0..rounds {
        values = black_box(values.map(|value| value.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    }
    per(start, rounds)
}

/// A word goes from core to core and back: ns, the best of a few tries, as a disturbance only adds to it.
fn ping_pong(memory: Shared, second: bool) -> f64 {
    const TRIPS: u64 = 20;
    let ball = memory.word(BALL);
    let mut best = f64::INFINITY;
    for batch in 0..10 {
        let start = Instant::now();
        for trip in batch * TRIPS..(batch + 1) * TRIPS {
            let (mine, theirs) = if second { (2 * trip + 2, 2 * trip + 1) } else { (2 * trip + 1, 2 * trip) };
            while ball.load(Relaxed) != theirs {
                std::hint::spin_loop();
            }
            memory.set(BALL, mine);
        }
        best = best.min(per(start, TRIPS));
    }
    best
}

/// Times that this process lost its core to another.
fn preemptions() -> u64 {
    // SAFETY: plain integers, for which zero is a value.
    let mut usage: nix::libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: fills in the structure, which is ours.
    unsafe { nix::libc::getrusage(nix::libc::RUSAGE_SELF, &mut usage) };
    usage.ru_nivcsw as u64
}

/// A writer that is stopped (SIGSTOP) in the middle of an append to the line that others use.
fn stopped_writer(bench: &Bench) -> Pid {
    let child = spawn(|| {
        let mut writer = Writer::new(&bench.log, bench.log.register_recording(&info(99)).unwrap()).unwrap();
        let token = writer.begin_locked(Kind::ReadWrite, bench.object, 0, 8);
        raise(Signal::SIGSTOP).unwrap();
        writer.commit_rw(token, bench.sites[2], 1, 0, 0);
    });
    assert_eq!(waitpid(child, Some(WaitPidFlag::WUNTRACED)).unwrap(), WaitStatus::Stopped(child, Signal::SIGSTOP));
    child
}

/// Backs all of the log with pages that this process may write, so that no first lap is in what follows.
fn touch(log: &Log) {
    // SAFETY: the range is the log's mapping; its contents stay as they are. Where the kernel is too old, the pages come one by one.
    unsafe { nix::libc::madvise(log.base() as *mut _, log.size() as usize, nix::libc::MADV_POPULATE_WRITE) };
}

/// What [`pair`] found, in ns.
#[derive(Clone, Copy)]
pub struct Measured {
    /// Per access of one process, on average.
    pub time: f64,
    /// A word from core to core and back; 0 with one process.
    pub distance: f64,
}

/// The work in `processes` processes at once. None if something else disturbed it: a
/// process lost its core, they did not run at the same time, or a virtual machine's cores were two threads of one core meanwhile, which
/// shows in private work that takes longer when both do it. With `stopped`, one more writer is stopped in an append meanwhile.
pub fn pair(dir: &Path, Run { processes, work, lines, stopped }: Run, count: u64) -> Option<Measured> {
    let bench = Bench::new(dir, layout::MIN_SIZE);
    let stopped = stopped.then(|| stopped_writer(&bench));
    let memory = bench.memory;
    let (log, object, sites) = (bench.log, bench.object, bench.sites);
    let epoch = Instant::now();
    let children: Vec<_> = (0..processes)
        .map(|n| {
            spawn(|| {
                pin(n as usize);
                touch(&log);
                saturate(PRIVATE);
                let mut writer = Writer::new(&log, log.register_recording(&info(n as u32 + 2)).unwrap()).unwrap();
                let (first, mask) = if lines == Lines::Own { (n * 64, 15) } else { (0, 0) };
                let mut bbcount = 1;
                let mut run = |count| match work {
                    Work::Logged(kind) => {
                        access_loop(&mut writer, object, &sites, memory, kind, count, first, mask, &mut bbcount);
                    }
                    Work::Bare(kind) => bare_loop(memory, kind, count),
                    Work::SpacedLogged => (0..count).for_each(|i| {
                        access_loop(&mut writer, object, &sites, memory, Kind::ReadWrite, 1, first, mask, &mut bbcount);
                        private_work(i);
                    }),
                    Work::SpacedBare => (0..count).for_each(|i| {
                        bare_loop(memory, Kind::ReadWrite, 1);
                        private_work(i);
                    }),
                };
                run(count / 2);
                // One after the other, then all at once.
                memory.wait_spinning(READY, |ready| ready == n);
                let alone = saturate(PRIVATE);
                memory.word(READY).fetch_add(1, AcqRel);
                memory.wait_spinning(READY, |ready| ready >= processes);
                let at_once = saturate(PRIVATE);
                memory.word(READY).fetch_add(1, AcqRel);
                memory.wait_spinning(READY, |ready| ready >= 2 * processes);
                let distance = if processes == 2 { ping_pong(memory, n == 1) } else { 0.0 };
                let (start, preempted) = (epoch.elapsed(), preemptions());
                run(count);
                let end = epoch.elapsed();
                let at = TIMES + n as usize * 8;
                memory.set(at, start.as_nanos() as u64);
                memory.set(at + 1, end.as_nanos() as u64);
                memory.set(at + 2, preemptions() - preempted);
                memory.set(at + 3, u64::from(at_once > SHARED_CORE * alone));
                memory.set(at + 4, distance as u64);
            })
        })
        .collect();
    children.into_iter().for_each(wait_ok);
    if let Some(stopped) = stopped {
        kill(stopped, Signal::SIGCONT).unwrap();
        wait_ok(stopped);
    }
    let get = |n: u64, word: usize| memory.wait(TIMES + n as usize * 8 + word, |_| true);
    let of_all = |word| (0..processes).map(move |n| get(n, word));
    let total: u64 = of_all(1).sum::<u64>() - of_all(0).sum::<u64>();
    let first = of_all(0).min().unwrap_or(0);
    let together = of_all(1).min().unwrap_or(0).saturating_sub(of_all(0).max().unwrap_or(0));
    let span = of_all(1).max().unwrap_or(0) - first;
    let undisturbed = of_all(2).chain(of_all(3)).sum::<u64>() == 0 && together as f64 > 0.8 * span as f64;
    let time = total as f64 / processes as f64 / count as f64;
    undisturbed.then(|| Measured { time, distance: get(0, 4) as f64 })
}

/// `force_push`, which like our ring overwrites the oldest, by threads: it does not work between processes.
pub fn array_queue(threads: u64, count: u64) -> f64 {
    let queue = ArrayQueue::<[u64; 4]>::new(1 << 13);
    let barrier = std::sync::Barrier::new(threads as usize);
    let times: Vec<f64> = std::thread::scope(|scope| {
        let run = |core: u64| {
            pin(core as usize);
            barrier.wait();
            let start = Instant::now();
            (0..count).for_each(|i| _ = queue.force_push([i; 4]));
            per(start, count)
        };
        let handles: Vec<_> = (0..threads).map(|core| scope.spawn(move || run(core))).collect();
        handles.into_iter().map(|handle| handle.join().unwrap()).collect()
    });
    times.iter().sum::<f64>() / threads as f64
}
