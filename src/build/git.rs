//! Commits of a PostgreSQL repository.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::domain::{Major, Release, Version};
use crate::process::{self, CommandError, CommandErrorKind};

use super::error::BuildError;
use super::relevance::{self, Scope};

/// What PostgreSQL's own branches and tags are called: `REL_17_STABLE`, `REL_17_5`, `master`.
const UPSTREAM_REFS: [&str; 4] =
    ["--glob=refs/heads/REL*", "--glob=refs/remotes/*/REL*", "--glob=refs/*/maste[r]", "--tags=REL*"];

/// A search through all commit messages of a large repository on a slow disk.
const DEADLINE: Duration = Duration::from_secs(600);

/// A copy of a large repository over a slow line.
const COPY_DEADLINE: Duration = Duration::from_secs(4 * 3600);

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
        let newest = newest_tag(repository, release)?.max(newest_stamp(repository, release)?);
        newest.map(|(_, commit)| commit)
    } else {
        stamp(repository, release)?
    };
    found.ok_or_else(|| BuildError::NoReleaseCommit {
        repository: repository.to_owned(),
        tag: release.tag.clone(),
        version: release.version,
    })
}

/// The commit that stamped exactly this version.
fn stamp(repository: &Path, release: &Release) -> Result<Option<String>, BuildError> {
    let stamps = stamps(repository, release, &release.version.to_string())?;
    Ok(stamps.into_iter().next().map(|(_, commit)| commit))
}

/// The newest version of a release's major that a commit stamped, with the commit.
fn newest_stamp(repository: &Path, release: &Release) -> Result<Option<(Version, String)>, BuildError> {
    let stamps = stamps(repository, release, &format!("{}(.|alpha|beta|rc)[0-9]+", release.version.major))?;
    Ok(stamps.into_iter().filter_map(|(version, commit)| Some((version.parse().ok()?, commit))).max())
}

