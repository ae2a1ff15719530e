//! One launch: a cluster made, loaded, started, measured step by step, and given up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::slice::{self, SliceError, SliceSpec};
use super::{Bench, Launch, LaunchFacts, LaunchSpec, MeasureError};
use crate::domain::{Major, Measurement, Microbenchmark, Version};
use crate::load::{self, Control, DatasetError};
use crate::process::log_tail;
use crate::server::{self, Account, Cluster, Server, StartOptions};
use crate::sql::Connection;

/// First major whose VACUUM can be told to clean indexes.
const INDEX_CLEANUP_SINCE: Major = Major::new(12, 0);

/// How long a server may take to notice that a backend crashed, before its log is read.
const CRASH_DELAY: Duration = Duration::from_millis(500);

pub(super) const STATE_FILE: &str = "launch.json";
pub(super) const DATA_DIR: &str = "data";

/// Real servers on this machine.
pub struct LiveBench {
    /// Who servers run as.
    pub account: Account,
    /// How they are made reachable.
    pub start: StartOptions,
    /// Stop flag and live rate.
    pub control: Arc<Control>,
}

/// How far a launch has come, kept in its directory so that an interrupted launch can go on.
#[derive(Debug, Default, Serialize, Deserialize)]
struct LaunchState {
    /// Digest of the loaded rows; set when load, warm-up and first postwrite are complete.
    data_digest: Option<String>,
    server_starts: u32,
    /// Steps whose effect on the table is in: names of microbenchmarks, and `postwrite N`.
    done: Vec<String>,
}

struct LiveLaunch<'a> {
    bench: &'a LiveBench,
    spec: LaunchSpec,
    state: LaunchState,
    facts: LaunchFacts,
    running: Option<Running>,
}

struct Running {
    server: Server,
    admin: Connection,
}

impl Bench for LiveBench {
    fn open(&mut self, spec: &LaunchSpec) -> Result<Box<dyn Launch + '_>, MeasureError> {
        let mut launch = LiveLaunch {
            bench: self,
            spec: spec.clone(),
            state: LaunchState::default(),
            facts: LaunchFacts::default(),
            running: None,
        };
        launch.open()?;
        Ok(Box::new(launch))
    }
}

