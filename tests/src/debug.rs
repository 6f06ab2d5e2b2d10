//! A person at a terminal in `udb`: types commands, and reads what comes before the next prompt.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::pattern::like;
use crate::run::WATCHDOG;
use crate::stage;
use crate::terminal::{Echo, spawn};

pub struct Udb {
    child: Child,
    terminal: File,
    /// All that the terminal showed.
    seen: String,
    /// How much of it was returned.
    read: usize,
}

impl Udb {
    /// Opens a recording and waits for the first prompt; what came before it.
    pub fn open(directory: &Path, recording: &str) -> (Udb, String) {
        let mut command = udb(directory);
        command.args(["-nx", "-ex", "set editing off", "-ex", "set width 0", "-ex", "set height 0", "-ex", "set style enabled off"]);
        command.arg(recording);
        let (child, terminal) = spawn(command, Echo::Off);
        let mut udb = Udb { child, terminal, seen: String::new(), read: 0 };
        let greeting = udb.answer();
        (udb, greeting)
    }

    /// Types a command; its output.
    #[track_caller]
    pub fn ask(&mut self, command: &str) -> String {
        self.type_line(command);
        self.answer()
    }

    /// Types a command, and that its output has this form: see [`assert_form`].
    #[track_caller]
    pub fn expect(&mut self, command: &str, form: &[&str]) -> String {
        let output = self.ask(command);
        assert_form(command, &output, form);
        output
    }

    pub fn type_line(&mut self, line: &str) {
        writeln!(self.terminal, "{line}").unwrap();
    }

    /// Ctrl-C.
    pub fn interrupt(&mut self) {
        self.terminal.write_all(b"\x03").unwrap();
    }

    /// What comes up to the next prompt, without that.
    #[track_caller]
    pub fn answer(&mut self) -> String {
        while !ends_in_prompt(&self.seen[self.read..]) {
            assert!(self.more(), "udb ended; the terminal showed:\n{}", self.seen);
        }
        let answer = self.seen[self.read..].replace('\r', "");
        self.read = self.seen.len();
        let end = answer.rfind('\n').map_or(0, |end| end + 1);
        answer[..end].to_owned()
    }

    /// Reads on until this has come.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        while !self.seen[self.read..].contains(text) {
            assert!(self.more(), "udb ended before {text:?}; the terminal showed:\n{}", self.seen);
        }
    }

    /// Quits; the exit status, and all that the terminal showed.
    pub fn quit(mut self) -> (Option<i32>, String) {
        self.type_line("quit");
        while self.more() {}
        (self.child.wait().unwrap().code(), std::mem::take(&mut self.seen))
    }

    /// Kills gdb as the out-of-memory killer would.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// The processes that it started, and those that they started.
    pub fn descendants(&self) -> Vec<Pid> {
        let mut found = vec![Pid::from_raw(self.child.id().cast_signed())];
        let processes: Vec<(Pid, Pid)> =
            fs::read_dir("/proc").unwrap().filter_map(|entry| parent(entry.ok()?.file_name().to_str()?)).collect();
        let mut next = 0;
        while let Some(&parent) = found.get(next) {
            found.extend(processes.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
            next += 1;
        }
        found.split_off(1)
    }

    /// Takes what the terminal shows; `false` when nothing more can come.
    fn more(&mut self) -> bool {
        let timeout = PollTimeout::try_from(WATCHDOG).unwrap();
        let ready = poll(&mut [PollFd::new(self.terminal.as_fd(), PollFlags::POLLIN)], timeout).unwrap();
        if ready == 0 {
            let _ = self.child.kill();
            panic!("udb hangs; the terminal showed:\n{}", self.seen);
        }
        let mut buffer = [0; 4096];
        // A terminal without programs is an error to read.
        match self.terminal.read(&mut buffer) {
            Ok(count) if count > 0 => {
                self.seen.push_str(&String::from_utf8_lossy(&buffer[..count]));
                true
            }
            _ => false,
        }
    }
}

