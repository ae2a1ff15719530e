//! What a week measures: catalogue, history and week in, servers and reasons out. And two weeks on a simulated machine.

use jiff::Timestamp;
use regtrack::analysis;
use regtrack::catalog::variants::Variants;
use regtrack::domain::{Outcome, SeriesKey, SliceRecord, TargetId, VariantName, Week, WeekSummary, WeekTarget};
use regtrack::sweep::weekly::{Candidate, Reason, anchor, due};
use regtrack::sweep::{self, SweepRequest, WantedServer, profile};

use super::*;

fn week(text: &str) -> Week {
    text.parse().unwrap()
}

/// The servers of a range, with the start of the key of each one's build.
fn candidates(range: &str, minors: bool, key: &str) -> Vec<Candidate> {
    let variant = Variants::builtin().unwrap().resolve(&VariantName::default()).unwrap();
    let selected = CATALOGUE.resolve(&range.parse().unwrap(), minors).unwrap();
    let server = |selected: &regtrack::catalog::versions::Selected| Candidate {
        server: WantedServer {
            release: selected.release.clone(),
            floating: selected.floating,
            variant: variant.clone(),
        },
        key: Some(format!("{key}-and-more")),
    };
    selected.iter().map(server).collect()
}

/// A week that measured these releases.
fn past(number: &str, labels: &[&str]) -> WeekSummary {
    let target = |label: &&str| WeekTarget {
        id: TargetId(format!("{label}-aaaa1111")),
        label: (*label).to_owned(),
        version: label.parse().unwrap(),
    };
    WeekSummary {
        week: week(number),
        sweep: number.to_owned(),
        updated_at: Timestamp::UNIX_EPOCH,
        told_at: None,
        regtrack: String::new(),
        kernel: String::new(),
        series: SeriesKey(Vec::new()),
        base: 0,
        targets: labels.iter().map(target).collect(),
        microbenchmarks: Vec::new(),
        cells: Vec::new(),
        corrections: Vec::new(),
    }
}