/// Versions and commits of the subjects `Stamp <version>.`, newest commit first. The dots in `pattern`
/// are taken literally.
fn stamps(repository: &Path, release: &Release, pattern: &str) -> Result<Vec<(String, String)>, BuildError> {
    let pattern = format!("^Stamp {}\\.$", pattern.replace('.', "\\."));
    let search = |refs: &[&str]| {
        let mut arguments = vec!["log", "--extended-regexp", "--grep", &pattern, "--format=%H %s"];
        arguments.extend(refs);
        git(repository, &arguments).map_err(failed(repository, "search for a release"))
    };
    // The newest on the branch of the major is found at once. What is not there may be on another branch; and a
    // repository that also holds somebody's fork has that fork's merges of a release under other names.
    let series = release.tag.rsplit_once('_').map_or("REL", |(series, _)| series);
    let branch = ["heads", "remotes/*"].map(|place| format!("--glob=refs/{place}/{series}_STABL[E]"));
    let mut text = search(&["--max-count=1", &branch[0], &branch[1]])?;
    for refs in [&UPSTREAM_REFS[..], &["--all"]] {
        if text.is_empty() {
            text = search(refs)?;
        }
    }
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

/// Where the histories of two commits part: the newest commit that both have.
pub(super) fn merge_base(repository: &Path, a: &str, b: &str) -> Result<String, BuildError> {
    match git(repository, &["merge-base", a, b]) {
        Ok(hash) => Ok(hash.trim().to_owned()),
        Err(error) if matches!(error.kind(), CommandErrorKind::Status(status) if status.code() == Some(1)) => {
            Err(BuildError::Unrelated { repository: repository.to_owned(), commits: [a.to_owned(), b.to_owned()] })
        }
        Err(error) => Err(failed(repository, &format!("look where {a} and {b} part"))(error)),
    }
}

/// What `git log` says with these arguments.
pub(super) fn log(repository: &Path, arguments: &[&str]) -> Result<String, BuildError> {
    let arguments: Vec<&str> = ["log"].into_iter().chain(arguments.iter().copied()).collect();
    git(repository, &arguments).map_err(failed(repository, "read the history"))
}

/// A copy of a repository with all branches and tags and without a work tree.
pub(super) fn clone(url: &str, directory: &Path) -> Result<(), BuildError> {
    let parent = directory.parent().unwrap_or(Path::new("."));
    let made = |error: std::io::Error| super::error::io("make", directory)(error);
    std::fs::create_dir_all(parent).map_err(made)?;
    let begun = tempfile::Builder::new().prefix("clone-").tempdir_in(parent).map_err(made)?;
    let mut command = elsewhere();
    command.args(["clone", "--quiet", "--mirror", "--", url]).arg(begun.path());
    process::run(&mut command, COPY_DEADLINE, None).map_err(failed(directory, &format!("copy {url} to")))?;
    std::fs::rename(begun.keep(), directory).map_err(made)
}

/// Brings a copy up to date.
pub(super) fn update(directory: &Path) -> Result<(), BuildError> {
    let mut command = command(directory);
    command.args(["remote", "update"]);
    process::run(&mut command, COPY_DEADLINE, None).map(drop).map_err(failed(directory, "bring up to date"))
}

/// Files of the work tree that differ from what is checked out; nothing in a repository without a work tree.
pub(super) fn edited(repository: &Path) -> Result<Vec<String>, BuildError> {
    let failed = |error| failed(repository, "look for edited files")(error);
    if git(repository, &["rev-parse", "--is-inside-work-tree"]).map_err(failed)?.trim() != "true" {
        return Ok(Vec::new());
    }
    let text = git(repository, &["status", "--porcelain=v1", "--untracked-files=no", "-z"]).map_err(failed)?;
    Ok(text.split_terminator('\0').filter_map(|entry| entry.get(3..)).map(str::to_owned).collect())
}

/// The content of one file of a commit.
pub(super) fn file(repository: &Path, commit: &str, path: &str) -> Result<String, BuildError> {
    git(repository, &["show", &format!("{commit}:{path}")])
        .map_err(failed(repository, &format!("read {path} of {commit}")))
}

/// SHA-256 over those files of a commit that can change the server: equal for commits that differ elsewhere only.
pub(super) fn content_hash(repository: &Path, commit: &str, scope: Scope) -> Result<String, BuildError> {
    let list = git(repository, &["ls-tree", "-r", "-z", "--full-tree", commit]);
    let list = list.map_err(failed(repository, &format!("list the files of {commit}")))?;
    let mut hash = Sha256::new();
    for entry in list.split_terminator('\0') {
        // Mode, type and hash of the content; then the path.
        let path = entry.split_once('\t').map_or(entry, |(_, path)| path);
        if relevance::counts(path, scope) {
            hash.update(entry);
            hash.update([0]);
        }
    }
    Ok(format!("{:x}", hash.finalize()))
}

/// Paths of the files that differ between two commits.
pub(super) fn changed(repository: &Path, from: &str, to: &str) -> Result<Vec<String>, BuildError> {
    let arguments = ["diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", from, to];
    let list = git(repository, &arguments).map_err(failed(repository, &format!("compare {from} with {to}")))?;
    Ok(list.split_terminator('\0').map(str::to_owned).collect())
}

/// The directory where git keeps a repository's data: names the repository whatever path leads to it.
pub(super) fn data_directory(repository: &Path) -> Result<PathBuf, BuildError> {
    let path = git(repository, &["rev-parse", "--absolute-git-dir"]);
    Ok(PathBuf::from(path.map_err(failed(repository, "look for its data"))?.trim_end_matches('\n')))
}

/// A directory outside of the repository that holds the files of one commit and what was made of them. It has an
/// index of its own, so the repository's index, its work tree and its `HEAD` are left alone.
#[derive(Debug)]
pub(super) struct Checkout<'a> {
    pub(super) repository: &'a Path,
    pub(super) directory: &'a Path,
    pub(super) index: &'a Path,
}

impl Checkout<'_> {
    /// Puts the files of a commit into the directory. Writes only those that differ, so that make sees by their times
    /// which these are; edits of such files are undone, other files stay.
    pub(super) fn switch(&self, commit: &str) -> Result<(), BuildError> {
        self.git(&["read-tree", "--reset", "-u", commit]).map(drop)
    }

    /// The files beside a file of the commit that are not part of the commit: what was made there.
    pub(super) fn made_beside(&self, path: &str) -> Result<Vec<PathBuf>, BuildError> {
        let parent = path.rsplit_once('/').map_or(String::new(), |(parent, _)| format!("{parent}/"));
        let list = self.git(&["ls-files", "--others", "-z", "--", &format!(":(glob){parent}*")])?;
        Ok(list.split_terminator('\0').map(|path| self.directory.join(path)).collect())
    }

    fn git(&self, arguments: &[&str]) -> Result<String, BuildError> {
        let mut command = elsewhere();
        // What the person set for their own work must not shape the files here.
        for setting in ["core.bare=false", "core.sparseCheckout=false", "core.autocrlf=false", "core.fsmonitor=false"] {
            command.args(["-c", setting]);
        }
        let data = data_directory(self.repository)?;
        command.arg("--git-dir").arg(data).arg("--work-tree").arg(self.directory);
        command.env("GIT_INDEX_FILE", self.index).current_dir(self.directory).args(arguments);
        process::run(&mut command, DEADLINE, None)
            .map_err(failed(self.repository, &format!("check out in {}", self.directory.display())))
    }
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
    let mut command = elsewhere();
    command.arg("-C").arg(repository);
    command
}

