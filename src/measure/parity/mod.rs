//! regtrack's client and others on one server and one table, in turn.

mod counting;
mod statements;

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::placement::Cpus;

use super::MeasureError;
use super::launch::check_version;
use super::probes::{self, BackendCpu};
use super::slice::wait_for_exit;
use super::upkeep::tidy;
use crate::domain::{Build, ClientRun, Major, Microbenchmark, ParityRecord, ParityRound, Placement, Suite};
use crate::load::{self, Control, DatasetError, Session, Tally, Until, Waiting, WireError};
use crate::process::log_tail;
use crate::rival::{APPLICATION_NAME, Gate, Pgbench, PgbenchRun, RivalError, Sysbench, SysbenchRun};
use crate::server::{Account, Cluster, InitOptions, Server, StartOptions};
use crate::sql::Connection;

/// Added to the settings: the log tells the processes apart, and nothing but the clients works.
const SETTINGS: &str = "log_line_prefix = '[%p] '\nautovacuum = off\n";

/// Events of each client that the server logs.
const LOGGED_EVENTS: u64 = 20;

/// Share of the seconds that a first, unreported run takes.
const TRIAL_SHARE: f64 = 0.25;
/// Events before the timed stretch, as a share of those in it.
const WARMUP_SHARE: f64 = 0.1;
/// Fewest events before the timed stretch: a prepared statement is planned anew five times, then perhaps kept.
const FEWEST_WARMUP: u64 = 6;
/// Fewest events of a timed stretch.
const FEWEST_EVENTS: u64 = 10;

/// How much longer than regtrack another client may take, and the least that it is given.
const PATIENCE: f64 = 50.0;
const LEAST_PATIENCE: Duration = Duration::from_secs(120);

/// How long sysbench may take to fill the table.
const LONGEST_LOAD: Duration = Duration::from_secs(24 * 3600);

/// Before readings: lets backend and client go to sleep, so that the kernel has booked all that they used.
const SETTLE: Duration = Duration::from_millis(2);

/// How long a client may take to connect.
const CONNECT: Duration = Duration::from_secs(5);

/// First major whose `pg_stat_activity` calls the process id `pid`.
const PID_SINCE: Major = Major::new(9, 2);

/// What a comparison takes.
#[derive(Debug)]
pub struct ParitySpec {
    /// An empty directory for data and log.
    pub directory: PathBuf,
    /// What is started.
    pub build: Build,
    /// Lines for postgresql.conf.
    pub settings: String,
    /// What initdb decides.
    pub init: InitOptions,
    /// The suite.
    pub suite: Arc<Suite>,
    /// Options of the twins, by microbenchmark.
    pub options: BTreeMap<String, Vec<String>>,
    /// Rows of the table.
    pub rows: u64,
    /// Runs of each client.
    pub rounds: u32,
    /// Seconds that a run of regtrack's takes, about.
    pub seconds: f64,
    /// Which CPUs are used.
    pub placement: Placement,
    /// How regtrack's client waits for answers.
    pub waiting: Waiting,
    /// Whether the server runs under valgrind, for [`ParityBench::count`].
    pub counted: bool,
}

impl ParitySpec {
    /// The data directory of the server.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// The server's log.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.directory.join("server.log")
    }
}

/// The other clients.
#[derive(Debug)]
pub struct Clients {
    /// sysbench.
    pub sysbench: Sysbench,
    /// pgbench, where there is one.
    pub pgbench: Option<Pgbench>,
}

/// A running server with its table.
pub struct ParityBench<'a> {
    spec: &'a ParitySpec,
    clients: &'a Clients,
    control: &'a Control,
    cpus: Cpus,
    log: PathBuf,
    /// Whether something wrote since the table was last vacuumed.
    written: bool,
    admin: Connection,
    server: Server,
}

/// How many events the runs of a microbenchmark have.
#[derive(Debug, Clone, Copy)]
struct Events {
    warmup: u64,
    timed: u64,
    deadline: Duration,
    /// Sent by sysbench about the timed ones.
    mark: Option<&'static str>,
}

/// Counters while neither client nor backend runs.
struct Mark {
    backend: BackendCpu,
    client_cpu_ns: Option<u64>,
}

