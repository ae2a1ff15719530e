//! What a week has to measure of a range. Pure: from what is wanted and what was measured to what is due.

use std::fmt;

use super::prepare::WantedServer;
use crate::domain::{Week, WeekSummary, WeekTarget};

/// A server that a range asks for, as it is planned to be got.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// What was asked for; of a release that has no package yet, the one that stands in for it.
    pub server: WantedServer,
    /// Key of the build that it will be, as far as that can be known without making it.
    pub key: Option<String>,
}

/// Why a server is measured this week.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Every ratio needs it.
    Base,
    /// It is the newest of its major in the range.
    Newest,
    /// This series has never measured it.
    New,
    /// What was measured is another build of it.
    OtherBuild,
    /// It was last measured so many days ago.
    Stale(u32),
    /// This week's sweep has it already.
    Begun,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Base => f.write_str("the base"),
            Self::Newest => f.write_str("the newest of its major"),
            Self::New => f.write_str("not measured yet"),
            Self::OtherBuild => f.write_str("measured with another build"),
            Self::Stale(days) => write!(f, "last measured {days} days ago"),
            Self::Begun => f.write_str("begun this week"),
        }
    }
}

/// Why each candidate is due, in their order; `None` for those that are not. `base` is the index of the base, `past`
/// are the sweeps with which this week's can be compared, and `stale` is the age in days from which on a server is
/// measured again.
#[must_use]
pub fn due(candidates: &[Candidate], base: usize, past: &[WeekSummary], week: Week, stale: u32) -> Vec<Option<Reason>> {
    let reason = |(index, candidate): (usize, &Candidate)| {
        if index == base {
            return Some(Reason::Base);
        }
        if is_newest(candidate, candidates) {
            return Some(Reason::Newest);
        }
        let label = candidate.server.label();
        let measured = past.iter().filter_map(|summary| {
            let target = summary.targets.iter().find(|target| target.label == label)?;
            Some((summary.week, target))
        });
        let Some((last, target)) = measured.max_by_key(|(week, _)| *week) else { return Some(Reason::New) };
        if last == week {
            return Some(Reason::Begun);
        }
        if !is_same_build(candidate, target) {
            return Some(Reason::OtherBuild);
        }
        let days = week.monday().since(last.monday()).map_or(0, |span| span.get_days());
        u32::try_from(days).ok().filter(|days| *days > stale).map(Reason::Stale)
    };
    candidates.iter().enumerate().map(reason).collect()
}

/// Whether no later release of its major is asked for in the same variant.
fn is_newest(candidate: &Candidate, candidates: &[Candidate]) -> bool {
    let version = candidate.server.release.version;
    let is_later = |other: &&Candidate| {
        let other = &other.server;
        other.variant == candidate.server.variant
            && other.release.version.major == version.major
            && other.release.version > version
    };
    !candidates.iter().any(|other| is_later(&other))
}

/// Whether a target is the candidate's build. What is not known is taken to be the same.
fn is_same_build(candidate: &Candidate, target: &WeekTarget) -> bool {
    let Some(key) = &candidate.key else { return true };
    // A target's id ends with the start of its build's key.
    target.id.0.rsplit_once('-').is_none_or(|(_, start)| key.starts_with(start))
}

/// The base of the newest of these sweeps: the release that later weeks are divided by as well, also when a newer minor
/// of its major has come.
#[must_use]
pub fn anchor(past: &[WeekSummary]) -> Option<&WeekTarget> {
    let newest = past.iter().max_by_key(|summary| (summary.week, summary.updated_at))?;
    newest.targets.get(newest.base)
}
