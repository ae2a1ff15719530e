//! Results directories, and names looked up in them.

use super::*;

#[test]
fn none() {
    for command in [&["status"][..], &["report"], &["compare", "16", "17"]] {
        refused(&Sandbox::new(), command, ERROR).says(str![[r#"
error: there are no results in 'results': run a sweep or import tables first

"#]]);
    }
}

#[test]
fn an_empty_directory() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path("results")).unwrap();
    refused(&sandbox, &["report"], ERROR).says(str![[r#"
error: there are no results in 'results': run a sweep or import tables first

"#]]);
}

#[test]
fn someone_elses_directory() {
    let sandbox = Sandbox::with_npm();
    sandbox.file("photos/cat.jpg", "meow");
    sandbox.file("qps.abs.tsv", TABLE);
    let commands = [&["report"][..], &["import", "qps.abs.tsv"], &["-q", "sweep", "16", "--source", "prebuilt"]];
    for command in commands {
        let arguments = [command, &["--results", "photos"]].concat();
        refused(&sandbox, &arguments, ERROR).says(str![[r#"
error: 'photos' is not empty and holds no regtrack-results.json, so it isn't a results directory: choose a new or an empty one

"#]]);
    }
}

#[test]
fn a_file() {
    let sandbox = Sandbox::new();
    sandbox.file("results", "text");
    refused(&sandbox, &["report"], ERROR).says(str![[r#"
error: 'results' is not a directory: choose another results directory

"#]]);
}

#[test]
fn of_a_newer_format() {
    let sandbox = Sandbox::with_npm();
    sandbox.file("results/regtrack-results.json", "{\"format\": 2, \"shape\": \"other\"}");
    for command in [&["report"][..], &["-q", "sweep", "16", "--source", "prebuilt"]] {
        refused(&sandbox, command, ERROR).says(str![[r#"
error: 'results/regtrack-results.json' has format 2, and this regtrack reads formats up to 1: use the regtrack that wrote it

"#]]);
    }
}

#[test]
fn with_a_sweep_of_a_newer_format() {
    let sandbox = imported();
    let manifest = in_sweep(&sandbox, "manifest.json");
    let text = std::fs::read_to_string(sandbox.path(&manifest)).unwrap();
    sandbox.file(&manifest, text.replace("\"format\": 1", "\"format\": 7"));
    refused(&sandbox, &["report"], ERROR).says(str![[r#"
error: 'results/sweeps/import-8479c664ca55/manifest.json' has format 7, and this regtrack reads formats up to 1: use the regtrack that wrote it

"#]]);
}

#[test]
fn with_a_damaged_manifest() {
    let sandbox = imported();
    let manifest = in_sweep(&sandbox, "manifest.json");
    sandbox.file(&manifest, "{\"format\": 1, \"id\"");
    refused(&sandbox, &["status"], ERROR).says(str![[r#"
error: 'results/sweeps/import-8479c664ca55/manifest.json' is not what regtrack writes there
  caused by: EOF while parsing an object at line 1 column 18

"#]]);
}

#[test]
fn with_a_truncated_slice_file() {
    let sandbox = imported();
    let file = in_sweep(&sandbox, "slices/b1/table.parquet");
    let whole = std::fs::read(sandbox.path(&file)).unwrap();
    sandbox.file(&file, &whole[..whole.len() / 2]);
    for command in [&["report"][..], &["compare", "9.0", "16"], &["report", "--site", "site"]] {
        refused(&sandbox, command, ERROR).says(str![[r#"
error: cannot read 'results/sweeps/import-8479c664ca55/slices/b1/table.parquet': move the file away, then repeat the sweep or the import
  caused by: it is not a complete Parquet file (its end is missing)

"#]]);
    }
    // The way out that the message names.
    std::fs::remove_file(sandbox.path(&file)).unwrap();
    sandbox.ok(&["import", "qps.abs.tsv"]);
    assert!(sandbox.ok(&["report"]).contains("update-one_range=100"));
}

#[test]
fn with_a_flipped_byte() {
    let sandbox = imported();
    let file = in_sweep(&sandbox, "slices/b1/table.parquet");
    let mut bytes = std::fs::read(sandbox.path(&file)).unwrap();
    bytes[200] ^= 1;
    sandbox.file(&file, bytes);
    refused(&sandbox, &["report"], ERROR).says(str![[r#"
error: cannot read 'results/sweeps/import-8479c664ca55/slices/b1/table.parquet': move the file away, then repeat the sweep or the import
  caused by: its content does not match its checksum

"#]]);
}

#[test]
fn in_use() {
    let sandbox = imported();
    let _lock = Store::open(sandbox.path("results")).unwrap().lock().unwrap();
    for command in [&["import", "qps.abs.tsv"][..], &["-q", "sweep", "16", "--source", "prebuilt"]] {
        refused(&sandbox, command, ERROR).says(str![[r#"
error: the results in 'results' are being written by process [PID]: wait for it to end, or choose another directory

"#]]);
    }
    sandbox.ok(&["report"]);
}

#[test]
fn unknown_release() {
    refused(&imported(), &["compare", "9.0", "17"], ERROR).says(str![[r#"
error: the sweep 'import-8479c664ca55' has no release '17'; it has 9.0.23, 16.2

"#]]);
}

#[test]
fn unknown_base() {
    refused(&imported(), &["report", "--base", "15"], ERROR).says(str![[r#"
error: the sweep 'import-8479c664ca55' has no release '15'; it has 9.0.23, 16.2

"#]]);
}

#[test]
fn unknown_sweep() {
    refused(&imported(), &["report", "--sweep", "import-0"], ERROR).says(str![[r#"
error: there is no sweep 'import-0' in 'results'; there are import-8479c664ca55

"#]]);
}
