//! The backend's instructions for either client: the same events on a server under valgrind.
//!
//! The backend's CPU time also depends on how much of the cache a client leaves it. Its instructions do not.

use std::time::Duration;

use super::super::MeasureError;
use super::super::instructions::{self, COUNTS_DIR, callgrind};
use super::super::slice::wait_for_exit;
use super::{Events, ParityBench, ParitySpec, seed};
use crate::domain::{CountedRun, Microbenchmark, ParityRecord};
use crate::load::{Session, Until};
use crate::server::{Account, Cluster, Server, StartOptions};

/// A server under valgrind is some fifty times slower.
const PATIENCE: Duration = Duration::from_secs(600);

/// Initialises a cluster and starts its server under valgrind.
pub(super) fn start(
    spec: &ParitySpec,
    account: &Account,
    start: &StartOptions,
    settings: &str,
) -> Result<Server, MeasureError> {
    let settings = format!("{settings}\n{}", instructions::SETTINGS);
    let cluster = Cluster::create(&spec.build, account, &spec.data(), &spec.init, &settings)?;
    let counts = spec.data().join(COUNTS_DIR);
    account.create_dir(&counts)?;
    let options = StartOptions { under: callgrind::command(&counts), ..start.clone() };
    Ok(cluster.start(&options, &spec.log())?)
}

impl ParityBench<'_> {
    /// Compares statements, then counts the backend's instructions for as many events of either client. The server is
    /// one that was started for it.
    pub fn count(&mut self, microbenchmark: &Microbenchmark) -> Result<ParityRecord, MeasureError> {
        self.make_table_ready(microbenchmark)?;
        let differences = self.differences(microbenchmark)?;
        let timed = instructions::events(microbenchmark, self.spec.rows);
        let warmup = instructions::warmup_events(timed);
        let events = Events { warmup, timed, deadline: PATIENCE, mark: Some(callgrind::MARK) };
        let regtrack = self.count_regtrack(microbenchmark, events)?;
        let sysbench = self.count_sysbench(microbenchmark, events)?;
        let alike = !instructions::has_long_ranges(microbenchmark, self.spec.rows);
        let queries = timed * u64::from(microbenchmark.queries_per_event());
        let counted = Some(CountedRun { queries, regtrack, sysbench, alike });
        Ok(ParityRecord { microbenchmark: microbenchmark.name.clone(), differences, rounds: Vec::new(), counted })
    }

    fn count_regtrack(&mut self, microbenchmark: &Microbenchmark, events: Events) -> Result<u64, MeasureError> {
        self.make_table_ready(microbenchmark)?;
        let mut session = self.open_session(microbenchmark, seed(0, 0))?;
        session.wait_for_sleep();
        let backend = session.backend_pid();
        self.run(&mut session, microbenchmark, Until::Events(events.warmup))?;
        for _ in 0..2 {
            self.mark(&mut session, microbenchmark)?;
        }
        self.run(&mut session, microbenchmark, Until::Events(events.timed))?;
        self.mark(&mut session, microbenchmark)?;
        drop(session);
        self.counted(backend)
    }

    fn mark(&self, session: &mut Session, microbenchmark: &Microbenchmark) -> Result<(), MeasureError> {
        session.statement(callgrind::MARK).map_err(|source| self.slice_error(microbenchmark, source))
    }

    fn count_sysbench(&mut self, microbenchmark: &Microbenchmark, events: Events) -> Result<u64, MeasureError> {
        self.make_table_ready(microbenchmark)?;
        let failed = |source| self.rival_error(microbenchmark, source);
        let mut gate = self.gate(microbenchmark, events, seed(0, 1))?;
        let backend = self.rival_backend(microbenchmark)?;
        gate.pass().map_err(failed)?;
        gate.end().map_err(failed)?;
        self.counted(backend)
    }

    /// What the backend wrote, which has ended or is about to.
    fn counted(&self, backend: u32) -> Result<u64, MeasureError> {
        wait_for_exit(backend);
        let counts = self.spec.data().join(COUNTS_DIR);
        let count = callgrind::count(&counts, backend);
        callgrind::remove(&counts, backend);
        count
    }
}
