//! `timeline`: a web page, complete in itself, that shows objects over time.
use super::Session;
use super::output;
use anyhow::{Context as _, Result};
use correlator::Record;
use serde_json::json;
use std::path::PathBuf;

/// Every line of shared memory is a row; time goes to the right; each process has a colour. Zoom with the wheel, drag to move, point at an
/// access to see it.
#[derive(clap::Args)]
pub struct Arguments {
    /// The page to write
    #[arg(short, long, default_value = "timeline.html")]
    output: PathBuf,
    /// Accesses to show at most; of more, evenly spread ones are taken
    #[arg(short = 'n', long, default_value_t = 200_000)]
    limit: u64,
}

const PAGE: &str = include_str!("timeline.html");

pub fn run(session: &Session, arguments: &Arguments) -> Result<()> {
    let reader = session.reader()?;
    let mut symbols = session.symbols();
    let total = reader.total_counts().committed;
    let every = total.div_ceil(arguments.limit.max(1)).max(1);
    let start = reader.blocks().iter().map(|block| block.tsc_first).min().map_or(0, |tsc| reader.wallclock_ns(tsc));
    let mut cursor = reader.cursor();
    let mut accesses = Vec::new();
    let mut places: Vec<String> = Vec::new();
    let mut known = std::collections::HashMap::new();
    let mut number = 0u64;
    loop {
        let record = match cursor.next() {
            Ok(Some(access)) => Record::from(&access),
            Ok(None) => break,
            Err(error) => {
                eprintln!("shmem-inspect: warning: skipped: {error}");
                continue;
            }
        };
        number += 1;
        if !(number - 1).is_multiple_of(every) {
            continue;
        }
        let place = output::place(&mut symbols, &record);
        let place = *known.entry(place.clone()).or_insert_with(|| {
            places.push(place);
            places.len() - 1
        });
        accesses.push(json!([
            output::number(&session.discovery, record.recording),
            reader.wallclock_ns(record.tsc).saturating_sub(start),
            record.object.get(),
            record.offset,
            record.len,
            record.kind as u8,
            record.time.to_string(),
            output::values(&record),
            place
        ]));
    }
    let recordings: Vec<_> = session.discovery.recordings.iter().map(|found| json!([found.inferior, found.pid, found.name])).collect();
    let objects: Vec<_> = reader.objects().iter().map(|object| json!([object.index.get(), object.name])).collect();
    let title = session.log.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let data = json!({
        "title": title, "total": total, "every": every,
        "recordings": recordings, "objects": objects, "places": places, "accesses": accesses,
    });
    // In a script element only "<" could end the data early.
    let page = PAGE.replace("/*DATA*/null", &data.to_string().replace('<', "\\u003c"));
    std::fs::write(&arguments.output, page).with_context(|| format!("{}: cannot write", arguments.output.display()))?;
    eprintln!("{}: {} of {total} accesses", arguments.output.display(), accesses.len());
    Ok(())
}
