//! A branch of a git repository. Nothing is pushed, and no work tree, index or other branch is touched.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Finished, Present, PublishError, Published, Stamp, io};
use crate::process;
use crate::site::output;

/// One call of git; a site has some hundred small files.
const DEADLINE: Duration = Duration::from_secs(300);

/// A branch, and where it is.
struct Branch<'a> {
    repository: &'a Path,
    name: &'a str,
}

impl Branch<'_> {
    fn place(&self) -> String {
        format!("git:{}#{}", self.repository.display(), self.name)
    }

    fn reference(&self) -> String {
        format!("refs/heads/{}", self.name)
    }

    /// Runs git in the repository.
    fn git(&self, doing: &'static str, arguments: &[&str]) -> Result<String, PublishError> {
        let mut command = Command::new("git");
        command.arg("-C").arg(self.repository).args(arguments);
        self.run(doing, &mut command)
    }

    fn run(&self, doing: &'static str, command: &mut Command) -> Result<String, PublishError> {
        let result = process::run(command, DEADLINE, None);
        result.map_err(|source| PublishError::Command { doing, place: self.place(), source: Box::new(source) })
    }

    /// The branch's commit; `None` where there is no such branch.
    fn commit(&self) -> Result<Option<String>, PublishError> {
        let format = "--format=%(objectname)";
        let text = self.git("look for the branch", &["for-each-ref", format, &self.reference()])?;
        Ok(text.split_whitespace().next().map(str::to_owned))
    }

    /// The entries of a commit by path, as `update-index --cacheinfo` takes them: mode and object.
    fn entries(&self, commit: &str) -> Result<BTreeMap<String, String>, PublishError> {
        let text = self.git("list the files of", &["ls-tree", "-r", "-z", "--full-tree", commit])?;
        let entry = |line: &str| {
            let (facts, path) = line.split_once('\t')?;
            let mut facts = facts.split_whitespace();
            let (mode, _, object) = (facts.next()?, facts.next()?, facts.next()?);
            Some((path.to_owned(), format!("{mode},{object}")))
        };
        Ok(text.split_terminator('\0').filter_map(entry).collect())
    }

    fn check_name(&self) -> Result<(), PublishError> {
        let is_name = self.git("check the name of", &["check-ref-format", &self.reference()]).is_ok();
        let is_plain = !self.name.starts_with('-') && !self.name.is_empty();
        if is_name && is_plain { Ok(()) } else { Err(PublishError::BranchName { branch: self.name.to_owned() }) }
    }

    /// Somebody who has the branch checked out would find all files changed.
    fn check_nobody_is_there(&self) -> Result<(), PublishError> {
        let list = self.git("list the work trees of", &["worktree", "list", "--porcelain"])?;
        let wanted = format!("branch {}", self.reference());
        for work_tree in list.split("\n\n").filter(|work_tree| work_tree.lines().any(|line| line == wanted)) {
            let is_bare = work_tree.lines().any(|line| line == "bare");
            let repository = work_tree.lines().find_map(|line| line.strip_prefix("worktree ")).unwrap_or_default();
            if !is_bare {
                return Err(PublishError::CheckedOut { branch: self.name.to_owned(), repository: repository.into() });
            }
        }
        Ok(())
    }
}

pub(super) fn present(repository: &Path, branch: &str) -> Result<Present, PublishError> {
    let branch = Branch { repository, name: branch };
    branch.git("find the repository of", &["rev-parse", "--git-dir"])?;
    branch.check_name()?;
    branch.check_nobody_is_there()?;
    let Some(commit) = branch.commit()? else { return Ok(Present::default()) };
    let all: BTreeSet<String> = branch.entries(&commit)?.into_keys().collect();
    let read = |file: &str| {
        let content = || branch.git("read a file of", &["cat-file", "blob", &format!("{commit}:{file}")]);
        all.contains(file).then(content).transpose()
    };
    let (marker, stamp) = (read(output::MARKER)?, read(Stamp::FILE)?);
    Present::new(&branch.place(), marker.as_deref(), stamp.as_deref(), all)
}

/// Makes a commit on the branch that has the site's files, and those of others that were there.
pub(super) fn publish(
    next: &Finished<'_>,
    repository: &Path,
    branch: &str,
    present: &Present,
) -> Result<Published, PublishError> {
    let branch = Branch { repository, name: branch };
    let parent = branch.commit()?;
    let tree = tree(&branch, next, present, parent.as_deref())?;
    if let Some(parent) = &parent
        && branch.git("read", &["rev-parse", &format!("{parent}^{{tree}}")])?.trim() == tree
    {
        return Ok(Published::Unchanged);
    }
    let message = format!("Site with data of {}", next.stamp.newest.strftime("%Y-%m-%d %H:%M UTC"));
    let mut arguments = identity(&branch);
    arguments.extend(["commit-tree", &tree, "-m", &message].map(str::to_owned));
    if let Some(parent) = &parent {
        arguments.extend(["-p".to_owned(), parent.clone()]);
    }
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let commit = branch.git("commit to", &arguments)?.trim().to_owned();
    // Fails if somebody else moved the branch meanwhile; zeros mean that there was none.
    let before = parent.unwrap_or_else(|| "0".repeat(commit.len()));
    branch
        .git("move the branch of", &["update-ref", "-m", "regtrack publish", &branch.reference(), &commit, &before])?;
    Ok(Published::Commit(commit))
}

