//! Reads what the product is given as data: releases (`versions/`), server settings (`configs/`) and
//! suites. Validates it and suggests near names. Adds releases to manifests by what a listing says; only that reaches
//! the network. No server.

pub mod configs;
pub mod connections;
pub mod listing;
pub mod manifests;
pub mod refresh;
pub mod suite;
pub mod twins;
pub mod variants;
pub mod versions;

mod params;

use std::io;
use std::path::PathBuf;

pub use configs::ConfigProblem;
pub use params::ParamProblem;
pub use suite::SuiteProblem;
pub use versions::ManifestProblem;

use crate::domain::{Major, ParseVersionError, Version};
use crate::http::HttpError;

/// What can be wrong with the catalogue's data, or with a name that is looked up in it.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A file or directory of the catalogue cannot be read.
    #[error("could not read {}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file or directory of the catalogue cannot be written.
    #[error("could not write {}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A listing, or a hash that it leads to, cannot be had.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A place that lists nothing.
    #[error(
        "{place} lists no PostgreSQL release; name an index with links such as v17.5/, a directory with \
         postgresql-17.5.tar.bz2 or its .sha256, or a versions.json"
    )]
    NoListing {
        /// Address or path.
        place: String,
    },
    /// JSON that is not postgresql.org's `versions.json`.
    #[error("{place} is no versions.json of postgresql.org")]
    VersionsJson {
        /// Address or path.
        place: String,
        /// Where and why.
        #[source]
        source: Box<serde_json::Error>,
    },
    /// A published hash is no hash.
    #[error("{place} holds no SHA-256 hash")]
    PublishedHash {
        /// Address or path.
        place: String,
    },
    /// Two sources disagree about an archive.
    #[error(
        "the archive of {version} has two different hashes, so one source is wrong or was tampered with; nothing was \
         changed\n    {one}\n    {other}"
    )]
    HashDiffers {
        /// The release.
        version: Version,
        /// A hash, and who says so.
        one: String,
        /// The other one.
        other: String,
    },
    /// A manifest of an unusual form.
    #[error("{file} is written in a way that no release can be added to; add {versions} by hand")]
    Form {
        /// The manifest.
        file: String,
        /// The releases.
        versions: String,
    },
    /// A file is not TOML, or lacks a field, or has one that is unknown.
    #[error("{file} is not valid")]
    Parse {
        /// The file.
        file: String,
        /// Where and why.
        #[source]
        source: Box<toml::de::Error>,
    },
    /// An entry of a suite makes no sense.
    #[error("{file}: {entry}, {field}: {problem}")]
    Suite {
        /// The suite's file.
        file: String,
        /// Which entry, such as `microbenchmark 'scan_range=100'`.
        entry: String,
        /// Which field of it.
        field: &'static str,
        /// What is wrong with it.
        problem: SuiteProblem,
    },
    /// A pattern for microbenchmarks is malformed.
    #[error("'{glob}' is not a valid pattern for microbenchmarks: {}", problem.kind())]
    Glob {
        /// The pattern.
        glob: String,
        /// Why not. Its own text would repeat the pattern.
        problem: globset::Error,
    },
    /// A pattern selects nothing.
    #[error("no microbenchmark of the suite '{suite}' matches '{glob}'; {}", match nearest.as_slice() {
        [] => "`regtrack bench list` shows their names".to_owned(),
        nearest => format!("nearest: {}", nearest.join(", ")),
    })]
    NoMicrobenchmark {
        /// The pattern.
        glob: String,
        /// The suite's name.
        suite: String,
        /// Names that look like it.
        nearest: Vec<String>,
    },
    /// The manifest of a major makes no sense.
    #[error("{file}: {problem}")]
    Manifest {
        /// The manifest.
        file: String,
        /// What is wrong with it.
        problem: ManifestProblem,
    },
    /// A directory without manifests.
    #[error("there is no <major>.toml in {}", dir.display())]
    NoManifest {
        /// The directory.
        dir: PathBuf,
    },
    /// A version that was never published, or is not known yet.
    #[error("PostgreSQL {version} is not in the catalogue{}", hint(nearest))]
    UnknownVersion {
        /// The version.
        version: Version,
        /// Versions near it.
        nearest: Vec<String>,
    },
    /// A major that never was, or is not known yet.
    #[error("PostgreSQL {major} is not in the catalogue{}", hint(nearest))]
    UnknownMajor {
        /// The major.
        major: Major,
        /// Majors near it.
        nearest: Vec<String>,
    },
    /// A build variant or a feature that there is not.
    #[error("there is no {kind} '{name}'{}; there are {}", match nearest.first() {
        Some(near) => format!(" (did you mean {near}?)"),
        None => String::new(),
    }, known.join(", "))]
    UnknownVariant {
        /// `build variant` or `feature`.
        kind: &'static str,
        /// The name.
        name: String,
        /// Names that look like it.
        nearest: Vec<String>,
        /// All names.
        known: Vec<String>,
    },
    /// A configuration set that does not come with the program.
    #[error("there is no configuration set '{name}'; there are {} (write ./{name} for a directory)", known.join(", "))]
    UnknownConfig {
        /// The name.
        name: String,
        /// The names of those that do.
        known: Vec<&'static str>,
    },
    /// A directory without `set.toml`.
    #[error("{dir} is no configuration set: it has no set.toml")]
    NoDescription {
        /// The directory.
        dir: String,
    },
    /// A `.conf` file whose name is no major.
    #[error("{file} is not named after a major")]
    ConfigName {
        /// The file.
        file: String,
        /// Why not.
        #[source]
        source: ParseVersionError,
    },
    /// A set that lacks a major.
    #[error("the configuration set '{set}' has no {major}.conf for PostgreSQL {major}")]
    NoConfig {
        /// The set.
        set: String,
        /// The major.
        major: Major,
    },
    /// The template of one major is malformed, or uses something other than `memory_mib`.
    #[error("configuration set '{set}', {major}.conf: the template does not render")]
    ConfigTemplate {
        /// The set.
        set: String,
        /// The major.
        major: Major,
        /// Where and why.
        #[source]
        source: Box<tera::Error>,
    },
    /// The file of one major makes no sense.
    #[error("configuration set '{set}', {major}.conf: {problem}")]
    Config {
        /// The set.
        set: String,
        /// The major.
        major: Major,
        /// What is wrong with it.
        problem: ConfigProblem,
    },
}

