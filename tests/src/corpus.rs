//! The guest programs under `programs/`: each is one file with one purpose, and its head says how it is to be built and run.
//!
//! A directive is a line of its own, `//@ KEY: VALUE`; keys may repeat.
//!
//! | key | meaning | if missing |
//! |---|---|---|
//! | `cc` | flags; each such line is a variant of its own | two variants: `-O0` and `-O2` |
//! | `with` | flags for all variants | none |
//! | `library` | another source, made into a shared object that lies in the working directory | none |
//! | `args` | arguments | none |
//! | `stdin` | a line of input | none |
//! | `ends` | `exit N` or `signal N` | `exit 0` |
//! | `stops` | recording ends before the program does, with a message that contains this | it does not |
//! | `stops alone` | the same, unless its children and what they execute are recorded too | it does not |
//! | `unlogged` | why its access log cannot explain all values that were seen | it must |
//! | `fails` | a defect that keeps it from passing, known and not fixed yet | it passes |
//! | `fails with family` | the same, if its children are recorded too | it passes |

use std::fs;
use std::path::{Path, PathBuf};

use crate::oracle::{Program, Record, check};
use crate::{Ended, compile, pool, stage};

struct Source {
    path: PathBuf,
    directives: Vec<(String, String)>,
}

struct Case<'a> {
    source: &'a Source,
    flags: Vec<&'a str>,
}

/// Checks every program of one group; its children, if it has any, run natively.
pub fn check_group(group: &str) {
    let sources = read_group(group);
    let cases: Vec<Case> = sources.iter().flat_map(Source::cases).collect();
    pool::run_all(&cases, Case::name, |case| case.check(false));
}

/// Checks the last variant of every program of one group, with a recording of each process and a log of what they share.
pub fn check_group_as_family(group: &str) {
    let sources = read_group(group);
    let cases: Vec<Case> = sources.iter().filter_map(|source| source.cases().into_iter().next_back()).collect();
    pool::run_all(&cases, Case::name, |case| case.check(true));
}

fn read_group(group: &str) -> Vec<Source> {
    let directory = stage::source().join("programs").join(group);
    let entries = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "c" || extension == "cc"));
    paths.sort();
    paths.into_iter().map(|path| Source { directives: directives(&fs::read_to_string(&path).unwrap()), path }).collect()
}

fn directives(text: &str) -> Vec<(String, String)> {
    let parse = |line: &str| {
        let (key, value) = line.strip_prefix("//@ ")?.split_once(':')?;
        Some((key.trim().to_owned(), value.trim().to_owned()))
    };
    text.lines().filter_map(parse).collect()
}

impl Source {
    fn all<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.directives.iter().filter(move |(have, _)| have == key).map(|(_, value)| value.as_str())
    }

    fn words<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.all(key).flat_map(str::split_whitespace)
    }

    fn cases(&self) -> Vec<Case<'_>> {
        const KEYS: [&str; 11] =
            ["cc", "with", "library", "args", "stdin", "ends", "stops", "stops alone", "unlogged", "fails", "fails with family"];
        if let Some((key, _)) = self.directives.iter().find(|(key, _)| !KEYS.contains(&key.as_str())) {
            panic!("{}: no directive is called {key}", self.path.display());
        }
        let mut variants: Vec<&str> = self.all("cc").collect();
        if variants.is_empty() {
            variants = vec!["-O0", "-O2"];
        }
        variants
            .into_iter()
            .map(|variant| Case { source: self, flags: variant.split_whitespace().chain(self.words("with")).collect() })
            .collect()
    }

    fn ended(&self) -> Result<Ended, String> {
        let Some(text) = self.all("ends").last() else { return Ok(Ended::Exit(0)) };
        let (kind, number) = text.split_once(' ').unwrap_or((text, ""));
        match (kind, number.parse()) {
            ("exit", Ok(status)) => Ok(Ended::Exit(status)),
            ("signal", Ok(signal)) => Ok(Ended::Signal(signal)),
            _ => Err(format!("`ends: {text}` is neither `exit N` nor `signal N`")),
        }
    }
}

impl Case<'_> {
    fn name(&self) -> String {
        format!("{} {}", self.source.path.file_stem().unwrap_or_default().display(), self.flags.join(" "))
    }

    fn check(&self, family: bool) -> Result<(), String> {
        let checked = self.run(family);
        let defect = self.source.all("fails").chain(self.source.all("fails with family").filter(|_| family)).last();
        match (defect, checked) {
            (None, checked) => checked,
            (Some(_), Err(_)) => Ok(()),
            (Some(defect), Ok(())) => Err(format!("passes; if that is no accident, remove `fails: {defect}`")),
        }
    }

    fn run(&self, family: bool) -> Result<(), String> {
        let build = tempfile::tempdir().map_err(|error| format!("no directory to build in: {error}"))?;
        let program = compile::compile(&self.source.path, &self.flags, build.path())?;
        let mut files = Vec::new();
        for library in self.source.words("library") {
            let name = Path::new(Path::new(library).file_name().unwrap_or_default()).with_extension("so");
            let object = compile::compile(&self.source.path.with_file_name(library), &["-shared", "-fPIC"], build.path())?;
            files.push((name, fs::read(object).map_err(|error| error.to_string())?));
        }
        let stdin: String = self.source.all("stdin").map(|line| format!("{line}\n")).collect();
        let argv = std::iter::once(program.into_os_string()).chain(self.source.words("args").map(Into::into)).collect();
        check(&Program {
            argv,
            stdin: stdin.into_bytes(),
            files,
            ends: self.source.ended()?,
            stops: self.source.all("stops").chain(self.source.all("stops alone").filter(|_| !family)).last().map(str::to_owned),
            record: if family { Record::Family { explained: self.source.all("unlogged").next().is_none() } } else { Record::Program },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directives_are_whole_lines() {
        let found = directives("// What it does.\n//@ cc: -O3 -mavx2\n//@ ends: exit 3\nint x; //@ not: one\n");
        assert_eq!(found, [("cc".to_owned(), "-O3 -mavx2".to_owned()), ("ends".to_owned(), "exit 3".to_owned())]);
    }
}
