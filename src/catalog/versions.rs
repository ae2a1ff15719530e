//! Releases: from `versions/<major>.toml` to the versions that a range stands for.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use jiff::civil::Date;

use super::manifests::Manifests;
use super::{CatalogError, listing};
use crate::domain::{Bound, Fixup, Major, MajorRelease, Minor, Release, ReleaseRange, Term, Version};

/// How many near versions an error offers.
const NEAREST: usize = 3;

/// What is wrong with the manifest of a major.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ManifestProblem {
    /// `17.toml` with `major = "16"`.
    #[error("it is about major {major}; its name should be {major}.toml")]
    FileName {
        /// The major inside.
        major: Major,
    },
    /// No `[[release]]`.
    #[error("it lists no release")]
    Empty,
    /// A release of another major.
    #[error("{version} does not belong to major {major}")]
    Foreign {
        /// The release.
        version: Version,
        /// The file's major.
        major: Major,
    },
    /// A release that stands before an older one, or twice.
    #[error("{version} must come before {after}, and only once")]
    Order {
        /// The release.
        version: Version,
        /// The one listed before it.
        after: Version,
    },
    /// A release that is dated before an older one.
    #[error("{version} is dated {date}, before the release listed above it")]
    Date {
        /// The release.
        version: Version,
        /// Its date.
        date: Date,
    },
    /// A tag or archive name that is not of the project's form.
    #[error("{version} has the {field} '{found}'; it should be '{expected}'")]
    Form {
        /// The release.
        version: Version,
        /// `tag` or `archive`.
        field: &'static str,
        /// What it is.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// A fix-up that cannot be meant.
    #[error("the fix-up '{name}' {problem}")]
    Fixup {
        /// Its name.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A change without words, or twice.
    #[error("the change '{title}' needs a title of its own, an effect and a source")]
    Change {
        /// Its title.
        title: String,
    },
    /// A sha256 that is not 64 lower-case hex digits.
    #[error("{version} has a sha256 that is not 64 lower-case hex digits")]
    Sha256 {
        /// The release.
        version: Version,
    },
}

/// All majors and their releases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Catalogue {
    /// Oldest first; never empty, and each has at least one release.
    majors: Vec<MajorRelease>,
}

/// A version that a range stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selected {
    /// The release.
    pub release: Release,
    /// Whether only the major was named, so that another minor of it would serve as well (say, the
    /// latest that is prebuilt).
    pub floating: bool,
}

impl Catalogue {
    /// The catalogue that comes with the program.
    pub fn builtin() -> Result<Self, CatalogError> {
        Manifests::builtin().catalogue()
    }

    /// The catalogue in a directory of manifests, one `<major>.toml` each; other files are ignored.
    pub fn load(dir: &Path) -> Result<Self, CatalogError> {
        Manifests::read(dir)?.catalogue()
    }

    pub(super) fn from_majors(mut majors: Vec<MajorRelease>, dir: &Path) -> Result<Self, CatalogError> {
        majors.sort_by_key(|major| major.major);
        if majors.is_empty() { Err(CatalogError::NoManifest { dir: dir.to_owned() }) } else { Ok(Self { majors }) }
    }

    /// All majors, oldest first.
    #[must_use]
    pub fn majors(&self) -> &[MajorRelease] {
        &self.majors
    }

    /// The release of exactly this version.
    #[must_use]
    pub fn find(&self, version: Version) -> Option<&Release> {
        let major = self.majors.iter().find(|major| major.major == version.major)?;
        major.releases.iter().find(|release| release.version == version)
    }

    /// The release of exactly this version, or an error with the nearest versions.
    pub fn get(&self, version: Version) -> Result<&Release, CatalogError> {
        let releases = &self.major(version.major)?.releases;
        releases.iter().find(|release| release.version == version).ok_or_else(|| CatalogError::UnknownVersion {
            version,
            nearest: nearest_versions(version, releases).iter().map(ToString::to_string).collect(),
        })
    }

    /// What releases of a major need to compile with a current toolchain.
    #[must_use]
    pub fn fixups(&self, major: Major) -> &[Fixup] {
        self.majors.iter().find(|candidate| candidate.major == major).map_or(&[], |major| &major.fixups)
    }

