//! Sweeps that are numbers only: rates of rows, targets and blocks with noise of a known kind, for the analysis alone.
//! `benches/simulation.rs` includes this file too.

use regtrack::analysis::{self, Design, JudgedRow, Layout, judge};
use regtrack::domain::Verdict;
use regtrack::load::Random;

/// Microbenchmarks of a sweep.
pub(crate) const ROWS: usize = 42;

/// Releases of most sweeps, the first of them the base.
pub(crate) const TARGETS: usize = 3;

/// What noise is made of. All numbers are standard deviations of the logarithm of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// 1.2 % per slice, and nothing else.
    Independent,
    /// 1.2 % per server start, which all slices of a launch share, and 0.5 % per slice.
    Launches,
    /// The machine wanders by 1 % from launch to launch and loses 0.3 % each time; 0.8 % per slice.
    Drift,
    /// 0.6 % per slice; one slice in twenty is slowed by an exponential share of 10 % on average.
    Bursts,
    /// 0.8 % per slice, and three times that on the last of eight releases; only that one is counted.
    OneNoisy,
    /// 5 % per slice: so much that the threshold of 1 % keeps nothing from being called.
    Loud,
}

impl Shape {
    pub(crate) const ALL: [Self; 6] =
        [Self::Independent, Self::Launches, Self::Drift, Self::Bursts, Self::OneNoisy, Self::Loud];

    pub(crate) const fn targets(self) -> usize {
        if matches!(self, Self::OneNoisy) { 8 } else { TARGETS }
    }

    /// Whether comparisons of this target with the base are counted.
    fn counts(self, target: usize) -> bool {
        self != Self::OneNoisy || target == self.targets() - 1
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Independent => "independent",
            Self::Launches => "launch effects",
            Self::Drift => "drift",
            Self::Bursts => "bursts",
            Self::OneNoisy => "one noisy of eight",
            Self::Loud => "loud",
        }
    }
}

/// The rates of a sweep by row. `slowdown` says by which share a row of the last release is slower.
pub(crate) fn sweep(shape: Shape, launches: u32, seed: u64, slowdown: &dyn Fn(usize) -> f64) -> Vec<Layout> {
    let mut rows = vec![Layout::new(shape.targets(), 0); ROWS];
    for (block, rates) in (1..).zip(rates(shape, launches, seed, slowdown)) {
        for (row, rates) in rows.iter_mut().zip(rates) {
            row.push(block, rates.into_iter().map(Some).collect());
        }
    }
    rows
}

/// The same as numbers: block, row, target.
pub(crate) fn rates(shape: Shape, launches: u32, seed: u64, slowdown: &dyn Fn(usize) -> f64) -> Vec<Vec<Vec<f64>>> {
    let targets = shape.targets();
    let mut normal = Normal::new(seed);
    let mut blocks = Vec::new();
    let mut machine = 0.0;
    for _ in 1..=launches {
        let mut launch = vec![0.0; targets];
        // The order of the targets is drawn for each block.
        let mut order: Vec<usize> = (0..targets).collect();
        for last in (1..targets).rev() {
            let place = usize::try_from(normal.random.uniform(last as u64 + 1) - 1);
            order.swap(last, place.expect("it is below the number of targets"));
        }
        for target in order {
            launch[target] = match shape {
                Shape::Launches => 0.012 * normal.draw(),
                Shape::Drift => {
                    machine += 0.01 * normal.draw() - 0.003;
                    machine
                }
                Shape::Independent | Shape::Bursts | Shape::OneNoisy | Shape::Loud => 0.0,
            };
        }
        let rates = |row: usize| {
            let mut rates = vec![0.0; targets];
            for (target, rate) in rates.iter_mut().enumerate() {
                let last = target == targets - 1;
                let step = if last { (1.0 - slowdown(row)).ln() } else { 0.0 };
                *rate = (launch[target] + step + slice(shape, last, &mut normal)).exp();
            }
            rates
        };
        blocks.push((0..ROWS).map(rates).collect());
    }
    blocks
}

fn slice(shape: Shape, last: bool, normal: &mut Normal) -> f64 {
    let sd = match shape {
        Shape::Independent => 0.012,
        Shape::Launches => 0.005,
        Shape::OneNoisy if last => 0.024,
        Shape::Drift | Shape::OneNoisy => 0.008,
        Shape::Bursts => 0.006,
        Shape::Loud => 0.05,
    };
    let burst = if shape == Shape::Bursts && normal.random.unit() < 0.05 {
        0.1 * (1.0 - normal.random.unit()).ln()
    } else {
        0.0
    };
    sd * normal.draw() + burst
}

