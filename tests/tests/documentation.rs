//! Every block of every page is true.
//!
//! | language | what it is |
//! |---|---|
//! | `console` | lines `$ COMMAND`, and after `$ udb …` lines `(udb) COMMAND`, run in that order in one debugger. All other lines must be found in what is printed, in their order; `…` stands for anything |
//! | `sql` | run by the tests of the crate `sql` |
//! | `text` | a picture or a layout; it holds no command |
//! | any other | a file, which a comment in its first line names |
//!
//! A block of commands is run by one bash. All blocks of a page run in one directory, which holds the examples and the files that the page
//! shows. `make` works in the project's own directory.

use std::ffi::OsString;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use tests::pattern::like;
use tests::run::{WATCHDOG, run_within};
use tests::{Ended, stage};

/// Commands that are shown, and tested elsewhere.
const ELSEWHERE: [&str; 2] = [
    "make demo", // by demo.rs
    "make test", // it runs this test
];

/// Programs that blocks use and not every machine has. Those blocks are left out where the program is missing.
const OPTIONAL: [&str; 1] = ["nginx"];

/// What is between two fences.
#[derive(Debug)]
struct Block<'a> {
    language: &'a str,
    lines: Vec<&'a str>,
}

fn blocks(page: &str) -> Vec<Block<'_>> {
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    for line in page.lines() {
        match (&mut open, line.strip_prefix("```")) {
            (None, Some(language)) => open = Some(Block { language, lines: Vec::new() }),
            (Some(_), Some("")) => blocks.extend(open.take()),
            (Some(block), _) => block.lines.push(line),
            (None, None) => assert!(!line.trim_start().starts_with("```"), "a block begins at the left: {line:?}"),
        }
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

/// The name in `/* NAME */` or `# NAME`.
fn file_name<'a>(block: &Block<'a>) -> Option<&'a str> {
    let words: Vec<&str> = block.lines.first()?.split_whitespace().collect();
    match words.as_slice() {
        ["/*", name, "*/"] | ["#", name] => Some(name),
        _ => None,
    }
}

/// One `$` command with its debugger commands and what it is to print.
#[derive(Debug, Default)]
struct Session {
    command: String,
    debugger: Vec<String>,
    expected: Vec<String>,
}

impl Session {
    /// As bash is to run it.
    fn script(&self) -> String {
        if self.debugger.is_empty() {
            return self.command.clone();
        }
        let quoted = self.debugger.iter().map(|command| format!(" -ex '{command}'")).collect::<String>();
        self.command.replacen("udb ", &format!("udb --nx --batch{quoted} "), 1)
    }
}

fn sessions(block: &Block) -> Vec<Session> {
    let mut sessions: Vec<Session> = Vec::new();
    for line in &block.lines {
        if let Some(command) = line.strip_prefix("$ ") {
            sessions.push(Session { command: command.to_owned(), ..Session::default() });
            continue;
        }
        let session = sessions.last_mut().unwrap_or_else(|| panic!("no command before {line:?}"));
        match line.strip_prefix("(udb) ") {
            Some(command) => session.debugger.push(command.to_owned()),
            None => session.expected.push((*line).to_owned()),
        }
    }
    sessions
}

/// Whether `line` is as `pattern` says, however many blanks are between words and around `…`.
fn matches(line: &str, pattern: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    like(&pattern.split('…').map(words).collect::<Vec<_>>().join("…"), &words(line))
}

fn check_page(name: &str) {
    let page = fs::read_to_string(stage::source().join("..").join(name)).unwrap();
    let directory = tempfile::tempdir().unwrap();
    for example in fs::read_dir(stage::source().join("../examples")).unwrap() {
        let example = example.unwrap();
        fs::copy(example.path(), directory.path().join(example.file_name())).unwrap();
    }
    for block in blocks(&page) {
        match block.language {
            "console" => check_commands(name, &block, directory.path()),
            "sql" => assert_eq!(name, "docs/correlation.md", "the tests of `sql` look there only"),
            "text" => {
                let is_command = |line: &&&str| line.starts_with("$ ") || line.starts_with("(udb) ");
                assert_eq!(block.lines.iter().find(is_command), None, "{name}: a block of commands is to be marked `console`");
            }
            _ => {
                let file = file_name(&block).unwrap_or_else(|| panic!("{name}: nothing tells what this block is: {block:?}"));
                fs::write(directory.path().join(file), block.lines.join("\n") + "\n").unwrap();
            }
        }
    }
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).chain(["/usr/sbin".into()]).any(|directory| directory.join(program).is_file())
}

