//! Options of a sweep.

use super::*;

#[test]
fn unknown_microbenchmark() {
    refused(&Sandbox::with_npm(), &["sweep", "16", "--bench", "pont-query"], ERROR).says(str![[r#"
error: no microbenchmark of the suite 'sysbench' matches 'pont-query'; nearest: point-query, point-query.pre, point-query_range=100

"#]]);
}

#[test]
fn unknown_microbenchmark_unlike_any() {
    refused(&Sandbox::new(), &["bench", "list", "--bench", "xyz"], ERROR).says(str![[r#"
error: no microbenchmark of the suite 'sysbench' matches 'xyz'; `regtrack bench list` shows their names

"#]]);
}

#[test]
fn broken_pattern() {
    refused(&Sandbox::new(), &["bench", "list", "--bench", "point-[a"], ERROR).says(str![[r#"
error: 'point-[a' is not a valid pattern for microbenchmarks: unclosed character class; missing ']'

"#]]);
}

#[test]
fn unknown_profile() {
    refused(&Sandbox::new(), &["sweep", "16", "--profile", "quik"], USAGE).says(str![[r#"
error: invalid value 'quik' for '--profile <PROFILE>': there is no such profile (did you mean quick?); there are
    smoke     proves that everything works; its numbers are noise
    quick     a first look: three releases in a quarter of an hour; shows differences of 10 % and more
    standard  for conclusions: launches of 10 s until each ratio is known to 1 %, at most 40 of them
    paper     the article's protocol: 30 M rows, 1200 s per microbenchmark, one launch, its configuration

For more information, try '--help'.

"#]]);
}

#[test]
fn parity_of_several_releases() {
    refused(&Sandbox::new(), &["parity", "16.2,17.2"], ERROR).says(str![[r#"
error: parity compares clients on one server, and these are 16.2, 17.2: name one

"#]]);
}

#[test]
fn unknown_placement() {
    refused(&Sandbox::new(), &["parity", "17", "--placement", "both"], USAGE).says(str![[r#"
error: invalid value 'both' for '--placement <PLACEMENT>': must be free, same-cpu or split

For more information, try '--help'.

"#]]);
}

#[test]
fn unknown_source() {
    refused(&Sandbox::new(), &["sweep", "16", "--source", "prebuild"], USAGE).says(str![[r#"
error: invalid value 'prebuild' for '--source <SOURCE>': 'prebuild' is not a source (auto, prebuilt, source, source=PATH, git=PATH, git=PATH@COMMIT or prefix=DIR)

For more information, try '--help'.

"#]]);
}

#[test]
fn source_without_a_path() {
    refused(&Sandbox::new(), &["sweep", "16", "--source", "git="], USAGE).says(str![[r#"
error: invalid value 'git=' for '--source <SOURCE>': 'git=' names no path

For more information, try '--help'.

"#]]);
}

#[test]
fn too_few_rows() {
    refused(&Sandbox::with_npm(), &["sweep", "16", "--rows", "10"], ERROR).says(str![[r#"
error: 10 rows are outside of what the suite can work with: 1000 to 2000000000

"#]]);
}

#[test]
fn no_time() {
    refused(&Sandbox::new(), &["sweep", "16", "--seconds", "0"], USAGE).says(str![[r#"
error: invalid value '0' for '--seconds <SECONDS>': write a number of seconds above 0 and up to 86400

For more information, try '--help'.

"#]]);
}

#[test]
fn the_port_of_everyday_servers() {
    refused(&Sandbox::new(), &["sweep", "16", "--port", "5432"], USAGE).says(str![[r#"
error: invalid value '5432' for '--port <PORT>': port 5432 is never used, so that no server of yours can be met by mistake; choose another

For more information, try '--help'.

"#]]);
}

#[test]
fn a_port_of_roots() {
    refused(&Sandbox::new(), &["sweep", "16", "--port", "80"], USAGE).says(str![[r#"
error: invalid value '80' for '--port <PORT>': write a port from 1024 to 65535

For more information, try '--help'.

"#]]);
}

#[test]
fn numbers_without_a_range() {
    refused(&Sandbox::new(), &["sweep", "--launches", "5"], USAGE).says(str![[r#"
error: the following required arguments were not provided:
  <RANGE>

Usage: regtrack sweep --launches <LAUNCHES> <RANGE>

For more information, try '--help'.

"#]]);
}

#[test]
fn nothing_to_go_on_with() {
    refused(&Sandbox::new(), &["sweep"], ERROR).says(str![[r#"
error: there is no sweep in 'results' to go on with; name the releases to measure, such as 16..18

"#]]);
}

#[test]
fn imported_tables_to_go_on_with() {
    refused(&imported(), &["sweep"], ERROR).says(str![[r#"
error: the current sweep was imported; name the releases to measure, such as 16..18

"#]]);
}

#[test]
fn a_size_without_a_unit() {
    refused(&Sandbox::new(), &["cache", "prune", "--keep", "20"], USAGE).says(str![[r#"
error: invalid value '20' for '--keep <SIZE>': write a size such as 20G, 1.5G, 500M or 0

For more information, try '--help'.

"#]]);
}
