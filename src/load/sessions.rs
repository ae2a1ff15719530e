//! Several connections at once, each with its session on a thread of its own.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use super::session::{Control, Session, Tally, Until};
use super::wire::WireError;
use crate::domain::{Endpoint, Microbenchmark};

/// Between the seeds of two connections: an odd number without a pattern (2^64 / golden ratio), so that no seed that a
/// step or a launch adds comes to the same.
const SEED_STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The connections of one microbenchmark, with what each has counted in the stretches so far.
pub struct Sessions {
    each: Vec<Session>,
    tallies: Vec<Tally>,
    elapsed: Duration,
}

/// Where the threads of the sessions wait until all are there.
#[derive(Default)]
struct StartLine {
    present: Mutex<usize>,
    arrival: Condvar,
}

/// When the first event of a connection began and its last one ended, or why it failed.
type Outcome = Result<Range<Instant>, WireError>;

impl Sessions {
    /// Opens as many connections as the microbenchmark has, one after the other, and prepares its statements on each.
    pub fn open(
        endpoint: &Endpoint,
        microbenchmark: &Microbenchmark,
        table_rows: u64,
        seed: u64,
    ) -> Result<Self, WireError> {
        let connections = u64::from(microbenchmark.connections.max(1));
        let seed_of = |connection: u64| seed.wrapping_add(connection.wrapping_mul(SEED_STRIDE));
        let open = |connection| Session::open(endpoint, microbenchmark, table_rows, seed_of(connection));
        let sessions: Vec<Session> = (0..connections).map(open).collect::<Result<_, _>>()?;
        let tallies = sessions.iter().map(|_| Tally::default()).collect();
        Ok(Self { each: sessions, tallies, elapsed: Duration::ZERO })
    }

    /// Process ids of the server's backends.
    #[must_use]
    pub fn backend_pids(&self) -> Vec<u32> {
        self.each.iter().map(Session::backend_pid).collect()
    }

    /// Runs events on all connections at once until the given end, and returns what they counted together; a number of
    /// events is shared among them. A single connection is run by the calling thread. When one fails, the others end at
    /// their next event boundary. This is no stretch.
    pub fn run(&mut self, until: Until, control: &Control) -> Result<Tally, WireError> {
        let mut tallies: Vec<Tally> = self.each.iter().map(|_| Tally::default()).collect();
        let span = run(&mut self.each, &mut tallies, until, control)?;
        Ok(together(&tallies, span.end - span.start))
    }

    /// [`Sessions::run`] as one more stretch: what it counts is added to what was counted before. Returns the events and
    /// the duration of this stretch.
    pub fn stretch(&mut self, until: Until, control: &Control) -> Result<(u64, Duration), WireError> {
        let events = |tallies: &[Tally]| tallies.iter().map(|tally| tally.events).sum::<u64>();
        let before = events(&self.tallies);
        let span = run(&mut self.each, &mut self.tallies, until, control)?;
        let elapsed = span.end - span.start;
        self.elapsed += elapsed;
        Ok((events(&self.tallies) - before, elapsed))
    }

    /// CPU time of the threads that ran the stretches so far, in nanoseconds.
    #[must_use]
    pub fn client_cpu_ns(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.client_cpu_ns).sum()
    }

    /// [`Session::explain`] on the first connection; the others run the same statements.
    pub fn explain(&mut self) -> Result<Vec<String>, WireError> {
        self.each.first_mut().map_or_else(|| Ok(Vec::new()), Session::explain)
    }

    /// What all stretches counted.
    #[must_use]
    pub fn tally(&self) -> Tally {
        together(&self.tallies, self.elapsed)
    }
}