impl<'a> ParityBench<'a> {
    /// Initialises a cluster, starts its server and loads the table.
    pub fn open(
        spec: &'a ParitySpec,
        clients: &'a Clients,
        account: &Account,
        start: &StartOptions,
        control: &'a Control,
    ) -> Result<Self, MeasureError> {
        let cpus = Cpus::choose(spec.placement)?;
        let settings = format!("{}\n{SETTINGS}", spec.settings);
        let log = spec.log();
        let server = if spec.counted {
            counting::start(spec, account, start, &settings)?
        } else {
            Cluster::create(&spec.build, account, &spec.data(), &spec.init, &settings)?.start(start, &log)?
        };
        let admin = server.connect().map_err(MeasureError::Admin)?;
        check_version(&admin, spec.build.version)?;
        // After the administrative connection, which stays where it is.
        cpus.bind_backends(server.pid())?;
        let mut bench = Self { spec, clients, control, cpus, log, written: false, admin, server };
        bench.load()?;
        Ok(bench)
    }

    /// Compares statements, then runs all clients in turn.
    pub fn measure(&mut self, microbenchmark: &Microbenchmark) -> Result<ParityRecord, MeasureError> {
        self.make_table_ready(microbenchmark)?;
        let differences = self.differences(microbenchmark)?;
        self.make_table_ready(microbenchmark)?;
        let events = self.trial(microbenchmark)?;
        let script = match &self.clients.pgbench {
            None => None,
            Some(pgbench) => {
                let script = pgbench.script(microbenchmark, self.spec.rows, &self.spec.directory);
                script.map_err(|source| self.rival_error(microbenchmark, source))?
            }
        };
        let mut rounds = Vec::new();
        for round in 0..self.spec.rounds {
            // Forth and back: what drifts evenly falls on both sides alike.
            let forth = round % 2 == 0;
            let (regtrack, sysbench, pgbench);
            if forth {
                regtrack = self.regtrack(microbenchmark, events, round)?;
                sysbench = self.sysbench(microbenchmark, events, round)?;
                pgbench = self.pgbench(microbenchmark, script.as_deref(), events)?;
            } else {
                pgbench = self.pgbench(microbenchmark, script.as_deref(), events)?;
                sysbench = self.sysbench(microbenchmark, events, round)?;
                regtrack = self.regtrack(microbenchmark, events, round)?;
            }
            rounds.push(ParityRound { regtrack, sysbench, pgbench });
        }
        Ok(ParityRecord { microbenchmark: microbenchmark.name.clone(), differences, rounds, counted: None })
    }

    /// Fills the table with regtrack and with sysbench in turn. Each finds no table and no dirty page.
    pub fn measure_load(&mut self) -> Result<ParityRecord, MeasureError> {
        let mut rounds = Vec::new();
        for round in 0..self.spec.rounds {
            let (regtrack, sysbench);
            if round % 2 == 0 {
                regtrack = self.timed_load(Self::fill)?;
                sysbench = self.timed_load(Self::prepare)?;
            } else {
                sysbench = self.timed_load(Self::prepare)?;
                regtrack = self.timed_load(Self::fill)?;
            }
            rounds.push(ParityRound { regtrack, sysbench, pgbench: None });
        }
        // What is there now may be sysbench's.
        self.load()?;
        Ok(ParityRecord { microbenchmark: "load".to_owned(), differences: Vec::new(), rounds, counted: None })
    }

    /// Rows of one load count as its queries.
    fn timed_load(&self, load: impl Fn(&Self) -> Result<(), MeasureError>) -> Result<ClientRun, MeasureError> {
        self.drop_table()?;
        self.admin.execute("CHECKPOINT").map_err(MeasureError::Admin)?;
        self.check_stop()?;
        let begin = Instant::now();
        load(self)?;
        let seconds = begin.elapsed().as_secs_f64();
        Ok(ClientRun {
            queries: self.spec.rows,
            seconds,
            backend_cpu_ns: None,
            backend_sleeps: None,
            client_cpu_ns: None,
        })
    }

