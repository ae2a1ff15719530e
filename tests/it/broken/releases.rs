//! Releases and ranges.

use super::*;

#[test]
fn unknown_version() {
    refused(&Sandbox::new(), &["versions", "17.99"], ERROR).says(str![[r#"
error: PostgreSQL 17.99 is not in the catalogue; nearest: 17.12, 17.11, 17.10

"#]]);
}

#[test]
fn unknown_version_of_a_sweep() {
    refused(&Sandbox::with_npm(), &["sweep", "16.2,17.99"], ERROR).says(str![[r#"
error: PostgreSQL 17.99 is not in the catalogue; nearest: 17.12, 17.11, 17.10

"#]]);
}

#[test]
fn unknown_major() {
    refused(&Sandbox::new(), &["versions", "9.7"], ERROR).says(str![[r#"
error: PostgreSQL 9.7 is not in the catalogue; nearest: 9.6, 9.5, 10

"#]]);
}

#[test]
fn reversed_range() {
    refused(&Sandbox::new(), &["versions", "18..16"], USAGE).says(str![[r#"
error: invalid value '18..16' for '[RANGE]': the range '18..16' is empty: 18 is newer than 16 (did you mean 16..18?)

For more information, try '--help'.

"#]]);
}

#[test]
fn empty_part() {
    refused(&Sandbox::new(), &["versions", "9.0,,16"], USAGE).says(str![[r#"
error: invalid value '9.0,,16' for '[RANGE]': the range '9.0,,16' has an empty part

For more information, try '--help'.

"#]]);
}

#[test]
fn no_version() {
    refused(&Sandbox::new(), &["versions", "16..latest"], USAGE).says(str![[r#"
error: invalid value '16..latest' for '[RANGE]': 'latest' in the range '16..latest' is not a PostgreSQL version (write 16, 16.2, 9.6, 9.6.24 or A..B)

For more information, try '--help'.

"#]]);
}

#[test]
fn base_outside_the_range() {
    refused(&Sandbox::with_npm(), &["sweep", "16..18", "--base", "15"], ERROR).says(str![[r#"
error: the base 15 is not one of the releases of this sweep (16.15, 17.12, 18.6)

"#]]);
}

#[test]
fn a_major_to_show_that_does_not_exist() {
    refused(&Sandbox::new(), &["versions", "show", "9.7"], ERROR).says(str![[r#"
error: PostgreSQL 9.7 is not in the catalogue; nearest: 9.6, 9.5, 10

"#]]);
}

#[test]
fn a_minor_to_show() {
    refused(&Sandbox::new(), &["versions", "show", "16.2"], USAGE).says(str![[r#"
error: invalid value '16.2' for '<MAJOR>': '16.2' is not a PostgreSQL major version such as 9.6 or 17

For more information, try '--help'.

"#]]);
}

#[test]
fn a_catalogue_that_is_not_there() {
    for command in [&["versions"][..], &["sweep", "16", "--dry-run"], &["build", "16"], &["doctor"]] {
        let arguments = [command, &["--versions", "mine"]].concat();
        refused(&Sandbox::with_npm(), &arguments, ERROR).says(str![[r#"
error: could not read mine
  caused by: No such file or directory (os error 2)

"#]]);
    }
}

#[test]
fn a_catalogue_without_manifests() {
    let sandbox = Sandbox::new();
    sandbox.file("mine/notes.txt", "");
    refused(&sandbox, &["versions", "--versions", "mine"], ERROR).says(str![[r#"
error: there is no <major>.toml in mine

"#]]);
}

/// With a listing in `source` that has a new minor and a known one.
fn with_source() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.file("source/v18.7/postgresql-18.7.tar.bz2", "abc");
    sandbox.file("source/v17.12/postgresql-17.12.tar.bz2.sha256", format!("{}  x\n", "0".repeat(64)));
    sandbox
}

#[test]
fn no_catalogue_to_refresh() {
    refused(&with_source(), &["versions", "refresh", "--from", "source"], ERROR).says(str![[r#"
error: there are no manifests in ./versions to add releases to; name a directory with --versions DIR, and it gets the built-in ones first

"#]]);
}

#[test]
fn a_directory_to_refresh_that_holds_something_else() {
    let sandbox = with_source();
    sandbox.file("mine/notes.txt", "");
    refused(&sandbox, &["versions", "refresh", "--versions", "mine", "--from", "source"], ERROR).says(str![[r#"
error: there is no <major>.toml in mine

"#]]);
}

#[test]
fn a_hash_that_is_not_the_catalogues() {
    let sandbox = with_source();
    let arguments = ["-q", "versions", "refresh", "--versions", "mine", "--from", "source"];
    refused(&sandbox, &arguments, ERROR).says(str![[r#"
error: the archive of 17.12 has two different hashes, so one source is wrong or was tampered with; nothing was changed
    9cf136a703d8ee2f83465c43be4e9e8e7930c82b0bfba13be7e2537be769ac55 (versions/17.toml)
    0000000000000000000000000000000000000000000000000000000000000000 (source/v17.12/postgresql-17.12.tar.bz2.sha256)

"#]]);
}

#[test]
fn a_listing_that_lists_nothing() {
    let sandbox = Sandbox::new();
    sandbox.file("notes.txt", "v18.7");
    refused(&sandbox, &["versions", "refresh", "--versions", "mine", "--from", "notes.txt"], ERROR).says(str![[r#"
error: notes.txt lists no PostgreSQL release; name an index with links such as v17.5/, a directory with postgresql-17.5.tar.bz2 or its .sha256, or a versions.json

"#]]);
}

#[test]
fn a_listing_that_is_not_there() {
    let arguments = ["versions", "refresh", "--versions", "mine", "--from", "source"];
    refused(&Sandbox::new(), &arguments, ERROR).says(str![[r#"
error: could not read source
  caused by: No such file or directory (os error 2)

"#]]);
}

#[test]
fn json_that_is_no_listing() {
    let sandbox = Sandbox::new();
    sandbox.file("versions.json", r#"{"18": "18.7"}"#);
    let arguments = ["versions", "refresh", "--versions", "mine", "--from", "versions.json"];
    refused(&sandbox, &arguments, ERROR).says(str![[r#"
error: versions.json is no versions.json of postgresql.org
  caused by: invalid type: map, expected a sequence at line 1 column 0

"#]]);
}
