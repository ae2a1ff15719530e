//! What the program prints, compared with the files in `snapshots/`. `SNAPSHOTS=overwrite cargo test cli`
//! accepts what it prints now.

mod bisect;
mod refresh;

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use snapbox::{Assert, Data};

use regtrack::domain::{Finding, FindingStatus};

use crate::common::regtrack;
use crate::sandbox::Sandbox;

/// Name of the expected file, and the arguments.
const SNAPSHOTS: [(&str, &[&str]); 40] = [
    ("help", &["--help"]),
    ("help-sweep", &["sweep", "--help"]),
    ("help-weekly", &["weekly", "--help"]),
    ("help-publish", &["publish", "--help"]),
    ("help-build", &["build", "--help"]),
    ("help-bisect", &["bisect", "--help"]),
    ("help-compare", &["compare", "--help"]),
    ("help-report", &["report", "--help"]),
    ("help-import", &["import", "--help"]),
    ("help-parity", &["parity", "--help"]),
    ("help-selftest", &["selftest", "--help"]),
    ("help-doctor", &["doctor", "--help"]),
    ("help-status", &["status", "--help"]),
    ("help-versions", &["versions", "--help"]),
    ("help-bench", &["bench", "--help"]),
    ("help-bench-list", &["bench", "list", "--help"]),
    ("help-variants", &["variants", "--help"]),
    ("variants", &["variants"]),
    ("help-cache", &["cache", "--help"]),
    ("help-cache-list", &["cache", "list", "--help"]),
    ("help-cache-prune", &["cache", "prune", "--help"]),
    ("cache-list-json", &["cache", "list", "--cache", "none", "--json"]),
    ("versions", &["versions", "9.0..18"]),
    ("versions-minors", &["versions", "14.10..15.2", "--minors"]),
    ("versions-json", &["versions", "9.6", "--json"]),
    ("help-versions-refresh", &["versions", "refresh", "--help"]),
    ("help-versions-show", &["versions", "show", "--help"]),
    ("versions-show", &["versions", "show", "9.2"]),
    ("versions-show-beta", &["versions", "show", "19"]),
    ("versions-show-json", &["versions", "show", "9.5", "--json"]),
    ("bench-list", &["bench", "list"]),
    ("bench-list-json", &["bench", "list", "--bench", "scan", "--bench", "read-write_range=10", "--json"]),
    ("plan", &["sweep", "16..18", "--dry-run", "--source", "prebuilt"]),
    ("plan-smoke", &["sweep", "17", "--dry-run", "--profile", "smoke", "--launches", "1", "--bench", "scan"]),
    (
        "plan-paper",
        &["sweep", "9.0..18", "--base", "10", "--dry-run", "--profile", "paper", "--source", "prefix=/opt/pg"],
    ),
    (
        "plan-weekly",
        &[
            "weekly",
            "16.1..16.3",
            "--minors",
            "--week",
            "2026-W49",
            "--no-refresh",
            "--dry-run",
            "--source",
            "prefix=/opt/pg",
        ],
    ),
    ("report", &["report", "--results", "imported"]),
    ("report-markdown", &["report", "--results", "imported", "--markdown"]),
    ("compare", &["compare", "9.0", "16", "--results", "imported"]),
    ("compare-json", &["compare", "9.0", "16", "--results", "imported", "--json"]),
];

/// Made up, with the columns of the published tables.
const TABLE: &str = "col-1 : x.pg9023_def.x9a2_bee.pk1\ncol-2 : x.pg162_def.x9a2_bee.pk1\n\ncol-1\tcol-2\n\
    10000\t9500\tpoint-query.pre_range=100\n10000\t12000\thot-points_range=100\n4000\t3000\trange-covered-pk_range=100\n\
    2.000\t2.500\tscan_range=100\n3000\t9000\tupdate-one_range=100\n";

fn snapshots() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/cli/snapshots")
}

#[test]
fn what_is_printed_is_what_was_accepted() {
    let sandbox = Sandbox::with_npm();
    sandbox.file("qps.abs.tsv", TABLE);
    sandbox.ok(&["import", "qps.abs.tsv", "--results", "imported"]);
    let before = sandbox.tree();
    let assert = Assert::new().action_env(snapbox::assert::DEFAULT_ACTION_ENV);
    let mut differences = String::new();
    for (name, arguments) in SNAPSHOTS {
        let run = sandbox.run(arguments);
        assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{name}");
        let expected = Data::read_from(&snapshots().join(format!("{name}.txt")), None);
        if let Err(difference) = assert.try_eq(Some(&name), without_account(&run.stdout).into(), expected) {
            differences.push_str(&difference.to_string());
        }
    }
    assert!(differences.is_empty(), "{differences}");
    assert_eq!(sandbox.tree(), before, "none of these writes anything");
}

/// Only root gets to read which account its servers will have.
fn without_account(text: &str) -> String {
    text.split_inclusive('\n').filter(|line| !line.contains("refuses to run as root")).collect()
}

