//! Programs that are missing.

use super::*;

#[test]
fn neither_npm_nor_a_compiler() {
    refused(&Sandbox::new(), &["sweep", "16..18"], ERROR).says(str![[r#"
error: no way to get a server on this machine: prebuilt packages need npm, and compiling needs cc, make, bison, flex, perl; install npm, or build-essential bison flex perl (Debian's names)

"#]]);
}

#[test]
fn prebuilt_without_npm() {
    refused(&Sandbox::new(), &["sweep", "16", "--source", "prebuilt"], ERROR).says(str![[r#"
error: fetching prebuilt packages needs npm, not found on PATH; install npm (Debian's names)

"#]]);
}

#[test]
fn source_without_a_compiler() {
    refused(&Sandbox::with_npm(), &["sweep", "9.6", "--source", "source"], ERROR).says(str![[r#"
error: compiling PostgreSQL needs cc, make, not found on PATH; install build-essential (Debian's names)

"#]]);
}

#[test]
fn a_release_that_is_not_prebuilt() {
    refused(&Sandbox::with_npm(), &["sweep", "9.6", "--source", "prebuilt"], ERROR).says(str![[r#"
error: 9.6.24 has no prebuilt package; compile it with --source=source

"#]]);
}

#[test]
fn parity_without_sysbench() {
    refused(&Sandbox::with_npm(), &["parity", "17"], ERROR).says(str![[r#"
error: the program 'sysbench' is not on this machine: install sysbench ('sudo apt-get install sysbench' on Debian and Ubuntu), or name it with --sysbench

"#]]);
}
