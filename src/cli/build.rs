//! `regtrack build RANGE` and `regtrack build COMMIT`

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::anyhow;
use clap::Args;
use serde::Serialize;

use super::printer::Printer;
use super::servers::{self, ServerArgs, watch_signals};
use super::{Failure, Global, tables};
use crate::build::{self, BuildError, Builder as _, Builds, Progress, Proof, Request};
use crate::catalog::versions::Catalogue;
use crate::domain::{
    Bound, Build, BuildFingerprint, Major, Placement, Release, ReleaseRange, Source, Term, VariantName, Version,
};
use crate::load::Control;
use crate::measure::{self, LaunchSpec, LiveBench};
use crate::process;
use crate::server::{Account, StartOptions};
use crate::sweep::profile;
use crate::sweep::{self, Prepared, SweepRequest, WantedServer};

/// Rows of the table that a proof works on.
const PROOF_ROWS: u64 = 1000;

/// Short enough for one event per microbenchmark, and not zero, which would be none.
const PROOF_SECONDS: f64 = 1e-9;

/// Arguments of `build`.
#[derive(Debug, Args)]
pub(super) struct BuildArgs {
    /// Releases, such as 16..18, 9.0..18, 14.10..16.2 or 9.6,17.3; or a commit, tag or branch of --source=git=REPO
    #[arg(id = "range", value_name = "RANGE|COMMIT")]
    what: What,
    /// Every minor in the range instead of the latest of each major
    #[arg(long)]
    minors: bool,
    #[command(flatten)]
    servers: ServerArgs,
    /// Do not start the servers to prove that they work
    #[arg(long)]
    no_proof: bool,
    /// Get the releases from each of these sources, and print a Markdown table of what came out
    #[arg(long, value_name = "SOURCE", value_delimiter = ',', conflicts_with_all = ["source", "json"])]
    matrix: Vec<Source>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What a person asks to be built.
#[derive(Debug, Clone)]
enum What {
    Releases(ReleaseRange),
    Revision(String),
}

impl std::str::FromStr for What {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(range) => Ok(Self::Releases(range)),
            // A commit has no dots in it that a range would have, and a tag starts with a letter.
            Err(error) if text.contains("..") || text.contains(',') || text.is_empty() => Err(error.to_string()),
            Err(_) => Ok(Self::Revision(text.to_owned())),
        }
    }
}

/// How one server came out. Field names are part of the JSON output.
#[derive(Debug, Serialize)]
struct Line {
    /// What was asked for.
    release: Version,
    /// What was got: another minor where only the major was named.
    version: Option<Version>,
    /// How it was to be compiled.
    variant: VariantName,
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
    /// Whether the source does not have the release.
    #[serde(skip)]
    absent: bool,
    #[serde(skip)]
    label: String,
    #[serde(skip)]
    toolchain: String,
}

pub(super) fn run(args: &BuildArgs, global: &Global, printer: Printer) -> Result<(), Failure> {
    let catalogue = global.catalogue()?;
    let mut work = Work::prepare(args, &catalogue, printer)?;
    let complete = if args.matrix.is_empty() {
        let lines = work.all(&work.source())?;
        if args.json {
            printer.data(&serde_json::to_string_pretty(&lines)?)?;
        }
        lines.iter().all(|line| line.error.is_none())
    } else {
        let columns: Vec<(String, Vec<Line>)> = (args.matrix.iter())
            .map(|source| Ok((source.to_string(), work.all(source)?)))
            .collect::<Result<_, Failure>>()?;
        printer.data(&matrix(&columns))?;
        columns.iter().flat_map(|(_, lines)| lines).all(|line| line.error.is_none() || line.absent)
    };
    if complete { Ok(()) } else { Err(Failure::Incomplete) }
}

/// What a proof runs: the built-in suite with the settings of a sweep, once each.
fn proof_request(args: &BuildArgs, range: ReleaseRange) -> Result<SweepRequest, Failure> {
    let profile = profile::find(super::sweep::SMOKE).ok_or_else(|| anyhow!("there is no profile for proofs"))?;
    Ok(SweepRequest {
        minors: args.minors,
        variants: args.servers.variants.clone(),
        rows: Some(PROOF_ROWS),
        seconds: Some(PROOF_SECONDS),
        warmup_seconds: Some(0.0),
        launches: Some(1),
        ..SweepRequest::new(range, profile)
    })
}

/// Everything that getting servers and proving them takes.
struct Work<'a> {
    args: &'a BuildArgs,
    catalogue: &'a Catalogue,
    prepared: Prepared,
    account: Account,
    bench: LiveBench,
    printer: Printer,
}

