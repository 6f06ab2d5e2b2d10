//! What an append costs: `cargo bench -p shmem-log --bench log -- [--json] [--dir DIR]`.
//!
//! What is compared is measured in turns in the same run. Of one process the best round counts, as other work on the machine only
//! ever adds to it; of two, pinned to a core each, the median of the rounds in which both ran undisturbed all the time, as a
//! disturbance makes contention cheaper, and with a cache between the cores, if there are such: the others are told apart as `far_*`.
//! Rounds on two threads of one core do not count. `ping_pong_ns` tells how far apart the cores were.
//! Nanoseconds per access or record unless the name says otherwise; null: not measured.
mod lttng;
#[path = "../../tests/common/process.rs"]
#[allow(dead_code)]
mod process;
mod workload;

use shmem_log::{Kind, layout};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use workload::*;

const APPENDS: u64 = 1_000_000;
const ROUNDS: usize = 15;
/// Of one process, where only the best counts.
const ROUNDS_ALONE: usize = 30;
/// At a time.
const FIRST_LAPS: usize = 4;
const FIRST_LAP_BYTES: u64 = 64 << 20;
/// Short, so that many pass between two disturbances.
const PAIR_ACCESSES: u64 = 20_000;
/// At most, for all of two processes.
const PAIRS_TAKE: Duration = Duration::from_secs(30);
/// A round trip of a word between two cores that share no cache takes longer; between those that do, 60 to 110 ns on today's machines.
const FAR_NS: f64 = 150.0;
/// Recycled all the time, and larger than the caches of a core.
const RING_BYTES: u64 = 16 << 20;

fn best(rounds: usize, mut measure: impl FnMut() -> f64) -> f64 {
    (0..rounds).map(|_| measure()).fold(f64::INFINITY, f64::min)
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times.get(times.len() / 2).copied().unwrap_or(f64::NAN)
}

#[derive(Default)]
struct Report(Vec<(&'static str, f64, &'static str)>);

impl Report {
    fn add(&mut self, key: &'static str, value: f64, what: &'static str) {
        self.0.push((key, value, what));
    }

    fn json(&self) -> String {
        let mut text = String::from("{");
        for (index, (key, value, _)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            let value = if value.is_finite() { format!("{value:.3}") } else { "null".into() };
            let _ = write!(text, "{separator}\"{key}\": {value}");
        }
        text + "}"
    }

    fn table(&self) -> String {
        let line = |(key, value, what): &(&str, f64, &str)| format!("{key:<36}{value:>9.2}   {what}\n");
        self.0.iter().map(line).collect()
    }
}

/// Measured twice, with everything else between, as a file system is now and then slow for a while.
#[derive(Default)]
struct FirstLaps {
    disk: Vec<f64>,
    tmpfs: Vec<f64>,
}

impl FirstLaps {
    fn measure(&mut self, dir: &Path) {
        pin(0);
        nix::unistd::sync(); // What others wrote is not to be written back meanwhile.
        self.disk.push(Bench::new(dir, FIRST_LAP_BYTES).first_lap());
        let tmpfs = Path::new("/dev/shm");
        if tmpfs.is_dir() {
            self.tmpfs.push(Bench::new(tmpfs, FIRST_LAP_BYTES).first_lap());
        }
    }

    fn report(self, report: &mut Report) {
        let least = |times: Vec<f64>| times.into_iter().min_by(f64::total_cmp).unwrap_or(f64::NAN);
        report.add("first_lap_ns", least(self.disk), "a logged store into a fresh log of 64 MiB");
        report.add("first_lap_tmpfs_ns", least(self.tmpfs), "the same in /dev/shm");
    }
}

fn one_process(report: &mut Report, dir: &Path) {
    pin(0);
    let mut bench = Bench::new(dir, RING_BYTES);
    let floor_memory = Floor::new();
    bench.append(Kind::Write, 2 * APPENDS);
    let [mut floor, mut write, mut read, mut rmw] = [f64::INFINITY; 4];
    for _ in 0..ROUNDS_ALONE {
        floor = floor.min(floor_memory.run(APPENDS));
        write = write.min(bench.append(Kind::Write, APPENDS));
        read = read.min(bench.append(Kind::Read, APPENDS));
        rmw = rmw.min(bench.append(Kind::ReadWrite, APPENDS));
    }
    report.add("floor_ns", floor, "one lock xadd on a shared counter, a 32-byte record in a private buffer");
    report.add("append_ns", write, "a logged store of 8 bytes: interval, record and the store itself");
    report.add("append_vs_floor", write / floor, "");
    report.add("read_append_ns", read, "a logged load");
    report.add("read_write_append_ns", rmw, "a logged lock xadd");
    report.add("read_back_ns", best(3, || bench.read_back()), "reading a record");
}

/// Rounds by where the cores were: a virtual machine's are moved about.
#[derive(Default)]
struct Rounds {
    /// With one cache between them, or one process alone.
    near: Vec<Measured>,
    far: Vec<Measured>,
}

impl Rounds {
    fn add(&mut self, round: Measured) {
        let rounds = if round.distance < FAR_NS { &mut self.near } else { &mut self.far };
        if rounds.len() < ROUNDS {
            rounds.push(round);
        }
    }
}

/// Medians in the order of the runs; NaN for those without a round.
fn times<'r, const RUNS: usize>(all: &'r [Rounds; RUNS], rounds: fn(&'r Rounds) -> &'r [Measured]) -> [f64; RUNS] {
    all.each_ref().map(|run| median(rounds(run).iter().map(|round| round.time).collect()))
}

