//! Every page against a validator of HTML: html-validate, which npm gets once into the target directory.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::made::{FIXED, SEQUENTIAL};
use crate::common::{must_run, not_run, runs};

/// The last one for Node 18, which Debian 12 has.
const VALIDATOR: &str = "html-validate@9.7.1";

/// The validator's program; `None`, with a word about it, where it is not to be had.
fn validator() -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR")).join(VALIDATOR);
    let program = place.join("node_modules/.bin/html-validate");
    if !program.exists() {
        std::fs::create_dir_all(&place).unwrap();
        let install = ["install", "--no-audit", "--no-fund", "--silent", "--prefix"];
        match Command::new("npm").args(install).arg(&place).arg(VALIDATOR).output() {
            Err(_) => {
                must_run("markup", "there is no npm on the search path");
                return None;
            }
            Ok(output) if !output.status.success() => {
                not_run("markup", &format!("npm could not get {VALIDATOR}"));
                return None;
            }
            Ok(_) => {}
        }
    }
    runs("markup");
    Some(program)
}

#[test]
fn every_page_is_valid_html() {
    let Some(program) = validator() else { return };
    let config = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/site/html-validate.json");
    for made in [&*FIXED, &*SEQUENTIAL] {
        let output = Command::new(&program)
            .arg("--config")
            .arg(&config)
            .args(["--ext", "html"])
            .arg(made.site())
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}
