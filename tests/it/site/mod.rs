//! The site in a real browser: from the disk and from a web server, with and without scripts, on a phone and on a desk.

mod browser;
mod contrast;
mod made;
mod markup;
mod served;
mod upgrade;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use regtrack::analysis::two_decimals;
use regtrack::domain::{RelativeQps, Report, Verdict};

use crate::common::{must_run, runs};
use browser::Browser;
use made::{FIXED, Made, SEQUENTIAL};
use served::Served;

/// What the first page may weigh with all that it loads.
pub(crate) const HEAVIEST: u64 = 300_000;

/// The widths of a desk and of a phone, in pixels.
const WIDTHS: [(&str, u32, u32); 2] = [("desk", 1400, 1000), ("phone", 390, 844)];

/// `None`, with a word about it, where there is no Chromium.
fn browser() -> Option<Browser> {
    let browser = Browser::start();
    match browser {
        Some(_) => runs("site"),
        None => must_run("site", "there is no chromium on the search path"),
    }
    browser
}

fn on_disk(made: &Made, page: &str) -> String {
    format!("file://{}", made.site().join(page).display())
}

fn screens() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("site-screens")
}

/// The texts of the heat map's cells, by microbenchmark.
const CELLS: &str = "Object.fromEntries([...document.querySelectorAll('#heat tr[data-row]')].map(row => \
                     [row.cells[0].textContent, [...row.cells].slice(1).map(cell => cell.textContent)]))";

/// The lines of the group tables that are shown.
const GROUPS: &str = "[...document.querySelectorAll('tbody[data-group] tr:not([hidden])')].map(row => \
                      [row.parentElement.dataset.group, ...[...row.cells].map(cell => cell.textContent)].join(' '))";

/// What was asked for, and what pages complained about, since the browser was started.
fn assert_quiet(browser: &Browser, root: &str) {
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let foreign: Vec<String> =
        browser.requests().into_iter().filter(|url| !url.starts_with(root) && url != "about:blank").collect();
    assert_eq!(foreign, Vec::<String>::new(), "only the site's own files are asked for");
}

fn mark(relative: &RelativeQps) -> &'static str {
    match (relative.verdict, relative.certainty.confirmed) {
        (Verdict::Improved, true) => "▲",
        (Verdict::Improved, false) => "△",
        (Verdict::Regressed, true) => "▼",
        (Verdict::Regressed, false) => "▽",
        (Verdict::Same, _) => "=",
        (Verdict::Inconclusive, _) => "·",
    }
}

/// What the heat map has to show of a report.
fn expected_cells(report: &Report) -> BTreeMap<String, Vec<String>> {
    let text = |(target, cell): (usize, &regtrack::domain::Cell)| match &cell.relative {
        None if cell.rate.is_none() && cell.failure.is_some() => "×".to_owned(),
        None => "–".to_owned(),
        Some(relative) => {
            let ratio = two_decimals(relative.ratio).unwrap();
            match relative.interval.filter(|_| target != report.base) {
                Some((low, high)) => format!("{ratio} {}{low:.3}–{high:.3}", mark(relative)),
                None => ratio.to_string(),
            }
        }
    };
    let row = |row: &regtrack::domain::ReportRow| {
        (row.name.clone(), row.cells.iter().enumerate().map(text).collect::<Vec<_>>())
    };
    report.rows.iter().map(row).collect()
}

fn expected_groups(report: &Report) -> Vec<String> {
    let label = |target: usize| &report.manifest.targets[target].label;
    let mut lines = Vec::new();
    for group in &report.groups {
        for (target, summary) in report.summaries.iter().enumerate().filter(|(target, _)| *target != report.base) {
            for one in summary.groups.iter().filter(|summary| summary.group == group.name) {
                let stdev = one.stdev.map_or_else(|| "–".to_owned(), |stdev| format!("{stdev:.2}"));
                lines.push(format!(
                    "{} {} {} {:.2} {:.2} {:.2} {:.2} {stdev}",
                    group.name,
                    label(target),
                    one.count,
                    one.min,
                    one.max,
                    one.avg,
                    one.median
                ));
            }
        }
    }
    lines
}

fn words(report: &Report) -> Vec<Vec<Option<String>>> {
    let row = |row: &regtrack::domain::ReportRow| {
        row.cells.iter().map(|cell| cell.relative.map(|relative| relative.words())).collect()
    };
    report.rows.iter().map(row).collect()
}

/// Chooses in the page's own controls, and lets the page be laid out.
fn choose(browser: &mut Browser, name: &str, value: &str) {
    browser.evaluate(&format!(
        "(() => {{ const form = document.getElementById('controls'); form.elements[{name:?}].value = {value:?}; \
         form.dispatchEvent(new Event('change')); return document.body.offsetHeight; }})()"
    ));
}

