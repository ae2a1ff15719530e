//! One microbenchmark on one connection: its statements prepared, its events executed, its counts
//! kept.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use rustix::time::{ClockId, clock_gettime};

use super::idle::wait_for_sleep;
use super::random::{Random, Zipfian};
use super::wire::{Params, Prepared, Reply, Waiting, WireClient, WireError};
use crate::domain::{Endpoint, Microbenchmark, Param, Statement, WireProtocol};

/// Longest latency that the histogram tells apart: one hour, in nanoseconds.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// Significant decimal digits of recorded latencies.
const LATENCY_DIGITS: u8 = 3;

/// Seconds for which a run of a number of events has room, so that its loop does not allocate.
const ROOM_SECONDS: usize = 3600;

/// Values that an event can keep for later statements.
const SLOTS: usize = 4;

/// When a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// At the first event boundary past this time.
    Elapsed(Duration),
    /// After this many events of each connection.
    Events(u64),
}

/// What the world outside tells the loop and hears from it, without a lock.
#[derive(Debug, Default)]
pub struct Control {
    /// Set to end the run at the next event boundary.
    pub stop: Arc<AtomicBool>,
    /// Queries completed in the last full second.
    pub queries_last_second: AtomicU64,
}

/// What a run counted.
#[derive(Debug, Clone)]
pub struct Tally {
    /// From the start to the end of the last event; of several connections, from the first start to the last end.
    pub elapsed: Duration,
    /// CPU time of the threads that ran the events, in nanoseconds.
    pub client_cpu_ns: u64,
    /// Events completed.
    pub events: u64,
    /// Statements completed, BEGIN and COMMIT included.
    pub queries: u64,
    /// Statements that returned a result set.
    pub reads: u64,
    /// Commands that affected at least one row.
    pub writes: u64,
    /// Commands that affected none.
    pub others: u64,
    /// Rows received.
    pub rows: u64,
    /// Events run again after a deadlock, duplicate key or serialisation failure.
    pub retries: u64,
    /// Queries completed in each full second.
    pub queries_by_second: Vec<u32>,
    /// Event latencies in nanoseconds.
    pub latency: Histogram<u64>,
    /// Whether the run was ended by [`Control::stop`].
    pub interrupted: bool,
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            elapsed: Duration::ZERO,
            client_cpu_ns: 0,
            events: 0,
            queries: 0,
            reads: 0,
            writes: 0,
            others: 0,
            rows: 0,
            retries: 0,
            queries_by_second: Vec::new(),
            latency: Histogram::new_with_bounds(1, LONGEST_NS, LATENCY_DIGITS)
                .unwrap_or_else(|error| unreachable!("constant histogram bounds: {error}")),
            interrupted: false,
        }
    }
}

impl Tally {
    /// Makes room ahead, so that the loop does not allocate.
    fn reserve(&mut self, until: Until) {
        let seconds = match until {
            Until::Elapsed(duration) => usize::try_from(duration.as_secs()).unwrap_or(0) + 2,
            Until::Events(_) => ROOM_SECONDS,
        };
        self.queries_by_second.reserve(seconds);
    }

    fn full_seconds(&self) -> u32 {
        u32::try_from(self.queries_by_second.len()).unwrap_or(u32::MAX)
    }

    /// Adds what another connection counted at the same time. The elapsed time is the caller's business.
    pub(super) fn add(&mut self, other: &Self) {
        self.client_cpu_ns += other.client_cpu_ns;
        self.events += other.events;
        self.queries += other.queries;
        self.reads += other.reads;
        self.writes += other.writes;
        self.others += other.others;
        self.rows += other.rows;
        self.retries += other.retries;
        // Seconds in which all worked: one that ends late has a second more.
        self.queries_by_second.truncate(other.queries_by_second.len());
        for (sum, queries) in self.queries_by_second.iter_mut().zip(&other.queries_by_second) {
            *sum = sum.saturating_add(*queries);
        }
        self.latency.add(&other.latency).unwrap_or_else(|error| unreachable!("histograms of equal bounds: {error}"));
        self.interrupted |= other.interrupted;
    }

