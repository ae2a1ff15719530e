//! Which ends are meant, and which chains lead from one to the other: releases first, then commits.

use std::path::Path;

use super::BisectError;
use super::chain::{Chain, Level};
use crate::build;
use crate::catalog::versions::Catalogue;
use crate::domain::{Bound, Release, Version};

/// One end of a bisect.
#[derive(Debug, Clone, PartialEq)]
pub enum End {
    /// A published release.
    Release {
        /// The release; of a major its newest minor.
        release: Release,
        /// Whether just the major was named.
        floating: bool,
    },
    /// A commit.
    Commit {
        /// Its full hash.
        hash: String,
        /// As it was written.
        label: String,
    },
}

impl End {
    fn label(&self) -> String {
        match self {
            Self::Release { release, floating: true } => release.version.major.to_string(),
            Self::Release { release, .. } => release.version.to_string(),
            Self::Commit { label, .. } => label.clone(),
        }
    }
}

/// What is known about ways: the catalogue of releases, and a repository if there is one.
#[derive(Debug, Clone, Copy)]
pub struct Route<'a> {
    /// The releases.
    pub catalogue: &'a Catalogue,
    /// Where commits are.
    pub repository: Option<&'a Path>,
}

impl Route<'_> {
    /// The ends of `A..B`.
    pub fn ends(&self, text: &str) -> Result<[End; 2], BisectError> {
        let (from, to) = text
            .split_once("..")
            .filter(|(from, to)| !from.is_empty() && !to.is_empty() && !to.starts_with('.'))
            .ok_or_else(|| BisectError::NotTwoEnds { text: text.to_owned() })?;
        let ends = [self.end(from)?, self.end(to)?];
        let (from, to) = (from.to_owned(), to.to_owned());
        match &ends {
            [End::Release { release: a, .. }, End::Release { release: b, .. }] if a.version == b.version => {
                Err(BisectError::Same { from, to })
            }
            [End::Release { release: a, .. }, End::Release { release: b, .. }] if a.version > b.version => {
                Err(BisectError::Reversed { from, to })
            }
            [End::Commit { hash: a, .. }, End::Commit { hash: b, .. }] if a == b => Err(BisectError::Same { from, to }),
            _ => Ok(ends),
        }
    }

    /// A release by its name; anything else is for git.
    fn end(&self, text: &str) -> Result<End, BisectError> {
        match (text.parse::<Bound>(), self.repository) {
            (Ok(Bound::Version(version)), _) => {
                Ok(End::Release { release: self.catalogue.get(version)?.clone(), floating: false })
            }
            (Ok(Bound::Major(major)), _) => {
                self.catalogue.major(major)?;
                let newest = self.catalogue.latest(major).cloned();
                let release = newest.ok_or_else(|| BisectError::NotARelease { text: text.to_owned() })?;
                Ok(End::Release { release, floating: true })
            }
            (Err(()), Some(repository)) => {
                build::check_work_tree(repository, text)?;
                Ok(End::Commit { hash: build::resolve(repository, text)?, label: text.to_owned() })
            }
            (Err(()), None) => Err(BisectError::NotARelease { text: text.to_owned() }),
        }
    }

    /// The first chain: of majors where more than one lies between two releases, or where there is no repository;
    /// otherwise the finest that can be had.
    pub fn first(&self, [from, to]: &[End; 2]) -> Result<Chain, BisectError> {
        if let (End::Release { release: a, floating: near }, End::Release { release: b, floating: far }) = (from, to) {
            let majors = self.catalogue.majors().iter().map(|major| major.major);
            let between = majors.filter(|major| (a.version.major..b.version.major).contains(major)).skip(1);
            let mut releases = vec![(a.version, *near)];
            releases.extend(between.filter_map(|major| Some((self.catalogue.latest(major)?.version, true))));
            releases.push((b.version, *far));
            if a.version.major != b.version.major && (releases.len() > 2 || self.repository.is_none()) {
                return Ok(Chain::of_majors(&releases));
            }
        }
        match self.repository {
            Some(repository) => Self::commits(repository, from, to),
            None => match (from, to) {
                (End::Release { release: a, .. }, End::Release { release: b, .. }) => self.minors(a.version, b.version),
                _ => Err(BisectError::NotARelease { text: from.label() }),
            },
        }
    }

    /// The next finer chain between two neighbouring releases; `None` when this is as fine as it gets.
    pub fn finer(&self, level: Level, from: Version, to: Version) -> Result<Option<Chain>, BisectError> {
        match (level, self.repository) {
            (Level::Commits, _) | (Level::Minors, None) => Ok(None),
            (_, Some(repository)) => {
                let end = |version| -> Result<End, BisectError> {
                    Ok(End::Release { release: self.catalogue.get(version)?.clone(), floating: false })
                };
                Self::commits(repository, &end(from)?, &end(to)?).map(Some)
            }
            (Level::Majors, None) => self.minors(from, to).map(|chain| (chain.links.len() > 1).then_some(chain)),
        }
    }

    fn minors(&self, from: Version, to: Version) -> Result<Chain, BisectError> {
        let mut minors = Vec::new();
        for major in [from.major, to.major] {
            let releases = &self.catalogue.major(major)?.releases;
            minors.extend(releases.iter().map(|release| release.version).filter(|version| !version.is_prerelease()));
        }
        minors.extend([from, to]);
        Ok(Chain::of_minors(from, to, &minors))
    }

    fn commits(repository: &Path, from: &End, to: &End) -> Result<Chain, BisectError> {
        let hash = |end: &End| match end {
            End::Commit { hash, .. } => Ok(hash.clone()),
            End::Release { release, floating } => build::release_revision(repository, release, *floating),
        };
        let lineage = build::lineage(repository, &hash(from)?, &hash(to)?)?;
        let (from, to) = (from.label(), to.label());
        match (lineage.back.is_empty(), lineage.forth.is_empty()) {
            (true, true) => return Err(BisectError::Same { from, to }),
            (false, true) => return Err(BisectError::Reversed { from, to }),
            _ => {}
        }
        let chain = Chain::of_commits(&lineage, &from, &to);
        if chain.candidates() == 0 {
            return Err(BisectError::NothingBetween { from, to });
        }
        Ok(chain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(chain: &Chain) -> Vec<&str> {
        chain.places.iter().map(|place| place.label.as_str()).collect()
    }

    #[test]
    fn releases_lead_over_majors_to_minors() {
        let catalogue = Catalogue::builtin().unwrap();
        let route = Route { catalogue: &catalogue, repository: None };
        let chain = route.first(&route.ends("9.5.3..10.2").unwrap()).unwrap();
        assert_eq!(chain.level, Level::Majors);
        assert_eq!(labels(&chain), ["9.5.3", "9.6", "10.2"]);
        assert!(chain.places[1].floating && !chain.places[2].floating);
        let [from, to] = ["9.6.1".parse().unwrap(), "10.2".parse().unwrap()];
        let finer = route.finer(chain.level, from, to).unwrap().unwrap();
        assert_eq!(labels(&finer), ["9.6.1", "9.6.0", "10.0", "10.1", "10.2"]);
        assert_eq!(route.finer(finer.level, from, to).unwrap(), None);
        let within = route.first(&route.ends("10.1..10.4").unwrap()).unwrap();
        assert_eq!((within.level, labels(&within)), (Level::Minors, vec!["10.1", "10.2", "10.3", "10.4"]));
    }

    #[test]
    fn ends_that_cannot_be_are_refused_in_a_sentence() {
        let catalogue = Catalogue::builtin().unwrap();
        let route = Route { catalogue: &catalogue, repository: None };
        for (text, expected) in [
            ("17..16", "did you mean 16..17?"),
            ("17.2..17.2", "are the same"),
            ("17", "does not name two ends"),
            ("17...18", "does not name two ends"),
            ("17..master", "'master' is not a release"),
            ("17.99..18", "17.99"),
        ] {
            let error = route.ends(text).unwrap_err().to_string();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