/// All bases, the report's own last; fewer where launches stopped early, since their reports take a while.
fn bases(made: &Made) -> Vec<usize> {
    let step = if made.manifest.stopping.is_some() { 5 } else { 1 };
    (0..made.manifest.targets.len()).step_by(step).rev().collect()
}

#[test]
fn every_base_shows_what_a_report_on_it_says() {
    let Some(mut browser) = browser() else { return };
    browser.resize(1400, 1000);
    for made in [&*FIXED, &*SEQUENTIAL] {
        browser.open(&on_disk(made, "index.html"));
        let mut took = Vec::new();
        // The report's own base comes last, so that its cells are filled anew as well.
        for base in bases(made) {
            let report = made.report(base);
            let before = browser.busy_ms();
            choose(&mut browser, "base", &base.to_string());
            took.push(browser.busy_ms() - before);
            let cells: BTreeMap<String, Vec<String>> = serde_json::from_value(browser.evaluate(CELLS)).unwrap();
            let expected = expected_cells(report);
            assert_eq!(cells.len(), expected.len());
            for (row, expected) in expected {
                assert_eq!(cells[&row], expected, "{row} relative to {base}");
            }
            assert_eq!(browser.evaluate(GROUPS), json!(expected_groups(report)), "relative to {base}");
            let said = browser.evaluate(&format!(
                "regtrack.relativeTo({base}).map(row => row.map(answer => answer && regtrack.words(answer)))"
            ));
            assert_eq!(said, json!(words(report)), "relative to {base}");
        }
        took.sort_by(f64::total_cmp);
        assert!(took[took.len() / 2] < 100.0, "another base took {took:?} ms");
    }
    assert_quiet(&browser, "file://");
}

#[test]
fn a_page_without_scripts_reads_like_one_with_scripts() {
    let Some(mut browser) = browser() else { return };
    let mut read = |scripts: bool| {
        browser.scripts(scripts);
        browser.open(&on_disk(&FIXED, "index.html"));
        let lists = "[...document.querySelectorAll('#changes tr')].map(row => row.textContent)";
        let seen = [CELLS, GROUPS, lists].map(|what| browser.evaluate(what));
        let controls = browser.evaluate("document.getElementById('controls').hidden");
        assert_eq!(controls, json!(!scripts), "controls are there when they do something");
        seen
    };
    let without = read(false);
    assert_eq!(without, read(true));
    assert!(without[2].as_array().unwrap().len() > 10, "{}", without[2]);
    browser.scripts(false);
    for page in ["compare.html", "upgrade.html"] {
        browser.open(&on_disk(&FIXED, page));
        let note = "document.querySelector('noscript p').checkVisibility()";
        assert_eq!(browser.evaluate(note), json!(true), "{page}");
    }
}

