//! Instructions per query: a server under valgrind's callgrind, a fixed number of events per microbenchmark.
//!
//! Time on a machine is noise on top of work; instructions are the work. Equal builds that are sent equal messages
//! execute equal instructions, up to what depends on the clock. `docs/instructions.md` says what is counted.

pub(super) mod callgrind;

use std::collections::BTreeSet;
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use jiff::Timestamp;

use super::launch::{self, DATA_DIR, STATE_FILE, check_version};
use super::slice::{self, wait_for_exit};
use super::upkeep::tidy;
use super::{LaunchSpec, MeasureError};
use crate::domain::{Measurement, Microbenchmark, Param, Statement};
use crate::load::{self, Control, DatasetError, Session, Tally, Until, WireError};
use crate::process::log_tail;
use crate::server::{Account, Cluster, Server, StartOptions};
use crate::sql::Connection;

/// Most rows of the table; a sweep with fewer has its own number.
const MOST_ROWS: u64 = 10_000;

/// Below the data directory, so that it goes when that goes.
pub(super) const COUNTS_DIR: &str = "regtrack_counts";

/// Added to the settings. Nothing but the clients changes the table or keeps old rows alive; the table fits in a little
/// memory; and processes that share the processor with the backend wake it less often.
pub(super) const SETTINGS: &str =
    "autovacuum = off\nshared_buffers = 128MB\nwal_writer_delay = 10s\nbgwriter_lru_maxpages = 0\n";

/// Every launch draws the same values: then the difference of two counts is that of the servers.
const SEED: u64 = 20_240_219;

/// Instructions that a counted stretch has, about. What happens once a second costs some ten thousand.
const BUDGET: u64 = 40_000_000;
/// Guesses at the instructions of a statement, and of each row that it meets. They choose the number of events only.
const PER_STATEMENT: u64 = 40_000;
const PER_ROW: u64 = 1000;
/// Bounds of the number of events.
const FEWEST_EVENTS: u64 = 4;
const MOST_EVENTS: u64 = 1000;
/// Events before the counted ones, as a share of these, and at least: a prepared statement is planned anew five times,
/// and the backend's caches have to be full.
const WARMUP_SHARE: u64 = 10;
const FEWEST_WARMUP: u64 = 6;

/// Receives the count of a microbenchmark, or why there is none, as soon as it is known; ends the walk by `Break`.
pub type Receiver<'a> =
    dyn FnMut(&Microbenchmark, Timestamp, Result<Measurement, MeasureError>) -> ControlFlow<()> + 'a;

/// Rows of the table on which instructions are counted, where so many are asked for.
#[must_use]
pub fn counted_rows(wanted: u64) -> u64 {
    wanted.min(MOST_ROWS)
}

/// Fails where instructions cannot be counted on request: valgrind is needed.
pub fn check_counting() -> Result<(), MeasureError> {
    callgrind::check()
}

/// Counts the backend's instructions for those of the protocol's microbenchmarks that are in `wanted`, in the suite's
/// order, on a server and a small table of their own. Others run only when they change the table and one that is
/// wanted follows.
///
/// A failure of one microbenchmark goes to `each`; an error means that nothing more can be counted.
pub fn count_instructions(
    spec: &LaunchSpec,
    wanted: &BTreeSet<String>,
    account: &Account,
    control: &Control,
    each: &mut Receiver<'_>,
) -> Result<(), MeasureError> {
    callgrind::check()?;
    let mut counting = Counting::begin(spec, account, control)?;
    let walked = counting.walk(wanted, each);
    let closed = counting.close();
    walked.and(closed)
}

struct Counting<'a> {
    spec: &'a LaunchSpec,
    account: &'a Account,
    control: &'a Control,
    rows: u64,
    running: Option<(Connection, Server)>,
}

impl<'a> Counting<'a> {
    /// Initialises a cluster, starts its server under valgrind and loads the table.
    fn begin(spec: &'a LaunchSpec, account: &'a Account, control: &'a Control) -> Result<Self, MeasureError> {
        launch::remove_launch_dir(&spec.directory)?;
        launch::create_launch_dir(&spec.directory, account)?;
        // Marks the directory as a launch's, for whoever finds it left behind. There is nothing to continue.
        let path = spec.directory.join(STATE_FILE);
        fs::write(&path, "{}\n").map_err(|source| MeasureError::LaunchFile { path, source })?;
        let data = spec.directory.join(DATA_DIR);
        let settings = format!("{}\n{SETTINGS}", spec.settings);
        let cluster = Cluster::create(&spec.build, account, &data, &spec.init, &settings)?;
        account.create_dir(&data.join(COUNTS_DIR))?;
        let rows = counted_rows(spec.protocol.rows);
        let mut counting = Self { spec, account, control, rows, running: None };
        counting.start(cluster)?;
        match load::load(&counting.running()?.0, &spec.suite.dataset, rows, &control.stop) {
            Err(DatasetError::Interrupted { .. }) => return Err(MeasureError::Interrupted),
            other => other?,
        };
        counting.tidy()?;
        Ok(counting)
    }