fn run(sessions: &mut [Session], tallies: &mut [Tally], until: Until, control: &Control) -> Outcome {
    if let ([session], [tally]) = (&mut *sessions, &mut *tallies) {
        let store = |queries| control.queries_last_second.store(queries, Ordering::Relaxed);
        return session.run_into(tally, until, || control.stop.load(Ordering::Relaxed), store);
    }
    let (line, count) = (StartLine::default(), sessions.len());
    let until = match until {
        Until::Events(events) => Until::Events(events.div_ceil(count as u64)),
        elapsed @ Until::Elapsed(_) => elapsed,
    };
    let has_failed = AtomicBool::new(false);
    let rates: Vec<AtomicU64> = sessions.iter().map(|_| AtomicU64::new(0)).collect();
    let is_stopped = || control.stop.load(Ordering::Relaxed) || has_failed.load(Ordering::Relaxed);
    let one = |session: &mut Session, tally: &mut Tally, rate: &AtomicU64| -> Outcome {
        line.wait_for(count);
        let span = session.run_into(tally, until, is_stopped, |queries| {
            rate.store(queries, Ordering::Relaxed);
            let all = rates.iter().map(|rate| rate.load(Ordering::Relaxed)).sum();
            control.queries_last_second.store(all, Ordering::Relaxed);
        });
        has_failed.fetch_or(span.is_err(), Ordering::Relaxed);
        span
    };
    let outcomes: Vec<Outcome> = thread::scope(|scope| {
        let one = &one;
        let start = |((session, tally), rate)| {
            let thread = thread::Builder::new().spawn_scoped(scope, move || one(session, tally, rate));
            thread.inspect_err(|_| {
                // Those that wait already go on, and end before their first event.
                has_failed.store(true, Ordering::Relaxed);
                line.open(count);
            })
        };
        let threads: Vec<_> = sessions.iter_mut().zip(tallies).zip(&rates).map(start).collect();
        let join = |thread: io::Result<thread::ScopedJoinHandle<'_, Outcome>>| {
            thread.map_err(WireError::Thread)?.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    common_span(outcomes)
}

/// From the first beginning to the last end, or the first error.
fn common_span(outcomes: Vec<Outcome>) -> Outcome {
    let spans = outcomes.into_iter().collect::<Result<Vec<_>, _>>()?;
    let common = spans.into_iter().reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
    Ok(common.unwrap_or_else(|| unreachable!("there is at least one connection")))
}

/// One tally for all.
fn together(tallies: &[Tally], elapsed: Duration) -> Tally {
    let (first, others) = tallies.split_first().unwrap_or_else(|| unreachable!("there is at least one connection"));
    let mut sum = first.clone();
    for other in others {
        sum.add(other);
    }
    sum.elapsed = elapsed;
    sum
}

impl StartLine {
    /// Returns when `count` threads have come here.
    fn wait_for(&self, count: usize) {
        let mut present = self.present.lock().unwrap_or_else(PoisonError::into_inner);
        *present += 1;
        if *present == count {
            self.arrival.notify_all();
        }
        drop(self.arrival.wait_while(present, |present| *present < count));
    }

    /// Lets all go that wait for `count` to come, or will.
    fn open(&self, count: usize) {
        *self.present.lock().unwrap_or_else(PoisonError::into_inner) = count;
        self.arrival.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(queries: u64, by_second: &[u32], latency_ns: u64) -> Tally {
        let mut tally = Tally::default();
        (tally.events, tally.queries, tally.reads, tally.client_cpu_ns) = (1, queries, queries, 10);
        tally.queries_by_second.extend(by_second);
        tally.latency.saturating_record(latency_ns);
        tally
    }

    #[test]
    fn tallies_are_added_and_the_time_is_the_common_one() {
        let sum = together(&[tally(30, &[10, 20], 5_000), tally(12, &[5, 6, 1], 900_000)], Duration::from_millis(3100));
        assert_eq!((sum.events, sum.queries, sum.reads, sum.client_cpu_ns), (2, 42, 42, 20));
        assert_eq!(sum.queries_by_second, [15, 26]);
        assert_eq!((sum.latency.len(), sum.elapsed), (2, Duration::from_millis(3100)));
        assert!(sum.latency.max() >= 900_000 && sum.latency.min() <= 5_000);
        let zero = Instant::now();
        let at = |milliseconds| zero + Duration::from_millis(milliseconds);
        assert_eq!(common_span(vec![Ok(at(2)..at(2300)), Ok(at(0)..at(1100))]).unwrap(), at(0)..at(2300));
    }

    #[test]
    fn one_failure_is_the_failure_of_all() {
        let zero = Instant::now();
        let outcomes = vec![Ok(zero..zero), Err(WireError::Unexpected('x'))];
        assert!(matches!(common_span(outcomes), Err(WireError::Unexpected('x'))));
    }

    #[test]
    fn nobody_starts_before_the_last_has_come() {
        let (line, started) = (StartLine::default(), AtomicU64::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    line.wait_for(4);
                    started.fetch_add(1, Ordering::SeqCst);
                });
            }
            thread::sleep(Duration::from_millis(30));
            assert_eq!(started.load(Ordering::SeqCst), 0);
            line.wait_for(4);
        });
        assert_eq!(started.load(Ordering::SeqCst), 3);
    }

    #[test]
    fn an_opened_line_holds_nobody() {
        let line = StartLine::default();
        thread::scope(|scope| {
            scope.spawn(|| line.wait_for(3));
            line.open(3);
        });
        line.wait_for(3);
    }
}
