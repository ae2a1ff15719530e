//! The walk of a bisect: prove that the ends differ, then measure what tells the most until the step is known.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use super::BisectError;
use super::ends::{Effect, Ends, ends};
use super::search::{Cost, Next, Observation, Posterior, Search};

/// Launches that the places on both sides of an answer have at least. One launch far off the others, which the model does
/// not expect, makes the search go wrong at the place where it happened, and then the answer lies beside that place.
const CONFIRMING: usize = 5;

/// Where builds come from and launches happen: the seam behind which a simulated world can stand.
pub trait Laboratory {
    /// The name of a position.
    fn label(&self, position: usize) -> String;

    /// What a launch of a position would cost, its build included.
    fn cost(&self, position: usize) -> Cost;

    /// Gets the build of a position. The inner error says why there is none, and the search goes on without it.
    fn build(&mut self, position: usize) -> Result<Result<(), String>, BisectError>;

    /// Measures a launch of each position in a block of their own, and keeps them. The inner error says which position
    /// failed and why.
    fn measure(&mut self, positions: [usize; 2]) -> Result<Result<[Observation; 2], Failed>, BisectError>;

    /// Time spent since this call began.
    fn elapsed(&self) -> Duration;
}

/// A launch that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Its place on the chain.
    pub position: usize,
    /// Why.
    pub reason: String,
}

/// When to stop.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goal {
    /// Wanted probability of the answer.
    pub confidence: f64,
    /// The smallest difference of the ends that matters, as a share.
    pub threshold: f64,
    /// Time for this call.
    pub budget: Option<Duration>,
}

/// Everything that is known in the course of a bisect.
#[derive(Debug, Clone)]
pub struct State {
    /// The chain.
    pub search: Search,
    /// All launches.
    pub observations: Vec<Observation>,
    /// Positions that could not be measured, with the reasons.
    pub skipped: BTreeMap<usize, String>,
}

/// What happens, for whoever shows or keeps it.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The ends are being measured.
    Ends(Ends),
    /// A position is next.
    Next(Next),
    /// A position has no build or fails.
    Skipped {
        /// Place on the chain.
        position: usize,
        /// Why.
        reason: String,
    },
    /// A block was measured.
    Measured {
        /// Its launches.
        observations: [Observation; 2],
        /// What is known with them.
        posterior: Posterior,
    },
}

/// How it ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// These neighbouring steps, of which all but one cannot be built apart, hold the right one with the wanted
    /// probability.
    Found(Range<usize>),
    /// The ends differ by no more than the threshold.
    Alike(Effect),
    /// All launches that were planned for the ends were made, and it is still not known whether they differ.
    Unclear(Option<Effect>),
    /// The budget is spent.
    Spent,
    /// No launch would tell anything more.
    Exhausted,
}

impl State {
    /// What is known.
    #[must_use]
    pub fn posterior(&self) -> Posterior {
        self.search.posterior(&self.observations)
    }

    /// Whether the ends differ, from the blocks that have both.
    #[must_use]
    pub fn ends(&self, threshold: f64) -> Ends {
        ends(&self.differences(0, self.search.end()), threshold)
    }

    /// Differences of the logarithms of two positions, one per block that has both.
    #[must_use]
    pub fn differences(&self, from: usize, to: usize) -> Vec<f64> {
        let of = |position: usize| {
            let found = self.observations.iter().filter(move |one| one.position == position);
            found.map(|one| (one.block, one.log_rate)).collect::<BTreeMap<_, _>>()
        };
        let (from, to) = (of(from), of(to));
        from.iter().filter_map(|(block, rate)| Some(to.get(block)? - rate)).collect()
    }

    fn launches(&self, position: usize) -> usize {
        self.observations.iter().filter(|one| one.position == position).count()
    }

    /// Which neighbour of an answer has too few launches to be believed.
    fn unconfirmed(&self, steps: &Range<usize>) -> Option<usize> {
        let neighbours = [steps.start, steps.end].map(|position| (self.launches(position), position));
        neighbours.into_iter().filter(|(launches, _)| *launches < CONFIRMING).min().map(|(_, position)| position)
    }

    /// The end with fewer launches, to compare with.
    fn reference(&self) -> usize {
        let end = self.search.end();
        if self.launches(end) < self.launches(0) { end } else { 0 }
    }
}

