//! Adds what a listing has and the catalogue lacks to the manifests, as texts: nothing that is there is touched.

use std::collections::BTreeMap;
use std::ops::Range;

use jiff::civil::Date;
use serde::{Deserialize, Serialize};
use toml::Spanned;

use super::CatalogError;
use super::listing::{self, Listed, Listing};
use super::manifests::Manifests;
use super::versions;
use crate::domain::{Major, MajorRelease, Minor, Release, Version};

/// What the catalogue gets. Field names are part of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Addition {
    /// The release.
    pub version: Version,
    /// Whether it is new to the catalogue; else only what follows is.
    pub new: bool,
    /// The day of its announcement.
    pub date: Option<Date>,
    /// The hash of its archive.
    pub sha256: Option<String>,
}

/// The result of a comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refresh {
    /// The manifests with all additions. They were read again and hold what they should.
    pub manifests: Manifests,
    /// Names of those that got any.
    pub changed: Vec<String>,
    /// What is added, oldest first.
    pub additions: Vec<Addition>,
    /// What a person should know or do.
    pub notes: Vec<String>,
}

/// Compares the manifests with a listing. A hash that differs is an error. Writes nothing.
pub fn refresh(manifests: &Manifests, listing: &Listing) -> Result<Refresh, CatalogError> {
    let catalogue = manifests.catalogue()?;
    let mut refresh =
        Refresh { manifests: manifests.clone(), changed: vec![], additions: vec![], notes: listing.notes.clone() };
    for major in catalogue.majors() {
        let concerned = |version: &Version| version.major == major.major && listing::concerns(&catalogue, *version);
        let listed = listing.releases.iter().filter(|(version, _)| concerned(version));
        let additions = additions(manifests, major, listed, &mut refresh.notes)?;
        let Some((name, text)) = manifests.of(major.major).filter(|_| !additions.is_empty()) else { continue };
        refresh.notes.extend(after(major, &additions, listing.complete));
        refresh.manifests.set(name, edited(manifests, name, text, major, &additions)?);
        refresh.changed.push(name.to_owned());
        refresh.additions.extend(additions);
    }
    let oldest = catalogue.majors().first().map(|major| major.major);
    let mut majors: Vec<Major> = listing.releases.keys().map(|version| version.major).collect();
    majors.dedup();
    for major in majors.into_iter().filter(|major| Some(*major) > oldest && catalogue.major(*major).is_err()) {
        refresh.notes.push(format!("{major} is not in the catalogue; add versions/{major}.toml: see CONTRIBUTING.md"));
    }
    Ok(refresh)
}

/// What a major gets.
fn additions<'a>(
    manifests: &Manifests,
    major: &MajorRelease,
    listed: impl Iterator<Item = (&'a Version, &'a Listed)>,
    notes: &mut Vec<String>,
) -> Result<Vec<Addition>, CatalogError> {
    let mut additions = Vec::new();
    for (&version, listed) in listed {
        let sha256 = listed.hash.as_ref().map(|hash| hash.sha256.clone());
        let Some(known) = major.releases.iter().find(|release| release.version == version) else {
            additions.push(Addition { version, new: true, date: listed.date, sha256 });
            continue;
        };
        if let (Some(known), Some(hash)) = (&known.sha256, &listed.hash)
            && *known != hash.sha256
        {
            let file = manifests.file(&format!("{}.toml", major.major));
            let (one, other) = (format!("{known} ({file})"), format!("{} ({})", hash.sha256, hash.place));
            return Err(CatalogError::HashDiffers { version, one, other });
        }
        if let (Some(known), Some(date)) = (known.date, listed.date)
            && known != date
        {
            notes.push(format!("{version} is dated {known} in the catalogue and {date} in the listing; left as it is"));
        }
        let date = listed.date.filter(|_| known.date.is_none());
        let sha256 = sha256.filter(|_| known.sha256.is_none());
        if date.is_some() || sha256.is_some() {
            additions.push(Addition { version, new: false, date, sha256 });
        }
    }
    Ok(additions)
}

/// What is left to do after these additions to a major.
fn after(major: &MajorRelease, additions: &[Addition], complete: bool) -> Vec<String> {
    let number = |version: Version| match version.minor {
        Minor::Release(number) => Some(number),
        _ => None,
    };
    let latest = major.releases.iter().filter_map(|release| number(release.version)).max();
    let newest = additions.iter().filter(|addition| addition.new).filter_map(|addition| number(addition.version)).max();
    let mut notes = Vec::new();
    match (latest, newest) {
        (None, Some(_)) => notes.push(format!(
            "{0} has its first release: fill in first_release and end_of_life in {0}.toml, and drop newer when it is to \
             be tracked: see CONTRIBUTING.md",
            major.major
        )),
        (Some(latest), Some(newest)) if !complete => {
            let missing: Vec<String> =
                (latest + 1..newest).map(|minor| Version::release(major.major, minor).to_string()).collect();
            if !missing.is_empty() {
                let missing = missing.join(", ");
                notes.push(format!("this listing names the latest minor only; {missing} may be missing"));
            }
        }
        _ => {}
    }
    notes
}

