//! From two servers that differ to the change that made the difference.
//!
//! `route` says which ends are meant; `chain` has what lies between them; `search` says how probable each step of a chain is, and which position to
//! measure next; `ends` whether there is anything to search for; `run` walks, behind the seam [`Laboratory`], whose real
//! implementation measures blocks of a sweep; `notebook` keeps everything in a directory. The launches themselves are
//! slices in a results directory there, and all that is known about a search follows from them.

mod chain;
mod ends;
mod laboratory;
mod notebook;
mod route;
mod run;
mod search;

use std::path::PathBuf;

pub use chain::{Chain, Level, Link, Place, Revision};
pub use ends::{Effect, Ends};
pub use laboratory::{LiveLaboratory, Materials, Servers, stored};
pub use notebook::{Closed, Logbook, Metric, Notebook, Question, Record, Stage};
pub use route::{End, Route};
pub use run::{Event, Failed, Goal, Laboratory, Outcome, State, run};
pub use search::{Cost, Next, Observation, Posterior, Search};

use crate::build::BuildError;
use crate::catalog::CatalogError;
use crate::measure::MeasureError;
use crate::store::StoreError;
use crate::sweep::SweepError;

/// What ends a bisect without an answer.
#[derive(Debug, thiserror::Error)]
pub enum BisectError {
    /// Ctrl-C, SIGTERM.
    #[error("interrupted; every launch so far is kept, and the same command goes on from here")]
    Interrupted,
    /// An end has no server.
    #[error("there is no server for the end {label}, and without it nothing can be compared: {reason}")]
    NoEnd {
        /// The end.
        label: String,
        /// Why.
        reason: String,
    },
    /// The statement fails on an end.
    #[error("it fails on the end {label}, so there is nothing to compare: {reason}")]
    EndFails {
        /// The end.
        label: String,
        /// Why.
        reason: String,
    },
    /// Two names of one thing.
    #[error("{from} and {to} are the same; a bisect needs two ends that differ")]
    Same {
        /// One end.
        from: String,
        /// The other.
        to: String,
    },
    /// The first end is younger than the second.
    #[error("the ends are reversed: {from} comes after {to} (did you mean {to}..{from}?)")]
    Reversed {
        /// First end.
        from: String,
        /// Second end.
        to: String,
    },
    /// Not `A..B`.
    #[error("'{text}' does not name two ends; write A..B, such as 9.1..9.2 or REL_17_0..master")]
    NotTwoEnds {
        /// What was written.
        text: String,
    },
    /// An end is not a release, and there is no repository to look for it.
    #[error("'{text}' is not a release of PostgreSQL; to use a commit, tag or branch, name its repository with --git")]
    NotARelease {
        /// The end.
        text: String,
    },
    /// Both ends turned out to be one server.
    #[error("{from} and {to} give the very same server; nothing between them can have made a difference")]
    SameServer {
        /// One end.
        from: String,
        /// The other.
        to: String,
    },
    /// Nothing lies between the ends that could make a difference.
    #[error("no change between {from} and {to} touches a file that the server is compiled from")]
    NothingBetween {
        /// One end.
        from: String,
        /// The other.
        to: String,
    },
    /// A directory that belongs to another question.
    #[error("{} holds the bisect {there}; this one is {asked}: name another directory (--dir), or begin anew with --fresh",
        dir.display())]
    OtherQuestion {
        /// The directory.
        dir: PathBuf,
        /// What it is about.
        there: String,
        /// What was asked for.
        asked: String,
    },
    /// A directory that has no bisect in it.
    #[error("there is no bisect in {}; begin one with `regtrack bisect A..B --bench NAME`", dir.display())]
    NoBisect {
        /// The directory.
        dir: PathBuf,
    },
    /// A directory with other people's files.
    #[error("{} is not empty and holds no bisect; name a new directory with --dir", dir.display())]
    Foreign {
        /// The directory.
        dir: PathBuf,
    },
    /// A file of the directory cannot be read or written.
    #[error("could not {doing} {}", path.display())]
    File {
        /// What was to be done.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The settings of a server could not be found out.
    #[error("could not find out the settings of {label}")]
    Settings {
        /// The server.
        label: String,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The catalogue.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A sweep's failure.
    #[error(transparent)]
    Sweep(SweepError),
    /// A builder's failure that concerns all builds.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// The results.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A launch's files.
    #[error(transparent)]
    Measure(#[from] MeasureError),
}

impl From<SweepError> for BisectError {
    fn from(error: SweepError) -> Self {
        match error {
            SweepError::Interrupted => Self::Interrupted,
            other => Self::Sweep(other),
        }
    }
}
