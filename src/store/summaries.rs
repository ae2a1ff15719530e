//! Summaries of sweeps that were computed before. They are kept so that a history of years does not have to be
//! analysed again for every new week; whatever is kept can be computed again, and is when anything it came from differs.

use std::fs;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Store, StoreError, check_name, files, io_error};
use crate::domain::WeekSummary;

/// Content of a file of the cache.
#[derive(Serialize, Deserialize)]
struct Kept {
    /// What it was computed from, and by whom.
    of: String,
    /// `None` for a sweep that has none: imported tables.
    summary: Option<WeekSummary>,
}

impl Store {
    /// Names the state of a sweep's files as an analysis by this program sees them: another state has another name.
    pub fn state(&self, sweep: &str) -> Result<String, StoreError> {
        let dir = self.sweep_dir(sweep)?;
        let mut hash = Sha256::new();
        // The same program may be built from changed sources without a new version.
        hash.update(env!("CARGO_PKG_VERSION"));
        hash.update(program_state());
        let mut paths = vec![dir.join("manifest.json"), dir.join(super::SUITE), dir.join(super::TOLD)];
        paths.extend(self.slice_files(sweep)?);
        for path in paths {
            let Ok(metadata) = fs::metadata(&path) else { continue };
            let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            hash.update(path.strip_prefix(&dir).unwrap_or(&path).as_os_str().as_encoded_bytes());
            hash.update(metadata.len().to_le_bytes());
            hash.update(modified.unwrap_or_default().as_nanos().to_le_bytes());
        }
        Ok(format!("{:x}", hash.finalize()))
    }

    /// The summary that was kept of a sweep in this `state`; the inner `None` is that of a sweep that has none.
    #[must_use]
    pub fn kept_summary(&self, sweep: &str, state: &str) -> Option<Option<WeekSummary>> {
        let bytes = fs::read(self.summary_file(sweep).ok()?).ok()?;
        // Whatever cannot be read is computed again.
        let kept: Kept = serde_json::from_slice(&bytes).ok()?;
        (kept.of == state).then_some(kept.summary)
    }

    /// Keeps the summary of a sweep for as long as its `state` is this.
    pub fn keep_summary(&self, sweep: &str, state: &str, summary: Option<&WeekSummary>) -> Result<(), StoreError> {
        let path = self.summary_file(sweep)?;
        let json = serde_json::to_vec(&Kept { of: state.to_owned(), summary: summary.cloned() });
        let json = json.map_err(|source| StoreError::Json { path: path.clone(), source })?;
        let dir = self.summaries_dir();
        files::create_directory(&dir).map_err(io_error("create", &dir))?;
        // Not flushed: a summary that is lost is computed again, and one that is torn is not JSON.
        fs::write(&path, json).map_err(io_error("write", &path))
    }

    fn summaries_dir(&self) -> PathBuf {
        self.dir.join("summaries")
    }

    fn summary_file(&self, sweep: &str) -> Result<PathBuf, StoreError> {
        check_name(sweep)?;
        Ok(self.summaries_dir().join(format!("{sweep}.json")))
    }
}

/// Length and time of the running executable; nothing where it cannot be looked at.
fn program_state() -> Vec<u8> {
    let metadata = std::env::current_exe().and_then(fs::metadata);
    let Ok(metadata) = metadata else { return Vec::new() };
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    [metadata.len().to_le_bytes().to_vec(), modified.unwrap_or_default().as_nanos().to_le_bytes().to_vec()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_summary_is_kept_until_a_file_changes() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create_or_open(dir.path().join("results")).unwrap();
        store.write_suite("s", "one").unwrap();
        let state = store.state("s").unwrap();
        assert_eq!(store.kept_summary("s", &state), None);
        store.keep_summary("s", &state, None).unwrap();
        assert_eq!(store.kept_summary("s", &store.state("s").unwrap()), Some(None));
        store.write_suite("s", "other").unwrap();
        let changed = store.state("s").unwrap();
        assert_ne!(changed, state);
        assert_eq!(store.kept_summary("s", &changed), None);
        fs::write(store.summary_file("s").unwrap(), "{\"of\": \"").unwrap();
        assert_eq!(store.kept_summary("s", &state), None);
    }
}
