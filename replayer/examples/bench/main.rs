//! Measures replay against recording, seeks, and searches backwards against gdb's: `cargo xtask bench replay` runs this.
//!
//! ```text
//!   bench [--json] [--quick] [--only replay|seek|watch|gdb]…
//! ```
//!
//! | figure | what it is |
//! |---|---|
//! | `replay_vs_record` | time to replay (comparing at every event) / time the program ran while it was recorded, the worst of the CPU-bound programs |
//! | `replay_vs_record_calls` | the same for a loop of system calls |
//! | `open_s` | until a debugger could show the first instruction of the long recording |
//! | `goto_end_s` | the first run to its end, which leaves checkpoints |
//! | `first_reverse_s` | then the first search backwards, for the last call of a function that is called all the time |
//! | `seek_median_s`, `seek_max_s` | from anywhere to anywhere in it |
//! | `reverse_watch_1eN_s` | at the end of a loop of 10ᴺ volatile stores: reverse-continue to the one store to another word before it |
//! | `gdb_…` | the same in gdb with `record full`, on a loop that it can cope with, and ours on that loop |
//!
//! `--quick` does less work and gives rougher figures; `--only` measures a part.

mod setting;

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use replayer::{Cancel, Direction, Points, Replay, StopReason, Timeline, WatchKind, Watchpoint};
use setting::{Made, Setting, replay};

/// gdb records some ten thousand instructions a second.
const GDB_ROUNDS: u64 = 20_000;
const LONG_CPU_SECONDS: f64 = 10.0;
const PARTS: [&str; 4] = ["replay", "seek", "watch", "gdb"];

struct Figure {
    name: &'static str,
    value: f64,
    /// At most this is wanted.
    target: Option<f64>,
    note: String,
}

fn main() -> Result<()> {
    let (mut json, mut quick, mut parts) = (false, false, Vec::new());
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--json" => json = true,
            "--quick" => quick = true,
            "--only" => {
                let part = arguments.next().unwrap_or_default();
                parts.push(
                    *PARTS
                        .iter()
                        .find(|known| **known == part)
                        .with_context(|| format!("--only: expected one of {PARTS:?}, found {part:?}"))?,
                );
            }
            _ => anyhow::bail!("unknown option {argument}; there are --json, --quick and --only"),
        }
    }
    if parts.is_empty() {
        parts = PARTS.to_vec();
    }
    let figures = measure(&Setting::new()?, quick, &parts)?;
    if json {
        println!("{}", serde_json::Value::from_iter(figures.iter().map(|figure| (figure.name, figure.value))));
        return Ok(());
    }
    let mut table = comfy_table::Table::new();
    table.load_preset(comfy_table::presets::UTF8_BORDERS_ONLY).set_header(["figure", "value", "at most", "how"]);
    for Figure { name, value, target, note } in &figures {
        let target = target.map_or_else(String::new, |target| format!("{target}"));
        table.add_row([(*name).to_owned(), format!("{value:.4}"), target, note.clone()]);
    }
    println!("{table}");
    Ok(())
}

fn measure(setting: &Setting, quick: bool, parts: &[&str]) -> Result<Vec<Figure>> {
    let scale = if quick { 10 } else { 1 };
    let mut figures = Vec::new();
    let mut add = |name, value, target, note: String| figures.push(Figure { name, value, target, note });
    let wants = |part: &str| parts.contains(&part);

    if wants("replay") || wants("seek") {
        let long = long_recording(setting, quick)?;
        add("native_cpu_s", long.native, None, "CPU time of the long program, not recorded".into());
        if wants("replay") {
            let (stores, stores_note) = replay_vs_record(setting, "stores", 1_000_000_000 / scale)?;
            let long_replay = replay(&long.made)?.as_secs_f64();
            let took = long.made.took.as_secs_f64();
            let note = format!("sorting and printing: {long_replay:.2} s / {took:.2} s; stores: {stores_note}");
            add("replay_vs_record", (long_replay / took).max(stores), Some(1.2), note);
            let (calls, note) = replay_vs_record(setting, "calls", 1_000_000 / scale)?;
            add("replay_vs_record_calls", calls, Some(1.0), note);
        }
        if wants("seek") {
            seeks(&long.made, if quick { 20 } else { 100 }, &mut add)?;
        }
    }
    if wants("watch") {
        let far = if quick { ("reverse_watch_1e8_s", 100_000_000, None) } else { ("reverse_watch_1e9_s", 1_000_000_000, Some(6.6)) };
        for (name, rounds, target) in [("reverse_watch_1e5_s", 100_000, None), ("reverse_watch_1e7_s", 10_000_000, None), far] {
            add(name, reverse_watch(setting, rounds)?, target, format!("{rounds} stores back"));
        }
    }
    if wants("gdb") {
        let ours = reverse_watch(setting, GDB_ROUNDS)?;
        let (recorded, reversed) = setting.gdb(GDB_ROUNDS)?;
        add("reverse_watch_20000_ms", 1e3 * ours, None, format!("{GDB_ROUNDS} stores back"));
        add("gdb_record_full_s", recorded, None, format!("gdb records {GDB_ROUNDS} stores"));
        add("gdb_reverse_watch_s", reversed, None, format!("gdb goes {GDB_ROUNDS} stores back"));
        add("reverse_watch_vs_gdb", ours / reversed, None, format!("ours goes {GDB_ROUNDS} stores back in {ours:.4} s"));
    }
    Ok(figures)
}

