//! `versions refresh`, on directories and files; the unit tests have servers.

#![expect(clippy::needless_raw_string_hashes, reason = "snapbox writes them so")]

use std::fs;
use std::path::Path;

use snapbox::{assert_data_eq, str};

use crate::sandbox::Sandbox;

/// A directory `source` as a mirror has it, with two new minors, a new candidate, a new major, and releases that are known.
fn with_source() -> Sandbox {
    let sandbox = Sandbox::with_npm();
    let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    sandbox.file("source/v18.7/postgresql-18.7.tar.bz2.sha256", format!("{hash}  postgresql-18.7.tar.bz2\n"));
    sandbox.file("source/v17.13/postgresql-17.13.tar.bz2", "abc");
    for known in ["v18.6", "v9.0.23", "v8.4.22", "v17beta1", "v19rc1", "v19rc2", "v20beta1"] {
        sandbox.file(&format!("source/{known}/README"), "");
    }
    sandbox.file("versions.json", r#"[{"major": "18", "latestMinor": "7", "relDate": "2026-11-12", "current": true}]"#);
    sandbox
}

fn builtin(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("versions").join(name)).unwrap()
}

#[test]
fn a_new_directory_gets_the_builtin_manifests_and_what_is_new() {
    let sandbox = with_source();
    let arguments = ["versions", "refresh", "--versions", "mine", "--from", "source", "--from", "versions.json"];
    let before = sandbox.tree();
    let dry = sandbox.run(&[&arguments[..], &["--dry-run"]].concat());
    assert_eq!((dry.status, sandbox.tree()), (0, before));
    let run = sandbox.run(&arguments);
    assert_eq!((run.status, &run.stdout), (0, &dry.stdout));
    assert_data_eq!(
        run.stdout,
        str![[r#"
17.13: date not known, hash ba7816bf…
18.7: released 2026-11-12, hash ba7816bf…
19rc2: date not known, hash not known

"#]]
    );
    assert_data_eq!(
        run.stderr,
        str![[r#"
computing the hash of source/v17.13/postgresql-17.13.tar.bz2
note: 20 is not in the catalogue; add versions/20.toml: see CONTRIBUTING.md
filled mine with the built-in manifests
changed in mine: 17.toml, 18.toml, 19.toml

"#]]
    );
    let text = fs::read_to_string(sandbox.path("mine/18.toml")).unwrap();
    let entry = "\n[[release]]\nversion = \"18.7\"\ndate = \"2026-11-12\"\ntag = \"REL_18_7\"\n\
        archive = \"postgresql-18.7.tar.bz2\"\n\
        sha256 = \"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\"\n";
    assert!(text.contains(entry), "{text}");
    assert_eq!(text.replace(entry, ""), builtin("18.toml"));
    assert_eq!(fs::read_to_string(sandbox.path("mine/16.toml")).unwrap(), builtin("16.toml"));

    assert_eq!(sandbox.ok(&arguments), "nothing new\n");
    // Other commands know it then.
    assert!(sandbox.ok(&["versions", "18", "--versions", "mine"]).contains("18.7     2026-11-12"));
    let plan = sandbox.ok(&["sweep", "18", "--dry-run", "--source", "prefix=/opt/pg", "--versions", "mine"]);
    assert!(plan.contains("base: 18.7"), "{plan}");
}

#[test]
fn a_checkout_is_refreshed_where_it_is() {
    let sandbox = with_source();
    for name in ["18.toml", "17.toml"] {
        sandbox.file(&format!("versions/{name}"), builtin(name));
    }
    let run = sandbox.run(&["versions", "refresh", "--from", "versions.json", "--json"]);
    assert_data_eq!(
        run.stdout,
        str![[r#"
{
  "directory": "versions",
  "dry_run": false,
  "filled": false,
  "changed": [
    "18.toml"
  ],
  "added": [
    {
      "version": "18.7",
      "new": true,
      "date": "2026-11-12",
      "sha256": null
    }
  ],
  "notes": []
}

"#]]
    );
    assert_data_eq!(
        run.stderr,
        str![[r#"
changed in versions: 18.toml
regtrack knows them when it is built again, or with --versions versions

"#]]
    );
    assert_data_eq!(
        sandbox.ok(&["-q", "versions", "refresh", "--from", "source"]),
        str![[r#"
17.13: date not known, hash ba7816bf…
18.7: hash ba7816bf… (was missing)

"#]]
    );
    assert_eq!(fs::read_dir(sandbox.path("versions")).unwrap().count(), 2, "no other file is made");
}

#[test]
fn a_sweep_goes_on_with_the_catalogue_of_its_last_call() {
    let sandbox = with_source();
    sandbox.ok(&["versions", "refresh", "--versions", "mine", "--from", "source"]);
    sandbox.file("qps.abs.tsv", super::TABLE);
    sandbox.ok(&["import", "qps.abs.tsv"]);
    // What a sweep would have left: the arguments of its last call.
    let manifest = sandbox.path("results/sweeps").read_dir().unwrap().next().unwrap().unwrap().path();
    let manifest = manifest.join("manifest.json");
    let text = fs::read_to_string(&manifest).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["arguments"] = serde_json::json!(["sweep", "18", "--versions", "mine", "--source", "prefix=/opt/pg"]);
    fs::write(&manifest, json.to_string()).unwrap();
    assert!(sandbox.ok(&["sweep", "--dry-run"]).contains("base: 18.7"));
}
