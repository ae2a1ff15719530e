//! Several connections at once, each with its session on a thread of its own.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Instant;

use super::session::{Control, Session, Tally, Until};
use super::wire::WireError;
use crate::domain::{Endpoint, Microbenchmark};

/// Between the seeds of two connections: an odd number without a pattern (2^64 / golden ratio), so that no seed that a
/// step or a launch adds comes to the same.
const SEED_STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The connections of one microbenchmark.
pub struct Crew {
    sessions: Vec<Session>,
}

/// Where the threads of a crew wait until all are there.
#[derive(Default)]
struct StartLine {
    present: Mutex<usize>,
    arrival: Condvar,
}

/// What ends the run of one connection, or how it ended.
type Outcome = Result<(Tally, std::ops::Range<Instant>), WireError>;

impl Crew {
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
        Ok(Self { sessions: (0..connections).map(open).collect::<Result<_, _>>()? })
    }

    /// Process ids of the server's backends.
    #[must_use]
    pub fn backend_pids(&self) -> Vec<u32> {
        self.sessions.iter().map(Session::backend_pid).collect()
    }

    /// Runs events on all connections at once until the given end, and returns what they counted together. A single
    /// connection is run by the calling thread. When one fails, the others end at their next event boundary.
    pub fn run(&mut self, until: Until, control: &Control) -> Result<Tally, WireError> {
        if let [session] = self.sessions.as_mut_slice() {
            return session.run(until, control);
        }
        let (line, count) = (StartLine::default(), self.sessions.len());
        let has_failed = AtomicBool::new(false);
        let rates: Vec<AtomicU64> = self.sessions.iter().map(|_| AtomicU64::new(0)).collect();
        let is_stopped = || control.stop.load(Ordering::Relaxed) || has_failed.load(Ordering::Relaxed);
        let one = |session: &mut Session, rate: &AtomicU64| -> Outcome {
            let mut tally = Tally::new(until);
            line.wait_for(count);
            let span = session.run_into(&mut tally, until, is_stopped, |queries| {
                rate.store(queries, Ordering::Relaxed);
                let all = rates.iter().map(|rate| rate.load(Ordering::Relaxed)).sum();
                control.queries_last_second.store(all, Ordering::Relaxed);
            });
            has_failed.fetch_or(span.is_err(), Ordering::Relaxed);
            Ok((tally, span?))
        };
        let outcomes: Vec<Outcome> = thread::scope(|scope| {
            let one = &one;
            let start = |(session, rate)| {
                let thread = thread::Builder::new().spawn_scoped(scope, move || one(session, rate));
                thread.inspect_err(|_| {
                    // Those that wait already go on, and end before their first event.
                    has_failed.store(true, Ordering::Relaxed);
                    line.open(count);
                })
            };
            let threads: Vec<_> = self.sessions.iter_mut().zip(&rates).map(start).collect();
            let join = |thread: io::Result<thread::ScopedJoinHandle<'_, Outcome>>| {
                thread.map_err(WireError::Thread)?.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        });
        together(outcomes, control)
    }
}

/// One tally for all, or the first error.
fn together(outcomes: Vec<Outcome>, control: &Control) -> Result<Tally, WireError> {
    let mut all: Option<(Tally, std::ops::Range<Instant>)> = None;
    for outcome in outcomes {
        let (tally, span) = outcome?;
        all = Some(match all {
            None => (tally, span),
            Some((mut sum, whole)) => {
                sum.add(&tally);
                (sum, whole.start.min(span.start)..whole.end.max(span.end))
            }
        });
    }
    let (mut sum, span) = all.unwrap_or_else(|| unreachable!("a crew has at least one connection"));
    sum.elapsed = span.end - span.start;
    sum.interrupted = control.stop.load(Ordering::Relaxed) && sum.interrupted;
    Ok(sum)
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
    use std::time::Duration;

    use super::*;

    fn tally(queries: u64, by_second: &[u32], latency_ns: u64) -> Tally {
        let mut tally = Tally::new(Until::Events(1));
        (tally.events, tally.queries, tally.reads, tally.client_cpu_ns) = (1, queries, queries, 10);
        tally.queries_by_second.extend(by_second);
        tally.latency.saturating_record(latency_ns);
        tally
    }

    #[test]
    fn tallies_are_added_and_the_time_is_the_common_one() {
        let zero = Instant::now();
        let at = |milliseconds| zero + Duration::from_millis(milliseconds);
        let outcomes = vec![
            Ok((tally(30, &[10, 20], 5_000), at(2)..at(2300))),
            Ok((tally(12, &[5, 6, 1], 900_000), at(0)..at(3100))),
        ];
        let sum = together(outcomes, &Control::default()).unwrap();
        assert_eq!((sum.events, sum.queries, sum.reads, sum.client_cpu_ns), (2, 42, 42, 20));
        assert_eq!(sum.queries_by_second, [15, 26]);
        assert_eq!((sum.latency.len(), sum.elapsed), (2, Duration::from_millis(3100)));
        assert!(sum.latency.max() >= 900_000 && sum.latency.min() <= 5_000);
    }

    #[test]
    fn one_failure_is_the_failure_of_all() {
        let zero = Instant::now();
        let outcomes = vec![Ok((tally(1, &[], 1), zero..zero)), Err(WireError::Unexpected('x'))];
        assert!(matches!(together(outcomes, &Control::default()), Err(WireError::Unexpected('x'))));
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
