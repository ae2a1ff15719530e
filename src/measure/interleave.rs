//! One microbenchmark on several launches at once, in short turns, so that what drifts or bursts on the machine falls
//! on all of them alike.

use std::time::Duration;

use jiff::Timestamp;

use super::{Launch, MeasureError, Stretch};
use crate::domain::{Clock, Measurement, Microbenchmark, Protocol};
use crate::load::{Random, Until};

/// How one launch's slice came out.
type Outcome = Result<(Timestamp, Measurement), MeasureError>;

/// One launch that takes part, and what has become of its slice.
pub struct Member<'a> {
    launch: &'a mut dyn Launch,
    failure: Option<MeasureError>,
}

impl<'a> Member<'a> {
    /// A launch that is to take part.
    pub fn new(launch: &'a mut dyn Launch) -> Self {
        Self { launch, failure: None }
    }

    /// Does something with the launch, unless it has failed already. `None` when it has, or does now.
    fn attempt<T>(&mut self, act: impl FnOnce(&mut dyn Launch) -> Result<T, MeasureError>) -> Option<T> {
        if self.failure.is_some() {
            return None;
        }
        match act(self.launch) {
            Ok(value) => Some(value),
            Err(error) => {
                self.failure = Some(error);
                None
            }
        }
    }

    fn is_interrupted(&self) -> bool {
        matches!(self.failure, Some(MeasureError::Interrupted))
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

/// Measures one slice of every member; the outcomes come in the members' order. A member that fails drops out and the
/// others go on; an interruption ends all.
///
/// Several members take turns of [`Protocol::stretch_seconds`]: in an order drawn from `seed`, then backwards, then in
/// another one, and so on (ABBA). In a turn each executes the same number of events, so that all tables have aged alike
/// afterwards, and with equal seeds the same ones. The slowest member's turns fill the slice's seconds; a faster one
/// needs less.
pub fn measure(
    members: &mut [Member<'_>],
    microbenchmark: &Microbenchmark,
    protocol: &Protocol,
    seed: u64,
) -> Vec<Outcome> {
    for member in members.iter_mut() {
        member.attempt(|launch| launch.begin(microbenchmark));
    }
    match slice_seconds(microbenchmark.clock, protocol) {
        None => run_each(members, Until::Events(1)),
        Some(seconds) => {
            let slowest = warm_up(members, microbenchmark, protocol);
            if protocol.stretch_seconds > 0.0 && members.len() > 1 {
                take_turns(members, events_per_turn(protocol.stretch_seconds, slowest), seconds, seed);
            } else {
                run_each(members, Until::Elapsed(Duration::from_secs_f64(seconds)));
            }
        }
    }
    finish(members)
}

/// Runs events that do not count. Returns the slowest member's rate in events per second.
fn warm_up(members: &mut [Member<'_>], microbenchmark: &Microbenchmark, protocol: &Protocol) -> f64 {
    let elapsed = Until::Elapsed(Duration::from_secs_f64(protocol.slice_warmup_seconds));
    let interleaved = protocol.stretch_seconds > 0.0 && members.len() > 1;
    let mut until = if interleaved && protocol.slice_warmup_seconds == 0.0 { Until::Events(1) } else { elapsed };
    let mut slowest = f64::INFINITY;
    for member in members.iter_mut() {
        let Some(stretch) = member.attempt(|launch| launch.warm_up(until)) else { continue };
        slowest = slowest.min(rate(stretch));
        if interleaved && microbenchmark.writes() {
            // From here on all change their tables equally often.
            until = Until::Events(stretch.events);
        }
    }
    slowest
}

fn rate(stretch: Stretch) -> f64 {
    stretch.events as f64 / stretch.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
}

fn run_each(members: &mut [Member<'_>], until: Until) {
    for member in members {
        member.attempt(|launch| launch.stretch(until));
    }
}

/// Events of a turn of about `stretch` seconds at `rate` events per second.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and far below 2^53")]
fn events_per_turn(stretch: f64, rate: f64) -> u64 {
    (rate * stretch).round().max(1.0) as u64
}

/// Turns of `events` events, until the slowest member has been measured for `seconds`. Each order is also run
/// backwards.
fn take_turns(members: &mut [Member<'_>], events: u64, seconds: f64, seed: u64) {
    let mut random = Random::new(seed);
    let mut order: Vec<usize> = (0..members.len()).collect();
    let mut elapsed = vec![Duration::ZERO; members.len()];
    let wanted = Duration::from_secs_f64(seconds);
    while elapsed.iter().all(|elapsed| *elapsed < wanted) {
        random.shuffle(&mut order);
        for &index in order.iter().chain(order.iter().rev()) {
            let stretch = members[index].attempt(|launch| launch.stretch(Until::Events(events)));
            elapsed[index] += stretch.unwrap_or_default().elapsed;
            if members[index].is_interrupted() {
                return;
            }
        }
        if members.iter().all(|member| member.failure.is_some()) {
            return;
        }
    }
}

fn finish(members: &mut [Member<'_>]) -> Vec<Outcome> {
    let interrupted = members.iter().any(Member::is_interrupted);
    let finished = members.iter_mut().map(|member| {
        if interrupted {
            return Err(MeasureError::Interrupted);
        }
        let finished = member.attempt(|launch| launch.finish());
        finished.ok_or_else(|| member.failure.take().unwrap_or(MeasureError::Interrupted))
    });
    finished.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_has_at_least_one_event() {
        assert_eq!(events_per_turn(0.25, 1000.0), 250);
        assert_eq!(events_per_turn(0.25, 0.1), 1);
    }
}
