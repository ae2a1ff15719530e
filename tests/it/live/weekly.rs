//! Two weeks of `regtrack weekly` on prebuilt servers: from the plan to a published site.

use std::fs;
use std::path::Path;

use regtrack::store::Store;

use super::{Place, text};

const WEEKLY: [&str; 12] = [
    "weekly",
    "17,18",
    "--profile",
    "smoke",
    "--rows",
    "3000",
    "--seconds",
    "0.1",
    "--source",
    "prebuilt",
    "--bench",
    "*point*",
];

fn weekly(place: &Place, week: &str, more: &[&str]) -> String {
    let output = place.run(&[&WEEKLY[..], &["--no-refresh", "--week", week], more].concat());
    assert!(output.status.success(), "{}", text(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn file(place: &Place, path: &str) -> String {
    fs::read_to_string(place.path().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Ids of the entries of a feed, with the time of each.
fn entries(feed: &str) -> Vec<(String, String)> {
    let feed = feed_rs::parser::parse(feed.as_bytes()).unwrap();
    feed.entries.into_iter().map(|entry| (entry.id, entry.updated.unwrap().to_rfc3339())).collect()
}

#[test]
fn two_weeks_make_a_history_with_feeds_and_a_published_site() {
    let Some(place) = Place::for_test("two_weeks_make_a_history_with_feeds_and_a_published_site") else { return };
    let www = place.path().join("www");
    let publish = ["--publish", www.to_str().unwrap(), "--site-url", "https://example.org/pg"];

    let plan = weekly(&place, "2026-W48", &["--dry-run"]);
    assert!(plan.starts_with("week 2026-W48\nplan: 2 releases") && plan.contains(": the base\n"), "{plan}");
    assert!(!place.path().join("results").exists());

    let first = weekly(&place, "2026-W48", &publish);
    place.assert_no_servers();
    assert!(first.contains("For the first time: 17.") && first.contains("https://example.org/pg/week/2026-W48.html"));
    assert!(first.lines().all(|line| line.chars().count() <= 72), "{first}");
    weekly(&place, "2026-W49", &publish);

    for page in ["week/2026-W48.html", "week/2026-W49.html", "history.html", "feed.xml", "regtrack-site.json"] {
        assert_eq!(file(&place, &format!("public/{page}")), file(&place, &format!("www/{page}")), "{page}");
    }
    let ids: Vec<String> = entries(&file(&place, "www/feed.xml")).into_iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["tag:regtrack,2026:2026-W49", "tag:regtrack,2026:2026-W48"]);

    the_same_week_again(&place);
    without_a_range(&place);
    the_guard_holds(&place, &www);
}

/// Nothing is measured and nothing moves; with more launches the same sweep is extended, and the ids stay.
fn the_same_week_again(place: &Place) {
    let slices = || place.results().1.len();
    let before = (file(place, "public/feed.xml"), slices());
    weekly(place, "2026-W49", &["--site-url", "https://example.org/pg"]);
    assert_eq!((file(place, "public/feed.xml"), slices()), before);
    weekly(place, "2026-W49", &["--site-url", "https://example.org/pg", "--launches", "2"]);
    assert_eq!(slices(), 2 * before.1);
    assert_eq!(place.slice_files().len(), 2, "a week is one file");
    let store = Store::open(place.path().join("results")).unwrap();
    assert_eq!(store.sweeps().unwrap().len(), 2, "no sweep but those of the two weeks");
    let told = store.told("2026-W49").unwrap().unwrap();
    let after = entries(&file(place, "public/feed.xml"));
    for (id, time) in entries(&before.0).into_iter().filter(|(id, _)| id.ends_with("W48")) {
        assert!(after.contains(&(id, time)), "{after:?}");
    }
    // Whether two launches of a smoke run are far enough from one is chance.
    let corrected = after.iter().filter(|(id, _)| id.starts_with("tag:regtrack,2026:2026-W49/")).count();
    assert_eq!(corrected, told.corrections.len());
}

/// The options of the last week are taken.
fn without_a_range(place: &Place) {
    let output = place.run(&["weekly", "--week", "2026-W49", "--dry-run"]);
    assert!(output.status.success(), "{}", text(&output));
    let plan = String::from_utf8_lossy(&output.stdout);
    assert!(plan.contains("2 releases") && plan.contains("2 launches, profile smoke"), "{plan}");
}

/// The history makes up for what a week does not measure; a site without it lacks too much.
fn the_guard_holds(place: &Place, www: &Path) {
    let one = weekly(place, "2026-W50", &["--publish", www.to_str().unwrap()]);
    assert!(one.contains("Measured relative to 17."), "{one}");
    let mut stamp: serde_json::Value = serde_json::from_str(&file(place, "www/regtrack-site.json")).unwrap();
    stamp["cells"]["9.6.24-aaaa1111"] = 42.into();
    fs::write(www.join("regtrack-site.json"), stamp.to_string()).unwrap();
    let refused = place.run(&["publish", www.to_str().unwrap()]);
    let message = text(&refused);
    assert!(
        !refused.status.success() && message.contains("42 of the ") && message.contains("--publish-anyway"),
        "{message}"
    );
    assert!(file(place, "www/regtrack-site.json").contains("9.6.24"));
    let anyway = place.run(&["publish", www.to_str().unwrap(), "--publish-anyway"]);
    assert!(anyway.status.success() && !file(place, "www/regtrack-site.json").contains("9.6.24"), "{}", text(&anyway));
}
