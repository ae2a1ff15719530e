//! Official source archives over HTTP.

use std::fs;
use std::path::Path;

use crate::domain::{Release, sha256_in};
use crate::http::{self, Download, Http};

use super::cache::Cache;
use super::error::{BuildError, io};

/// Disk space for an archive of any version, in bytes.
const SPACE: u64 = 100 << 20;

/// Brings the release's archive into the cache, unless a good one is there, and returns its SHA-256.
pub(super) fn archive(
    cache: &Cache,
    base: &str,
    release: &Release,
    say: &mut dyn FnMut(&str),
) -> Result<String, BuildError> {
    let claim = cache.claim(&release.archive, say)?;
    let url = format!("{}/v{}/{}", base.trim_end_matches('/'), release.version, release.archive);
    let file = cache.archive(&release.archive);
    let remembered = cache.archive(&format!("{}.sha256", release.archive));
    let http = Http::new()?;

    let expected = match &release.sha256 {
        Some(sha256) => sha256.clone(),
        None => match fs::read_to_string(&remembered) {
            Ok(text) => text.trim().to_owned(),
            Err(_) => published_hash(&http, &url, &remembered, say)?,
        },
    };
    if file.is_file() && http::sha256_file(&file)? == expected {
        return Ok(expected);
    }
    cache.require_space(SPACE)?;
    // Beside the claimed directory, not in it: it is to survive this process.
    let part = claim.directory().with_file_name(format!("{}.part", release.archive));
    fetch(&http, &url, &part, &expected, say)?;
    fs::rename(&part, &file).map_err(io("move a download to", &file))?;
    http::forget(&part)?;
    Ok(expected)
}

/// Downloads a file with the expected hash, going on from what is there of it. Pieces that do not fit together are
/// thrown away, and the whole is fetched once more.
fn fetch(http: &Http, url: &str, part: &Path, expected: &str, say: &mut dyn FnMut(&str)) -> Result<(), BuildError> {
    loop {
        match http::kept(part, url) {
            Some(bytes) => say(&format!("going on with {url} after {bytes} bytes")),
            None => say(&format!("downloading {url}")),
        }
        let Download { sha256: actual, resumed } = http.download(url, part)?;
        if actual == expected {
            return Ok(());
        }
        http::forget(part)?;
        if !resumed {
            return Err(BuildError::Hash { what: url.to_owned(), expected: expected.to_owned(), actual });
        }
        say(&format!("the pieces of {url} do not make the right file; fetching it as a whole"));
    }
}