impl<'a> Work<'a> {
    fn prepare(args: &'a BuildArgs, catalogue: &'a Catalogue, printer: Printer) -> Result<Self, Failure> {
        let prepare = |range| -> Result<Prepared, Failure> {
            Ok(sweep::prepare(&proof_request(args, range)?, catalogue, measure::memory_mib())?)
        };
        let prepared = match &args.what {
            What::Releases(range) => prepare(range.clone())?,
            What::Revision(revision) => {
                let release = release_of(&args.servers.source, revision)?;
                // Only for what a proof runs: a commit may be of a major that is not in the catalogue yet.
                let mut known = catalogue.majors().iter().map(|major| major.major);
                let near = known.rfind(|major| *major <= release.version.major).unwrap_or(release.version.major);
                let mut prepared = prepare(ReleaseRange { terms: vec![Term::One(Bound::Major(near))] })?;
                for server in &mut prepared.wanted {
                    (server.release, server.floating) = (release.clone(), true);
                }
                prepared
            }
        };
        let account = args.servers.account()?;
        let stop = process::interrupt_flag();
        watch_signals(&stop)?;
        let control = Arc::new(Control { stop, ..Control::default() });
        let start = StartOptions::default();
        let bench = LiveBench { account: account.clone(), start, control, placement: Placement::Free };
        Ok(Self { args, catalogue, prepared, account, bench, printer })
    }

    /// The source that was named, with the commit where that is what was asked for.
    fn source(&self) -> Source {
        match (&self.args.what, &self.args.servers.source) {
            (What::Revision(revision), Source::Git { repository, .. }) => {
                Source::Git { repository: repository.clone(), revision: Some(revision.clone()) }
            }
            (_, source) => source.clone(),
        }
    }

    /// Gets all servers from a source, side by side, and proves each as soon as it is there.
    fn all(&mut self, source: &Source) -> Result<Vec<Line>, Failure> {
        let builder = self.args.servers.builder_from(source, &self.account)?;
        let requests = servers::requests(&self.prepared.wanted, self.catalogue);
        let mut refused: Vec<Option<BuildError>> = requests.iter().map(|_| None).collect();
        let choices = if self.args.matrix.is_empty() {
            builder.plan(&requests)?
        } else {
            // A release that a source cannot have is one failed cell and no reason to leave out the others.
            let alone = |(request, refused): (&Request, &mut Option<BuildError>)| {
                let rows = builder.plan(std::slice::from_ref(request)).map_err(|error| *refused = Some(error));
                rows.map(|mut rows| rows.remove(0)).unwrap_or_default()
            };
            requests.iter().zip(&mut refused).map(alone).collect()
        };
        let wanted = self.prepared.wanted.clone();
        let mut begin: Vec<Instant> = choices.iter().map(|_| Instant::now()).collect();
        let mut lines: Vec<Option<Line>> = choices.iter().map(|_| None).collect();
        let (mut broken, mut told) = (None, 0);
        builder.provide_all(&choices, &mut |index, progress| match progress {
            Progress::Started => begin[index] = Instant::now(),
            Progress::Note(note) => self.printer.say(&format!("note: {note}")),
            Progress::Done(provided) => {
                let seconds = begin[index].elapsed().as_secs_f64();
                let provided = refused[index].take().map_or(*provided, Err);
                let line = self.line(&wanted[index], provided, seconds, &builder);
                lines[index] = Some(line);
                // In the order of the releases, whichever was done first.
                while let Some(line) = lines.get(told).and_then(Option::as_ref) {
                    if !self.args.json && self.args.matrix.is_empty() && !process::is_interrupted() {
                        broken = self.printer.data(&line.text()).err().or(broken.take());
                    }
                    told += 1;
                }
            }
        });
        if process::is_interrupted() {
            return Err(Failure::Interrupted(anyhow!("interrupted")));
        }
        broken.map_or(Ok(()), Err)?;
        Ok(lines.into_iter().flatten().collect())
    }

    /// What came out for one server, with its proof.
    fn line(
        &mut self,
        wanted: &WantedServer,
        provided: Result<Build, BuildError>,
        seconds: f64,
        builder: &Builds,
    ) -> Line {
        let mut line = Line::new(wanted, provided.as_ref().ok(), seconds);
        line.absent = provided.as_ref().is_err_and(BuildError::is_absence);
        let proved = match provided {
            Err(error) => Err(anyhow::Error::from(error)),
            Ok(_) if self.args.no_proof => Ok(None),
            Ok(build) => {
                let printer = self.printer;
                let mut say = |note: &str| printer.say(&format!("note: {note}"));
                prove(&build, &self.prepared, builder, &self.bench, &mut say).map(Some)
            }
        };
        match proved {
            Ok(seconds) => {
                line.proved = seconds.is_some();
                line.proof_seconds = seconds;
            }
            Err(error) => {
                // A table has a sign for what a source does not have.
                if !process::is_interrupted() && (!line.absent || self.args.matrix.is_empty()) {
                    self.printer.error(&error);
                }
                line.error = Some(format!("{error:#}"));
            }
        }
        line
    }
}

