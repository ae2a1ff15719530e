//! Files of a web server: pages as text, and downloads that go on where they broke off.
//!
//! What may fare better a second time, such as a connection that breaks or a server that is busy, is tried three times.

mod part;
#[cfg(test)]
pub(crate) mod server;

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use reqwest::header::{IF_RANGE, RANGE};
use reqwest::{Client, Response, StatusCode};
use sha2::{Digest, Sha256};

pub use reqwest::Url;

use part::{ContentRange, Origin};
pub use part::{forget, kept};

/// Waits before the second, third, … attempt.
const BACKOFF: [Duration; 2] =
    if cfg!(test) { [Duration::ZERO; 2] } else { [Duration::from_millis(500), Duration::from_secs(2)] };

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);

/// The longest silence in the middle of a transfer.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

/// Pages are indexes and hashes; something longer is not what it was taken for.
const LONGEST_PAGE: usize = 8 << 20;

/// Pages that are asked for at the same time.
const AT_ONCE: usize = 4;

/// Why something could not be had from a web server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The machinery for requests does not start.
    #[error("could not prepare for downloads")]
    Prepare {
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// No answer, a broken one, or one that is an error.
    #[error("could not download {url}")]
    Request {
        /// The address.
        url: String,
        /// The cause.
        #[source]
        source: reqwest::Error,
    },
    /// A file ended before its end.
    #[error("could not download {url}: {got} of {total} bytes came")]
    Short {
        /// The address.
        url: String,
        /// Bytes that came.
        got: u64,
        /// Bytes that were announced.
        total: u64,
    },
    /// A page without end.
    #[error("{url} is longer than any page of a listing; is it the right address?")]
    TooLong {
        /// The address.
        url: String,
    },
    /// The disk refused something.
    #[error("could not {doing} {}", path.display())]
    Io {
        /// The verb.
        doing: &'static str,
        /// The object.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl HttpError {
    /// Whether the server says that there is no such thing.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        let Self::Request { source, .. } = self else { return false };
        source.status().is_some_and(|status| status == StatusCode::NOT_FOUND || status == StatusCode::GONE)
    }

    /// Whether another attempt may fare better.
    fn is_transient(&self) -> bool {
        match self {
            Self::Request { source, .. } => {
                let busy = |status: StatusCode| status.is_server_error() || status == 429 || status == 408;
                source.status().is_none_or(busy) && !source.is_builder()
            }
            Self::Short { .. } => true,
            _ => false,
        }
    }
}

/// A page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// Where it was found in the end, which is what its links are relative to.
    pub url: Url,
    /// What it says.
    pub text: String,
}

/// A finished download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Download {
    /// SHA-256 of the whole file in lower-case hex.
    pub sha256: String,
    /// Whether the file came in several pieces.
    pub resumed: bool,
}

/// A client with connections of its own and blocking calls: use it from outside of any async runtime.
#[derive(Debug)]
pub struct Http {
    client: Client,
    runtime: tokio::runtime::Runtime,
}

