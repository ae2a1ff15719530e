//! `regtrack report`

use std::path::PathBuf;

use clap::Args;

use super::printer::Printer;
use super::results::Results;
use super::{Failure, FormatArgs, Global, tables};

/// Where the site goes when no directory is named, as for `sweep`.
const DEFAULT_SITE: &str = "public";

/// Arguments of `report`.
#[derive(Debug, Args)]
pub(super) struct ReportArgs {
    /// Release that the others are divided by, instead of the sweep's base
    #[arg(long, value_name = "RELEASE")]
    base: Option<String>,
    /// A sweep other than the current one
    #[arg(long, value_name = "ID")]
    sweep: Option<String>,
    /// Write the static site instead of printing tables, to DIR or else to $REGTRACK_SITE or public
    #[arg(long, value_name = "DIR", num_args = 0..=1, default_missing_value = DEFAULT_SITE)]
    site: Option<PathBuf>,
    #[command(flatten)]
    format: FormatArgs,
}

pub(super) fn run(args: &ReportArgs, global: &Global, printer: Printer) -> Result<(), Failure> {
    let results = Results::read(global, args.sweep.as_deref())?;
    let report = results.report(args.base.as_deref())?;
    match &args.site {
        Some(directory) => {
            let named = directory.as_os_str() != DEFAULT_SITE;
            let elsewhere = std::env::var_os("REGTRACK_SITE").filter(|_| !named).map(PathBuf::from);
            let index = results.write_site(&report, elsewhere.as_ref().unwrap_or(directory))?;
            printer.data(&index.display().to_string())?;
        }
        None => printer.data(&tables::report(&report, args.format.format())?)?,
    }
    Ok(())
}
