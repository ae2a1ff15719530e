//! What some releases need, beyond the common recipe, to compile with a current toolchain.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::Version;

/// One such need, with what is done about it: compiler flags, arguments of `configure`, small edits of the source.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fixup {
    /// Its name in messages and logs: `undef-yylex`.
    pub name: String,
    /// What happens without it, in one line.
    pub why: String,
    /// First release that needs it; absent for the first of the major.
    #[serde(default)]
    pub from: Option<Version>,
    /// Last release that needs it; absent for the last of the major.
    #[serde(default)]
    pub to: Option<Version>,
    /// The kind of tree that needs it; absent for both.
    #[serde(default)]
    pub only: Option<TreeKind>,
    /// Flags that are appended to `CFLAGS`.
    #[serde(default)]
    pub cflags: Vec<String>,
    /// Further arguments of `configure`: `--option` or `NAME=value`.
    #[serde(default)]
    pub configure: Vec<String>,
    /// Edits of the unpacked source, made in this order.
    #[serde(rename = "edit", default)]
    pub edits: Vec<Edit>,
}

/// Whether a source tree has what bison, flex and perl make of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TreeKind {
    /// It has not: a tree as it is in git. Archives are like this too from 17 on.
    Git,
    /// It has: the official archives up to 16.
    Archive,
}

/// A text in one source file and what stands there instead. The text must occur exactly once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Edit {
    /// The file, relative to the top of the source tree.
    pub file: PathBuf,
    /// What is looked for.
    pub find: String,
    /// What replaces it.
    pub replace: String,
    /// Whether a file without the text, or no such file, is in order too.
    #[serde(default)]
    pub optional: bool,
}

impl Fixup {
    /// Whether a release is in its range.
    #[must_use]
    pub fn covers(&self, version: Version) -> bool {
        self.from.is_none_or(|from| from <= version) && self.to.is_none_or(|to| version <= to)
    }

    /// Whether a tree of this kind of a release needs it.
    #[must_use]
    pub fn applies(&self, version: Version, kind: TreeKind) -> bool {
        self.covers(version) && self.only.is_none_or(|only| only == kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_include_their_ends_and_kinds_are_told_apart() {
        let text = "name = 'a'\nwhy = 'b'\nfrom = '9.0.2'\nto = '9.0.13'\nonly = 'git'\ncflags = ['-x']";
        let fixup: Fixup = toml::from_str(text).unwrap();
        let applies = |version: &str, kind| fixup.applies(version.parse().unwrap(), kind);
        for (version, expected) in [("9.0.1", false), ("9.0.2", true), ("9.0.13", true), ("9.0.14", false)] {
            assert_eq!(applies(version, TreeKind::Git), expected, "{version}");
            assert!(!applies(version, TreeKind::Archive), "{version}");
        }
        let everywhere = Fixup { from: None, to: None, only: None, ..fixup };
        assert!(everywhere.applies("9.0.23".parse().unwrap(), TreeKind::Archive));
    }
}