/// Normal deviates, by Box and Muller.
struct Normal {
    random: Random,
    spare: Option<f64>,
}

impl Normal {
    fn new(seed: u64) -> Self {
        Self { random: Random::new(seed), spare: None }
    }

    fn draw(&mut self) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        // 1 − u is above zero.
        let radius = (-2.0 * (1.0 - self.random.unit()).ln()).sqrt();
        let (sin, cos) = (std::f64::consts::TAU * self.random.unit()).sin_cos();
        self.spare = Some(radius * sin);
        radius * cos
    }
}

/// What came of many sweeps.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Tally {
    pub(crate) sweeps: u32,
    pub(crate) comparisons: u32,
    /// Comparisons in which a look showed a change.
    pub(crate) seen: u32,
    /// Those of them that later launches confirmed.
    pub(crate) confirmed: u32,
    /// Comparisons with a verdict of a change, and sweeps that have one.
    pub(crate) called: u32,
    pub(crate) sweeps_called: u32,
    /// Intervals that miss a ratio of 1.
    pub(crate) missed: u32,
    /// Launches per target, summed over rows.
    pub(crate) launches: u64,
    pub(crate) rows: u32,
    /// Sweeps with a warning that a whole release is shifted, and with one that the base drifts.
    pub(crate) shifted: u32,
    pub(crate) drifted: u32,
}

impl Tally {
    /// Counts the rows of a judged sweep that `chosen` picks, on the targets that `on` picks.
    pub(crate) fn add(&mut self, judged: &[JudgedRow], chosen: &dyn Fn(usize) -> bool, on: &dyn Fn(usize) -> bool) {
        let before = self.called;
        for (_, row) in judged.iter().enumerate().filter(|(index, _)| chosen(*index)) {
            self.rows += 1;
            self.launches += u64::from(row.look);
            for (_, comparison) in row.comparisons.iter().enumerate().filter(|(target, _)| on(*target)) {
                let Some(comparison) = comparison else { continue };
                self.comparisons += 1;
                self.seen += u32::from(comparison.seen);
                self.confirmed += u32::from(comparison.certainty.confirmed);
                self.called += u32::from(matches!(comparison.verdict, Verdict::Improved | Verdict::Regressed));
                self.missed += u32::from(comparison.interval.is_some_and(|(low, high)| low > 0.0 || high < 0.0));
            }
        }
        self.sweeps += 1;
        self.sweeps_called += u32::from(self.called > before);
    }
}

/// Sweeps of equal releases: as many comparisons for every shape.
pub(crate) fn nulls(shape: Shape, design: Design, launches: u32, sweeps: u32) -> Tally {
    let mut tally = Tally::default();
    let sweeps = if shape == Shape::OneNoisy { sweeps * 2 } else { sweeps };
    for number in 0..sweeps {
        let rows = sweep(shape, launches, seed(shape, launches, number), &|_| 0.0);
        tally.add(&judge(&rows, design), &|_| true, &|target| shape.counts(target));
        let shifted = |target| analysis::common_shift(&rows, target, shape.targets() - 1).is_some();
        tally.shifted += u32::from((1..shape.targets()).any(shifted));
        tally.drifted += u32::from(analysis::drift(&rows).is_some());
    }
    tally
}

/// Changes of the last release that are planted side by side in a sweep, each in as many of the first rows.
pub(crate) const STEPS: [f64; 4] = [0.01, 0.02, 0.03, 0.05];

/// Rows that have each of [`STEPS`]; the others are equal.
const PLANTED: usize = 4;

/// Sweeps with planted steps: a tally per step, and one of the rows without.
pub(crate) fn planted(shape: Shape, design: Design, launches: u32, sweeps: u32) -> ([Tally; STEPS.len()], Tally) {
    let step = |row: usize| STEPS.get(row / PLANTED).copied();
    let (mut found, mut equal) = ([Tally::default(); STEPS.len()], Tally::default());
    for number in 0..sweeps {
        let rows = sweep(shape, launches, !seed(shape, launches, number), &|row| step(row).unwrap_or(0.0));
        let judged = judge(&rows, design);
        for (index, tally) in found.iter_mut().enumerate() {
            tally.add(&judged, &|row| row / PLANTED == index, &|target| target == shape.targets() - 1);
        }
        equal.add(&judged, &|row| step(row).is_none(), &|target| shape.counts(target));
    }
    (found, equal)
}

fn seed(shape: Shape, launches: u32, number: u32) -> u64 {
    ((shape as u64) << 48) | (u64::from(launches) << 32) | u64::from(number)
}
