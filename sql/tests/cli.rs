//! `shmem-inspect-sql` as `shmem-inspect` calls it, on logs of which the contents are known.
#[path = "../../correlator/tests/common/corpus.rs"]
mod corpus;

use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use serde_json::Value;
use shmem_log::{Kind, Log, MappingInfo, ObjectInfo, RecordingInfo, Writer};
use std::collections::HashSet;
use std::ffi::CString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Each of two recordings writes its number to 100 words, and reads one word 50 times.
fn make_log(path: &Path) {
    let log = Log::create_or_join(&CString::new(path.to_str().unwrap()).unwrap(), 1 << 20, None).unwrap();
    let object = log.register_object(&ObjectInfo { dev: 1, ino: 7, name: b"/memfd:test", size: 4096 }).unwrap();
    for number in 0..2u64 {
        let info = RecordingInfo {
            uuid: [number as u8 + 1; 16],
            pid: 100 + number as u32,
            start_time: 1,
            start_wallclock_ns: 0,
            executable: b"/usr/bin/program",
            name: b"program",
        };
        let recording = log.register_recording(&info).unwrap();
        log.register_mapping(&MappingInfo { recording, object, address: 0x10000, length: 4096, offset: 0, from_bbcount: 1 }).unwrap();
        let mut writer = Writer::new(&log, recording).unwrap();
        let sites = [Kind::Read, Kind::Write].map(|kind| writer.register_site(0x1000 + kind as u64, kind, 8).unwrap());
        for access in 0..150 {
            let (kind, site, offset) = if access < 100 { (Kind::Write, sites[1], (99 - access) * 8) } else { (Kind::Read, sites[0], 0) };
            let token = writer.begin(kind, object, offset, 8);
            writer.commit(token, site, access, number);
        }
        writer.finish();
    }
}