impl Drop for Udb {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `udb --batch FILE -ex …` to its end: exit status, and output with errors.
pub fn batch(directory: &Path, recording: &str, commands: &[&str]) -> (Option<i32>, String) {
    let mut command = udb(directory);
    command.args(["--batch", "-nx", "-ex", "set width 0", recording]);
    for text in commands {
        command.args(["-ex", text]);
    }
    finished(command)
}

/// Runs to the end; output and errors in one stream, as on a terminal.
pub fn finished(mut command: Command) -> (Option<i32>, String) {
    let (mut reader, writer) = std::io::pipe().unwrap();
    let mut child = command.stdin(Stdio::null()).stdout(writer.try_clone().unwrap()).stderr(writer).spawn().expect("udb starts");
    drop(command);
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    (child.wait().unwrap().code(), String::from_utf8_lossy(&bytes).into_owned())
}

/// The staged `udb`, untouched by who runs the tests.
pub fn udb(directory: &Path) -> Command {
    let mut udb = Command::new(stage::program("udb"));
    udb.current_dir(directory).env("HOME", directory).env("TERM", "dumb").env("LC_ALL", "C.UTF-8");
    for name in ["UNDO_event_log_max", "UNDO_event_log_mode", "UNDO_GDB", "UNDO_SERVER", "DEBUGINFOD_URLS"] {
        udb.env_remove(name);
    }
    udb
}

/// Waits until none of these processes is there any more.
pub fn until_gone(processes: &[Pid]) {
    let begun = Instant::now();
    let is_there = |pid: &Pid| kill(*pid, None::<Signal>).is_ok() && state(*pid) != Some('Z');
    while let Some(pid) = processes.iter().find(|pid| is_there(pid)) {
        assert!(begun.elapsed() < WATCHDOG, "process {pid} is left behind");
        std::thread::yield_now();
    }
}

fn stat(pid: &str) -> Option<(char, i32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    Some((fields.next()?.chars().next()?, fields.next()?.parse().ok()?))
}

fn state(pid: Pid) -> Option<char> {
    stat(&pid.to_string()).map(|stat| stat.0)
}

/// A process and its parent.
fn parent(pid: &str) -> Option<(Pid, Pid)> {
    Some((Pid::from_raw(pid.parse().ok()?), Pid::from_raw(stat(pid)?.1)))
}

fn ends_in_prompt(text: &str) -> bool {
    let last = text.rsplit('\n').next().unwrap_or_default();
    let number = |text: &str| text.starts_with(|letter: char| letter.is_ascii_digit());
    let place = last.strip_suffix("> ").and_then(|place| place.split_once(' '));
    place.is_some_and(|(word, rest)| match word {
        "start" | "end" => number(rest),
        "not" => rest == "running",
        _ => word.ends_with('%') && number(word) && number(rest),
    })
}

/// Asserts that the output has just these lines, in which `…` stands for any text. A line `(…)` stands for any number of lines.
#[track_caller]
pub fn assert_form(command: &str, output: &str, form: &[&str]) {
    let lines: Vec<&str> = output.lines().collect();
    assert!(matches(&lines, form), "{command}\nshould have the form\n{}\nand is\n{output}", form.join("\n"));
}

fn matches(lines: &[&str], form: &[&str]) -> bool {
    match form.split_first() {
        None => lines.is_empty(),
        Some((&"(…)", rest)) => (0..=lines.len()).any(|skipped| matches(&lines[skipped..], rest)),
        Some((pattern, rest)) => lines.split_first().is_some_and(|(line, lines)| like(pattern, line) && matches(lines, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_are_told_from_output() {
        for prompt in ["start 1> ", "x\n99% 10,333> ", "end 225,575> ", "not running> ", "3% 5 mark> "] {
            assert!(ends_in_prompt(prompt), "{prompt:?}");
        }
        for other in ["", "start 1>", "end of it> ", "<x> ", "end 5> \n", "100 1> "] {
            assert!(!ends_in_prompt(other), "{other:?}");
        }
    }

    #[test]
    fn forms_hold_line_by_line() {
        assert!(matches(&["a 1 b", "c"], &["a … b", "c"]));
        assert!(!matches(&["a 1 b", "c", "d"], &["a … b", "c"]));
        assert!(!matches(&["a 1 b"], &["a … b", "c"]));
        assert!(matches(&["x", "y", "c"], &["(…)", "c"]));
        assert!(matches(&["c"], &["(…)", "c"]));
    }
}
