//! `cargo xtask bench record [--json] [--only NAME]… [--pairs N] [--no-rivals]`: what recording costs.
//!
//! Each workload runs natively and recorded, in interleaved pairs; figures are medians of whole runs, start and save included. The
//! column "run only" leaves out what an empty program costs more when recorded. Slowdowns stand beside those of other translators
//! that run unmodified programs, from the same run. The programs are those of [`workloads`], and `memory`, which says of itself what start,
//! save and memory cost a program of 1 GiB.
//!
//! `shm_ring_slowdown` is of two processes that hand items of 64 bytes to each other and compute a checksum of each, about 70 ns;
//! `shm_bare_ring_slowdown` of two that hand numbers to each other and do nothing else. Snapshots compress events on the same cores, where
//! there are no others. `shared_access_ns` is of a log that is overwritten again and again, `shared_access_first_lap_ns` of one that is filled
//! for the first time.

mod run;
mod workloads;

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use clap::Parser;
use comfy_table::Table;
use serde_json::{Map, Value, json};

use crate::build::run_build;
use crate::workspace::{Workspace, is_installed};
use run::{Bench, Outcome, RIVALS};
use workloads::{GEOMEAN_TARGET, Measure, WORKLOADS, Workload};

#[derive(Parser)]
#[command(name = "cargo xtask bench record")]
struct Options {
    /// Print JSON: ratios, nanoseconds (`_ns`) and milliseconds (`_ms`)
    #[arg(long)]
    json: bool,
    /// Only the workload of this name; may be given more than once
    #[arg(long)]
    only: Vec<String>,
    /// How often each program is run natively and recorded
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    pairs: u16,
    /// Leave out the other translators
    #[arg(long)]
    no_rivals: bool,
}

pub fn run(workspace: &Workspace, arguments: &[String]) -> Result<()> {
    let name = "cargo xtask bench record".to_owned();
    let options = Options::parse_from(std::iter::once(&name).chain(arguments));
    for wanted in &options.only {
        let names: Vec<_> = WORKLOADS.iter().map(|workload| workload.name).chain([MEMORY]).collect();
        ensure!(names.contains(&wanted.as_str()), "no workload is called '{wanted}'; there are {}", names.join(", "));
    }
    run_build(workspace)?;
    let bench = Bench::new(workspace)?;
    let is_chosen = |wanted: &str| options.only.is_empty() || options.only.iter().any(|name| name == wanted);
    let mut outcomes = Vec::new();
    for workload in WORKLOADS.iter().filter(|workload| is_chosen(workload.name)) {
        if !options.json {
            eprintln!("{} …", workload.name);
        }
        outcomes.push((workload, bench.measure(workload, usize::from(options.pairs), !options.no_rivals)?));
    }
    let memory = if is_chosen(MEMORY) { bench.memory()? } else { Vec::new() };
    if options.json {
        println!("{}", serde_json::to_string_pretty(&as_json(&outcomes, &memory))?);
    } else {
        show(&outcomes, &memory);
    }
    Ok(())
}

/// The name of the program behind [`Bench::memory`].
const MEMORY: &str = "memory";
/// Most that its figures may be.
const MEMORY_TARGETS: [(&str, f64); 2] = [("start_1gib_ms", 100.0), ("memory_added_mib", 100.0)];

/// What an empty program costs more when recorded, in milliseconds; 0 if it was not run.
fn start_and_save_ms(outcomes: &[(&Workload, Outcome)]) -> f64 {
    let empty = outcomes.iter().find(|(workload, _)| workload.name == "empty");
    empty.map_or(0.0, |(_, outcome)| outcome.recorded_ms - outcome.native_ms)
}

fn run_only(outcome: &Outcome, start_and_save_ms: f64) -> f64 {
    (outcome.recorded_ms - start_and_save_ms) / outcome.native_ms
}

/// Every figure that is not a slowdown, by its key, with its target.
fn figures(outcomes: &[(&Workload, Outcome)]) -> BTreeMap<&'static str, (f64, Option<f64>)> {
    let mut figures = BTreeMap::new();
    for (workload, outcome) in outcomes {
        if let Measure::Extra(key) | Measure::TwoCores(key) | Measure::WholeMs(key) = workload.measure {
            let worst = figures.entry(key).or_insert((outcome.figure, workload.target));
            worst.0 = worst.0.max(outcome.figure);
        }
    }
    figures
}

fn slowdowns<'a>(outcomes: &'a [(&Workload, Outcome)]) -> impl Iterator<Item = &'a (&'a Workload, Outcome)> {
    outcomes.iter().filter(|(workload, _)| workload.measure == Measure::Slowdown)
}

/// `None` of nothing.
fn geomean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let logs: Vec<f64> = values.map(f64::ln).collect();
    (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
}