fn folder() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("one.shmem");
    make_log(&log);
    (folder, log)
}

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_shmem-inspect-sql")).args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn rows(logs: &Path, query: &str) -> Vec<Value> {
    let output = run(&["query", "--json", logs.to_str().unwrap(), query]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn a_log_is_a_table() {
    let (_folder, log) = folder();
    let found = rows(&log, "SELECT pid, kind, count(*) AS accesses FROM accesses GROUP BY pid, kind ORDER BY pid, kind");
    let found: Vec<_> =
        found.iter().map(|row| (row["pid"].as_u64().unwrap(), row["kind"].as_str().unwrap(), row["accesses"].as_u64().unwrap())).collect();
    assert_eq!(found, [(100, "read", 50), (100, "write", 100), (101, "read", 50), (101, "write", 100)]);
    let found = rows(&log, "SELECT * FROM accesses WHERE bbcount = 99 AND recording = 2");
    assert_eq!(found.len(), 1);
    let row = &found[0];
    assert_eq!((&row["offset"], &row["len"], &row["value"], &row["by_kernel"]), (&0.into(), &8.into(), &1.into(), &false.into()));
    assert_eq!((&row["written"], &row["seen"], &row["object_name"]), (&"0100000000000000".into(), &Value::Null, &"/memfd:test".into()));
    let last_writers = "SELECT DISTINCT last_value(pid) OVER (PARTITION BY offset ORDER BY clock_start ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS pid \
                        FROM accesses WHERE kind = 'write'";
    assert_eq!(rows(&log, last_writers).len(), 1, "the second overwrote everything");
    let table = run(&["query", log.to_str().unwrap(), "SELECT kind, max(offset) AS top FROM accesses GROUP BY kind ORDER BY kind"]);
    let lines: Vec<Vec<String>> = text(&table.stdout).lines().map(|line| line.split_whitespace().map(str::to_owned).collect()).collect();
    assert_eq!(lines, [["kind", "top"], ["read", "0"], ["write", "792"]]);
}

#[test]
fn a_folder_of_logs_is_one_table() {
    let (folder, log) = folder();
    make_log(&folder.path().join("two.shmem"));
    fs::copy(&log, folder.path().join("copy.shmem")).unwrap();
    fs::write(folder.path().join("broken.shmem"), "no log").unwrap();
    let output = run(&["query", "--json", folder.path().to_str().unwrap(), "SELECT log, count(*) AS n FROM accesses GROUP BY log"]);
    let out = text(&output.stdout);
    assert_eq!(out.lines().filter(|line| line.contains("\"n\":300")).count(), 2, "{out}");
    let err = text(&output.stderr);
    assert!(err.contains("broken.shmem") && err.contains("a copy of a log"), "{err}");
    let empty = tempfile::tempdir().unwrap();
    let output = run(&["query", empty.path().to_str().unwrap(), "SELECT 1"]);
    assert!(!output.status.success() && text(&output.stderr).contains("no readable access log"));
}

#[test]
fn a_question_that_makes_no_sense_is_an_error() {
    let (_folder, log) = folder();
    for query in ["SELEKT 1", "SELECT nothing FROM accesses", "SELECT * FROM elsewhere"] {
        let output = run(&["query", log.to_str().unwrap(), query]);
        assert!(!output.status.success());
        assert!(!output.stderr.is_empty() && !text(&output.stderr).contains("panicked"), "{}", text(&output.stderr));
    }
}

#[test]
fn parquet_is_partitioned_and_sorted() {
    let (folder, log) = folder();
    let output = folder.path().join("parquet");
    let done = run(&["parquet", log.to_str().unwrap(), "--output", output.to_str().unwrap()]);
    assert!(done.status.success(), "{}", text(&done.stderr));
    let partitions: Vec<PathBuf> = fs::read_dir(&output).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert_eq!(partitions.len(), 1);
    assert!(partitions[0].file_name().unwrap().to_str().unwrap().starts_with("log="));
    for recording in ["recording=1", "recording=2"] {
        let file = File::open(partitions[0].join(recording).join("part-00000.parquet")).unwrap();
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let group = builder.metadata().row_group(0);
        assert_eq!((builder.metadata().num_row_groups(), group.num_rows()), (1, 150));
        let names = builder.schema().fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        assert!(!names.contains(&"log".to_owned()) && !names.contains(&"recording".to_owned()), "these are in the names of folders");
        let sorted: Vec<&str> = group.sorting_columns().unwrap().iter().map(|by| names[by.column_idx as usize].as_str()).collect();
        assert_eq!(sorted, ["object", "cache_line", "position"]);
        let mut before = (0, 0);
        for batch in builder.build().unwrap() {
            let batch = batch.unwrap();
            let column = |name: &str| {
                let column = batch.column_by_name(name).unwrap();
                datafusion::arrow::array::AsArray::as_primitive::<datafusion::arrow::datatypes::UInt64Type>(column).values().to_vec()
            };
            for row in column("cache_line").into_iter().zip(column("position")) {
                assert!(before < row, "{before:?} {row:?}");
                before = row;
            }
        }
    }
    let again = run(&["parquet", log.to_str().unwrap(), "--output", output.to_str().unwrap()]);
    assert!(!again.status.success() && text(&again.stderr).contains("does not exist or is empty"));
}

/// Every broken log: an answer that says what it left out, or an error that names the file; never a panic. The export has what the table has.
#[test]
fn broken_logs_are_asked_and_exported() {
    let (folder, log) = folder();
    let ask = || run(&["query", "--json", log.to_str().unwrap(), "SELECT position, kind, \"offset\", seen, written FROM accesses"]);
    let good: HashSet<String> = text(&ask().stdout).lines().map(str::to_owned).collect();
    assert_eq!(good.len(), 300);
    for (number, broken) in corpus::broken_logs(&log, 30).into_iter().enumerate() {
        let name = &broken.name;
        fs::write(&log, &broken.bytes).unwrap();
        let output = folder.path().join(format!("parquet-{number}"));
        let (asked, exported) = (ask(), run(&["parquet", log.to_str().unwrap(), "--output", output.to_str().unwrap()]));
        let (out, err) = (text(&asked.stdout), text(&asked.stderr));
        for said in [&asked, &exported] {
            let err = text(&said.stderr);
            let named = said.status.code() == Some(1) && err.contains("one.shmem") && !err.contains("panicked");
            assert!(said.status.success() || named, "{name}: {:?} {err}", said.status);
        }
        assert_eq!(asked.status.success(), exported.status.success(), "{name}: {err}");
        if asked.status.success() {
            let rows = out.lines().count();
            let told = text(&exported.stderr);
            assert!(told.contains(&format!(": {rows} accesses in")), "{name}: {rows} rows asked, {told}");
            let right = out.lines().filter(|row| good.contains(*row)).count();
            assert!(!broken.rest_is_right || right == rows, "{name}: rows that were not there: {out}");
            assert!(!broken.rest_is_right || rows == good.len() || !err.is_empty(), "{name}: only {rows} rows, and no word of it");
        }
    }
}

/// The SQL on the page of the correlator, asked of a folder.
#[test]
fn the_query_that_the_page_shows_works() {
    let page = include_str!("../../docs/correlation.md");
    let queries: Vec<&str> = page.split("```sql\n").skip(1).map(|rest| rest.split_once("```").unwrap().0).collect();
    let [query] = queries.as_slice() else { panic!("another query is on the page, and no test looks at its answer: {queries:?}") };
    let (folder, _log) = folder();
    let found = rows(folder.path(), query);
    assert_eq!(found.len(), 10, "of 13 lines, as the limit says: {found:?}");
    // Eight words written and one read 50 times, by both.
    assert_eq!((&found[0]["cache_line"], &found[0]["users"], &found[0]["n"]), (&0.into(), &2.into(), &116.into()));
}
