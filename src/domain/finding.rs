//! What was found about the machine before measuring on it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingStatus {
    /// As it should be.
    Ok,
    /// It spoils results, or takes something away.
    Warn,
    /// No sweep is possible like this.
    Fail,
    /// This machine does not tell.
    Unknown,
}

impl FindingStatus {
    /// The word for tables.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Warn => "warn",
            Self::Fail => "fail",
            Self::Unknown => "unknown",
        }
    }
}

impl fmt::Display for FindingStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

/// The outcome of one check of the machine. Field names are part of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// Name of the check: `cpu governor`.
    pub check: String,
    /// How it ended.
    pub status: FindingStatus,
    /// What is there; where it is unknown, the reason.
    pub found: String,
    /// Why that matters.
    pub why: String,
    /// The command that mends it, where there is something to mend and one command does.
    pub mend: Option<String>,
}

impl Finding {
    /// Whether a person should know before believing a number.
    #[must_use]
    pub const fn is_bad(&self) -> bool {
        matches!(self.status, FindingStatus::Warn | FindingStatus::Fail)
    }
}