    fn start(&mut self, cluster: Cluster) -> Result<(), MeasureError> {
        let options = StartOptions {
            brake: self.spec.brake,
            under: callgrind::command(&self.counts()),
            unix_socket: self.spec.protocol.transport == "unix",
            port: None,
        };
        let server = cluster.start(&options, &self.spec.log)?;
        let admin = server.connect().map_err(MeasureError::Admin)?;
        check_version(&admin, self.spec.build.version)?;
        self.running = Some((admin, server));
        Ok(())
    }

    fn counts(&self) -> PathBuf {
        self.spec.directory.join(DATA_DIR).join(COUNTS_DIR)
    }

    fn running(&self) -> Result<&(Connection, Server), MeasureError> {
        self.running.as_ref().ok_or(MeasureError::NoServer { version: self.spec.build.version })
    }

    fn walk(&mut self, wanted: &BTreeSet<String>, each: &mut Receiver<'_>) -> Result<(), MeasureError> {
        let suite = &self.spec.suite;
        let runs = |one: &Microbenchmark| self.spec.protocol.microbenchmarks.contains(&one.name);
        let last = suite.microbenchmarks.iter().rposition(|one| runs(one) && wanted.contains(&one.name));
        let mut wrote = false;
        for microbenchmark in suite.microbenchmarks.iter().take(last.map_or(0, |last| last + 1)) {
            if runs(microbenchmark) {
                self.check_stop()?;
                wrote |= microbenchmark.writes();
                let is_wanted = wanted.contains(&microbenchmark.name);
                if (is_wanted || microbenchmark.writes()) && self.step(microbenchmark, is_wanted, each)?.is_break() {
                    return Ok(());
                }
            }
            if wrote && suite.postwrite_after.contains(&microbenchmark.step) {
                self.tidy()?;
            }
        }
        Ok(())
    }

    /// Counts one microbenchmark and hands the count over. After a failure the server is started again.
    fn step(
        &mut self,
        microbenchmark: &Microbenchmark,
        is_wanted: bool,
        each: &mut Receiver<'_>,
    ) -> Result<ControlFlow<()>, MeasureError> {
        let started_at = Timestamp::now();
        let counted = self.count(microbenchmark);
        if matches!(counted, Err(MeasureError::Interrupted)) || self.check_stop().is_err() {
            return Err(MeasureError::Interrupted);
        }
        let failed = counted.is_err();
        let flow = if is_wanted { each(microbenchmark, started_at, counted) } else { ControlFlow::Continue(()) };
        if failed && flow.is_continue() {
            self.running = None;
            let data = self.spec.directory.join(DATA_DIR);
            self.start(Cluster::reopen(&self.spec.build, self.account, &data)?)?;
        }
        Ok(flow)
    }

    fn count(&self, microbenchmark: &Microbenchmark) -> Result<Measurement, MeasureError> {
        let failed = |source| self.failure(microbenchmark, source);
        let endpoint = self.running()?.1.endpoint();
        let seed = SEED.wrapping_add(u64::from(microbenchmark.step));
        let mut session = Session::open(endpoint, microbenchmark, self.rows, seed).map_err(failed)?;
        session.wait_for_sleep();
        let backend = session.backend_pid();
        let events = events(microbenchmark, self.rows);
        self.run(&mut session, microbenchmark, warmup_events(events))?;
        session.statement(callgrind::MARK).map_err(failed)?;
        session.statement(callgrind::MARK).map_err(failed)?;
        let tally = self.run(&mut session, microbenchmark, events)?;
        session.statement(callgrind::MARK).map_err(failed)?;
        let instructions = callgrind::count(&self.counts(), backend)?;
        drop(session);
        wait_for_exit(backend);
        callgrind::remove(&self.counts(), backend);
        Ok(Measurement { instructions: Some(instructions), ..slice::counts(&tally) })
    }

