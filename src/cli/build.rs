//! `regtrack build RANGE`

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::anyhow;
use clap::Args;
use serde::Serialize;

use super::printer::Printer;
use super::servers::{self, ServerArgs, watch_signals};
use super::{Failure, Global};
use crate::build::{Builder as _, Builds, Choice, Proof};
use crate::domain::{Build, BuildFingerprint, ReleaseRange, Version};
use crate::load::Control;
use crate::measure::{self, LaunchSpec, LiveBench};
use crate::process;
use crate::server::StartOptions;
use crate::sweep::profile;
use crate::sweep::{self, Prepared, SweepRequest};

/// Rows of the table that a proof works on.
const PROOF_ROWS: u64 = 1000;

/// Short enough for one event per microbenchmark, and not zero, which would be none.
const PROOF_SECONDS: f64 = 1e-9;

/// Arguments of `build`.
#[derive(Debug, Args)]
pub(super) struct BuildArgs {
    /// Releases, such as 16..18, 9.0..18, 14.10..16.2 or 9.6,17.3
    range: ReleaseRange,
    /// Every minor in the range instead of the latest of each major
    #[arg(long)]
    minors: bool,
    #[command(flatten)]
    servers: ServerArgs,
    /// Do not start the servers to prove that they work
    #[arg(long)]
    no_proof: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// How one release came out. Field names are part of the JSON output.
#[derive(Debug, Serialize)]
struct Line {
    /// What was asked for.
    release: Version,
    /// What was got: another minor where only the major was named.
    version: Option<Version>,
    provenance: Option<String>,
    compiler: Option<String>,
    cflags: Option<String>,
    prefix: Option<String>,
    /// Time for getting it, next to nothing when it was in the cache.
    seconds: f64,
    /// Time for the proof; absent without one.
    proof_seconds: Option<f64>,
    /// Whether it was proved, now or by an earlier call.
    proved: bool,
    error: Option<String>,
    #[serde(skip)]
    toolchain: String,
}

pub(super) fn run(args: &BuildArgs, global: &Global, printer: Printer) -> Result<(), Failure> {
    let catalogue = global.catalogue()?;
    let prepared = sweep::prepare(&proof_request(args)?, &catalogue, measure::memory_mib())?;
    let account = args.servers.account()?;
    let mut builder = args.servers.builder(&account)?;
    let choices = builder.plan(&servers::requests(&prepared.selected, &catalogue))?;
    let stop = process::interrupt_flag();
    watch_signals(&stop)?;
    let control = Arc::new(Control { stop, ..Control::default() });
    let mut bench = LiveBench { account, start: StartOptions { port: None, unix_socket: false }, control };

    let mut lines = Vec::new();
    for (selected, choices) in prepared.selected.iter().zip(&choices) {
        let proof = (!args.no_proof).then_some(&prepared);
        let line = one(selected.release.version, choices, proof, &mut builder, &mut bench, printer);
        if process::is_interrupted() {
            return Err(Failure::Interrupted(anyhow!("interrupted")));
        }
        if !args.json {
            printer.data(&line.text())?;
        }
        lines.push(line);
    }
    if args.json {
        printer.data(&serde_json::to_string_pretty(&lines)?)?;
    }
    if lines.iter().any(|line| line.error.is_some()) { Err(Failure::Incomplete) } else { Ok(()) }
}

/// What a proof runs: the built-in suite with the settings of a sweep, once each.
fn proof_request(args: &BuildArgs) -> Result<SweepRequest, Failure> {
    let profile = profile::find(super::sweep::SMOKE).ok_or_else(|| anyhow!("there is no profile for proofs"))?;
    Ok(SweepRequest {
        minors: args.minors,
        rows: Some(PROOF_ROWS),
        seconds: Some(PROOF_SECONDS),
        warmup_seconds: Some(0.0),
        launches: Some(1),
        ..SweepRequest::new(args.range.clone(), profile)
    })
}

/// Gets and proves one release.
fn one(
    release: Version,
    choices: &[Choice],
    proof: Option<&Prepared>,
    builder: &mut Builds,
    bench: &mut LiveBench,
    printer: Printer,
) -> Line {
    let mut say = |note: &str| printer.say(&format!("note: {note}"));
    let begin = Instant::now();
    let provided = builder.provide(choices, &mut say);
    let mut line = Line::new(release, provided.as_ref().ok(), begin.elapsed().as_secs_f64());
    let proved = match (provided, proof) {
        (Err(error), _) => Err(anyhow::Error::from(error)),
        (Ok(_), None) => Ok(None),
        (Ok(build), Some(prepared)) => prove(&build, prepared, builder, bench, &mut say).map(Some),
    };
    match proved {
        Ok(seconds) => {
            line.proved = seconds.is_some();
            line.proof_seconds = seconds;
        }
        Err(error) => {
            if !process::is_interrupted() {
                printer.error(&error);
            }
            line.error = Some(format!("{error:#}"));
        }
    }
    line
}

/// Proves a build and returns the seconds that it took.
fn prove(
    build: &Build,
    prepared: &Prepared,
    builder: &mut Builds,
    bench: &mut LiveBench,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<f64> {
    let settings = prepared.config.render(build.version.major, prepared.memory_mib)?;
    let stamp = format!("{} {}\n", prepared.protocol.suite_hash, prepared.protocol.config_hash);
    let spec = |directory: &Path, log: &Path| LaunchSpec {
        directory: directory.join("launch"),
        log: log.to_owned(),
        build: build.clone(),
        settings,
        init: prepared.init_options(),
        suite: Arc::clone(&prepared.suite),
        protocol: prepared.protocol.clone(),
        seed: 1,
    };
    let begin = Instant::now();
    let proof = builder.prove(build, &stamp, say, |directory, log| measure::prove(bench, &spec(directory, log)))?;
    match proof {
        Proof::Passed | Proof::Known => Ok(begin.elapsed().as_secs_f64()),
        Proof::Failed(error) => Err(error.into()),
    }
}

impl Line {
    fn new(release: Version, build: Option<&Build>, seconds: f64) -> Self {
        let fingerprint = build.map(|build| &build.fingerprint);
        Self {
            release,
            version: build.map(|build| build.version),
            provenance: build.map(|build| build.provenance.to_string()),
            compiler: fingerprint.and_then(|fingerprint| fingerprint.compiler.clone()),
            cflags: fingerprint.and_then(|fingerprint| fingerprint.cflags.clone()),
            prefix: build.map(|build| build.prefix.display().to_string()),
            seconds,
            proof_seconds: None,
            proved: false,
            error: None,
            toolchain: fingerprint.map(BuildFingerprint::toolchain).unwrap_or_default(),
        }
    }

    fn text(&self) -> String {
        let version = self.version.unwrap_or(self.release);
        if let Some(error) = &self.error {
            let reason = error.lines().next().unwrap_or_default();
            let reason = reason.strip_prefix(&format!("{version}: ")).unwrap_or(reason);
            return format!("{version}: failed: {reason}");
        }
        let proof = match self.proof_seconds {
            Some(seconds) => format!("proved in {seconds:.0} s"),
            None => "not proved".to_owned(),
        };
        format!(
            "{version}: {}; {}; {}; {:.0} s, {proof}",
            self.provenance.as_deref().unwrap_or_default(),
            self.toolchain,
            self.prefix.as_deref().unwrap_or_default(),
            self.seconds,
        )
    }
}
