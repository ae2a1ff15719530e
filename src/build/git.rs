//! Commits of a PostgreSQL repository.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::domain::{Major, Release, Version};
use crate::process::{self, CommandError, CommandErrorKind};

use super::error::BuildError;

/// A search through all commit messages of a large repository on a slow disk.
const DEADLINE: Duration = Duration::from_secs(600);

/// The full hash of a commit, tag or branch.
pub(super) fn resolve(repository: &Path, revision: &str) -> Result<String, BuildError> {
    commit(repository, revision)?
        .ok_or_else(|| BuildError::NoRevision { repository: repository.to_owned(), revision: revision.to_owned() })
}

/// The commit of a release: its tag, or in a clone without tags the commit that set the version, whose
/// subject has been `Stamp <version>.` in every branch. A floating request is content with the newest
/// release of the same major that the repository has.
pub(super) fn release_commit(repository: &Path, release: &Release, floating: bool) -> Result<String, BuildError> {
    if let Some(commit) = commit(repository, &format!("refs/tags/{}", release.tag))? {
        return Ok(commit);
    }
    let found = if floating {
        let newest = newest_tag(repository, release)?.max(newest_stamp(repository, release.version.major)?);
        newest.map(|(_, commit)| commit)
    } else {
        stamp(repository, release.version)?
    };
    found.ok_or_else(|| BuildError::NoReleaseCommit {
        repository: repository.to_owned(),
        tag: release.tag.clone(),
        version: release.version,
    })
}

/// The commit that stamped exactly this version.
fn stamp(repository: &Path, version: Version) -> Result<Option<String>, BuildError> {
    Ok(stamps(repository, &version.to_string())?.into_iter().next().map(|(_, commit)| commit))
}

/// The newest version of `major` that a commit stamped, with the commit.
fn newest_stamp(repository: &Path, major: Major) -> Result<Option<(Version, String)>, BuildError> {
    let stamps = stamps(repository, &format!("{major}(.|alpha|beta|rc)[0-9]+"))?;
    Ok(stamps.into_iter().filter_map(|(version, commit)| Some((version.parse().ok()?, commit))).max())
}

/// Versions and commits of the subjects `Stamp <version>.`, newest commit first. The dots in `pattern`
/// are taken literally.
fn stamps(repository: &Path, pattern: &str) -> Result<Vec<(String, String)>, BuildError> {
    let pattern = format!("^Stamp {}\\.$", pattern.replace('.', "\\."));
    let arguments = ["log", "--all", "--extended-regexp", "--grep", &pattern, "--format=%H %s"];
    let text = git(repository, &arguments).map_err(failed(repository, "search for a release"))?;
    let stamp = |line: &str| {
        let (commit, subject) = line.split_once(' ')?;
        Some((subject.strip_prefix("Stamp ")?.strip_suffix('.')?.to_owned(), commit.to_owned()))
    };
    Ok(text.lines().filter_map(stamp).collect())
}

/// The newest version of a release's major that has a tag, with the commit.
fn newest_tag(repository: &Path, release: &Release) -> Result<Option<(Version, String)>, BuildError> {
    let Some((series, _)) = release.tag.rsplit_once('_') else { return Ok(None) };
    let text = git(repository, &["tag", "--list", &format!("{series}_*")]);
    let text = text.map_err(failed(repository, "list tags"))?;
    let tagged = |tag: &str| Some((tagged_version(release.version.major, tag)?, tag.to_owned()));
    let Some((version, tag)) = text.lines().filter_map(tagged).max() else { return Ok(None) };
    Ok(commit(repository, &format!("refs/tags/{tag}"))?.map(|commit| (version, commit)))
}

/// The version in the last part of a tag: that of `REL_17_5` is 17.5, that of `REL_19_BETA3` is 19beta3.
fn tagged_version(major: Major, tag: &str) -> Option<Version> {
    let (_, last) = tag.rsplit_once('_')?;
    let joint = if last.starts_with(|first: char| first.is_ascii_digit()) { "." } else { "" };
    format!("{major}{joint}{}", last.to_ascii_lowercase()).parse().ok()
}

/// Writes the files of a commit as a tar archive.
pub(super) fn archive(repository: &Path, commit: &str, file: &Path) -> Result<(), BuildError> {
    let mut command = command(repository);
    command.args(["archive", "--format=tar", "--output"]).arg(file).arg(commit);
    process::run(&mut command, DEADLINE, None).map(drop).map_err(failed(repository, &format!("export {commit}")))
}

/// `None` when the repository is fine and does not have the revision.
fn commit(repository: &Path, revision: &str) -> Result<Option<String>, BuildError> {
    let object = format!("{revision}^{{commit}}");
    match git(repository, &["rev-parse", "--verify", "--quiet", "--end-of-options", &object]) {
        Ok(hash) => Ok(Some(hash.trim().to_owned())),
        // Quiet and 1: not there. Anything else is told on standard error and exits with 128.
        Err(error) if matches!(error.kind(), CommandErrorKind::Status(status) if status.code() == Some(1)) => Ok(None),
        Err(error) => Err(failed(repository, &format!("look for {revision}"))(error)),
    }
}