    /// The latest release of a major, or its latest pre-release when it has no release yet.
    #[must_use]
    pub fn latest(&self, major: Major) -> Option<&Release> {
        self.majors.iter().find(|candidate| candidate.major == major).and_then(latest)
    }

    /// The latest release of a major that is available as a prebuilt package.
    #[must_use]
    pub fn latest_prebuilt(&self, major: Major) -> Option<&Release> {
        let major = self.majors.iter().find(|candidate| candidate.major == major)?;
        major.releases.iter().rev().find(|release| release.prebuilt.is_some())
    }

    /// The versions that a range stands for, oldest first, each once.
    ///
    /// A term `A..B` stands for one version per major: the ends as written where they are versions,
    /// and the latest minor of every other major. With `minors` it stands for every release between
    /// its ends, a major as lower end meaning from its `.0`. Majors marked as newer take part only
    /// where they are an end or stand alone. Versions and majors that are not in the catalogue are
    /// an error that offers the nearest.
    pub fn resolve(&self, range: &ReleaseRange, minors: bool) -> Result<Vec<Selected>, CatalogError> {
        let mut selected = BTreeMap::new();
        for &term in &range.terms {
            let (from, to) = match term {
                Term::One(bound) => (bound, bound),
                Term::Span(from, to) => (from, to),
            };
            self.resolve_span(from, to, minors, &mut selected)?;
        }
        Ok(selected.into_values().collect())
    }

    fn resolve_span(
        &self,
        from: Bound,
        to: Bound,
        minors: bool,
        selected: &mut BTreeMap<Version, Selected>,
    ) -> Result<(), CatalogError> {
        let mut add = |release: &Release, floating: bool| {
            let entry =
                selected.entry(release.version).or_insert_with(|| Selected { release: release.clone(), floating });
            entry.floating &= floating;
        };
        for bound in [from, to] {
            match bound {
                Bound::Version(version) => add(self.get(version)?, false),
                Bound::Major(major) => drop(self.major(major)?),
            }
        }
        let inside = |version: Version| {
            let above = !matches!(from, Bound::Version(from) if version < from);
            let below = !matches!(to, Bound::Version(to) if version > to);
            above && below
        };
        for major in &self.majors {
            let is_end = major.major == from.major() || major.major == to.major();
            let between = from.major() < major.major && major.major < to.major();
            if !is_end && (!between || major.newer) {
                continue;
            }
            let mut releases = major.releases.iter().filter(|release| !release.version.is_prerelease()).peekable();
            if minors && releases.peek().is_some() {
                releases.filter(|release| inside(release.version)).for_each(|release| add(release, false));
                continue;
            }
            // An end that is a version speaks for its major, unless the other end names the major itself.
            let named = |bound| bound == Bound::Major(major.major);
            if let Some(latest) = latest(major)
                && (!is_end || named(from) || named(to))
                && inside(latest.version)
            {
                add(latest, true);
            }
        }
        Ok(())
    }

    /// A major, or an error with the nearest majors.
    pub fn major(&self, wanted: Major) -> Result<&MajorRelease, CatalogError> {
        self.majors.iter().find(|major| major.major == wanted).ok_or_else(|| CatalogError::UnknownMajor {
            major: wanted,
            nearest: nearest_majors(wanted, &self.majors).iter().map(ToString::to_string).collect(),
        })
    }
}

fn latest(major: &MajorRelease) -> Option<&Release> {
    let newest_first = || major.releases.iter().rev();
    newest_first().find(|release| !release.version.is_prerelease()).or_else(|| newest_first().next())
}

/// The neighbours on both sides of a hole, or the last few before an end of the list.
fn nearest_versions(wanted: Version, releases: &[Release]) -> Vec<Version> {
    let position = releases.partition_point(|release| release.version < wanted);
    let versions = |part: &[Release]| part.iter().map(|release| release.version).collect::<Vec<_>>();
    if position == 0 {
        versions(&releases[..NEAREST.min(releases.len())])
    } else if position == releases.len() {
        versions(releases).into_iter().rev().take(NEAREST).collect()
    } else {
        versions(&releases[position - 1..=position])
    }
}

