//! Answers, as a table that fits the terminal or a JSON object a row.
use anyhow::Result;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use datafusion::arrow::array::{Array, BinaryArray, RecordBatch};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::execution::SendableRecordBatchStream;
use futures::StreamExt as _;
use serde_json::{Map, Value};
use std::io::{self, IsTerminal, Write};

pub async fn print(schema: SchemaRef, mut batches: SendableRecordBatchStream, json: bool) -> Result<()> {
    let out = &mut io::BufWriter::new(io::stdout().lock());
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(schema.fields().iter().map(|field| field.name().clone()));
    if io::stdout().is_terminal() {
        table.set_content_arrangement(ContentArrangement::Dynamic);
    }
    while let Some(batch) = batches.next().await {
        let batch = batch?;
        for row in 0..batch.num_rows() {
            if json {
                let cells = batch.columns().iter().zip(batch.schema_ref().fields());
                let object: Map<String, Value> =
                    cells.map(|(column, field)| Ok((field.name().clone(), value(column, row)?))).collect::<Result<_>>()?;
                writeln!(out, "{}", Value::Object(object))?;
            } else {
                table.add_row(texts(&batch, row)?);
            }
        }
    }
    if !json {
        for (column, field) in schema.fields().iter().enumerate() {
            if let (true, Some(column)) = (field.data_type().is_numeric(), table.column_mut(column)) {
                column.set_cell_alignment(CellAlignment::Right);
            }
        }
        writeln!(out, "{table}")?;
    }
    Ok(out.flush()?)
}

fn texts(batch: &RecordBatch, row: usize) -> Result<Vec<String>> {
    batch.columns().iter().map(|column| text(column, row)).collect()
}

fn text(column: &dyn Array, row: usize) -> Result<String> {
    if let Some(bytes) = column.as_any().downcast_ref::<BinaryArray>().filter(|bytes| bytes.is_valid(row)) {
        return Ok(bytes.value(row).iter().map(|byte| format!("{byte:02x}")).collect());
    }
    Ok(ArrayFormatter::try_new(column, &FormatOptions::default())?.value(row).try_to_string()?)
}

fn value(column: &dyn Array, row: usize) -> Result<Value> {
    if column.is_null(row) {
        return Ok(Value::Null);
    }
    let text = text(column, row)?;
    Ok(match column.data_type() {
        DataType::Boolean => Value::Bool(text == "true"),
        kind if kind.is_numeric() => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        _ => Value::String(text),
    })
}

/// Whoever read the output has seen enough.
pub fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe))
}
