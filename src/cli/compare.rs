//! `regtrack compare BASE TARGET`

use clap::Args;

use super::printer::Printer;
use super::results::Results;
use super::{Failure, FormatArgs, Global, tables};
use crate::analysis;

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub(super) struct CompareArgs {
    /// Release that is divided by: a version, a major, or a target's id
    base: String,
    /// Release that is compared with it
    target: String,
    /// A sweep other than the current one
    #[arg(long, value_name = "ID")]
    sweep: Option<String>,
    #[command(flatten)]
    format: FormatArgs,
}

pub(super) fn run(args: &CompareArgs, global: &Global, printer: Printer) -> Result<(), Failure> {
    let results = Results::read(global, args.sweep.as_deref())?;
    let find = |name| analysis::find_target(&results.manifest, name);
    let (base, target) = (find(&args.base)?, find(&args.target)?);
    let comparison = analysis::compare(&results.manifest, &results.slices, &results.catalogue(), &base.id, &target.id)?;
    printer.data(&tables::comparison(&comparison, args.format.format()))?;
    Ok(())
}
