//! A release compiled from its source archive. `REGTRACK_TEST_SOURCE` names the archive, for example
//! the `.orig.tar.bz2` of a distribution's source package, and `REGTRACK_TEST_SOURCE_VERSION` its
//! version.

use regtrack::catalog::suite;
use regtrack::domain::Provenance;

use super::{Place, text};
use crate::common::{not_run, runs};

#[test]
fn a_release_is_compiled_from_its_archive_and_measured() {
    const TEST: &str = "a_release_is_compiled_from_its_archive_and_measured";
    let variable = std::env::var("REGTRACK_TEST_SOURCE").ok().zip(std::env::var("REGTRACK_TEST_SOURCE_VERSION").ok());
    let Some((archive, version)) = variable else {
        not_run(TEST, "REGTRACK_TEST_SOURCE and REGTRACK_TEST_SOURCE_VERSION name no source archive");
        return;
    };
    let Some(place) = Place::for_test(TEST) else { return };
    runs(TEST);
    let source = format!("source={archive}");
    let output = place.run(&["build", &version, "--source", &source, "--json"]);
    assert!(output.status.success(), "{}", text(&output));
    let lines: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&lines[0]["version"], &lines[0]["proved"]), (&version.as_str().into(), &true.into()), "{lines}");

    let output = place.run(&[
        "sweep",
        &version,
        "--profile",
        "smoke",
        "--rows",
        "3000",
        "--seconds",
        "0.05",
        "--source",
        &source,
    ]);
    assert!(output.status.success(), "{}", text(&output));
    let all = suite::builtin().unwrap().microbenchmarks.len() as u64;
    assert_eq!(place.status(), (all, 0, 0));
    let (manifest, _) = place.results();
    let build = manifest.targets[0].build.as_ref().unwrap();
    assert!(matches!(build.provenance, Provenance::Source { .. }), "{build:?}");
    assert_eq!(build.version.to_string(), version);
    assert!(build.fingerprint.cflags.as_ref().unwrap().contains("-O2"), "{build:?}");
}
