//! Directories for the site.

use super::*;

#[test]
fn someone_elses_directory() {
    let sandbox = imported();
    sandbox.file("photos/cat.jpg", "meow");
    refused(&sandbox, &["report", "--site", "photos"], ERROR).says(str![[r#"
error: the directory '[DIR]/photos' is not empty and was not made by regtrack; it was left as it is: name another directory for the site

"#]]);
    // Before hours of measuring, not after.
    refused(&sandbox, &["sweep", "16", "--site", "photos"], ERROR).says(str![[r#"
error: the directory 'photos' is not empty and was not made by regtrack; it was left as it is: name another directory for the site

"#]]);
}

#[test]
fn an_own_file_in_the_site() {
    let sandbox = imported();
    sandbox.ok(&["report", "--site", "site"]);
    sandbox.file("site/notes.txt", "mine");
    refused(&sandbox, &["report", "--site", "site"], ERROR).says(str![[r#"
error: the site in '[DIR]/site' also holds 'notes.txt', which regtrack did not write and would delete; it was left as it is: move that file away first

"#]]);
}

#[test]
fn a_file() {
    let sandbox = imported();
    sandbox.file("site", "text");
    refused(&sandbox, &["report", "--site", "site"], ERROR).says(str![[r#"
error: '[DIR]/site' is not a directory: name a directory for the site

"#]]);
}
