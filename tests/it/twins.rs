//! sysbench with the twins in `sysbench-lua/` against regtrack: both send the same, message by message.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use regtrack::catalog::{suite, twins};
use regtrack::domain::{Build, Endpoint, Microbenchmark, Param, Statement, WireProtocol};
use regtrack::load::{self, Control, Session, Tally, Until};
use regtrack::process;
use regtrack::server::{Account, Cluster, InitOptions, Server, StartOptions};

use crate::common::{must_run, runs};
use crate::live;
use crate::tap::{Execution, Sent, Tap};

const ROWS: u64 = 10_000;

/// Bytes by which the names of statements may differ. Two random 32-bit integers seldom have fewer than 14 characters
/// together.
const NAME_TOLERANCE: usize = 6;

const EVENTS: u64 = 20;
/// Enough to tell one distribution from another.
const ZIPFIAN_EVENTS: u64 = 2_000;

const INT8_OID: i32 = 20;
const VARCHAR_OID: i32 = 1043;

/// Deviations from the expected count, in standard deviations, beyond which a draw is not what it
/// should be. All draws are seeded, so a passing test goes on passing.
const FAR: f64 = 4.5;

/// How long one run of sysbench may take.
const DEADLINE: Duration = Duration::from_secs(30);

/// sysbench and a running server; `None`, with a word about it, where either is not at hand.
fn both_programs(test: &str) -> Option<(Sysbench, Bench)> {
    let build = match live::build("17") {
        Ok(build) => build,
        Err(reason) => {
            must_run(test, &reason);
            return None;
        }
    };
    let sysbench = Sysbench::find(test)?;
    runs(test);
    Some((sysbench, Bench::start(&build)))
}

#[test]
fn twins_send_what_regtrack_sends() {
    let Some((sysbench, bench)) = both_programs("twins_send_what_regtrack_sends") else { return };
    let suite = suite::builtin().unwrap();
    load::load(&bench.server.connect().unwrap(), &suite.dataset, ROWS, &AtomicBool::new(false)).unwrap();

    let mut drawn = Drawn::default();
    for microbenchmark in &suite.microbenchmarks {
        let name = &microbenchmark.name;
        let zipfian = params(microbenchmark).any(|param| matches!(param, Param::Zipfian { .. }));
        let events = if zipfian { ZIPFIAN_EVENTS } else { EVENTS };

        let (theirs, report) = sysbench.tapped(&bench, microbenchmark, events);
        let (ours, tally) = regtrack_tapped(&bench, microbenchmark, events);
        drawn.check(&theirs, microbenchmark, events, "sysbench");
        Drawn::default().check(&ours, microbenchmark, events, "regtrack");
        assert_eq!(theirs.prepared, ours.prepared, "{name}: prepared, sysbench on the left");
        check_names(&theirs, &ours, name);
        let envelopes = |sent: &Sent| sent.executed.iter().map(|one| one.envelope.clone()).collect::<Vec<_>>();
        assert_eq!(envelopes(&theirs), envelopes(&ours), "{name}: messages, sysbench on the left");
        compare_counts(microbenchmark, events, &report, &tally);
    }
    drawn.check_distributions();
}

#[test]
fn the_table_that_a_twin_prepares_is_the_one_that_regtrack_loads() {
    const LOOK: &str = "SELECT concat_ws(' | ', \
        (SELECT string_agg(concat_ws(' ', column_name, data_type, character_maximum_length, column_default, \
          is_nullable), ', ' ORDER BY ordinal_position) FROM information_schema.columns WHERE table_name = 'sbtest1'), \
        (SELECT string_agg(indexdef, ', ' ORDER BY indexname) FROM pg_indexes WHERE tablename = 'sbtest1'), \
        (SELECT last_value FROM sbtest1_id_seq), count(*), min(id), max(id), \
        bool_and(k BETWEEN 1 AND count), max(k) > count * 0.99, count(DISTINCT k) > count * 0.6, \
        bool_and(c ~ '^([0-9]{11}-){9}[0-9]{11} *$' AND pad ~ '^([0-9]{11}-){4}[0-9]{11} *$')) \
        FROM sbtest1, (SELECT count(*) FROM sbtest1) AS size GROUP BY count";

    let Some((sysbench, bench)) = both_programs("the_table_that_a_twin_prepares_is_the_one_that_regtrack_loads") else {
        return;
    };
    let admin = bench.server.connect().unwrap();
    let endpoint = bench.server.endpoint();
    sysbench.run("point-query", endpoint, endpoint.port, &["prepare".to_owned()]);
    let theirs = admin.text(LOOK).unwrap().unwrap();
    sysbench.run("point-query", endpoint, endpoint.port, &["cleanup".to_owned()]);
    let rest = admin.text("SELECT string_agg(relname, ' ') FROM pg_class WHERE relname LIKE 'sbtest%'").unwrap();
    assert_eq!(rest, None, "what cleanup leaves behind");

    load::load(&admin, &suite::builtin().unwrap().dataset, ROWS, &AtomicBool::new(false)).unwrap();
    assert_eq!(theirs, admin.text(LOOK).unwrap().unwrap());
    assert!(theirs.ends_with("| 10000 | 10000 | 1 | 10000 | t | t | t | t"), "{theirs}");
}

