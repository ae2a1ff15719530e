//! Measures: one launch of one build, slice by slice. Joins `server` and `load`, decides nothing.
//!
//! The world above sees two traits, [`Bench`] and [`Launch`], with [`LiveBench`] as the real
//! implementation; a simulated world stands behind the same traits in tests.

mod calibrate;
pub mod doctor;
mod host;
mod instructions;
mod interleave;
mod launch;
mod lock;
mod noise;
mod parity;
mod placement;
mod plans;
mod probes;
mod proof;
mod slice;
mod upkeep;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

pub use calibrate::PlacementNoise;
pub use host::{fingerprint, memory_mib};
pub use instructions::{Receiver, check_counting, count_instructions, counted_rows};
pub use interleave::{Member, measure, slice_seconds};
pub use launch::{LiveBench, remove_stale};
pub use lock::MachineLock;
pub use parity::{Clients, ParityBench, ParitySpec};
pub use proof::prove;

use crate::domain::{Brake, Build, Measurement, Microbenchmark, Protocol, Suite, Version};
use crate::load::{DatasetError, Until, WireError};
use crate::process::{CommandError, quoted};
use crate::rival::RivalError;
use crate::server::{InitOptions, ServerError};
use crate::sql::SqlError;

/// Everything that makes one launch.
#[derive(Debug, Clone)]
pub struct LaunchSpec {
    /// The launch's own directory: data and state lie below it.
    pub directory: PathBuf,
    /// Where the target's loaded data directory is kept for all its launches, which then begin with a copy of it;
    /// without one each launch loads for itself.
    pub template: Option<PathBuf>,
    /// The file for the server's log, which outlives the launch.
    pub log: PathBuf,
    /// What is started.
    pub build: Build,
    /// The slowdown that is planted in its servers.
    pub brake: Option<Brake>,
    /// Lines for postgresql.conf.
    pub settings: String,
    /// What initdb decides.
    pub init: InitOptions,
    /// What is run.
    pub suite: Arc<Suite>,
    /// The numbers.
    pub protocol: Protocol,
    /// Seed of the random numbers of this launch's runs.
    pub seed: u64,
    /// Whether the plans of the statements are read at the end of each slice.
    pub plans: bool,
}

/// What is known about a launch once it is up.
#[derive(Debug, Clone, Default)]
pub struct LaunchFacts {
    /// Number of the server start inside the launch, from 1.
    pub server_start: u32,
    /// Settings read back where they differ from the built-in default.
    pub settings: BTreeMap<String, String>,
    /// Digest of the loaded rows.
    pub data_digest: String,
    /// Steps whose effect on the table is already in, from before an interruption.
    pub done: BTreeSet<String>,
}

/// Name of the postwrite after `step` in [`LaunchFacts::done`].
#[must_use]
pub fn postwrite_name(step: u32) -> String {
    format!("postwrite {step}")
}

/// Where launches happen.
pub trait Bench {
    /// Brings a launch up: initialised, started, loaded, warmed; or continued where an interrupted
    /// one stopped. Several may be up together.
    fn open(&self, spec: &LaunchSpec) -> Result<Box<dyn Launch + '_>, MeasureError>;
}

/// One launch. A slice is begun, warmed up, run in one or more stretches, and finished.
pub trait Launch {
    /// What is known about it.
    fn facts(&self) -> &LaunchFacts;
    /// Begins a slice: connects and prepares the statements. One that was begun before and not finished is given up.
    fn begin(&mut self, microbenchmark: &Microbenchmark) -> Result<(), MeasureError>;
    /// Runs events of the slice that do not count.
    fn warm_up(&mut self, until: Until) -> Result<Stretch, MeasureError>;
    /// Runs one stretch of the slice.
    fn stretch(&mut self, until: Until) -> Result<Stretch, MeasureError>;
    /// Ends the slice; returns the beginning of its first stretch with the measurement.
    fn finish(&mut self) -> Result<(Timestamp, Measurement), MeasureError>;
    /// Vacuum, checkpoint and rest after `step`.
    fn postwrite(&mut self, step: u32) -> Result<(), MeasureError>;
    /// Starts the server again after it died.
    fn recover(&mut self) -> Result<(), MeasureError>;
    /// Stops the server. With `keep` the directory stays, so that the launch can be continued.
    fn close(self: Box<Self>, keep: bool) -> Result<(), MeasureError>;
}