#[test]
fn the_doctor_says_what_is_missing_and_changes_nothing() {
    let sandbox = Sandbox::new();
    let before = sandbox.tree();
    let run = sandbox.run(&["doctor", "--profile", "smoke", "--json"]);
    assert_eq!((run.status, run.stderr.as_str()), (1, ""), "neither npm nor a compiler is there");
    let findings: Vec<Finding> = serde_json::from_str(&run.stdout).unwrap();
    let of = |check: &str| findings.iter().find(|finding| finding.check == check).unwrap();
    for (check, status, mend) in [
        ("compiler", FindingStatus::Fail, Some("sudo apt-get install build-essential")),
        ("npm", FindingStatus::Fail, Some("sudo apt-get install npm")),
        ("flex", FindingStatus::Warn, Some("sudo apt-get install flex")),
        ("setpriv", FindingStatus::Ok, None),
        ("account", FindingStatus::Ok, None),
    ] {
        assert_eq!((of(check).status, of(check).mend.as_deref()), (status, mend), "{check}");
    }
    let text = sandbox.run(&["doctor", "--profile", "smoke"]);
    assert!(text.stdout.contains("  mend: sudo apt-get install npm\n"), "{}", text.stdout);
    assert_eq!((text.status, sandbox.tree()), (1, before));
}

#[test]
fn no_expected_file_is_left_over() {
    let entries = std::fs::read_dir(snapshots()).unwrap().map(|entry| entry.unwrap().file_name());
    let there: BTreeSet<String> = entries.map(|name| name.into_string().unwrap()).collect();
    assert_eq!(there, SNAPSHOTS.iter().map(|(name, _)| format!("{name}.txt")).collect());
}

#[test]
fn quiet_leaves_the_data_and_takes_the_rest() {
    let sandbox = Sandbox::new();
    sandbox.file("qps.abs.tsv", TABLE);
    let loud = sandbox.run(&["import", "qps.abs.tsv"]);
    assert!(loud.stderr.starts_with("imported 10 values of 2 releases as import-"), "{}", loud.stderr);
    let quiet = sandbox.run(&["-q", "import", "qps.abs.tsv"]);
    assert_eq!((quiet.status, quiet.stdout.as_str(), quiet.stderr.as_str()), (0, "9.0.23 16.2\n", ""));
}

#[test]
fn every_table_has_the_same_numbers_in_every_format() {
    let sandbox = Sandbox::new();
    sandbox.file("qps.abs.tsv", TABLE);
    sandbox.ok(&["import", "qps.abs.tsv"]);
    for format in ["--json", "--csv", "--markdown"] {
        for arguments in [&["report", format][..], &["compare", "9.0", "16", format]] {
            let text = sandbox.ok(arguments);
            assert!(text.contains("hot-points_range=100") && text.contains("1.2"), "{arguments:?}: {text}");
        }
    }
    let both = sandbox.run(&["report", "--json", "--csv"]);
    assert_eq!(both.status, 2, "one format at a time");
}

#[test]
fn a_site_is_written_where_it_is_wanted_and_replaced_by_the_next() {
    let sandbox = Sandbox::new();
    sandbox.file("qps.abs.tsv", TABLE);
    sandbox.ok(&["import", "qps.abs.tsv"]);
    for _ in 0..2 {
        let index = sandbox.ok(&["report", "--site", "deep/site"]);
        assert_eq!(index, "deep/site/index.html\n");
        assert!(sandbox.path("deep/site/downloads/slices.parquet").is_file());
    }
}

/// Servers that are there but do not work, and one release that is not there.
#[test]
fn each_release_that_cannot_be_had_is_told_and_the_others_go_on() {
    let home = tempfile::tempdir().unwrap();
    std::fs::set_permissions(home.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    // Written by a child: a file that this process has open for writing cannot be run.
    let script = r#"mkdir -p 16.3/bin && cd 16.3/bin && echo '#!/bin/sh\necho "postgres (PostgreSQL) 16.3"' >postgres &&
        echo '#!/bin/sh\necho cannot >&2; exit 1' >initdb && chmod 755 postgres initdb . .."#;
    assert!(Command::new("sh").args(["-ec", script]).current_dir(home.path()).status().unwrap().success());
    let build = |arguments: &[&str]| {
        let source = format!("prefix={}", home.path().display());
        let fixed = ["build", "16.3,17.2", "--source", &source, "--cache", "cache"];
        let output = regtrack().current_dir(home.path()).args(fixed).args(arguments).output().unwrap();
        (output.status.code().unwrap(), String::from_utf8(output.stdout).unwrap())
    };
    let (status, text) = build(&[]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!((status, lines.len()), (3, 2), "{text}");
    assert!(lines[0].starts_with("16.3: failed: ") && lines[0].contains("initdb"), "{text}");
    assert!(lines[1].starts_with("17.2: failed: "), "{text}");

    let (status, text) = build(&["--no-proof"]);
    assert!(status == 3 && text.starts_with("16.3: installed in ") && text.contains("s, not proved\n17.2"), "{text}");

    let (_, text) = build(&["--json"]);
    let lines: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&lines[0]["release"], &lines[0]["proved"]), (&"16.3".into(), &false.into()), "{text}");
    assert!(lines[0]["error"].as_str().unwrap().contains("cannot") && lines[1]["prefix"].is_null(), "{text}");
}