/// Up to two majors before and one after, or more on the side where the list goes on.
fn nearest_majors(wanted: Major, majors: &[MajorRelease]) -> Vec<Major> {
    let position = majors.partition_point(|major| major.major < wanted);
    let start = position.saturating_sub(NEAREST - 1).min(majors.len().saturating_sub(NEAREST));
    let window = &majors[start..(start + NEAREST).min(majors.len())];
    let mut nearest: Vec<Major> = window.iter().map(|major| major.major).collect();
    nearest.sort_by_key(|major| major.number().abs_diff(wanted.number()));
    nearest
}

/// Reads one manifest; `file` is how errors call it.
pub(super) fn parse(text: &str, path: &Path, file: &str) -> Result<MajorRelease, CatalogError> {
    let major: MajorRelease = toml::from_str(text)
        .map_err(|source| CatalogError::Parse { file: file.to_owned(), source: Box::new(source) })?;
    check(&major, path).map_err(|problem| CatalogError::Manifest { file: file.to_owned(), problem })?;
    Ok(major)
}

fn check(major: &MajorRelease, path: &Path) -> Result<(), ManifestProblem> {
    if path.file_stem().is_none_or(|stem| stem.to_string_lossy() != major.major.to_string()) {
        return Err(ManifestProblem::FileName { major: major.major });
    }
    if major.releases.is_empty() {
        return Err(ManifestProblem::Empty);
    }
    major.releases.iter().try_for_each(|release| check_release(release, major.major))?;
    for pair in major.releases.windows(2) {
        let (before, release) = (&pair[0], &pair[1]);
        if release.version <= before.version {
            return Err(ManifestProblem::Order { version: release.version, after: before.version });
        }
    }
    check_fixups(major)?;
    for (index, change) in major.changes.iter().enumerate() {
        let is_double = major.changes[..index].iter().any(|other| other.title == change.title);
        if is_double || [&change.title, &change.effect, &change.source].iter().any(|text| text.trim().is_empty()) {
            return Err(ManifestProblem::Change { title: change.title.clone() });
        }
    }
    let mut latest = None;
    for release in &major.releases {
        match release.date {
            Some(date) if latest.is_some_and(|latest| date < latest) => {
                return Err(ManifestProblem::Date { version: release.version, date });
            }
            Some(date) => latest = Some(date),
            None => {}
        }
    }
    Ok(())
}

fn check_fixups(major: &MajorRelease) -> Result<(), ManifestProblem> {
    for (index, fixup) in major.fixups.iter().enumerate() {
        let earlier = &major.fixups[..index];
        let problem = if earlier.iter().any(|other| other.name == fixup.name) {
            Some("is there twice".to_owned())
        } else {
            fixup_problem(fixup, major.major)
        };
        if let Some(problem) = problem {
            return Err(ManifestProblem::Fixup { name: fixup.name.clone(), problem });
        }
    }
    Ok(())
}

fn fixup_problem(fixup: &Fixup, major: Major) -> Option<String> {
    let Fixup { name, why, from, to, only: _, cflags, configure, edits } = fixup;
    let is_word = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let foreign = [from, to].into_iter().flatten().find(|version| version.major != major);
    // What the recipe itself decides, for all versions alike.
    let decided = |argument: &&String| ["--prefix", "CC=", "CFLAGS="].iter().any(|start| argument.starts_with(start));
    let is_argument = |argument: &String| argument.starts_with("--") || argument.contains('=');
    if !is_word {
        return Some("needs a name of letters, digits and hyphens".to_owned());
    }
    if why.trim().is_empty() || why.contains('\n') {
        return Some("needs a `why` of one line".to_owned());
    }
    if let Some(version) = foreign {
        return Some(format!("names {version}, which does not belong to major {major}"));
    }
    if from.zip(*to).is_some_and(|(from, to)| from > to) {
        return Some("ends before it begins".to_owned());
    }
    if cflags.is_empty() && configure.is_empty() && edits.is_empty() {
        return Some("does nothing; give it cflags, configure or [[fixup.edit]]".to_owned());
    }
    if let Some(flag) = cflags.iter().find(|flag| !flag.starts_with('-') || flag.contains(char::is_whitespace)) {
        return Some(format!("has the compiler flag '{flag}'; write one flag with its hyphen"));
    }
    if let Some(argument) = configure.iter().find(|argument| !is_argument(argument)) {
        return Some(format!("has the configure argument '{argument}'; write --option or NAME=value"));
    }
    if let Some(argument) = configure.iter().find(decided) {
        return Some(format!("has the configure argument '{argument}', which is the same for all versions"));
    }
    edits.iter().find_map(|edit| {
        let is_inside = edit.file.components().all(|part| matches!(part, Component::Normal(_)));
        if !is_inside || edit.file.as_os_str().is_empty() {
            Some(format!("edits '{}'; write a path below the top of the source tree", edit.file.display()))
        } else if edit.find.is_empty() || edit.find == edit.replace {
            Some(format!("changes nothing in {}", edit.file.display()))
        } else {
            None
        }
    })
}