/// Where cargo and rustup have their files: the commands get another home.
fn rust_home(variable: &str, below_home: &str) -> String {
    let home = std::env::var_os(variable)
        .unwrap_or_else(|| [std::env::home_dir().unwrap().as_path(), Path::new(below_home)].iter().collect::<std::path::PathBuf>().into());
    format!("export {variable}='{}'\n", home.display())
}

fn check_commands(page: &str, block: &Block, directory: &Path) {
    if let Some(program) = OPTIONAL.iter().find(|name| block.lines.iter().any(|line| line.contains(**name)) && !is_installed(name)) {
        println!("{page}: not installed, left out: {program}");
        return;
    }
    let sessions: Vec<Session> = sessions(block).into_iter().filter(|session| !ELSEWHERE.contains(&session.command.as_str())).collect();
    let printed = tempfile::tempdir().unwrap();
    let mut script = format!(
        "export PATH='{stage}/bin':$PATH:/usr/sbin PKG_CONFIG_PATH='{stage}/lib/pkgconfig' LD_LIBRARY_PATH='{stage}/lib'
         make() {{ command make --directory='{project}' \"$@\"; }}\n",
        stage = stage::stage().canonicalize().unwrap().display(),
        project = stage::source().join("..").display(),
    );
    script += &rust_home("CARGO_HOME", ".cargo");
    script += &rust_home("RUSTUP_HOME", ".rustup");
    for (number, session) in sessions.iter().enumerate() {
        let at = printed.path().join(number.to_string()).display().to_string();
        write!(script, "{{\n{}\n}} >{at}.out 2>{at}.err || exit\n", session.script()).unwrap();
    }
    // Several commands; one of them may build.
    let outcome = run_within(20 * WATCHDOG, &["bash", "-c", &script].map(OsString::from), directory, b"").unwrap();
    for (number, session) in sessions.iter().enumerate() {
        let read = |kind: &str| fs::read(printed.path().join(format!("{number}.{kind}"))).unwrap_or_default();
        let said = String::from_utf8_lossy(&[read("out"), read("err")].concat()).into_owned();
        let is_last = !printed.path().join(format!("{}.out", number + 1)).exists();
        assert!(
            !is_last || outcome.ended == Ended::Exit(0),
            "{page}: $ {}\n{said}\n{:?} {}",
            session.command,
            outcome.ended,
            String::from_utf8_lossy(&outcome.stderr)
        );
        let mut lines = said.lines();
        for pattern in session.expected.iter().filter(|pattern| pattern.trim() != "…") {
            assert!(
                lines.any(|line| matches(line, pattern)),
                "{page}: $ {}\nprints no more line like {pattern:?}:\n{said}",
                session.command
            );
        }
    }
}

#[test]
fn patterns() {
    assert!(matches("  a b   c", "a b c"));
    assert!(matches("x: 5 events, identical", "… identical"));
    assert!(matches("Time   Type", "Time … Type"));
    assert!(!matches("a b c d", "a b c"));
    assert!(!matches("b", "a…"));
}

#[test]
fn every_page() {
    let root = stage::source().join("..");
    let mut pages = vec!["README.md".to_owned()];
    for page in fs::read_dir(root.join("docs")).unwrap() {
        let name = page.unwrap().file_name().into_string().unwrap();
        pages.extend(name.ends_with(".md").then(|| format!("docs/{name}")));
    }
    assert!(pages.len() > 10, "{pages:?}");
    std::thread::scope(|scope| {
        for page in &pages {
            scope.spawn(|| check_page(page));
        }
    });
}