impl Http {
    /// A client. Connects to nothing yet.
    pub fn new() -> Result<Self, HttpError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let client = Client::builder()
            .user_agent(concat!("regtrack/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .build()
            .map_err(|error| HttpError::Prepare { source: io::Error::other(error) })?;
        Ok(Self { client, runtime: runtime.map_err(|source| HttpError::Prepare { source })? })
    }

    /// A page.
    pub fn page(&self, url: &str) -> Result<Page, HttpError> {
        self.runtime.block_on(retrying(url, || page(&self.client, url)))
    }

    /// The texts of many pages, in their order; `None` for one that the server does not have.
    pub fn texts(&self, urls: &[String]) -> Result<Vec<Option<String>>, HttpError> {
        let pages = urls.iter().map(|url| retrying(url, move || page(&self.client, url)));
        let text = |page: Result<Page, HttpError>| match page {
            Ok(page) => Ok(Some(page.text)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error),
        };
        // The first failure ends it: a server that has gone away is not asked for each of many pages.
        self.runtime.block_on(stream::iter(pages).buffered(AT_ONCE).map(text).try_collect())
    }

    /// Downloads `url` to `part`, a file for which nobody else has a use, and goes on from what an earlier
    /// call left there. The caller checks the hash and moves the file to its place. After an error, what
    /// came is kept for the next call, with what is known of it in a second file beside it; [`forget`]
    /// removes both.
    pub fn download(&self, url: &str, part: &Path) -> Result<Download, HttpError> {
        let resumed = self.runtime.block_on(retrying(url, || transfer(&self.client, url, part)))?;
        Ok(Download { sha256: sha256_file(part)?, resumed })
    }
}

/// SHA-256 of a file in lower-case hex.
pub fn sha256_file(path: &Path) -> Result<String, HttpError> {
    let mut file = File::open(path).map_err(io("open", path))?;
    let mut hash = Sha256::new();
    io::copy(&mut file, &mut hash).map_err(io("read", path))?;
    Ok(format!("{:x}", hash.finalize()))
}

async fn retrying<T, F: Future<Output = Result<T, HttpError>>>(
    url: &str,
    attempt: impl Fn() -> F,
) -> Result<T, HttpError> {
    let mut waits = BACKOFF.iter();
    loop {
        match attempt().await {
            Err(error) if error.is_transient() => {
                let Some(wait) = waits.next() else { return Err(error) };
                tracing::debug!(url, error = %error, "trying again");
                tokio::time::sleep(*wait).await;
            }
            result => return result,
        }
    }
}

async fn page(client: &Client, url: &str) -> Result<Page, HttpError> {
    let mut response = accept(url, client.get(url).send().await)?;
    let mut bytes = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(request(url))? {
        bytes.extend_from_slice(&chunk);
        if bytes.len() > LONGEST_PAGE {
            return Err(HttpError::TooLong { url: url.to_owned() });
        }
    }
    Ok(Page { url: response.url().clone(), text: String::from_utf8_lossy(&bytes).into_owned() })
}

/// One attempt at a file; true when it came in several pieces.
async fn transfer(client: &Client, url: &str, part: &Path) -> Result<bool, HttpError> {
    if let Some((length, origin)) = part::read(part, url) {
        if origin.total == Some(length) {
            return Ok(true);
        }
        let mut question = client.get(url).header(RANGE, format!("bytes={length}-"));
        if let Some(validator) = &origin.validator {
            question = question.header(IF_RANGE, validator);
        }
        let response = question.send().await.map_err(request(url))?;
        match response.status() {
            StatusCode::PARTIAL_CONTENT if continues(&response, length, &origin) => {
                let file = File::options().append(true).open(part).map_err(io("open", part))?;
                let total = origin.total.or_else(|| ContentRange::of(&response)?.total);
                save(response, url, part, file, length, total).await?;
                return Ok(true);
            }
            // All was there already.
            StatusCode::RANGE_NOT_SATISFIABLE
                if ContentRange::of(&response).is_some_and(|range| range.total == Some(length)) =>
            {
                return Ok(true);
            }
            StatusCode::PARTIAL_CONTENT | StatusCode::RANGE_NOT_SATISFIABLE => {}
            // The file has changed, or the server gives whole files only.
            _ => return whole(accept(url, Ok(response))?, url, part).await,
        }
    }
    whole(accept(url, client.get(url).send().await)?, url, part).await
}

/// Whether a partial answer is what comes after the first `length` bytes of the same file.
fn continues(response: &Response, length: u64, origin: &Origin) -> bool {
    let Some(range) = ContentRange::of(response) else { return false };
    let same_size = match origin.total {
        Some(total) => range.total == Some(total),
        None => origin.validator.is_some(),
    };
    let validator = part::validator(response);
    let same_file = validator.is_none() || origin.validator.is_none() || validator == origin.validator;
    range.start == Some(length) && same_size && same_file
}

/// Saves a file from its beginning.
async fn whole(response: Response, url: &str, part: &Path) -> Result<bool, HttpError> {
    let total = response.content_length();
    let file = File::create(part).map_err(io("create", part))?;
    part::write(part, &Origin { url: url.to_owned(), validator: part::validator(&response), total })?;
    save(response, url, part, file, 0, total).await?;
    Ok(false)
}

/// Adds what comes to a file of `length` bytes, which should then have `total`.
async fn save(
    mut response: Response,
    url: &str,
    part: &Path,
    mut file: File,
    mut length: u64,
    total: Option<u64>,
) -> Result<(), HttpError> {
    while let Some(chunk) = response.chunk().await.map_err(request(url))? {
        file.write_all(&chunk).map_err(io("write", part))?;
        length += chunk.len() as u64;
    }
    file.sync_all().map_err(io("write", part))?;
    match total {
        Some(total) if total != length => Err(HttpError::Short { url: url.to_owned(), got: length, total }),
        _ => Ok(()),
    }
}

fn accept(url: &str, response: reqwest::Result<Response>) -> Result<Response, HttpError> {
    response.and_then(Response::error_for_status).map_err(request(url))
}

/// For `map_err`: a failed request. The cause would repeat the address.
fn request(url: &str) -> impl FnOnce(reqwest::Error) -> HttpError + use<'_> {
    move |source| HttpError::Request { url: url.to_owned(), source: source.without_url() }
}

