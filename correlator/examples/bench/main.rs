//! Measures the index and its queries: `cargo xtask bench correlate` runs this.
//!
//! ```text
//!   bench [--accesses N] [--processes P] [--dir DIR] [--json] [--no-database] [--log FILE] [--prepare]
//! ```
//!
//! The log, and the database made from it, are in DIR and deleted in the end. With `--log` they are FILE and beside it: made if they are not
//! there, and kept for the next run. `--prepare` only makes them, which takes far longer than asking and needs no quiet machine.
//!
//! The radix sort that the build time is compared with is a plain one, by bytes, of as many random 8-byte keys, in one thread. It takes turns with
//! the build, and of each the fastest of several counts.
mod ask;
mod database;
mod generate;

use correlator::{BlameOptions, Correlator, Options};
use generate::Random;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Of each figure that is a time, the least of so many.
const REPEAT: usize = 3;
const QUESTIONS: usize = 2000;

/// Milliseconds for a plain radix sort of so many keys.
fn radix_sort_ms(count: usize) -> f64 {
    let mut random = Random(88_172_645_463_325_252);
    let mut keys: Vec<u64> = (0..count).map(|_| random.next()).collect();
    let mut other = vec![0u64; count];
    let start = Instant::now();
    for byte in 0..8 {
        let mut places = [0usize; 256];
        keys.iter().for_each(|key| places[(key >> (byte * 8) & 0xff) as usize] += 1);
        let mut sum = 0;
        places.iter_mut().for_each(|place| sum += std::mem::replace(place, sum));
        for key in &keys {
            let place = &mut places[(key >> (byte * 8) & 0xff) as usize];
            other[*place] = *key;
            *place += 1;
        }
        std::mem::swap(&mut keys, &mut other);
    }
    let ms = elapsed_ms(start);
    assert!(keys.is_sorted());
    ms
}

fn elapsed_ms(start: Instant) -> f64 {
    start.elapsed().as_secs_f64() * 1e3
}

fn open(path: &Path, cache: bool) -> (Correlator, f64) {
    let start = Instant::now();
    let correlator = Correlator::open_with(path, Options { cache, ..Options::default() }).expect("an index");
    (correlator, elapsed_ms(start))
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let value = |name: &str| arguments.iter().position(|argument| argument == name).and_then(|at| arguments.get(at + 1));
    let number = |name: &str, default: u64| value(name).map_or(default, |text| text.parse().expect("a number"));
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let wanted = number("--accesses", 10_000_000);
    if let Some(path) = value("--write") {
        return generate::write(Path::new(path), number("--number", 0), wanted);
    }
    let dir = value("--dir").map_or_else(std::env::temp_dir, PathBuf::from);
    let kept = value("--log").map(PathBuf::from);
    let path = kept.clone().unwrap_or_else(|| dir.join(format!("bench-{}.shmem", std::process::id())));
    let beside = |what: &str| PathBuf::from(format!("{}.{what}", path.display()));
    let (index, database) = (beside("index"), beside("database"));
    if kept.is_none() || !path.exists() {
        generate::generate(&path, wanted, number("--processes", 4).max(1));
    }
    if has("--prepare") {
        let (correlator, _) = open(&path, true);
        return database::load(correlator.reader(), &database).expect("a database");
    }
    // One that is there would be used.
    let _ = std::fs::remove_file(&index);

    let accesses = correlator::Reader::open(&path).expect("a log").total_counts().committed;
    let (mut radix_ms, mut build_ms, mut open_cached_ms) = (f64::MAX, f64::MAX, f64::MAX);
    for _ in 0..REPEAT {
        radix_ms = radix_ms.min(radix_sort_ms(accesses as usize));
        build_ms = build_ms.min(open(&path, false).1);
    }
    let (correlator, build_and_save_ms) = open(&path, true);
    let index_bytes = correlator.index_bytes();
    drop(correlator);
    for _ in 0..REPEAT {
        open_cached_ms = open_cached_ms.min(open(&path, true).1);
    }
    let (correlator, _) = open(&path, true);
    let questions = ask::questions(correlator.reader(), QUESTIONS);
    let all = BlameOptions::default();
    let (blame_median_us, blame_p99_us) = ask::time(&correlator, &questions, &all);
    let (few_median_us, few_p99_us) = ask::time(&correlator, &questions, &BlameOptions { limit: 10, ..all });
    let (writers_median_us, writers_p99_us) = ask::time(&correlator, &questions, &BlameOptions { writers_only: true, ..all });
    let mut figures: Map<String, Value> = [
        ("accesses", accesses as f64),
        ("radix_sort_ms", radix_ms),
        ("index_ms", build_ms),
        ("index_vs_radix_sort", build_ms / radix_ms),
        ("index_and_save_ms", build_and_save_ms),
        ("open_cached_ms", open_cached_ms),
        ("index_bytes_per_access", index_bytes as f64 / accesses as f64),
        ("blame_median_us", blame_median_us),
        ("blame_p99_us", blame_p99_us),
        ("blame_10_rows_median_us", few_median_us),
        ("blame_10_rows_p99_us", few_p99_us),
        ("blame_writers_median_us", writers_median_us),
        ("blame_writers_p99_us", writers_p99_us),
    ]
    .map(|(name, figure)| (name.to_owned(), figure.into()))
    .into_iter()
    .collect();
    if !has("--no-database")
        && let Some(Value::Object(theirs)) = database::compare(&correlator, &questions[..QUESTIONS / 10], &database)
    {
        let median = theirs["database_median_us"].as_f64().unwrap_or(0.0);
        figures.extend(theirs);
        figures.insert("database_vs_blame_median".into(), (median / blame_median_us).into());
    }
    if has("--json") {
        println!("{}", Value::Object(figures));
    } else {
        for (name, figure) in figures {
            match figure.as_f64() {
                Some(figure) => println!("{name:26} {figure:14.2}"),
                None => println!("{name:26} {:>14}", figure.as_str().unwrap_or_default()),
            }
        }
    }
    if kept.is_none() {
        // Leftovers of a benchmark do no harm.
        let _ = (std::fs::remove_file(&path), std::fs::remove_file(index), std::fs::remove_dir_all(database));
    }
}
