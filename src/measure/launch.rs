//! One launch: a cluster made, loaded, started, measured step by step, and given up.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::placement::Cpus;
use super::slice::{Slice, SliceError};
use super::upkeep::{cache, is_stable, tidy, vacuum};
use super::{Bench, Launch, LaunchFacts, LaunchSpec, MeasureError, Stretch};
use crate::domain::{Measurement, Microbenchmark, Placement, Version};
use crate::load::{self, Control, DatasetError, Until};
use crate::process::log_tail;
use crate::server::{self, Account, Cluster, Server, StartOptions};
use crate::sql::Connection;

/// How long a server may take to notice that a backend crashed, before its log is read.
const CRASH_DELAY: Duration = Duration::from_millis(500);

/// Added to the settings where launches take turns: a server that is not being measured has to be idle. What
/// autovacuum would do at any time is done after each microbenchmark that writes.
const QUIET: &str = "\n# Servers take turns, so nothing may work in the background\nautovacuum = off\n";

/// Length of a window of the warm-up as a share of its longest duration.
const WINDOW_SHARE: f64 = 0.1;

pub(super) const STATE_FILE: &str = "launch.json";
const TEMPORARY_STATE_FILE: &str = "launch.json.tmp";
pub(super) const DATA_DIR: &str = "data";

/// Real servers on this machine.
#[derive(Debug)]
pub struct LiveBench {
    /// Who servers run as.
    pub account: Account,
    /// How they are made reachable.
    pub start: StartOptions,
    /// Stop flag and live rate.
    pub control: Arc<Control>,
    /// Which CPUs client and servers use.
    pub placement: Placement,
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

pub(super) struct LiveLaunch<'a> {
    bench: &'a LiveBench,
    spec: LaunchSpec,
    state: LaunchState,
    facts: LaunchFacts,
    running: Option<Running>,
    cpus: Cpus,
    /// Set while the rest of a postwrite may be going on.
    postwrite_at: Option<Instant>,
}

struct Running {
    /// Dropped before the server that it is connected to.
    slice: Option<(Microbenchmark, Slice)>,
    admin: Connection,
    server: Server,
}

impl Bench for LiveBench {
    fn open(&self, spec: &LaunchSpec) -> Result<Box<dyn Launch + '_>, MeasureError> {
        let launch = self.launch(spec)?;
        Ok(Box::new(launch))
    }
}

impl LiveBench {
    /// A launch that is up.
    pub(super) fn launch(&self, spec: &LaunchSpec) -> Result<LiveLaunch<'_>, MeasureError> {
        let mut launch = LiveLaunch {
            bench: self,
            spec: spec.clone(),
            state: LaunchState::default(),
            facts: LaunchFacts::default(),
            running: None,
            cpus: Cpus::choose(self.placement)?,
            postwrite_at: None,
        };
        launch.open()?;
        Ok(launch)
    }
}