/// git without what the caller's environment says about repositories.
fn elsewhere() -> Command {
    let mut command = Command::new("git");
    command.env_remove("GIT_DIR").env_remove("GIT_WORK_TREE").env_remove("GIT_INDEX_FILE");
    command
}

fn failed(repository: &Path, doing: &str) -> impl FnOnce(CommandError) -> BuildError {
    let (repository, doing) = (repository.to_owned(), doing.to_owned());
    move |source| BuildError::Git { doing, repository, source: source.into() }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in crate::build) fn sh(directory: &Path, script: &str) {
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
             git checkout -qb REL_17_STABLE && echo 2 >f && git commit -qam 'Stamp 17.6.'
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
        assert_eq!(by_stamp, resolve(home.path(), "REL_17_STABLE~1").unwrap());
        let error = release_commit(home.path(), &release("17.7", "REL_17_7"), false).unwrap_err().to_string();
        let newest = release_commit(home.path(), &release("17.7", "REL_17_7"), true).unwrap();
        assert_eq!(newest, by_stamp);
        assert!(error.contains("REL_17_7") && error.contains("Stamp 17.7."), "{error}");
    }

    #[test]
    fn a_forks_merge_of_a_release_is_not_the_release() {
        let home = tempfile::tempdir().unwrap();
        sh(
            home.path(),
            "git init -q -b REL_17_STABLE . && echo 1 >f && git add f && git commit -qm 'Stamp 17.6.'
             git checkout -q -b fork && echo 2 >f && git commit -qam 'Stamp 17.6.' && git tag fork_1",
        );
        let found = release_commit(home.path(), &release("17.6", "REL_17_6"), false).unwrap();
        assert_eq!(found, resolve(home.path(), "REL_17_STABLE").unwrap());
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

    fn written(directory: &Path) -> Vec<(String, String)> {
        let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<_> = paths.filter(|path| path.is_file()).collect();
        files.sort();
        let name = |path: &Path| path.file_name().unwrap().to_string_lossy().into_owned();
        files.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
    }

    #[test]
    fn a_checkout_changes_what_differs_and_leaves_what_was_made() {
        let home = tempfile::tempdir().unwrap();
        let (repo, directory) = (home.path().join("repo"), home.path().join("out"));
        std::fs::create_dir(&repo).unwrap();
        std::fs::create_dir(&directory).unwrap();
        sh(&repo, "git init -q -b m .; echo a >a; echo b >b; git add .; git commit -qm one");
        sh(&repo, "echo c >c; git rm -q b; echo A >a; git add .; git commit -qm two; git checkout -q HEAD~1");
        let index = home.path().join("index");
        let checkout = Checkout { repository: &repo, directory: &directory, index: &index };
        checkout.switch("m~1").unwrap();
        sh(&directory, "echo made >a.o; echo edited >a");
        checkout.switch("m").unwrap();
        let file = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(written(&directory), [file("a", "A\n"), file("a.o", "made\n"), file("c", "c\n")]);
        assert_eq!(checkout.made_beside("a").unwrap(), [directory.join("a.o")]);
        // The same commit again: an edit is undone.
        sh(&directory, "echo edited >a");
        checkout.switch("m").unwrap();
        assert_eq!(written(&directory)[0], file("a", "A\n"));
        assert_eq!(written(&repo), [file("a", "a\n"), file("b", "b\n")], "the repository's own files stay");
        assert_eq!(changed(&repo, "m~1", "m").unwrap(), ["a", "b", "c"]);
        assert_eq!(super::file(&repo, "m", "a").unwrap(), "A\n");
    }

    #[test]
    fn the_hash_follows_what_is_compiled() {
        let home = tempfile::tempdir().unwrap();
        let commit = |script: &str| {
            sh(home.path(), &format!("{script}; git add -A; git commit -qm x"));
            content_hash(home.path(), "HEAD", Scope::default()).unwrap()
        };
        let first = commit("git init -q .; mkdir -p doc src/backend; echo 1 >src/backend/a.c; echo 1 >doc/a");
        assert_eq!(commit("echo 2 >doc/a; echo 1 >src/backend/README"), first);
        let second = commit("echo 2 >src/backend/a.c");
        assert_ne!(second, first);
        assert_ne!(commit("chmod +x src/backend/a.c"), second, "a mode counts too");
        assert_eq!(commit("chmod -x src/backend/a.c; git mv doc/a doc/b"), second);
    }
}
