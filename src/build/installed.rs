//! A prefix that is there already: a distribution's package, or somebody's own `make install`.

use std::path::{Path, PathBuf};

use crate::domain::{Build, Provenance};

use super::cache::{self, check_reachable};
use super::error::{BuildError, io};
use super::{Wanted, fingerprint};

/// The build at `path`: a prefix, its `bin` directory, or a directory of prefixes named after versions
/// (`/usr/lib/postgresql` with 13, 15, 17).
pub(super) fn provide(path: &Path, wanted: Wanted, account: Option<(u32, u32)>) -> Result<Build, BuildError> {
    let prefix = find(path, wanted);
    let prefix = prefix.canonicalize().map_err(io("find", &prefix))?;
    for program in ["postgres", "initdb"] {
        if !prefix.join("bin").join(program).is_file() {
            return Err(BuildError::NotInstalled { prefix, program });
        }
    }
    if let Some(account) = account {
        check_reachable(&prefix.join("bin"), account)?;
    }
    let (version, fingerprint) = fingerprint::read(&prefix)?;
    wanted.check(version, &prefix.display().to_string())?;
    let name = prefix.display().to_string();
    let key = cache::key(&["installed", &name, &fingerprint.postgres_sha256]);
    Ok(Build { version, key, provenance: Provenance::Installed { prefix: name }, variant: None, fingerprint, prefix })
}

fn find(path: &Path, wanted: Wanted) -> PathBuf {
    let is_prefix = |prefix: &Path| prefix.join("bin/postgres").is_file();
    if path.join("postgres").is_file() && path.ends_with("bin") {
        return path.parent().unwrap_or(path).to_owned();
    }
    if !is_prefix(path) {
        let names = [wanted.version.to_string(), wanted.version.major.to_string()];
        if let Some(prefix) = names.iter().map(|name| path.join(name)).find(|prefix| is_prefix(prefix)) {
            return prefix;
        }
    }
    path.to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::fingerprint::tests::program;
    use super::*;

    fn prefix(path: &Path, version: &str) {
        for name in ["postgres", "initdb"] {
            program(&path.join("bin").join(name), &format!("{name} (PostgreSQL) {version}"));
        }
    }

    fn wanted(version: &str, floating: bool) -> Wanted {
        Wanted { version: version.parse().unwrap(), floating }
    }

    #[test]
    fn a_prefix_is_found_by_itself_by_its_bin_and_by_its_parent() {
        let home = tempfile::tempdir().unwrap();
        prefix(&home.path().join("15"), "15.18 (Debian 15.18-0)");
        for path in ["15", "15/bin", ""] {
            let build = provide(&home.path().join(path), wanted("15.18", false), None).unwrap();
            assert_eq!(build.version.to_string(), "15.18", "{path}");
            assert!(build.prefix.ends_with("15"));
        }
    }

    #[test]
    fn another_minor_is_refused_unless_only_the_major_was_named() {
        let home = tempfile::tempdir().unwrap();
        prefix(home.path(), "15.18");
        let error = provide(home.path(), wanted("15.20", false), None).unwrap_err().to_string();
        assert!(error.contains("is PostgreSQL 15.18, not 15.20"), "{error}");
        assert_eq!(provide(home.path(), wanted("15.20", true), None).unwrap().version.to_string(), "15.18");
        assert!(provide(home.path(), wanted("16.3", true), None).is_err());
    }

    #[test]
    fn a_directory_without_programs_is_no_prefix() {
        let home = tempfile::tempdir().unwrap();
        let error = provide(home.path(), wanted("15.18", false), None).unwrap_err();
        assert!(matches!(error, BuildError::NotInstalled { program: "postgres", .. }), "{error}");
    }
}
