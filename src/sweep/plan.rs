//! What a sweep will do, as a value: printed by `--dry-run`, reduced by what is stored, walked by
//! `execute`. Pure.

use std::collections::BTreeSet;
use std::time::Duration;

use sha2::{Digest, Sha256};

use super::run::Wanted;
use crate::domain::{Protocol, Suite, TargetId};
use crate::load::Random;
use crate::measure::slice_seconds;

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

/// Launches of one block whose servers are up together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crew {
    /// How many at most.
    pub size: usize,
    /// Whether each target's loaded data directory is kept for its later launches.
    pub templates: bool,
}

impl Crew {
    /// As many launches as the memory holds: their tables in the servers' buffers and once more in the page cache.
    /// Where the protocol has no turns there is nothing to be up together for.
    #[must_use]
    pub fn fitting(protocol: &Protocol, launches: u32, memory_mib: u64) -> Self {
        /// What a server needs beside its table, in bytes.
        const SERVER_BYTES: u64 = 300 << 20;
        /// Share of the memory that servers may have, in percent.
        const SHARE: u64 = 70;
        let each = SERVER_BYTES + 2 * table_bytes(protocol);
        let fitting = usize::try_from((memory_mib << 20) * SHARE / 100 / each).unwrap_or(usize::MAX).max(1);
        Self { size: if protocol.takes_turns() { fitting } else { 1 }, templates: launches > 1 }
    }
}

/// Estimated cost of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Time of all launches.
    pub duration: Duration,
    /// Disk space of the clusters that exist at the same time, with their WAL.
    pub disk_bytes: u64,
    /// Size of the freshly loaded table with its indexes.
    pub table_bytes: u64,
}

/// Makes the plan: per block all targets in random order, of each microbenchmark the blocks that are `wanted`, minus what
/// is stored.
///
/// The order depends on the sweep's name and the block only, so a resumed sweep keeps it.
#[must_use]
pub fn plan(
    sweep: &str,
    suite: &Suite,
    protocol: &Protocol,
    targets: &[TargetId],
    wanted: &Wanted,
    stored: &BTreeSet<SliceKey>,
) -> SweepPlan {
    let mut plan = SweepPlan { launches: Vec::new(), total: stored_of(targets, protocol, wanted, stored), stored: 0 };
    plan.stored = plan.total;
    for block in 1..=wanted.values().copied().max().unwrap_or(0) {
        for target in shuffled(sweep, block, targets) {
            let launch = launch(sweep, suite, protocol, block, target, wanted, stored);
            let is_wanted = |step: &&Step| matches!(step, Step::Measure { wanted: true, .. });
            let missing = launch.steps.iter().filter(is_wanted).count();
            plan.total += missing;
            if missing > 0 {
                plan.launches.push(launch);
            }
        }
    }
    plan
}

/// Slices of the sweep that are stored: of blocks that are wanted, and of microbenchmarks that want none any more.
fn stored_of(targets: &[TargetId], protocol: &Protocol, wanted: &Wanted, stored: &BTreeSet<SliceKey>) -> usize {
    let is_of = |key: &&SliceKey| {
        targets.contains(&key.target)
            && protocol.microbenchmarks.contains(&key.microbenchmark)
            && wanted.get(&key.microbenchmark).is_none_or(|blocks| key.block <= *blocks)
    };
    stored.iter().filter(is_of).count()
}

fn launch(
    sweep: &str,
    suite: &Suite,
    protocol: &Protocol,
    block: u32,
    target: &TargetId,
    wanted: &Wanted,
    stored: &BTreeSet<SliceKey>,
) -> LaunchPlan {
    let mut steps = Vec::new();
    let mut wrote = false;
    for (index, microbenchmark) in suite.microbenchmarks.iter().enumerate() {
        if protocol.microbenchmarks.contains(&microbenchmark.name) {
            let name = microbenchmark.name.clone();
            let is_wanted = wanted.get(&name).is_some_and(|blocks| block <= *blocks);
            let key = SliceKey { block, target: target.clone(), microbenchmark: name };
            steps.push(Step::Measure { index, wanted: is_wanted && !stored.contains(&key) });
            wrote |= microbenchmark.writes();
        }
        if wrote && postwrite_follows(suite, index) {
            steps.push(Step::Postwrite { after: microbenchmark.step });
        }
    }
    let name = format!("b{block}-{target}");
    // All targets of a block draw the same values: what a value costs is then in none of the ratios.
    let seed = seed(&[sweep, &format!("b{block}")]);
    LaunchPlan { block, target: target.clone(), seed, name, steps }
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
    Random::new(seed(&[sweep, &block.to_string()])).shuffle(&mut order);
    order
}