/// Names among `candidates` that `name` may have been meant for: at most three, the best first.
#[must_use]
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    /// Similarity (0 to 1) below which a name is no help.
    const ENOUGH: f64 = 0.75;
    const MOST: usize = 3;

    let name = name.to_lowercase();
    let mut scored: Vec<(f64, &str)> = Vec::new();
    for candidate in candidates {
        if scored.iter().any(|(_, seen)| *seen == candidate) {
            continue;
        }
        let lower = candidate.to_lowercase();
        // Part of a name is the commonest slip: `covered` for `points-covered-pk`.
        let inside = name.len() >= 3 && (lower.contains(&name) || name.contains(&lower));
        let score = strsim::jaro_winkler(&name, &lower);
        let score = if inside { score.max(ENOUGH) } else { score };
        if score >= ENOUGH {
            scored.push((score, candidate));
        }
    }
    scored.sort_by(|a, b| b.0.total_cmp(&a.0));
    scored.truncate(MOST);
    scored.into_iter().map(|(_, candidate)| candidate.to_owned()).collect()
}

/// `; nearest: a, b, c` for the end of a message, or nothing.
fn hint(nearest: &[String]) -> String {
    if nearest.is_empty() { String::new() } else { format!("; nearest: {}", nearest.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found_and_far_ones_are_not() {
        let names = ["point-query", "random-points", "hot-points", "update-one", "scan"];
        assert_eq!(nearest("point-qery", names)[0], "point-query");
        assert_eq!(nearest("hot", names), ["hot-points"]);
        assert_eq!(nearest("SCAN", names), ["scan"]);
        assert_eq!(nearest("zzz", names), Vec::<String>::new());
        assert_eq!(nearest("scan", ["scan", "scan"]), ["scan"], "doubles are listed once");
    }
}
