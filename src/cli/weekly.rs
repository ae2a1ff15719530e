//! `regtrack weekly [RANGE]`: what a week has to measure, and what is new in it.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::{Args, Parser as _};
use jiff::Timestamp;

use super::printer::Printer;
use super::publish::PublishArgs;
use super::results::{Results, SiteOptions};
use super::sweep::{self, Job, SweepArgs};
use super::timer::TimerArgs;
use super::{Cli, Command, Failure, Global, history, mail, refresh, timer};
use crate::analysis;
use crate::catalog::listing::Place;
use crate::catalog::versions::Catalogue;
use crate::domain::{Bound, ReleaseRange, TargetId, Term, Week, WeekSummary, WeekTarget};
use crate::measure;
use crate::site;
use crate::store::{Store, StoreError};
use crate::sweep::weekly::{Candidate, Reason, anchor, due};
use crate::sweep::{SweepRequest, Walked, WantedServer, prepare};

/// Days after which a release is measured again.
const STALE_DAYS: u32 = 90;

/// Arguments of `weekly`.
#[derive(Debug, Args)]
#[command(
    after_help = "Without a range, the options are those of the last week. A second call in one week goes on with that \
                  week's sweep. docs/weekly.md says what is measured and what is told."
)]
pub(super) struct WeeklyArgs {
    #[command(flatten)]
    sweep: SweepArgs,
    /// The week to measure for, such as 2026-W49 [default: this week, UTC]
    #[arg(long, value_name = "WEEK")]
    week: Option<Week>,
    /// Days after which a release that is not the newest of its major is measured again [default: 90]
    #[arg(long, value_name = "DAYS")]
    stale: Option<u32>,
    /// Listing of source releases to look for new ones in, as for `versions refresh` [default: --archive-url]
    #[arg(long, value_name = "URL|FILE|DIR")]
    from: Vec<Place>,
    /// Do not look for new releases
    #[arg(long)]
    no_refresh: bool,
    /// Write what is new to FILE instead of standard output
    #[arg(long, value_name = "FILE")]
    mail_text: Option<PathBuf>,
    /// Address of the site, for links in feeds and mails
    #[arg(long, value_name = "URL", env = "REGTRACK_SITE_URL")]
    site_url: Option<String>,
    #[command(flatten)]
    publish: PublishArgs,
    #[command(flatten)]
    timer: TimerArgs,
}

pub(super) fn run(args: WeeklyArgs, global: &Global, printer: Printer) -> Result<(), Failure> {
    if args.timer.is_asked_for() {
        return timer::run(&args.timer, printer);
    }
    let (args, arguments, versions) = match &args.sweep.range {
        Some(_) => (args, std::env::args().skip(1).collect(), None),
        None => continued(args, global)?,
    };
    let global = &Global { versions: global.versions.clone().or(versions), ..global.clone() };
    let range = args.sweep.range.clone().context("the week to go on with names no releases")?;
    let week = args.week.unwrap_or_else(|| Week::at(Timestamp::now()));
    let site_dir = args.sweep.site.clone().unwrap_or_else(|| PathBuf::from("public"));
    // Not after hours of measuring.
    site::check(&site_dir)?;
    args.publish.check()?;
    let catalogue = catalogue(&args, global, printer)?;
    let past = history::summaries(global)?;
    let mut plan = Plan::new(&args.sweep, range, &catalogue, &past, week, args.stale.unwrap_or(STALE_DAYS))?;
    let description = plan.describe(&args.sweep, week);
    if args.sweep.dry_run {
        printer.data(&description)?;
        return Ok(());
    }
    printer.say(&description);
    plan.job.prepared.name = Some(week.to_string());
    let walked = plan.job.measure(&args.sweep, &arguments, global, printer)?;
    tell(&args, global, printer, &site_dir, past, walked)
}