/// The text of a manifest with the additions, read again and compared with what it should say.
fn edited(
    manifests: &Manifests,
    name: &str,
    text: &str,
    major: &MajorRelease,
    additions: &[Addition],
) -> Result<String, CatalogError> {
    let mut expected = major.clone();
    for addition in additions {
        apply(&mut expected.releases, addition);
    }
    let versions: Vec<String> = additions.iter().map(|addition| addition.version.to_string()).collect();
    let form = || CatalogError::Form { file: manifests.file(name), versions: versions.join(", ") };
    let edited = Editor::new(text).ok_or_else(form)?.with(additions).ok_or_else(form)?;
    if manifests.parse(name, &edited)? == expected { Ok(edited) } else { Err(form()) }
}

fn apply(releases: &mut Vec<Release>, addition: &Addition) {
    let Addition { version, date, ref sha256, .. } = *addition;
    let place = releases.partition_point(|release| release.version < version);
    if let Some(known) = releases.get_mut(place).filter(|release| release.version == version) {
        known.date = known.date.or(date);
        known.sha256 = known.sha256.take().or_else(|| sha256.clone());
    } else {
        let (tag, archive) = (versions::tag(version), listing::archive(version));
        releases.insert(place, Release { version, date, tag, archive, sha256: sha256.clone(), prebuilt: None });
    }
}

/// Where the values of a manifest's releases stand in its text.
#[derive(Debug, Deserialize)]
struct Places {
    #[serde(rename = "release")]
    releases: Vec<BTreeMap<String, Spanned<toml::Value>>>,
}

/// Inserts lines into a manifest.
#[derive(Debug)]
struct Editor<'a> {
    text: &'a str,
    /// How its lines end.
    newline: &'static str,
    /// The releases in the order of the file, with the place of each of their values.
    releases: Vec<(Version, BTreeMap<String, Range<usize>>)>,
}

impl<'a> Editor<'a> {
    /// `None` for a text that is no manifest.
    fn new(text: &'a str) -> Option<Self> {
        let places: Places = toml::from_str(text).ok()?;
        let release = |values: BTreeMap<String, Spanned<toml::Value>>| {
            let version = values.get("version")?.get_ref().as_str()?.parse().ok()?;
            Some((version, values.into_iter().map(|(name, value)| (name, value.span())).collect()))
        };
        let releases = places.releases.into_iter().map(release).collect::<Option<_>>()?;
        Some(Self { text, newline: if text.contains("\r\n") { "\r\n" } else { "\n" }, releases })
    }

    /// The text with all additions, which are in the order of their versions.
    fn with(&self, additions: &[Addition]) -> Option<String> {
        let mut pieces: BTreeMap<usize, String> = BTreeMap::new();
        let mut insert = |place: usize, lines: &str| {
            let piece = pieces.entry(place).or_default();
            // The last line of the file may lack its end.
            if piece.is_empty() && place > 0 && !self.text[..place].ends_with('\n') {
                piece.push_str(self.newline);
            }
            piece.push_str(&lines.replace('\n', self.newline));
        };
        for addition in additions {
            let date = addition.date.map(|date| format!("date = \"{date}\"\n")).unwrap_or_default();
            let sha256 = addition.sha256.as_ref().map(|hash| format!("sha256 = \"{hash}\"\n")).unwrap_or_default();
            if addition.new {
                let version = addition.version;
                let (tag, archive) = (versions::tag(version), listing::archive(version));
                let entry = format!(
                    "[[release]]\nversion = \"{version}\"\n{date}tag = \"{tag}\"\narchive = \"{archive}\"\n{sha256}"
                );
                match self.releases.iter().rfind(|(earlier, _)| *earlier < version) {
                    Some((_, values)) => insert(self.end_of_entry(values)?, &format!("\n{entry}")),
                    None => insert(self.first_entry()?, &format!("{entry}\n")),
                }
            } else {
                let (_, values) = self.releases.iter().find(|(version, _)| *version == addition.version)?;
                for (lines, before) in [(date, "version"), (sha256, "archive")] {
                    if !lines.is_empty() {
                        insert(self.end_of_line(values.get(before)?.end), &lines);
                    }
                }
            }
        }
        Some(self.spliced(pieces))
    }