fn check_release(release: &Release, major: Major) -> Result<(), ManifestProblem> {
    let version = release.version;
    if version.major != major {
        return Err(ManifestProblem::Foreign { version, major });
    }
    let archive = listing::archive(version);
    for (field, found, expected) in [("tag", &release.tag, tag(version)), ("archive", &release.archive, archive)] {
        if *found != expected {
            return Err(ManifestProblem::Form { version, field, found: found.clone(), expected });
        }
    }
    let is_hash = |text: &String| {
        text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
    };
    if release.sha256.as_ref().is_some_and(|sha256| !is_hash(sha256)) {
        return Err(ManifestProblem::Sha256 { version });
    }
    Ok(())
}

/// The name of a version's git tag: `REL9_6_24`, `REL_17_2`, `REL_19_BETA3`.
pub(super) fn tag(version: Version) -> String {
    let major = version.major.to_string().replace('.', "_");
    let prefix = if version.major.is_two_part() { "REL" } else { "REL_" };
    match version.minor {
        Minor::Alpha(n) => format!("{prefix}{major}_ALPHA{n}"),
        Minor::Beta(n) => format!("{prefix}{major}_BETA{n}"),
        Minor::Candidate(n) => format!("{prefix}{major}_RC{n}"),
        Minor::Release(n) => format!("{prefix}{major}_{n}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn catalogue() -> Catalogue {
        Catalogue::builtin().unwrap()
    }

    /// The versions of a range, floating ones marked with `~`.
    fn resolve(range: &str, minors: bool) -> String {
        let selected = catalogue().resolve(&range.parse().unwrap(), minors).unwrap();
        let mark = |one: &Selected| format!("{}{}", if one.floating { "~" } else { "" }, one.release.version);
        selected.iter().map(mark).collect::<Vec<_>>().join(" ")
    }

    fn refusal(range: &str) -> String {
        catalogue().resolve(&range.parse().unwrap(), false).unwrap_err().to_string()
    }

    #[test]
    fn every_major_is_listed_with_its_dates() {
        let catalogue = catalogue();
        let majors: Vec<String> = catalogue.majors().iter().map(|major| major.major.to_string()).collect();
        let expected = "9.0 9.1 9.2 9.3 9.4 9.5 9.6 10 11 12 13 14 15 16 17 18 19";
        assert_eq!(majors.join(" "), expected);
        for major in catalogue.majors() {
            assert_eq!(major.newer, major.first_release.is_none(), "{}", major.major);
            let released = major.releases.iter().find(|release| !release.version.is_prerelease());
            assert_eq!(released.and_then(|release| release.date), major.first_release, "{}", major.major);
            assert!(major.newer || major.end_of_life > major.first_release, "{}", major.major);
        }
        let count: usize = catalogue.majors().iter().map(|major| major.releases.len()).sum();
        assert!(count >= 357, "{count} releases");
    }

    #[test]
    fn a_known_release_has_its_facts() {
        let catalogue = catalogue();
        let release = catalogue.find("10.23".parse().unwrap()).unwrap();
        assert_eq!(release.tag, "REL_10_23");
        assert_eq!(release.prebuilt.as_deref(), Some("10.23.0-beta.6"));
        let odd = catalogue.find("11.22".parse().unwrap()).unwrap();
        assert_eq!(odd.prebuilt.as_deref(), Some("11.22.1-beta.11"), "the package's own third number");
        let old = catalogue.find("9.6.24".parse().unwrap()).unwrap();
        assert_eq!((old.tag.as_str(), old.archive.as_str()), ("REL9_6_24", "postgresql-9.6.24.tar.bz2"));
        assert_eq!(old.date, Some("2021-11-11".parse().unwrap()));
    }

    #[test]
    fn every_major_but_the_first_has_changes_with_sources() {
        for major in catalogue().majors() {
            assert_eq!(major.changes.is_empty(), major.major == Major::new(9, 0), "{}", major.major);
        }
        let suite = crate::catalog::suite::builtin().unwrap();
        let known = |name: &String| {
            suite.groups.iter().any(|group| group.name == *name)
                || suite.microbenchmarks.iter().any(|microbenchmark| microbenchmark.base_name() == name)
        };
        let catalogue = catalogue();
        for change in catalogue.majors().iter().flat_map(|major| &major.changes) {
            assert!(change.touches.iter().all(known), "{change:?}");
        }
        let plans = &catalogue.major(Major::new(9, 2)).unwrap().changes[0];
        assert!(plans.title.contains("prepared statements") && plans.source.contains("release notes of 9.2"));
    }

    #[test]
    fn the_latest_of_a_major() {
        let catalogue = catalogue();
        let version = |release: Option<&Release>| release.map(|release| release.version.to_string());
        assert_eq!(version(catalogue.latest(Major::new(9, 0))).as_deref(), Some("9.0.23"));
        assert_eq!(version(small().latest(Major::new(13, 0))).as_deref(), Some("13rc1"), "when it is all there is");
        assert_eq!(version(small().latest(Major::new(12, 0))).as_deref(), Some("12.2"));
        assert_eq!(version(catalogue.latest_prebuilt(Major::new(12, 0))).as_deref(), Some("12.22"));
        assert_eq!(version(catalogue.latest_prebuilt(Major::new(9, 6))), None);
        assert_eq!(version(catalogue.latest(Major::new(8, 4))), None);
    }

    /// A catalogue that stands still while the real one grows.
    fn small() -> Catalogue {
        let release = |version: &str| {
            let version: Version = version.parse().unwrap();
            let archive = format!("postgresql-{version}.tar.bz2");
            Release { version, date: None, tag: tag(version), archive, sha256: None, prebuilt: None }
        };
        let major = |major: &str, newer: bool, releases: &[&str]| MajorRelease {
            major: major.parse().unwrap(),
            first_release: None,
            end_of_life: None,
            newer,
            fixups: Vec::new(),
            releases: releases.iter().map(|version| release(version)).collect(),
            changes: Vec::new(),
        };
        Catalogue {
            majors: vec![
                major("9.6", false, &["9.6.0", "9.6.1"]),
                major("10", false, &["10.0", "10.1", "10.2"]),
                major("11", true, &["11.0"]),
                major("12", false, &["12beta1", "12.0", "12.2"]),
                major("13", true, &["13beta1", "13rc1"]),
            ],
        }
    }

    #[test]
    fn ranges_mean_one_version_per_major_or_every_minor() {
        let resolve = |range: &str, minors: bool| {
            let selected = small().resolve(&range.parse().unwrap(), minors).unwrap();
            let mark = |one: &Selected| format!("{}{}", if one.floating { "~" } else { "" }, one.release.version);
            selected.iter().map(mark).collect::<Vec<_>>().join(" ")
        };
        let cases = [
            ("9.6..12", "~9.6.1 ~10.2 ~12.2", "9.6.0 9.6.1 10.0 10.1 10.2 12.0 12.2"),
            ("9.6.0..12", "9.6.0 ~10.2 ~12.2", "9.6.0 9.6.1 10.0 10.1 10.2 12.0 12.2"),
            ("10.1..12.0", "10.1 12.0", "10.1 10.2 12.0"),
            ("10.0..10.2", "10.0 10.2", "10.0 10.1 10.2"),
            ("10..10.1", "10.1", "10.0 10.1"),
            ("10.1..10", "10.1 ~10.2", "10.1 10.2"),
            ("10", "~10.2", "10.0 10.1 10.2"),
            ("10..10", "~10.2", "10.0 10.1 10.2"),
            ("10.1", "10.1", "10.1"),
            ("12,10.0,9.6.0..10", "9.6.0 10.0 ~10.2 ~12.2", "9.6.0 9.6.1 10.0 10.1 10.2 12.0 12.2"),
            ("12,12.2", "12.2", "12.0 12.2"),
            ("11", "~11.0", "11.0"),
            ("11..12", "~11.0 ~12.2", "11.0 12.0 12.2"),
            ("12..13", "~12.2 ~13rc1", "12.0 12.2 ~13rc1"),
            ("12beta1..13beta1", "12beta1 13beta1", "12beta1 12.0 12.2 13beta1"),
        ];
        for (range, majors, minors) in cases {
            assert_eq!(resolve(range, false), majors, "{range}");
            assert_eq!(resolve(range, true), minors, "{range} with minors");
        }
    }

    #[test]
    fn the_article_is_a_range() {
        assert_eq!(resolve("9.0.23,9.1.24,10.23,16.2", false), "9.0.23 9.1.24 10.23 16.2");
        assert_eq!(resolve("9.0..18", false).split(' ').count(), 16, "19 is not asked for");
        assert_eq!(resolve("14.10..16.2", false), resolve("14.10,15,16.2", false));
        assert_eq!(resolve("18.3..18.6", true), "18.3 18.4 18.6", "18.5 was never released");
        assert_eq!(resolve("19", false), format!("~{}", catalogue().latest(Major::new(19, 0)).unwrap().version));
    }

    #[test]
    fn what_is_not_in_the_catalogue_is_refused_with_the_nearest() {
        assert_eq!(refusal("10.99"), "PostgreSQL 10.99 is not in the catalogue; nearest: 10.23, 10.22, 10.21");
        assert_eq!(refusal("18.5"), "PostgreSQL 18.5 is not in the catalogue; nearest: 18.4, 18.6");
        assert_eq!(refusal("9.7"), "PostgreSQL 9.7 is not in the catalogue; nearest: 9.6, 9.5, 10");
        assert_eq!(refusal("8.4.22"), "PostgreSQL 8.4 is not in the catalogue; nearest: 9.0, 9.1, 9.2");
        assert_eq!(refusal("9.0..99"), "PostgreSQL 99 is not in the catalogue; nearest: 19, 18, 17");
        assert_eq!(refusal("16..16.99").split(';').next().unwrap(), "PostgreSQL 16.99 is not in the catalogue");
        assert_eq!(refusal("12beta1"), "PostgreSQL 12beta1 is not in the catalogue; nearest: 12.0, 12.1, 12.2");
    }

    #[test]
    fn broken_manifests_say_what_is_wrong() {
        let release = |version: &str, tag: &str| {
            format!("[[release]]\nversion = '{version}'\ntag = '{tag}'\narchive = 'postgresql-{version}.tar.bz2'\n")
        };
        let change = |title: &str, effect: &str, source: &str| {
            format!("[[change]]\ntitle = '{title}'\neffect = '{effect}'\nsource = '{source}'\n")
        };
        let head = "major = '17'\n";
        let zero = release("17.0", "REL_17_0");
        let cases = [
            (String::new(), "17.toml is not valid"),
            (head.to_owned(), "17.toml: it lists no release"),
            (format!("major = '16'\n{zero}"), "it is about major 16; its name should be 16.toml"),
            (format!("{head}{}", release("16.0", "REL_16_0")), "16.0 does not belong to major 17"),
            (format!("{head}{zero}{zero}"), "17.0 must come before 17.0, and only once"),
            (format!("{head}{}{zero}", release("17.1", "REL_17_1")), "17.0 must come before 17.1, and only once"),
            (format!("{head}{}", release("17.0", "REL17_0")), "17.0 has the tag 'REL17_0'; it should be 'REL_17_0'"),
            (
                format!("{head}{}", zero.replace("bz2", "gz")),
                "17.0 has the archive 'postgresql-17.0.tar.gz'; it should be 'postgresql-17.0.tar.bz2'",
            ),
            (format!("{head}{zero}sha256 = 'ABC'"), "17.0 has a sha256 that is not 64 lower-case hex digits"),
            (
                format!("{head}{zero}date = '2024-09-26'\n{}date = '2024-09-25'", release("17.1", "REL_17_1")),
                "17.1 is dated 2024-09-25, before the release listed above it",
            ),
            (format!("{head}{zero}sha = 'x'"), "17.toml is not valid"),
            (format!("{head}{zero}{}impact = 'c'", change("a", "b", "c")), "17.toml is not valid"),
            (
                format!("{head}{zero}{}", change("a", "b", " ")),
                "17.toml: the change 'a' needs a title of its own, an effect and a source",
            ),
            (
                format!("{head}{zero}{}{}", change("a", "b", "c"), change("a", "d", "e")),
                "17.toml: the change 'a' needs a title of its own, an effect and a source",
            ),
        ];
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("17.toml");
        for (text, expected) in cases {
            fs::write(&file, &text).unwrap();
            let message = Catalogue::load(dir.path()).unwrap_err().to_string();
            assert!(message.ends_with(expected), "{text}\n  gives    {message}\n  expected {expected}");
        }
        fs::remove_file(&file).unwrap();
        let message = Catalogue::load(dir.path()).unwrap_err().to_string();
        assert!(message.starts_with("there is no <major>.toml in "), "{message}");
    }

    #[test]
    fn fixups_are_read_and_their_mistakes_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("17.toml");
        let load = |fixup: &str| {
            let release = "[[release]]\nversion = '17.0'\ntag = 'REL_17_0'\narchive = 'postgresql-17.0.tar.bz2'\n";
            fs::write(&file, format!("major = '17'\n{fixup}\n{release}")).unwrap();
            Catalogue::load(dir.path())
        };
        let head = "[[fixup]]\nname = 'a-b'\nwhy = 'c'";
        let edit = |file: &str, find: &str| format!("[[fixup.edit]]\nfile = '{file}'\nfind = '{find}'\nreplace = 'y'");
        let good = format!("{head}\nto = '17.0'\ncflags = ['-fx']\n{}", edit("src/x.c", "x"));
        let catalogue = load(&good).unwrap();
        assert_eq!(catalogue.fixups(Major::new(17, 0))[0].edits[0].find, "x");
        assert!(catalogue.fixups(Major::new(16, 0)).is_empty());
        for (text, expected) in [
            ("[[fixup]]\nname = 'a b'\nwhy = 'c'".to_owned(), "'a b' needs a name of letters, digits and hyphens"),
            ("[[fixup]]\nname = 'a'\nwhy = ''".to_owned(), "'a' needs a `why` of one line"),
            (head.to_owned(), "'a-b' does nothing; give it cflags, configure or [[fixup.edit]]"),
            (format!("{head}\nfrom = '16.1'"), "names 16.1, which does not belong to major 17"),
            (format!("{head}\nfrom = '17.2'\nto = '17.1'"), "'a-b' ends before it begins"),
            (format!("{head}\ncflags = ['-a -b']"), "has the compiler flag '-a -b'; write one flag with its hyphen"),
            (format!("{head}\nconfigure = ['x']"), "has the configure argument 'x'; write --option or NAME=value"),
            (format!("{head}\nconfigure = ['CC=x']"), "argument 'CC=x', which is the same for all versions"),
            (format!("{head}\n{}", edit("../x", "x")), "edits '../x'; write a path below the top of the source tree"),
            (format!("{head}\n{}", edit("/x", "x")), "edits '/x'; write a path below the top of the source tree"),
            (format!("{head}\n{}", edit("x", "y")), "'a-b' changes nothing in x"),
            (format!("{good}\n{good}"), "'a-b' is there twice"),
            (format!("{head}\nflags = ['-x']"), "17.toml is not valid"),
            (format!("{head}\nonly = 'tarball'"), "17.toml is not valid"),
        ] {
            let message = load(&text).unwrap_err().to_string();
            assert!(message.ends_with(expected), "{text}\n  gives    {message}\n  expected {expected}");
        }
    }

    #[test]
    fn a_directory_is_read_like_the_builtin_catalogue() {
        let versions = Path::new(env!("CARGO_MANIFEST_DIR")).join("versions");
        assert_eq!(Catalogue::load(&versions).unwrap(), catalogue());
    }
}
