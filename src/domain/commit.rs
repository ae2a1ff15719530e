//! Commits of a repository of PostgreSQL.

use serde::{Deserialize, Serialize};

/// What is worth knowing of a commit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Full hash.
    pub hash: String,
    /// Name of the author.
    pub author: String,
    /// When it was committed, as git writes dates in ISO 8601.
    pub date: String,
    /// First line of the message.
    pub subject: String,
    /// Whether it changes a file that the server is compiled from.
    pub counts: bool,
}

impl Commit {
    /// The hash, as short as people write it.
    #[must_use]
    pub fn short(&self) -> &str {
        self.hash.get(..10).unwrap_or(&self.hash)
    }

    /// The day on which it was committed.
    #[must_use]
    pub fn day(&self) -> &str {
        self.date.get(..10).unwrap_or(&self.date)
    }
}

/// The way from one commit to another through the history of their development: back along the branch of the first to
/// where the second one's branch left it, and from there forth. Of a merge only the first parent is on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineage {
    /// Where both come from.
    pub fork: Commit,
    /// Commits that only the first one has, newest first; empty if it is the fork.
    pub back: Vec<Commit>,
    /// Commits that only the second one has, oldest first.
    pub forth: Vec<Commit>,
}
