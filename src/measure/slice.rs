//! One slice: warm-up, the measured stretch, and the probes around it.

use std::path::Path;
use std::time::{Duration, Instant};

use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use jiff::Timestamp;

use super::probes::{self, BackendCpu};
use crate::domain::{Clock, Endpoint, Major, Measurement, Microbenchmark, Protocol};
use crate::load::{Control, Crew, Tally, Until, WireError};
use crate::sql::{Connection, SqlError};

/// First major that keeps statistics in shared memory, where they are current at once.
const SHARED_STATISTICS_SINCE: Major = Major::new(15, 0);

/// Older servers hand out statistics that may be this old (`PGSTAT_STAT_INTERVAL` is 500 ms in
/// src/backend/postmaster/pgstat.c).
const STATISTICS_DELAY: Duration = Duration::from_millis(550);

/// How long a closed backend may take to go away.
const BACKEND_EXIT: Duration = Duration::from_secs(2);

/// Everything that a slice needs to know.
pub(super) struct SliceSpec<'a> {
    pub(super) endpoint: &'a Endpoint,
    pub(super) major: Major,
    pub(super) microbenchmark: &'a Microbenchmark,
    pub(super) protocol: &'a Protocol,
    pub(super) seed: u64,
}

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

/// Counters at one end of the measured stretch.
struct Mark {
    wal: Option<u64>,
    backend: BackendCpu,
}

/// Measures one slice and says when its measured stretch began.
pub(super) fn measure(
    spec: &SliceSpec<'_>,
    admin: &Connection,
    control: &Control,
) -> Result<(Timestamp, Measurement), SliceError> {
    let buffers_before = probes::buffers(admin)?;
    let mut crew = Crew::open(spec.endpoint, spec.microbenchmark, spec.protocol.rows, spec.seed)?;
    let backends = crew.backend_pids();

    let (warmup, until) = durations(spec.microbenchmark, spec.protocol);
    let warmup = crew.run(Until::Elapsed(warmup), control)?;
    if warmup.interrupted {
        return Err(SliceError::Interrupted);
    }
    let wal = probes::wal_position(admin, spec.major)?;
    let started_at = Timestamp::now();
    let before = Mark { wal, backend: BackendCpu::read_all(&backends) };
    let tally = crew.run(until, control)?;
    let backend = BackendCpu::read_all(&backends);
    let after = Mark { backend, wal: probes::wal_position(admin, spec.major)? };
    if tally.interrupted {
        return Err(SliceError::Interrupted);
    }

    drop(crew);
    wait_for_statistics(&backends, spec.major);
    let buffers_after = probes::buffers(admin)?;

    let mut measurement = from_tally(&tally, warmup.elapsed);
    add_marks(&mut measurement, &before, &after);
    if let (Some(before), Some(after)) = (buffers_before, buffers_after) {
        measurement.buffers_hit = after.hit.checked_sub(before.hit);
        measurement.buffers_read = after.read.checked_sub(before.read);
        measurement.buffers_queries = warmup.queries + tally.queries;
    }
    Ok((started_at, measurement))
}

/// Warm-up and end of the measured stretch.
fn durations(microbenchmark: &Microbenchmark, protocol: &Protocol) -> (Duration, Until) {
    let warmup = Duration::from_secs_f64(protocol.slice_warmup_seconds);
    let elapsed = |seconds| Until::Elapsed(Duration::from_secs_f64(seconds));
    match microbenchmark.clock {
        Clock::Once if protocol.scan_once => (Duration::ZERO, Until::Events(1)),
        Clock::Read | Clock::Once => (warmup, elapsed(protocol.read_seconds)),
        Clock::Write => (warmup, elapsed(protocol.write_seconds)),
    }
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
        events: tally.events,
        queries: tally.queries,
        reads: tally.reads,
        writes: tally.writes,
        others: tally.others,
        rows: tally.rows,
        retries: tally.retries,
        queries_by_second: tally.queries_by_second.clone(),
        latency_histogram: histogram,
        latency_us_mean: latency.mean() / NS_PER_US,
        latency_us_p50: quantile(0.5),
        latency_us_p95: quantile(0.95),
        latency_us_p99: quantile(0.99),
        latency_us_max: latency.max() as f64 / NS_PER_US,
        ..Measurement::default()
    }
}

fn add_marks(measurement: &mut Measurement, before: &Mark, after: &Mark) {
    let difference = |a: Option<u64>, b: Option<u64>| b?.checked_sub(a?);
    let backend = before.backend.until(after.backend);
    measurement.backend_cpu_ns = backend.cpu_ns;
    measurement.backend_wait_ns = backend.wait_ns;
    measurement.backend_voluntary_switches = backend.voluntary_switches;
    measurement.backend_involuntary_switches = backend.involuntary_switches;
    measurement.wal_bytes = difference(before.wal, after.wal);
}
