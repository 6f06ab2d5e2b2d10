//! Parquet for engines that take it from here.
//!
//! ```text
//!   DIR/log=UUID/recording=N/part-00000.parquet …
//! ```
//!
//! The partition columns are in the names of the folders only, as Hive has it. A file holds consecutive accesses of one recording, and is one
//! row group, sorted by object, cache line and position. So an engine finds the files of a stretch of time by the statistics of
//! `position` and `bbcount`, and in them the pages of a place by those of `object` and `cache_line`.
use crate::columns;
use crate::logs::{Log, Logs};
use ::parquet::arrow::ArrowWriter;
use ::parquet::basic::Compression;
use ::parquet::file::metadata::SortingColumn;
use ::parquet::file::properties::{EnabledStatistics, WriterProperties};
use anyhow::{Context as _, Result, bail};
use correlator::Record;
use shmem_log::{BlockBuffer, RecordingIndex};
use std::collections::HashMap;
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

/// Accesses in a file, at least, while there are more; and of all files being filled together.
const FILE_ACCESSES: usize = 1 << 20;
const HELD_ACCESSES: usize = 4 << 20;

pub fn export(logs: &Logs, output: &Path) -> Result<()> {
    if fs::read_dir(output).is_ok_and(|mut entries| entries.next().is_some()) {
        bail!("{}: expected a folder that does not exist or is empty, found one with files in it", output.display());
    }
    let (mut files, mut accesses) = (0, 0);
    for log in &logs.0 {
        let mut writer = Writer { log, output, files: HashMap::new(), written: 0, accesses: 0 };
        writer.run()?;
        files += writer.written;
        accesses += writer.accesses;
    }
    fs::create_dir_all(output).with_context(|| format!("{}: cannot create", output.display()))?;
    eprintln!("{}: {accesses} accesses in {files} files", output.display());
    Ok(())
}

struct Writer<'a> {
    log: &'a Log,
    output: &'a Path,
    /// By recording: how many files it has, and what goes to the next.
    files: HashMap<RecordingIndex, (usize, Vec<Record>)>,
    written: usize,
    accesses: usize,
}

impl Writer<'_> {
    fn run(&mut self) -> Result<()> {
        let mut buffer = BlockBuffer::default();
        let mut held = 0;
        for info in self.log.reader.blocks() {
            let (_, records) = self.files.entry(info.recording).or_default();
            let before = records.len();
            self.log.read(info, &mut buffer, records);
            held += records.len() - before;
            if records.len() >= FILE_ACCESSES {
                held -= records.len();
                self.write(info.recording)?;
            } else if held > HELD_ACCESSES {
                let largest = self
                    .files
                    .iter()
                    .max_by_key(|(_, (_, records))| records.len())
                    .map(|(recording, (_, records))| (*recording, records.len()));
                if let Some((recording, count)) = largest {
                    held -= count;
                    self.write(recording)?;
                }
            }
        }
        let mut left: Vec<RecordingIndex> = self.files.keys().copied().collect();
        left.sort();
        left.into_iter().try_for_each(|recording| self.write(recording))
    }

    fn write(&mut self, recording: RecordingIndex) -> Result<()> {
        let Some((number, records)) = self.files.get_mut(&recording) else { return Ok(()) };
        if records.is_empty() {
            return Ok(());
        }
        records.sort_by_key(|record| (record.object, record.offset / 64, record.position));
        let found = self.log.discovery.by_index(recording).map_or(0, |found| found.inferior);
        let folder = self.output.join(format!("log={}", self.log.uuid)).join(format!("recording={found}"));
        fs::create_dir_all(&folder).with_context(|| format!("{}: cannot create", folder.display()))?;
        let path = folder.join(format!("part-{number:05}.parquet"));
        let schema = columns::schema();
        let wanted: Vec<usize> =
            (0..schema.fields().len()).filter(|at| !["log", "recording"].contains(&schema.field(*at).name().as_str())).collect();
        let schema = Arc::new(schema.project(&wanted)?);
        let place = |name: &str| wanted.iter().position(|column| Some(*column) == columns::number(name)).unwrap_or(0) as i32;
        let ascending = |name: &str| SortingColumn { column_idx: place(name), descending: false, nulls_first: false };
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_max_row_group_row_count(None)
            .set_sorting_columns(Some(["object", "cache_line", "position"].map(ascending).to_vec()))
            .build();
        let file = File::create_new(&path).with_context(|| format!("{}: cannot create", path.display()))?;
        let written = (|| {
            let mut writer = ArrowWriter::try_new(file, schema.clone(), Some(properties))?;
            for part in records.chunks(1 << 16) {
                writer.write(&columns::batch(self.log, part, &schema, &wanted)?)?;
            }
            writer.close()?;
            Ok::<_, anyhow::Error>(())
        })();
        written.with_context(|| format!("{}: cannot write", path.display()))?;
        self.written += 1;
        self.accesses += records.len();
        *number += 1;
        records.clear();
        Ok(())
    }
}