fn two_processes(report: &mut Report, dir: &Path) {
    let run = |processes, work, lines| Run { processes, work, lines, stopped: false };
    let runs = [
        run(1, Work::Logged(Kind::Write), Lines::Own),
        run(2, Work::Logged(Kind::Write), Lines::Own),
        run(2, Work::Bare(Kind::ReadWrite), Lines::Same),
        run(2, Work::Logged(Kind::ReadWrite), Lines::Same),
        run(2, Work::Bare(Kind::Write), Lines::Same),
        run(2, Work::Logged(Kind::Write), Lines::Same),
        run(2, Work::Bare(Kind::Read), Lines::Same),
        run(2, Work::Logged(Kind::Read), Lines::Same),
        run(2, Work::SpacedBare, Lines::Same),
        run(2, Work::SpacedLogged, Lines::Same),
        Run { stopped: true, ..run(2, Work::Logged(Kind::Write), Lines::Own) },
        Run { stopped: true, ..run(2, Work::Logged(Kind::ReadWrite), Lines::Same) },
    ];
    let mut all = runs.map(|_| Rounds::default());
    let start = Instant::now();
    while start.elapsed() < PAIRS_TAKE && all.iter().any(|rounds| rounds.near.len() < ROUNDS) {
        for (run, rounds) in runs.into_iter().zip(&mut all) {
            if rounds.near.len() < ROUNDS {
                pair(dir, run, PAIR_ACCESSES).into_iter().for_each(|round| rounds.add(round));
            }
        }
    }
    let distance = |rounds: fn(&Rounds) -> &[Measured]| {
        let distances = all.iter().flat_map(rounds).map(|round| round.distance).filter(|distance| *distance > 0.0);
        median(distances.collect())
    };
    let (near, far) = (times(&all, |run| &run.near), times(&all, |run| &run.far));
    let measured = |times: &[f64; 12]| times.iter().skip(1).filter(|time| time.is_finite()).count();
    if measured(&near) >= measured(&far) {
        report.add("ping_pong_ns", distance(|run| &run.near), "from core to core and back, in the rounds of the figures that follow");
        add_pairs(report, near);
    } else {
        report.add("ping_pong_ns", distance(|run| &run.far), "from core to core and back: most of the time no cache was between them");
        add_pairs(report, [&near[..1], &far[1..]].concat().try_into().unwrap_or(far));
    }
    let [one, ..] = near;
    let [_, two, bare_xadd, logged_xadd, ..] = far;
    report.add("far_ping_pong_ns", distance(|run| &run.far), "in the rounds with no cache between the cores");
    report.add("far_two_process_scaling", 2.0 * one / two, "two_process_scaling in these");
    report.add("far_two_process_same_line_ratio", logged_xadd / bare_xadd, "two_process_same_line_ratio in these");
}

fn add_pairs(report: &mut Report, times: [f64; 12]) {
    let [
        one,
        two,
        bare_xadd,
        logged_xadd,
        bare_store,
        logged_store,
        bare_load,
        logged_load,
        bare_spaced,
        logged_spaced,
        stopped,
        stopped_xadd,
    ] = times;
    report.add("two_process_scaling", 2.0 * one / two, "throughput of two processes on different lines over that of one");
    report.add("two_process_same_line_ratio", logged_xadd / bare_xadd, "both lock xadd one word, over the same unlogged");
    let what = "the same with 80 ns of private work after each access";
    report.add("two_process_same_line_spaced_ratio", logged_spaced / bare_spaced, what);
    let what = "throughput of two on different lines while a third is stopped in an append, over that without it";
    report.add("stopped_writer_throughput", two / stopped, what);
    report.add("stopped_writer_same_line_throughput", logged_xadd / stopped_xadd, "the same on one line, the third's as well");
    report.add("same_line_xadd_ns", logged_xadd, "logged, per access of one process");
    report.add("same_line_xadd_bare_ns", bare_xadd, "");
    report.add("same_line_store_ns", logged_store, "both store to one word");
    report.add("same_line_store_bare_ns", bare_store, "");
    report.add("same_line_load_ns", logged_load, "both load one word");
    report.add("same_line_load_bare_ns", bare_load, "");
}

fn others(report: &mut Report) {
    report.add("array_queue_ns", best(ROUNDS, || array_queue(1, APPENDS / 2)), "crossbeam ArrayQueue::force_push, 32 bytes");
    report.add("array_queue_two_threads_ns", best(ROUNDS, || array_queue(2, APPENDS / 2)), "two threads, per push of one");
    match lttng::event_ns() {
        Ok(ns) => report.add("lttng_ust_ns", ns, "LTTng-UST, an event with the four words of a record"),
        Err(why) => {
            eprintln!("LTTng-UST (liblttng-ust-dev, lttng-tools): {why}; not compared with");
            report.add("lttng_ust_ns", f64::NAN, "LTTng-UST could not be measured");
        }
    }
}

fn main() {
    let mut json = false;
    let mut dir: PathBuf = std::env::temp_dir();
    let mut arguments = std::env::args().skip(1);
    let mut asked = false;
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => json = true,
            "--bench" => asked = true,
            "--dir" => dir = arguments.next().map(PathBuf::from).unwrap_or(dir),
            other => panic!("unknown argument {other}"),
        }
    }
    if !asked {
        return; // `cargo test --benches` asks whether it starts, not how fast it is.
    }
    assert_eq!(layout::SLOT_BYTES, 32);
    let mut report = Report::default();
    let mut first_laps = FirstLaps::default();
    one_process(&mut report, &dir);
    (0..FIRST_LAPS).for_each(|_| first_laps.measure(&dir));
    two_processes(&mut report, &dir);
    others(&mut report);
    (0..FIRST_LAPS).for_each(|_| first_laps.measure(&dir));
    first_laps.report(&mut report);
    print!("{}", if json { report.json() + "\n" } else { report.table() });
}
