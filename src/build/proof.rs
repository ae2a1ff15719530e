//! Remembers which builds were seen to work, and removes those that were not.
//!
//! The proof itself is the caller's: this module starts no server.

use std::fs;
use std::path::{Path, PathBuf};

use crate::domain::{Build, Provenance};
use crate::process;

use super::Builds;
use super::error::{BuildError, io};

/// File beside `build.json` that holds what the build was proved with.
const MARKER: &str = "proved";

/// How a proof came out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof<E> {
    /// It works; proved now.
    Passed,
    /// It works; proved by an earlier call.
    Known,
    /// It does not. If it was compiled here it is no longer in the cache.
    Failed(E),
}

impl Builds {
    /// Proves a build by `run`, unless it was proved with the same `stamp` before. `run` gets a directory for its work
    /// (which is removed afterwards) and the path for a log (which stays). A compiled build that fails is removed.
    pub fn prove<E>(
        &self,
        build: &Build,
        stamp: &str,
        say: &mut dyn FnMut(&str),
        run: impl FnOnce(&Path, &Path) -> Result<(), E>,
    ) -> Result<Proof<E>, BuildError> {
        let cache = self.cache()?;
        // A lock of its own, for another process may be proving the same build. That of the build itself is held
        // by this builder, shared with everyone who uses it.
        let claim = cache.claim(&format!("{}-proof", build.key), say)?;
        let marker = marker(build);
        if marker.as_ref().and_then(|marker| fs::read_to_string(marker).ok()).is_some_and(|proved| proved == stamp) {
            return Ok(Proof::Known);
        }
        let log = cache.log(&format!("{}-{}-proof", build.version, build.key));
        match run(claim.directory(), &log) {
            Ok(()) => {
                if let Some(marker) = marker {
                    fs::write(&marker, stamp).map_err(io("write", &marker))?;
                }
                Ok(Proof::Passed)
            }
            // An interrupted proof says nothing about the build.
            Err(error) if process::is_interrupted() => Ok(Proof::Failed(error)),
            Err(error) => {
                if matches!(build.provenance, Provenance::Source { .. } | Provenance::Git { .. }) {
                    cache.release(&build.key);
                    if !cache.remove(&build.key)? {
                        say(&format!("another process uses the build {}, so it stays, unproved", build.key));
                    }
                }
                Ok(Proof::Failed(error))
            }
        }
    }
}

/// Where the proof of a build is kept; nothing is written into a prefix that is not ours.
fn marker(build: &Build) -> Option<PathBuf> {
    (!matches!(build.provenance, Provenance::Installed { .. })).then(|| build.prefix.join(MARKER))
}

#[cfg(test)]
mod tests {
    use super::super::cache::Cache;
    use super::super::fingerprint::tests::program;
    use super::super::{ARCHIVE_URL, Options};
    use super::*;
    use crate::domain::Source;

    /// A cache with one build of this provenance, and a builder over it.
    fn built(home: &Path, provenance: Provenance) -> (Builds, Build) {
        let cache = Cache::open(home, None).unwrap();
        let made = cache.provide("k", &mut |_| {}, |claim, _| {
            let tree = claim.directory().join("tree");
            program(&tree.join("bin/postgres"), "postgres (PostgreSQL) 17.10");
            Ok((tree, provenance))
        });
        let options = Options {
            cache: home.to_owned(),
            source: Source::Auto,
            jobs: 1,
            archive_url: ARCHIVE_URL.to_owned(),
            account: None,
        };
        (Builds::new(options), made.unwrap())
    }

    fn compiled() -> Provenance {
        Provenance::Source { source: "s".to_owned(), sha256: None }
    }

    #[test]
    fn a_proved_build_is_not_proved_again_unless_the_proof_is_another() {
        let home = tempfile::tempdir().unwrap();
        let (builds, build) = built(home.path(), compiled());
        let prove = |stamp: &str| {
            let mut runs = 0;
            let proof = builds.prove(&build, stamp, &mut |_| {}, |directory, log| {
                assert!(directory.is_dir() && log.ends_with("logs/17.10-k-proof.log"));
                runs += 1;
                Ok::<(), ()>(())
            });
            (proof.unwrap(), runs)
        };
        assert_eq!(prove("a"), (Proof::Passed, 1));
        assert_eq!(prove("a"), (Proof::Known, 0));
        assert_eq!(prove("b"), (Proof::Passed, 1));
        assert!(fs::read_dir(home.path().join("tmp")).unwrap().next().is_none(), "no work directory stays");
    }

    #[test]
    fn a_compiled_build_that_fails_is_removed_and_a_package_is_only_not_marked() {
        let package = Provenance::Prebuilt { package: "p".to_owned(), package_version: "1".to_owned() };
        for (provenance, stays) in [(compiled(), false), (package, true)] {
            let home = tempfile::tempdir().unwrap();
            let (builds, build) = built(home.path(), provenance);
            let proof = builds.prove(&build, "a", &mut |_| {}, |_, _| Err("broken")).unwrap();
            assert_eq!(proof, Proof::Failed("broken"));
            assert_eq!(build.prefix.exists(), stays, "{:?}", build.provenance);
            assert!(!build.prefix.join(MARKER).exists());
        }
    }

    #[test]
    fn a_build_that_its_builder_holds_is_proved_and_one_that_others_use_stays() {
        let home = tempfile::tempdir().unwrap();
        let (builds, build) = built(home.path(), compiled());
        // As after `provide`: this builder holds the build.
        let hold = |cache: &Cache| cache.provide("k", &mut |_| {}, |_, _| unreachable!("it is made")).unwrap();
        hold(builds.cache().unwrap());
        assert_eq!(builds.prove(&build, "a", &mut |_| {}, |_, _| Ok::<(), ()>(())).unwrap(), Proof::Passed);

        let other = Cache::open(home.path(), None).unwrap();
        hold(&other);
        let mut notes = Vec::new();
        let proof = builds.prove(&build, "b", &mut |note| notes.push(note.to_owned()), |_, _| Err("broken")).unwrap();
        assert_eq!(proof, Proof::Failed("broken"));
        // A child that another test starts has a copy of each lock until it runs its program, so there may be a note of
        // waiting too.
        let told = notes.iter().any(|note| note.contains("another process uses the build"));
        assert!(build.prefix.exists() && told, "{notes:?}");
    }

    #[test]
    fn nothing_is_written_into_a_prefix_of_others() {
        let home = tempfile::tempdir().unwrap();
        let prefix = home.path().display().to_string();
        let (builds, build) = built(home.path(), Provenance::Installed { prefix });
        let proof = builds.prove(&build, "a", &mut |_| {}, |_, _| Ok::<(), ()>(())).unwrap();
        assert_eq!(proof, Proof::Passed);
        assert!(!build.prefix.join(MARKER).exists());
    }
}
