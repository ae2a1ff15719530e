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