/// For `map_err`: an I/O error with what was being done to which path.
fn io<'a>(doing: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> HttpError + use<'a> {
    move |source| HttpError::Io { doing, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::server::{Answer, Questions, in_turn};
    use super::*;

    const WHOLE: &str = "0123456789";

    /// The first four of the ten bytes that it announces.
    fn broken() -> Answer {
        Answer::ok("0123").announces(10)
    }

    fn partial(range: &str, body: &str) -> Answer {
        Answer::new("206 Partial Content", body).header("Content-Range", range)
    }

    fn whole() -> Answer {
        Answer::ok(WHOLE)
    }

    /// One call against these answers: what came of it, what is in the file then, and what was asked.
    fn download(answers: Vec<Answer>) -> (Result<Download, HttpError>, String, Questions) {
        let home = tempfile::tempdir().unwrap();
        let part = home.path().join("file.part");
        let (base, asked) = in_turn(answers);
        let result = Http::new().unwrap().download(&format!("{base}/file"), &part);
        (result, std::fs::read_to_string(&part).unwrap_or_default(), asked)
    }

    /// The range and the condition of a request.
    type Asked = (Option<String>, Option<String>);

    /// Whether the file came in pieces, and what was asked.
    fn resumption(answers: Vec<Answer>) -> (bool, Vec<Asked>) {
        let (result, text, asked) = download(answers);
        assert_eq!(text, WHOLE);
        let result = result.unwrap();
        assert_eq!(result.sha256, format!("{:x}", Sha256::digest(WHOLE)));
        let header = |question: &server::Question, name| question.header(name).map(str::to_owned);
        let asked = asked.lock().unwrap();
        (result.resumed, asked.iter().map(|asked| (header(asked, "range"), header(asked, "if-range"))).collect())
    }

    fn asked(range: &str, condition: Option<&str>) -> Asked {
        (Some(range.to_owned()), condition.map(str::to_owned))
    }

    const ANEW: Asked = (None, None);

    #[test]
    fn a_truncated_file_is_gone_on_with() {
        let answers = vec![broken().header("ETag", "\"x\""), partial("bytes 4-9/10", "456789")];
        assert_eq!(resumption(answers), (true, vec![ANEW, asked("bytes=4-", Some("\"x\""))]));
        let answers = vec![
            broken().header("ETag", "W/\"x\"").header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT"),
            partial("bytes 4-9/10", "45").announces(6),
            partial("bytes 6-9/10", "6789"),
        ];
        let condition = Some("thu, 01 jan 2026 00:00:00 gmt");
        let expected = vec![ANEW, asked("bytes=4-", condition), asked("bytes=6-", condition)];
        assert_eq!(resumption(answers), (true, expected));
    }

    #[test]
    fn without_a_validator_the_sizes_have_to_agree() {
        let answers = vec![broken(), partial("bytes 4-9/10", "456789")];
        assert_eq!(resumption(answers), (true, vec![ANEW, asked("bytes=4-", None)]));
        for other in ["bytes 4-8/9", "bytes 4-9/*", "bytes 3-9/10", "nonsense"] {
            let answers = vec![broken(), partial(other, "xxxxxx"), whole()];
            assert_eq!(resumption(answers), (false, vec![ANEW, asked("bytes=4-", None), ANEW]), "{other}");
        }
        let unnamed = vec![broken(), Answer::new("206 Partial Content", "456789"), whole()];
        assert!(!resumption(unnamed).0);
    }

    #[test]
    fn a_whole_file_instead_of_the_rest_begins_anew() {
        let tagged = || broken().header("ETag", "\"x\"");
        assert!(!resumption(vec![tagged(), whole().header("ETag", "\"y\"")]).0);
        // And what the new file's beginning is noted with is the new file's.
        let answers =
            vec![tagged(), broken().header("ETag", "\"y\""), partial("bytes 4-9/10", "456789").header("ETag", "\"y\"")];
        let expected = vec![ANEW, asked("bytes=4-", Some("\"x\"")), asked("bytes=4-", Some("\"y\""))];
        assert_eq!(resumption(answers), (true, expected));
    }

    #[test]
    fn the_rest_of_another_file_is_not_added() {
        let answers =
            vec![broken().header("ETag", "\"x\""), partial("bytes 4-9/10", "xxxxxx").header("ETag", "\"y\""), whole()];
        assert!(!resumption(answers).0);
    }

    #[test]
    fn a_range_behind_the_end_is_an_end_or_another_file() {
        let refusal = |total: &str| Answer::new("416 Range Not Satisfiable", "").header("Content-Range", total);
        assert!(!resumption(vec![broken().header("ETag", "\"x\""), refusal("bytes */3"), whole()]).0);
        assert!(!resumption(vec![broken(), Answer::new("416 Range Not Satisfiable", ""), whole()]).0);
        let (result, text, _) = download(vec![broken(), refusal("bytes */4")]);
        assert!(result.unwrap().resumed && text == "0123", "the hash tells whether that was all");
    }

    #[test]
    fn after_three_attempts_what_came_is_kept_and_another_address_begins_anew() {
        let home = tempfile::tempdir().unwrap();
        let part = home.path().join("file.part");
        let busy = || Answer::new("503 Busy", "");
        let (base, asked) = in_turn(vec![broken(), busy(), busy(), whole()]);
        let http = Http::new().unwrap();
        let url = format!("{base}/file");
        let error = http.download(&url, &part).unwrap_err();
        assert_eq!(error.to_string(), format!("could not download {url}"));
        assert_eq!((kept(&part, &url), kept(&part, &format!("{base}/other"))), (Some(4), None));
        assert!(!http.download(&format!("{base}/other"), &part).unwrap().resumed);
        assert_eq!(asked.lock().unwrap()[3].header("range"), None);
        // All is there: nobody is asked.
        assert!(http.download(&format!("{base}/other"), &part).unwrap().resumed);
        forget(&part).unwrap();
        assert!(std::fs::read_dir(home.path()).unwrap().next().is_none());
    }

    #[test]
    fn absent_pages_are_none_and_other_failures_errors() {
        let (base, asked) = server::serve(|_, path| match path {
            "/a" => Some(Answer::ok("text")),
            "/b" => Some(Answer::new("404 Not Found", "")),
            _ => Some(Answer::new("403 Forbidden", "")),
        });
        let http = Http::new().unwrap();
        let urls = |names: &[&str]| names.iter().map(|name| format!("{base}/{name}")).collect::<Vec<_>>();
        assert_eq!(http.texts(&urls(&["b", "a", "b"])).unwrap(), [None, Some("text".to_owned()), None]);
        let many = vec!["c"; 50];
        let error = http.texts(&urls(&[&["a"], &many[..]].concat())).unwrap_err();
        assert_eq!(error.to_string(), format!("could not download {base}/c"));
        assert!(asked.lock().unwrap().len() < 20, "the first failure is enough");
        assert!(http.page(&format!("{base}/b")).unwrap_err().is_missing());
    }
}
