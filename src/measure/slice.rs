//! One slice: warm-up, the measured stretches, and the probes around them.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use jiff::Timestamp;

use super::Stretch;
use super::noise::{Clocks, Foreign};
use super::plans::shapes;
use super::probes::{self, BackendCpu, Background, InstructionCounter, MachineCpu};
use crate::domain::{Endpoint, Major, Measurement, Microbenchmark, StatementPlan};
use crate::load::{Control, Sessions, Tally, Until, WireError};
use crate::sql::{Connection, SqlError};

/// First major that keeps statistics in shared memory, where they are current at once.
const SHARED_STATISTICS_SINCE: Major = Major::new(15, 0);

/// Older servers hand out statistics that may be this old (`PGSTAT_STAT_INTERVAL` is 500 ms in
/// src/backend/postmaster/pgstat.c).
const STATISTICS_DELAY: Duration = Duration::from_millis(550);

/// How long a closed backend may take to go away.
const BACKEND_EXIT: Duration = Duration::from_secs(2);

/// What stops a slice.
#[derive(Debug)]
pub(super) enum SliceError {
    Wire(WireError),
    Sql(SqlError),
    Interrupted,
}

impl From<WireError> for SliceError {
    fn from(error: WireError) -> Self {
        Self::Wire(error)
    }
}

impl From<SqlError> for SliceError {
    fn from(error: SqlError) -> Self {
        Self::Sql(error)
    }
}

/// A slice in the making: its connections, and what its stretches have come to so far.
pub(super) struct Slice {
    sessions: Sessions,
    backends: Vec<u32>,
    major: Major,
    buffers_before: Option<probes::Buffers>,
    /// Set when the first counted stretch begins.
    began: Option<Began>,
    warmup: Duration,
    warmup_queries: u64,
    backend: BackendCpu,
    /// One per backend, where there are such.
    counters: Option<Vec<InstructionCounter>>,
    /// Of all stretches so far: a counter goes on where it stopped.
    instructions: Option<u64>,
    foreign: Foreign,
}

/// Readings at the beginning of the first counted stretch.
struct Began {
    at: Timestamp,
    wal: Option<u64>,
    background: Background,
    clocks: Clocks,
}

impl Slice {
    /// Connects and prepares the statements.
    pub(super) fn open(
        endpoint: &Endpoint,
        major: Major,
        microbenchmark: &Microbenchmark,
        rows: u64,
        seed: u64,
        admin: &Connection,
    ) -> Result<Self, SliceError> {
        let buffers_before = probes::buffers(admin)?;
        let sessions = Sessions::open(endpoint, microbenchmark, rows, seed)?;
        let backends = sessions.backend_pids();
        Ok(Self {
            counters: backends.iter().map(|pid| InstructionCounter::open(*pid)).collect(),
            instructions: None,
            sessions,
            backends,
            major,
            buffers_before,
            began: None,
            warmup: Duration::ZERO,
            warmup_queries: 0,
            backend: BackendCpu::ZERO,
            foreign: Foreign::default(),
        })
    }

    /// Process ids of the server's backends.
    pub(super) fn backend_pids(&self) -> &[u32] {
        &self.backends
    }

    /// Runs events that count for nothing but the caches.
    pub(super) fn warm_up(&mut self, until: Until, control: &Control) -> Result<Stretch, SliceError> {
        let tally = self.sessions.run(until, control)?;
        if tally.interrupted {
            return Err(SliceError::Interrupted);
        }
        self.warmup += tally.elapsed;
        self.warmup_queries += tally.queries;
        Ok(Stretch { events: tally.events, elapsed: tally.elapsed })
    }

    /// Runs one counted stretch.
    pub(super) fn stretch(
        &mut self,
        until: Until,
        admin: &Connection,
        control: &Control,
    ) -> Result<Stretch, SliceError> {
        if self.began.is_none() {
            self.began = Some(Began {
                wal: probes::wal_position(admin, self.major)?,
                background: probes::background(admin)?,
                clocks: Clocks::read(),
                at: Timestamp::now(),
            });
        }
        let machine = MachineCpu::read();
        let (backend, client) = (BackendCpu::read_all(&self.backends), self.sessions.client_cpu_ns());
        let counting =
            self.counters.as_mut().and_then(|counters| counters.iter_mut().map(InstructionCounter::start).collect());
        let (events, elapsed) = self.sessions.stretch(until, control)?;
        let counts = |counters: &mut Vec<InstructionCounter>| counters.iter_mut().map(InstructionCounter::stop).sum();
        self.instructions = self.counters.as_mut().and_then(counts).filter(|_: &u64| counting == Some(()));
        let backend = backend.until(BackendCpu::read_all(&self.backends));
        let client = self.sessions.client_cpu_ns() - client;
        self.foreign.add(machine.until(MachineCpu::read()), Some(client), backend.cpu_ns, elapsed);
        self.backend = self.backend.plus(backend);
        if control.stop.load(Ordering::Relaxed) {
            Err(SliceError::Interrupted)
        } else {
            Ok(Stretch { events, elapsed })
        }
    }

