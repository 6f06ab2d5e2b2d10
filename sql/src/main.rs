//! `shmem-inspect-sql`: what `shmem-inspect sql` and `shmem-inspect export --format parquet` run.
//!
//! ```text
//!   a log, or a folder of logs ─► Logs ─► columns ─┬► table ─► DataFusion ─► a table for people, or JSON lines
//!                                                  └► parquet ─► DIR/log=UUID/recording=N/part-….parquet
//! ```
#![forbid(unsafe_code)]

mod columns;
mod logs;
mod parquet;
mod show;
mod table;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use datafusion::prelude::SessionContext;
use logs::Logs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

/// SQL over access logs, and their export as Parquet. `shmem-inspect` calls it.
#[derive(Parser)]
#[command(name = "shmem-inspect-sql", version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Ask the table `accesses`
    Query {
        /// A log, or a folder: then all logs in it
        logs: PathBuf,
        /// For example: SELECT pid, count(*) FROM accesses GROUP BY pid. `DESCRIBE accesses` lists the columns
        query: String,
        /// Print a JSON object a row
        #[arg(long)]
        json: bool,
    },
    /// Write all accesses as Parquet
    Parquet {
        /// A log, or a folder: then all logs in it
        logs: PathBuf,
        /// The folder to make; it must not exist, or be empty
        #[arg(short, long)]
        output: PathBuf,
    },
}

fn main() -> ExitCode {
    match run(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if show::is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shmem-inspect: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<()> {
    match command {
        Command::Query { logs, query, json } => {
            let context = SessionContext::new();
            context.register_table("accesses", Arc::new(table::Accesses::new(Logs::open(&logs)?)))?;
            let runtime = tokio::runtime::Builder::new_multi_thread().build().context("cannot start threads")?;
            runtime.block_on(async {
                let answer = context.sql(&query).await?;
                let schema = Arc::new(answer.schema().as_arrow().clone());
                show::print(schema, answer.execute_stream().await?, json).await
            })
        }
        Command::Parquet { logs, output } => parquet::export(&Logs::open(&logs)?, &output),
    }
}
