//! `regtrack bench list`

use clap::{Args, Subcommand};
use serde_json::json;
use std::path::PathBuf;

use super::printer::Printer;
use super::{Failure, tables};
use crate::catalog::suite;
use crate::domain::{Microbenchmark, Suite};

/// Arguments of `bench`.
#[derive(Debug, Args)]
pub(super) struct BenchArgs {
    #[command(subcommand)]
    command: BenchCommand,
}

#[derive(Debug, Subcommand)]
enum BenchCommand {
    /// List the microbenchmarks in run order
    List {
        /// Only those that match; `*` and `?` are wildcards
        #[arg(long = "bench", value_name = "GLOB")]
        benches: Vec<String>,
        /// Read the suite from this file instead of the built-in one
        #[arg(long, value_name = "FILE")]
        suite: Option<PathBuf>,
        /// Print JSON, with every statement and parameter
        #[arg(long)]
        json: bool,
    },
}

pub(super) fn run(args: &BenchArgs, printer: Printer) -> Result<(), Failure> {
    let BenchCommand::List { benches, suite: file, json } = &args.command;
    let suite = match file {
        Some(path) => suite::load(path)?,
        None => suite::builtin()?,
    };
    let names = suite::select(&suite, benches)?;
    let selected = suite.microbenchmarks.iter().filter(|microbenchmark| names.contains(&microbenchmark.name));
    let text = if *json {
        let list: Vec<_> = selected.map(|microbenchmark| entry(&suite, microbenchmark)).collect();
        format!("{:#}", json!(list))
    } else {
        table(selected)
    };
    printer.data(&text)?;
    Ok(())
}

fn entry(suite: &Suite, microbenchmark: &Microbenchmark) -> serde_json::Value {
    json!({
        "name": microbenchmark.name,
        "group": microbenchmark.group,
        "order": microbenchmark.step,
        "shape": microbenchmark.shape,
        "range": microbenchmark.range,
        "clock": microbenchmark.clock,
        "unit": microbenchmark.unit,
        "protocol": microbenchmark.protocol,
        "transaction": microbenchmark.transaction,
        "queries_per_event": microbenchmark.queries_per_event(),
        "sql": microbenchmark.statements.iter().map(|statement| &statement.sql).collect::<Vec<_>>(),
        "statements": microbenchmark.statements,
        "postwrite_follows": suite.postwrite_after.contains(&microbenchmark.step),
        "why": microbenchmark.why,
    })
}

fn table<'a>(microbenchmarks: impl Iterator<Item = &'a Microbenchmark>) -> String {
    const SQL_SHOWN: usize = 70;
    let mut rows = Vec::new();
    for microbenchmark in microbenchmarks {
        let first = microbenchmark.statements.first().map_or("", |statement| statement.sql.as_str());
        let mut sql: String = first.chars().take(SQL_SHOWN).collect();
        if sql.len() < first.len() {
            sql.push('…');
        }
        let more = microbenchmark.statements.len().saturating_sub(1);
        if more > 0 {
            sql = format!("{sql} (+{more} more)");
        }
        rows.push(vec![
            microbenchmark.step.to_string(),
            microbenchmark.name.clone(),
            microbenchmark.group.clone(),
            microbenchmark.queries_per_event().to_string(),
            sql,
        ]);
    }
    tables::listing(&["order", "name", "group", "queries/event", "statements"], rows)
}