    fn prepare(&self) -> Result<(), MeasureError> {
        let prepared = self.clients.sysbench.prepare(self.server.endpoint(), self.spec.rows, LONGEST_LOAD);
        prepared.map(drop).map_err(|source| {
            if self.check_stop().is_err() {
                return MeasureError::Interrupted;
            }
            let log = self.log.clone();
            MeasureError::Rival { microbenchmark: "load".to_owned(), source, tail: self.last_words(), log }
        })
    }

    /// Stops the server.
    pub fn close(self) -> Result<(), MeasureError> {
        let Self { admin, server, .. } = self;
        drop(admin);
        server.stop()?;
        Ok(())
    }

    // ------------------------------------------------------------------------------------ the table

    fn load(&mut self) -> Result<(), MeasureError> {
        self.drop_table()?;
        self.fill()?;
        self.tidy()
    }

    fn drop_table(&self) -> Result<(), MeasureError> {
        let sql = format!("DROP TABLE IF EXISTS {}", self.spec.suite.dataset.table);
        self.admin.execute(&sql).map_err(MeasureError::Admin)
    }

    fn fill(&self) -> Result<(), MeasureError> {
        let dataset = &self.spec.suite.dataset;
        match load::load(&self.admin, dataset, self.spec.rows, &self.control.stop) {
            Err(DatasetError::Interrupted { .. }) => return Err(MeasureError::Interrupted),
            other => other.map(drop)?,
        }
        Ok(())
    }

    fn tidy(&mut self) -> Result<(), MeasureError> {
        tidy(&self.admin, self.spec.build.version.major, &self.spec.suite.dataset.table)?;
        self.written = false;
        self.check_stop()
    }

    /// Both clients find the same table. A run that writes gets a new one, with the same rows in the same places; reads
    /// leave the table as it is, so that one vacuum is enough for all of them.
    fn make_table_ready(&mut self, microbenchmark: &Microbenchmark) -> Result<(), MeasureError> {
        match (microbenchmark.writes(), self.written) {
            (true, true) => self.load()?,
            (false, true) => self.tidy()?,
            (_, false) => {}
        }
        self.written = microbenchmark.writes();
        self.check_stop()
    }

    // ---------------------------------------------------------------------------------- the statements

    /// What the server does not log alike for regtrack and sysbench.
    fn differences(&mut self, microbenchmark: &Microbenchmark) -> Result<Vec<String>, MeasureError> {
        // For connections from now on; the administrative one is older.
        let role = &self.server.endpoint().user;
        let set = |sql: &str| self.admin.execute(&format!("ALTER ROLE {role} {sql}")).map_err(MeasureError::Admin);
        set("SET log_min_duration_statement = 0")?;
        let begin = fs::metadata(&self.log).map_or(0, |metadata| metadata.len());

        let events = Events { warmup: 0, timed: LOGGED_EVENTS, deadline: LEAST_PATIENCE, mark: None };
        let mut session = self.open_session(microbenchmark, 0)?;
        let ours = session.backend_pid();
        self.run(&mut session, microbenchmark, Until::Events(LOGGED_EVENTS))?;
        drop(session);
        wait_for_exit(ours);

        let failed = |source| self.rival_error(microbenchmark, source);
        let mut gate = self.gate(microbenchmark, events, 1)?;
        let theirs = self.rival_backend(microbenchmark)?;
        gate.pass().map_err(failed)?;
        gate.end().map_err(failed)?;
        wait_for_exit(theirs);
        set("RESET log_min_duration_statement")?;

        let log = self.log_from(begin)?;
        Ok(statements::differences(&statements::counts(&log, ours), &statements::counts(&log, theirs)))
    }

