//! What a sweep is made of: its protocol, its targets, and the manifest that describes both.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{Brake, Build, Finding, HostFingerprint, Placement, Version};

/// Name of a target inside a sweep: version plus the start of the build's key, `17.10-3fa9c1d2`. Two
/// builds of one release are two targets.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TargetId(pub String);

impl fmt::Display for TargetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is measured: a build with a configuration.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Target {
    /// Unique name.
    pub id: TargetId,
    /// Name in tables: the version, with more words only where the version alone is ambiguous.
    pub label: String,
    /// The release.
    pub version: Version,
    /// The build; absent for imported tables.
    pub build: Option<Build>,
    /// The slowdown that is planted in its servers, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub brake: Option<Brake>,
    /// What an imported table said about the build and the configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub imported: Option<ImportedTarget>,
    /// Settings as read back from the running server, where they differ from the built-in default.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// Digest of the loaded rows as the server computed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_digest: Option<String>,
}

impl Target {
    /// The same build with a planted slowdown: another target.
    #[must_use]
    pub fn braked(&self, brake: Brake) -> Self {
        let id = TargetId(format!("{}-{brake}", self.id));
        Self { id, label: format!("{} +{brake}", self.label), brake: Some(brake), ..self.fresh() }
    }

    /// The same build under another name. Whatever differs between the two is noise.
    #[must_use]
    pub fn again(&self) -> Self {
        Self { id: TargetId(format!("{}-again", self.id)), label: format!("{} again", self.label), ..self.fresh() }
    }

    /// Without what running servers said.
    fn fresh(&self) -> Self {
        Self { settings: BTreeMap::new(), data_digest: None, ..self.clone() }
    }
}

/// Build and configuration labels of an imported column.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImportedTarget {
    /// `def`, `o2nofp`
    pub build: String,
    /// `x9a2_bee`
    pub config: String,
}

/// The numbers of a sweep that have to be equal for results to be comparable. A change of any field
/// makes a new sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Protocol {
    /// Suite name.
    pub suite: String,
    /// Hash of the suite's definition.
    pub suite_hash: String,
    /// Rows loaded.
    pub rows: u64,
    /// Seconds per read slice.
    pub read_seconds: f64,
    /// Seconds per write slice.
    pub write_seconds: f64,
    /// Seconds of warm-up before each slice, not counted.
    pub slice_warmup_seconds: f64,
    /// Seconds of the point-query warm-up after the load.
    pub load_warmup_seconds: f64,
    /// Whether a `Once` microbenchmark is executed exactly once (the article's way) or repeated
    /// for the read seconds.
    pub scan_once: bool,
    /// Shortest duration of a postwrite in seconds: `base + per_million_rows × rows / 10⁶`.
    pub postwrite_rest_seconds: f64,
    /// Length in seconds of the turns in which the launches of a block are measured together; 0 measures each launch
    /// alone, from its first to its last microbenchmark.
    #[serde(default)]
    pub stretch_seconds: f64,
    /// Which CPUs client and servers were asked to use; absent when the least noisy placement was to be found.
    #[serde(default)]
    pub placement: Option<Placement>,
    /// Configuration set.
    pub config: String,
    /// Hash of the configuration set as rendered for this machine's memory.
    pub config_hash: String,
    /// Data checksums at initdb, where the release has them.
    pub data_checksums: bool,
    /// `tcp` or `unix`
    pub transport: String,
    /// Names of the microbenchmarks that are run, in order.
    pub microbenchmarks: Vec<String>,
}

impl Protocol {
    /// Whether the launches of a block are measured together, in turns.
    #[must_use]
    pub fn takes_turns(&self) -> bool {
        self.stretch_seconds > 0.0
    }
}

/// Where the cells of a sweep came from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Origin {
    /// Measured by regtrack.
    Measured {
        /// Profile name as given (`quick`), for people.
        profile: String,
        /// The protocol.
        protocol: Box<Protocol>,
    },
    /// Read from tables of absolute QPS.
    Imported {
        /// The files.
        files: Vec<String>,
    },
}

/// When a sweep that looks at its results while it runs may stop. Stored with the sweep, because its report
/// has to know how often it may have been looked at.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Stopping {
    /// A ratio that is known to within this share either way is known well enough: 0.01 is 1 %.
    pub precision: f64,
    /// Chance with which a change of the threshold plus `precision` is to be found; launches that are
    /// still wanted are counted for it.
    pub power: f64,
    /// Launches per target after which nothing more is measured.
    pub max_launches: u32,
}

impl SweepManifest {
    /// Everything that is launched: the targets, and the base once more.
    pub fn launched(&self) -> impl Iterator<Item = &Target> {
        self.targets.iter().chain(&self.blind)
    }
}

/// Describes one sweep in a results directory. Rewritten atomically; slices are never rewritten.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepManifest {
    /// Format of the sweep's files.
    pub format: u32,
    /// Name of the sweep's directory.
    pub id: String,
    /// Version of regtrack that wrote the manifest last.
    pub regtrack: String,
    /// When the sweep was first started.
    pub created_at: Timestamp,
    /// When it was last worked on.
    pub updated_at: Timestamp,
    /// The command line that did.
    pub command: String,
    /// Its arguments one by one; empty for imports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<String>,
    /// Where the cells came from.
    pub origin: Origin,
    /// Launches wanted per target (blocks).
    pub launches: u32,
    /// When rows stop before that; absent where the number of launches is fixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopping: Option<Stopping>,
    /// Targets wanted, oldest release first. Targets of an earlier call that are no longer wanted
    /// move to `former_targets`.
    pub targets: Vec<Target>,
    /// Targets that have slices but are not part of the last call's range.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_targets: Vec<Target>,
    /// The target that others are divided by.
    pub base: TargetId,
    /// The base's build once more, measured like any other target and shown nowhere among them: what differs between
    /// the two is what this sweep calls a difference where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blind: Option<Target>,
    /// The machine.
    pub host: Option<HostFingerprint>,
    /// Which CPUs client and servers use.
    #[serde(default)]
    pub placement: Option<Placement>,
    /// What the last call found out about the machine before it measured.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub doctor: Vec<Finding>,
}
