//! What is kept of a download that broke off: the bytes, and beside them a small file that says of what they are the
//! beginning.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use reqwest::Response;
use reqwest::header::{CONTENT_RANGE, ETAG, HeaderName, LAST_MODIFIED};
use serde::{Deserialize, Serialize};

use super::{HttpError, io};

/// Of what a partial file is the beginning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Origin {
    /// Where it came from.
    pub(super) url: String,
    /// What tells whether the server still has the same file: a strong `ETag`, or else `Last-Modified`.
    pub(super) validator: Option<String>,
    /// Size of the whole file in bytes, as announced.
    pub(super) total: Option<u64>,
}

/// A `Content-Range`: `bytes 5-9/10`, `bytes 5-9/*` or `bytes */10`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ContentRange {
    /// The first byte.
    pub(super) start: Option<u64>,
    /// Bytes of the whole file.
    pub(super) total: Option<u64>,
}

impl ContentRange {
    pub(super) fn of(response: &Response) -> Option<Self> {
        Self::parse(header(response, &CONTENT_RANGE)?)
    }

    fn parse(text: &str) -> Option<Self> {
        let (range, total) = text.trim().strip_prefix("bytes ")?.split_once('/')?;
        let start = range.split_once('-').and_then(|(start, _)| start.trim().parse().ok());
        Some(Self { start, total: total.trim().parse().ok() })
    }
}

/// What the server gave to recognise the file by. A weak `ETag` does not promise the same bytes.
pub(super) fn validator(response: &Response) -> Option<String> {
    let etag = header(response, &ETAG).filter(|etag| !etag.starts_with("W/"));
    etag.or_else(|| header(response, &LAST_MODIFIED)).map(str::to_owned)
}

fn header<'a>(response: &'a Response, name: &HeaderName) -> Option<&'a str> {
    response.headers().get(name)?.to_str().ok()
}

/// Bytes of `url` that an earlier call left in `part`; `None` when a download would begin anew.
#[must_use]
pub fn kept(part: &Path, url: &str) -> Option<u64> {
    read(part, url).map(|(length, _)| length)
}

/// Length and origin of a partial file that is worth going on with.
pub(super) fn read(part: &Path, url: &str) -> Option<(u64, Origin)> {
    let length = fs::metadata(part).ok()?.len();
    let origin: Origin = serde_json::from_slice(&fs::read(origin_path(part)).ok()?).ok()?;
    let too_long = origin.total.is_some_and(|total| length > total);
    let blind = origin.total.is_none() && origin.validator.is_none();
    (length > 0 && origin.url == url && !too_long && !blind).then_some((length, origin))
}

/// Notes of what the file in `part` is going to be the beginning.
pub(super) fn write(part: &Path, origin: &Origin) -> Result<(), HttpError> {
    let path = origin_path(part);
    let text = serde_json::to_vec(origin).map_err(|error| io("write", &path)(error.into()))?;
    fs::write(&path, text).map_err(io("write", &path))
}

/// Removes a partial file and what is known of it. After the file was moved to its place, only the latter
/// is left.
pub fn forget(part: &Path) -> Result<(), HttpError> {
    for path in [part, &origin_path(part)] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(io("remove", path)(error)),
            _ => {}
        }
    }
    Ok(())
}

fn origin_path(part: &Path) -> PathBuf {
    let mut name = part.file_name().unwrap_or_default().to_owned();
    name.push(".json");
    part.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_ranges_are_read() {
        let range = |text| ContentRange::parse(text).map(|range| (range.start, range.total));
        assert_eq!(range("bytes 5-9/10"), Some((Some(5), Some(10))));
        assert_eq!(range("bytes 5-9/*"), Some((Some(5), None)));
        assert_eq!(range("bytes */10"), Some((None, Some(10))));
        for text in ["", "5-9/10", "bytes 5-9", "items 5-9/10"] {
            assert_eq!(range(text), None, "{text}");
        }
    }
}
