//! Bisects that are numbers only: a chain of commits of which one changed the rate, and launches with noise of a known
//! kind. `benches/bisect.rs` includes this file too.

use std::collections::BTreeSet;
use std::time::Duration;

use regtrack::bisect::{self, BisectError, Cost, Failed, Goal, Laboratory, Observation, Outcome, Search, State};
use regtrack::load::Random;

/// Commits between two majors: as many steps can be it.
pub(crate) const COMMITS: usize = 2500;

/// Standard deviation of the logarithm of a launch's rate.
pub(crate) const SPREAD: f64 = 0.0065;

/// What is the matter with the launches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Normal deviations of [`SPREAD`], a level of its own for each block.
    None,
    /// Besides, one launch in twenty is slower by 2 % on average.
    Outliers,
    /// Besides, a second step of a quarter of the size somewhere else.
    SecondStep,
    /// Besides, one commit in ten does not build.
    Broken,
}

impl Trouble {
    pub(crate) const ALL: [Self; 4] = [Self::None, Self::Outliers, Self::SecondStep, Self::Broken];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::None => "as assumed",
            Self::Outliers => "one launch in 20 is 2 % slower",
            Self::SecondStep => "a second step, a quarter as large",
            Self::Broken => "one commit in 10 does not build",
        }
    }
}

/// A history with a step, and the machine on which it is measured.
pub(crate) struct Hunt {
    random: Random,
    trouble: Trouble,
    /// Which link changed the rate, and by how much.
    pub(crate) step: usize,
    effect: f64,
    second: usize,
    broken: BTreeSet<usize>,
    built: BTreeSet<usize>,
    blocks: u32,
    seconds: f64,
}

impl Hunt {
    /// `size` is the share by which the rate falls at a link that the seed chooses.
    pub(crate) fn new(size: f64, trouble: Trouble, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let step = place(&mut random);
        let second = place(&mut random);
        let is_broken = |random: &mut Random| trouble == Trouble::Broken && random.unit() < 0.1;
        let broken = (1..COMMITS).filter(|_| is_broken(&mut random)).collect();
        let effect = (1.0 - size).ln();
        Self { random, trouble, step, effect, second, broken, built: BTreeSet::new(), blocks: 0, seconds: 0.0 }
    }

    fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.random.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.random.unit()).cos()
    }

    /// Logarithm of the rate of a launch.
    fn launch(&mut self, position: usize, level: f64) -> f64 {
        let mut rate = level + SPREAD * self.normal();
        if position > self.step {
            rate += self.effect;
        }
        if self.trouble == Trouble::SecondStep && position > self.second {
            rate += self.effect / 4.0;
        }
        if self.trouble == Trouble::Outliers && self.random.unit() < 0.05 {
            rate += 0.02 * (1.0 - self.random.unit()).ln();
        }
        rate
    }
}

/// One of the links.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below the number of commits")]
fn place(random: &mut Random) -> usize {
    (random.unit() * COMMITS as f64) as usize
}

impl Laboratory for Hunt {
    fn label(&self, position: usize) -> String {
        position.to_string()
    }

    /// As on two cores: a build of three minutes, and half a minute for two launches of a few seconds.
    fn cost(&self, position: usize) -> Cost {
        Cost { build: if self.built.contains(&position) { 0.0 } else { 180.0 }, launch: 30.0 }
    }

    fn build(&mut self, position: usize) -> Result<Result<(), String>, BisectError> {
        if self.broken.contains(&position) {
            return Ok(Err("does not build".to_owned()));
        }
        if self.built.insert(position) {
            self.seconds += 180.0;
        }
        Ok(Ok(()))
    }

    fn measure(&mut self, positions: [usize; 2]) -> Result<Result<[Observation; 2], Failed>, BisectError> {
        self.blocks += 1;
        self.seconds += 30.0;
        let level = 9.0 + 0.01 * self.normal();
        let block = self.blocks;
        Ok(Ok(positions.map(|position| Observation { block, position, log_rate: self.launch(position, level) })))
    }

    fn elapsed(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
    }
}

/// How a number of hunts came out.
#[derive(Debug, Default, Clone, PartialEq)]
pub(crate) struct Bag {
    /// Hunts.
    pub(crate) cases: u32,
    /// Ended with an answer that has the right step, alone or in a list of those that cannot be built apart.
    pub(crate) right: u32,
    /// Ended with an answer that does not have it.
    pub(crate) wrong: u32,
    /// Ended without one.
    pub(crate) open: u32,
    /// Builds, those of the ends included, one number per hunt.
    pub(crate) builds: Vec<usize>,
    /// Blocks of two launches.
    pub(crate) blocks: Vec<usize>,
    /// Seconds in all, as the costs have it.
    pub(crate) seconds: Vec<f64>,
}

impl Bag {
    /// The share of hunts that named the right step.
    pub(crate) fn found(&self) -> f64 {
        f64::from(self.right) / f64::from(self.cases)
    }

    /// The share of answers that were right.
    pub(crate) fn honesty(&self) -> f64 {
        f64::from(self.right) / f64::from((self.right + self.wrong).max(1))
    }
}

/// Hunts a step of this size `cases` times.
pub(crate) fn hunt(size: f64, trouble: Trouble, confidence: f64, cases: u32) -> Bag {
    let mut bag = Bag { cases, ..Bag::default() };
    for case in 0..cases {
        let mut hunt = Hunt::new(size, trouble, 1_000_003 * u64::from(case) + 17);
        let search = Search::new(&vec![1.0; COMMITS]).expect("there are steps");
        let mut state = State { search, observations: Vec::new(), skipped: std::collections::BTreeMap::new() };
        let goal = Goal { confidence, threshold: 0.01, budget: None };
        let outcome = bisect::run(&mut state, &mut hunt, goal, &mut |_, _| Ok(())).expect("nothing fails here");
        match outcome {
            Outcome::Found(steps) if steps.contains(&hunt.step) => bag.right += 1,
            Outcome::Found(_) => bag.wrong += 1,
            _ => bag.open += 1,
        }
        bag.builds.push(hunt.built.len());
        bag.blocks.push(hunt.blocks as usize);
        bag.seconds.push(hunt.seconds);
    }
    bag
}
