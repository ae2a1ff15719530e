//! What `bisect` refuses: one message, and nothing is left behind.

use std::process::Command;

use crate::common::regtrack;

/// A repository with two commits that have nothing in common, and a file that is being edited.
fn repository() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let script =
        "git init -q -b master pg; cd pg; commit() { git add -A; git -c user.name=t -c user.email=t@example.org \\
         commit -qm \"$1\"; }; echo 1 >COPYRIGHT; commit one; mkdir doc; echo 2 >doc/a.sgml; commit two; echo 3 >doc/a.sgml
         git branch before HEAD~1; git checkout -q --orphan other; commit three; echo 4 >doc/a.sgml";
    let mut shell = Command::new("sh");
    shell.args(["-ec", script]).current_dir(home.path()).env_remove("GIT_DIR").env_remove("GIT_INDEX_FILE");
    assert!(shell.status().unwrap().success());
    home
}

#[test]
fn what_cannot_be_searched_is_refused_in_a_sentence() {
    let home = repository();
    let hot = "--bench=hot-points_range=100";
    let cases: [(&[&str], &str); 12] = [
        (&["17..16", hot], "the ends are reversed: 17 comes after 16 (did you mean 16..17?)"),
        (&["17..17", hot], "are the same"),
        (&["16", hot], "'16' does not name two ends"),
        (&["16..master", hot], "name its repository with --git"),
        (&["16..17"], "name the microbenchmark with --bench"),
        (&["16..17", "--bench=hot-point"], "hot-point"),
        (&["16..17", hot, "--git=nowhere"], "nowhere does not exist"),
        (&["before..gone", hot, "--git=pg"], "gone"),
        (&["before..HEAD", hot, "--git=pg"], "doc/a.sgml"),
        (&["before..other", hot, "--git=pg"], "have no common history"),
        (&["master..before", hot, "--git=pg"], "the ends are reversed"),
        (&["before..master", hot, "--git=pg"], "no change between before and master touches a file"),
    ];
    for (arguments, expected) in cases {
        let output = regtrack().current_dir(home.path()).arg("bisect").args(arguments).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && said.contains(expected), "{arguments:?}: {said}");
        assert!(!home.path().join("results").exists(), "{arguments:?} left something");
    }
    for command in ["show", "log"] {
        let output = regtrack().current_dir(home.path()).args(["bisect", command]).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(said.contains("there is no bisect in results/bisects"), "{said}");
    }
}