struct Long {
    made: Made,
    /// Seconds.
    native: f64,
}

/// A recording of enough CPU time.
fn long_recording(setting: &Setting, quick: bool) -> Result<Long> {
    const PROBE: u64 = 50;
    let wanted = if quick { LONG_CPU_SECONDS / 10.0 } else { LONG_CPU_SECONDS };
    let probe = setting.native("mixed", PROBE)?.as_secs_f64();
    let rounds = (PROBE as f64 * wanted * 1.05 / probe.max(0.01)).ceil() as u64;
    let native = setting.native("mixed", rounds)?.as_secs_f64();
    Ok(Long { made: setting.record("mixed", rounds)?, native })
}

/// The better of two runs each, as another program may disturb one.
fn replay_vs_record(setting: &Setting, kind: &str, rounds: u64) -> Result<(f64, String)> {
    let (mut recorded, mut replayed) = (f64::MAX, f64::MAX);
    for _ in 0..2 {
        let made = setting.record(kind, rounds)?;
        recorded = recorded.min(made.took.as_secs_f64());
        replayed = replayed.min(replay(&made)?.as_secs_f64());
    }
    Ok((replayed / recorded, format!("{replayed:.2} s / {recorded:.2} s")))
}

fn seeks(made: &Made, count: usize, add: &mut impl FnMut(&'static str, f64, Option<f64>, String)) -> Result<()> {
    let start = Instant::now();
    let mut timeline = Replay::open(&made.path)?;
    add("open_s", start.elapsed().as_secs_f64(), None, format!("{} events", timeline.event_count()));
    let start = Instant::now();
    let end = timeline.end();
    timeline.seek(end.bbcount, Some(end.pc))?;
    add("goto_end_s", start.elapsed().as_secs_f64(), None, format!("{} transfers", end.bbcount));
    let start = Instant::now();
    let breakpoint = timeline.event(timeline.event_count() / 2).time.pc;
    let points = Points { breakpoints: vec![breakpoint], ..Points::default() };
    let stop = timeline.resume(Direction::Backward, &points, &Cancel::default())?;
    ensure!(stop.reason == StopReason::Breakpoint, "no breakpoint found: {stop:?}");
    add("first_reverse_s", start.elapsed().as_secs_f64(), None, "to the last call of a function called often".into());
    let mut state = 88_172_645_463_325_252_u64;
    let mut times = Vec::with_capacity(count);
    while times.len() < count {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let target = 1 + state % end.bbcount;
        let start = Instant::now();
        timeline.seek(target, None)?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    let checkpoints = format!("{count} seeks, {} checkpoints", timeline.checkpoint_count());
    add("seek_median_s", times[times.len() / 2], Some(0.3), checkpoints);
    add("seek_max_s", times[times.len() - 1], None, String::new());
    Ok(())
}

/// Seconds from the end back to the only store to the watched word.
fn reverse_watch(setting: &Setting, rounds: u64) -> Result<f64> {
    let made = setting.record("stores", rounds)?;
    let mut timeline = Replay::open(&made.path)?;
    let end = timeline.end();
    timeline.seek(end.bbcount, Some(end.pc))?;
    let watchpoint = Watchpoint { address: setting.watched()?, length: 8, kind: WatchKind::Write };
    let points = Points { watchpoints: vec![watchpoint], ..Points::default() };
    let start = Instant::now();
    let stop = timeline.resume(Direction::Backward, &points, &Cancel::default())?;
    let took = start.elapsed().as_secs_f64();
    ensure!(stop.reason == StopReason::Watchpoint(watchpoint), "the store is not found: {stop:?}");
    Ok(took)
}