#[test]
fn a_view_has_an_address_and_the_way_back_works() {
    let Some(mut browser) = browser() else { return };
    let served = Served::new(FIXED.site());
    for (root, index) in
        [("file://".to_owned(), on_disk(&FIXED, "index.html")), (served.url(""), served.url("index.html"))]
    {
        let first = browser.requests().len();
        browser.open(&format!("{index}#base=16.11&group=writes&from=14&to=18&verdict=slower&sort=18.1"));
        let shown = "[...document.querySelectorAll('#heat thead th')].filter(head => !head.hidden)\
                     .map(head => head.textContent.replace(/ .$/, '')).join(' ')";
        assert_eq!(browser.text(shown), "Microbenchmark 14.19 14.20 15.15 16.11 17.7 18.1");
        let groups = "[...document.querySelectorAll('#heat tbody:not([hidden]) .group th')]\
                      .map(head => head.firstChild.data).join(' ')";
        assert_eq!(browser.text(groups), "writes");
        let hits = "[...document.querySelectorAll('#heat tr[data-row]:not([hidden])')]\
                    .filter(row => row.checkVisibility()).every(row => row.querySelector('.hit'))";
        assert_eq!(browser.evaluate(hits), json!(true));
        assert_eq!(browser.text("document.querySelector('.lead [data-base]').textContent"), "16.11");
        assert_eq!(browser.evaluate("document.getElementById('notice').hidden"), json!(true));

        choose(&mut browser, "base", "0");
        choose(&mut browser, "group", "");
        assert!(!browser.text("location.hash").contains("base="), "the report's base needs no word");
        assert_eq!(browser.text("document.querySelector('.lead [data-base]').textContent"), "9.0.23");
        let go = |way: &str| {
            format!(
                "new Promise(done => {{ addEventListener('popstate', () => setTimeout(done, 0), {{ once: true }}); {way} }})"
            )
        };
        browser.evaluate(&go("history.back()"));
        browser.evaluate(&go("history.back()"));
        assert_eq!(browser.text("document.querySelector('.lead [data-base]').textContent"), "16.11");
        browser.evaluate(&go("history.forward()"));
        assert_eq!(browser.text("document.querySelector('.lead [data-base]').textContent"), "9.0.23");

        browser.open(&format!("{index}#base=99&verdict=odd&colour=blue&group=writes"));
        let note = browser.text("document.getElementById('notice').textContent");
        assert!(note.contains("“base=99”, “verdict=odd”, “colour=blue”"), "{note}");
        assert_eq!(browser.text(groups), "writes");
        browser.open(&format!("{index}#heat-map"));
        assert_eq!(browser.evaluate("document.getElementById('notice').hidden"), json!(true));
        let foreign: Vec<String> = browser.requests().split_off(first);
        let is_own = |url: &String| url.starts_with(&root) || url == "about:blank";
        assert!(foreign.iter().all(is_own), "{foreign:?}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[test]
fn rows_are_sorted_inside_their_groups() {
    let Some(mut browser) = browser() else { return };
    browser.open(&on_disk(&FIXED, "index.html#sort=17.7"));
    let column = "[...document.querySelectorAll('#heat tbody:last-of-type tr[data-row]')]\
                  .map(row => parseFloat(row.cells[16].textContent))";
    let slowest: Vec<f64> = serde_json::from_value(browser.evaluate(column)).unwrap();
    assert!(slowest.is_sorted(), "{slowest:?}");
    let sort = "document.querySelectorAll('#heat thead th')[16]";
    assert_eq!(browser.text(&format!("{sort}.ariaSort")), "ascending");
    browser.evaluate(&format!("{sort}.querySelector('button').click()"));
    let fastest: Vec<f64> = serde_json::from_value(browser.evaluate(column)).unwrap();
    assert!(fastest.iter().rev().is_sorted(), "{fastest:?}");
    assert_eq!(browser.text("location.hash"), "#sort=17.7&order=fastest");
}

#[test]
fn tips_come_by_keyboard_and_by_pointer_and_go_again() {
    let Some(mut browser) = browser() else { return };
    browser.resize(1400, 1000);
    browser.open(&on_disk(&FIXED, "index.html"));
    let tip = "document.getElementById('heat-tip')";
    let is_shown = format!("!{tip}.hidden");
    assert_eq!(browser.evaluate("document.querySelectorAll('#heat td[tabindex]').length"), json!(1), "one stop");
    browser.evaluate("document.querySelector('#heat td[tabindex]').focus()");
    let first = browser.text(&format!("{tip}.textContent"));
    assert!(first.ends_with("the base, 1.00 by definition"), "{first}");
    browser.press("ArrowRight", 39);
    browser.press("ArrowDown", 40);
    let text = browser.text(&format!("{tip}.textContent"));
    let cell = "document.activeElement";
    assert_eq!(browser.text(&format!("{cell}.getAttribute('aria-describedby')")), "heat-tip");
    let report = FIXED.report(0);
    let relative = report.rows.iter().find(|row| text.starts_with(&format!("{} on 9.1.24 against 9.0.23: ", row.name)));
    let relative = relative.unwrap_or_else(|| panic!("{text}")).cells[1].relative.unwrap();
    let (low, high) = relative.interval.unwrap();
    assert!(text.contains(&format!("95 % interval [{low:.3}, {high:.3}]; {}", relative.words())), "{text}");
    browser.press("Escape", 27);
    assert_eq!(browser.evaluate(&is_shown), json!(false));

    let failed = "[...document.querySelectorAll('#heat td')].find(cell => cell.textContent === '×')";
    browser.point_at(failed);
    let text = browser.text(&format!("{tip}.textContent"));
    assert!(text.contains("failed: the server ended with signal 11"), "{text}");
    browser.point_at(tip);
    assert_eq!(browser.evaluate(&is_shown), json!(true), "the pointer may rest on it");
    browser.point_at("document.querySelector('h1')");
    assert_eq!(browser.evaluate(&is_shown), json!(false));
    assert_quiet(&browser, "file://");
}

#[test]
fn changes_between_adjacent_releases_are_those_of_the_reports() {
    let Some(mut browser) = browser() else { return };
    browser.open(&on_disk(&FIXED, "index.html#changes=all"));
    let lines = |kind: &str| {
        format!(
            "[...document.querySelectorAll('#changes-{kind} tbody tr')].map(row => [...row.cells].map(cell => cell.textContent))"
        )
    };
    let mut expected: BTreeMap<&str, Vec<(f64, Value)>> = BTreeMap::new();
    for to in 1..FIXED.manifest.targets.len() {
        let report = FIXED.report(to - 1);
        let label = |target: usize| report.manifest.targets[target].label.clone();
        for row in &report.rows {
            let Some(relative) = row.cells[to].relative else { continue };
            let kind = match (relative.verdict, relative.certainty.confirmed) {
                (Verdict::Regressed, true) => "slower",
                (Verdict::Improved, true) => "faster",
                (Verdict::Regressed | Verdict::Improved, false) => "unconfirmed",
                _ => continue,
            };
            let (low, high) = relative.interval.unwrap();
            let ratio = two_decimals(relative.ratio).unwrap().to_string();
            let interval = format!("[{low:.3}, {high:.3}]");
            let line = json!([row.name, row.group, label(to - 1), label(to), ratio, interval, relative.words()]);
            expected.entry(kind).or_default().push((relative.ratio.ln().abs(), line));
        }
    }
    for kind in ["slower", "faster", "unconfirmed"] {
        let expected = expected.remove(kind).unwrap_or_default();
        assert!(kind == "unconfirmed" || expected.len() > 10, "{kind}: {}", expected.len());
        let shown: Vec<Value> = serde_json::from_value(browser.evaluate(&lines(kind))).unwrap();
        assert_eq!(shown.len(), expected.len(), "{kind}");
        let size = |line: &Value| {
            let found = expected.iter().find(|(_, expected)| expected == line);
            found.unwrap_or_else(|| panic!("{kind}: {line}")).0
        };
        let sizes: Vec<f64> = shown.iter().map(size).collect();
        // The scripts know ratios to a twenty thousandth.
        assert!(sizes.windows(2).all(|pair| pair[0] > pair[1] - 2e-4), "{kind}: {sizes:?}");
    }
}

#[test]
fn two_releases_are_compared_as_the_report_does() {
    let Some(mut browser) = browser() else { return };
    browser.open(&on_disk(&SEQUENTIAL, "compare.html#base=17&target=11.22&group=writes"));
    let report = SEQUENTIAL.report(15);
    let rows = "[...document.querySelectorAll('#rows tbody tr')].map(row => [0, 4, 5, 6].map(at => row.cells[at].textContent))";
    let expected: Vec<Value> = report
        .rows
        .iter()
        .filter(|row| row.group == "writes")
        .map(|row| {
            let relative = row.cells[8].relative.unwrap();
            let (low, high) = relative.interval.unwrap();
            let ratio = two_decimals(relative.ratio).unwrap().to_string();
            json!([row.name, ratio, format!("[{low:.3}, {high:.3}]"), relative.words()])
        })
        .collect();
    assert_eq!(browser.evaluate(rows), json!(expected));
    let heads = "[...document.querySelectorAll('#rows thead th')].slice(2, 4).map(head => head.textContent).join(' ')";
    assert_eq!(browser.text(heads), "17.7 11.22");
    assert_quiet(&browser, "file://");
}

#[test]
fn pages_fit_phones_and_desks_by_day_and_by_night() {
    let Some(mut browser) = browser() else { return };
    for (device, width, height) in WIDTHS {
        browser.resize(width, height);
        for (medium, scheme) in [("screen", "light"), ("screen", "dark"), ("print", "light")] {
            browser.appearance(medium, scheme);
            for page in ["index", "compare", "upgrade"] {
                browser.open(&on_disk(&FIXED, &format!("{page}.html")));
                let room = browser.evaluate("document.documentElement.scrollWidth - innerWidth").as_i64().unwrap();
                assert!(medium == "print" || room <= 0, "{page} is {room} pixels too wide for a {device}");
                let name = if medium == "print" { medium } else { scheme };
                browser.picture(&screens().join(format!("{page}-{device}-{name}.png")));
            }
            browser.open(&on_disk(&FIXED, "index.html#group=writes"));
            browser.evaluate("document.getElementById('heat-map').scrollIntoView()");
            browser.picture(&screens().join(format!("heat-{device}-{medium}-{scheme}.png")));
        }
    }
    assert_quiet(&browser, "file://");
}

/// The bytes of a page and of all that it loads.
pub(crate) fn weight(site: &Path, page: &str) -> u64 {
    let html = std::fs::read_to_string(site.join(page)).unwrap();
    let loaded = html.split("\"assets/").skip(1).filter_map(|rest| Some(format!("assets/{}", rest.split_once('"')?.0)));
    let assets: u64 = loaded.map(|file| std::fs::metadata(site.join(file)).unwrap().len()).sum();
    html.len() as u64 + assets
}

#[test]
fn the_first_page_stays_light() {
    for made in [&*FIXED, &*SEQUENTIAL] {
        for page in ["index.html", "compare.html", "upgrade.html"] {
            let weight = weight(made.site(), page);
            assert!(weight <= HEAVIEST, "{page} weighs {weight} bytes");
        }
    }
    let (rows, targets) = (FIXED.report(0).rows.len(), FIXED.manifest.targets.len());
    assert_eq!((rows, targets), (42, 17), "a page of the size that the limit is for");
}