    fn count(&mut self, reply: Reply) {
        self.queries += 1;
        self.rows += reply.rows;
        if reply.is_result_set {
            self.reads += 1;
        } else if reply.affected > 0 {
            self.writes += 1;
        } else {
            self.others += 1;
        }
    }
}

/// One statement, ready to execute.
enum Ready {
    Prepared { statement: Prepared, draws: Vec<Draw>, times: u32 },
    Simple { pieces: Vec<String>, draws: Vec<Draw>, times: u32 },
}

/// A parameter with everything resolved that does not change between events.
enum Draw {
    Uniform { over: u64, keep: Option<usize> },
    Zipfian(Box<Zipfian>),
    Constant(i64),
    Offset { of: usize, plus: i64 },
    Kept(usize),
    Digits { groups: usize },
}

/// One microbenchmark on one open connection.
pub struct Session {
    client: WireClient,
    begin: Option<Prepared>,
    commit: Option<Prepared>,
    statements: Vec<Ready>,
    values: Values,
    random: Random,
    /// Process of the backend, when every message waits until that sleeps.
    sleeper: Option<u32>,
}

/// Integers of the event in progress.
struct Values {
    kept: [i64; SLOTS],
    /// Integer parameters of the statement in progress, by position.
    current: Vec<i64>,
}

impl Session {
    /// Connects and prepares every statement, so that nothing of it falls into the timed stretch.
    pub fn open(
        endpoint: &Endpoint,
        microbenchmark: &Microbenchmark,
        table_rows: u64,
        seed: u64,
    ) -> Result<Self, WireError> {
        Self::open_waiting(endpoint, microbenchmark, table_rows, seed, Waiting::default())
    }

    /// As [`Self::open`], with another way to wait for answers.
    pub fn open_waiting(
        endpoint: &Endpoint,
        microbenchmark: &Microbenchmark,
        table_rows: u64,
        seed: u64,
        waiting: Waiting,
    ) -> Result<Self, WireError> {
        let mut client = WireClient::connect(endpoint, waiting)?;
        let (begin, commit) = if microbenchmark.transaction {
            let mut prepare = |number, sql| client.prepare(&statement_name(number), sql, &[]);
            (Some(prepare(BEGIN, "BEGIN")?), Some(prepare(COMMIT, "COMMIT")?))
        } else {
            (None, None)
        };
        let mut statements = Vec::with_capacity(microbenchmark.statements.len());
        for (index, statement) in microbenchmark.statements.iter().enumerate() {
            let draws: Vec<Draw> = statement.params.iter().map(|param| Draw::new(*param, table_rows)).collect();
            let times = statement.times;
            statements.push(match microbenchmark.protocol {
                WireProtocol::Prepared => {
                    let text_params: Vec<bool> = statement.params.iter().map(|param| param.is_text()).collect();
                    let prepared = client.prepare(&statement_name(index), &statement.sql, &text_params)?;
                    Ready::Prepared { statement: prepared, draws, times }
                }
                WireProtocol::Simple => Ready::Simple { pieces: pieces(statement), draws, times },
            });
        }
        let longest = microbenchmark.statements.iter().map(|statement| statement.params.len()).max().unwrap_or(0);
        let values = Values { kept: [0; SLOTS], current: Vec::with_capacity(longest) };
        Ok(Self { client, begin, commit, statements, values, random: Random::new(seed), sleeper: None })
    }

    /// From now on sends nothing before the backend sleeps. Each message then finds it in the same state, so that equal
    /// messages cost it equal numbers of instructions; the rate means nothing any more.
    pub fn wait_for_sleep(&mut self) {
        self.sleeper = Some(self.backend_pid());
    }

    /// Runs a statement that is none of the microbenchmark's, and counts nothing.
    pub fn statement(&mut self, sql: &str) -> Result<(), WireError> {
        wait_for_sleep(self.sleeper);
        self.client.simple(|text| text.extend_from_slice(sql.as_bytes())).map(drop)
    }

