//! The stored fact: one timed stretch of one microbenchmark in one launch, or why there is none.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{StatementPlan, TargetId};

/// One slice as it is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct SliceRecord {
    /// Pass over all targets, from 1.
    pub block: u32,
    /// What was measured.
    pub target: TargetId,
    /// The launch, unique in the sweep: `b1-17.10-3fa9c1d2`.
    pub launch: String,
    /// Number of the server start inside the launch, from 1; above 1 only when an interrupted
    /// launch was continued.
    pub server_start: u32,
    /// The microbenchmark's name.
    pub microbenchmark: String,
    /// When the measured stretch began (for a failure: when it was noticed).
    pub started_at: Timestamp,
    /// What came of it.
    pub outcome: Outcome,
}

impl SliceRecord {
    /// Name of the launch of a target that counts instructions in `block`.
    #[must_use]
    pub fn counting_launch(block: u32, target: &TargetId) -> String {
        format!("i{block}-{target}")
    }

    /// Whether its server ran in order to have its instructions counted: such a slice has no time, and stands beside
    /// the timed slice of the same block, target and microbenchmark.
    #[must_use]
    pub fn is_counting(&self) -> bool {
        self.launch == Self::counting_launch(self.block, &self.target)
    }
}

/// What came of a slice.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It was measured.
    Measured(Box<Measurement>),
    /// It was not, for the reason given.
    Failed(String),
}

impl Outcome {
    /// The measurement, if there is one.
    #[must_use]
    pub fn measurement(&self) -> Option<&Measurement> {
        match self {
            Self::Measured(measurement) => Some(measurement),
            Self::Failed(_) => None,
        }
    }
}

/// Everything that was counted in a slice. A counter that the machine or the release does not offer
/// is `None`, never zero.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Measurement {
    /// Length of the measured stretch in seconds.
    pub seconds: f64,
    /// Length of the warm-up before it, in seconds.
    pub warmup_seconds: f64,
    /// Events completed.
    pub events: u64,
    /// Statements completed, BEGIN and COMMIT included; the numerator of QPS.
    pub queries: u64,
    /// Statements that returned a result set.
    pub reads: u64,
    /// Commands that affected at least one row.
    pub writes: u64,
    /// Commands that affected none.
    pub others: u64,
    /// Rows received.
    pub rows: u64,
    /// Events run again after a deadlock, duplicate key or serialisation failure.
    pub retries: u64,
    /// Queries completed in each full second of the measured stretch.
    pub queries_by_second: Vec<u32>,
    /// Latency of events in nanoseconds: an HdrHistogram in its V2 serialisation.
    pub latency_histogram: Vec<u8>,
    /// Mean event latency in microseconds.
    pub latency_us_mean: f64,
    /// Median event latency in microseconds.
    pub latency_us_p50: f64,
    /// 95th percentile of event latency in microseconds.
    pub latency_us_p95: f64,
    /// 99th percentile of event latency in microseconds.
    pub latency_us_p99: f64,
    /// Longest event in microseconds.
    pub latency_us_max: f64,
    /// CPU time of the server's backend in nanoseconds.
    pub backend_cpu_ns: Option<u64>,
    /// Time the backend was ready to run but waited for a CPU, in nanoseconds.
    pub backend_wait_ns: Option<u64>,
    /// Instructions of the backend in user space.
    pub instructions: Option<u64>,
    /// Voluntary context switches of the backend.
    pub backend_voluntary_switches: Option<u64>,
    /// Involuntary context switches of the backend.
    pub backend_involuntary_switches: Option<u64>,
    /// CPU time of the client thread in nanoseconds.
    pub client_cpu_ns: Option<u64>,
    /// WAL written by the server in bytes, all processes.
    pub wal_bytes: Option<u64>,
    /// Queries over which the two buffer counts run: the warm-up's are included, because backends
    /// report only when they end.
    pub buffers_queries: u64,
    /// Buffers found in shared memory.
    pub buffers_hit: Option<u64>,
    /// Buffers read from the operating system.
    pub buffers_read: Option<u64>,
    /// Checkpoints of the server that began.
    pub checkpoints: Option<u64>,
    /// Automatic vacuums and analyzes of the database's tables.
    pub autovacuums: Option<u64>,
    /// What from outside disturbed the slice, in words; empty when nothing was noticed.
    pub noise: Vec<String>,
    /// Plans of its statements at its end; empty where nobody asked or the server gave none.
    pub plans: Vec<StatementPlan>,
    /// Rate as printed in an imported table, in the row's unit. Set for imports only, where nothing
    /// else is known: every other field is zero, empty or absent.
    pub published_rate: Option<f64>,
}

impl Measurement {
    /// Queries per second.
    #[must_use]
    pub fn qps(&self) -> f64 {
        self.queries as f64 / self.seconds
    }
}

/// Summary of the machine at the time of a sweep; stored with the results.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
pub struct HostFingerprint {
    /// Host name.
    pub hostname: String,
    /// CPU model as the kernel names it.
    pub cpu: String,
    /// Logical CPUs.
    pub cpus: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Kernel release.
    pub kernel: String,
    /// Distribution.
    pub os: String,
    /// CPU frequency governor, where the kernel shows one.
    pub governor: Option<String>,
    /// Transparent huge pages setting.
    pub transparent_huge_pages: Option<String>,
    /// File system type under the data directories.
    pub filesystem: Option<String>,
    /// The C compiler found on the machine.
    pub c_compiler: Option<String>,
}
