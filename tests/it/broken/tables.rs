//! Tables to import.

use super::*;

const HEAD: &str = "col-1 : x.pg9023_def.x9a2_bee.pk1\n\ncol-1\n";

/// A table that is refused, beside one that would be taken.
fn malformed(content: impl AsRef<[u8]>) -> Refusal {
    let sandbox = Sandbox::new();
    sandbox.file("good.tsv", TABLE);
    sandbox.file("bad.tsv", content);
    refused(&sandbox, &["import", "good.tsv", "bad.tsv"], ERROR)
}

#[test]
fn no_file() {
    refused(&Sandbox::new(), &["import", "qps.abs.tsv"], ERROR).says(str![[r#"
error: cannot read 'qps.abs.tsv'
  caused by: No such file or directory (os error 2)

"#]]);
}

#[test]
fn empty() {
    malformed("").says(str![[r#"
error: bad.tsv:1: the file is empty

"#]]);
}

#[test]
fn no_column_names() {
    malformed("microbenchmark,9.0.23,16.2\n").says(str![[r#"
error: bad.tsv:1: expected a column name such as 'col-1 : x.pg162_def.x9a2_bee.pk1', found 'microbenchmark,9.0.23,16.2' (only the .tsv tables name their columns)

"#]]);
}

#[test]
fn a_column_of_no_version() {
    malformed("col-1 : x.my8036_def.z11a_bee.pk1\n").says(str![[r#"
error: bad.tsv:1: 'my8036' is not a version (pg9023 is 9.0.23, pg162 is 16.2)

"#]]);
}

#[test]
fn a_field_too_many() {
    malformed(format!("{HEAD}1000\t2000\tscan_range=100\n")).says(str![[r#"
error: bad.tsv:4: expected 2 fields separated by tabs (a value per column, then the name), found 3

"#]]);
}

#[test]
fn no_number() {
    malformed(format!("{HEAD}fast\tscan_range=100\n")).says(str![[r#"
error: bad.tsv:4: 'fast' in col-1 is not a number above zero in plain decimal form

"#]]);
}

#[test]
fn an_unknown_row() {
    malformed(format!("{HEAD}1000\tpoint-qery_range=100\n")).says(str![[r#"
error: bad.tsv:4: the suite has no microbenchmark 'point-qery_range=100'

"#]]);
}

#[test]
fn a_row_twice() {
    malformed(format!("{HEAD}1000\tscan_range=100\n1001\tscan_range=100\n")).says(str![[r#"
error: bad.tsv:5: the row 'scan_range=100' is there twice, first on line 4

"#]]);
}

#[test]
fn no_rows() {
    malformed(HEAD).says(str![[r#"
error: bad.tsv:3: the table has no rows that the suite reports

"#]]);
}

#[test]
fn no_text() {
    malformed(b"col-1 : x.pg9023_def.x9a2_bee.pk1\n\ncol-1\n\xff\n").says(str![[r#"
error: bad.tsv:4: the line is not UTF-8 text

"#]]);
}