impl LiveLaunch<'_> {
    /// Continues the launch that lies in the directory, or begins a new one.
    fn open(&mut self) -> Result<(), MeasureError> {
        let data = self.spec.directory.join(DATA_DIR);
        let state_path = self.spec.directory.join(STATE_FILE);
        let state = fs::read(&state_path).ok().and_then(|bytes| serde_json::from_slice::<LaunchState>(&bytes).ok());
        match state {
            Some(state) if state.data_digest.is_some() && data.exists() => {
                self.state = state;
                let cluster = Cluster::reopen(&self.spec.build, &self.bench.account, &data)?;
                self.start(cluster)?;
                // The buffers of the server that went before are gone.
                self.warm_up()?;
            }
            _ => {
                remove_launch_dir(&self.spec.directory)?;
                self.begin(&data)?;
            }
        }
        self.facts.data_digest = self.state.data_digest.clone().unwrap_or_default();
        self.facts.done = self.state.done.iter().cloned().collect();
        Ok(())
    }

    /// initdb, start, load, warm-up, first postwrite.
    fn begin(&mut self, data: &Path) -> Result<(), MeasureError> {
        let directory = &self.spec.directory;
        create_launch_dir(directory, &self.bench.account)?;
        self.save_state()?;
        let cluster =
            Cluster::create(&self.spec.build, &self.bench.account, data, &self.spec.init, &self.spec.settings)?;
        self.start(cluster)?;
        let suite = Arc::clone(&self.spec.suite);
        let loaded =
            load::load(&self.running()?.admin, &suite.dataset, self.spec.protocol.rows, &self.bench.control.stop);
        let digest = match loaded {
            Err(DatasetError::Interrupted { .. }) => return Err(MeasureError::Interrupted),
            other => other?,
        };
        tracing::debug!(digest, "loaded");
        self.warm_up()?;
        if suite.postwrite_after.contains(&suite.warmup.step) {
            self.postwrite_now()?;
        }
        self.state.data_digest = Some(digest);
        self.save_state()
    }

    /// The unreported warm-up of the suite.
    fn warm_up(&mut self) -> Result<(), MeasureError> {
        let suite = Arc::clone(&self.spec.suite);
        let mut protocol = self.spec.protocol.clone();
        protocol.read_seconds = protocol.load_warmup_seconds;
        protocol.slice_warmup_seconds = 0.0;
        self.slice(&suite.warmup, &protocol).map(drop)
    }

    fn start(&mut self, cluster: Cluster) -> Result<(), MeasureError> {
        let start = StartOptions { brake: self.spec.brake, ..self.bench.start.clone() };
        let server = cluster.start(&start, &self.spec.log)?;
        let admin = server.connect().map_err(MeasureError::Admin)?;
        check_version(&admin, self.spec.build.version)?;
        self.state.server_starts += 1;
        self.facts.server_start = self.state.server_starts;
        self.facts.settings = settings(&admin)?;
        tracing::debug!(port = server.endpoint().port, starts = self.state.server_starts, "server is up");
        self.running = Some(Running { server, admin });
        self.save_state()
    }

    fn running(&self) -> Result<&Running, MeasureError> {
        self.running.as_ref().ok_or(MeasureError::NoServer { version: self.spec.build.version })
    }

    fn slice(
        &mut self,
        microbenchmark: &Microbenchmark,
        protocol: &crate::domain::Protocol,
    ) -> Result<(Timestamp, Measurement), MeasureError> {
        let version = self.spec.build.version;
        let running = self.running.as_mut().ok_or(MeasureError::NoServer { version })?;
        let spec = SliceSpec {
            endpoint: running.server.endpoint(),
            major: version.major,
            microbenchmark,
            protocol,
            seed: self.spec.seed.wrapping_add(u64::from(microbenchmark.step)),
        };
        let source = match slice::measure(&spec, &running.admin, &self.bench.control) {
            Ok(measured) => return Ok(measured),
            Err(SliceError::Interrupted) => return Err(MeasureError::Interrupted),
            Err(SliceError::Wire(error)) => SliceFailure::Wire(error),
            Err(SliceError::Sql(error)) => SliceFailure::Sql(error),
        };
        if self.bench.control.stop.load(Ordering::Relaxed) {
            return Err(MeasureError::Interrupted);
        }
        std::thread::sleep(CRASH_DELAY);
        running.server.check_alive()?;
        Err(source.into_error(microbenchmark, &self.spec.log))
    }

    fn postwrite_now(&mut self) -> Result<(), MeasureError> {
        tracing::debug!("postwrite");
        let begin = Instant::now();
        tidy(&self.running()?.admin, self.spec.build.version.major, &self.spec.suite.dataset.table)?;
        let rest = Duration::from_secs_f64(self.spec.protocol.postwrite_rest_seconds);
        while begin.elapsed() < rest {
            self.check_stop()?;
            std::thread::sleep(Duration::from_millis(50).min(rest));
        }
        self.check_stop()
    }

    fn check_stop(&self) -> Result<(), MeasureError> {
        if self.bench.control.stop.load(Ordering::Relaxed) { Err(MeasureError::Interrupted) } else { Ok(()) }
    }

    fn mark_done(&mut self, step: String) -> Result<(), MeasureError> {
        self.facts.done.insert(step.clone());
        self.state.done.push(step);
        self.save_state()
    }

    fn save_state(&self) -> Result<(), MeasureError> {
        let path = self.spec.directory.join(STATE_FILE);
        let temporary = self.spec.directory.join("launch.json.tmp");
        let write = || -> std::io::Result<()> {
            fs::write(&temporary, serde_json::to_vec_pretty(&self.state)?)?;
            fs::rename(&temporary, &path)
        };
        write().map_err(|source| MeasureError::LaunchFile { path: path.clone(), source })
    }
}

impl Launch for LiveLaunch<'_> {
    fn facts(&self) -> &LaunchFacts {
        &self.facts
    }

    fn measure(&mut self, microbenchmark: &Microbenchmark) -> Result<(Timestamp, Measurement), MeasureError> {
        self.check_stop()?;
        let protocol = self.spec.protocol.clone();
        let measured = self.slice(microbenchmark, &protocol)?;
        self.mark_done(microbenchmark.name.clone())?;
        Ok(measured)
    }

    fn postwrite(&mut self, step: u32) -> Result<(), MeasureError> {
        self.postwrite_now()?;
        self.mark_done(super::postwrite_name(step))
    }

    fn recover(&mut self) -> Result<(), MeasureError> {
        // Dropping the old server stops what is left of it.
        self.running = None;
        let data = self.spec.directory.join(DATA_DIR);
        let cluster = Cluster::reopen(&self.spec.build, &self.bench.account, &data)?;
        self.start(cluster)?;
        self.warm_up()
    }

    fn close(mut self: Box<Self>, keep: bool) -> Result<(), MeasureError> {
        if let Some(running) = self.running.take() {
            drop(running.admin);
            running.server.stop()?;
        }
        if keep {
            return Ok(());
        }
        remove_launch_dir(&self.spec.directory)
    }
}

enum SliceFailure {
    Wire(load::WireError),
    Sql(crate::sql::SqlError),
}