// --------------------------------------------------------------------------------- the two clients

/// A sysbench that can talk to PostgreSQL.
struct Sysbench {
    program: PathBuf,
    /// By microbenchmark: the option of the twin for each placeholder of the shape.
    options: BTreeMap<String, Vec<String>>,
}

impl Sysbench {
    /// The program that `REGTRACK_SYSBENCH` names, or the one on the search path; `None`, with a word
    /// about it, where there is none.
    fn find(test: &str) -> Option<Self> {
        let named = std::env::var_os("REGTRACK_SYSBENCH");
        let program = PathBuf::from(named.clone().unwrap_or_else(|| "sysbench".into()));
        let reason = match process::run(Command::new(&program).arg("--help"), DEADLINE, None) {
            Ok(help) if help.contains("pgsql - PostgreSQL driver") => {
                return Some(Self { program, options: twins::options().unwrap() });
            }
            Ok(_) => format!("{} has no driver for PostgreSQL", program.display()),
            Err(error) => error.to_string(),
        };
        assert!(named.is_none(), "REGTRACK_SYSBENCH: {reason}");
        must_run(test, &format!("{reason} (REGTRACK_SYSBENCH names another sysbench)"));
        None
    }

    /// Runs the twin of a shape against the server, over `port`, and returns the report.
    fn run(&self, shape: &str, endpoint: &Endpoint, port: u16, arguments: &[String]) -> String {
        let mut command = Command::new(&self.program);
        // The test must work from any directory, whatever the caller's PGSSLMODE or PGOPTIONS are.
        command.current_dir("/");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
            command.env_remove(name);
        }
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("sysbench-lua/{shape}.lua")));
        command.args(["--db-driver=pgsql", "--pgsql-host=127.0.0.1", "--threads=1", "--time=0"]);
        command.arg(format!("--pgsql-port={port}"));
        command.arg(format!("--pgsql-user={}", endpoint.user));
        command.arg(format!("--pgsql-db={}", endpoint.database));
        command.arg(format!("--table-size={ROWS}"));
        command.args(arguments);
        process::run(&mut command, DEADLINE, None).unwrap_or_else(|error| panic!("{error}"))
    }

    fn tapped(&self, bench: &Bench, microbenchmark: &Microbenchmark, events: u64) -> (Sent, String) {
        let endpoint = bench.server.endpoint();
        let tap = Tap::before(endpoint.port);
        let mut arguments = self.options[&microbenchmark.name].clone();
        arguments.push(format!("--events={events}"));
        arguments.push(format!("--rand-seed={}", microbenchmark.step));
        arguments.push("run".to_owned());
        let report = self.run(&microbenchmark.shape, endpoint, tap.port(), &arguments);
        (tap.sent(), report)
    }
}

fn regtrack_tapped(bench: &Bench, microbenchmark: &Microbenchmark, events: u64) -> (Sent, Tally) {
    let tap = Tap::before(bench.server.endpoint().port);
    let endpoint = Endpoint { port: tap.port(), ..bench.server.endpoint().clone() };
    let seed = u64::from(microbenchmark.step);
    let mut session = Session::open(&endpoint, microbenchmark, ROWS, seed).unwrap();
    let tally = session.run(Until::Events(events), &Control::default()).unwrap();
    drop(session);
    (tap.sent(), tally)
}

/// What each client says that it did.
fn compare_counts(microbenchmark: &Microbenchmark, events: u64, report: &str, tally: &Tally) {
    let count = |label: &str| -> u64 {
        let line = report.lines().find_map(|line| line.trim().strip_prefix(label)).expect(label);
        line.trim().parse().unwrap()
    };
    let name = &microbenchmark.name;
    let expected = u64::from(microbenchmark.queries_per_event()) * events;
    assert_eq!((count("total:"), tally.queries), (expected, expected), "{name}: queries");
    assert_eq!(count("read:"), tally.reads, "{name}: reads");
    assert_eq!(count("total number of events:"), tally.events, "{name}: events");
    // Which ids are gone already is chance.
    if microbenchmark.shape != "delete" {
        assert_eq!((count("write:"), count("other:")), (tally.writes, tally.others), "{name}: writes, others");
    }
}

