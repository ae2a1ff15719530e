//! Puts a finished site where people read it: into a directory, onto another machine, onto a branch.
//!
//! Files that regtrack did not write stay as they are, and a place that holds nothing but such files is refused. A guard
//! refuses to put a worse site in place of a better one.

mod directory;
mod git;
mod rsync;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::{Stamp, output};
use crate::process::CommandError;

/// Share of the last site's cells that may be missing in the next.
const MAY_VANISH: f64 = 0.1;

/// Where a site is published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    /// A directory of this machine.
    Directory(PathBuf),
    /// A place of rsync: `host:path`.
    Rsync(String),
    /// A branch of a git repository.
    Git {
        /// The repository.
        repository: PathBuf,
        /// The branch, which is made if there is none.
        branch: String,
    },
}

impl FromStr for Destination {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.split_once(':') {
            Some(("rsync", place)) => Self::Rsync(place.to_owned()),
            Some(("git", place)) => {
                let (repository, branch) = place.rsplit_once('#').unwrap_or((".", place));
                Self::Git { repository: repository.into(), branch: branch.to_owned() }
            }
            _ => Self::Directory(text.into()),
        })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => path.display().fmt(f),
            Self::Rsync(place) => write!(f, "rsync:{place}"),
            Self::Git { repository, branch } => write!(f, "git:{}#{branch}", repository.display()),
        }
    }
}

/// Why a site was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// What was to be published is no site.
    #[error("there is no site of regtrack in '{}': write one first, with `regtrack report --site`", path.display())]
    NoSite {
        /// The directory.
        path: PathBuf,
    },
    /// Source and destination are one.
    #[error("'{}' is the site itself: name another directory to publish it in", path.display())]
    Itself {
        /// The directory.
        path: PathBuf,
    },
    /// Somebody else's place.
    #[error(
        "'{place}' holds '{file}' and no site of regtrack; it was left as it is: publish to an empty place, or to one \
         below it"
    )]
    Foreign {
        /// The destination.
        place: String,
        /// A file there.
        file: String,
    },
    /// Somebody else's file in the way of one of the site's.
    #[error("'{file}' in '{place}' was not written by regtrack, and the site has such a file too: move it away first")]
    Collision {
        /// The destination.
        place: String,
        /// The file.
        file: String,
    },
    /// Too much is gone.
    #[error(
        "{missing} of the {of} cells that '{place}' shows are not in the new site, so it was not published: find out why, \
         or use --publish-anyway"
    )]
    Vanished {
        /// The destination.
        place: String,
        /// Cells that would vanish.
        missing: usize,
        /// Cells that are there.
        of: usize,
    },
    /// Older data than what is there.
    #[error(
        "'{place}' has data of {there} and the new site only of {here}, so it was not published: find out why, or use \
         --publish-anyway"
    )]
    Older {
        /// The destination.
        place: String,
        /// Newest data there.
        there: String,
        /// Newest data here.
        here: String,
    },
    /// A branch that somebody works on.
    #[error(
        "the branch '{branch}' is checked out in '{}', and publishing would change it under whoever works there: name a \
         branch for the site only, such as pages", repository.display()
    )]
    CheckedOut {
        /// The branch.
        branch: String,
        /// Where.
        repository: PathBuf,
    },
    /// A name that git does not take for a branch.
    #[error("'{branch}' cannot be the name of a branch")]
    BranchName {
        /// The name.
        branch: String,
    },
    /// A file that describes a site and that cannot be understood.
    #[error("'{file}' in '{place}' is not what regtrack writes there")]
    Stamp {
        /// The destination.
        place: String,
        /// The file.
        file: &'static str,
        /// What is wrong.
        #[source]
        source: serde_json::Error,
    },
    /// git or rsync failed.
    #[error("could not {doing} '{place}'")]
    Command {
        /// What was being done.
        doing: &'static str,
        /// The destination.
        place: String,
        /// The cause.
        #[source]
        source: Box<CommandError>,
    },
    /// The file system refused.
    #[error("could not {doing} '{}'", path.display())]
    Io {
        /// What was being done.
        doing: &'static str,
        /// To what.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

fn io(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> PublishError {
    let path = path.to_owned();
    move |source| PublishError::Io { doing, path, source }
}

/// A finished site.
#[derive(Debug)]
struct Finished<'a> {
    directory: &'a Path,
    /// Its files, the marker included.
    files: BTreeSet<String>,
    stamp: Stamp,
}

impl<'a> Finished<'a> {
    fn read(directory: &'a Path) -> Result<Self, PublishError> {
        let no_site = || PublishError::NoSite { path: directory.to_owned() };
        let marker = std::fs::read_to_string(directory.join(output::MARKER)).map_err(|_| no_site())?;
        let stamp = std::fs::read_to_string(directory.join(Stamp::FILE)).map_err(|_| no_site())?;
        let stamp = parse_stamp(&stamp, &directory.display().to_string())?;
        let files = output::listed(&marker).map(str::to_owned).chain([output::MARKER.to_owned()]).collect();
        Ok(Self { directory, files, stamp })
    }
}

fn parse_stamp(text: &str, place: &str) -> Result<Stamp, PublishError> {
    let error = |source| PublishError::Stamp { place: place.to_owned(), file: Stamp::FILE, source };
    serde_json::from_str(text).map_err(error)
}

/// What a destination holds.
#[derive(Debug, Default)]
struct Present {
    /// Files of the site that was published there last; none for a place that is empty.
    ours: BTreeSet<String>,
    /// Files that others put there, as far as they were looked for.
    foreign: BTreeSet<String>,
    /// What the last site said of itself. Sites of early versions say nothing.
    stamp: Option<Stamp>,
}

impl Present {
    /// From the marker and the stamp, where there are such files, and what else is there.
    fn new(
        place: &str,
        marker: Option<&str>,
        stamp: Option<&str>,
        all: BTreeSet<String>,
    ) -> Result<Self, PublishError> {
        let stamp = stamp.map(|text| parse_stamp(text, place)).transpose()?;
        let Some(marker) = marker else {
            return match all.into_iter().next() {
                Some(file) => Err(PublishError::Foreign { place: place.to_owned(), file }),
                None => Ok(Self::default()),
            };
        };
        let ours: BTreeSet<String> =
            output::listed(marker).map(str::to_owned).chain([output::MARKER.to_owned()]).collect();
        let foreign = all.difference(&ours).cloned().collect();
        Ok(Self { ours, foreign, stamp })
    }

    /// Files of the last site that the next does not have.
    fn obsolete(&self, next: &Finished<'_>) -> Vec<String> {
        self.ours.difference(&next.files).cloned().collect()
    }
}

/// How a publishing ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// The site is there.
    Done,
    /// It is there as a commit.
    Commit(String),
    /// The same site was there already.
    Unchanged,
}