impl SliceFailure {
    fn into_error(self, microbenchmark: &Microbenchmark, log: &Path) -> MeasureError {
        let (name, log) = (microbenchmark.name.clone(), log.to_owned());
        let tail = log_tail(&log).into_iter().rev().take(3).rev().collect();
        match self {
            Self::Wire(source) => MeasureError::Slice { microbenchmark: name, source, tail, log },
            Self::Sql(source) => MeasureError::Probe { microbenchmark: name, source, log },
        }
    }
}

pub(super) fn create_launch_dir(directory: &Path, account: &Account) -> Result<(), MeasureError> {
    let error = |source| MeasureError::LaunchFile { path: directory.to_owned(), source };
    if let Some(parent) = directory.parent() {
        fs::create_dir_all(parent).map_err(error)?;
    }
    account.create_dir(directory)?;
    Ok(())
}

/// Removes a launch's directory with its cluster. Only a directory that holds nothing but a
/// launch's own entries is touched.
pub(super) fn remove_launch_dir(directory: &Path) -> Result<(), MeasureError> {
    let error = |source| MeasureError::LaunchFile { path: directory.to_owned(), source };
    if !directory.exists() {
        return Ok(());
    }
    let data = directory.join(DATA_DIR);
    if data.exists() {
        // A server that a killed regtrack left behind still writes there.
        server::stop_leftover(&data)?;
        server::remove_socket_dir(&data);
    }
    let own = [DATA_DIR, STATE_FILE, "launch.json.tmp"];
    for entry in fs::read_dir(directory).map_err(error)? {
        let name = entry.map_err(error)?.file_name();
        if !own.iter().any(|known| name.to_str() == Some(known)) {
            let path: PathBuf = directory.join(name);
            return Err(MeasureError::ForeignFile { path });
        }
    }
    fs::remove_dir_all(directory).map_err(error)
}

/// Removes the launches below `directory` that are not in `wanted`: a regtrack that was killed while
/// it gave up a finished launch leaves such. The directory itself goes when it is empty.
pub fn remove_stale(directory: &Path, wanted: &BTreeSet<&str>) -> Result<(), MeasureError> {
    let Ok(entries) = fs::read_dir(directory) else { return Ok(()) };
    for entry in entries {
        let entry = entry.map_err(|source| MeasureError::LaunchFile { path: directory.to_owned(), source })?;
        let is_wanted = entry.file_name().to_str().is_some_and(|name| wanted.contains(name));
        if !is_wanted && entry.path().join(STATE_FILE).exists() {
            remove_launch_dir(&entry.path())?;
        }
    }
    // Fails harmlessly while launches remain.
    let _ = fs::remove_dir(directory);
    Ok(())
}

/// Vacuum with new statistics, then a checkpoint.
pub(super) fn tidy(admin: &Connection, major: Major, table: &str) -> Result<(), MeasureError> {
    let cleanup = if major >= INDEX_CLEANUP_SINCE { ", INDEX_CLEANUP ON" } else { "" };
    for sql in [format!("VACUUM (VERBOSE, ANALYZE{cleanup}) {table}"), "CHECKPOINT".to_owned()] {
        admin.execute(&sql).map_err(MeasureError::Admin)?;
    }
    Ok(())
}

/// A pre-release reports its number as x.0, so only the major can be checked there.
pub(super) fn check_version(admin: &Connection, expected: Version) -> Result<(), MeasureError> {
    let text = admin.text("SELECT current_setting('server_version_num')").map_err(MeasureError::Admin)?;
    let found = text.and_then(|text| text.parse().ok()).map(Version::from_server_version_num);
    match found {
        Some(found) if found == expected => Ok(()),
        Some(found) if expected.is_prerelease() && found.major == expected.major => Ok(()),
        found => Err(MeasureError::WrongVersion { expected, found }),
    }
}

/// Settings that differ from the built-in default, without those that name this one launch.
fn settings(admin: &Connection) -> Result<BTreeMap<String, String>, MeasureError> {
    const SQL: &str = "SELECT name, current_setting(name) FROM pg_settings \
        WHERE setting IS DISTINCT FROM boot_val AND name NOT IN ('port', 'data_directory', 'config_file', \
        'hba_file', 'ident_file', 'unix_socket_directory', 'unix_socket_directories', 'application_name', \
        'client_encoding', 'server_version', 'server_version_num', 'transaction_isolation', 'shared_memory_size', \
        'shared_memory_size_in_huge_pages', 'num_os_semaphores', 'in_hot_standby')";
    let rows = admin.query(SQL, &[]).map_err(MeasureError::Admin)?;
    Ok(rows.iter().map(|row| (row.get(0), row.get::<_, Option<String>>(1).unwrap_or_default())).collect())
}