fn as_json(outcomes: &[(&Workload, Outcome)], memory: &[(String, f64)]) -> Value {
    let start = start_and_save_ms(outcomes);
    let round = |value: f64| (value * 1000.0).round() / 1000.0;
    let mut all = Map::new();
    let mut programs = Map::new();
    for (workload, outcome) in outcomes {
        let mut row = json!({ "native_ms": round(outcome.native_ms), "recorded_ms": round(outcome.recorded_ms) });
        if workload.measure == Measure::Slowdown {
            row["slowdown"] = json!(round(outcome.figure));
            row["run_only"] = json!(round(run_only(outcome, start)));
            for ((key, _), ratio) in RIVALS.iter().zip(&outcome.rivals) {
                row[*key] = json!(ratio.map(round));
            }
        }
        if let Some(cores) = &outcome.cores {
            row["round_trip_ns"] = json!(cores.round_trip_ns);
            row["discarded_pairs"] = json!(cores.discarded);
        }
        programs.insert(workload.name.to_owned(), row);
    }
    let mut mean = |key: &str, value: Option<f64>| all.insert(key.to_owned(), json!(value.map(round)));
    mean("slowdown_geomean", geomean(slowdowns(outcomes).map(|(_, outcome)| outcome.figure)));
    mean("run_only_geomean", geomean(slowdowns(outcomes).map(|(_, outcome)| run_only(outcome, start))));
    for (index, (key, _)) in RIVALS.iter().enumerate() {
        mean(&format!("{key}_geomean"), geomean(slowdowns(outcomes).filter_map(|(_, outcome)| outcome.rivals[index])));
    }
    for (key, (figure, _)) in figures(outcomes) {
        mean(key, Some(figure));
    }
    for (key, figure) in memory {
        mean(key, Some(*figure));
    }
    all.insert("programs".into(), Value::Object(programs));
    Value::Object(all)
}

fn show(outcomes: &[(&Workload, Outcome)], memory: &[(String, f64)]) {
    let start = start_and_save_ms(outcomes);
    let cell = |ratio: Option<f64>| ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"));
    let mut table = Table::new();
    let mut header = vec!["program".to_owned(), "native ms".into(), "recorded ms".into(), "slowdown".into(), "run only".into()];
    header.extend(RIVALS.iter().map(|(_, tool)| tool[..tool.len().min(2)].join(" ")));
    table.set_header(header);
    for (workload, outcome) in slowdowns(outcomes) {
        let mut row = vec![workload.name.to_owned(), format!("{:.0}", outcome.native_ms), format!("{:.0}", outcome.recorded_ms)];
        row.extend([cell(Some(outcome.figure)), cell(Some(run_only(outcome, start)))]);
        row.extend(outcome.rivals.iter().map(|&ratio| cell(ratio)));
        table.add_row(row);
    }
    let mean = geomean(slowdowns(outcomes).map(|(_, outcome)| outcome.figure));
    let mut row = vec!["geometric mean".to_owned(), String::new(), String::new(), cell(mean)];
    row.push(cell(geomean(slowdowns(outcomes).map(|(_, outcome)| run_only(outcome, start)))));
    row.extend((0..RIVALS.len()).map(|index| cell(geomean(slowdowns(outcomes).filter_map(|(_, outcome)| outcome.rivals[index])))));
    table.add_row(row);
    println!("{table}");
    let mut table = Table::new();
    table.set_header(["figure", "measured", "aim"]);
    if let Some(mean) = mean {
        table.add_row(["slowdown_geomean".to_owned(), format!("{mean:.2}"), format!("{GEOMEAN_TARGET}")]);
    }
    for (key, (figure, target)) in figures(outcomes) {
        table.add_row([key.to_owned(), format!("{figure:.1}"), target.map_or(String::new(), |target| target.to_string())]);
    }
    for (key, figure) in memory {
        let target = MEMORY_TARGETS.iter().find(|(wanted, _)| wanted == key);
        table.add_row([key.clone(), format!("{figure:.1}"), target.map_or(String::new(), |(_, target)| target.to_string())]);
    }
    println!("{table}");
    for (workload, outcome) in outcomes {
        if let Some(cores) = &outcome.cores {
            println!(
                "{}: two processes, each on its own core; a cache line takes {:.0} ns from one to the other and back; {} pairs of runs \
                 on two threads of one core do not count",
                workload.name, cores.round_trip_ns, cores.discarded
            );
        }
    }
    for (_, tool) in RIVALS.iter().filter(|(_, tool)| !is_installed(tool[0])) {
        println!("{} is not installed", tool[0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_geometric_mean_of_ratios() {
        assert!((geomean([2.0, 0.5].into_iter()).unwrap() - 1.0).abs() < 1e-12);
        assert_eq!(geomean(std::iter::empty()), None);
    }
}