/// `16.1:Base 16.3:Newest`, those that are due.
fn plan(candidates: &[Candidate], past: &[WeekSummary], now: &str) -> String {
    let reasons = due(candidates, 0, past, week(now), 90);
    let both = candidates.iter().zip(reasons);
    let due = both.filter_map(|(candidate, reason)| Some(format!("{}:{:?}", candidate.server.label(), reason?)));
    due.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_first_week_measures_everything() {
    assert_eq!(plan(&candidates("16.1..16.3", true, "aaaa1111"), &[], "2026-W49"), "16.1:Base 16.2:New 16.3:Newest");
}

#[test]
fn later_weeks_measure_anchors_and_what_is_new_stale_or_built_otherwise() {
    let all = candidates("16.1..16.4", true, "aaaa1111");
    let before = [past("2026-W40", &["16.1", "16.2", "16.3"]), past("2026-W48", &["16.1", "16.3"])];
    assert_eq!(plan(&all, &before, "2026-W49"), "16.1:Base 16.4:Newest");
    // Thirteen weeks are 91 days.
    assert_eq!(plan(&all, &before, "2026-W53"), "16.1:Base 16.2:Stale(91) 16.4:Newest");
    let other = candidates("16.1..16.4", true, "bbbb2222");
    assert_eq!(plan(&other, &before, "2026-W49"), "16.1:Base 16.2:OtherBuild 16.3:OtherBuild 16.4:Newest");
    let unknown: Vec<Candidate> = all.into_iter().map(|one| Candidate { key: None, ..one }).collect();
    assert_eq!(plan(&unknown, &before, "2026-W49"), "16.1:Base 16.4:Newest");
}

#[test]
fn a_second_call_in_a_week_keeps_what_that_week_has() {
    let before = [past("2026-W40", &["16.1", "16.2", "16.3"]), past("2026-W49", &["16.1", "16.2"])];
    let all = candidates("16.1..16.4", true, "bbbb2222");
    assert_eq!(
        plan(&all, &before, "2026-W49"),
        "16.1:Base 16.2:Begun 16.3:OtherBuild 16.4:Newest",
        "what is begun stays, whatever builds it"
    );
}

#[test]
fn the_newest_of_every_major_is_an_anchor() {
    assert_eq!(
        plan(&candidates("14.20..16.2,17.2", false, "a"), &[], "2026-W49"),
        candidates("14.20..16.2,17.2", false, "a")
            .iter()
            .enumerate()
            .map(|(index, one)| format!("{}:{}", one.server.label(), if index == 0 { "Base" } else { "Newest" }))
            .collect::<Vec<_>>()
            .join(" ")
    );
    assert_eq!(Reason::Stale(91).to_string(), "last measured 91 days ago");
}

#[test]
fn the_base_is_that_of_the_week_before() {
    let before = [past("2026-W48", &["16.2", "17.1"]), past("2026-W47", &["16.1", "17.1"])];
    assert_eq!(anchor(&before).unwrap().label, "16.2");
    assert_eq!(anchor(&[]), None);
}

fn request(range: &str) -> SweepRequest {
    let profile = profile::find("smoke").unwrap();
    SweepRequest { benches: vec!["point-query*".to_owned()], ..SweepRequest::new(range.parse().unwrap(), profile) }
}

#[test]
fn each_week_is_a_sweep_of_its_own_and_a_second_call_goes_on_with_it() {
    let (lab, mut world) = (Lab::new(), World::new(7));
    let (first, second) =
        (lab.week(&mut world, &request("16,18"), "2026-W48"), lab.week(&mut world, &request("16,18"), "2026-W49"));
    assert_eq!((first.manifest.id.as_str(), second.manifest.id.as_str()), ("2026-W48", "2026-W49"));
    assert_eq!(second.walked.unwrap().measured, first.walked.unwrap().measured);
    let again = lab.week(&mut world, &request("16,17,18"), "2026-W49");
    assert_eq!((again.manifest.id.as_str(), again.plan.stored), ("2026-W49", 4));
    assert_eq!(again.walked.unwrap().measured, 2, "17 is added");
    // Other numbers cannot go into the same sweep.
    let other = SweepRequest { rows: Some(5000), ..request("16,18") };
    assert_eq!(lab.week(&mut world, &other, "2026-W49").manifest.id, "2026-W49-2");
    assert_eq!(lab.week(&mut world, &request("16,17,18"), "2026-W49").manifest.id, "2026-W49");

    let history = analysis::history(&lab.summaries());
    let weeks: Vec<Vec<String>> =
        history.series.iter().map(|series| series.weeks.iter().map(|week| week.sweep.clone()).collect()).collect();
    assert!(weeks.contains(&vec!["2026-W48".to_owned(), "2026-W49".to_owned()]), "{weeks:?}");
    let apart = history.series.iter().find_map(|series| series.apart.clone()).unwrap();
    assert!(apart.starts_with("rows: "), "{apart}");
}

#[test]
fn a_week_with_failed_cells_has_gaps_and_the_history_goes_on() {
    let (lab, mut world) = (Lab::new(), World::new(8));
    lab.week(&mut world, &request("16,18"), "2026-W47");
    let newest = CATALOGUE.resolve(&"18".parse().unwrap(), false).unwrap()[0].release.version;
    world.failing.insert((newest, "point-query_range=100".to_owned()));
    let failed = lab.week(&mut world, &request("16,18"), "2026-W48");
    assert_eq!(failed.walked.unwrap().failed, 1);
    world.failing.clear();
    lab.week(&mut world, &request("16,18"), "2026-W49");
    let history = analysis::history(&lab.summaries());
    let [series] = &history.series[..] else { panic!("{:?}", history.series.len()) };
    assert_eq!(series.weeks.iter().map(|week| (week.cells, week.gaps)).collect::<Vec<_>>(), [(4, 0), (3, 1), (4, 0)]);
}

impl Lab {
    /// One call of `regtrack weekly`, as far as it measures.
    fn week(&self, world: &mut World, request: &SweepRequest, week: &str) -> Call {
        let mut prepared = sweep::prepare(request, self.catalogue, MEMORY_MIB).unwrap();
        prepared.name = Some(week.to_owned());
        self.call_prepared(world, prepared, false, None)
    }

    /// What the sweeps say.
    fn summaries(&self) -> Vec<WeekSummary> {
        let suite = suite::builtin().unwrap();
        let catalogue =
            analysis::Catalogue { microbenchmarks: &suite.microbenchmarks, groups: &suite.groups, newest: &[] };
        let summary = |manifest: SweepManifest| {
            let slices: Vec<SliceRecord> = self.store.slices(&manifest.id).unwrap();
            assert!(slices.iter().any(|slice| matches!(slice.outcome, Outcome::Measured(_))));
            let report = analysis::report(&manifest, &slices, &catalogue, &manifest.base).unwrap();
            analysis::week_summary(&report).unwrap()
        };
        self.store.sweeps().unwrap().into_iter().map(summary).collect()
    }
}
