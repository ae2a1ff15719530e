//! Official source archives over HTTP.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::domain::Release;

use super::cache::Cache;
use super::error::{BuildError, io};
use super::fingerprint::sha256_file;

/// Disk space for an archive of any version, in bytes.
const SPACE: u64 = 100 << 20;

/// Waits before the second, third, … attempt.
const BACKOFF: [Duration; 2] = [Duration::from_millis(500), Duration::from_secs(2)];

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// The longest silence in the middle of a transfer.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

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

    let expected = match &release.sha256 {
        Some(sha256) => sha256.clone(),
        None => match fs::read_to_string(&remembered) {
            Ok(text) => text.trim().to_owned(),
            Err(_) => published_hash(&url, &remembered, say)?,
        },
    };
    if file.is_file() && sha256_file(&file)? == expected {
        return Ok(expected);
    }
    cache.require_space(SPACE)?;
    say(&format!("downloading {url}"));
    let temporary = claim.directory().join("download");
    let actual = block_on(retrying(&url, || to_file(&url, &temporary)))?;
    if actual != expected {
        return Err(BuildError::Hash { what: url, expected, actual });
    }
    fs::rename(&temporary, &file).map_err(io("move a download to", &file))?;
    Ok(actual)
}

/// The hash that lies beside an archive, for the few releases whose hash the catalogue lacks.
fn published_hash(url: &str, remember: &Path, say: &mut dyn FnMut(&str)) -> Result<String, BuildError> {
    let url = format!("{url}.sha256");
    say(&format!("the catalogue has no hash for this release; relying on {url}"));
    let text = block_on(retrying(&url, || async { Ok(send(&url).await?.text().await?) }))?;
    let hash = text.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
    if hash.len() != 64 || !hash.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(BuildError::PublishedHash { url });
    }
    fs::write(remember, &hash).map_err(io("write", remember))?;
    Ok(hash)
}

/// What can fail in one attempt.
#[derive(Debug, thiserror::Error)]
enum Attempt {
    #[error(transparent)]
    Http(#[from] reqwest::Error),
    #[error(transparent)]
    Local(#[from] BuildError),
}

impl Attempt {
    /// Whether another attempt may fare better: a connection that failed or broke, a server that is busy.
    fn is_transient(&self) -> bool {
        let Self::Http(error) = self else { return false };
        error.status().is_none_or(|status| status.is_server_error() || status == 429 || status == 408)
            && !error.is_builder()
    }

    fn into_error(self, url: &str) -> BuildError {
        match self {
            Self::Http(source) => BuildError::Download { url: url.to_owned(), source: source.without_url() },
            Self::Local(error) => error,
        }
    }
}

async fn retrying<T, F: Future<Output = Result<T, Attempt>>>(
    url: &str,
    attempt: impl Fn() -> F,
) -> Result<T, BuildError> {
    let mut waits = BACKOFF.iter();
    loop {
        match attempt().await {
            Ok(value) => return Ok(value),
            Err(error) => match waits.next().filter(|_| error.is_transient()) {
                Some(wait) => {
                    tracing::debug!(url, error = %error, "trying again");
                    tokio::time::sleep(*wait).await;
                }
                None => return Err(error.into_error(url)),
            },
        }
    }
}

/// Streams `url` into a file and returns the SHA-256 of what came.
async fn to_file(url: &str, path: &Path) -> Result<String, Attempt> {
    let mut response = send(url).await?;
    let mut file = File::create(path).map_err(io("create", path))?;
    let mut hash = Sha256::new();
    while let Some(chunk) = response.chunk().await? {
        hash.update(&chunk);
        file.write_all(&chunk).map_err(io("write", path))?;
    }
    file.sync_all().map_err(io("write", path))?;
    Ok(format!("{:x}", hash.finalize()))
}

async fn send(url: &str) -> Result<reqwest::Response, reqwest::Error> {
    let client = reqwest::Client::builder()
        .user_agent(concat!("regtrack/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .read_timeout(READ_TIMEOUT)
        .build()?;
    client.get(url).send().await?.error_for_status()
}

fn block_on<T>(work: impl Future<Output = Result<T, BuildError>>) -> Result<T, BuildError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(io("start the runtime for", Path::new("downloads")))?.block_on(work)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::net::TcpListener;
    use std::sync::{Arc, Mutex};

    // SHA-256 of "abc" from FIPS 180-2.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    /// A server that gives these answers in turn, one per connection; returns its address and the paths
    /// that were asked for.
    fn server(answers: &'static [(&'static str, &'static str)]) -> (String, Arc<Mutex<Vec<String>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        std::thread::spawn(move || {
            for (status, body) in answers {
                let (mut stream, _) = listener.accept().unwrap();
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                let first = lines.next().unwrap().unwrap();
                log.lock().unwrap().push(first.split(' ').nth(1).unwrap().to_owned());
                while !lines.next().unwrap().unwrap().is_empty() {}
                let head = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
                stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).unwrap();
            }
        });
        (address, asked)
    }

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

    #[test]
    fn a_busy_server_is_asked_again_and_a_good_file_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let (base, asked) = server(&[("503 Busy", ""), ("200 OK", "abc")]);
        assert_eq!(fetch(&base, home.path(), Some(ABC)).unwrap(), ABC);
        assert_eq!(*asked.lock().unwrap(), vec!["/v17.10/postgresql-17.10.tar.bz2"; 2]);
        // The server has no further answer: this one comes from the cache.
        assert_eq!(fetch(&base, home.path(), Some(ABC)).unwrap(), ABC);
    }

    #[test]
    fn a_wrong_hash_shows_both_and_keeps_nothing() {
        let home = tempfile::tempdir().unwrap();
        let (base, _) = server(&[("200 OK", "abd")]);
        let error = fetch(&base, home.path(), Some(ABC)).unwrap_err().to_string();
        assert!(
            error.contains(ABC) && error.contains("a52d159f262b2c6ddb724a61840befc36eb30c88877a4030b65cbe86298449c9"),
            "{error}"
        );
        assert!(!home.path().join("archives/postgresql-17.10.tar.bz2").exists());
    }

    #[test]
    fn an_absent_archive_is_not_asked_for_twice() {
        let home = tempfile::tempdir().unwrap();
        let (base, asked) = server(&[("404 Not Found", "")]);
        let error = fetch(&base, home.path(), Some(ABC)).unwrap_err();
        assert!(super::super::one_line(&error).contains("404"), "{error}");
        assert_eq!(asked.lock().unwrap().len(), 1);
    }

    #[test]
    fn without_a_hash_the_published_one_counts() {
        let home = tempfile::tempdir().unwrap();
        let hash = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  postgresql-17.10.tar.bz2\n";
        let answers = Box::leak(Box::new([("200 OK", hash), ("200 OK", "abc")]));
        let (base, asked) = server(answers);
        assert_eq!(fetch(&base, home.path(), None).unwrap(), ABC);
        assert!(asked.lock().unwrap()[0].ends_with(".tar.bz2.sha256"));
    }
}