/// The releases, with those that were announced since this program was made.
fn catalogue(args: &WeeklyArgs, global: &Global, printer: Printer) -> Result<Catalogue, Failure> {
    if args.no_refresh {
        return Ok(global.catalogue()?);
    }
    let published = || vec![Place::Url(args.sweep.servers.archive_url.clone())];
    let from = if args.from.is_empty() { published() } else { args.from.clone() };
    let (catalogue, additions) = refresh::fresh_catalogue(&from, args.sweep.dry_run, global, printer)?;
    for addition in additions.iter().filter(|addition| addition.new) {
        printer.say(&format!("new release {}", refresh::line(addition)));
    }
    Ok(catalogue)
}

/// The arguments of the last week, with this call's places and switches.
fn continued(args: WeeklyArgs, global: &Global) -> Result<(WeeklyArgs, Vec<String>, Option<PathBuf>), Failure> {
    let name_releases = "name the releases to measure, such as 16..18";
    let sweeps = match Store::open(&global.results).and_then(|store| store.sweeps()) {
        Err(StoreError::NoResults { .. }) => Vec::new(),
        sweeps => sweeps?,
    };
    let weekly = |arguments: &[String]| {
        let words = std::iter::once("regtrack".to_owned()).chain(arguments.iter().cloned());
        match Cli::try_parse_from(words) {
            Ok(Cli { global, command: Command::Weekly(args) }) => Some((*args, global.versions)),
            _ => None,
        }
    };
    let last = sweeps.iter().rev().find_map(|sweep| Some((weekly(&sweep.arguments)?, sweep.arguments.clone())));
    let ((previous, versions), arguments) = last.with_context(|| {
        format!("there is no week in '{}' to go on with; {name_releases}", global.results.display())
    })?;
    let merged = WeeklyArgs {
        sweep: args.sweep.over(previous.sweep),
        week: args.week,
        stale: args.stale.or(previous.stale),
        from: if args.from.is_empty() { previous.from } else { args.from },
        no_refresh: args.no_refresh || previous.no_refresh,
        mail_text: args.mail_text.or(previous.mail_text),
        site_url: args.site_url.or(previous.site_url),
        publish: args.publish.over(previous.publish),
        timer: args.timer,
    };
    Ok((merged, arguments, versions))
}

/// What a week measures.
struct Plan {
    job: Job,
    /// What is measured, and why.
    due: Vec<(String, Reason)>,
    /// What is not.
    idle: Vec<String>,
}

impl Plan {
    fn new(
        args: &SweepArgs,
        range: ReleaseRange,
        catalogue: &Catalogue,
        summaries: &[WeekSummary],
        week: Week,
        stale: u32,
    ) -> Result<Self, Failure> {
        let mut request = sweep::request(args, range);
        let mut job = job(args, &request, catalogue)?;
        let past = comparable(&job, summaries);
        if let Some(anchor) = anchor(&past).filter(|anchor| follows(args.base.as_deref(), anchor)) {
            let is_planned = planned(&job).iter().any(|server| server.label() == anchor.label);
            // A newer minor has taken its place in the range.
            if !is_planned && catalogue.find(anchor.version).is_some() {
                request.range.terms.push(Term::One(Bound::Version(anchor.version)));
                job = self::job(args, &request, catalogue)?;
            }
            if let Some(base) = planned(&job).iter().position(|server| server.label() == anchor.label) {
                job.prepared.base = base;
                job.prepared.base_is_given = true;
            }
        }
        let key = |choices: &Vec<_>| choices.first().and_then(|choice| job.builder.known_key(choice));
        let servers = planned(&job).into_iter().zip(job.choices.iter().map(key));
        let candidates: Vec<Candidate> = servers.map(|(server, key)| Candidate { server, key }).collect();
        let reasons = due(&candidates, job.prepared.base, &past, week, stale);
        let (mut due, mut idle, mut kept) = (Vec::new(), Vec::new(), Vec::new());
        for (index, (candidate, reason)) in candidates.iter().zip(reasons).enumerate() {
            let label = candidate.server.label();
            match reason {
                Some(reason) => {
                    due.push((label, reason));
                    kept.push(index);
                }
                None => idle.push(label),
            }
        }
        job.keep(&kept);
        Ok(Self { job, due, idle })
    }