/// What a stretch of a slice came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stretch {
    /// Events completed.
    pub events: u64,
    /// From its start to the end of its last event.
    pub elapsed: Duration,
}

/// What went wrong while measuring.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// Ctrl-C, SIGTERM.
    #[error("interrupted")]
    Interrupted,
    /// A server could not be made, started or stopped, or died.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// The table could not be filled.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// Another client failed.
    #[error("could not run {microbenchmark} with another client; server log: {}{}", log.display(), quoted(tail))]
    Rival {
        /// The microbenchmark.
        microbenchmark: String,
        /// Why.
        #[source]
        source: RivalError,
        /// Last lines of the server's log.
        tail: Vec<String>,
        /// The log.
        log: PathBuf,
    },
    /// Another client is connected under a name that the server does not show.
    #[error("the server shows no connection of the other client while it ran {microbenchmark}")]
    NoBackend {
        /// The microbenchmark.
        microbenchmark: String,
    },
    /// valgrind cannot be run.
    #[error("counting instructions takes the program valgrind (Debian: apt-get install valgrind)")]
    Valgrind {
        /// Why.
        #[source]
        source: CommandError,
    },
    /// valgrind's count could not be read.
    #[error("could not read the count of instructions in {}", path.display())]
    Count {
        /// Its file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A process could not be bound to a CPU.
    #[error("could not bind a process to a CPU; leave out --placement")]
    Placement(#[source] std::io::Error),
    /// There are too few CPUs for what was asked for.
    #[error("this process may use one CPU only, and --placement split needs two")]
    OneCpu,
    /// An administrative statement failed.
    #[error("an administrative statement failed")]
    Admin(#[source] SqlError),
    /// The server is not the release that it should be.
    #[error("the server reports version {}, but {expected} was started", found.map_or("unknown".to_owned(), |v| v.to_string()))]
    WrongVersion {
        /// What was started.
        expected: Version,
        /// What answered.
        found: Option<Version>,
    },
    /// The server was lost earlier in the launch.
    #[error("the server of PostgreSQL {version} is not running")]
    NoServer {
        /// The release.
        version: Version,
    },
    /// An event failed.
    #[error("{microbenchmark} failed; server log: {}{}", log.display(), quoted(tail))]
    Slice {
        /// The microbenchmark.
        microbenchmark: String,
        /// Why.
        #[source]
        source: WireError,
        /// Last lines of the server's log.
        tail: Vec<String>,
        /// The log.
        log: PathBuf,
    },
    /// A slice was run that was not begun.
    #[error("no slice has been begun in this launch")]
    NoSlice,
    /// A counter could not be read.
    #[error("could not read the counters around {microbenchmark}; see {}", log.display())]
    Probe {
        /// The microbenchmark.
        microbenchmark: String,
        /// Why.
        #[source]
        source: SqlError,
        /// The log.
        log: PathBuf,
    },
    /// A file of the launch could not be written or removed.
    #[error("could not handle the launch's files at {}", path.display())]
    LaunchFile {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Something lies in a launch's directory that regtrack did not put there.
    #[error("{} is not regtrack's; move it away, then run the command again", path.display())]
    ForeignFile {
        /// The file.
        path: PathBuf,
    },
    /// The lock file could not be opened.
    #[error("could not open the lock file {}", path.display())]
    LockFile {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// Another regtrack measures.
    #[error("another regtrack (process {pid}) is measuring on this machine; wait for it, or stop it")]
    OtherMeasurement {
        /// Its process.
        pid: String,
    },
}
