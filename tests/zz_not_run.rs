//! Ends a test run with what was not run, and why. Tests that cannot do their work here leave a note
//! (see `it/common.rs`).

use std::fs;
use std::io::Write as _;
use std::path::Path;

fn main() {
    let notes = Path::new(env!("CARGO_TARGET_TMPDIR")).join("not-run");
    let mut lines: Vec<String> = fs::read_dir(notes)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| fs::read_to_string(entry.path()).ok())
        .collect();
    lines.sort();
    if lines.is_empty() {
        lines.push("nothing; every test did its work".to_owned());
    }
    let mut out = std::io::stdout().lock();
    for line in lines {
        writeln!(out, "not run: {line}").expect("standard output takes the notes");
    }
}