    fn run(&self, session: &mut Session, microbenchmark: &Microbenchmark, events: u64) -> Result<Tally, MeasureError> {
        let tally = session.run(Until::Events(events), self.control);
        let tally = tally.map_err(|source| self.failure(microbenchmark, source))?;
        if tally.interrupted { Err(MeasureError::Interrupted) } else { Ok(tally) }
    }

    fn tidy(&self) -> Result<(), MeasureError> {
        tidy(&self.running()?.0, self.spec.build.version.major, &self.spec.suite.dataset.table)?;
        self.check_stop()
    }

    fn close(mut self) -> Result<(), MeasureError> {
        if let Some((admin, server)) = self.running.take() {
            drop(admin);
            // Its data is not needed any more, and no process need write its counts.
            drop(server);
        }
        launch::remove_launch_dir(&self.spec.directory)
    }

    fn check_stop(&self) -> Result<(), MeasureError> {
        if self.control.stop.load(Ordering::Relaxed) { Err(MeasureError::Interrupted) } else { Ok(()) }
    }

    fn failure(&self, microbenchmark: &Microbenchmark, source: WireError) -> MeasureError {
        let tail = log_tail(&self.spec.log).into_iter().rev().take(3).rev().collect();
        let (microbenchmark, log) = (microbenchmark.name.clone(), self.spec.log.clone());
        MeasureError::Slice { microbenchmark, source, tail, log }
    }
}

/// How many events are counted: the same for every release, as many as [`BUDGET`] is about enough for.
pub(super) fn events(microbenchmark: &Microbenchmark, rows: u64) -> u64 {
    let cost =
        |statement: &Statement| u64::from(statement.times) * (PER_STATEMENT + PER_ROW * rows_met(statement, rows));
    let event: u64 = microbenchmark.statements.iter().map(cost).sum();
    (BUDGET / event.max(1)).clamp(FEWEST_EVENTS, MOST_EVENTS)
}

/// Whether a range is so long that the table's end cuts many of them off.
pub(super) fn has_long_ranges(microbenchmark: &Microbenchmark, rows: u64) -> bool {
    /// As a share of the table.
    const LONG: u64 = 10;
    let spans = microbenchmark.statements.iter().flat_map(|statement| statement.params.iter().filter_map(span));
    spans.max().is_some_and(|span| span > rows / LONG)
}

/// How many events go before the counted ones.
pub(super) fn warmup_events(events: u64) -> u64 {
    (events / WARMUP_SHARE).max(FEWEST_WARMUP)
}

/// Rows that one execution meets, about: those of its range, one per parameter, or all.
fn rows_met(statement: &Statement, rows: u64) -> u64 {
    match statement.params.iter().filter_map(span).max() {
        Some(span) => span.min(rows),
        None if statement.params.is_empty() => rows,
        None => statement.params.len() as u64,
    }
}

/// Distance from the value that a parameter refers to.
fn span(param: &Param) -> Option<u64> {
    match param {
        Param::Offset { plus, .. } => u64::try_from(*plus).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn longer_events_are_counted_less_often() {
        let statement = |params: Vec<Param>| Statement { sql: "SELECT 1".to_owned(), params, times: 1 };
        let uniform = Param::Uniform { over: None, keep: None };
        let point = statement(vec![uniform]);
        let range = statement(vec![uniform, Param::Offset { of: 1, plus: 99 }]);
        let list = statement(vec![uniform; 10]);
        assert_eq!([&point, &range, &list, &statement(Vec::new())].map(|one| rows_met(one, 5000)), [1, 99, 10, 5000]);
        let mut microbenchmark = Microbenchmark {
            name: "x".to_owned(),
            group: String::new(),
            shape: String::new(),
            step: 1,
            range: None,
            clock: crate::domain::Clock::Read,
            unit: crate::domain::RateUnit::Qps,
            protocol: crate::domain::WireProtocol::Prepared,
            connections: 1,
            transaction: false,
            statements: vec![point],
            why: String::new(),
        };
        assert_eq!(events(&microbenchmark, 5000), BUDGET / (PER_STATEMENT + PER_ROW));
        assert!(!has_long_ranges(&microbenchmark, 10));
        microbenchmark.statements = vec![Statement { times: 4, ..range }];
        assert!(has_long_ranges(&microbenchmark, 980) && !has_long_ranges(&microbenchmark, 990));
        assert_eq!(events(&microbenchmark, 5000), BUDGET / (4 * (PER_STATEMENT + 99 * PER_ROW)));
        microbenchmark.statements = vec![statement(Vec::new())];
        assert_eq!(events(&microbenchmark, 1_000_000), FEWEST_EVENTS);
    }
}
