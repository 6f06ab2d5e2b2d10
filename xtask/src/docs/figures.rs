//! `cargo xtask figures [BENCH FILE…]`: the figures on the pages are those that were measured.
//!
//! ```text
//!   cargo xtask bench BENCH --json ─► FILE… ─► docs/figures.json ─► marks in README.md and docs/*.md
//! ```
//!
//! With a benchmark's name, takes what it printed into `docs/figures.json`: of several runs, each figure's median; figures that these runs
//! did not measure stay. Then, and without a name, fills in the marks. A mark is a pair of comments that no reader sees:
//!
//! ```text
//!   a logged store costs <!--= log.store_ns .1 -->5.2<!--.--> ns
//! ```
//!
//! Between them stands the figure of that name, with so many decimals. `A/B` divides one figure by another, or by a number. `BENCH.machine`
//! and `BENCH.date` say on what and when the benchmark was last measured.
//!
//! Invariants
//! I1. [`check`] fails for a mark whose text is not what `docs/figures.json` says, or of which it says nothing.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::ValueEnum;
use serde_json::{Map, Value, json};

use super::pages;
use crate::Bench;
use crate::workspace::{Workspace, median, output, read};

#[derive(clap::Args)]
pub struct Options {
    /// The benchmark that was run
    #[arg(requires = "files")]
    bench: Option<Bench>,
    /// What `cargo xtask bench BENCH --json` printed; several runs
    files: Vec<PathBuf>,
}

const FIGURES: &str = "docs/figures.json";
const BEGIN: &str = "<!--=";
const END: &str = "<!--.-->";

pub fn take_and_fill(workspace: &Workspace, options: &Options) -> Result<()> {
    let mut figures = load(workspace)?;
    if let Some(bench) = options.bench {
        let name = bench.to_possible_value().context("every benchmark has a name")?.get_name().to_owned();
        let mut runs = Vec::new();
        for file in &options.files {
            runs.push(serde_json::from_str(&read(file)?).with_context(|| format!("{} is not JSON", file.display()))?);
        }
        let measured = figures.entry(name).or_insert_with(|| json!({}));
        merge(measured, &median_of(&runs)?);
        measured["date"] = json!(output(Command::new("date").arg("+%F").arg("-r").arg(&options.files[0]))?.trim());
        measured["machine"] = json!(machine()?);
        let text = serde_json::to_string_pretty(&figures)? + "\n";
        fs::write(workspace.root.join(FIGURES), text).with_context(|| format!("cannot write {FIGURES}"))?;
    }
    for page in pages(workspace)? {
        let (old, new) = filled(&page, &figures)?;
        if old != new {
            fs::write(&page, new).with_context(|| format!("cannot write {}", page.display()))?;
            println!("{} changed", page.display());
        }
    }
    Ok(())
}

pub fn check(workspace: &Workspace) -> Result<()> {
    let figures = load(workspace)?;
    for page in pages(workspace)? {
        let (old, new) = filled(&page, &figures)?;
        let wrong = old.lines().zip(new.lines()).position(|(old, new)| old != new);
        let line = wrong.map_or(0, |index| index + 1);
        ensure!(old == new, "{}:{line} does not say what {FIGURES} does: run `cargo xtask figures`", page.display());
    }
    Ok(())
}

fn load(workspace: &Workspace) -> Result<Map<String, Value>> {
    serde_json::from_str(&read(&workspace.root.join(FIGURES))?).with_context(|| format!("{FIGURES} is not a JSON object"))
}

/// A page as it is, and as it should be.
fn filled(page: &Path, figures: &Map<String, Value>) -> Result<(String, String)> {
    let old = read(page)?;
    let new = fill(&old, figures).with_context(|| page.display().to_string())?;
    Ok((old, new))
}

fn fill(page: &str, figures: &Map<String, Value>) -> Result<String> {
    let mut new = String::with_capacity(page.len());
    let mut rest = page;
    while let Some((before, mark)) = rest.split_once(BEGIN) {
        let (asked, behind) = mark.split_once("-->").with_context(|| format!("{BEGIN} is not closed"))?;
        let (_, behind) = behind.split_once(END).with_context(|| format!("{BEGIN}{asked}--> has no {END} behind it"))?;
        let text = evaluate(asked, figures).with_context(|| format!("{BEGIN}{asked}-->"))?;
        new.extend([before, BEGIN, asked, "-->", &text, END]);
        rest = behind;
    }
    new.push_str(rest);
    Ok(new)
}

