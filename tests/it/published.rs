//! The published tables: imported, analysed, and compared with what was printed.

use std::path::{Path, PathBuf};

use regtrack::analysis::{self, Catalogue, two_decimals};
use regtrack::domain::{Group, Report, SweepManifest};
use regtrack::site::{self, Content};
use regtrack::store::{self, RowKind, Store};

/// A group's name and count, then min, max, avg, median and stdev.
type Published = (&'static str, usize, [f64; 5]);

/// The article's three tables: a base, and the summaries of 16.2 relative to it.
use crate::common::{not_run, runs};
use crate::site::{HEAVIEST, weight};

const ARTICLE: [(&str, [Published; 5]); 3] = [
    (
        "9.0.23",
        [
            ("point-1", 11, [0.92, 1.32, 1.18, 1.20, 0.12]),
            ("point-2", 6, [1.07, 1.18, 1.12, 1.13, 0.04]),
            ("range-1", 8, [0.77, 1.68, 1.09, 1.00, 0.37]),
            ("range-2", 7, [0.78, 1.34, 1.01, 0.85, 0.25]),
            ("writes", 10, [1.11, 4.64, 2.21, 1.97, 1.10]),
        ],
    ),
    (
        "10.23",
        [
            ("point-1", 11, [1.02, 1.11, 1.07, 1.08, 0.03]),
            ("point-2", 6, [1.04, 1.08, 1.06, 1.06, 0.01]),
            ("range-1", 8, [1.07, 1.13, 1.10, 1.10, 0.02]),
            ("range-2", 7, [1.04, 1.09, 1.06, 1.05, 0.02]),
            ("writes", 10, [1.02, 1.15, 1.08, 1.06, 0.04]),
        ],
    ),
    (
        "14.10",
        [
            ("point-1", 11, [0.96, 1.07, 1.00, 1.00, 0.03]),
            ("point-2", 6, [0.99, 1.00, 1.00, 1.00, 0.01]),
            ("range-1", 8, [0.95, 1.00, 0.98, 0.99, 0.02]),
            ("range-2", 7, [1.00, 1.07, 1.02, 1.00, 0.03]),
            ("writes", 10, [0.99, 1.04, 1.01, 1.02, 0.01]),
        ],
    ),
];

/// The tables in the order of [`ARTICLE`].
const TABLES: [&str; 3] = ["pglatest", "pg10plus", "pg14plus"];

/// The article's archived tables; `None`, with a word about it, where they are not at hand.
fn article_tables() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/reference/callaghan");
    let dir = std::env::var_os("REGTRACK_CALLAGHAN_DIR").map_or_else(beside, PathBuf::from);
    let dir = dir.join("feb24.1u.bee.sb.pg.mem");
    if dir.is_dir() {
        runs("published");
        return Some(dir);
    }
    not_run("published", "the article's archived tables are not here (REGTRACK_CALLAGHAN_DIR names their directory)");
    None
}

fn groups() -> Vec<Group> {
    let group = |name: &str, members: &str| Group {
        name: name.to_owned(),
        title: String::new(),
        members: members.split(' ').map(str::to_owned).collect(),
    };
    vec![
        group(
            "point-1",
            "hot-points point-query points-covered-pk points-covered-si points-notcovered-pk points-notcovered-si",
        ),
        group("point-2", "random-points"),
        group("range-1", "range-covered-pk range-covered-si range-notcovered-pk range-notcovered-si"),
        group("range-2", "read-only scan"),
        group(
            "writes",
            "delete insert read-write update-index update-inlist update-nonindex update-one update-zipf write-only",
        ),
    ]
}

fn import(tables: &[PathBuf]) -> (tempfile::TempDir, Store, SweepManifest) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::create_or_open(dir.path().join("results")).unwrap();
    let tables = store::read_tables(tables, &|_| RowKind::Reported).unwrap();
    let manifest = store::import(&store, &tables).unwrap();
    (dir, store, manifest)
}

