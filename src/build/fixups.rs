//! Makes the edits of fix-ups in an unpacked source.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use crate::domain::{Edit, Fixup, Version};

use super::error::{BuildError, io};

/// Everything about fix-ups that shapes the result: what they do, and not how they are called.
pub(super) fn identity(fixups: &[Fixup]) -> String {
    let done = |fixup: &Fixup| {
        let Fixup { name: _, why: _, from, to, only, cflags, configure, edits } = fixup;
        let bound = |version: &Option<Version>| version.map_or_else(String::new, |version| version.to_string());
        format!("{}..{} {only:?} {cflags:?} {configure:?} {edits:?}\n", bound(from), bound(to))
    };
    fixups.iter().map(done).collect()
}

/// Makes all edits of a fix-up in the source of `version` at `tree`. With `between_releases`, the source is a commit that
/// states the version of the release before it: what it no longer has needs no edit.
pub(super) fn edit(fixup: &Fixup, version: Version, tree: &Path, between_releases: bool) -> Result<(), BuildError> {
    let misfit = |edit: &Edit, problem: String| BuildError::Fixup {
        fixup: fixup.name.clone(),
        version,
        file: edit.file.clone(),
        problem,
    };
    for edit in &fixup.edits {
        let path = tree.join(&edit.file);
        let optional = edit.optional || between_releases;
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound && optional => continue,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err(misfit(edit, "is not there".to_owned()));
            }
            Err(error) => return Err(io("read", &path)(error)),
        };
        let find = edit.find.as_bytes();
        let places: Vec<usize> =
            text.windows(find.len()).enumerate().filter(|(_, text)| *text == find).map(|(place, _)| place).collect();
        match places[..] {
            [place] => {
                let text = [&text[..place], edit.replace.as_bytes(), &text[place + find.len()..]].concat();
                fs::write(&path, text).map_err(io("write", &path))?;
            }
            [] if optional => {}
            _ => return Err(misfit(edit, format!("has its text {} times instead of once", places.len()))),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixup(edits: Vec<Edit>) -> Fixup {
        let (name, why) = ("f".to_owned(), "w".to_owned());
        Fixup { name, why, from: None, to: None, only: None, cflags: Vec::new(), configure: Vec::new(), edits }
    }

    fn replace(file: &str, find: &str, replace: &str) -> Edit {
        Edit { file: file.into(), find: find.to_owned(), replace: replace.to_owned(), optional: false }
    }

    /// Edits a file with this content, which need not be UTF-8.
    fn edited(content: &[u8], edits: Vec<Edit>) -> Result<Vec<u8>, String> {
        let tree = tempfile::tempdir().unwrap();
        let file = tree.path().join("a.c");
        fs::write(&file, content).unwrap();
        edit(&fixup(edits), "9.0.23".parse().unwrap(), tree.path(), false).map_err(|error| error.to_string())?;
        Ok(fs::read(&file).unwrap())
    }

    #[test]
    fn edits_are_made_one_after_the_other() {
        let edits = vec![replace("a.c", "two", "2"), replace("a.c", "2 three", "23")];
        assert_eq!(edited(b"one two three \xe9\n", edits).unwrap(), b"one 23 \xe9\n");
    }

    #[test]
    fn a_text_that_is_not_there_once_is_told_with_fixup_release_and_file() {
        for (content, times) in [("b", 0), ("xx", 2), ("", 0)] {
            let error = edited(content.as_bytes(), vec![replace("a.c", "x", "y")]).unwrap_err();
            let expected =
                format!("the fix-up 'f' does not fit 9.0.23: a.c has its text {times} times instead of once");
            assert_eq!(error, expected);
        }
        let error = edited(b"x", vec![replace("b.c", "x", "y")]).unwrap_err();
        assert_eq!(error, "the fix-up 'f' does not fit 9.0.23: b.c is not there");
    }

    #[test]
    fn an_optional_edit_may_find_nothing_but_not_two() {
        let optional = |file: &str| vec![Edit { optional: true, ..replace(file, "x", "y") }];
        assert_eq!(edited(b"b", optional("a.c")).unwrap(), b"b");
        assert_eq!(edited(b"x", optional("b.c")).unwrap(), b"x");
        assert_eq!(edited(b"x", optional("a.c")).unwrap(), b"y");
        assert!(edited(b"xx", optional("a.c")).is_err());
    }

    #[test]
    fn a_commit_between_releases_may_have_what_the_next_release_has() {
        let tree = tempfile::tempdir().unwrap();
        let fixup = fixup(vec![replace("a.c", "x", "y")]);
        edit(&fixup, "9.4.10".parse().unwrap(), tree.path(), true).unwrap();
        fs::write(tree.path().join("a.c"), "xx").unwrap();
        assert!(edit(&fixup, "9.4.10".parse().unwrap(), tree.path(), true).is_err(), "twice is never meant");
    }

    #[test]
    fn the_identity_follows_what_is_done_and_not_what_is_said() {
        let one = fixup(vec![replace("a.c", "x", "y")]);
        let renamed = Fixup { name: "g".to_owned(), why: "v".to_owned(), ..one.clone() };
        assert_eq!(identity(std::slice::from_ref(&one)), identity(&[renamed]));
        let flag = Fixup { cflags: vec!["-fx".to_owned()], ..one.clone() };
        assert_ne!(identity(&[one]), identity(&[flag]));
    }
}
