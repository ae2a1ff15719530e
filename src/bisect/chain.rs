//! What lies between two ends: releases, or commits. Pure.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::domain::{Commit, Lineage, Version};

/// Weight of a change on a branch of a release, which gets fixes only, relative to one of the development branch.
const MAINTENANCE: f64 = 0.1;

/// Something that can be built.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Revision {
    /// A published release.
    Release(Version),
    /// A commit by its full hash.
    Commit(String),
}

/// A place on a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// What is there.
    pub revision: Revision,
    /// Its name: a version, or a short hash.
    pub label: String,
    /// Whether another minor of the same major will do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub floating: bool,
}

/// What leads from one place to the next.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// How likely it is to be the step, relative to the others; 0 where both places have the same server.
    pub weight: f64,
    /// The commit that makes the difference; absent between releases. On the way back to a fork it is the one that is
    /// taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<Commit>,
    /// Whether it leads back, from a commit to its parent.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub back: bool,
}

/// How finely a chain divides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Major releases.
    Majors,
    /// Minor releases.
    Minors,
    /// Commits.
    Commits,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Majors => "majors",
            Self::Minors => "minors",
            Self::Commits => "commits",
        })
    }
}

/// Places from one end to the other, with one link fewer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Chain {
    /// How finely it divides.
    pub level: Level,
    /// The places.
    pub places: Vec<Place>,
    /// `links[i]` leads from `places[i]` to `places[i + 1]`.
    pub links: Vec<Link>,
}

impl Chain {
    /// Releases side by side, oldest first: one of each major, and whether another minor of it will do.
    #[must_use]
    pub fn of_majors(releases: &[(Version, bool)]) -> Self {
        let versions: Vec<Version> = releases.iter().map(|(version, _)| *version).collect();
        let mut chain = Self::of_releases(Level::Majors, &versions, |_, _| 1.0);
        for (place, (version, floating)) in chain.places.iter_mut().zip(releases) {
            place.floating = *floating;
            if *floating {
                // Which minor it will be is not known before there is a build.
                place.label = version.major.to_string();
            }
        }
        chain
    }

    /// From one release to another through their minors: down to the first minor of the older major, across to that of the
    /// younger one, and up. `minors` are all that there are of both majors, in any order.
    #[must_use]
    pub fn of_minors(from: Version, to: Version, minors: &[Version]) -> Self {
        let mut between: Vec<Version> = minors.to_vec();
        between.sort_unstable();
        between.dedup();
        let of = |major, limit| between.iter().copied().filter(move |one| one.major == major && *one <= limit);
        let way: Vec<Version> = if from.major == to.major {
            between.iter().copied().filter(|one| (from..=to).contains(one)).collect()
        } else {
            let mut down: Vec<Version> = of(from.major, from).collect();
            down.reverse();
            down.extend(of(to.major, to));
            down
        };
        Self::of_releases(Level::Minors, &way, |a, b| if a.major == b.major { MAINTENANCE } else { 1.0 })
    }

    fn of_releases(level: Level, releases: &[Version], weight: impl Fn(Version, Version) -> f64) -> Self {
        let place = |version: &Version| Place {
            revision: Revision::Release(*version),
            label: version.to_string(),
            floating: false,
        };
        let link = |pair: &[Version]| Link { weight: weight(pair[0], pair[1]), commit: None, back: false };
        Self { level, places: releases.iter().map(place).collect(), links: releases.windows(2).map(link).collect() }
    }

    /// From one commit to another. `from` and `to` name the ends.
    #[must_use]
    pub fn of_commits(lineage: &Lineage, from: &str, to: &str) -> Self {
        let place = |commit: &Commit| Place {
            revision: Revision::Commit(commit.hash.clone()),
            label: commit.short().to_owned(),
            floating: false,
        };
        let link = |commit: &Commit, back: bool, maintained: bool| Link {
            weight: if !commit.counts {
                0.0
            } else if maintained {
                MAINTENANCE
            } else {
                1.0
            },
            commit: Some(commit.clone()),
            back,
        };
        let (back, fork, forth) = (&lineage.back, &lineage.fork, &lineage.forth);
        let mut places: Vec<Place> = back.iter().chain([fork]).chain(forth).map(place).collect();
        let fork_of_to = branch_begins(forth);
        let mut links: Vec<Link> = back.iter().map(|commit| link(commit, true, true)).collect();
        links.extend(forth.iter().enumerate().map(|(index, commit)| link(commit, false, index >= fork_of_to)));
        let last = places.len() - 1;
        from.clone_into(&mut places[0].label);
        to.clone_into(&mut places[last].label);
        Self { level: Level::Commits, places, links }
    }