// ------------------------------------------------------------------------------------- what was sent

fn params(microbenchmark: &Microbenchmark) -> impl Iterator<Item = Param> {
    microbenchmark.statements.iter().flat_map(|statement| statement.params.iter().copied())
}

/// Values that a client drew.
#[derive(Default)]
struct Drawn {
    /// Uniform integers over the table, by tenth.
    tenths: [u32; 10],
    /// Digits of texts.
    digits: [u32; 10],
    zipfian: Vec<u64>,
}

impl Drawn {
    /// Holds what a client sent against the suite, statement by statement, and notes what it drew.
    fn check(&mut self, sent: &Sent, microbenchmark: &Microbenchmark, events: u64, client: &str) {
        let name = format!("{client}, {}", microbenchmark.name);
        check_types(sent, microbenchmark, &name);
        let mut executed = sent.executed.iter();
        for _ in 0..events {
            let mut kept = BTreeMap::new();
            let mut next = |what: &str| executed.next().unwrap_or_else(|| panic!("{name}: nothing in place of {what}"));
            if microbenchmark.transaction {
                assert_eq!(next("BEGIN").sql, "BEGIN", "{name}");
            }
            for statement in &microbenchmark.statements {
                for _ in 0..statement.times {
                    let values = values(next(&statement.sql), statement, microbenchmark.protocol, &name);
                    for (number, param) in statement.params.iter().enumerate() {
                        self.check_value(*param, number, &values, &mut kept, &name);
                    }
                }
            }
            if microbenchmark.transaction {
                assert_eq!(next("COMMIT").sql, "COMMIT", "{name}");
            }
        }
        assert_eq!(executed.next(), None, "{name}: one too many");
    }

    fn check_value(
        &mut self,
        param: Param,
        number: usize,
        values: &[String],
        kept: &mut BTreeMap<u8, u64>,
        name: &str,
    ) {
        let text = &values[number];
        let integer = |number: usize| -> u64 {
            values[number].parse().unwrap_or_else(|_| panic!("{name}: {text} is no integer"))
        };
        let is = |expected: u64| assert_eq!(integer(number), expected, "{name}: ${}", number + 1);
        let within = |most: u64| assert!((1..=most).contains(&integer(number)), "{name}: {text} beyond {most}");
        match param {
            Param::Uniform { over, keep } => {
                within(over.unwrap_or(ROWS));
                if over.is_none() {
                    self.tenths[usize::try_from((integer(number) - 1) * 10 / ROWS).unwrap()] += 1;
                }
                if let Some(slot) = keep {
                    kept.insert(slot, integer(number));
                }
            }
            Param::Zipfian { .. } => {
                within(ROWS);
                self.zipfian.push(integer(number));
            }
            Param::Middle { index } => is(ROWS / 2 + u64::from(index)),
            Param::Offset { of, plus } => is(integer(usize::from(of) - 1).strict_add_signed(plus)),
            Param::Kept { slot } => is(kept[&slot]),
            Param::C => self.check_text(text, 10, name),
            Param::Pad => self.check_text(text, 5, name),
        }
    }

    fn check_text(&mut self, text: &str, groups: usize, name: &str) {
        let found: Vec<&str> = text.split('-').collect();
        let digits = |group: &&str| group.len() == 11 && group.bytes().all(|byte| byte.is_ascii_digit());
        assert!(found.len() == groups && found.iter().all(digits), "{name}: {text} is not {groups} groups of digits");
        for byte in text.bytes().filter(u8::is_ascii_digit) {
            self.digits[usize::from(byte - b'0')] += 1;
        }
    }

    /// Whether the draws are spread as they should be.
    fn check_distributions(&self) {
        for (counts, what) in [(self.tenths, "uniform integers"), (self.digits, "digits")] {
            let total: u32 = counts.iter().sum();
            assert!(total > 10_000, "{total} {what}");
            for count in counts {
                let far = deviation(count, 0.1, total);
                assert!(far.abs() < FAR, "{what}: {counts:?}");
            }
        }
        let weight = |ranks: u64| (1..=ranks).map(|rank| (rank as f64).powf(-0.8)).sum::<f64>();
        let total = u32::try_from(self.zipfian.len()).unwrap();
        assert_eq!(u64::from(total), ZIPFIAN_EVENTS);
        for ranks in [1, 10, 100, 1000] {
            let count = u32::try_from(self.zipfian.iter().filter(|id| **id <= ranks).count()).unwrap();
            let far = deviation(count, weight(ranks) / weight(ROWS), total);
            assert!(far.abs() < FAR, "zipfian: {count} of {total} up to {ranks}");
        }
    }
}

