//! The commands that the pages show work, and print what the pages say.
//!
//! A block of the language `console` has lines `$ COMMAND`, run by bash in a directory that holds the examples, and after `$ udb …` lines
//! `(udb) COMMAND`, run in that order in one debugger. All other lines must be found in what is printed, in their order; `…` stands for
//! anything. All blocks of a page run in one directory.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;

use tests::run::run;
use tests::{Ended, stage};

/// One `$` command with its debugger commands and what it is to print.
#[derive(Debug, Default)]
struct Session {
    command: String,
    debugger: Vec<String>,
    expected: Vec<String>,
}

fn sessions(page: &str) -> Vec<Session> {
    let mut sessions: Vec<Session> = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        match (inside, line) {
            (false, "```console") => inside = true,
            (true, "```") => inside = false,
            (true, _) => {
                if let Some(command) = line.strip_prefix("$ ") {
                    sessions.push(Session { command: command.to_owned(), ..Session::default() });
                    continue;
                }
                let session = sessions.last_mut().unwrap_or_else(|| panic!("no command before {line:?}"));
                match line.strip_prefix("(udb) ") {
                    Some(command) => session.debugger.push(command.to_owned()),
                    None => session.expected.push(line.to_owned()),
                }
            }
            (false, _) => {}
        }
    }
    sessions
}

/// Whether `line` is as `pattern` says, where `…` stands for anything. Blanks at either end do not count.
fn matches(line: &str, pattern: &str) -> bool {
    let mut pieces = pattern.trim().split('…').map(|piece| piece.split_whitespace().collect::<Vec<_>>().join(" "));
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    let Some(mut rest) = pieces.next().and_then(|first| line.strip_prefix(&first).map(str::to_owned)) else { return false };
    let mut exact = true;
    for piece in pieces {
        let Some(at) = rest.find(&piece) else { return false };
        rest = rest.split_off(at + piece.len());
        exact = piece.is_empty();
        if exact {
            rest.clear();
        }
    }
    rest.is_empty() || !exact && rest.trim().is_empty()
}

fn check_page(name: &str) {
    let page = fs::read_to_string(stage::source().join("..").join(name)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    for example in fs::read_dir(stage::source().join("../examples")).unwrap() {
        let example = example.unwrap();
        fs::copy(example.path(), directory.path().join(example.file_name())).unwrap();
    }
    let sessions = sessions(&page);
    assert!(!sessions.is_empty(), "{name} shows no commands");
    for session in sessions {
        check_session(&session, directory.path());
    }
}

fn check_session(session: &Session, directory: &Path) {
    let stage = stage::stage().canonicalize().unwrap();
    let mut command = session.command.clone();
    if !session.debugger.is_empty() {
        let quoted = session.debugger.iter().map(|command| format!(" -ex '{command}'")).collect::<String>();
        command = command.replacen("udb ", &format!("udb --nx --batch{quoted} "), 1);
    }
    let script = format!(
        "export PATH={stage}/bin:$PATH PKG_CONFIG_PATH={stage}/lib/pkgconfig LD_LIBRARY_PATH={stage}/lib; {command}",
        stage = stage.display()
    );
    let outcome = run(&["bash", "-c", &script].map(OsString::from), directory, b"").unwrap();
    let printed = String::from_utf8_lossy(&[outcome.stdout, outcome.stderr].concat()).into_owned();
    assert_eq!(outcome.ended, Ended::Exit(0), "$ {}\n{printed}", session.command);
    let mut lines = printed.lines();
    for pattern in session.expected.iter().filter(|pattern| pattern.trim() != "…") {
        assert!(lines.any(|line| matches(line, pattern)), "$ {}\nprints no more line like {pattern:?}:\n{printed}", session.command);
    }
}

#[test]
fn patterns() {
    assert!(matches("  a b   c", "a b c"));
    assert!(matches("consumer-17.undo", "consumer-….undo"));
    assert!(matches("x: 5 events, identical", "…identical"));
    assert!(matches("anything at all", "…"));
    assert!(!matches("a b c d", "a b c"));
    assert!(!matches("b", "a…"));
    assert!(!matches("ab", "…c"));
}

#[test]
fn tutorial() {
    check_page("docs/tutorial.md");
}

#[test]
fn your_program() {
    check_page("docs/your-program.md");
}

#[test]
fn readme() {
    check_page("README.md");
}

fn help(program: &str, words: &[&str]) -> String {
    let output = Command::new(stage::program(program)).args(words).arg("--help").output().unwrap();
    assert!(output.status.success(), "{program} {words:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// The long options that a help text lists, but those that every program has.
fn options(help: &str) -> impl Iterator<Item = &str> {
    let options = help.lines().filter(|line| line.trim_start().starts_with('-')).filter_map(|line| line.split_once("--"));
    let name = |(_, rest): (&_, &'_ str)| rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '-').next().unwrap_or_default().len();
    options.map(move |pair| &pair.1[..name(pair)]).filter(|name| !["help", "version"].contains(name))
}

/// The words that begin the lines under `Commands:`.
fn subcommands(help: &str) -> Vec<&str> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    lines.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").collect()
}

/// The debugger's commands, from the sources of `udb-ext`.
fn debugger_commands() -> Vec<String> {
    let mut found = Vec::new();
    for file in fs::read_dir(stage::source().join("../udb-ext/python/undo/commands")).unwrap() {
        let path = file.unwrap().path();
        let text = if path.is_file() { fs::read_to_string(&path).unwrap() } else { String::new() };
        let names =
            text.lines().filter_map(|line| line.trim().strip_prefix("names = (")).flat_map(|names| names.split('"').skip(1).step_by(2));
        // gdb's own `info` takes what `uinfo` does.
        found.extend(names.filter(|name| !name.starts_with("info ")).map(str::to_owned));
    }
    assert!(found.len() > 20, "{found:?}");
    found
}

#[test]
fn every_command_is_on_its_page() {
    let page = fs::read_to_string(stage::source().join("../docs/commands.md")).unwrap();
    let mut missing: Vec<String> = debugger_commands().into_iter().filter(|name| !page.contains(&format!("`{name}"))).collect();
    for program in ["live-record", "udb", "shmem-inspect", "undo-replay"] {
        let section = page.split("\n## ").find(|section| section.starts_with(program)).unwrap_or_else(|| panic!("no section on {program}"));
        let whole = help(program, &[]);
        let mut helps = vec![whole.clone()];
        for subcommand in subcommands(&whole) {
            let words: &[&str] = if program == "shmem-inspect" { &["LOG", subcommand] } else { &[subcommand] };
            helps.push(help(program, words));
            if !section.contains(&format!("| `{subcommand}")) {
                missing.push(format!("{program} {subcommand}"));
            }
        }
        let options = helps.iter().flat_map(|help| options(help)).filter(|name| !section.contains(&format!("--{name}")));
        missing.extend(options.map(|name| format!("{program} --{name}")));
    }
    let header = fs::read_to_string(stage::source().join("../include/undolr.h")).unwrap();
    let functions = header.lines().filter_map(|line| line.strip_prefix("UNDOLR_PUBLIC ")?.split_once('(')?.0.rsplit([' ', '*']).next());
    let is_named =
        |name: &str| page.contains(name) || name.strip_suffix("_get").is_some_and(|stem| page.contains(&format!("`{stem}_set`, `…_get`")));
    missing.extend(functions.filter(|name| !is_named(name)).map(str::to_owned));
    assert!(missing.is_empty(), "docs/commands.md does not name {}", missing.join(", "));
}
