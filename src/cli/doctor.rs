//! `regtrack doctor`: whether this machine can do a sweep, and what would spoil it.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;

use super::printer::Printer;
use super::servers::default_cache;
use super::sweep::{SMOKE, SweepArgs, estimate, parse_profile};
use super::{Failure, Global, tables};
use crate::catalog::versions::Catalogue;
use crate::domain::{Bound, Finding, FindingStatus, ReleaseRange, Term};
use crate::measure;
use crate::measure::doctor::{Examination, Place, examine};
use crate::server::Account;
use crate::sweep::profile::Profile;
use crate::sweep::{self, Estimate, Prepared, SweepRequest};

/// Slices, manifests and logs of the largest sweeps, amply.
const RESULTS_BYTES: u64 = 500 << 20;

/// One compile while it runs, and the builds of a dozen releases (docs/builds.md).
const CACHE_BYTES: u64 = 3 << 30;

/// Arguments of `doctor`.
#[derive(Debug, Args)]
pub(super) struct DoctorArgs {
    /// Profile whose table and disk space are checked for; with smoke, noise is not measured
    #[arg(long, value_parser = parse_profile, default_value = "standard")]
    profile: &'static Profile,
    /// Account for the servers when regtrack is root [default: postgres, else nobody]
    #[arg(long, value_name = "ACCOUNT", env = "REGTRACK_RUN_AS")]
    run_as: Option<String>,
    /// Directory of the builds [default: the user's cache directory; for root /var/cache/regtrack]
    #[arg(long, value_name = "DIR", env = "REGTRACK_CACHE")]
    cache: Option<PathBuf>,
    /// Directory of the servers' data while they run [default: below the results]
    #[arg(long, value_name = "DIR", env = "REGTRACK_CLUSTERS")]
    clusters: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &DoctorArgs, global: &Global, printer: Printer) -> Result<(), Failure> {
    let estimate = largest(args.profile, &global.catalogue()?)?;
    let run_as = args.run_as.as_deref();
    let clusters = args.clusters.clone().unwrap_or_else(|| global.results.join("clusters"));
    let mut places = vec![results(&global.results), data(&clusters, estimate)];
    // Without an account, which is a finding of its own, the default cache is not known either.
    let default = || Account::choose(run_as).ok().and_then(|account| default_cache(&account).ok());
    if let Some(path) = args.cache.clone().or_else(default) {
        let mend = format!("regtrack cache prune --keep 1G --cache {}", path.display());
        places.push(Place { name: "disk: cache", path, bytes: CACHE_BYTES, mend });
    }
    let noise = args.profile.name != SMOKE;
    let table_bytes = estimate.table_bytes;
    let findings = examine(&Examination { programs: true, run_as, places, table_bytes, noise });
    if args.json {
        printer.data(&serde_json::to_string_pretty(&findings)?)?;
    } else {
        printer.data(&text(&findings))?;
    }
    if findings.iter().any(|finding| finding.status == FindingStatus::Fail) {
        return Err(Failure::UnfitMachine);
    }
    Ok(())
}

/// Examines the machine before a sweep and notes what is bad. The programs that the sweep needs have
/// been checked by its plan.
pub(super) fn before_sweep(
    args: &SweepArgs,
    global: &Global,
    prepared: &Prepared,
    estimate: Estimate,
    clusters: &Path,
    printer: Printer,
) -> Vec<Finding> {
    let noise = prepared.profile != SMOKE;
    printer.say(if noise { "examining the machine for five seconds" } else { "examining the machine" });
    let findings = examine(&Examination {
        programs: false,
        run_as: args.servers.run_as.as_deref(),
        places: vec![results(&global.results), data(clusters, estimate)],
        table_bytes: estimate.table_bytes,
        noise,
    });
    let bad: Vec<&Finding> = findings.iter().filter(|finding| finding.is_bad()).collect();
    for finding in &bad {
        printer.say(&format!("note: {}: {}", finding.check, finding.found));
    }
    if !bad.is_empty() {
        printer.say("`regtrack doctor` says why that matters, and what mends it");
    }
    findings
}

/// What one sweep of the newest release costs with a profile; the release makes no difference.
fn largest(profile: &'static Profile, catalogue: &Catalogue) -> Result<Estimate, Failure> {
    let newest = catalogue.majors().iter().rev().find(|major| !major.newer).or(catalogue.majors().last());
    let terms = newest.map(|major| Term::One(Bound::Major(major.major))).into_iter().collect();
    let request = SweepRequest::new(ReleaseRange { terms }, profile);
    Ok(estimate(&sweep::prepare(&request, catalogue, measure::memory_mib())?))
}

fn results(path: &Path) -> Place {
    let mend = "regtrack sweep RANGE --results DIR".to_owned();
    Place { name: "disk: results", path: path.to_owned(), bytes: RESULTS_BYTES, mend }
}

fn data(path: &Path, estimate: Estimate) -> Place {
    let mend = "regtrack sweep RANGE --clusters DIR".to_owned();
    Place { name: "disk: clusters", path: path.to_owned(), bytes: estimate.disk_bytes, mend }
}

/// All checks in a table, then reason and remedy of those that are not well.
fn text(findings: &[Finding]) -> String {
    let row = |finding: &Finding| vec![finding.check.clone(), finding.status.to_string(), finding.found.clone()];
    let mut text = tables::listing(&["check", "result", "found"], findings.iter().map(row).collect());
    for finding in findings.iter().filter(|finding| finding.is_bad()) {
        let _ = write!(text, "\n{} ({})\n  why:  {}\n", finding.check, finding.status, finding.why);
        if let Some(mend) = &finding.mend {
            let _ = writeln!(text, "  mend: {mend}");
        }
    }
    let count = |status| findings.iter().filter(|finding| finding.status == status).count();
    let [ok, warn, fail, unknown] =
        [FindingStatus::Ok, FindingStatus::Warn, FindingStatus::Fail, FindingStatus::Unknown].map(count);
    let _ = writeln!(text, "\n{ok} ok, {warn} warn, {fail} fail, {unknown} unknown");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_well_comes_with_reason_and_remedy() {
        let finding = |check: &str, status, mend: Option<&str>| Finding {
            check: check.to_owned(),
            status,
            found: format!("found {check}"),
            why: format!("why {check}"),
            mend: mend.map(str::to_owned),
        };
        let findings = [
            finding("a", FindingStatus::Ok, None),
            finding("b", FindingStatus::Warn, Some("mend b")),
            finding("c", FindingStatus::Unknown, None),
        ];
        let expected = "\
check  result   found  
-----------------------
a      ok       found a
b      warn     found b
c      unknown  found c

b (warn)
  why:  why b
  mend: mend b

1 ok, 1 warn, 0 fail, 1 unknown
";
        let text = text(&findings);
        let trimmed = |text: &str| text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n");
        assert_eq!(trimmed(&text), trimmed(expected), "\n{text}");
    }

    #[test]
    fn larger_profiles_need_more() {
        let bytes = |name| {
            let estimate = largest(parse_profile(name).unwrap(), &Catalogue::builtin().unwrap()).unwrap();
            (estimate.disk_bytes, estimate.table_bytes)
        };
        assert!(bytes("smoke") < bytes("quick") && bytes("quick") < bytes("paper"));
    }
}
