//! What a sweep will do, as a value: printed by `--dry-run`, reduced by what is stored, walked by
//! `execute`. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::domain::{Clock, Protocol, Suite, TargetId};
use crate::load::Random;

/// Identity of a slice inside a sweep.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SliceKey {
    /// Block, from 1.
    pub block: u32,
    /// Target.
    pub target: TargetId,
    /// Microbenchmark name.
    pub microbenchmark: String,
}

/// Everything that is still to be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepPlan {
    /// Launches with at least one wanted slice, in the order in which they run.
    pub launches: Vec<LaunchPlan>,
    /// Slices of the whole sweep.
    pub total: usize,
    /// Slices that are stored already.
    pub stored: usize,
}

/// One launch.
#[derive(Debug, Clone, PartialEq)]
pub struct LaunchPlan {
    /// Its block, from 1.
    pub block: u32,
    /// What is launched.
    pub target: TargetId,
    /// Its name: unique in the sweep and the same after a resume.
    pub name: String,
    /// Seed of its random numbers.
    pub seed: u64,
    /// Its steps in the suite's order.
    pub steps: Vec<Step>,
}

/// One step of a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// A microbenchmark.
    Measure {
        /// Index into the suite's microbenchmarks.
        index: usize,
        /// Whether its slice is still missing. One that is stored runs again only when it changes
        /// the table and a later step needs that.
        wanted: bool,
    },
    /// Vacuum, checkpoint and rest.
    Postwrite {
        /// The step that it follows.
        after: u32,
    },
}

/// Estimated cost of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Time of all launches.
    pub duration: Duration,
    /// Disk space of the largest cluster with its WAL.
    pub disk_bytes: u64,
    /// Size of the freshly loaded table with its indexes.
    pub table_bytes: u64,
}

/// Makes the plan: per block all targets in random order, minus what is stored.
///
/// The order depends on the sweep's name and the block only, so a resumed sweep keeps it.
#[must_use]
pub fn plan(
    sweep: &str,
    suite: &Suite,
    protocol: &Protocol,
    targets: &[TargetId],
    launches: u32,
    stored: &BTreeSet<SliceKey>,
) -> SweepPlan {
    let mut plan = SweepPlan { launches: Vec::new(), total: 0, stored: 0 };
    for block in 1..=launches {
        for target in shuffled(sweep, block, targets) {
            let launch = launch(sweep, suite, protocol, block, target, stored);
            let measures = launch.steps.iter().filter_map(|step| match step {
                Step::Measure { wanted, .. } => Some(*wanted),
                Step::Postwrite { .. } => None,
            });
            let (mut total, mut wanted) = (0, 0);
            measures.for_each(|is_wanted| {
                total += 1;
                wanted += usize::from(is_wanted);
            });
            plan.total += total;
            plan.stored += total - wanted;
            if wanted > 0 {
                plan.launches.push(launch);
            }
        }
    }
    plan
}

fn launch(
    sweep: &str,
    suite: &Suite,
    protocol: &Protocol,
    block: u32,
    target: &TargetId,
    stored: &BTreeSet<SliceKey>,
) -> LaunchPlan {
    let mut steps = Vec::new();
    let mut wrote = false;
    for (index, microbenchmark) in suite.microbenchmarks.iter().enumerate() {
        if protocol.microbenchmarks.contains(&microbenchmark.name) {
            let name = microbenchmark.name.clone();
            let key = SliceKey { block, target: target.clone(), microbenchmark: name };
            steps.push(Step::Measure { index, wanted: !stored.contains(&key) });
            wrote |= microbenchmark.writes();
        }
        if wrote && postwrite_follows(suite, index) {
            steps.push(Step::Postwrite { after: microbenchmark.step });
        }
    }
    let name = format!("b{block}-{target}");
    LaunchPlan { block, target: target.clone(), seed: seed(&[sweep, &name]), name, steps }
}

/// Whether a step that a postwrite follows ends with this microbenchmark: copies with more connections share it.
fn postwrite_follows(suite: &Suite, index: usize) -> bool {
    let step = suite.microbenchmarks[index].step;
    let ends = suite.microbenchmarks.get(index + 1).is_none_or(|next| next.step != step);
    ends && suite.postwrite_after.contains(&step)
}

