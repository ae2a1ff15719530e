//! `regtrack import FILE…`

use std::path::PathBuf;

use clap::Args;

use super::printer::Printer;
use super::{Failure, Global};
use crate::catalog::suite;
use crate::store::{self, RowKind, Store};

/// Arguments of `import`.
#[derive(Debug, Args)]
pub(super) struct ImportArgs {
    /// Tables of absolute QPS (qps.abs.*.tsv); several become one sweep
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

pub(super) fn run(args: &ImportArgs, global: &Global, printer: Printer) -> Result<(), Failure> {
    let suite = suite::builtin()?;
    let ignored = suite::ignored_rows()?;
    let kind = |row: &str| {
        if suite::is_ignored_row(&ignored, row) {
            RowKind::Ignored
        } else if suite::group_of_row(&suite, row).is_some() {
            RowKind::Reported
        } else {
            RowKind::Unknown
        }
    };
    let tables = store::read_tables(&args.files, &kind)?;
    let store = Store::create_or_open(&global.results)?;
    let manifest = store::import(&store, &tables)?;
    let labels: Vec<&str> = manifest.targets.iter().map(|target| target.label.as_str()).collect();
    let slices = store.slices(&manifest.id)?.len();
    printer.say(&format!("imported {slices} values of {} releases as {}", labels.len(), manifest.id));
    printer.data(&labels.join(" "))?;
    Ok(())
}
