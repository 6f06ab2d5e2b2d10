//! The commands that the pages show work, and print what the pages say.
//!
//! A block of the language `console` has lines `$ COMMAND`, run by bash in a directory that holds the examples, and after `$ udb …` lines
//! `(udb) COMMAND`, run in that order in one debugger. All other lines must be found in what is printed, in their order; `…` stands for
//! anything. All blocks of a page run in one directory.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

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

/// All pages, README included.
fn pages() -> Vec<PathBuf> {
    let root = stage::source().join("..");
    let mut pages: Vec<PathBuf> = fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    pages.push(root.join("README.md"));
    pages
}

#[test]
fn links_lead_somewhere() {
    for page in pages() {
        let text = fs::read_to_string(&page).unwrap();
        let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://") && !target.starts_with('#')) {
            let path = page.parent().unwrap().join(target.split('#').next().unwrap_or_default());
            assert!(path.exists(), "{}: {target}", page.display());
        }
    }
}

#[test]
fn every_page_is_in_the_book() {
    let summary = fs::read_to_string(stage::source().join("../docs/SUMMARY.md")).unwrap();
    for page in pages() {
        let name = page.file_name().unwrap().to_string_lossy().into_owned();
        assert!(["SUMMARY.md", "README.md"].contains(&&*name) || summary.contains(&format!("({name})")), "{name}");
    }
}