    /// The server's log from byte `begin` on.
    fn log_from(&self, begin: u64) -> Result<String, MeasureError> {
        let read = || -> std::io::Result<String> {
            let mut file = fs::File::open(&self.log)?;
            file.seek(SeekFrom::Start(begin))?;
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        read().map_err(|source| MeasureError::LaunchFile { path: self.log.clone(), source })
    }

    // -------------------------------------------------------------------------------------- the clients

    /// A first run of regtrack's: fills the caches, and tells how many events fit into the seconds. All clients then run
    /// as many, so that those which write leave equally much behind.
    fn trial(&mut self, microbenchmark: &Microbenchmark) -> Result<Events, MeasureError> {
        let mut session = self.open_session(microbenchmark, 2)?;
        let seconds = self.spec.seconds * TRIAL_SHARE;
        let tally = self.run(&mut session, microbenchmark, Until::Elapsed(Duration::from_secs_f64(seconds)))?;
        let backend = session.backend_pid();
        drop(session);
        wait_for_exit(backend);
        let rate = tally.events as f64 / tally.elapsed.as_secs_f64();
        let timed = whole(rate * self.spec.seconds).max(FEWEST_EVENTS);
        let warmup = whole(timed as f64 * WARMUP_SHARE).max(FEWEST_WARMUP);
        let expected = Duration::from_secs_f64((timed + warmup) as f64 / rate * PATIENCE);
        Ok(Events { warmup, timed, deadline: expected.max(LEAST_PATIENCE), mark: None })
    }

    fn regtrack(
        &mut self,
        microbenchmark: &Microbenchmark,
        events: Events,
        round: u32,
    ) -> Result<ClientRun, MeasureError> {
        self.make_table_ready(microbenchmark)?;
        let _pinned = self.cpus.client()?;
        let mut session = self.open_session(microbenchmark, seed(round, 0))?;
        let pid = session.backend_pid();
        self.run(&mut session, microbenchmark, Until::Events(events.warmup))?;
        let before = Mark::read(pid, probes::client_cpu_ns);
        let tally = self.run(&mut session, microbenchmark, Until::Events(events.timed))?;
        let after = Mark::read(pid, probes::client_cpu_ns);
        drop(session);
        wait_for_exit(pid);
        Ok(before.until(&after, tally.queries, tally.elapsed))
    }

    fn sysbench(
        &mut self,
        microbenchmark: &Microbenchmark,
        events: Events,
        round: u32,
    ) -> Result<ClientRun, MeasureError> {
        self.make_table_ready(microbenchmark)?;
        let _pinned = self.cpus.client()?;
        let failed = |source| self.rival_error(microbenchmark, source);
        let mut gate = self.gate(microbenchmark, events, seed(round, 1))?;
        let backend = self.rival_backend(microbenchmark)?;
        let client = gate.pid();
        let before = Mark::read(backend, || probes::process_cpu_ns(client));
        let elapsed = gate.pass().map_err(failed)?;
        let after = Mark::read(backend, || probes::process_cpu_ns(client));
        let report = gate.end().map_err(failed)?;
        wait_for_exit(backend);
        Ok(before.until(&after, report.queries, elapsed))
    }

    /// pgbench has no gate: its rate is its own, its warm-up is in it, and its CPU time is not read.
    fn pgbench(
        &mut self,
        microbenchmark: &Microbenchmark,
        script: Option<&std::path::Path>,
        events: Events,
    ) -> Result<Option<ClientRun>, MeasureError> {
        let (Some(pgbench), Some(script)) = (&self.clients.pgbench, script) else { return Ok(None) };
        self.make_table_ready(microbenchmark)?;
        let _pinned = self.cpus.client()?;
        let failed = |source| self.rival_error(microbenchmark, source);
        let endpoint = self.server.endpoint();
        let run = PgbenchRun { endpoint, script, events: events.timed, deadline: events.deadline };
        let dialog = pgbench.start(run).map_err(failed)?;
        let report = run.end(dialog).map_err(failed)?;
        let queries = report.events * u64::from(microbenchmark.queries_per_event());
        let seconds = report.events as f64 / report.rate;
        Ok(Some(ClientRun { queries, seconds, backend_cpu_ns: None, backend_sleeps: None, client_cpu_ns: None }))
    }

    fn gate<'g>(
        &'g self,
        microbenchmark: &'g Microbenchmark,
        events: Events,
        seed: u64,
    ) -> Result<Gate<'g>, MeasureError> {
        let run = SysbenchRun {
            endpoint: self.server.endpoint(),
            microbenchmark,
            options: self.spec.options.get(&microbenchmark.name).map_or(&[], Vec::as_slice),
            rows: self.spec.rows,
            warmup_events: events.warmup,
            events: events.timed,
            mark: events.mark,
            seed: seed_of(microbenchmark, seed),
            deadline: events.deadline,
        };
        self.clients.sysbench.start(run).map_err(|source| self.rival_error(microbenchmark, source))
    }

    /// Process id of the other client's backend.
    fn rival_backend(&self, microbenchmark: &Microbenchmark) -> Result<u32, MeasureError> {
        let column = if self.spec.build.version.major >= PID_SINCE { "pid" } else { "procpid" };
        let sql = format!("SELECT {column}::text FROM pg_stat_activity WHERE application_name = '{APPLICATION_NAME}'");
        let begin = Instant::now();
        loop {
            let pid = self.admin.text(&sql).map_err(MeasureError::Admin)?;
            if let Some(pid) = pid.and_then(|pid| pid.parse().ok()) {
                return Ok(pid);
            }
            if begin.elapsed() > CONNECT {
                return Err(MeasureError::NoBackend { microbenchmark: microbenchmark.name.clone() });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn open_session(&self, microbenchmark: &Microbenchmark, seed: u64) -> Result<Session, MeasureError> {
        let (endpoint, seed) = (self.server.endpoint(), seed_of(microbenchmark, seed));
        let opened = Session::open_waiting(endpoint, microbenchmark, self.spec.rows, seed, self.spec.waiting);
        opened.map_err(|source| self.slice_error(microbenchmark, source))
    }

    fn run(&self, session: &mut Session, microbenchmark: &Microbenchmark, until: Until) -> Result<Tally, MeasureError> {
        let tally = session.run(until, self.control).map_err(|source| self.slice_error(microbenchmark, source))?;
        if tally.interrupted { Err(MeasureError::Interrupted) } else { Ok(tally) }
    }

    // --------------------------------------------------------------------------------------- the errors

    fn check_stop(&self) -> Result<(), MeasureError> {
        if self.control.stop.load(Ordering::Relaxed) { Err(MeasureError::Interrupted) } else { Ok(()) }
    }

    fn slice_error(&self, microbenchmark: &Microbenchmark, source: WireError) -> MeasureError {
        let microbenchmark = microbenchmark.name.clone();
        MeasureError::Slice { microbenchmark, source, tail: self.last_words(), log: self.log.clone() }
    }

    fn rival_error(&self, microbenchmark: &Microbenchmark, source: RivalError) -> MeasureError {
        if self.check_stop().is_err() {
            return MeasureError::Interrupted;
        }
        let microbenchmark = microbenchmark.name.clone();
        MeasureError::Rival { microbenchmark, source, tail: self.last_words(), log: self.log.clone() }
    }

    fn last_words(&self) -> Vec<String> {
        const SHOWN: usize = 3;
        let mut lines = log_tail(&self.log);
        lines.drain(..lines.len().saturating_sub(SHOWN));
        lines
    }
}

impl Mark {
    fn read(backend: u32, client_cpu_ns: impl Fn() -> Option<u64>) -> Self {
        std::thread::sleep(SETTLE);
        Self { backend: BackendCpu::read(backend), client_cpu_ns: client_cpu_ns() }
    }

    fn until(&self, after: &Self, queries: u64, elapsed: Duration) -> ClientRun {
        let client = after.client_cpu_ns.zip(self.client_cpu_ns);
        let backend = self.backend.until(after.backend);
        ClientRun {
            queries,
            seconds: elapsed.as_secs_f64(),
            backend_cpu_ns: backend.cpu_ns,
            backend_sleeps: backend.voluntary_switches,
            client_cpu_ns: client.and_then(|(after, before)| after.checked_sub(before)),
        }
    }
}

/// A number for the run of one client in one round; those below are the statements' and the trial's.
fn seed(round: u32, client: u64) -> u64 {
    10 + 2 * u64::from(round) + client
}

/// Different for each run, the same whenever the comparison is repeated.
fn seed_of(microbenchmark: &Microbenchmark, run: u64) -> u64 {
    u64::from(microbenchmark.step) * 10_000 + run
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of events, not negative")]
fn whole(events: f64) -> u64 {
    events.round() as u64
}