    /// What EXPLAIN says about each statement, as JSON and in the statements' order. It plans with values as the events
    /// draw them and executes nothing: of a prepared statement it shows the plan that its next execution would get.
    /// Changes no count, and is for after the last event.
    pub fn explain(&mut self) -> Result<Vec<String>, WireError> {
        let Self { client, statements, values, random, .. } = self;
        let explain = |(number, statement): (usize, &Ready)| {
            let mut sql = b"EXPLAIN (FORMAT JSON) ".to_vec();
            match statement {
                Ready::Prepared { draws, .. } => {
                    let pieces = execute_pieces(&statement_name(number), draws.len());
                    splice(&pieces, draws, values, random, &mut sql);
                }
                Ready::Simple { pieces, draws, .. } => splice(pieces, draws, values, random, &mut sql),
            }
            client.first_column(&String::from_utf8_lossy(&sql)).map(|lines| lines.join("\n"))
        };
        statements.iter().enumerate().map(explain).collect()
    }

    /// Process id of the server's backend.
    #[must_use]
    pub fn backend_pid(&self) -> u32 {
        self.client.backend_pid()
    }

    /// Runs events until the given end. The clock is looked at between events only, so the last
    /// event may finish late; the elapsed time says so.
    pub fn run(&mut self, until: Until, control: &Control) -> Result<Tally, WireError> {
        let mut tally = Tally::default();
        self.run_into(
            &mut tally,
            until,
            || control.stop.load(Ordering::Relaxed),
            |queries| {
                control.queries_last_second.store(queries, Ordering::Relaxed);
            },
        )?;
        Ok(tally)
    }

    /// The timed loop, as one more stretch of what `tally` has counted: `until` is about this stretch, and the seconds go
    /// on as if nothing had been between the stretches. Ends early when `is_stopped` says so, and hands the queries of
    /// each second to `every_second`. Returns when the first event began and the last one ended.
    pub(super) fn run_into(
        &mut self,
        tally: &mut Tally,
        until: Until,
        is_stopped: impl Fn() -> bool,
        every_second: impl Fn(u64),
    ) -> Result<Range<Instant>, WireError> {
        const SECOND: Duration = Duration::from_secs(1);
        tally.reserve(until);
        let (elapsed_before, events_before) = (tally.elapsed, tally.events);
        let mut queries_before_second = tally.queries_by_second.iter().copied().map(u64::from).sum();
        let cpu_before = thread_cpu_ns();
        let start = Instant::now();
        let mut event_start = start;
        let mut next_second = start + (SECOND * (tally.full_seconds() + 1)).saturating_sub(elapsed_before);
        loop {
            let done = match until {
                Until::Elapsed(limit) => event_start - start >= limit,
                Until::Events(limit) => tally.events - events_before >= limit,
            };
            tally.interrupted = is_stopped();
            if done || tally.interrupted {
                break;
            }
            self.event_with_retries(tally)?;
            let now = Instant::now();
            let latency = u64::try_from((now - event_start).as_nanos()).unwrap_or(LONGEST_NS);
            tally.latency.saturating_record(latency.max(1));
            tally.events += 1;
            event_start = now;
            while now >= next_second {
                // An event that spans seconds is counted in the one it ends in.
                let in_second = tally.queries - queries_before_second;
                queries_before_second = tally.queries;
                tally.queries_by_second.push(u32::try_from(in_second).unwrap_or(u32::MAX));
                every_second(in_second);
                next_second += SECOND;
            }
        }
        tally.client_cpu_ns += thread_cpu_ns() - cpu_before;
        tally.elapsed = elapsed_before + (event_start - start);
        Ok(start..event_start)
    }

    /// One event; rolled back and run again for the errors that sysbench ignores.
    fn event_with_retries(&mut self, tally: &mut Tally) -> Result<(), WireError> {
        loop {
            match self.event(tally) {
                Err(WireError::Statement { error, .. }) if error.is_retried() => {
                    tally.retries += 1;
                    self.client.simple(|sql| sql.extend_from_slice(b"ROLLBACK"))?;
                }
                other => return other,
            }
        }
    }