fn seed(parts: &[&str]) -> u64 {
    let hash = Sha256::digest(parts.join("/"));
    let mut head = [0; 8];
    head.copy_from_slice(&hash[..8]);
    u64::from_be_bytes(head)
}

impl LaunchPlan {
    /// Name of the directory in which the target's loaded data is kept.
    #[must_use]
    pub fn template(&self) -> String {
        format!("template-{}", self.target)
    }
}

impl SweepPlan {
    /// The part of the plan that is one block, the first; `None` when nothing is left.
    #[must_use]
    pub fn first_block(&self) -> Option<Self> {
        let block = self.launches.first()?.block;
        let launches: Vec<LaunchPlan> =
            self.launches.iter().take_while(|launch| launch.block == block).cloned().collect();
        Some(Self { launches, ..*self })
    }

    /// What the plan will measure.
    pub fn keys<'a>(&'a self, suite: &'a Suite) -> impl Iterator<Item = SliceKey> + 'a {
        self.launches.iter().flat_map(|launch| {
            launch.steps.iter().filter_map(|step| match step {
                Step::Measure { index, wanted: true } => Some(SliceKey {
                    block: launch.block,
                    target: launch.target.clone(),
                    microbenchmark: suite.microbenchmarks[*index].name.clone(),
                }),
                _ => None,
            })
        })
    }

    /// The launches in the order in which they run, those together that are up together.
    pub fn crews(&self, size: usize) -> impl Iterator<Item = &[LaunchPlan]> {
        let blocks = self.launches.chunk_by(|a, b| a.block == b.block);
        blocks.flat_map(move |block| block.chunks(size.max(1)))
    }

    /// What the plan will cost on an ordinary machine. Durations of slices are exact, the rest are
    /// rates seen on two slow cores.
    #[must_use]
    pub fn estimate(&self, suite: &Suite, protocol: &Protocol, crew: Crew) -> Estimate {
        const LOAD_ROWS_PER_SECOND: f64 = 100_000.0;
        const LAUNCH_SECONDS: f64 = 4.0;
        const COPY_BYTES_PER_SECOND: f64 = 300e6;
        const SLICE_OVERHEAD_SECONDS: f64 = 0.3;
        const SCAN_ROWS_PER_SECOND: f64 = 1_000_000.0;
        let rows = protocol.rows as f64;
        let load = LAUNCH_SECONDS + rows / LOAD_ROWS_PER_SECOND;
        let copy = LAUNCH_SECONDS + table_bytes(protocol) as f64 / COPY_BYTES_PER_SECOND;
        let targets = self.launches.iter().map(|launch| &launch.target).collect::<BTreeSet<_>>().len();
        let mut seconds = if crew.templates { targets as f64 * load } else { 0.0 };
        for launch in &self.launches {
            // The first postwrite belongs to the load.
            seconds += if crew.templates { copy } else { load };
            seconds += protocol.load_warmup_seconds + protocol.postwrite_rest_seconds;
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
            disk_bytes: cluster_bytes(suite, protocol) * crew.size.min(targets).max(1) as u64
                + if crew.templates { (EMPTY_CLUSTER_BYTES + table_bytes(protocol)) * targets as u64 } else { 0 },
            table_bytes: table_bytes(protocol),
        }
    }
}

/// Heap (37 rows per 8 KiB page) and two indexes.
fn table_bytes(protocol: &Protocol) -> u64 {
    const ROW: u64 = 270;
    ROW * protocol.rows
}

/// A data directory without the table.
const EMPTY_CLUSTER_BYTES: u64 = 100 << 20;

/// Space of one cluster: the table, doubled for what the write steps leave behind, and the WAL of all
/// write steps up to the configurations' limit.
fn cluster_bytes(suite: &Suite, protocol: &Protocol) -> u64 {
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
    EMPTY_CLUSTER_BYTES + 2 * table_bytes(protocol) + wal
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