/// The targets in the block's order.
fn shuffled<'a>(sweep: &str, block: u32, targets: &'a [TargetId]) -> Vec<&'a TargetId> {
    let mut order: Vec<&TargetId> = targets.iter().collect();
    let mut random = Random::new(seed(&[sweep, &block.to_string()]));
    for last in (1..order.len()).rev() {
        let other = usize::try_from(random.uniform(last as u64 + 1) - 1).unwrap_or(0);
        order.swap(last, other);
    }
    order
}

fn seed(parts: &[&str]) -> u64 {
    let hash = Sha256::digest(parts.join("/"));
    let mut head = [0; 8];
    head.copy_from_slice(&hash[..8]);
    u64::from_be_bytes(head)
}

impl SweepPlan {
    /// What the plan will cost on an ordinary machine. Durations of slices are exact, the rest are
    /// rates seen on two slow cores.
    #[must_use]
    pub fn estimate(&self, suite: &Suite, protocol: &Protocol) -> Estimate {
        const LOAD_ROWS_PER_SECOND: f64 = 100_000.0;
        const LAUNCH_SECONDS: f64 = 4.0;
        const SLICE_OVERHEAD_SECONDS: f64 = 0.3;
        const SCAN_ROWS_PER_SECOND: f64 = 1_000_000.0;
        let rows = protocol.rows as f64;
        let load = LAUNCH_SECONDS + rows / LOAD_ROWS_PER_SECOND + protocol.load_warmup_seconds;
        let mut seconds = 0.0;
        for launch in &self.launches {
            // The first postwrite belongs to the load.
            seconds += load + protocol.postwrite_rest_seconds;
            for step in &launch.steps {
                seconds += match step {
                    Step::Postwrite { .. } => protocol.postwrite_rest_seconds,
                    Step::Measure { wanted: false, .. } => 0.0,
                    Step::Measure { index, .. } => {
                        let once = rows / SCAN_ROWS_PER_SECOND;
                        let slice = slice_seconds(suite.microbenchmarks[*index].clock, protocol).unwrap_or(once);
                        slice + protocol.slice_warmup_seconds + SLICE_OVERHEAD_SECONDS
                    }
                };
            }
        }
        Estimate {
            duration: Duration::from_secs_f64(seconds),
            disk_bytes: cluster_bytes(suite, protocol),
            table_bytes: table_bytes(protocol),
        }
    }
}

/// Length of a slice in seconds; `None` for a single execution.
#[must_use]
pub fn slice_seconds(clock: Clock, protocol: &Protocol) -> Option<f64> {
    match clock {
        Clock::Once if protocol.scan_once => None,
        Clock::Read | Clock::Once => Some(protocol.read_seconds),
        Clock::Write => Some(protocol.write_seconds),
    }
}

/// Heap (37 rows per 8 KiB page) and two indexes.
fn table_bytes(protocol: &Protocol) -> u64 {
    const ROW: u64 = 270;
    ROW * protocol.rows
}

/// Space of one cluster: the table, doubled for what the write steps leave behind, and the WAL of all
/// write steps up to the configurations' limit.
fn cluster_bytes(suite: &Suite, protocol: &Protocol) -> u64 {
    const EMPTY: u64 = 100 << 20;
    const WAL_BYTES_PER_WRITE_SECOND: f64 = 30e6;
    const WAL_LIMIT: f64 = 40e9;
    let write_seconds: f64 = suite
        .microbenchmarks
        .iter()
        .filter(|microbenchmark| microbenchmark.writes() && protocol.microbenchmarks.contains(&microbenchmark.name))
        .filter_map(|microbenchmark| slice_seconds(microbenchmark.clock, protocol))
        .sum();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and below the limit")]
    let wal = (write_seconds * WAL_BYTES_PER_WRITE_SECOND).min(WAL_LIMIT) as u64;
    EMPTY + 2 * table_bytes(protocol) + wal
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{connections, suite};

    #[test]
    fn postwrites_follow_the_copies_of_their_step() {
        let text = connections::set(&suite::text(None).unwrap(), "test", &[1, 4]).unwrap();
        let suite = suite::parse(&text, "test").unwrap();
        let index = |name: &str| suite.microbenchmarks.iter().position(|one| one.name == name).unwrap();
        let last = index("read-write_range=100@c4");
        assert_eq!(last, index("read-write_range=100") + 1);
        let ends: Vec<usize> =
            (0..suite.microbenchmarks.len()).filter(|index| postwrite_follows(&suite, *index)).collect();
        assert_eq!(ends, [last]);
    }
}
