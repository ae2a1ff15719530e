//! The results directory: sweeps, their slices as Parquet files, and imported tables.
//!
//! A slice is written once, as a whole, and never again; a manifest is replaced as a whole. So a
//! process that is killed at any point leaves a readable directory. Computes nothing.

pub mod columns;
mod files;
mod import;
mod summaries;

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::domain::{Outcome, SliceRecord, SweepManifest, WeekSummary};

pub use columns::ColumnsError;
pub use import::{ImportError, Problem, RowKind, Tables, import, read_tables};

/// Format of the directory and of the manifests.
pub const FORMAT: u32 = 1;

const MARKER: &str = "regtrack-results.json";

/// Entries of a sweep's directory that regtrack makes. A sweep's directory is removed only when it
/// holds nothing else.
const SWEEP_ENTRIES: [&str; 6] = ["manifest.json", SUITE, TOLD, "slices", PACK, "logs"];

/// The slices of a sweep that is over, in one file.
const PACK: &str = "slices.parquet";

/// The suite's definition beside the slices.
const SUITE: &str = "suite.toml";

/// What a weekly report said of a sweep.
const TOLD: &str = "told.json";

/// Why a results directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is nothing to show.
    #[error("there are no results in '{}': run a sweep or import tables first", dir.display())]
    NoResults {
        /// The results directory.
        dir: PathBuf,
    },
    /// Somebody else's directory.
    #[error(
        "'{}' is not empty and holds no {MARKER}, so it isn't a results directory: choose a new or an empty one",
        dir.display()
    )]
    Foreign {
        /// The directory.
        dir: PathBuf,
    },
    /// A file where the directory should be.
    #[error("'{}' is not a directory: choose another results directory", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// A later regtrack wrote it.
    #[error(
        "'{}' has format {found}, and this regtrack reads formats up to {FORMAT}: use the regtrack that wrote it",
        path.display()
    )]
    NewerFormat {
        /// The marker or manifest.
        path: PathBuf,
        /// The format found.
        found: u64,
    },
    /// A marker or manifest that cannot be understood.
    #[error("'{}' is not what regtrack writes there", path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// Another process is writing.
    #[error(
        "the results in '{}' are being written by {}: wait for it to end, or choose another directory", dir.display(),
        pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
    )]
    Locked {
        /// The results directory.
        dir: PathBuf,
        /// The process that holds the lock, as far as it has said so.
        pid: Option<u32>,
    },
    /// A sweep that is not there.
    #[error("there is no sweep '{id}' in '{}'", dir.display())]
    UnknownSweep {
        /// The results directory.
        dir: PathBuf,
        /// The sweep asked for.
        id: String,
    },
    /// A name that cannot be that of a directory of ours.
    #[error("'{name}' cannot name a sweep or a launch: use letters, digits, '.', '-' and '_'")]
    Name {
        /// The name.
        name: String,
    },
    /// Something in a sweep's directory that regtrack did not make.
    #[error("'{}' was not made by regtrack, so the sweep is not removed: move it away first", path.display())]
    ForeignInSweep {
        /// The entry.
        path: PathBuf,
    },
    /// A slice file that cannot be read.
    #[error("cannot read '{}': move the file away, then repeat the sweep or the import", path.display())]
    Slices {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: ColumnsError,
    },
    /// Slices that cannot be turned into a file.
    #[error("cannot prepare '{}'", path.display())]
    Encode {
        /// The file.
        path: PathBuf,
        /// What went wrong.
        #[source]
        source: ColumnsError,
    },
    /// A table that cannot be imported.
    #[error(transparent)]
    Import(#[from] ImportError),
    /// The file system refused.
    #[error("cannot {doing} '{}'", path.display())]
    Io {
        /// What was being done: `read`, `write`, …
        doing: &'static str,
        /// To which file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// Attaches what was being done, and to which path, to an I/O error.
fn io_error(doing: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { doing, path, source }
}

/// Content of the marker file.
#[derive(Serialize, Deserialize)]
struct Marker {
    format: u32,
}

/// Content of the file about what was told.
#[derive(Serialize, Deserialize)]
struct Told {
    format: u32,
    summary: WeekSummary,
}

/// A results directory.
#[derive(Debug, Clone)]
pub struct Store {
    dir: PathBuf,
}

/// The right to write; given back when dropped, and by the operating system when the process dies.
#[derive(Debug)]
pub struct StoreLock {
    _file: File,
}

impl Store {
    /// Opens a results directory, or makes one where nothing or an empty directory is.
    pub fn create_or_open(dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let dir = dir.into();
        match Self::open(&dir) {
            Err(StoreError::NoResults { .. }) => {}
            result => return result,
        }
        files::create_directory(&dir).map_err(io_error("create", &dir))?;
        let marker = dir.join(MARKER);
        write_json(&marker, &Marker { format: FORMAT })?;
        Ok(Self { dir })
    }

    /// Opens a results directory that exists.
    pub fn open(dir: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let dir = dir.into();
        match fs::metadata(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(StoreError::NoResults { dir }),
            Err(source) => return Err(io_error("open", &dir)(source)),
            Ok(metadata) if !metadata.is_dir() => return Err(StoreError::NotADirectory { path: dir }),
            Ok(_) => {}
        }
        match read_json::<Marker>(&dir.join(MARKER))? {
            Some(_) => Ok(Self { dir }),
            None if files::entries(&dir).map_err(io_error("list", &dir))?.is_empty() => {
                Err(StoreError::NoResults { dir })
            }
            None => Err(StoreError::Foreign { dir }),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Takes the right to write, or fails at once when another process has it. Removes what a killed
    /// process left unfinished.
    pub fn lock(&self) -> Result<StoreLock, StoreError> {
        let path = self.dir.join("lock");
        let file = File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = file.map_err(io_error("open", &path))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => {
                let mut text = String::new();
                // The number is a courtesy; whoever holds the lock may not have written it yet.
                let pid = file.read_to_string(&mut text).ok().and_then(|_| text.trim().parse().ok());
                return Err(StoreError::Locked { dir: self.dir.clone(), pid });
            }
            Err(fs::TryLockError::Error(source)) => return Err(io_error("lock", &path)(source)),
        }
        write_pid(&file).map_err(io_error("write", &path))?;
        self.remove_leftovers()?;
        Ok(StoreLock { _file: file })
    }

    fn remove_leftovers(&self) -> Result<(), StoreError> {
        let sweeps = self.sweeps_dir();
        if sweeps.is_dir() {
            files::remove_temporary(&sweeps).map_err(io_error("clean up", &sweeps))?;
        }
        for entry in fs::read_dir(&self.dir).map_err(io_error("list", &self.dir))? {
            let entry = entry.map_err(io_error("list", &self.dir))?;
            let path = entry.path();
            if files::is_temporary(&entry.file_name()) && path.is_file() {
                fs::remove_file(&path).map_err(io_error("remove", &path))?;
            }
        }
        Ok(())
    }

    /// All sweeps, oldest first.
    pub fn sweeps(&self) -> Result<Vec<SweepManifest>, StoreError> {
        let dir = self.sweeps_dir();
        let mut manifests = Vec::new();
        for path in files::entries(&dir).map_err(io_error("list", &dir))? {
            // A directory without a manifest is one whose first write was interrupted.
            manifests.extend(read_json::<SweepManifest>(&path.join("manifest.json"))?);
        }
        manifests.sort_by(|a, b| (a.created_at, &a.id).cmp(&(b.created_at, &b.id)));
        Ok(manifests)
    }

    /// The sweep that commands show unless told otherwise: the one made current last, or the newest.
    pub fn current(&self) -> Result<SweepManifest, StoreError> {
        let path = self.dir.join("current");
        match fs::read_to_string(&path) {
            Ok(id) => self.existing(id.trim()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let newest = self.sweeps()?.into_iter().max_by_key(|manifest| manifest.updated_at);
                newest.ok_or_else(|| StoreError::NoResults { dir: self.dir.clone() })
            }
            Err(source) => Err(io_error("read", &path)(source)),
        }
    }

    /// Makes a sweep the one that commands show.
    pub fn set_current(&self, id: &str) -> Result<(), StoreError> {
        self.existing(id)?;
        let path = self.dir.join("current");
        files::write_atomically(&path, format!("{id}\n").as_bytes()).map_err(io_error("write", &path))
    }

    /// The manifest of a sweep, if there is such a sweep.
    pub fn manifest(&self, id: &str) -> Result<Option<SweepManifest>, StoreError> {
        read_json(&self.sweep_dir(id)?.join("manifest.json"))
    }

    fn existing(&self, id: &str) -> Result<SweepManifest, StoreError> {
        self.manifest(id)?.ok_or_else(|| StoreError::UnknownSweep { dir: self.dir.clone(), id: id.to_owned() })
    }

    /// Writes a sweep's manifest, replacing an earlier one.
    pub fn write_manifest(&self, manifest: &SweepManifest) -> Result<(), StoreError> {
        let dir = self.sweep_dir(&manifest.id)?;
        files::create_directory(&dir).map_err(io_error("create", &dir))?;
        write_json(&dir.join("manifest.json"), manifest)
    }

    /// Adds a slice to a sweep. It is on disk when this returns, in a file of its own:
    /// `slices/<launch>/<microbenchmark>.parquet`, with a number where that name is taken.
    pub fn append(&self, sweep: &str, slice: &SliceRecord) -> Result<(), StoreError> {
        check_name(&slice.launch)?;
        let dir = self.sweep_dir(sweep)?.join("slices").join(&slice.launch);
        files::create_directory(&dir).map_err(io_error("create", &dir))?;
        let slug = slug(&slice.microbenchmark);
        let mut path = dir.join(format!("{slug}.parquet"));
        let mut number = 2;
        while path.exists() {
            path = dir.join(format!("{slug}~{number}.parquet"));
            number += 1;
        }
        write_slices(&path, std::slice::from_ref(slice))
    }

    /// The slices of a sweep: one for each block, target and microbenchmark. Where several were
    /// written, a measured one counts before a failed one, and then the newest. Ordered by block and
    /// time.
    pub fn slices(&self, sweep: &str) -> Result<Vec<SliceRecord>, StoreError> {
        self.read(sweep, columns::from_parquet)
    }

    /// The same without histograms, rates by second and plans.
    pub fn flat_slices(&self, sweep: &str) -> Result<Vec<SliceRecord>, StoreError> {
        self.read(sweep, columns::flat_from_parquet)
    }

    fn read(&self, sweep: &str, decode: Decode) -> Result<Vec<SliceRecord>, StoreError> {
        let mut slices = Vec::new();
        for path in self.slice_files(sweep)? {
            slices.extend(read_slices(&path, decode)?);
        }
        // Stable: rows of an imported table share one time and keep the table's order.
        slices.sort_by_key(|slice| (slice.block, slice.started_at));
        Ok(latest(slices))
    }

    /// Files with slices of a sweep, the packed one first.
    fn slice_files(&self, sweep: &str) -> Result<Vec<PathBuf>, StoreError> {
        let sweep = self.sweep_dir(sweep)?;
        let mut paths = Vec::new();
        let pack = sweep.join(PACK);
        if pack.exists() {
            paths.push(pack);
        }
        let dir = sweep.join("slices");
        for launch in files::entries(&dir).map_err(io_error("list", &dir))? {
            paths.extend(files::entries(&launch).map_err(io_error("list", &launch))?);
        }
        Ok(paths)
    }

    /// Brings all slices of a sweep together in one file, superseded ones included: a history of years would
    /// otherwise be a million files. Slices may be added afterwards, and packed again.
    pub fn pack(&self, sweep: &str) -> Result<(), StoreError> {
        let files = self.slice_files(sweep)?;
        let pack = self.sweep_dir(sweep)?.join(PACK);
        let loose: Vec<&PathBuf> = files.iter().filter(|path| **path != pack).collect();
        if loose.is_empty() {
            return Ok(());
        }
        let mut slices = Vec::new();
        for path in &files {
            slices.extend(read_slices(path, columns::from_parquet)?);
        }
        // A process that was killed here leaves slices twice, and the next call drops the repetitions.
        slices.sort_by_key(|slice| (slice.block, slice.started_at));
        let mut seen = HashSet::new();
        slices.retain(|slice| {
            let SliceRecord { block, target, launch, server_start, microbenchmark, started_at, .. } = slice;
            let key = (*block, target.0.clone(), launch.clone(), *server_start, microbenchmark.clone(), *started_at);
            seen.insert(key)
        });
        self.write_pack(sweep, &slices)?;
        for path in loose {
            fs::remove_file(path).map_err(io_error("remove", path))?;
            // Gone with its last slice; a directory that holds anything else stays.
            let _ = path.parent().map(fs::remove_dir);
        }
        Ok(())
    }

    /// Writes the one file of a sweep whose slices are all at hand.
    pub fn write_pack(&self, sweep: &str, slices: &[SliceRecord]) -> Result<(), StoreError> {
        let dir = self.sweep_dir(sweep)?;
        files::create_directory(&dir).map_err(io_error("create", &dir))?;
        write_slices(&dir.join(PACK), slices)
    }

    /// Removes a sweep from the results, and nothing that regtrack did not make.
    pub fn remove_sweep(&self, id: &str) -> Result<(), StoreError> {
        let dir = self.sweep_dir(id)?;
        self.existing(id)?;
        for path in files::entries(&dir).map_err(io_error("list", &dir))? {
            if !SWEEP_ENTRIES.iter().any(|name| path.ends_with(name)) {
                return Err(StoreError::ForeignInSweep { path });
            }
        }
        let current = self.dir.join("current");
        if fs::read_to_string(&current).is_ok_and(|text| text.trim() == id) {
            fs::remove_file(&current).map_err(io_error("remove", &current))?;
        }
        // Out of sight in one step: a sweep is never seen half removed.
        let doomed = files::temporary(&dir);
        fs::rename(&dir, &doomed).map_err(io_error("remove", &dir))?;
        fs::remove_dir_all(&doomed).map_err(io_error("remove", &doomed))
    }

    /// Keeps the text of the suite's definition with a sweep.
    pub fn write_suite(&self, sweep: &str, text: &str) -> Result<(), StoreError> {
        let dir = self.sweep_dir(sweep)?;
        files::create_directory(&dir).map_err(io_error("create", &dir))?;
        let path = dir.join(SUITE);
        files::write_atomically(&path, text.as_bytes()).map_err(io_error("write", &path))
    }

    /// The text of the suite's definition; `None` for imported tables.
    pub fn suite(&self, sweep: &str) -> Result<Option<String>, StoreError> {
        let path = self.sweep_dir(sweep)?.join(SUITE);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error("read", &path)(error)),
        }
    }

    /// Keeps what a weekly report says of a sweep, so that the next one knows what it corrects.
    pub fn write_told(&self, summary: &WeekSummary) -> Result<(), StoreError> {
        self.existing(&summary.sweep)?;
        let path = self.sweep_dir(&summary.sweep)?.join(TOLD);
        write_json(&path, &Told { format: FORMAT, summary: summary.clone() })
    }

    /// What the last weekly report said of a sweep; `None` before the first.
    pub fn told(&self, sweep: &str) -> Result<Option<WeekSummary>, StoreError> {
        let told: Option<Told> = read_json(&self.sweep_dir(sweep)?.join(TOLD))?;
        Ok(told.map(|told| told.summary))
    }

    /// The file for the server's log of a launch; its directory is made.
    pub fn log(&self, sweep: &str, launch: &str) -> Result<PathBuf, StoreError> {
        check_name(launch)?;
        let dir = self.sweep_dir(sweep)?.join("logs");
        files::create_directory(&dir).map_err(io_error("create", &dir))?;
        Ok(dir.join(format!("{launch}.log")))
    }

    /// Writes all slices of a sweep into one Parquet file.
    pub fn export_parquet(&self, sweep: &str, path: &Path) -> Result<(), StoreError> {
        write_slices(path, &self.slices(sweep)?)
    }

    fn sweeps_dir(&self) -> PathBuf {
        self.dir.join("sweeps")
    }

    fn sweep_dir(&self, id: &str) -> Result<PathBuf, StoreError> {
        check_name(id)?;
        Ok(self.sweeps_dir().join(id))
    }
}

fn write_pid(mut file: &File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

/// Refuses names that would lead out of the directory or look unfinished.
fn check_name(name: &str) -> Result<(), StoreError> {
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
    if plain && !name.is_empty() && !name.starts_with('.') {
        return Ok(());
    }
    Err(StoreError::Name { name: name.to_owned() })
}

/// A microbenchmark's name as a file name.
fn slug(microbenchmark: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
    let slug: String = microbenchmark.chars().map(plain).collect();
    slug.trim_start_matches('.').to_owned()
}

/// Keeps one timed and one counting slice of each block, target and microbenchmark.
fn latest(slices: Vec<SliceRecord>) -> Vec<SliceRecord> {
    let rank =
        |slice: &SliceRecord| (matches!(slice.outcome, Outcome::Measured(_)), slice.started_at, slice.server_start);
    let mut best: HashMap<(u32, &str, &str, bool), usize> = HashMap::new();
    for (index, slice) in slices.iter().enumerate() {
        let kept =
            best.entry((slice.block, &slice.target.0, &slice.microbenchmark, slice.is_counting())).or_insert(index);
        if rank(slice) >= rank(&slices[*kept]) {
            *kept = index;
        }
    }
    let mut kept = vec![false; slices.len()];
    for index in best.into_values() {
        kept[index] = true;
    }
    slices.into_iter().zip(kept).filter_map(|(slice, kept)| kept.then_some(slice)).collect()
}

/// Slices from the bytes of a file.
type Decode = fn(&[u8]) -> Result<Vec<SliceRecord>, ColumnsError>;

fn read_slices(path: &Path, decode: Decode) -> Result<Vec<SliceRecord>, StoreError> {
    let bytes = fs::read(path).map_err(io_error("read", path))?;
    decode(&bytes).map_err(|source| StoreError::Slices { path: path.to_owned(), source })
}

fn write_slices(path: &Path, slices: &[SliceRecord]) -> Result<(), StoreError> {
    let encoded = columns::to_parquet(slices);
    let bytes = encoded.map_err(|source| StoreError::Encode { path: path.to_owned(), source })?;
    files::write_atomically(path, &bytes).map_err(io_error("write", path))
}

fn write_json(path: &Path, value: &impl Serialize) -> Result<(), StoreError> {
    let json = serde_json::to_string_pretty(value);
    let json = json.map_err(|source| StoreError::Json { path: path.to_owned(), source })?;
    files::write_atomically(path, format!("{json}\n").as_bytes()).map_err(io_error("write", path))
}

/// Reads a file with a `format` field; `None` when it does not exist.
fn read_json<T: serde::de::DeserializeOwned>(path: &Path) -> Result<Option<T>, StoreError> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        bytes => bytes.map_err(io_error("read", path))?,
    };
    let json = |source| StoreError::Json { path: path.to_owned(), source };
    // The format is looked at first: a newer file need not fit our types.
    let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(json)?;
    match value.get("format").and_then(serde_json::Value::as_u64) {
        Some(found) if found > u64::from(FORMAT) => Err(StoreError::NewerFormat { path: path.to_owned(), found }),
        _ => serde_json::from_value(value).map(Some).map_err(json),
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use tempfile::TempDir;

    use super::*;
    use crate::domain::{Measurement, Origin, TargetId};

    fn temporary_store() -> (TempDir, Store) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create_or_open(dir.path().join("results")).unwrap();
        (dir, store)
    }

    fn manifest(id: &str, second: i64) -> SweepManifest {
        let at = Timestamp::from_second(second).unwrap();
        SweepManifest {
            format: FORMAT,
            id: id.to_owned(),
            regtrack: "0.1.0".to_owned(),
            created_at: at,
            updated_at: at,
            command: "regtrack sweep".to_owned(),
            arguments: vec![],
            origin: Origin::Imported { files: vec![] },
            launches: 1,
            stopping: None,
            targets: vec![],
            former_targets: vec![],
            base: TargetId("9.0.23-0".to_owned()),
            host: None,
            placement: None,
            blind: None,
            doctor: Vec::new(),
        }
    }

    fn slice(launch: &str, second: i64, queries: Option<u64>) -> SliceRecord {
        SliceRecord {
            block: 1,
            target: TargetId("17.10-3fa9c1d2".to_owned()),
            launch: launch.to_owned(),
            server_start: 1,
            microbenchmark: "point-query.pre_range=100".to_owned(),
            started_at: Timestamp::from_second(second).unwrap(),
            outcome: queries.map_or_else(
                || Outcome::Failed("the server died".to_owned()),
                |queries| Outcome::Measured(Box::new(Measurement { seconds: 1.0, queries, ..Measurement::default() })),
            ),
        }
    }

    fn queries(slices: &[SliceRecord]) -> Vec<Option<u64>> {
        slices.iter().map(|slice| slice.outcome.measurement().map(|m| m.queries)).collect()
    }

    #[test]
    fn a_foreign_directory_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.txt"), "precious").unwrap();
        let error = Store::create_or_open(dir.path()).unwrap_err();
        assert!(matches!(error, StoreError::Foreign { .. }), "{error}");
        assert!(matches!(Store::open(dir.path()).unwrap_err(), StoreError::Foreign { .. }));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
        let file = Store::create_or_open(dir.path().join("thesis.txt")).unwrap_err().to_string();
        assert!(file.contains("is not a directory"), "{file}");
    }

    #[test]
    fn opening_needs_results() {
        let dir = tempfile::tempdir().unwrap();
        for path in [dir.path().to_owned(), dir.path().join("none")] {
            let message = Store::open(&path).unwrap_err().to_string();
            assert!(message.ends_with("run a sweep or import tables first"), "{message}");
        }
        // A marker that was being written when the process died does not make the directory foreign.
        fs::write(dir.path().join(".tmp-regtrack-results.json-1"), "{").unwrap();
        let store = Store::create_or_open(dir.path()).unwrap();
        assert!(matches!(store.current().unwrap_err(), StoreError::NoResults { .. }));
        Store::open(dir.path()).unwrap();
    }

    #[test]
    fn newer_and_broken_files_are_named() {
        let (_dir, store) = temporary_store();
        fs::write(store.dir().join(MARKER), r#"{"format": 2, "layout": "other"}"#).unwrap();
        let message = Store::create_or_open(store.dir()).unwrap_err().to_string();
        assert!(message.contains("regtrack-results.json' has format 2"), "{message}");
        fs::write(store.dir().join(MARKER), "{").unwrap();
        assert!(matches!(Store::open(store.dir()).unwrap_err(), StoreError::Json { .. }));
    }

    #[test]
    fn one_process_writes_at_a_time() {
        let (_dir, store) = temporary_store();
        let lock = store.lock().unwrap();
        let message = store.lock().unwrap_err().to_string();
        assert!(message.contains(&format!("by process {}:", std::process::id())), "{message}");
        drop(lock);
        store.lock().unwrap();
    }

    #[test]
    fn sweeps_are_listed_by_age_and_one_is_current() {
        let (_dir, store) = temporary_store();
        store.write_manifest(&manifest("b", 1)).unwrap();
        store.write_manifest(&manifest("a", 2)).unwrap();
        let ids: Vec<_> = store.sweeps().unwrap().into_iter().map(|manifest| manifest.id).collect();
        assert_eq!(ids, ["b", "a"]);
        assert_eq!(store.current().unwrap().id, "a");
        store.set_current("b").unwrap();
        assert_eq!(store.current().unwrap(), manifest("b", 1));
        assert!(matches!(store.set_current("c").unwrap_err(), StoreError::UnknownSweep { .. }));
        assert!(matches!(store.manifest("../b").unwrap_err(), StoreError::Name { .. }));
        assert_eq!(store.manifest("c").unwrap(), None);
    }

    #[test]
    fn a_measured_slice_counts_before_a_failed_one_and_then_the_newest() {
        let (_dir, store) = temporary_store();
        store.append("s", &slice("b1-a-1", 10, None)).unwrap();
        store.append("s", &slice("b1-a-1", 11, None)).unwrap();
        assert_eq!(store.slices("s").unwrap(), [slice("b1-a-1", 11, None)]);
        store.append("s", &slice("b1-a-2", 12, Some(5))).unwrap();
        store.append("s", &slice("b1-a-3", 13, None)).unwrap();
        assert_eq!(queries(&store.slices("s").unwrap()), [Some(5)]);
        store.append("s", &slice("b1-a-4", 14, Some(6))).unwrap();
        store.append("s", &SliceRecord { block: 2, ..slice("b2-a-1", 9, Some(7)) }).unwrap();
        assert_eq!(queries(&store.slices("s").unwrap()), [Some(6), Some(7)]);

        let file = store.dir().join("all.parquet");
        store.export_parquet("s", &file).unwrap();
        assert_eq!(queries(&columns::from_parquet(&fs::read(&file).unwrap()).unwrap()), [Some(6), Some(7)]);
    }

    #[test]
    fn packed_slices_are_the_same_slices_and_more_can_be_added() {
        let (_dir, store) = temporary_store();
        for (launch, second, queries) in [("b1-a-1", 10, None), ("b1-a-2", 12, Some(5)), ("b1-a-3", 13, None)] {
            store.append("s", &slice(launch, second, queries)).unwrap();
        }
        let loose = store.slices("s").unwrap();
        let files = || store.slice_files("s").unwrap().len();
        assert_eq!(files(), 3);
        store.pack("s").unwrap();
        store.pack("s").unwrap();
        assert_eq!((store.slices("s").unwrap(), files()), (loose, 1));
        assert!(!store.dir().join("sweeps/s/slices/b1-a-1").exists());

        // What a kill between writing and removing leaves.
        store.append("s", &slice("b1-a-2", 12, Some(5))).unwrap();
        store.append("s", &slice("b1-a-4", 14, Some(6))).unwrap();
        store.pack("s").unwrap();
        assert_eq!((queries(&store.slices("s").unwrap()), files()), (vec![Some(6)], 1));
        let packed = read_slices(&store.dir().join("sweeps/s").join(PACK), columns::from_parquet).unwrap();
        assert_eq!(packed.len(), 4, "superseded ones stay, repetitions do not");
        store.write_manifest(&manifest("s", 1)).unwrap();
        store.remove_sweep("s").unwrap();
        assert!(!store.dir().join("sweeps/s").exists());
    }

    #[test]
    fn a_count_of_instructions_stands_beside_the_timed_slice() {
        let (_dir, store) = temporary_store();
        let timed = slice("b1-a-1", 10, Some(5));
        let counting = SliceRecord { launch: SliceRecord::counting_launch(1, &timed.target), ..timed.clone() };
        assert!(counting.is_counting() && !timed.is_counting());
        store.append("s", &timed).unwrap();
        store.append("s", &counting).unwrap();
        store.append("s", &SliceRecord { outcome: Outcome::Failed("late".to_owned()), ..counting.clone() }).unwrap();
        let read = store.slices("s").unwrap();
        assert!(read.len() == 2 && read.contains(&timed) && read.contains(&counting), "{read:?}");
    }

    #[test]
    fn leftovers_are_ignored_and_removed_by_the_next_writer() {
        let (_dir, store) = temporary_store();
        store.append("s", &slice("b1-a-1", 10, Some(5))).unwrap();
        let leftover = store.dir().join("sweeps/s/slices/b1-a-1/.tmp-x.parquet-1");
        fs::write(&leftover, "PAR1").unwrap();
        fs::create_dir_all(store.dir().join("sweeps/.tmp-old-1/slices")).unwrap();
        fs::write(store.dir().join(".tmp-current-1"), "s").unwrap();
        assert_eq!(queries(&store.slices("s").unwrap()), [Some(5)]);
        assert!(store.sweeps().unwrap().is_empty());
        store.lock().unwrap();
        assert!(!leftover.exists());
        assert!(!store.dir().join("sweeps/.tmp-old-1").exists() && !store.dir().join(".tmp-current-1").exists());
        assert_eq!(queries(&store.slices("s").unwrap()), [Some(5)]);
    }

    #[test]
    fn a_damaged_slice_file_is_named_with_the_way_out() {
        let (_dir, store) = temporary_store();
        store.append("s", &slice("b1-a-1", 10, Some(5))).unwrap();
        let path = store.dir().join("sweeps/s/slices/b1-a-1/point-query.pre_range-100.parquet");
        let whole = fs::read(&path).unwrap();
        fs::write(&path, &whole[..whole.len() / 2]).unwrap();
        let message = store.slices("s").unwrap_err().to_string();
        assert!(message.contains("point-query.pre_range-100.parquet': move the file away"), "{message}");
        // A complete file whose footer describes nonsense.
        let mut broken = whole.clone();
        let length = broken.len();
        broken[length - 60..length - 8].fill(0xff);
        fs::write(&path, broken).unwrap();
        assert!(matches!(store.slices("s").unwrap_err(), StoreError::Slices { .. }));
        fs::remove_file(&path).unwrap();
        assert!(store.slices("s").unwrap().is_empty());
    }

    #[test]
    fn only_what_regtrack_made_is_removed() {
        let (_dir, store) = temporary_store();
        store.write_manifest(&manifest("s", 1)).unwrap();
        store.append("s", &slice("b1-a-1", 10, Some(5))).unwrap();
        store.set_current("s").unwrap();
        let notes = store.dir().join("sweeps/s/notes.txt");
        fs::write(&notes, "mine").unwrap();
        assert!(matches!(store.remove_sweep("s").unwrap_err(), StoreError::ForeignInSweep { .. }));
        assert_eq!(store.current().unwrap().id, "s");
        fs::remove_file(notes).unwrap();
        store.remove_sweep("s").unwrap();
        assert!(store.sweeps().unwrap().is_empty());
        assert!(matches!(store.current().unwrap_err(), StoreError::NoResults { .. }));
        assert!(matches!(store.remove_sweep("s").unwrap_err(), StoreError::UnknownSweep { .. }));
    }
}