    fn describe(&self, args: &SweepArgs, week: Week) -> String {
        let mut text = format!("week {week}\n{}\n  due:", self.job.describe(args));
        for (label, reason) in &self.due {
            let _ = write!(text, "\n    {label}: {reason}");
        }
        if !self.idle.is_empty() {
            let _ = write!(text, "\n  measured before and not due: {}", self.idle.join(", "));
        }
        text
    }
}

fn job(args: &SweepArgs, request: &SweepRequest, catalogue: &Catalogue) -> Result<Job, Failure> {
    Job::new(args, prepare(request, catalogue, measure::memory_mib())?, catalogue)
}

/// The wanted servers as they are planned to be got: another minor may stand in for one.
fn planned(job: &Job) -> Vec<WantedServer> {
    let servers = job.prepared.wanted.iter().zip(&job.choices);
    let one = |(server, choices): (&WantedServer, &Vec<crate::build::Choice>)| match choices.first() {
        Some(choice) => WantedServer { release: choice.release().clone(), ..server.clone() },
        None => server.clone(),
    };
    servers.map(one).collect()
}

/// The sweeps with which this week's can be compared, whatever their base was.
fn comparable(job: &Job, summaries: &[WeekSummary]) -> Vec<WeekSummary> {
    let host = measure::fingerprint(&std::env::temp_dir());
    let key = analysis::series_key(&job.prepared.protocol, Some(&host), &TargetId(String::new()));
    summaries.iter().filter(|summary| summary.series.is_like(&key)).cloned().collect()
}

/// Whether the base of the weeks before may stay: none was asked for, or just its major.
fn follows(base: Option<&str>, anchor: &WeekTarget) -> bool {
    base.is_none_or(|base| base == anchor.label || base == anchor.version.major.to_string())
}

/// A sweep that was begun anew in a week corrects what the one before it said.
fn with_corrections(summary: WeekSummary, past: &[WeekSummary], store: &Store) -> anyhow::Result<WeekSummary> {
    let of_week = past.iter().filter(|other| other.week == summary.week && other.series == summary.series);
    let last = of_week.max_by_key(|other| other.updated_at);
    if store.told(&summary.sweep)?.is_some() {
        return Ok(summary);
    }
    Ok(match last.map(|last| store.told(&last.sweep)).transpose()?.flatten() {
        Some(told) => analysis::corrected(summary, &told),
        None => summary,
    })
}

/// Says what is new: on the site, where it is published, and as text.
fn tell(
    args: &WeeklyArgs,
    global: &Global,
    printer: Printer,
    site_dir: &std::path::Path,
    mut past: Vec<WeekSummary>,
    walked: Walked,
) -> Result<(), Failure> {
    let results = Results::read(global, None)?;
    let summary = history::summary(&results)?.context("the sweep of this week was not measured here")?;
    past.retain(|other| other.sweep != summary.sweep);
    let summary = with_corrections(summary, &past, &results.store)?;
    past.push(summary.clone());
    let history = analysis::history(&past);
    let options = SiteOptions { history: Some(&history), url: args.site_url.as_deref() };
    let index = results.write_site(&results.report(None)?, site_dir, options)?;
    // From here on it counts as told.
    let lock = results.store.lock()?;
    results.store.write_told(&summary)?;
    results.store.pack(&summary.sweep)?;
    drop(lock);
    printer.say(&format!("{} slices measured, {} failed", walked.measured, walked.failed));
    printer.say(&format!("site: {}", index.display()));
    let week = summary.week;
    let place = history.series.iter().find(|series| series.key == summary.series);
    let place = place.and_then(|series| Some((series, series.weeks.iter().position(|one| one.week == week)?)));
    let (series, position) = place.context("this week is not part of the history")?;
    let text = mail::text(series, position, args.site_url.as_deref());
    match &args.mail_text {
        Some(file) => std::fs::write(file, &text).with_context(|| format!("could not write {}", file.display()))?,
        None => printer.data(&text)?,
    }
    args.publish.run(site_dir, printer)?;
    if walked.failed > 0 { Err(Failure::Incomplete) } else { Ok(()) }
}
