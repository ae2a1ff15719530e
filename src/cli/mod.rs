//! The command line: arguments, printing, exit codes. Parse → settings → command.

mod bench;
mod bisect;
mod build;
mod cache;
mod compare;
mod doctor;
mod exports;
mod history;
mod import;
mod mail;
mod parity;
mod placement;
mod printer;
mod progress;
mod publish;
mod refresh;
mod report;
mod results;
mod selftest;
mod servers;
mod status;
mod sweep;
pub mod tables;
mod timer;
mod variants;
mod versions;
mod weekly;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

use crate::catalog::CatalogError;
use crate::catalog::versions::Catalogue;
use crate::sweep::SweepError;
use printer::Printer;

/// Finds the PostgreSQL release that made a statement slower, by how much, and how sure that is.
#[derive(Debug, Parser)]
#[command(
    name = "regtrack",
    version,
    max_term_width = 100,
    after_help = "Examples:
  regtrack sweep 16..18 --profile quick      measure three releases and write a site
  regtrack bisect 16..17 --bench hot-points  find the minor, with --git the commit, to blame
  regtrack compare 16 18                     group summaries and all 42 ratios
  regtrack build 9.0..18 --source source     compile a server of every major and try it
  regtrack versions 9.0..18                  what can be measured
  regtrack bench list                        what is measured"
)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// Options of every command.
#[derive(Debug, Clone, Args)]
struct Global {
    /// Directory of the results
    #[arg(long, value_name = "DIR", env = "REGTRACK_RESULTS", default_value = "results", global = true)]
    results: PathBuf,
    /// Directory of the releases' manifests [default: built in]
    #[arg(long, value_name = "DIR", env = "REGTRACK_VERSIONS", global = true)]
    versions: Option<PathBuf>,
    /// Show nothing but results and errors
    #[arg(short, long, global = true)]
    quiet: bool,
    /// Show every slice (-v) and internal steps (-vv)
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

impl Global {
    /// The releases that this call knows.
    fn catalogue(&self) -> Result<Catalogue, CatalogError> {
        self.versions.as_deref().map_or_else(Catalogue::builtin, Catalogue::load)
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure every release of a range and compare it with a base
    Sweep(Box<sweep::SweepArgs>),
    /// Measure what is new or due this week, and say what changed since the last
    Weekly(Box<weekly::WeeklyArgs>),
    /// Find the release, and in a git repository the commit, between two ends that changed a rate
    Bisect(Box<bisect::BisectArgs>),
    /// Get or compile a server of every release of a range, and prove that it works
    Build(Box<build::BuildArgs>),
    /// Compare two releases of a sweep
    Compare(compare::CompareArgs),
    /// Print the tables of a sweep, or write its site
    Report(report::ReportArgs),
    /// Publish a site: to a directory, another machine or a branch
    Publish(publish::PublishCommandArgs),
    /// Read published tables of absolute QPS as results
    Import(import::ImportArgs),
    /// Compare regtrack's client with sysbench and pgbench on one server
    Parity(Box<parity::ParityArgs>),
    /// Find out what this machine can tell: noise, false alarms, and which planted slowdowns are found
    Selftest(Box<selftest::SelftestArgs>),
    /// Check this machine for what a sweep needs and for what spoils one
    Doctor(doctor::DoctorArgs),
    /// Count the cells of a results directory
    Status(status::StatusArgs),
    /// List the PostgreSQL releases
    Versions(versions::VersionsArgs),
    /// List the ways in which servers can be compiled
    Variants(variants::VariantsArgs),
    /// List the builds in the cache, or remove old ones
    Cache(cache::CacheArgs),
    /// List the microbenchmarks
    Bench(bench::BenchArgs),
}

/// Why a command ended without success.
#[derive(Debug)]
enum Failure {
    /// The person or the environment.
    Error(anyhow::Error),
    /// Some cells could not be measured, some servers not be had, or clients differ; everything else was done.
    Incomplete,
    /// The machine cannot do a sweep; what is missing was printed.
    UnfitMachine,
    /// Ctrl-C or SIGTERM.
    Interrupted(anyhow::Error),
}

impl<E: Into<anyhow::Error>> From<E> for Failure {
    fn from(error: E) -> Self {
        Self::Error(error.into())
    }
}

impl Failure {
    fn of_sweep(error: SweepError) -> Self {
        match error {
            SweepError::Interrupted => Self::Interrupted(error.into()),
            other => Self::Error(other.into()),
        }
    }
}

/// Exit codes; documented in the README.
mod exit {
    pub(super) const ERROR: u8 = 1;
    pub(super) const INCOMPLETE: u8 = 3;
    pub(super) const INTERRUPTED: u8 = 130;
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let cli = Cli::parse_from(&arguments);
    let printer = Printer::new(cli.global.quiet, cli.global.verbose);
    printer::start_log(cli.global.verbose);
    match run(cli, printer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Incomplete) => ExitCode::from(exit::INCOMPLETE),
        Err(Failure::UnfitMachine) => ExitCode::from(exit::ERROR),
        Err(Failure::Interrupted(error)) => {
            printer.error(&error);
            ExitCode::from(exit::INTERRUPTED)
        }
        Err(Failure::Error(error)) => {
            printer.error(&error);
            ExitCode::from(exit::ERROR)
        }
    }
}

fn run(cli: Cli, printer: Printer) -> Result<(), Failure> {
    let Cli { global, command } = cli;
    match command {
        Command::Sweep(args) => sweep::run(*args, &global, printer),
        Command::Weekly(args) => weekly::run(*args, &global, printer),
        Command::Bisect(args) => bisect::run(*args, &global, printer),
        Command::Build(args) => build::run(&args, &global, printer),
        Command::Compare(args) => compare::run(&args, &global, printer),
        Command::Report(args) => report::run(&args, &global, printer),
        Command::Publish(args) => publish::run(args, printer),
        Command::Import(args) => import::run(&args, &global, printer),
        Command::Parity(args) => parity::run(&args, &global, printer),
        Command::Selftest(args) => selftest::run(&args, &global, printer),
        Command::Doctor(args) => doctor::run(&args, &global, printer),
        Command::Status(args) => status::run(&args, &global, printer),
        Command::Versions(args) => versions::run(&args, &global, printer),
        Command::Variants(args) => variants::run(&args, printer),
        Command::Cache(args) => cache::run(&args, printer),
        Command::Bench(args) => bench::run(&args, printer),
    }
}

/// How a table is printed.
#[derive(Debug, Args)]
#[group(multiple = false)]
struct FormatArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print Markdown tables
    #[arg(long)]
    markdown: bool,
    /// Print comma-separated values
    #[arg(long)]
    csv: bool,
}

impl FormatArgs {
    fn format(&self) -> tables::Format {
        match (self.json, self.markdown, self.csv) {
            (true, ..) => tables::Format::Json,
            (_, true, _) => tables::Format::Markdown,
            (_, _, true) => tables::Format::Csv,
            _ => tables::Format::Terminal,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