    fn event(&mut self, tally: &mut Tally) -> Result<(), WireError> {
        let Self { client, begin, commit, statements, values, random, sleeper } = self;
        if let Some(begin) = begin {
            wait_for_sleep(*sleeper);
            tally.count(client.execute(begin, |_| {})?);
        }
        for statement in statements {
            match statement {
                Ready::Prepared { statement, draws, times } => {
                    for _ in 0..*times {
                        wait_for_sleep(*sleeper);
                        let reply = client.execute(statement, |params| bind(draws, values, random, params))?;
                        tally.count(reply);
                    }
                }
                Ready::Simple { pieces, draws, times } => {
                    for _ in 0..*times {
                        wait_for_sleep(*sleeper);
                        tally.count(client.simple(|sql| splice(pieces, draws, values, random, sql))?);
                    }
                }
            }
        }
        if let Some(commit) = commit {
            wait_for_sleep(*sleeper);
            tally.count(client.execute(commit, |_| {})?);
        }
        Ok(())
    }
}

/// CPU time of the calling thread so far, in nanoseconds. Unlike procfs, it has the time since the last tick in it.
fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec.cast_unsigned() * 1_000_000_000 + time.tv_nsec.cast_unsigned()
}

impl Draw {
    fn new(param: Param, table_rows: u64) -> Self {
        const C_GROUPS: usize = 10;
        const PAD_GROUPS: usize = 5;
        match param {
            Param::Uniform { over, keep } => {
                Self::Uniform { over: over.unwrap_or(table_rows), keep: keep.map(usize::from) }
            }
            Param::Zipfian { exponent } => Self::Zipfian(Box::new(Zipfian::new(table_rows, exponent))),
            Param::Middle { index } => Self::Constant(signed(table_rows / 2) + i64::from(index)),
            Param::Offset { of, plus } => Self::Offset { of: usize::from(of) - 1, plus },
            Param::Kept { slot } => Self::Kept(usize::from(slot)),
            Param::C => Self::Digits { groups: C_GROUPS },
            Param::Pad => Self::Digits { groups: PAD_GROUPS },
        }
    }

    /// The next integer, or the number of digit groups of a text.
    fn next(&self, values: &mut Values, random: &mut Random) -> Result<i64, usize> {
        let value = match self {
            Self::Uniform { over, keep } => {
                let value = signed(random.uniform(*over));
                if let Some(slot) = keep {
                    values.kept[*slot] = value;
                }
                value
            }
            Self::Zipfian(zipfian) => signed(zipfian.draw(random)),
            Self::Constant(value) => *value,
            Self::Offset { of, plus } => values.current[*of] + plus,
            Self::Kept(slot) => values.kept[*slot],
            Self::Digits { groups } => return Err(*groups),
        };
        Ok(value)
    }
}

/// Table sizes and row numbers stay far below 2^63.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn bind(draws: &[Draw], values: &mut Values, random: &mut Random, params: &mut Params<'_>) {
    values.current.clear();
    for draw in draws {
        match draw.next(values, random) {
            Ok(value) => {
                values.current.push(value);
                params.integer(value);
            }
            Err(groups) => {
                values.current.push(0);
                params.text(|text| random.digit_groups(groups, text));
            }
        }
    }
}

/// Writes a literal statement: `pieces[i]` stands before parameter i, the last piece after all.
fn splice(pieces: &[String], draws: &[Draw], values: &mut Values, random: &mut Random, sql: &mut Vec<u8>) {
    values.current.clear();
    for (piece, draw) in pieces.iter().zip(draws) {
        sql.extend_from_slice(piece.as_bytes());
        match draw.next(values, random) {
            Ok(value) => {
                values.current.push(value);
                sql.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
            }
            Err(groups) => {
                values.current.push(0);
                sql.push(b'\'');
                random.digit_groups(groups, sql);
                sql.push(b'\'');
            }
        }
    }
    if let Some(last) = pieces.get(draws.len()) {
        sql.extend_from_slice(last.as_bytes());
    }
}