impl LiveLaunch<'_> {
    /// Moves client and backend to other CPUs.
    pub(super) fn place(&mut self, placement: Placement) -> Result<(), MeasureError> {
        self.cpus = Cpus::choose(placement)?;
        let running = self.running()?;
        let (_, slice) = running.slice.as_ref().ok_or(MeasureError::NoSlice)?;
        slice.backend_pids().iter().try_for_each(|pid| self.cpus.bind_backends(*pid))
    }

    /// Continues the launch that lies in the directory, or begins a new one.
    fn open(&mut self) -> Result<(), MeasureError> {
        let data = self.spec.directory.join(DATA_DIR);
        match read_state(&self.spec.directory) {
            Some(state) if state.data_digest.is_some() && data.exists() => {
                self.state = state;
                let cluster = Cluster::reopen(&self.spec.build, &self.bench.account, &data)?;
                self.start(cluster)?;
                // The buffers of the server that went before are gone.
                self.warm_up()?;
            }
            _ => {
                remove_launch_dir(&self.spec.directory)?;
                self.make(&data)?;
            }
        }
        self.facts.data_digest = self.state.data_digest.clone().unwrap_or_default();
        self.facts.done = self.state.done.iter().cloned().collect();
        Ok(())
    }

    /// A loaded data directory, start, warm-up, first postwrite.
    fn make(&mut self, data: &Path) -> Result<(), MeasureError> {
        create_launch_dir(&self.spec.directory, &self.bench.account)?;
        self.save_state()?;
        let digest = match self.spec.template.clone() {
            Some(template) => {
                let digest = self.template(&template)?;
                let loaded = Cluster::reopen(&self.spec.build, &self.bench.account, &template.join(DATA_DIR))?;
                self.start(loaded.copy_to(data)?)?;
                digest
            }
            None => self.load(data)?,
        };
        self.warm_up()?;
        let suite = Arc::clone(&self.spec.suite);
        if suite.postwrite_after.contains(&suite.warmup.step) {
            self.postwrite_now()?;
        }
        self.state.data_digest = Some(digest);
        self.save_state()
    }

    /// initdb in `data`, start, load. Returns the digest of the rows.
    fn load(&mut self, data: &Path) -> Result<String, MeasureError> {
        let quiet = if self.spec.protocol.takes_turns() { QUIET } else { "" };
        let settings = format!("{}{quiet}", self.spec.settings);
        let cluster = Cluster::create(&self.spec.build, &self.bench.account, data, &self.spec.init, &settings)?;
        self.start(cluster)?;
        let suite = Arc::clone(&self.spec.suite);
        let loaded =
            load::load(&self.running()?.admin, &suite.dataset, self.spec.protocol.rows, &self.bench.control.stop);
        let digest = match loaded {
            Err(DatasetError::Interrupted { .. }) => return Err(MeasureError::Interrupted),
            other => other?,
        };
        tracing::debug!(digest, "loaded");
        Ok(digest)
    }

    /// Makes the target's template unless an earlier launch has. Returns the digest of its rows.
    fn template(&mut self, directory: &Path) -> Result<String, MeasureError> {
        if let Some(digest) = read_state(directory).and_then(|state| state.data_digest) {
            return Ok(digest);
        }
        remove_launch_dir(directory)?;
        create_launch_dir(directory, &self.bench.account)?;
        write_state(directory, &LaunchState::default())?;
        let digest = self.load(&directory.join(DATA_DIR))?;
        let running = self.running.take().ok_or(MeasureError::NoServer { version: self.spec.build.version })?;
        tidy(&running.admin, self.spec.build.version.major, &self.spec.suite.dataset.table)?;
        drop(running.admin);
        running.server.stop()?;
        write_state(directory, &LaunchState { data_digest: Some(digest.clone()), ..LaunchState::default() })?;
        // The start above belongs to the template and not to this launch.
        self.state.server_starts = 0;
        Ok(digest)
    }

    /// Brings the table into memory; then the unreported warm-up of the suite, for the protocol's seconds or, where
    /// launches take turns, until the rate is stable.
    fn warm_up(&mut self) -> Result<(), MeasureError> {
        let suite = Arc::clone(&self.spec.suite);
        cache(&self.running()?.admin, &suite.dataset.table)?;
        let longest = Duration::from_secs_f64(self.spec.protocol.load_warmup_seconds);
        self.begin(&suite.warmup)?;
        if self.spec.protocol.takes_turns() {
            self.run_until_stable(longest)?;
        } else {
            Launch::warm_up(self, Until::Elapsed(longest))?;
        }
        self.finish().map(drop)
    }

    fn run_until_stable(&mut self, longest: Duration) -> Result<(), MeasureError> {
        let window = Until::Elapsed(longest.mul_f64(WINDOW_SHARE));
        let (mut rates, begin) = (Vec::new(), Instant::now());
        while begin.elapsed() < longest && !is_stable(&rates) {
            let stretch = Launch::warm_up(self, window)?;
            rates.push(stretch.events as f64 / stretch.elapsed.as_secs_f64());
        }
        Ok(())
    }

    fn start(&mut self, cluster: Cluster) -> Result<(), MeasureError> {
        let start = StartOptions { brake: self.spec.brake, ..self.bench.start.clone() };
        let server = cluster.start(&start, &self.spec.log)?;
        self.cpus.bind_backends(server.pid())?;
        let admin = server.connect().map_err(MeasureError::Admin)?;
        check_version(&admin, self.spec.build.version)?;
        self.state.server_starts += 1;
        self.facts.server_start = self.state.server_starts;
        self.facts.settings = settings(&admin)?;
        tracing::debug!(port = server.endpoint().port, starts = self.state.server_starts, "server is up");
        self.running = Some(Running { slice: None, admin, server });
        self.save_state()
    }

    fn running(&self) -> Result<&Running, MeasureError> {
        self.running.as_ref().ok_or(MeasureError::NoServer { version: self.spec.build.version })
    }

    /// Does something with the slice that has been begun, on the client's CPU.
    fn with_slice<T>(
        &mut self,
        act: impl FnOnce(&mut Slice, &Connection, &Control) -> Result<T, SliceError>,
    ) -> Result<T, MeasureError> {
        self.check_stop()?;
        let version = self.spec.build.version;
        let running = self.running.as_mut().ok_or(MeasureError::NoServer { version })?;
        let (_, slice) = running.slice.as_mut().ok_or(MeasureError::NoSlice)?;
        let result = {
            let _pinned = self.cpus.client()?;
            act(slice, &running.admin, &self.bench.control)
        };
        result.map_err(|error| self.slice_failed(error))
    }

    /// What a failed slice means: an interruption, a dead server, or the statement's own failure.
    fn slice_failed(&mut self, error: SliceError) -> MeasureError {
        if matches!(error, SliceError::Interrupted) || self.bench.control.stop.load(Ordering::Relaxed) {
            return MeasureError::Interrupted;
        }
        let version = self.spec.build.version;
        let Some(running) = self.running.as_mut() else { return MeasureError::NoServer { version } };
        std::thread::sleep(CRASH_DELAY);
        if let Err(died) = running.server.check_alive() {
            return died.into();
        }
        let microbenchmark = running.slice.take().map(|(microbenchmark, _)| microbenchmark.name).unwrap_or_default();
        failure(error, microbenchmark, &self.spec.log)
    }

    fn postwrite_now(&mut self) -> Result<(), MeasureError> {
        tracing::debug!("postwrite");
        self.postwrite_at = Some(Instant::now());
        tidy(&self.running()?.admin, self.spec.build.version.major, &self.spec.suite.dataset.table)?;
        self.check_stop()
    }

    /// Waits for the end of the last postwrite's rest. Not at once, so that the rests of several launches pass together.
    fn rest(&mut self) -> Result<(), MeasureError> {
        let Some(begin) = self.postwrite_at.take() else { return Ok(()) };
        let rest = Duration::from_secs_f64(self.spec.protocol.postwrite_rest_seconds);
        while begin.elapsed() < rest {
            self.check_stop()?;
            std::thread::sleep(Duration::from_millis(50).min(rest));
        }
        Ok(())
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
        write_state(&self.spec.directory, &self.state)
    }
}