/// The hash that lies beside an archive, for the few releases whose hash the catalogue lacks.
fn published_hash(http: &Http, url: &str, remember: &Path, say: &mut dyn FnMut(&str)) -> Result<String, BuildError> {
    let url = format!("{url}.sha256");
    say(&format!("the catalogue has no hash for this release; relying on {url}"));
    let hash = sha256_in(&http.page(&url)?.text).ok_or(BuildError::PublishedHash { url })?;
    fs::write(remember, &hash).map_err(io("write", remember))?;
    Ok(hash)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::server::{Answer, in_turn};

    // SHA-256 of "abc" from FIPS 180-2.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    const ARCHIVE: &str = "/v17.10/postgresql-17.10.tar.bz2";

    fn release(sha256: Option<&str>) -> Release {
        Release {
            version: "17.10".parse().unwrap(),
            date: None,
            tag: "REL_17_10".into(),
            archive: "postgresql-17.10.tar.bz2".into(),
            sha256: sha256.map(str::to_owned),
            prebuilt: None,
        }
    }

    fn fetch(base: &str, home: &Path, sha256: Option<&str>) -> Result<String, BuildError> {
        archive(&Cache::open(home, None)?, base, &release(sha256), &mut |_| {})
    }

    /// Names of the files below the cache that hold anything of the archive, locks apart.
    fn files(home: &Path) -> Vec<String> {
        let files = walkdir::WalkDir::new(home).sort_by_file_name().into_iter().map(Result::unwrap);
        let names = files.filter(|file| file.file_type().is_file() && !file.path().starts_with(home.join("locks")));
        names.map(|file| file.path().strip_prefix(home).unwrap().display().to_string()).collect()
    }

    /// The first `sent` bytes of "abc", which are announced as three.
    fn broken(sent: usize) -> Answer {
        Answer::ok(&"abc"[..sent]).announces(3).header("ETag", "\"one\"")
    }

    fn rest(body: &str) -> Answer {
        Answer::new("206 Partial Content", body).header("Content-Range", "bytes 2-2/3").header("ETag", "\"one\"")
    }

    #[test]
    fn a_busy_server_is_asked_again_and_a_good_file_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let (base, asked) = in_turn(vec![Answer::new("503 Busy", ""), Answer::ok("abc")]);
        assert_eq!(fetch(&base, home.path(), Some(ABC)).unwrap(), ABC);
        assert!(asked.lock().unwrap().iter().all(|question| question.path == ARCHIVE));
        // The server has no further answer: this one comes from the cache.
        assert_eq!(fetch(&base, home.path(), Some(ABC)).unwrap(), ABC);
        assert_eq!(asked.lock().unwrap().len(), 2);
        assert_eq!(files(home.path()), ["archives/postgresql-17.10.tar.bz2"]);
    }

    #[test]
    fn a_wrong_hash_shows_both_and_keeps_nothing() {
        let home = tempfile::tempdir().unwrap();
        let (base, _) = in_turn(vec![Answer::ok("abd")]);
        let error = fetch(&base, home.path(), Some(ABC)).unwrap_err().to_string();
        assert!(
            error.contains(ABC) && error.contains("a52d159f262b2c6ddb724a61840befc36eb30c88877a4030b65cbe86298449c9"),
            "{error}"
        );
        assert_eq!(files(home.path()), Vec::<String>::new());
    }

    #[test]
    fn an_absent_archive_is_not_asked_for_twice() {
        let home = tempfile::tempdir().unwrap();
        let (base, asked) = in_turn(vec![Answer::new("404 Not Found", "")]);
        let error = fetch(&base, home.path(), Some(ABC)).unwrap_err();
        assert!(super::super::one_line(&error).contains("404"), "{error}");
        assert_eq!(asked.lock().unwrap().len(), 1);
    }

    #[test]
    fn without_a_hash_the_published_one_counts() {
        let home = tempfile::tempdir().unwrap();
        let (base, asked) = in_turn(vec![Answer::ok(format!("{ABC}  postgresql-17.10.tar.bz2\n")), Answer::ok("abc")]);
        assert_eq!(fetch(&base, home.path(), None).unwrap(), ABC);
        assert!(asked.lock().unwrap()[0].path.ends_with(".tar.bz2.sha256"));
    }

    #[test]
    fn what_one_call_leaves_the_next_one_goes_on_with() {
        let home = tempfile::tempdir().unwrap();
        let busy = || Answer::new("503 Busy", "");
        let (base, asked) = in_turn(vec![broken(2), busy(), busy(), rest("c")]);
        let error = fetch(&base, home.path(), Some(ABC)).unwrap_err();
        assert!(super::super::one_line(&error).contains("503"), "{error}");
        let part = "tmp/postgresql-17.10.tar.bz2.part";
        assert_eq!(files(home.path()), [part.to_owned(), format!("{part}.json")]);

        let mut notes = Vec::new();
        let cache = Cache::open(home.path(), None).unwrap();
        archive(&cache, &base, &release(Some(ABC)), &mut |note| notes.push(note.to_owned())).unwrap();
        assert_eq!(notes, [format!("going on with {base}{ARCHIVE} after 2 bytes")]);
        assert_eq!(asked.lock().unwrap()[3].header("range"), Some("bytes=2-"));
        assert_eq!(files(home.path()), ["archives/postgresql-17.10.tar.bz2"]);
    }

    #[test]
    fn pieces_with_a_wrong_hash_are_fetched_as_a_whole_once() {
        let home = tempfile::tempdir().unwrap();
        let (base, asked) = in_turn(vec![broken(2), rest("d"), Answer::ok("abc")]);
        assert_eq!(fetch(&base, home.path(), Some(ABC)).unwrap(), ABC);
        assert_eq!(asked.lock().unwrap()[2].header("range"), None);

        let home = tempfile::tempdir().unwrap();
        let (base, asked) = in_turn(vec![broken(2), rest("d"), Answer::ok("abd")]);
        let error = fetch(&base, home.path(), Some(ABC)).unwrap_err();
        assert!(matches!(error, BuildError::Hash { .. }), "{error}");
        assert_eq!(asked.lock().unwrap().len(), 3);
        assert_eq!(files(home.path()), Vec::<String>::new());
    }

    #[test]
    fn a_full_disk_is_named_and_leaves_nothing_in_the_archives() {
        let home = tempfile::tempdir().unwrap();
        let (base, asked) = in_turn(vec![Answer::ok("abc")]);
        drop(Cache::open(home.path(), None).unwrap());
        // Whatever is written there meets a full disk.
        let part = home.path().canonicalize().unwrap().join("tmp/postgresql-17.10.tar.bz2.part");
        std::os::unix::fs::symlink("/dev/full", &part).unwrap();
        let error = super::super::one_line(&fetch(&base, home.path(), Some(ABC)).unwrap_err());
        assert!(error.contains(&part.display().to_string()) && error.contains("No space left"), "{error}");
        assert_eq!(asked.lock().unwrap().len(), 1, "another attempt would not fare better");
        assert!(std::fs::read_dir(home.path().join("archives")).unwrap().next().is_none());
    }
}