/// Cuts a statement's text at its placeholders `$1 … $n`, which the catalogue has checked to stand
/// in order.
fn pieces(statement: &Statement) -> Vec<String> {
    let mut rest = statement.sql.as_str();
    let mut pieces = Vec::with_capacity(statement.params.len() + 1);
    for number in 1..=statement.params.len() {
        let (before, after) = rest.split_once(&format!("${number}")).unwrap_or((rest, ""));
        pieces.push(before.to_owned());
        rest = after;
    }
    pieces.push(rest.to_owned());
    pieces
}

/// What stands around the values of `EXECUTE name(…)`, as for [`splice`].
fn execute_pieces(name: &str, params: usize) -> Vec<String> {
    if params == 0 {
        return vec![format!("EXECUTE {name}")];
    }
    let between = std::iter::repeat_n(", ".to_owned(), params - 1);
    std::iter::once(format!("EXECUTE {name}(")).chain(between).chain([")".to_owned()]).collect()
}

/// Numbers of the statements about a transaction; the others count from 0.
const BEGIN: usize = 1000;
const COMMIT: usize = 1001;

/// What a prepared statement is called: as long as sysbench's names are in the mean, which consist of the same word and
/// two random 32-bit integers (`get_unique_stmt_name` in its PostgreSQL driver). The server checks, copies and hashes
/// the name at each Bind: short ones would spare it one percent of a point query's instructions.
fn statement_name(number: usize) -> String {
    format!("sbstmt{number:020}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literal_statements_are_spliced_in_order() {
        let statement = Statement {
            sql: "INSERT INTO t (k, c) VALUES ($1, $2)".to_owned(),
            params: vec![Param::Uniform { over: Some(1), keep: None }, Param::Pad],
            times: 1,
        };
        let draws: Vec<Draw> = statement.params.iter().map(|param| Draw::new(*param, 10)).collect();
        let mut values = Values { kept: [0; SLOTS], current: Vec::new() };
        let mut sql = Vec::new();
        splice(&pieces(&statement), &draws, &mut values, &mut Random::new(1), &mut sql);
        let sql = String::from_utf8(sql).unwrap();
        assert!(sql.starts_with("INSERT INTO t (k, c) VALUES (1, '"), "{sql}");
        assert!(sql.ends_with("')"), "{sql}");
        assert_eq!(sql.len(), "INSERT INTO t (k, c) VALUES (1, '')".len() + 59);
    }

    #[test]
    fn a_prepared_statement_is_executed_with_as_many_values_as_it_has_parameters() {
        let spliced = |draws: &[Draw]| {
            let mut values = Values { kept: [0; SLOTS], current: Vec::new() };
            let mut sql = Vec::new();
            splice(&execute_pieces("s", draws.len()), draws, &mut values, &mut Random::new(1), &mut sql);
            String::from_utf8(sql).unwrap()
        };
        assert_eq!(spliced(&[]), "EXECUTE s");
        assert_eq!(spliced(&[Draw::Constant(7)]), "EXECUTE s(7)");
        assert_eq!(spliced(&[Draw::Constant(7), Draw::Offset { of: 0, plus: 2 }]), "EXECUTE s(7, 9)");
    }

    #[test]
    fn offsets_and_kept_values_refer_to_the_same_event() {
        let params = [
            Param::Uniform { over: None, keep: Some(2) },
            Param::Offset { of: 1, plus: 99 },
            Param::Kept { slot: 2 },
            Param::Middle { index: 1 },
        ];
        let draws: Vec<Draw> = params.iter().map(|param| Draw::new(*param, 1000)).collect();
        let mut values = Values { kept: [0; SLOTS], current: Vec::new() };
        let mut random = Random::new(9);
        for _ in 0..50 {
            values.current.clear();
            for draw in &draws {
                let value = draw.next(&mut values, &mut random).unwrap();
                values.current.push(value);
            }
            let [first, second, third, fourth] = values.current[..] else { panic!() };
            assert_eq!((second, third, fourth), (first + 99, first, 501));
        }
    }
}