    /// The far end.
    #[must_use]
    pub fn last(&self) -> &Place {
        // A chain has its two ends at least.
        &self.places[self.places.len() - 1]
    }

    /// The weights of the links.
    #[must_use]
    pub fn weights(&self) -> Vec<f64> {
        self.links.iter().map(|link| link.weight).collect()
    }

    /// Number of links that can be the step.
    #[must_use]
    pub fn candidates(&self) -> usize {
        self.links.iter().filter(|link| link.weight > 0.0).count()
    }

    /// A link in words: `17.9 → 18.3`, or the commit.
    #[must_use]
    pub fn describe(&self, link: usize) -> String {
        match &self.links[link].commit {
            None => format!("{} → {}", self.places[link].label, self.places[link + 1].label),
            Some(commit) => {
                let back = if self.links[link].back { " (in the older branch only)" } else { "" };
                format!("{} {} {}{back}", commit.short(), commit.day(), commit.subject)
            }
        }
    }
}

/// Index of the first commit, oldest first, that is a fix on a release's own branch: the one behind the first release's
/// stamp. Where the branch left development is not to be told from first parents alone, and what comes in between is
/// rather counted as development, which costs builds but loses no commit.
fn branch_begins(forth: &[Commit]) -> usize {
    let is_release = |commit: &Commit| {
        let stamp = commit.subject.strip_prefix("Stamp ").and_then(|rest| rest.strip_suffix('.'));
        stamp.and_then(|version| version.parse::<Version>().ok()).is_some_and(|version| !version.is_prerelease())
    };
    let found = forth.iter().position(is_release);
    found.map_or(forth.len(), |index| index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    fn labels(chain: &Chain) -> Vec<&str> {
        chain.places.iter().map(|place| place.label.as_str()).collect()
    }

    #[test]
    fn minors_go_down_across_and_up() {
        let minors: Vec<Version> = ["9.2.1", "9.1.0", "9.1.2", "9.2.0", "9.1.1", "9.2.2"].map(version).to_vec();
        let chain = Chain::of_minors(version("9.1.1"), version("9.2.1"), &minors);
        assert_eq!(labels(&chain), ["9.1.1", "9.1.0", "9.2.0", "9.2.1"]);
        assert_eq!(chain.weights(), [MAINTENANCE, 1.0, MAINTENANCE]);
        let within = Chain::of_minors(version("9.1.0"), version("9.1.2"), &minors);
        assert_eq!(labels(&within), ["9.1.0", "9.1.1", "9.1.2"]);
    }

    fn commit(hash: &str, subject: &str, counts: bool) -> Commit {
        let (hash, subject, date) = (hash.to_owned(), subject.to_owned(), "2012-01-02T00:00:00Z".to_owned());
        Commit { hash, author: "A".into(), date, subject, counts }
    }

    #[test]
    fn commits_go_back_to_the_fork_and_forth() {
        let lineage = Lineage {
            fork: commit("ffffffffffff", "fork", true),
            back: vec![commit("b2", "fix", true), commit("b1", "doc", false)],
            forth: vec![commit("f1", "one", true), commit("f2", "Stamp 9.2.0.", true), commit("f3", "fix", true)],
        };
        let chain = Chain::of_commits(&lineage, "9.1.24", "9.2.24");
        assert_eq!(labels(&chain), ["9.1.24", "b1", "ffffffffff", "f1", "f2", "9.2.24"]);
        assert_eq!(chain.weights(), [MAINTENANCE, 0.0, 1.0, 1.0, MAINTENANCE]);
        assert_eq!(chain.candidates(), 4);
        let subjects: Vec<&str> =
            chain.links.iter().map(|link| link.commit.as_ref().unwrap().subject.as_str()).collect();
        assert_eq!(subjects, ["fix", "doc", "one", "Stamp 9.2.0.", "fix"]);
        assert_eq!(chain.describe(0), "b2 2012-01-02 fix (in the older branch only)");
        assert_eq!(Chain::of_majors(&[(version("16.1"), true), (version("17.1"), false)]).describe(0), "16 → 17.1");
    }
}
