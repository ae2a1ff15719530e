//! Configuration sets and suites of one's own.

use super::*;

const SET: &str = "title = \"t\"\ndescription = \"d\"\ndata_checksums = \"off\"\nlocale = \"C\"\nencoding = \"UTF8\"\n";

/// A configuration set in `./mine` with these files beside its description.
fn with_set(description: &str, files: &[(&str, &str)]) -> Sandbox {
    let sandbox = Sandbox::with_npm();
    sandbox.file("mine/set.toml", description);
    for (name, content) in files {
        sandbox.file(&format!("mine/{name}"), content);
    }
    sandbox
}

/// The built-in suite with one replacement, in `suite.toml`.
fn with_suite(from: &str, to: &str) -> Sandbox {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/catalog/suites/sysbench.toml");
    let text = std::fs::read_to_string(path).unwrap();
    assert!(text.contains(from), "{from}");
    let sandbox = Sandbox::with_npm();
    sandbox.file("suite.toml", text.replacen(from, to, 1));
    sandbox
}

#[test]
fn unknown_configuration() {
    refused(&Sandbox::with_npm(), &["sweep", "16", "--config", "defalt"], ERROR).says(str![[r#"
error: there is no configuration set 'defalt'; there are callaghan, default (write ./defalt for a directory)

"#]]);
}

#[test]
fn a_directory_that_is_not_there() {
    refused(&Sandbox::with_npm(), &["sweep", "16", "--config", "./mine"], ERROR).says(str![[r#"
error: could not read ./mine
  caused by: No such file or directory (os error 2)

"#]]);
}

#[test]
fn a_directory_that_is_no_set() {
    let sandbox = Sandbox::with_npm();
    sandbox.file("mine/16.conf", "work_mem = 4MB\n");
    refused(&sandbox, &["sweep", "16", "--config", "./mine"], ERROR).says(str![[r#"
error: ./mine is no configuration set: it has no set.toml

"#]]);
}

#[test]
fn an_unknown_field_in_a_description() {
    let sandbox = with_set(&format!("{SET}colour = \"red\"\n"), &[("16.conf", "work_mem = 4MB\n")]);
    refused(&sandbox, &["sweep", "16", "--config", "./mine"], ERROR).says(str![[r#"
error: ./mine/set.toml is not valid
  caused by: TOML parse error at line 6, column 1
  |
6 | colour = "red"
  | ^^^^^^
unknown field `colour`, expected one of `title`, `description`, `data_checksums`, `locale`, `encoding`

"#]]);
}

#[test]
fn a_set_without_a_release_of_the_range() {
    let sandbox = with_set(SET, &[("16.conf", "work_mem = 4MB\n")]);
    refused(&sandbox, &["sweep", "16..17", "--config", "./mine"], ERROR).says(str![[r#"
error: the configuration set 'mine' has no 17.conf for PostgreSQL 17

"#]]);
}

#[test]
fn a_line_that_is_no_setting() {
    let sandbox = with_set(SET, &[("16.conf", "shared_buffers 1GB\n")]);
    refused(&sandbox, &["sweep", "16", "--config", "./mine"], ERROR).says(str![[r#"
error: configuration set 'mine', 16.conf: 'shared_buffers 1GB' is not of the form name = value

"#]]);
}

#[test]
fn a_setting_that_is_not_the_sets() {
    let sandbox = with_set(SET, &[("16.conf", "port = 5433\n")]);
    refused(&sandbox, &["sweep", "16", "--config", "./mine"], ERROR).says(str![[r#"
error: configuration set 'mine', 16.conf: 'port' is chosen when the server is started and cannot be part of a set

"#]]);
}

#[test]
fn a_template_that_does_not_render() {
    let sandbox = with_set(SET, &[("16.conf", "work_mem = 4MB\nshared_buffers = {{ memory }}MB\n")]);
    refused(&sandbox, &["sweep", "16", "--config", "./mine"], ERROR).says(str![[r#"
error: configuration set 'mine', 16.conf: the template does not render
  caused by: error: Variable `memory` is not defined. Available variables: memory_mib
 --> mine/16.conf:2:21
  |
2 | shared_buffers = {{ memory }}MB
  |                     ^^^^^^

"#]]);
}

#[test]
fn a_file_of_no_release() {
    let sandbox = with_set(SET, &[("16.conf", ""), ("new.conf", "")]);
    refused(&sandbox, &["sweep", "16", "--config", "./mine"], ERROR).says(str![[r#"
error: ./mine/new.conf is not named after a major
  caused by: 'new' is not a PostgreSQL major version such as 9.6 or 17

"#]]);
}

#[test]
fn a_suite_that_is_not_there() {
    refused(&Sandbox::with_npm(), &["sweep", "16", "--suite", "suite.toml"], ERROR).says(str![[r#"
error: could not read suite.toml
  caused by: No such file or directory (os error 2)

"#]]);
}

#[test]
fn a_suite_that_is_a_directory() {
    let sandbox = Sandbox::new();
    sandbox.file("suite.toml/x", "");
    refused(&sandbox, &["bench", "list", "--suite", "suite.toml"], ERROR).says(str![[r#"
error: could not read suite.toml
  caused by: Is a directory (os error 21)

"#]]);
}

#[test]
fn a_suite_with_an_unknown_field() {
    let sandbox = with_suite("step = 2\n", "step = 2\ncolour = \"red\"\n");
    refused(&sandbox, &["bench", "list", "--suite", "suite.toml"], ERROR).says(str![[r#"
error: suite.toml is not valid
  caused by: TOML parse error at line 140, column 1
    |
140 | colour = "red"
    | ^^^^^^
unknown field `colour`, expected one of `name`, `group`, `step`, `clock`, `range`, `why`, `shape`, `with`, `transaction`, `protocol`, `unit`, `statements`

"#]]);
}

#[test]
fn a_suite_with_an_unknown_shape() {
    let sandbox = with_suite("shape = \"points\"\n", "shape = \"pionts\"\n");
    refused(&sandbox, &["sweep", "16", "--suite", "suite.toml"], ERROR).says(str![[r#"
error: suite.toml: microbenchmark 'random-points.pre_range=10', shape: 'pionts' is not defined in this suite; nearest: points

"#]]);
}

#[test]
fn a_suite_with_a_name_that_no_directory_can_have() {
    let sandbox = with_suite("name = \"sysbench\"", "name = \"my suite\"");
    refused(&sandbox, &["sweep", "16", "--suite", "suite.toml"], ERROR).says(str![[r#"
error: suite.toml: suite, name: 'my suite' must consist of letters, digits, '-' and '_'

"#]]);
}