/// How far a count is from `chance` × `total`, in standard deviations.
fn deviation(count: u32, chance: f64, total: u32) -> f64 {
    let total = f64::from(total);
    (f64::from(count) - chance * total) / (total * chance * (1.0 - chance)).sqrt()
}

/// The server hashes and checks a statement's name at each Bind, so it has to be as long as sysbench's, which consists
/// of a word and two random numbers.
fn check_names(theirs: &Sent, ours: &Sent, name: &str) {
    let lengths = |sent: &Sent| {
        assert!(sent.names.iter().all(|one| one.starts_with("sbstmt")), "{name}: {:?}", sent.names);
        sent.names.iter().map(String::len).collect::<Vec<_>>()
    };
    for (theirs, ours) in lengths(theirs).into_iter().zip(lengths(ours)) {
        assert!(theirs.abs_diff(ours) <= NAME_TOLERANCE, "{name}: {ours} bytes for {theirs}");
    }
}

/// Integers are declared int8 and texts varchar; nothing is prepared that the suite does not have.
fn check_types(sent: &Sent, microbenchmark: &Microbenchmark, name: &str) {
    let oid = |param: &Param| if param.is_text() { VARCHAR_OID } else { INT8_OID };
    let ends = if microbenchmark.transaction { ["BEGIN", "COMMIT"].as_slice() } else { &[] };
    let mut expected: Vec<(&str, Vec<i32>)> = ends.iter().map(|sql| (*sql, Vec::new())).collect();
    if microbenchmark.protocol == WireProtocol::Prepared {
        let statements = microbenchmark.statements.iter();
        expected.extend(statements.map(|one| (one.sql.as_str(), one.params.iter().map(oid).collect())));
    }
    let prepared: Vec<_> = sent.prepared.iter().map(|one| (one.sql.as_str(), one.types.clone())).collect();
    assert_eq!(prepared, expected, "{name}: prepared");
}

/// The parameters of one execution, which has to be one of `statement`.
fn values(execution: &Execution, statement: &Statement, protocol: WireProtocol, name: &str) -> Vec<String> {
    let messages = execution.envelope.messages.as_str();
    match protocol {
        WireProtocol::Prepared => {
            assert_eq!((execution.sql.as_str(), messages), (statement.sql.as_str(), "BDES"), "{name}");
            assert_eq!(execution.params.len(), statement.params.len(), "{name}: parameters");
            execution.params.clone()
        }
        WireProtocol::Simple => {
            assert_eq!(messages, "Q", "{name}");
            literals(&execution.sql, statement)
                .unwrap_or_else(|| panic!("{name}: '{}' is not '{}' with literals", execution.sql, statement.sql))
        }
    }
}

/// The literals that stand in `sql` in place of the placeholders of `statement`.
fn literals(sql: &str, statement: &Statement) -> Option<Vec<String>> {
    let (mut template, mut rest) = (statement.sql.as_str(), sql);
    let mut values = Vec::new();
    for (number, param) in statement.params.iter().enumerate() {
        let (before, after) = template.split_once(&format!("${}", number + 1))?;
        rest = rest.strip_prefix(before)?;
        template = after;
        let value;
        if param.is_text() {
            (value, rest) = rest.strip_prefix('\'')?.split_once('\'')?;
        } else {
            (value, rest) = rest.split_at(rest.find(|character: char| !character.is_ascii_digit())?);
        }
        values.push(value.to_owned());
    }
    (rest == template).then_some(values)
}

// ---------------------------------------------------------------------------------------- the server

/// A server with an empty database. Fields are dropped in order: the server, then its directory.
struct Bench {
    server: Server,
    _directory: tempfile::TempDir,
}

impl Bench {
    /// A server of its own.
    fn start(build: &Build) -> Self {
        use std::os::unix::fs::PermissionsExt as _;
        // Nothing here is measured.
        const SETTINGS: &str = "fsync = off\nsynchronous_commit = off\nshared_buffers = 64MB\n";

        // Servers may run under another account, which has to get to its own directory in there.
        let mode = std::fs::Permissions::from_mode(0o711);
        let directory = tempfile::Builder::new().prefix("regtrack-twins-").permissions(mode).tempdir().unwrap();
        let account = Account::choose(None).unwrap_or_else(|error| panic!("{error}"));
        let init = InitOptions { locale: "C".to_owned(), encoding: "UTF8".to_owned(), data_checksums: false };
        let cluster = Cluster::create(build, &account, &directory.path().join("data"), &init, SETTINGS);
        let cluster = cluster.unwrap_or_else(|error| panic!("{error}"));
        let server = cluster.start(&StartOptions::default(), &directory.path().join("server.log"));
        Self { server: server.unwrap_or_else(|error| panic!("{error}")), _directory: directory }
    }
}