/// What `KEY`, `KEY .DECIMALS` or `KEY/KEY .DECIMALS` stands for.
fn evaluate(asked: &str, figures: &Map<String, Value>) -> Result<String> {
    let words: Vec<&str> = asked.split_whitespace().collect();
    let (key, decimals) = match words[..] {
        [key] => return Ok(find(key, figures)?.as_str().context("this is not text: say how many decimals")?.to_owned()),
        [key, decimals] => (key, decimals.strip_prefix('.').and_then(|n| n.parse::<usize>().ok()).context("expected .DECIMALS")?),
        _ => bail!("expected KEY .DECIMALS"),
    };
    let number = |key: &str| match key.parse() {
        Ok(number) => Ok(number),
        Err(_) => find(key, figures)?.as_f64().with_context(|| format!("{key} is not a number")),
    };
    let value: f64 = match key.split_once('/') {
        Some((upper, lower)) => number(upper)? / number(lower)?,
        None => number(key)?,
    };
    Ok(format!("{value:.decimals$}"))
}

fn find<'a>(key: &str, figures: &'a Map<String, Value>) -> Result<&'a Value> {
    let (bench, path) = key.split_once('.').with_context(|| format!("{key}: expected BENCH.NAME"))?;
    let in_bench = figures.get(bench).with_context(|| format!("{FIGURES} has no benchmark {bench}"))?;
    let found = path.split('.').try_fold(in_bench, |value, name| value.get(name));
    found.filter(|value| !value.is_null()).with_context(|| format!("{FIGURES} has no {key}"))
}

/// One value of the same shape as each of the runs, with the median of their numbers. What is not in the first run is left out.
fn median_of(runs: &[Value]) -> Result<Value> {
    let first = runs.first().context("no runs")?;
    Ok(match first {
        Value::Object(fields) => {
            let of = |name: &String| median_of(&runs.iter().map(|run| run[name].clone()).collect::<Vec<_>>());
            Value::Object(fields.keys().map(|name| Ok((name.clone(), of(name)?))).collect::<Result<_>>()?)
        }
        Value::Number(_) => json!(median(runs.iter().filter_map(Value::as_f64).collect())),
        other => other.clone(),
    })
}

/// Takes over what `new` has measured.
fn merge(old: &mut Value, new: &Value) {
    match (old, new) {
        (_, Value::Null) => {}
        (Value::Object(old), Value::Object(new)) => {
            new.iter().for_each(|(name, value)| merge(old.entry(name.clone()).or_insert(Value::Null), value));
        }
        (old, new) => *old = new.clone(),
    }
}

/// Its processor and how many of them it may use.
fn machine() -> Result<String> {
    let info = read(Path::new("/proc/cpuinfo"))?;
    let name = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": ")).map_or("unknown", |(_, name)| name);
    Ok(format!("{name}, {} cores", std::thread::available_parallelism()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Map<String, Value> {
        serde_json::from_value(json!({ "log": { "store_ns": 5.25, "count": 1000, "date": "today", "lost": null } })).unwrap()
    }

    #[test]
    fn marks_are_filled() {
        let page = "a <!--= log.store_ns .1 -->?<!--.--> ns, <!--= log.count/log.store_ns .0 --><!--.-->, <!--= log.date -->x<!--.-->.";
        let expected =
            "a <!--= log.store_ns .1 -->5.2<!--.--> ns, <!--= log.count/log.store_ns .0 -->190<!--.-->, <!--= log.date -->today<!--.-->.";
        assert_eq!(fill(page, &figures()).unwrap(), expected);
        assert_eq!(evaluate(" log.count/1000 .2 ", &figures()).unwrap(), "1.00");
    }

    #[test]
    fn what_was_not_measured_is_refused() {
        for key in ["log.load_ns .1", "log.lost .1", "replay.store_ns .1", "log.store_ns", "log.date .1"] {
            assert!(evaluate(key, &figures()).is_err(), "{key}");
        }
        assert!(fill("<!--= log.date -->x", &figures()).is_err());
    }

    #[test]
    fn of_several_runs_the_median_counts() {
        let runs = [json!({"a": {"b": 1}, "c": "x"}), json!({"a": {"b": 9}, "c": "x"}), json!({"a": {"b": 3}, "c": "x"})];
        assert_eq!(median_of(&runs).unwrap(), json!({"a": {"b": 3.0}, "c": "x"}));
    }

    #[test]
    fn what_a_run_left_out_stays() {
        let mut old = json!({ "a": 1, "programs": { "x": 1, "y": 2 } });
        merge(&mut old, &json!({ "a": null, "programs": { "y": 3 } }));
        assert_eq!(old, json!({ "a": 1, "programs": { "x": 1, "y": 3 } }));
    }
}