/// Goes on from what `state` holds until there is an answer or the budget is spent.
pub fn run(
    state: &mut State,
    laboratory: &mut dyn Laboratory,
    goal: Goal,
    tell: &mut dyn FnMut(&State, Event) -> Result<(), BisectError>,
) -> Result<Outcome, BisectError> {
    let mut walk = Walk { state, laboratory, goal, tell };
    match walk.ends()? {
        Some(outcome) => Ok(outcome),
        None => walk.search(),
    }
}

struct Walk<'a> {
    state: &'a mut State,
    laboratory: &'a mut dyn Laboratory,
    goal: Goal,
    tell: &'a mut dyn FnMut(&State, Event) -> Result<(), BisectError>,
}

impl Walk<'_> {
    /// Measures both ends until it is known whether they differ. `None` when they do.
    fn ends(&mut self) -> Result<Option<Outcome>, BisectError> {
        let end = self.state.search.end();
        let mut built = false;
        loop {
            let known = self.state.ends(self.goal.threshold);
            (self.tell)(self.state, Event::Ends(known))?;
            match known {
                Ends::Differ(_) => return Ok(None),
                Ends::Alike(effect) => return Ok(Some(Outcome::Alike(effect))),
                Ends::Open { effect, next_look: None } => return Ok(Some(Outcome::Unclear(effect))),
                Ends::Open { .. } => {}
            }
            if !built {
                for position in [0, end] {
                    if let Err(reason) = self.laboratory.build(position)? {
                        return Err(BisectError::NoEnd { label: self.laboratory.label(position), reason });
                    }
                }
                built = true;
            }
            if self.is_spent(self.laboratory.cost(end)) {
                return Ok(Some(Outcome::Spent));
            }
            if let Some(Failed { position, reason }) = self.block([0, end])? {
                return Err(BisectError::EndFails { label: self.laboratory.label(position), reason });
            }
        }
    }

    fn search(&mut self) -> Result<Outcome, BisectError> {
        let mut built = None;
        loop {
            let next = match self.decide() {
                Ok(next) => next,
                Err(outcome) => return Ok(outcome),
            };
            let position = next.position;
            if self.is_spent(self.laboratory.cost(position)) {
                return Ok(Outcome::Spent);
            }
            (self.tell)(self.state, Event::Next(next))?;
            if built != Some(position) {
                if let Err(reason) = self.laboratory.build(position)? {
                    self.skip(position, reason)?;
                    continue;
                }
                built = Some(position);
            }
            match self.block([self.state.reference(), position])? {
                Some(failed) if failed.position == position => self.skip(position, failed.reason)?,
                Some(Failed { position, reason }) => {
                    return Err(BisectError::EndFails { label: self.laboratory.label(position), reason });
                }
                None => {}
            }
        }
    }

    /// What to measure next, or how it ended. An answer is confirmed first.
    fn decide(&self) -> Result<Next, Outcome> {
        let posterior = self.state.posterior();
        if let Some(steps) = self.state.search.answer(&posterior, self.goal.confidence) {
            let unconfirmed = self.state.unconfirmed(&steps).ok_or(Outcome::Found(steps))?;
            return Ok(Next { position: unconfirmed, launches: 1, bits: 0.0 });
        }
        let laboratory = &*self.laboratory;
        let next = self.state.search.next(&posterior, |position| laboratory.cost(position));
        next.ok_or(Outcome::Exhausted)
    }

    /// Whether the budget does not suffice for a launch.
    fn is_spent(&self, cost: Cost) -> bool {
        let needed = Duration::from_secs_f64((cost.build + cost.launch).max(0.0));
        self.goal.budget.is_some_and(|budget| self.laboratory.elapsed() + needed > budget)
    }

    /// Measures one block and takes its launches in; returns which position failed, if one did.
    fn block(&mut self, positions: [usize; 2]) -> Result<Option<Failed>, BisectError> {
        match self.laboratory.measure(positions)? {
            Err(failed) => Ok(Some(failed)),
            Ok(observations) => {
                self.state.observations.extend(observations);
                let posterior = self.state.posterior();
                (self.tell)(self.state, Event::Measured { observations, posterior })?;
                Ok(None)
            }
        }
    }

    fn skip(&mut self, position: usize, reason: String) -> Result<(), BisectError> {
        self.state.search.skip(position);
        self.state.skipped.insert(position, reason.clone());
        // What was measured of it before stays: it is as true as ever.
        (self.tell)(self.state, Event::Skipped { position, reason })
    }
}