fn git(repository: &Path, arguments: &[&str]) -> Result<String, CommandError> {
    process::run(command(repository).args(arguments), DEADLINE, None)
}

/// git for this repository, whatever repository the caller itself may be in.
fn command(repository: &Path) -> Command {
    let mut command = Command::new("git");
    command.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").env_remove("GIT_INDEX_FILE").arg("-C").arg(repository);
    command
}

fn failed(repository: &Path, doing: &str) -> impl FnOnce(CommandError) -> BuildError {
    let (repository, doing) = (repository.to_owned(), doing.to_owned());
    move |source| BuildError::Git { doing, repository, source: source.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(directory: &Path, script: &str) {
        let mut command = Command::new("sh");
        command.current_dir(directory).args(["-ec", script]).env_remove("GIT_DIR").env_remove("GIT_INDEX_FILE");
        for name in ["GIT_AUTHOR", "GIT_COMMITTER"] {
            command.env(format!("{name}_NAME"), "t").env(format!("{name}_EMAIL"), "t@example.org");
        }
        process::run(&mut command, Duration::from_secs(60), None).unwrap();
    }

    fn release(version: &str, tag: &str) -> Release {
        let version = version.parse().unwrap();
        Release { version, date: None, tag: tag.into(), archive: String::new(), sha256: None, prebuilt: None }
    }

    /// Two releases, one tagged and one only stamped on a branch.
    fn repository(directory: &Path) {
        sh(
            directory,
            "git init -q -b master . && echo 1 >f && git add f && git commit -qm 'Stamp 17.5.' && git tag REL_17_5
             git checkout -qb stable && echo 2 >f && git commit -qam 'Stamp 17.6.'
             echo 3 >f && git commit -qam 'Not Stamp 17x6. at all' && git checkout -q master",
        );
    }

    #[test]
    fn releases_are_found_by_tag_and_by_their_stamp() {
        let home = tempfile::tempdir().unwrap();
        repository(home.path());
        let by_tag = release_commit(home.path(), &release("17.5", "REL_17_5"), false).unwrap();
        assert_eq!(by_tag, resolve(home.path(), "master").unwrap());
        let by_stamp = release_commit(home.path(), &release("17.6", "REL_17_6"), false).unwrap();
        assert_eq!(by_stamp, resolve(home.path(), "stable~1").unwrap());
        let error = release_commit(home.path(), &release("17.7", "REL_17_7"), false).unwrap_err().to_string();
        let newest = release_commit(home.path(), &release("17.7", "REL_17_7"), true).unwrap();
        assert_eq!(newest, by_stamp);
        assert!(error.contains("REL_17_7") && error.contains("Stamp 17.7."), "{error}");
    }

    #[test]
    fn the_newest_of_a_major_in_beta_is_its_last_pre_release() {
        let home = tempfile::tempdir().unwrap();
        sh(
            home.path(),
            "git init -q -b master . && echo 1 >f && git add f && git commit -qm 'Stamp 19beta1.' && git tag REL_19_BETA1
             echo 2 >f && git commit -qam 'Stamp 19beta2.' && echo 3 >f && git commit -qam 'Stamp 18.3.'",
        );
        let newest = release_commit(home.path(), &release("19rc1", "REL_19_RC1"), true).unwrap();
        assert_eq!(newest, resolve(home.path(), "master~1").unwrap());
        for (tag, version) in [("REL_19_BETA3", Some("19beta3")), ("REL_19_2", Some("19.2")), ("REL_19_STABLE", None)] {
            let found = tagged_version(Major::new(19, 0), tag).map(|version| version.to_string());
            assert_eq!(found.as_deref(), version, "{tag}");
        }
    }

    #[test]
    fn unknown_revisions_and_broken_repositories_are_told_apart() {
        let home = tempfile::tempdir().unwrap();
        assert!(matches!(resolve(home.path(), "master").unwrap_err(), BuildError::Git { .. }));
        repository(home.path());
        for revision in ["nonsense", "--all", "4b825dc642cb6eb9a060e54bf8d69288fbee4904"] {
            assert!(matches!(resolve(home.path(), revision).unwrap_err(), BuildError::NoRevision { .. }), "{revision}");
        }
    }

    #[test]
    fn a_commit_is_exported_as_it_was() {
        let home = tempfile::tempdir().unwrap();
        repository(home.path());
        let file = home.path().join("out.tar");
        archive(home.path(), &resolve(home.path(), "stable~1").unwrap(), &file).unwrap();
        let out = home.path().join("out");
        std::fs::create_dir(&out).unwrap();
        super::super::unpack::unpack(&file, &out).unwrap();
        assert_eq!(std::fs::read_to_string(out.join("f")).unwrap(), "2\n");
    }
}