/// The site's files and the files of others as a tree of git, made with an index of its own.
fn tree(
    branch: &Branch<'_>,
    next: &Finished<'_>,
    present: &Present,
    parent: Option<&str>,
) -> Result<String, PublishError> {
    let work = tempfile::tempdir().map_err(io("make", &std::env::temp_dir()))?;
    let index = work.path().join("index");
    let directory = branch.git("find the data of", &["rev-parse", "--absolute-git-dir"])?;
    let directory = PathBuf::from(directory.trim_end_matches('\n'));
    let site = next.directory.canonicalize().map_err(io("find", next.directory))?;
    let run = |doing, arguments: &[&str]| {
        let mut command = Command::new("git");
        command.arg("--git-dir").arg(&directory).arg("--work-tree").arg(&site).current_dir(&site);
        // Bytes as they are, whatever the machine's settings are.
        command.args(["-c", "core.autocrlf=false", "-c", "core.safecrlf=false"]).args(arguments);
        branch.run(doing, command.env("GIT_INDEX_FILE", &index))
    };
    run("add the site to", &["add", "--force", "--all", "--", "."])?;
    let entries = match parent {
        Some(parent) if !present.foreign.is_empty() => branch.entries(parent)?,
        _ => BTreeMap::new(),
    };
    for (path, entry) in entries.iter().filter(|(path, _)| present.foreign.contains(*path)) {
        run("keep a file of", &["update-index", "--add", "--cacheinfo", &format!("{entry},{path}")])?;
    }
    Ok(run("write the tree of", &["write-tree"])?.trim().to_owned())
}

/// Who commits, where git does not know: a machine that only measures has no reason to have a name.
fn identity(branch: &Branch<'_>) -> Vec<String> {
    let is_known = branch.git("ask for the author of", &["var", "GIT_COMMITTER_IDENT"]).is_ok()
        && branch.git("ask for the author of", &["config", "user.email"]).is_ok();
    let options = ["-c", "user.name=regtrack", "-c", "user.email=regtrack@localhost"];
    if is_known { Vec::new() } else { options.map(str::to_owned).to_vec() }
}

#[cfg(test)]
mod tests {
    use super::super::Destination;
    use super::super::tests::{put, site, stamp};
    use super::*;

    fn git(repository: &Path, arguments: &[&str]) -> String {
        Branch { repository, name: "test" }.git("test", arguments).unwrap()
    }

    /// A repository with one commit on `main`, and something uncommitted.
    fn repository() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        git(dir.path(), &["init", "-q", "-b", "main"]);
        std::fs::write(dir.path().join("notes.txt"), "mine").unwrap();
        git(dir.path(), &["add", "notes.txt"]);
        let names = ["-c", "user.name=a", "-c", "user.email=a@b"];
        git(dir.path(), &[&names[..], &["commit", "-q", "-m", "one"]].concat());
        std::fs::write(dir.path().join("notes.txt"), "changed").unwrap();
        dir
    }

    #[test]
    fn a_branch_gets_commits_and_the_work_tree_stays() {
        let repository = repository();
        let path = repository.path();
        let to = Destination::Git { repository: path.to_owned(), branch: "pages".to_owned() };
        let first = site(&[("index.html", "one\r\n"), ("bench/a.html", "a")], &stamp(1, &[("17", 2)]));
        let Published::Commit(commit) = put(&first, &to).unwrap() else { panic!("no commit") };
        assert_eq!(git(path, &["rev-parse", "pages"]).trim(), commit);
        assert_eq!(git(path, &["show", "pages:index.html"]), "one\r\n");
        assert_eq!(put(&first, &to).unwrap(), Published::Unchanged);
        assert_eq!(git(path, &["status", "--porcelain"]), " M notes.txt\n");
        assert_eq!(git(path, &["rev-list", "--count", "pages"]).trim(), "1", "a history of its own");

        // Somebody adds a file of theirs to the branch; it stays.
        let elsewhere = path.join("w");
        git(path, &["worktree", "add", "-q", elsewhere.to_str().unwrap(), "pages"]);
        let error = put(&first, &to).unwrap_err();
        assert!(matches!(error, PublishError::CheckedOut { .. }), "{error}");
        std::fs::write(elsewhere.join("CNAME"), "example.org").unwrap();
        git(&elsewhere, &["add", "CNAME"]);
        git(&elsewhere, &["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "-m", "name"]);
        git(path, &["worktree", "remove", "--force", elsewhere.to_str().unwrap()]);

        let second = site(&[("index.html", "two")], &stamp(2, &[("17", 2)]));
        put(&second, &to).unwrap();
        let files = git(path, &["ls-tree", "-r", "--name-only", "pages"]);
        assert_eq!(files, ".regtrack-site\nCNAME\nindex.html\nregtrack-site.json\n");
        assert!(matches!(put(&first, &to), Err(PublishError::Older { .. })));
    }

    #[test]
    fn branches_of_others_and_what_is_no_repository_are_refused() {
        let repository = repository();
        let one = site(&[("index.html", "one")], &stamp(1, &[]));
        let branch = |repository: &Path, branch: &str| Destination::Git {
            repository: repository.to_owned(),
            branch: branch.to_owned(),
        };
        assert!(matches!(put(&one, &branch(repository.path(), "main")), Err(PublishError::CheckedOut { .. })));
        git(repository.path(), &["branch", "work"]);
        let message = put(&one, &branch(repository.path(), "work")).unwrap_err().to_string();
        assert!(message.contains("holds 'notes.txt' and no site"), "{message}");
        assert!(matches!(put(&one, &branch(repository.path(), "a..b")), Err(PublishError::BranchName { .. })));
        let nowhere = tempfile::tempdir().unwrap();
        let error = put(&one, &branch(nowhere.path(), "pages")).unwrap_err();
        assert!(matches!(error, PublishError::Command { .. }), "{error}");
    }
}
