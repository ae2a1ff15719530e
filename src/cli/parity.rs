//! `regtrack parity RANGE`

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use serde_json::{Value, json};

use super::printer::Printer;
use super::servers::{self, ServerArgs, watch_signals};
use super::sweep::{SMOKE, parse_seconds};
use super::{Failure, Global, tables};
use crate::analysis::{self, Parity, Ratio};
use crate::build::Builder as _;
use crate::catalog::twins;
use crate::catalog::versions::Catalogue;
use crate::domain::{Build, Placement, ReleaseRange};
use crate::load::{Control, Waiting};
use crate::measure::{self, Clients, MachineLock, MeasureError, ParityBench, ParitySpec};
use crate::process;
use crate::rival::{Pgbench, Sysbench};
use crate::server::{Account, StartOptions};
use crate::sweep::{self, Prepared, SweepRequest, WantedServer, profile};

/// Runs shorter than this prove that everything works, like a smoke run of a sweep; others need the machine to
/// themselves.
const SHORTEST_MEASURING: f64 = 0.5;

/// Arguments of `parity`.
#[derive(Debug, Args)]
pub(super) struct ParityArgs {
    /// One release, such as 17 or 16.4
    #[arg(value_name = "RANGE")]
    range: ReleaseRange,
    #[command(flatten)]
    servers: ServerArgs,
    /// Only these microbenchmarks; `*` and `?` are wildcards
    #[arg(long = "bench", value_name = "GLOB")]
    benches: Vec<String>,
    /// Runs of each client; an even number lets both go first equally often
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds of a run of regtrack's client; the others run as many events
    #[arg(long, default_value_t = 0.5, value_parser = parse_seconds)]
    seconds: f64,
    /// Rows of the table
    #[arg(long, default_value_t = 100_000)]
    rows: u64,
    /// Connect by tcp (as sysbench does) or unix
    #[arg(long, value_parser = ["tcp", "unix"], default_value = "tcp")]
    transport: String,
    /// CPUs of client and backend: free, same-cpu or split
    #[arg(long, default_value_t)]
    placement: Placement,
    /// How regtrack's client waits: receive, as in a sweep, or poll, as libpq and so sysbench do
    #[arg(long, value_parser = ["receive", "poll"], default_value = "receive")]
    wait: String,
    /// Directory for the data directory
    #[arg(long, value_name = "DIR", env = "REGTRACK_CLUSTERS", default_value = "/var/tmp")]
    clusters: PathBuf,
    /// The sysbench to compare with
    #[arg(long, value_name = "PROGRAM", env = "REGTRACK_SYSBENCH", default_value = "sysbench")]
    sysbench: PathBuf,
    /// Compare how long the table takes to fill, against `sysbench prepare`, instead of microbenchmarks
    #[arg(long, conflicts_with_all = ["benches", "seconds"])]
    load: bool,
    /// Count the backend's instructions for both clients, with valgrind and a small table, instead of timing them
    #[arg(long, conflicts_with_all = ["load", "seconds", "rounds", "placement", "wait"])]
    instructions: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl ParityArgs {
    fn table_rows(&self) -> u64 {
        if self.instructions { measure::counted_rows(self.rows) } else { self.rows }
    }
}

pub(super) fn run(args: &ParityArgs, global: &Global, printer: Printer) -> Result<(), Failure> {
    if args.instructions {
        measure::check_counting()?;
    }
    let catalogue = global.catalogue()?;
    let prepared = sweep::prepare(&request(args)?, &catalogue, measure::memory_mib())?;
    let wanted = only(&prepared)?;
    let sysbench = Sysbench::find(&args.sysbench)?;
    let account = args.servers.account()?;
    let stop = process::interrupt_flag();
    watch_signals(&stop)?;
    let control = Control { stop, ..Control::default() };
    let is_measuring = args.seconds >= SHORTEST_MEASURING && !args.instructions;
    let _lock = is_measuring.then(|| MachineLock::take(&std::env::temp_dir().join(MachineLock::FILE))).transpose()?;
    let build = get(args, wanted, &catalogue, &account, printer)?;
    let pgbench = Pgbench::find(&build.program("pgbench"));
    announce(args, &build, &sysbench, pgbench.as_ref(), printer);
    let clients = Clients { sysbench, pgbench };
    if args.load {
        let fill = |bench: &mut ParityBench<'_>| bench.measure_load();
        let result = on_server(args, &prepared, build, &clients, &account, &control, &fill);
        return Ok(printer.data(&loads(&analysis::parity(&result.map_err(failure)?), args))?);
    }
    let walk = |bench: &mut ParityBench<'_>| walk(bench, &prepared, args.instructions, printer);
    let results = on_server(args, &prepared, build, &clients, &account, &control, &walk).map_err(failure)?;
    let text = match (args.json, args.instructions) {
        (true, _) => in_json(&results, args),
        (false, true) => counts(&results),
        (false, false) => table(&results, args),
    };
    printer.data(&text)?;
    if results.iter().all(|result| result.failures().is_empty()) { Ok(()) } else { Err(Failure::Incomplete) }
}

/// What a sweep of the smoke profile would need, with other numbers: suite, settings and release come from it.
fn request(args: &ParityArgs) -> Result<SweepRequest, Failure> {
    let profile = profile::find(SMOKE).ok_or_else(|| anyhow!("there is no profile '{SMOKE}'"))?;
    Ok(SweepRequest {
        variants: args.servers.variants.clone(),
        rows: Some(args.rows),
        benches: args.benches.clone(),
        unix_socket: args.transport == "unix",
        ..SweepRequest::new(args.range.clone(), profile)
    })
}

/// The one server that the arguments name.
fn only(prepared: &Prepared) -> Result<&WantedServer, Failure> {
    match prepared.wanted.as_slice() {
        [one] => Ok(one),
        several => {
            let labels: Vec<String> = several.iter().map(WantedServer::label).collect();
            Err(anyhow!("parity compares clients on one server, and these are {}: name one", labels.join(", ")).into())
        }
    }
}

fn get(
    args: &ParityArgs,
    wanted: &WantedServer,
    catalogue: &Catalogue,
    account: &Account,
    printer: Printer,
) -> Result<Build, Failure> {
    let builder = args.servers.builder(account)?;
    let choices = builder.plan(&servers::requests(std::slice::from_ref(wanted), catalogue))?;
    let choices = choices.first().map_or(&[][..], Vec::as_slice);
    let build = builder.provide(choices, &mut |note| printer.say(&format!("note: {note}")));
    if process::is_interrupted() {
        return Err(Failure::Interrupted(anyhow!("interrupted")));
    }
    Ok(build?)
}

/// What is compared, and how.
fn announce(args: &ParityArgs, build: &Build, sysbench: &Sysbench, pgbench: Option<&Pgbench>, printer: Printer) {
    printer.say(&format!("server: PostgreSQL {}, {}", build.label(), build.provenance));
    let pgbench = pgbench.map_or("without pgbench, which is not on this machine", Pgbench::version);
    printer.say(&format!("clients: regtrack, {}, {pgbench}", sysbench.version()));
    let (rows, rounds, seconds, placement) = (args.rows, args.rounds, args.seconds, args.placement);
    if args.instructions {
        printer.say(&format!("{} rows, {}, the server under valgrind", args.table_rows(), args.transport));
        return;
    }
    if args.load {
        printer.say(&format!("{rows} rows, {rounds} rounds, {}, placement {placement}", args.transport));
        return;
    }
    printer.say(&format!("{rows} rows, {rounds} rounds of {seconds} s, {}, placement {placement}", args.transport));
    if args.seconds < SHORTEST_MEASURING {
        printer.say(&format!("note: Runs of {seconds} s prove that everything works; the ratios are noise."));
    }
}

/// Does `work` on a server of its own. Nothing of it is left afterwards, but its log when something failed.
fn on_server<T>(
    args: &ParityArgs,
    prepared: &Prepared,
    build: Build,
    clients: &Clients,
    account: &Account,
    control: &Control,
    work: &dyn Fn(&mut ParityBench<'_>) -> Result<T, MeasureError>,
) -> anyhow::Result<T> {
    use std::os::unix::fs::PermissionsExt as _;
    // The servers' account has to get to its data in there.
    let mode = std::fs::Permissions::from_mode(0o711);
    let clusters = std::path::absolute(&args.clusters)?;
    let directory = tempfile::Builder::new().prefix("regtrack-parity-").permissions(mode).tempdir_in(&clusters);
    let directory = directory.with_context(|| format!("could not make a directory in {}", clusters.display()))?;
    if !account.can_enter(directory.path()) {
        let (name, clusters) = (&account.name, clusters.display());
        return Err(anyhow!("the account {name} cannot enter {clusters}; choose another directory with --clusters"));
    }
    let spec = spec(args, prepared, build, directory.path())?;
    let start = StartOptions { unix_socket: args.transport == "unix", ..StartOptions::default() };
    let results = ParityBench::open(&spec, clients, account, &start, control).and_then(|mut bench| {
        let results = work(&mut bench)?;
        bench.close()?;
        Ok(results)
    });
    if results.is_err() && !process::is_interrupted() {
        // The error names the log. The server is stopped.
        let _ = std::fs::remove_dir_all(spec.data());
        let _ = directory.keep();
    }
    Ok(results?)
}

fn spec(args: &ParityArgs, prepared: &Prepared, build: Build, directory: &Path) -> anyhow::Result<ParitySpec> {
    Ok(ParitySpec {
        directory: directory.to_owned(),
        settings: prepared.config.render(build.version.major, prepared.memory_mib)?,
        build,
        init: prepared.init_options(),
        suite: prepared.suite.clone(),
        options: twins::options()?,
        rows: args.table_rows(),
        rounds: args.rounds,
        seconds: args.seconds,
        placement: args.placement,
        counted: args.instructions,
        waiting: if args.wait == "poll" { Waiting::Poll } else { Waiting::Receive },
    })
}

/// The microbenchmarks one after the other.
fn walk(
    bench: &mut ParityBench<'_>,
    prepared: &Prepared,
    counted: bool,
    printer: Printer,
) -> Result<Vec<Parity>, MeasureError> {
    let names = &prepared.protocol.microbenchmarks;
    let chosen = prepared.suite.microbenchmarks.iter().filter(|one| names.contains(&one.name));
    let mut results = Vec::new();
    for (index, microbenchmark) in chosen.enumerate() {
        let record = if counted { bench.count(microbenchmark) } else { bench.measure(microbenchmark) };
        let result = analysis::parity(&record?);
        let cells = cells(&result);
        let head = format!("{}/{} {}: statements {}", index + 1, names.len(), cells[0], cells[1]);
        if counted {
            printer.say(&format!("{head}, backend's instructions {}", ratio_text(result.instructions_ratio())));
        } else {
            printer.say(&format!("{head}, backend CPU {}, client CPU {}, QPS {}", cells[2], cells[3], cells[4]));
        }
        results.push(result);
    }
    Ok(results)
}

fn failure(error: anyhow::Error) -> Failure {
    match error.downcast_ref() {
        Some(MeasureError::Interrupted) => Failure::Interrupted(error),
        _ if process::is_interrupted() => Failure::Interrupted(error),
        _ => Failure::Error(error),
    }
}

// ------------------------------------------------------------------------------------------ output

/// One line per microbenchmark, and their means; then what keeps the clients from being called equal.
fn table(results: &[Parity], args: &ParityArgs) -> String {
    let mut header = vec!["microbenchmark", "statements", "backend CPU", "client CPU", "QPS", "QPS, to pgbench"];
    let mut rows: Vec<Vec<String>> = results.iter().map(|result| cells(result).to_vec()).collect();
    let mean = |of: fn(&Parity) -> Option<Ratio>| ratio_text(Ratio::mean_of(results.iter().filter_map(of)));
    let equal = results.iter().filter(|result| result.statements_equal()).count();
    rows.push(vec![
        "geometric mean".to_owned(),
        format!("{equal} of {} equal", results.len()),
        mean(|result| result.backend_cpu),
        mean(|result| result.client_cpu),
        mean(|result| result.qps),
        mean(|result| result.pgbench_qps),
    ]);
    let mut of = "regtrack / sysbench, in the last column regtrack / pgbench; CPU time per query";
    if results.iter().all(|result| result.pgbench_qps.is_none()) {
        of = "regtrack / sysbench; CPU time per query";
        header.pop();
        for row in &mut rows {
            row.truncate(header.len());
        }
    }
    let interval = if args.rounds > 1 { "; in brackets the 95 % interval over the rounds" } else { "" };
    let mut text = format!("{of}{interval}\n\n{}", tables::listing(&header, rows));
    append_failures(&mut text, results);
    text
}

fn append_failures(text: &mut String, results: &[Parity]) {
    for failure in results.iter().flat_map(Parity::failures) {
        // Writing to a string does not fail.
        let _ = write!(text, "\ndifferent: {failure}");
    }
}

/// The instructions of the backend under both clients.
fn counts(results: &[Parity]) -> String {
    let ratio = |ratio: Option<Ratio>| ratio.map_or_else(|| "–".to_owned(), |ratio| format!("{:.4}", ratio.mean));
    let count = |count: Option<f64>| count.map_or_else(|| "–".to_owned(), |count| format!("{count:.0}"));
    let mut rows: Vec<Vec<String>> = results
        .iter()
        .map(|result| {
            let (ours, theirs) = result.instructions.unzip();
            let [name, statements, ..] = cells(result);
            let rows = if result.alike { "" } else { ", of other rows" };
            let ratio = ratio(result.instructions_ratio()) + rows;
            vec![name, statements, count(ours), count(theirs), ratio]
        })
        .collect();
    let equal = results.iter().filter(|result| result.statements_equal()).count();
    let mean = Ratio::mean_of(results.iter().filter(|result| result.alike).filter_map(Parity::instructions_ratio));
    let dash = || "–".to_owned();
    let words = format!("{equal} of {} equal", results.len());
    rows.push(vec!["geometric mean".to_owned(), words, dash(), dash(), ratio(mean)]);
    let header = ["microbenchmark", "statements", "regtrack", "sysbench", "ratio"];
    let mut text = format!("instructions of the backend per query\n\n{}", tables::listing(&header, rows));
    append_failures(&mut text, results);
    text
}

/// How fast both filled the table.
fn loads(result: &Parity, args: &ParityArgs) -> String {
    let (ours, theirs) = (result.regtrack.qps, result.sysbench.qps);
    if args.json {
        let (low, high) = result.qps.and_then(|ratio| ratio.interval).unzip();
        let entry = json!({
            "rows": args.rows,
            "rounds": result.rounds,
            "load_ratio": result.qps.map(|ratio| ratio.mean),
            "load_ratio_low": low,
            "load_ratio_high": high,
            "regtrack_rows_per_second": ours,
            "sysbench_rows_per_second": theirs,
        });
        return format!("{entry:#}");
    }
    let ratio = ratio_text(result.qps);
    format!(
        "loading {} rows with both indexes, mean of {} rounds\n  regtrack {ours:.0} rows/s, digest included\n  \
         sysbench {theirs:.0} rows/s\n  regtrack / sysbench {ratio}",
        args.rows, result.rounds
    )
}

fn cells(result: &Parity) -> [String; 6] {
    [
        result.name.clone(),
        if result.statements_equal() { "equal" } else { "different" }.to_owned(),
        ratio_text(result.backend_cpu),
        ratio_text(result.client_cpu),
        ratio_text(result.qps),
        ratio_text(result.pgbench_qps),
    ]
}

fn ratio_text(ratio: Option<Ratio>) -> String {
    match ratio {
        None => "–".to_owned(),
        Some(Ratio { mean, interval: None }) => format!("{mean:.3}"),
        Some(Ratio { mean, interval: Some((low, high)) }) => format!("{mean:.3} [{low:.3}, {high:.3}]"),
    }
}

fn in_json(results: &[Parity], args: &ParityArgs) -> String {
    let entries: Vec<Value> = results.iter().map(|result| entry(result, args)).collect();
    format!("{:#}", Value::from(entries))
}

fn entry(result: &Parity, args: &ParityArgs) -> Value {
    if let Some((regtrack, sysbench)) = result.instructions {
        return json!({
            "name": result.name,
            "statements_equal": result.statements_equal(),
            "failures": result.failures(),
            "rows_alike": result.alike,
            "backend_instructions_ratio": result.instructions_ratio().map(|ratio| ratio.mean),
            "regtrack_backend_instructions_per_query": regtrack,
            "sysbench_backend_instructions_per_query": sysbench,
        });
    }
    let mut entry = json!({
        "name": result.name,
        "rounds": result.rounds,
        "placement": args.placement.to_string(),
        "wait": args.wait,
        "statements_equal": result.statements_equal(),
        "failures": result.failures(),
    });
    let ratios = [
        ("backend_cpu_ratio", result.backend_cpu),
        ("client_cpu_ratio", result.client_cpu),
        ("qps_ratio", result.qps),
        ("pgbench_qps_ratio", result.pgbench_qps),
    ];
    for (name, ratio) in ratios {
        // A column that does not fit is left out, not null.
        let Some(Ratio { mean, interval }) = ratio else { continue };
        entry[name] = json!(mean);
        let (low, high) = interval.unzip();
        entry[format!("{name}_low")] = json!(low);
        entry[format!("{name}_high")] = json!(high);
    }
    for (client, rates) in [("regtrack", result.regtrack), ("sysbench", result.sysbench)] {
        entry[format!("{client}_qps")] = json!(rates.qps);
        entry[format!("{client}_client_cpu_us_per_query")] = json!(rates.client_cpu_us);
        entry[format!("{client}_backend_cpu_us_per_query")] = json!(rates.backend_cpu_us);
        entry[format!("{client}_backend_sleeps_per_query")] = json!(rates.backend_sleeps);
    }
    entry
}
