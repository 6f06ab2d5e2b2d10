//! `docs/commands.md` names every command, option and function that there is; and what the pages name in running text, there is. (Blocks of
//! commands are run: documentation.rs.)

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use tests::stage;

const PROGRAMS: [&str; 4] = ["live-record", "udb", "shmem-inspect", "undo-replay"];

fn help(program: &str, words: &[&str]) -> String {
    let output = Command::new(stage::program(program)).args(words).arg("--help").output().unwrap();
    assert!(output.status.success(), "{program} {words:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn xtask_help(words: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo).args(["--quiet", "xtask"]).args(words).arg("--help").current_dir(root()).output().unwrap();
    assert!(output.status.success(), "cargo xtask {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn root() -> PathBuf {
    stage::source().join("..")
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

/// Of the program as a whole, then of each of its subcommands.
fn helps(program: &str) -> Vec<String> {
    let mut helps = vec![help(program, &[])];
    for subcommand in subcommands(&helps[0].clone()) {
        let words: &[&str] = if program == "shmem-inspect" { &["LOG", subcommand] } else { &[subcommand] };
        helps.push(help(program, words));
    }
    helps
}

/// The debugger's commands, from the sources of `udb-ext`.
fn debugger_commands() -> Vec<String> {
    let mut found = Vec::new();
    for file in fs::read_dir(root().join("udb-ext/python/undo/commands")).unwrap() {
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
    let page = fs::read_to_string(root().join("docs/commands.md")).unwrap();
    let mut missing: Vec<String> = debugger_commands().into_iter().filter(|name| !page.contains(&format!("`{name}"))).collect();
    for program in PROGRAMS {
        let section = page.split("\n## ").find(|section| section.starts_with(program)).unwrap_or_else(|| panic!("no section on {program}"));
        let helps = helps(program);
        let unnamed = subcommands(&helps[0]).into_iter().filter(|subcommand| !section.contains(&format!("| `{subcommand}")));
        missing.extend(unnamed.map(|subcommand| format!("{program} {subcommand}")));
        let options = helps.iter().flat_map(|help| options(help)).filter(|name| !section.contains(&format!("--{name}")));
        missing.extend(options.map(|name| format!("{program} --{name}")));
    }
    let header = fs::read_to_string(root().join("include/undolr.h")).unwrap();
    let functions = header.lines().filter_map(|line| line.strip_prefix("UNDOLR_PUBLIC ")?.split_once('(')?.0.rsplit([' ', '*']).next());
    let is_named =
        |name: &str| page.contains(name) || name.strip_suffix("_get").is_some_and(|stem| page.contains(&format!("`{stem}_set`, `…_get`")));
    missing.extend(functions.filter(|name| !is_named(name)).map(str::to_owned));
    assert!(missing.is_empty(), "docs/commands.md does not name {}", missing.join(", "));
}

/// What is between two backticks on README and the pages, but blocks.
fn code_in_text() -> BTreeSet<String> {
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|page| page.unwrap().path());
    let mut found = BTreeSet::new();
    for page in docs.chain([root().join("README.md")]).filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
        let page = fs::read_to_string(page).unwrap();
        for text in page.split("\n```").step_by(2) {
            found.extend(text.split('`').skip(1).step_by(2).map(|code| code.replace('\n', " ")));
        }
    }
    found
}

/// The sources of all tests, to look for their names and for the variables that they read.
fn sources_of_tests() -> String {
    let mut sources = String::new();
    for directory in ["tests/tests", "tests/src", "engine/src"] {
        for file in fs::read_dir(root().join(directory)).unwrap().map(|file| file.unwrap().path()).filter(|path| path.is_file()) {
            sources += &fs::read_to_string(file).unwrap();
        }
    }
    sources
}

#[test]
fn commands_in_the_text_exist() {
    let makefile = fs::read_to_string(root().join("Makefile")).unwrap();
    let (sources, xtask) = (sources_of_tests(), xtask_help(&[]));
    let mut wrong = Vec::new();
    let mut seen = 0;
    for code in code_in_text() {
        let mut words: Vec<&str> = code.split_whitespace().collect();
        while let Some((variable, _)) = words.first().and_then(|word| word.split_once('=')).filter(|(name, _)| name.starts_with("UNDO_")) {
            if !sources.contains(&format!("\"{variable}\"")) {
                wrong.push(format!("{code}: no test reads {variable}"));
            }
            words.remove(0);
        }
        let named = words.iter().filter_map(|word| word.trim_matches(['[', ']']).strip_prefix("--")).filter(|name| !name.is_empty());
        let mut named: Vec<&str> = named.filter(|name| !["help", "version"].contains(name)).collect();
        let known = match words.as_slice() {
            ["make", rest @ ..] => {
                let is_known = |word: &&&str| match word.split_once('=') {
                    Some((variable, _)) => makefile.contains(&format!("\n{variable} =")),
                    None => makefile.contains(&format!("\n{word}:")),
                };
                wrong.extend(rest.iter().filter(|word| !is_known(word)).map(|word| format!("{code}: there is no {word}")));
                Vec::new()
            }
            ["cargo", "xtask", rest @ ..] if rest.first().is_some_and(|word| !word.starts_with("--")) => {
                let is_bench = rest[0] == "bench";
                let whole = if is_bench { xtask_help(&["bench"]) } else { xtask.clone() };
                let is_known =
                    |word: &&&str| **word == "…" || whole.contains(&format!(" {word} ")) || whole.contains(&format!("- {word}:"));
                // `A | B` are two of them.
                let names = rest[usize::from(is_bench)..].split(|word| *word == "|").filter_map(|words| words.first());
                wrong.extend(names.filter(|word| !is_known(word)).map(|word| format!("{code}: there is no {word}")));
                if let ["cargo", "xtask", "test", "e2e", test] = words.as_slice() {
                    let is_test = |line: &str| line.trim().strip_prefix("fn ").is_some_and(|function| function.contains(test));
                    if !sources.lines().any(is_test) {
                        wrong.push(format!("{code}: no test has this name"));
                    }
                }
                // A benchmark's options are its own.
                if is_bench {
                    named.clear();
                }
                vec![xtask_help(&rest[..1])]
            }
            [program, ..] if PROGRAMS.contains(program) => helps(program),
            _ => continue,
        };
        seen += 1;
        wrong.extend(
            named
                .iter()
                .filter(|name| !known.iter().any(|help| options(help).any(|option| option == **name)))
                .map(|name| format!("{code}: there is no --{name}")),
        );
    }
    assert!(seen > 30, "only {seen}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
