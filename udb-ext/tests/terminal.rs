//! `udb` on a terminal: the prompt, Ctrl-C, and nothing left behind.

mod support;
#[path = "../../tests/src/terminal.rs"]
mod terminal;

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Command};
use std::time::Instant;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use support::{Bench, WATCHDOG, Watchdog};

/// A udb on a terminal of its own.
struct Terminal {
    child: Child,
    master: File,
    seen: String,
    /// How much of `seen` was waited for.
    read: usize,
    _watchdog: Watchdog,
}

impl Terminal {
    fn start(udb: Command) -> Self {
        let (child, master) = terminal::spawn(udb, terminal::Echo::On);
        let watchdog = Watchdog::over(&child);
        Terminal { child, master, seen: String::new(), read: 0, _watchdog: watchdog }
    }

    /// Reads on until `marker` has come.
    #[track_caller]
    fn wait_for(&mut self, marker: &str) {
        let mut buffer = [0u8; 4096];
        loop {
            if let Some(found) = self.seen[self.read..].find(marker) {
                self.read += found + marker.len();
                return;
            }
            match self.master.read(&mut buffer) {
                Ok(count) if count > 0 => self.seen.push_str(&String::from_utf8_lossy(&buffer[..count])),
                _ => panic!("the terminal closed before {marker:?} came; it showed:\n{}", self.seen),
            }
        }
    }

    fn type_line(&mut self, line: &str) {
        writeln!(self.master, "{line}").unwrap();
    }

    /// Everything up to the end of the program.
    fn finish(mut self) -> (String, Option<i32>) {
        let mut buffer = [0u8; 4096];
        // A terminal without programs is an error to read.
        while let Ok(count @ 1..) = self.master.read(&mut buffer) {
            self.seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
        let status = self.child.wait().unwrap().code();
        (self.seen, status)
    }
}

fn bench_with(more: &str) -> Bench {
    let bench = Bench::new();
    let program = bench.guest("walk");
    bench.write("walk.undo", &format!(r#"{{"program": "{}"{more}}}"#, program.display()));
    bench
}

fn open(bench: &Bench) -> Terminal {
    let mut udb = bench.udb();
    udb.args(["-nx", "-ex", "set width 0", "-ex", "set style enabled off", "walk.undo"]);
    Terminal::start(udb)
}

/// The servers that serve this bench's recordings.
fn servers(bench: &Bench) -> Vec<Pid> {
    let marker = bench.path("walk.undo").display().to_string();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    processes
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            line.contains("--stdio") && line.contains(&marker)
        })
        .map(Pid::from_raw)
        .collect()
}

fn until_no_servers(bench: &Bench) {
    let begun = Instant::now();
    while !servers(bench).is_empty() {
        assert!(begun.elapsed() < WATCHDOG, "a server is left behind");
        std::thread::yield_now();
    }
}

#[test]
fn the_prompt_tells_where_in_history_one_stands() {
    let bench = bench_with("");
    let mut terminal = open(&bench);
    terminal.wait_for("start 1> ");
    terminal.type_line("ubookmark begun");
    terminal.wait_for("start 1 begun> ");
    terminal.type_line("break square");
    terminal.wait_for("start 1 begun> ");
    terminal.type_line("continue");
    terminal.wait_for("% ");
    terminal.type_line("ugo end");
    terminal.wait_for("end ");
    terminal.wait_for("> ");
    terminal.type_line("ugo time 1,000");
    terminal.wait_for("% 1,000> ");
    terminal.type_line("quit");
    let (seen, status) = terminal.finish();
    assert_eq!(status, Some(0), "{seen}");
    assert!(!seen.contains("Quit anyway") && !seen.contains("[answered"), "{seen}");
    until_no_servers(&bench);
}

#[test]
fn without_a_recording_the_prompt_says_so() {
    let bench = Bench::new();
    let mut udb = bench.udb();
    udb.args(["-nx"]);
    let mut terminal = Terminal::start(udb);
    terminal.wait_for("not running> ");
    terminal.type_line("quit");
    assert_eq!(terminal.finish().1, Some(0));
}

#[test]
fn control_c_ends_a_search() {
    let bench = bench_with(r#", "endless": true"#);
    let mut terminal = open(&bench);
    terminal.wait_for("start 1> ");
    terminal.type_line("continue");
    terminal.wait_for("Continuing.");
    terminal.master.write_all(b"\x03").unwrap();
    terminal.wait_for("Program received signal SIGINT, Interrupt.");
    terminal.wait_for("> ");
    terminal.type_line("reverse-continue");
    terminal.wait_for("Continuing.");
    terminal.master.write_all(b"\x03").unwrap();
    terminal.wait_for("Program received signal SIGINT, Interrupt.");
    terminal.wait_for("> ");
    terminal.type_line("uinfo time");
    terminal.wait_for("Current time is: ");
    terminal.type_line("ugo start");
    terminal.wait_for("start 1> ");
    terminal.type_line("quit");
    let (seen, status) = terminal.finish();
    assert_eq!(status, Some(0), "{seen}");
    assert!(!seen.contains("Program stopped"), "{seen}");
    until_no_servers(&bench);
}

#[test]
fn a_killed_debugger_leaves_no_server_even_amid_a_search() {
    let bench = bench_with(r#", "endless": true"#);
    let mut terminal = open(&bench);
    terminal.wait_for("start 1> ");
    assert_eq!(servers(&bench).len(), 1);
    terminal.type_line("continue");
    terminal.wait_for("Continuing.");
    kill(Pid::from_raw(i32::try_from(terminal.child.id()).unwrap()), Signal::SIGKILL).unwrap();
    terminal.finish();
    until_no_servers(&bench);
}
