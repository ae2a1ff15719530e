//! A site with a history: its pages, and its feeds as readers of feeds see them.

use std::collections::BTreeMap;

use feed_rs::model::Feed;

use super::tests::{attributes, html_pages};
use super::{Content, Stamp, files, fixture, fixture_history};
use crate::domain::{Correction, History, Report};

fn site_of(report: &Report, history: &History, url: Option<&str>) -> BTreeMap<String, Vec<u8>> {
    let pairs = fixture::pairs(report);
    let content = Content { history: Some(history), url, ..Content::of(report, &pairs) };
    files(&content).unwrap().into_iter().map(|file| (file.path, file.bytes)).collect()
}

fn site(history: &History) -> BTreeMap<String, Vec<u8>> {
    site_of(&fixture::measured(), history, None)
}

fn feed(site: &BTreeMap<String, Vec<u8>>, path: &str) -> Feed {
    feed_rs::parser::parse(&site[path][..]).unwrap_or_else(|error| panic!("{path}: {error}"))
}

fn text<'a>(site: &'a BTreeMap<String, Vec<u8>>, path: &str) -> &'a str {
    std::str::from_utf8(&site[path]).unwrap()
}

#[test]
fn every_week_and_every_microbenchmark_has_a_page() {
    let site = site(&fixture_history::history());
    assert_eq!(site.keys().filter(|path| path.starts_with("week/")).count(), 12);
    assert!(site.keys().filter(|path| path.starts_with("history/")).count() >= 2);
    let week = text(&site, "week/2026-W08.html");
    assert!(week.contains("Confirmed: slower by 9.0 % than 16.11 (in 2026-W07: no confirmed change (ratio 0.970))."));
    assert!(text(&site, "week/2026-W05.html").contains("kernel 6.1.1 instead of 6.1.0"));
    let both = text(&site, "week/2026-W02.html");
    assert!(both.contains("Another series") && both.contains("machine: &lt;b&gt;old"), "{both}");
    let history = text(&site, "history.html");
    assert!(history.contains(">down") || history.contains(">0.910<"), "{history}");
    let bench = text(&site, "history/scan_range-100.html");
    assert!(bench.contains("Change point: newest 17 went down by 6.2 % in 2026-W08."), "{bench}");
    assert!(bench.contains("lost 6.2 % bit by bit") && bench.contains("<desc>Last values: newest 17 at 0.910"));
    assert!(text(&site, "bench/scan_range-100.html").contains("../history/scan_range-100.html"));
}

#[test]
fn a_site_without_a_history_has_none_of_it() {
    let report = fixture::measured();
    let pairs = fixture::pairs(&report);
    let content = Content::of(&report, &pairs);
    for file in files(&content).unwrap() {
        let of_history = ["week/", "history", "feed"].iter().any(|start| file.path.starts_with(start));
        assert!(!of_history, "{}", file.path);
        assert!(!String::from_utf8_lossy(&file.bytes).contains("atom+xml"), "{}", file.path);
    }
}

#[test]
fn pages_link_their_feeds() {
    let site = site(&fixture_history::history());
    for (path, html) in html_pages(&site) {
        let root = if path.contains('/') { "../" } else { "" };
        assert!(attributes(html, "href").contains(&format!("{root}feed.xml").as_str()), "{path}");
        if path.starts_with("history/") {
            let feed = format!("../feed/bench-{}.xml", path.trim_start_matches("history/").trim_end_matches(".html"));
            assert!(attributes(html, "href").contains(&feed.as_str()), "{path}: {feed}");
        }
    }
}

#[test]
fn feeds_are_read_by_a_reader_of_feeds() {
    let site = site_of(&fixture::measured(), &fixture_history::history(), Some("https://example.org/pg/"));
    let paths: Vec<&String> = site.keys().filter(|path| path.starts_with("feed")).collect();
    assert!(paths.len() >= 6, "{paths:?}");
    for path in paths {
        let feed = feed(&site, path);
        assert_eq!(feed.id, format!("tag:regtrack,2026:{path}"));
        assert!(feed.updated.is_some() && feed.title.is_some() && !feed.authors.is_empty(), "{path}");
        for entry in &feed.entries {
            let link = &entry.links[0].href;
            let page = link.strip_prefix("https://example.org/pg/").unwrap_or_else(|| panic!("{path}: {link}"));
            assert!(site.contains_key(page), "{path}: {link}");
            assert!(entry.id.starts_with("tag:regtrack,2026:2026-W") && entry.updated.is_some());
        }
    }
    let all = feed(&site, "feed.xml");
    // Twelve weeks and two of the other series; three cells with news, two of which are in one week.
    assert_eq!(all.entries.len(), 14 + 4);
    let of_major = feed(&site, "feed/release-17.xml");
    assert_eq!(of_major.entries.len(), 2, "the correction of 17.7 and the change point of the newest 17");
    let newest = all.entries[0].updated.unwrap().to_rfc3339();
    assert!(newest.starts_with("2026-03-23T03:04:05"), "times are those of the data: {newest}");
}

#[test]
fn entries_stay_the_same_when_a_cell_is_measured_further() {
    let before = fixture_history::history();
    let mut after = before.clone();
    let week = &mut after.series[0].weeks[6];
    week.updated_at = "2026-03-01T00:00:00Z".parse().unwrap();
    let news = week.news.confirmed.remove(0);
    week.news.corrections.push(Correction {
        at: week.updated_at,
        microbenchmark: news.microbenchmark,
        target: news.target.id,
        was: Some(news.is),
        is: Some(fixture_history::answer(0.985, false)),
    });
    let ids = |history: &History| -> Vec<String> {
        let mut ids: Vec<String> = feed(&site(history), "feed.xml").entries.into_iter().map(|entry| entry.id).collect();
        ids.sort();
        ids
    };
    assert_eq!(ids(&before), ids(&after));
    let site = site(&after);
    let corrected = feed(&site, "feed/bench-scan_range-100.xml").entries.into_iter();
    let corrected = corrected.max_by_key(|entry| entry.updated).unwrap();
    assert!(corrected.id.starts_with("tag:regtrack,2026:2026-W"), "{}", corrected.id);
    let entry = feed(&site, "feed.xml").entries.into_iter().find(|entry| entry.id.contains("2026-W08/scan")).unwrap();
    let body = entry.content.unwrap().body.unwrap();
    assert!(body.contains("Corrected on 2026-03-01") && body.contains("slower by 9.0 %"), "{body}");
    assert!(entry.published < entry.updated);
    // And what nothing happened to keeps its time.
    let other = |history: &History| {
        let entries = feed(&self::site(history), "feed.xml").entries;
        entries.into_iter().find(|entry| entry.id.ends_with("2026-W05")).unwrap().updated
    };
    assert_eq!(other(&before), other(&after));
}

#[test]
fn the_stamp_says_how_new_and_how_much() {
    let site = site(&fixture_history::history());
    let stamp: Stamp = serde_json::from_slice(&site[Stamp::FILE]).unwrap();
    assert_eq!(stamp.newest.to_string(), "2026-03-23T03:04:05Z");
    assert_eq!(stamp.cells["17.7-3fa9c1d2"], 2);
    assert!(text(&site, "index.html").contains("<time datetime=\"2026-03-23T03:04:05Z\">2026-03-23 03:04 UTC</time>"));
}
