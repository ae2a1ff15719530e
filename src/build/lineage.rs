//! The commits between two others.

use std::path::Path;

use super::error::BuildError;
use super::git;
use super::relevance::{self, Scope};
use crate::domain::{Commit, Lineage, Release};

/// Separates the fields of a commit.
const FIELD: char = '\u{1f}';
/// Begins a commit.
const RECORD: char = '\u{1e}';

/// The full hash of a commit, tag or branch.
pub fn resolve(repository: &Path, revision: &str) -> Result<String, BuildError> {
    git::resolve(repository, revision)
}

/// The commit of a release. With `floating` the newest of the same major that the repository has will do.
pub fn release_revision(repository: &Path, release: &Release, floating: bool) -> Result<String, BuildError> {
    git::release_commit(repository, release, floating)
}

/// Copies the repository at a URL to a directory, or brings the copy there up to date. A copy that was not finished is
/// begun again under another name, so that what is in the directory is always whole.
pub fn mirror(url: &str, directory: &Path) -> Result<(), BuildError> {
    if directory.exists() {
        return git::update(directory);
    }
    git::clone(url, directory)
}

/// Refuses what is checked out as an end while files are edited: people would take it for what they see in them.
pub fn check_work_tree(repository: &Path, revision: &str) -> Result<(), BuildError> {
    const SHOWN: usize = 3;
    let checked_out = |head: &str| matches!(revision.strip_prefix(head), Some(rest) if rest.is_empty());
    if !(checked_out("HEAD") || checked_out("@")) {
        return Ok(());
    }
    let mut files = git::edited(repository)?;
    if files.is_empty() {
        return Ok(());
    }
    files.truncate(SHOWN);
    Err(BuildError::Edited { repository: repository.to_owned(), files })
}

/// The way from one commit to another.
pub fn lineage(repository: &Path, from: &str, to: &str) -> Result<Lineage, BuildError> {
    let (from, to) = (git::resolve(repository, from)?, git::resolve(repository, to)?);
    let base = git::merge_base(repository, &from, &to)?;
    let fork = commits(repository, &["--max-count=1", &base])?.pop();
    let fork =
        fork.ok_or_else(|| BuildError::NoRevision { repository: repository.to_owned(), revision: base.clone() })?;
    let back = commits(repository, &[&from, &format!("^{base}")])?;
    let mut forth = commits(repository, &[&to, &format!("^{base}")])?;
    forth.reverse();
    Ok(Lineage { fork, back, forth })
}

/// The whole message of a commit.
pub fn message(repository: &Path, commit: &str) -> Result<String, BuildError> {
    git::log(repository, &["--max-count=1", "--format=%B", commit])
}

/// Commits, newest first, with whether they change what the server is made of. Only the option that names a compiler's
/// variant can make a file count that does not count here, so all that any variant could see is regarded as counting.
fn commits(repository: &Path, which: &[&str]) -> Result<Vec<Commit>, BuildError> {
    let format = format!("--format={RECORD}%H{FIELD}%an{FIELD}%cI{FIELD}%s{FIELD}");
    let mut arguments =
        vec!["--first-parent", "--diff-merges=first-parent", "--no-renames", "--name-only", "-z", &format];
    arguments.extend(which);
    let text = git::log(repository, &arguments)?;
    Ok(text.split(RECORD).filter_map(parse).collect())
}

fn parse(record: &str) -> Option<Commit> {
    let mut fields = record.splitn(5, FIELD);
    let mut next = || fields.next().map(str::to_owned);
    let (hash, author, date, subject) = (next()?, next()?, next()?, next()?);
    let scope = Scope { jit: true, meson: true };
    let mut paths = fields.next()?.split(['\0', '\n']).filter(|path| !path.is_empty());
    let counts = paths.any(|path| relevance::counts(path, scope));
    Some(Commit { hash, author, date, subject, counts })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::git::tests::sh;

    #[test]
    fn the_way_leads_back_to_the_fork_and_forth_from_there() {
        let home = tempfile::tempdir().unwrap();
        sh(
            home.path(),
            "git init -q -b master .
             commit() { mkdir -p $(dirname $2); echo $1 >$2; git add -A; git commit -qm \"$1\"; }
             commit fork src/backend/a.c; git checkout -qb REL_1_STABLE; commit back1 doc/x; commit back2 src/backend/b.c
             git tag REL_1; git checkout -q master; commit forth1 src/backend/a.c; git checkout -qb side; commit side1 src/backend/s.c
             git checkout -q master; commit forth2 doc/y; git merge -q --no-ff -m merge side; commit 'forth4: üé' doc/z",
        );
        let found = lineage(home.path(), "REL_1", "master").unwrap();
        let names = |commits: &[Commit]| {
            commits.iter().map(|one| format!("{} {}", one.subject, one.counts)).collect::<Vec<_>>()
        };
        assert_eq!(found.fork.subject, "fork");
        assert_eq!(names(&found.back), ["back2 true", "back1 false"]);
        assert_eq!(names(&found.forth), ["forth1 true", "forth2 false", "merge true", "forth4: üé false"]);
        let straight = lineage(home.path(), "REL_1~2", "REL_1").unwrap();
        assert_eq!((straight.back.len(), names(&straight.forth)), (0, vec!["back1 false".into(), "back2 true".into()]));
        sh(home.path(), "echo edited >>src/backend/a.c");
        let error = check_work_tree(home.path(), "HEAD").unwrap_err().to_string();
        assert!(error.contains("src/backend/a.c"), "{error}");
        check_work_tree(home.path(), "master").unwrap();
        assert!(message(home.path(), "master").unwrap().starts_with("forth4"));
        assert_eq!(found.fork.author, "t");
        assert_eq!(found.fork.day().len(), 10);
    }

    #[test]
    fn unrelated_commits_have_no_way() {
        let home = tempfile::tempdir().unwrap();
        sh(
            home.path(),
            "git init -q -b a .; echo 1 >f; git add f; git commit -qm 1; git checkout -q --orphan b; git commit -qm 2",
        );
        let error = lineage(home.path(), "a", "b").unwrap_err().to_string();
        assert!(error.contains("have no common history"), "{error}");
    }
}