/// Whether a destination can be published to, as far as that is known beforehand: fails for what [`publish`] would
/// refuse.
pub fn check(to: &Destination) -> Result<(), PublishError> {
    present(to).map(drop)
}

/// Publishes the site in a directory. With `anyway`, also one that the guard would refuse.
pub fn publish(site: &Path, to: &Destination, anyway: bool) -> Result<Published, PublishError> {
    let next = Finished::read(site)?;
    let present = present(to)?;
    let place = to.to_string();
    if let Some(file) = next.files.intersection(&present.foreign).next() {
        return Err(PublishError::Collision { place, file: file.clone() });
    }
    if let Some(last) = present.stamp.as_ref().filter(|_| !anyway) {
        guard(last, &next.stamp, place)?;
    }
    match to {
        Destination::Directory(path) => directory::publish(&next, path, &present),
        Destination::Rsync(place) => rsync::publish(&next, place, &present),
        Destination::Git { repository, branch } => git::publish(&next, repository, branch, &present),
    }
}

fn present(at: &Destination) -> Result<Present, PublishError> {
    match at {
        Destination::Directory(path) => directory::present(path),
        Destination::Rsync(place) => rsync::present(place),
        Destination::Git { repository, branch } => git::present(repository, branch),
    }
}

/// Refuses to replace a site by one that lacks much of it or is older.
fn guard(last: &Stamp, next: &Stamp, place: String) -> Result<(), PublishError> {
    let (missing, of) = (last.missing_in(next), last.count());
    if missing as f64 > MAY_VANISH * of as f64 {
        return Err(PublishError::Vanished { place, missing, of });
    }
    if next.newest < last.newest {
        let (there, here) = (last.newest.to_string(), next.newest.to_string());
        return Err(PublishError::Older { place, there, here });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    pub(super) fn stamp(second: i64, cells: &[(&str, usize)]) -> Stamp {
        Stamp {
            format: 1,
            regtrack: "0.1.0".to_owned(),
            newest: jiff::Timestamp::from_second(second).unwrap(),
            cells: cells.iter().map(|(target, count)| ((*target).to_owned(), *count)).collect(),
        }
    }

    /// A site of these files, with a stamp.
    pub(super) fn site(files: &[(&str, &str)], stamp: &Stamp) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        let file = |path: &str, bytes: Vec<u8>| output::SiteFile { path: path.to_owned(), bytes };
        let mut all: Vec<_> = files.iter().map(|(path, text)| file(path, text.as_bytes().to_vec())).collect();
        all.push(file(Stamp::FILE, serde_json::to_vec(stamp).unwrap()));
        output::replace(&dir.path().join("site"), &all).unwrap();
        dir
    }

    pub(super) fn put(site: &TempDir, to: &Destination) -> Result<Published, PublishError> {
        publish(&site.path().join("site"), to, false)
    }

    #[test]
    fn destinations_are_told_apart() {
        for (text, destination) in [
            ("/srv/www", Destination::Directory("/srv/www".into())),
            ("rsync:web:/srv/www", Destination::Rsync("web:/srv/www".to_owned())),
            ("git:pages", Destination::Git { repository: ".".into(), branch: "pages".to_owned() }),
            (
                "git:../r.git#gh-pages",
                Destination::Git { repository: "../r.git".into(), branch: "gh-pages".to_owned() },
            ),
        ] {
            assert_eq!(text.parse::<Destination>().unwrap(), destination);
        }
    }

    #[test]
    fn the_guard_refuses_what_lacks_cells_or_is_older() {
        let last = stamp(100, &[("16", 40), ("17", 60)]);
        let says = |next: &Stamp| guard(&last, next, "there".to_owned()).map_err(|error| error.to_string());
        assert_eq!(says(&last), Ok(()));
        assert_eq!(says(&stamp(101, &[("16", 30), ("17", 60), ("18", 60)])), Ok(()), "exactly a tenth");
        let message = says(&stamp(101, &[("16", 29), ("17", 60), ("18", 60)])).unwrap_err();
        assert!(message.starts_with("11 of the 100 cells that 'there' shows"), "{message}");
        let message = says(&stamp(99, &[("16", 40), ("17", 60)])).unwrap_err();
        assert!(message.contains("--publish-anyway") && message.contains("1970-01-01T00:01:39Z"), "{message}");
    }

    #[test]
    fn what_is_no_site_is_not_published() {
        let (dir, out) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(dir.path().join("index.html"), "x").unwrap();
        let to = Destination::Directory(out.path().join("www"));
        let error = publish(dir.path(), &to, true).unwrap_err();
        assert!(matches!(error, PublishError::NoSite { .. }), "{error}");
        assert!(!out.path().join("www").exists());
    }
}
