//! Accesses as columns.
use crate::logs::Log;
use correlator::{Place, Record};
use datafusion::arrow::array::*;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::arrow::error::ArrowError;
use std::sync::{Arc, PoisonError};

type Maker = fn(&Log, &[Record]) -> ArrayRef;

/// Name, type, whether it may be null, and how to make it.
const COLUMNS: &[(&str, DataType, bool, Maker)] = &[
    ("log", DataType::Utf8, false, |log, records| strings(records, |_| Some(log.name.clone()))),
    ("recording", DataType::UInt32, false, |log, records| {
        Arc::new(UInt32Array::from_iter_values(records.iter().map(|record| found(log, record).map_or(0, |found| found.inferior))))
    }),
    ("pid", DataType::UInt32, false, |log, records| {
        Arc::new(UInt32Array::from_iter_values(records.iter().map(|record| found(log, record).map_or(0, |found| found.pid))))
    }),
    ("program", DataType::Utf8, false, |log, records| {
        strings(records, |record| Some(found(log, record).map_or_else(String::new, |found| found.name.clone())))
    }),
    ("position", DataType::UInt64, false, |_, records| numbers(records, |record| record.position.to_bits())),
    ("bbcount", DataType::UInt64, false, |_, records| numbers(records, |record| record.time.bbcount)),
    ("pc", DataType::UInt64, false, |_, records| numbers(records, |record| record.time.pc)),
    ("wallclock", DataType::Timestamp(TimeUnit::Nanosecond, None), false, |log, records| {
        let ns = |record: &Record| i64::try_from(log.reader.wallclock_ns(record.tsc)).unwrap_or(i64::MAX);
        Arc::new(TimestampNanosecondArray::from_iter_values(records.iter().map(ns)))
    }),
    ("kind", DataType::Utf8, false, |_, records| {
        strings(records, |record| {
            Some(match (record.kind.reads(), record.kind.writes()) {
                (true, true) => "read/write".to_owned(),
                (false, true) => "write".to_owned(),
                _ => "read".to_owned(),
            })
        })
    }),
    ("by_kernel", DataType::Boolean, false, |_, records| {
        Arc::new(records.iter().map(|record| Some(record.by_kernel)).collect::<BooleanArray>())
    }),
    ("object", DataType::UInt32, false, |_, records| {
        Arc::new(UInt32Array::from_iter_values(records.iter().map(|record| record.object.get())))
    }),
    ("object_name", DataType::Utf8, true, |log, records| {
        strings(records, |record| log.reader.object(record.object).map(|object| object.name.clone()))
    }),
    ("offset", DataType::UInt64, false, |_, records| numbers(records, |record| record.offset)),
    ("len", DataType::UInt32, false, |_, records| Arc::new(UInt32Array::from_iter_values(records.iter().map(|record| record.len)))),
    ("cache_line", DataType::UInt64, false, |_, records| numbers(records, |record| record.offset / 64)),
    ("clock_start", DataType::UInt64, true, |_, records| {
        Arc::new(records.iter().map(|record| record.lines.first().map(|span| span.interval.start)).collect::<UInt64Array>())
    }),
    ("clock_end", DataType::UInt64, true, |_, records| {
        Arc::new(records.iter().map(|record| record.lines.first().map(|span| span.interval.end)).collect::<UInt64Array>())
    }),
    ("seen", DataType::Binary, true, |_, records| bytes(records, |record| record.kind.reads().then_some(&record.seen[..]))),
    ("written", DataType::Binary, true, |_, records| bytes(records, |record| record.kind.writes().then_some(&record.written[..]))),
    ("value", DataType::UInt64, true, |_, records| Arc::new(records.iter().map(value).collect::<UInt64Array>())),
    ("function", DataType::Utf8, true, |log, records| placed(log, records, |place| place.function.clone())),
    ("file", DataType::Utf8, true, |log, records| placed(log, records, |place| place.file.clone())),
    ("line", DataType::UInt32, true, |log, records| {
        let mut symbols = log.symbols.lock().unwrap_or_else(PoisonError::into_inner);
        let line = |record: &Record| symbols.place(record.recording, record.time.pc).and_then(|place| place.line);
        Arc::new(records.iter().map(line).collect::<UInt32Array>())
    }),
];

pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(COLUMNS.iter().map(|(name, kind, null, _)| Field::new(*name, kind.clone(), *null)).collect::<Vec<_>>()))
}

/// The columns with these numbers, in this order.
pub fn batch(log: &Log, records: &[Record], schema: &SchemaRef, wanted: &[usize]) -> Result<RecordBatch, ArrowError> {
    let columns = wanted.iter().map(|column| COLUMNS[*column].3(log, records)).collect();
    // Of none, the number of rows still counts.
    let options = RecordBatchOptions::new().with_row_count(Some(records.len()));
    RecordBatch::try_new_with_options(schema.clone(), columns, &options)
}

/// The number of a column.
pub fn number(name: &str) -> Option<usize> {
    COLUMNS.iter().position(|(known, ..)| *known == name)
}

fn found<'a>(log: &'a Log, record: &Record) -> Option<&'a correlator::FoundRecording> {
    log.discovery.by_index(record.recording)
}

fn numbers(records: &[Record], number: impl Fn(&Record) -> u64) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(records.iter().map(number)))
}

fn strings(records: &[Record], text: impl FnMut(&Record) -> Option<String>) -> ArrayRef {
    Arc::new(records.iter().map(text).collect::<StringArray>())
}

fn bytes<'a>(records: &'a [Record], part: impl Fn(&'a Record) -> Option<&'a [u8]>) -> ArrayRef {
    Arc::new(records.iter().map(part).collect::<BinaryArray>())
}

fn placed(log: &Log, records: &[Record], part: impl Fn(&Place) -> Option<String>) -> ArrayRef {
    let mut symbols = log.symbols.lock().unwrap_or_else(PoisonError::into_inner);
    strings(records, |record| part(&symbols.place(record.recording, record.time.pc)?))
}

/// What was there after it, of up to 8 bytes as a number.
fn value(record: &Record) -> Option<u64> {
    let bytes = record.value();
    (bytes.len() <= 8).then(|| bytes.iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte)))
}
