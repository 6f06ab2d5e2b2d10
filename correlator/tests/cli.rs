//! `shmem-inspect` as it is called: every command, for people and for programs, on a log of which the contents are known.
mod common;
#[path = "common/corpus.rs"]
mod corpus;
use common::*;
use correlator::{Kind, Record};
use serde_json::Value;
use std::collections::HashSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

/// The command's status, output and errors.
struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Said {
    #[track_caller]
    fn ok(self) -> String {
        assert_eq!(self.code, Some(0), "{}", self.err);
        assert_eq!(self.err, "");
        self.out
    }

    /// Fails, with one line that says why.
    #[track_caller]
    fn fails(self, because: &str) {
        assert_ne!(self.code, Some(0));
        assert!(self.err.contains(because), "{}", self.err);
        assert_eq!(self.err.trim_end().lines().count(), 1, "{}", self.err);
    }
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shmem-inspect"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Said {
    let output = command(arguments).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
}

fn whole(recording: usize, object: usize, offset: u64, kind: Kind, value: u8) -> Step {
    Step { recording, object, offset, len: 4, kind, value, blocks: 1, whole: true, by_kernel: false }
}

/// 100 writes 1, 101 reads it and writes 2 beside it, 100 writes 3: all in one line. The last read by 101 still sees the 1, but races
/// with the write of the 3.
fn history() -> (History, String) {
    let mut history = History::new(2, 256 << 10);
    let part = |recording, kind, value| Step { whole: false, ..whole(recording, 0, 0, kind, value) };
    history.run(&[
        whole(0, 0, 0, Kind::Write, 1),
        whole(1, 0, 0, Kind::Read, 0),
        whole(1, 0, 8, Kind::Write, 2),
        whole(0, 1, 0x40, Kind::ReadWrite, 5),
        part(0, Kind::Write, 3),
        part(1, Kind::Read, 0),
        part(1, Kind::Read, 0),
        part(0, Kind::Write, 3),
    ]);
    history.finish();
    let path = history.path.to_str().unwrap().to_owned();
    (history, path)
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn json_lines(text: &str) -> Vec<Value> {
    text.lines().map(json).collect()
}

#[test]
fn info_is_the_default_and_tells_what_is_there() {
    let (_history, log) = history();
    let text = run(&[&log]).ok();
    assert_eq!(text, run(&[&log, "info"]).ok());
    for part in ["access log of 2 recordings, 6 accesses", "2 of ", "0 lost", "program", "100", "/memfd:test", "0x7f0001000000"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let value = json(&run(&[&log, "--json"]).ok());
    assert_eq!(value["accesses"], 6);
    assert_eq!(value["recordings"][1]["pid"], 101);
    assert_eq!(value["recordings"][1]["accesses"], 3);
    assert_eq!(value["objects"].as_array().unwrap().len(), 2);
    assert_eq!(value["mappings"][3]["address"], address(1, 1));
}

#[test]
fn dump_filters() {
    let (history, log) = history();
    let object = |number: usize| history.objects[number].get().to_string();
    let count = |arguments: &[&str]| {
        let table = run(&[&[log.as_str(), "dump"], arguments].concat()).ok().lines().count() - 1;
        let lines = json_lines(&run(&[&[log.as_str(), "--json", "dump"], arguments].concat()).ok());
        assert_eq!(table, lines.len(), "the same rows for people and programs");
        lines.len()
    };
    assert_eq!(count(&[]), 6);
    assert_eq!(count(&["--recording", "1"]), 3);
    assert_eq!(count(&["-r", "101"]), 3);
    assert_eq!(count(&["--object", &object(1)]), 1);
    assert_eq!(count(&["--kind", "write"]), 3);
    assert_eq!(count(&["--kind", "read/write"]), 1);
    assert_eq!(count(&["--address", &format!("{}+8", object(0))]), 1);
    assert_eq!(count(&["-r", "2", "--address", &format!("{:#x}", address(1, 0)), "--len", "9"]), 3);
    assert_eq!(count(&["-n", "2"]), 2);
    assert_eq!(count(&["-r", "1", "--from", "3"]), 2);
    assert_eq!(count(&["-r", "1", "--to", "3"]), 1);
    let line = &json_lines(&run(&[&log, "--json", "dump", "-n", "1"]).ok())[0];
    assert_eq!(line["written"], "01010101");
    assert_eq!((&line["kind"], &line["len"], &line["pid"], &line["bbcount"]), (&"write".into(), &4.into(), &100.into(), &2.into()));
    run(&[&log, "dump", "-r", "nobody"]).fails("expected a number, process, name or file that `info` lists, found nobody");
    run(&[&log, "dump", "--address", "0x10"]).fails("0x10: no shared memory is mapped there");
}

#[test]
fn dump_follows_a_log_that_is_being_written() {
    let mut history = History::new(2, 256 << 10);
    history.run(&[whole(0, 0, 0, Kind::Write, 1)]);
    let mut child = command(&["--json", history.path.to_str().unwrap(), "dump", "--follow", "-n", "3"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut written = || json(&lines.next().unwrap().unwrap())["written"].as_str().unwrap().to_owned();
    assert_eq!(written(), "01010101");
    history.run(&[whole(1, 0, 0, Kind::Write, 2)]);
    assert_eq!(written(), "02020202");
    history.run(&[whole(0, 0, 0, Kind::Write, 3)]);
    assert_eq!(written(), "03030303");
    assert!(child.wait().unwrap().success(), "it ends when as many were shown as were asked for");
}

#[test]
fn blame_names_who_wrote() {
    let (history, log) = history();
    let address = format!("{:#x}", address(0, 0));
    let text = run(&[&log, "blame", &address]).ok();
    assert_eq!(text, run(&["blame", &address, &log]).ok(), "the log may come last");
    let output = command(&["blame", &address]).current_dir(history.dir.path()).output().unwrap();
    assert_eq!(text, String::from_utf8(output.stdout).unwrap(), "the only log of the directory");
    let rows: Vec<&str> = text.lines().collect();
    assert!(rows[0].contains("PID") && rows[1].contains("100") && rows[1].contains("write") && rows[2].contains("101"), "{text}");
    let value = json(&run(&[&log, "--json", "blame", &address]).ok());
    assert_eq!(value["rows"].as_array().unwrap().len(), 4);
    assert_eq!(value["lost"], 0);
    let rows = |arguments: &[&str]| -> Vec<(u64, String)> {
        let value = json(&run(&[&[log.as_str(), "--json", "blame"], arguments].concat()).ok());
        let row = |row: &Value| (row["pid"].as_u64().unwrap(), row["kind"].as_str().unwrap().to_owned());
        value["rows"].as_array().unwrap().iter().map(row).collect()
    };
    assert_eq!(rows(&[&address, "--writers"]).last(), Some(&(100, "write".into())));
    // The second recording has it elsewhere, and its last read saw the first write.
    let theirs = format!("{:#x}", common::address(1, 0));
    assert_eq!(rows(&["-r", "101", &theirs]), [(100, "write".into()), (101, "read".into()), (101, "read".into())]);
    assert_eq!(rows(&["-r", "2", &theirs, "--time", "3"]), [(100, "write".into()), (101, "read".into())]);
    let in_object = format!("{}+8", history.objects[0].get());
    assert_eq!(rows(&[&in_object, "-n", "1"]), [(101, "write".into())]);
    assert_eq!(rows(&["-r", "101", &theirs, "-n", "1"]), [(101, "read".into())]);
    assert!(run(&[&log, "blame", "-r", "101", &theirs, "-n", "1"]).ok().contains("older accesses are not shown"));
    assert!(run(&[&log, "blame", "-r", "101", "0x10"]).ok().contains("no shared memory at that address"));
    assert!(run(&[&log, "blame", "-r", "101", "--time", "1", &theirs]).ok().contains("has not accessed it yet"));
    run(&[&log, "blame", "0x10"]).fails("0x10: no recording has shared memory there");
    run(&[&log, "blame", &address, "--time", "5"]).fails("say which with --recording");
    assert!(run(&[&log, "blame", "7f00"]).err.contains("is it 0x7f00?"));
    assert!(run(&[&log, "blame", "here"]).err.contains("expected a number like 4096 or 0x1000, found here"));
}

#[test]
fn hot_shows_who_collides() {
    let (_history, log) = history();
    let text = run(&[&log, "hot"]).ok();
    assert!(text.contains("0-3 8-11") || text.contains("8-11"), "{text}");
    let value = json(&run(&[&log, "--json", "hot"]).ok());
    assert_eq!(value[0]["accesses"], 5);
    assert_eq!(value[0]["recordings"][0]["writes"], 2);
    assert_eq!(value[0]["recordings"][1]["written"], "8-11");
    assert_eq!(value.as_array().unwrap().len(), 1, "the other line has one user");
}

#[test]
fn races_are_pairs_that_overlapped() {
    let (_history, log) = history();
    let lines = json_lines(&run(&[&log, "--json", "races"]).ok());
    assert_eq!(lines.len(), 1);
    assert_eq!((&lines[0]["first"]["kind"], &lines[0]["second"]["kind"]), (&"write".into(), &"read".into()));
    assert!(run(&[&log, "races"]).ok().contains("and"));
    assert_eq!(run(&[&log, "races", "--unrecorded"]).ok(), "Logged accesses explain every value that was read.\n");
    let mut history = History::new(2, 256 << 10);
    history.run(&[whole(0, 0, 0, Kind::Write, 1)]);
    history.poke(0, 1, 9);
    history.run(&[whole(1, 0, 0, Kind::Read, 0)]);
    let log = history.path.to_str().unwrap();
    assert!(run(&[log, "races"]).ok().starts_with("No conflicting accesses"));
    let lines = json_lines(&run(&[log, "--json", "races", "--unrecorded"]).ok());
    assert_eq!((&lines[0]["offset"], &lines[0]["len"]), (&1.into(), &1.into()));
    assert!(run(&[log, "races", "--unrecorded"]).ok().contains("changed after"));
}

#[test]
fn exports_have_every_access() {
    let (history, log) = history();
    let records: Vec<Record> = all(history.open().reader());
    let csv = run(&[&log, "export"]).ok();
    assert_eq!(csv.lines().count(), records.len() + 1);
    assert!(csv.starts_with("position,recording,pid,time,"));
    let lines = json_lines(&run(&[&log, "export", "--format", "jsonl"]).ok());
    for (line, record) in lines.iter().zip(&records) {
        assert_eq!(line["offset"], record.offset);
        assert_eq!(line["bbcount"], record.time.bbcount);
        assert_eq!(line["position"], record.position.to_string());
    }
    let file = history.dir.path().join("out.csv");
    assert_eq!(run(&[&log, "export", "-o", file.to_str().unwrap()]).ok(), "");
    assert_eq!(fs::read_to_string(file).unwrap(), csv);
    run(&[&log, "export", "-o", "/nowhere/out.csv"]).fails("/nowhere/out.csv: cannot create");
    run(&[&log, "export", "--format", "parquet"]).fails("--output: expected a folder");
}

#[test]
fn what_is_not_installed_says_how_to_get_it() {
    let (_history, log) = history();
    for arguments in [&["sql", "SELECT 1"][..], &["export", "--format", "parquet", "-o", "/nowhere"]] {
        let output = command(&[&[log.as_str()], arguments].concat()).env("PATH", "/nowhere").output().unwrap();
        let err = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && err.contains("cargo xtask build --with-sql"), "{err}");
    }
}

#[test]
fn verify_finds_damage() {
    let (history, log) = history();
    assert!(run(&[&log, "verify"]).ok().contains("6 accesses read, 0 unreadable: all of it makes sense"));
    assert_eq!(json(&run(&[&log, "--json", "verify"]).ok())["problems"], Value::Array(Vec::new()));
    let mut bytes = fs::read(&history.path).unwrap();
    let at = history.open().reader().layout().blocks().offset as usize;
    bytes[at + 6..at + 8].copy_from_slice(&[0xee; 2]);
    fs::write(&history.path, bytes).unwrap();
    let said = run(&[&log, "verify"]);
    assert_eq!(said.code, Some(1));
    assert!(said.out.contains("expected") && said.out.contains("1 unreadable"), "{}", said.out);
}

#[test]
fn errors_are_one_line_that_names_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    run(&[&path("none.shmem")]).fails("none.shmem");
    fs::write(path("zero.shmem"), vec![0; 1 << 20]).unwrap();
    run(&[&path("zero.shmem"), "blame", "1+0"]).fails("zero.shmem");
    fs::write(path("text.shmem"), "no log").unwrap();
    run(&[&path("text.shmem"), "hot"]).fails("text.shmem");
    run(&[&path("log.txt")]).fails("expected a name that ends in .undo or .shmem");
    run(&["info", &path("")]).fails("which log?");
    fs::remove_file(path("zero.shmem")).unwrap();
    run(&["info", &path("")]).fails("text.shmem");
    fs::remove_file(path("text.shmem")).unwrap();
    run(&["info", &path("")]).fails("There is none (.shmem)");
}

/// Two that build the index at the same time: both answer, and one file is left.
#[test]
fn several_may_build_the_index_at_once() {
    let mut history = History::new(2, 1 << 20);
    history.run(&(0..4000).map(|step| whole(step % 2, 0, 0, Kind::Write, step as u8)).collect::<Vec<_>>());
    history.finish();
    let log = history.path.to_str().unwrap();
    let expected = run(&[log, "--no-cache", "blame", &format!("{}+0", history.objects[0].get())]).ok();
    assert_eq!(fs::read_dir(history.dir.path()).unwrap().count(), 1, "--no-cache leaves nothing");
    std::thread::scope(|scope| {
        for _ in 0..6 {
            scope.spawn(|| assert_eq!(run(&[log, "blame", &format!("{}+0", history.objects[0].get())]).ok(), expected));
        }
    });
    assert_eq!(fs::read_dir(history.dir.path()).unwrap().count(), 2);
}

/// On a terminal of 60 columns no line is wider, and headers stand out; in a pipe there is no escape sequence.
#[test]
fn tables_fit_the_terminal() {
    let (_history, log) = history();
    for arguments in ["info", "hot", "races", &format!("blame {:#x}", address(0, 0))] {
        assert!(!run(&[&[log.as_str()], &arguments.split(' ').collect::<Vec<_>>()[..]].concat()).ok().contains('\x1b'));
        let line = format!("stty cols 60 rows 40; {} {log} {arguments}", env!("CARGO_BIN_EXE_shmem-inspect"));
        let shown = Command::new("script").args(["-qec", &line, "/dev/null"]).env("TERM", "xterm").stdin(Stdio::null()).output();
        let Ok(shown) = shown else { return println!("skipped: there is no `script` to make a terminal with") };
        let text = String::from_utf8(shown.stdout).unwrap();
        let table: Vec<&str> = text.lines().filter(|line| !line.contains(log.as_str())).collect();
        assert!(table.iter().any(|line| line.contains('\x1b')), "{arguments}: {text}");
        for line in table.iter().filter(|line| line.contains("0x7f") || line.contains('\x1b')) {
            let visible = visible(line);
            assert!(visible.trim_end().chars().count() <= 60, "{arguments}: {visible}");
        }
    }
}

/// Without escape sequences.
fn visible(line: &str) -> String {
    let mut parts = line.split('\x1b');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + part.split_once('m').map_or("", |(_, rest)| rest))
}

/// Every command on every broken log: an answer that says what it left out, or an error that names the file; never a panic.
#[test]
fn broken_logs_go_through_every_command() {
    let (history, log) = history();
    let good: HashSet<String> = run(&[&log, "export", "--format", "jsonl"]).ok().lines().map(str::to_owned).collect();
    let page = history.dir.path().join("page.html");
    let place = format!("{}+0", history.objects[0].get());
    let commands: [&[&str]; 12] = [
        &["dump"],
        &["blame", &place],
        &["blame", "-r", "2", &place, "--writers"],
        &["blame", &format!("{:#x}", address(0, 0))],
        &["hot"],
        &["races"],
        &["races", "--unrecorded"],
        &["timeline", "-o", page.to_str().unwrap()],
        &["export", "--format", "csv"],
        &["verify"],
        &["--json", "verify"],
        &["info"],
    ];
    for broken in corpus::broken_logs(&history.path, 30) {
        let name = &broken.name;
        fs::write(&history.path, &broken.bytes).unwrap();
        let told = |arguments: &[&str]| {
            let said = run(&[&[log.as_str(), "--no-cache"], arguments].concat());
            let verified = arguments.contains(&"verify") && said.code == Some(1) && said.out.contains("expected");
            let named = said.code == Some(1) && said.err.contains("test.shmem") && !said.err.contains("panicked");
            assert!(said.code == Some(0) || named || verified, "{name}: {arguments:?}: {:?} {}", said.code, said.err);
            said
        };
        let exported = told(&["export", "--format", "jsonl"]);
        let rows = exported.out.lines().filter(|row| good.contains(*row)).count();
        if broken.rest_is_right {
            assert_eq!(rows, exported.out.lines().count(), "{name}: rows that were not there: {}", exported.out);
            let said = exported.code != Some(0) || !exported.err.is_empty();
            assert!(said || rows == good.len(), "{name}: only {rows} rows, and no word of it");
        }
        for arguments in commands {
            let said = told(arguments);
            // What one command cannot read no other passes over in silence, but for what it does not look at.
            let silent = said.code == Some(0) && said.err.is_empty();
            let looks = !arguments.contains(&"info");
            assert!(!silent || !looks || exported.err.is_empty(), "{name}: {arguments:?}: no word of: {}", exported.err);
        }
    }
}