    fn spliced(&self, pieces: BTreeMap<usize, String>) -> String {
        let mut text = self.text.to_owned();
        for (place, piece) in pieces.into_iter().rev() {
            text.insert_str(place, &piece);
        }
        text
    }

    /// After the line that holds a place.
    fn end_of_line(&self, place: usize) -> usize {
        self.text[place..].find('\n').map_or(self.text.len(), |end| place + end + 1)
    }

    /// After the last value of a release, and the comments right below it.
    fn end_of_entry(&self, values: &BTreeMap<String, Range<usize>>) -> Option<usize> {
        let mut end = self.end_of_line(values.values().map(|place| place.end).max()?);
        while self.text[end..].starts_with('#') {
            end = self.end_of_line(end);
        }
        Some(end)
    }

    /// The line `[[release]]` of the first release, or the comments right above it.
    fn first_entry(&self) -> Option<usize> {
        let (_, values) = self.releases.first()?;
        let begin = values.values().map(|place| place.start).min()?;
        let header = self.text[..begin].rfind("[[")?;
        let begin_of_line = |place: usize| self.text[..place].rfind('\n').map_or(0, |end| end + 1);
        let mut begin = begin_of_line(header);
        while begin > 0 && self.text[begin_of_line(begin - 1)..].starts_with('#') {
            begin = begin_of_line(begin - 1);
        }
        Some(begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::listing::Published;

    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";

    /// A manifest with everything that can stand between releases. What may be added stands behind a `+`.
    const MANIFEST: &str = "\
# A comment.
major   =  '18'   # Another.

  [[fixup]]
name = 'x'
why = 'y'
cflags = ['-x']

+[[release]]
+version = \"18.0\"
+date = \"2025-09-25\"
+tag = \"REL_18_0\"
+archive = \"postgresql-18.0.tar.bz2\"
+sha256 = \"AAAA\"
+
# The first one.
[[ release ]]
archive = 'postgresql-18.1.tar.bz2'   # Out of order.
+sha256 = \"AAAA\"
version = '18.1'
+date = \"2025-11-13\"
tag = \"\"\"
REL_18_1\"\"\"
# Below the first one.
+
+[[release]]
+version = \"18.2\"
+tag = \"REL_18_2\"
+archive = \"postgresql-18.2.tar.bz2\"
+
+[[release]]
+version = \"18.3\"
+tag = \"REL_18_3\"
+archive = \"postgresql-18.3.tar.bz2\"
+sha256 = \"BBBB\"

[[release]]
version = '18.4'
tag = 'REL_18_4'
archive = 'postgresql-18.4.tar.bz2'
sha256 = 'BBBB'
+
+[[release]]
+version = \"18.6\"
+date = \"2026-08-13\"
+tag = \"REL_18_6\"
+archive = \"postgresql-18.6.tar.bz2\"

# What changed.

[[change]]
title = 'a'
effect = '''
[[release]]'''
source = 'c'
";

    /// The manifest without what is added and with it.
    fn before_and_after() -> (String, String) {
        let text = MANIFEST.replace("AAAA", A).replace("BBBB", B);
        let kept = text.split_inclusive('\n').filter(|line| !line.starts_with('+'));
        let lines = text.split_inclusive('\n').map(|line| line.strip_prefix('+').unwrap_or(line));
        (kept.collect(), lines.collect())
    }

    /// `18.7 18.8@2026-11-12 18.9#hash`
    fn listing(text: &str) -> Listing {
        let one = |word: &str| {
            let (word, sha256) =
                word.split_once('#').map_or((word, None), |(word, hash)| (word, Some(hash.to_owned())));
            let (version, date) = word.split_once('@').map_or((word, None), |(word, date)| (word, date.parse().ok()));
            let hash = sha256.map(|sha256| Published { sha256, place: format!("the place of {version}") });
            (version.parse().unwrap(), Listed { date, hash })
        };
        Listing { releases: text.split_whitespace().map(one).collect(), complete: true, notes: vec![] }
    }

    fn all() -> Listing {
        listing(&format!(
            "18.0@2025-09-25#{A} 18.1@2025-11-13#{A} 18.2 18.3#{B} 18.4#{B} 18.6@2026-08-13 18beta1 17.0 6.5.3"
        ))
    }

    #[test]
    fn additions_leave_every_other_byte_alone() {
        let (before, after) = before_and_after();
        for newline in ["\n", "\r\n"] {
            let before = before.replace('\n', newline);
            let manifests = Manifests::of_texts(&[("18.toml", &before)]);
            let refresh = refresh(&manifests, &all()).unwrap();
            assert_eq!(refresh.changed, ["18.toml"]);
            let (_, text) = refresh.manifests.of(Major::new(18, 0)).unwrap();
            assert_eq!(text, after.replace('\n', newline));
            // A second time there is nothing to add.
            let again = super::refresh(&refresh.manifests, &all()).unwrap();
            assert_eq!((again.additions, again.changed, again.manifests), (vec![], vec![], refresh.manifests));
        }
    }

    #[test]
    fn a_file_may_end_without_a_newline() {
        let text = "major = '18'\n[[release]]\nversion = '18.0'\ntag = 'REL_18_0'\narchive = 'postgresql-18.0.tar.bz2'";
        let manifests = Manifests::of_texts(&[("18.toml", text)]);
        let refresh = refresh(&manifests, &listing(&format!("18.0#{A} 18.1"))).unwrap();
        let (_, edited) = refresh.manifests.of(Major::new(18, 0)).unwrap();
        let added = "version = \"18.1\"\ntag = \"REL_18_1\"\narchive = \"postgresql-18.1.tar.bz2\"\n";
        assert_eq!(edited, format!("{text}\nsha256 = \"{A}\"\n\n[[release]]\n{added}"));
    }

    #[test]
    fn every_builtin_manifest_takes_a_minor_before_its_changes() {
        let manifests = Manifests::builtin();
        let catalogue = manifests.catalogue().unwrap();
        for major in catalogue.majors() {
            let (name, before) = manifests.of(major.major).unwrap();
            let version = Version::release(major.major, 99);
            let refresh = refresh(&manifests, &listing(&format!("{version}#{A}"))).unwrap();
            assert_eq!(refresh.changed, [name]);
            let (_, text) = refresh.manifests.of(major.major).unwrap();
            let (tag, archive) = (versions::tag(version), listing::archive(version));
            let entry = format!(
                "\n[[release]]\nversion = \"{version}\"\ntag = \"{tag}\"\narchive = \"{archive}\"\nsha256 = \"{A}\"\n"
            );
            assert_eq!(text.replace(&entry, ""), before);
            let rest = text.split_once(&entry).unwrap().1;
            assert!(!rest.contains("[[release]]"), "{name}");
            assert_eq!(rest.matches("[[change]]").count(), major.changes.len(), "{name}");
        }
    }

    #[test]
    fn another_hash_than_the_catalogues_is_an_error_with_both() {
        let (before, _) = before_and_after();
        let manifests = Manifests::of_texts(&[("18.toml", &before)]);
        let message = refresh(&manifests, &listing(&format!("18.4#{A} 18.7"))).unwrap_err().to_string();
        for part in ["the archive of 18.4", A, "(the place of 18.4)", B, "(mine/18.toml)", "nothing was changed"] {
            assert!(message.contains(part), "{part}: {message}");
        }
        // A date that makes no sense is found by the catalogue's own rules.
        let message = refresh(&manifests, &listing("18.5@2026-02-02 18.6@2026-01-01")).unwrap_err().to_string();
        assert_eq!(message, "mine/18.toml: 18.6 is dated 2026-01-01, before the release listed above it");
    }

    #[test]
    fn a_form_that_takes_no_table_is_refused() {
        let text =
            "major = '18'\nrelease = [{ version = '18.0', tag = 'REL_18_0', archive = 'postgresql-18.0.tar.bz2' }]";
        let manifests = Manifests::of_texts(&[("18.toml", text)]);
        assert!(refresh(&manifests, &listing("18.1")).is_err());
        assert!(refresh(&manifests, &listing("18.0")).unwrap().additions.is_empty());
    }

    #[test]
    fn what_is_left_to_do_is_said() {
        let notes = |listing: &Listing| refresh(&Manifests::builtin(), listing).unwrap().notes;
        let versions = |text: &str| {
            let additions = refresh(&Manifests::builtin(), &listing(text)).unwrap().additions;
            additions.iter().map(|addition| addition.version.to_string()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(versions("18.7 19beta4 19rc2 18beta9 17rc9 20beta1 8.4.22"), "18.7 19beta4 19rc2");
        assert_eq!(
            notes(&listing("8.4.22 9.6.24 20beta1 20.0 20.1 21.0")),
            [
                "20 is not in the catalogue; add versions/20.toml: see CONTRIBUTING.md",
                "21 is not in the catalogue; add versions/21.toml: see CONTRIBUTING.md",
            ]
        );
        assert_eq!(
            notes(&listing("18.6@2026-08-12")),
            ["18.6 is dated 2026-08-13 in the catalogue and 2026-08-12 in the listing; left as it is"]
        );
        assert!(notes(&listing("19.0"))[0].starts_with("19 has its first release: fill in first_release"));
        let latest_only = Listing { complete: false, ..listing("18.9 17.13") };
        assert_eq!(notes(&latest_only), ["this listing names the latest minor only; 18.7, 18.8 may be missing"]);
        assert!(notes(&listing("18.9")).is_empty());
    }
}
