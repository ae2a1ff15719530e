//! `regtrack report`

use std::path::PathBuf;

use clap::Args;

use super::printer::Printer;
use super::publish::PublishArgs;
use super::results::{Results, SiteOptions};
use super::{Failure, FormatArgs, Global, history, tables};

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
    /// Address of the site, for links in its feeds
    #[arg(long, value_name = "URL", env = "REGTRACK_SITE_URL")]
    site_url: Option<String>,
    #[command(flatten)]
    publish: PublishArgs,
    #[command(flatten)]
    format: FormatArgs,
}

pub(super) fn run(args: &ReportArgs, global: &Global, printer: Printer) -> Result<(), Failure> {
    // Who publishes a site wants one.
    let wanted = args.site.clone().or_else(|| args.publish.is_asked_for().then(|| PathBuf::from(DEFAULT_SITE)));
    args.publish.check()?;
    let results = Results::read(global, args.sweep.as_deref())?;
    let report = results.report(args.base.as_deref())?;
    let Some(directory) = wanted else {
        printer.data(&tables::report(&report, args.format.format())?)?;
        return Ok(());
    };
    let named = directory.as_os_str() != DEFAULT_SITE;
    let elsewhere = std::env::var_os("REGTRACK_SITE").filter(|_| !named).map(PathBuf::from);
    let directory = elsewhere.unwrap_or(directory);
    let history = history::shown(&history::summaries(global)?);
    let options = SiteOptions { history: history.as_ref(), url: args.site_url.as_deref() };
    let index = results.write_site(&report, &directory, options)?;
    printer.data(&index.display().to_string())?;
    args.publish.run(&directory, printer)
}