fn report(store: &Store, manifest: &SweepManifest, base: &str) -> Report {
    let slices = store.slices(&manifest.id).unwrap();
    let groups = groups();
    let catalogue = Catalogue { microbenchmarks: &[], groups: &groups, newest: &[] };
    let base = analysis::find_target(manifest, base).unwrap();
    analysis::report(manifest, &slices, &catalogue, &base.id).unwrap()
}

/// Compares the summaries of 16.2 with the article's; returns how many numbers agree.
#[expect(clippy::float_cmp, reason = "rounded numbers are exact")]
fn agreeing(report: &Report, expected: &[Published]) -> usize {
    let target = report.manifest.targets.iter().position(|target| target.label == "16.2").unwrap();
    let groups = &report.summaries[target].groups;
    assert_eq!(groups.len(), expected.len());
    let mut agreeing = 0;
    for (group, (name, count, numbers)) in groups.iter().zip(expected) {
        assert_eq!((group.group.as_str(), group.count), (*name, *count));
        let found = [group.min, group.max, group.avg, group.median, group.stdev.unwrap()];
        assert_eq!(found, *numbers, "{name}: min, max, avg, median, stdev");
        agreeing += found.len();
    }
    agreeing
}

#[test]
fn the_75_numbers_of_the_article_come_out_exactly() {
    let Some(dir) = article_tables() else { return };
    let paths = TABLES.map(|table| dir.join(format!("qps.abs.{table}.tsv")));

    let mut alone = 0;
    for (path, (base, expected)) in paths.iter().zip(&ARTICLE) {
        let (_dir, store, manifest) = import(std::slice::from_ref(path));
        assert_eq!(analysis::find_target(&manifest, base).unwrap().id, manifest.base, "the oldest is the base");
        alone += agreeing(&report(&store, &manifest, base), expected);
    }
    assert_eq!(alone, 75);

    let (_dir, store, manifest) = import(&paths);
    assert_eq!((manifest.launches, manifest.targets.len()), (3, 17));
    let together: usize =
        ARTICLE.iter().map(|(base, expected)| agreeing(&report(&store, &manifest, base), expected)).sum();
    assert_eq!(together, 75);
    let warnings = report(&store, &manifest, "9.0.23").warnings.join("\n");
    assert!(warnings.contains("have no ratio to it: 14.10, 15.5 and 16.1."), "{warnings}");
}

#[test]
fn all_published_relative_cells_come_out_exactly() {
    let Some(dir) = article_tables() else { return };
    let mut cells = 0;
    for (table, (base, _)) in TABLES.iter().zip(&ARTICLE) {
        let (_dir, store, manifest) = import(&[dir.join(format!("qps.abs.{table}.tsv"))]);
        let report = report(&store, &manifest, base);
        let relative = std::fs::read_to_string(dir.join(format!("qps.rel.{table}.csv"))).unwrap();
        for line in relative.lines().filter(|line| !line.trim().is_empty()) {
            let (name, ratios) = line.split_once(',').unwrap();
            let row = report.rows.iter().find(|row| row.name == name).unwrap();
            for (printed, cell) in ratios.split(',').zip(&row.cells[1..]) {
                let ratio = two_decimals(cell.relative.unwrap().ratio).unwrap();
                assert_eq!(ratio, printed.parse().unwrap(), "{table} {name}");
                cells += 1;
            }
        }
    }
    assert_eq!(cells, 1008);
}

#[test]
fn the_overview_of_all_published_tables_stays_light() {
    let Some(dir) = article_tables() else { return };
    let (dir, store, manifest) = import(&TABLES.map(|table| dir.join(format!("qps.abs.{table}.tsv"))));
    let report = report(&store, &manifest, "9.0.23");
    let (slices, groups) = (store.slices(&manifest.id).unwrap(), groups());
    let catalogue = Catalogue { microbenchmarks: &[], groups: &groups, newest: &[] };
    let pairs = analysis::pairs(&manifest, &slices, &catalogue).unwrap();
    let out = dir.path().join("site");
    site::render(&Content::of(&report, &pairs), &out).unwrap();
    assert_eq!((report.rows.len(), report.manifest.targets.len()), (42, 17));
    let weight = weight(&out, "index.html");
    assert!(weight <= HEAVIEST, "it weighs {weight} bytes");
}
