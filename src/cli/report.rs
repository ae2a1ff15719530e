//! `regtrack report`

use std::path::PathBuf;

use clap::Args;

use super::printer::Printer;
use super::results::Results;
use super::{Failure, FormatArgs, Global, tables};

/// Arguments of `report`.
#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// Release that the others are divided by, instead of the sweep's base
    #[arg(long, value_name = "RELEASE")]
    base: Option<String>,
    /// A sweep other than the current one
    #[arg(long, value_name = "ID")]
    sweep: Option<String>,
    /// Write the static site to this directory instead of printing tables
    #[arg(long, value_name = "DIR")]
    site: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
}

pub(super) fn run(args: &ReportArgs, global: &Global, printer: Printer) -> Result<(), Failure> {
    let results = Results::read(&global.results, args.sweep.as_deref())?;
    let report = results.report(args.base.as_deref())?;
    match &args.site {
        Some(directory) => {
            let index = results.write_site(&report, directory)?;
            printer.data(&index.display().to_string())?;
        }
        None => printer.data(&tables::report(&report, args.format.format()))?,
    }
    Ok(())
}