impl Launch for LiveLaunch<'_> {
    fn facts(&self) -> &LaunchFacts {
        &self.facts
    }

    fn begin(&mut self, microbenchmark: &Microbenchmark) -> Result<(), MeasureError> {
        self.rest()?;
        self.check_stop()?;
        let version = self.spec.build.version;
        let (rows, seed) = (self.spec.protocol.rows, self.spec.seed.wrapping_add(u64::from(microbenchmark.step)));
        let running = self.running.as_mut().ok_or(MeasureError::NoServer { version })?;
        let endpoint = running.server.endpoint();
        match Slice::open(endpoint, version.major, microbenchmark, rows, seed, &running.admin) {
            Ok(slice) => {
                running.slice = Some((microbenchmark.clone(), slice));
                Ok(())
            }
            Err(error) => Err(self.slice_failed(error)),
        }
    }

    fn warm_up(&mut self, until: Until) -> Result<Stretch, MeasureError> {
        self.with_slice(|slice, _, control| slice.warm_up(until, control))
    }

    fn stretch(&mut self, until: Until) -> Result<Stretch, MeasureError> {
        self.with_slice(|slice, admin, control| slice.stretch(until, admin, control))
    }

    fn finish(&mut self) -> Result<(Timestamp, Measurement), MeasureError> {
        let version = self.spec.build.version;
        let running = self.running.as_mut().ok_or(MeasureError::NoServer { version })?;
        let (microbenchmark, slice) = running.slice.take().ok_or(MeasureError::NoSlice)?;
        let is_warmup = microbenchmark.step == self.spec.suite.warmup.step;
        let measured = match slice.finish(&running.admin, self.spec.plans && !is_warmup) {
            Ok(measured) => measured,
            Err(error) => return Err(self.slice_failed(error)),
        };
        let suite = &self.spec.suite;
        let is_tidied = suite.postwrite_after.contains(&microbenchmark.step);
        if self.spec.protocol.takes_turns() && microbenchmark.writes() && !is_tidied {
            vacuum(&running.admin, version.major, &suite.dataset.table)?;
        }
        if !is_warmup {
            self.mark_done(microbenchmark.name)?;
        }
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
            drop(running.slice);
            drop(running.admin);
            running.server.stop()?;
        }
        if keep {
            return Ok(());
        }
        remove_launch_dir(&self.spec.directory)
    }
}

fn failure(error: SliceError, microbenchmark: String, log: &Path) -> MeasureError {
    let log = log.to_owned();
    match error {
        SliceError::Wire(source) => {
            let tail = log_tail(&log).into_iter().rev().take(3).rev().collect();
            MeasureError::Slice { microbenchmark, source, tail, log }
        }
        SliceError::Sql(source) => MeasureError::Probe { microbenchmark, source, log },
        SliceError::Interrupted => MeasureError::Interrupted,
    }
}

fn read_state(directory: &Path) -> Option<LaunchState> {
    fs::read(directory.join(STATE_FILE)).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok())
}

fn write_state(directory: &Path, state: &LaunchState) -> Result<(), MeasureError> {
    let path = directory.join(STATE_FILE);
    let temporary = directory.join(TEMPORARY_STATE_FILE);
    let write = || -> std::io::Result<()> {
        fs::write(&temporary, serde_json::to_vec_pretty(state)?)?;
        fs::rename(&temporary, &path)
    };
    write().map_err(|source| MeasureError::LaunchFile { path: path.clone(), source })
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
    let own = [DATA_DIR, STATE_FILE, TEMPORARY_STATE_FILE];
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
pub fn remove_stale(directory: &Path, wanted: &BTreeSet<String>) -> Result<(), MeasureError> {
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