/// The release that stands for a commit: its version, and nothing that only a published release has.
fn release_of(source: &Source, revision: &str) -> Result<Release, Failure> {
    let Source::Git { repository, revision: None } = source else {
        let text = format!("'{revision}' is no release; a commit, tag or branch needs --source=git=REPO");
        return Err(anyhow!(text).into());
    };
    let version = build::version_of(repository, revision)?;
    let (tag, archive) = (String::new(), String::new());
    Ok(Release { version, date: None, tag, archive, sha256: None, prebuilt: None })
}

/// Releases as rows, sources as columns; below them the reasons of what failed.
fn matrix(columns: &[(String, Vec<Line>)]) -> String {
    let mut majors: Vec<(Major, String)> = Vec::new();
    for line in columns.iter().flat_map(|(_, lines)| lines) {
        let key = (line.release.major, line.variant.to_string());
        if !majors.contains(&key) {
            majors.push(key);
        }
    }
    let mut reasons = String::new();
    let sources: Vec<String> = columns.iter().map(|(source, _)| format!("`{source}`")).collect();
    let header: Vec<&str> = std::iter::once("Release").chain(sources.iter().map(String::as_str)).collect();
    let mut rows = Vec::new();
    for (major, variant) in &majors {
        let is_default = variant == VariantName::DEFAULT;
        let mut row = vec![if is_default { major.to_string() } else { format!("{major} {variant}") }];
        for (source, lines) in columns {
            let here = lines.iter().filter(|line| line.release.major == *major && line.variant.to_string() == *variant);
            let mut cells = Vec::new();
            for line in here {
                cells.push(line.cell());
                if let Some(error) = line.error.as_ref().filter(|_| !line.absent) {
                    let reason = error.lines().next().unwrap_or_default();
                    let _ = write!(reasons, "\n- {} from `{source}`: {reason}", line.label);
                }
            }
            row.push(cells.join(", "));
        }
        rows.push(row);
    }
    let reasons = if reasons.is_empty() { reasons } else { format!("\n\nFailed:\n{reasons}") };
    format!("{}{reasons}", tables::markdown(&header, rows))
}

/// Proves a build and returns the seconds that it took.
fn prove(
    build: &Build,
    prepared: &Prepared,
    builder: &Builds,
    bench: &LiveBench,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<f64> {
    let settings = servers::settings(prepared, build, &bench.account)?;
    let stamp = format!("{} {}\n", prepared.protocol.suite_hash, prepared.protocol.config_hash);
    let spec = |directory: &Path, log: &Path| LaunchSpec {
        directory: directory.join("launch"),
        template: None,
        log: log.to_owned(),
        build: build.clone(),
        brake: None,
        settings,
        init: prepared.init_options(),
        suite: Arc::clone(&prepared.suite),
        protocol: prepared.protocol.clone(),
        seed: 1,
        plans: false,
    };
    let begin = Instant::now();
    let proof = builder.prove(build, &stamp, say, |directory, log| measure::prove(bench, &spec(directory, log)))?;
    match proof {
        Proof::Passed | Proof::Known => Ok(begin.elapsed().as_secs_f64()),
        Proof::Failed(error) => Err(error.into()),
    }
}

impl Line {
    fn new(wanted: &WantedServer, build: Option<&Build>, seconds: f64) -> Self {
        let fingerprint = build.map(|build| &build.fingerprint);
        Self {
            release: wanted.release.version,
            version: build.map(|build| build.version),
            variant: wanted.variant.name.clone(),
            provenance: build.map(|build| build.provenance.to_string()),
            compiler: fingerprint.and_then(|fingerprint| fingerprint.compiler.clone()),
            cflags: fingerprint.and_then(|fingerprint| fingerprint.cflags.clone()),
            prefix: build.map(|build| build.prefix.display().to_string()),
            seconds,
            proof_seconds: None,
            proved: false,
            error: None,
            absent: false,
            label: build.map_or_else(|| wanted.label(), Build::label),
            toolchain: fingerprint.map(BuildFingerprint::toolchain).unwrap_or_default(),
        }
    }

    /// The line as a cell of the matrix.
    fn cell(&self) -> String {
        match (&self.error, self.version) {
            (None, Some(version)) if self.proved => format!("{version} proved"),
            (None, Some(version)) => format!("{version} built"),
            _ if self.absent => "–".to_owned(),
            _ => "failed".to_owned(),
        }
    }

    fn text(&self) -> String {
        let version = &self.label;
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