    /// The plans of the statements on a measuring connection as it is after the last event. A server that does not tell
    /// them has none.
    fn plans(&mut self) -> Vec<StatementPlan> {
        let explained = self.sessions.explain();
        explained.inspect_err(|error| tracing::debug!(%error, "no plans")).map_or_else(|_| Vec::new(), |it| shapes(&it))
    }

    /// Takes the last readings, closes the connections, and says when the measured stretch began. `with_plans` asks for
    /// the plans in between: of all readings, only that of the buffers is after them, and it has the backend's own start
    /// in it too, which touches many more.
    pub(super) fn finish(
        mut self,
        admin: &Connection,
        with_plans: bool,
    ) -> Result<(Timestamp, Measurement), SliceError> {
        let wal = probes::wal_position(admin, self.major)?;
        let tally = self.sessions.tally();
        let plans = if with_plans { self.plans() } else { Vec::new() };
        drop(self.sessions);
        wait_for_statistics(&self.backends, self.major);
        let buffers = probes::buffers(admin)?;
        let background = probes::background(admin)?;

        let mut measurement = Measurement { plans, ..from_tally(&tally, self.warmup) };
        measurement.backend_cpu_ns = self.backend.cpu_ns;
        measurement.backend_wait_ns = self.backend.wait_ns;
        measurement.backend_voluntary_switches = self.backend.voluntary_switches;
        measurement.backend_involuntary_switches = self.backend.involuntary_switches;
        measurement.instructions = self.instructions;
        if let (Some(before), Some(after)) = (self.buffers_before, buffers) {
            measurement.buffers_hit = after.hit.checked_sub(before.hit);
            measurement.buffers_read = after.read.checked_sub(before.read);
            measurement.buffers_queries = self.warmup_queries + tally.queries;
        }
        let Some(began) = self.began else { return Ok((Timestamp::now(), measurement)) };
        measurement.wal_bytes = difference(began.wal, wal);
        measurement.checkpoints = difference(began.background.checkpoints, background.checkpoints);
        measurement.autovacuums = difference(began.background.autovacuums, background.autovacuums);
        measurement.noise = began.clocks.changes(Clocks::read());
        measurement.noise.extend(self.foreign.finding());
        Ok((began.at, measurement))
    }
}

fn difference(before: Option<u64>, after: Option<u64>) -> Option<u64> {
    after?.checked_sub(before?)
}

/// Backends report their buffer counts when they end, so the measuring ones have to be gone.
fn wait_for_statistics(backends: &[u32], major: Major) {
    backends.iter().copied().for_each(wait_for_exit);
    if major < SHARED_STATISTICS_SINCE {
        std::thread::sleep(STATISTICS_DELAY);
    }
}

/// Waits for a closed backend to be gone.
pub(super) fn wait_for_exit(backend: u32) {
    let start = Instant::now();
    let process = format!("/proc/{backend}");
    while start.elapsed() < BACKEND_EXIT && Path::new(&process).exists() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn from_tally(tally: &Tally, warmup: Duration) -> Measurement {
    const NS_PER_US: f64 = 1000.0;
    let latency = &tally.latency;
    let quantile = |q| latency.value_at_quantile(q) as f64 / NS_PER_US;
    let mut histogram = Vec::new();
    // Writing to memory fails only when a count overflows, which would take centuries.
    if V2Serializer::new().serialize(latency, &mut histogram).is_err() {
        histogram.clear();
    }
    Measurement {
        client_cpu_ns: Some(tally.client_cpu_ns),
        seconds: tally.elapsed.as_secs_f64(),
        warmup_seconds: warmup.as_secs_f64(),
        queries_by_second: tally.queries_by_second.clone(),
        latency_histogram: histogram,
        latency_us_mean: latency.mean() / NS_PER_US,
        latency_us_p50: quantile(0.5),
        latency_us_p95: quantile(0.95),
        latency_us_p99: quantile(0.99),
        latency_us_max: latency.max() as f64 / NS_PER_US,
        ..counts(tally)
    }
}

/// What was counted, without any time.
pub(super) fn counts(tally: &Tally) -> Measurement {
    Measurement {
        events: tally.events,
        queries: tally.queries,
        reads: tally.reads,
        writes: tally.writes,
        others: tally.others,
        rows: tally.rows,
        retries: tally.retries,
        ..Measurement::default()
    }
}
