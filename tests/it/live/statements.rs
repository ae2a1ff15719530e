//! What the server sees of every microbenchmark: statement texts, their number, and the values of
//! their parameters, read back from its log.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use regtrack::catalog::suite;
use regtrack::domain::{Microbenchmark, WireProtocol};
use regtrack::load::{self, Control, Session, Until};
use regtrack::server::{Account, Cluster, InitOptions, StartOptions};

use super::{Place, build};

const ROWS: u64 = 2000;
const EVENTS: u64 = 3;

/// Everything that reaches the server goes to its log, one line per statement.
const SETTINGS: &str = "log_min_duration_statement = 0\nlog_line_prefix = '@%p '\nshared_buffers = '32MB'\n";

#[test]
fn servers_see_the_statements_of_the_catalogue() {
    let Some(place) = Place::for_test("servers_see_the_statements_of_the_catalogue") else { return };
    for major in ["10", "14", "18"] {
        let build = build(major).unwrap();
        let account = Account::choose(None).unwrap();
        let init = InitOptions { locale: "C".to_owned(), encoding: "UTF8".to_owned(), data_checksums: false };
        let data = place.path().join(format!("data-{major}"));
        let log = place.path().join(format!("log-{major}"));
        let cluster = Cluster::create(&build, &account, &data, &init, SETTINGS).unwrap();
        let server = cluster.start(&StartOptions::default(), &log).unwrap();
        let suite = suite::builtin().unwrap();
        let digest = load::load(&server.connect().unwrap(), &suite.dataset, ROWS, &AtomicBool::new(false)).unwrap();
        assert_eq!(digest, load::digest(&server.connect().unwrap(), &suite.dataset.table).unwrap());
        for microbenchmark in &suite.microbenchmarks {
            let mut session = Session::open(server.endpoint(), microbenchmark, ROWS, 7).unwrap();
            let backend = session.backend_pid();
            session.run(Until::Events(EVENTS), &Control::default()).unwrap();
            drop(session);
            check(microbenchmark, backend, &log);
        }
        server.stop().unwrap();
    }
}

/// Compares the log lines of one backend with the definition.
fn check(microbenchmark: &Microbenchmark, backend: u32, log: &Path) {
    let (name, text) = (&microbenchmark.name, fs::read_to_string(log).unwrap());
    let head = format!("@{backend} ");
    let lines: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix(&head)).collect();
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    for line in &lines {
        // Prepared: "LOG:  duration: … ms  execute NAME: SQL"; literal: "… ms  statement: SQL".
        let Some((_, statement)) = line.split_once(" ms  ") else { continue };
        let sql = match statement.split_once(": ") {
            Some((kind, sql)) if kind.starts_with("execute ") => sql.to_owned(),
            Some(("statement", sql)) => sql.to_owned(),
            _ => continue,
        };
        *seen.entry(without_literals(&sql)).or_default() += 1;
    }
    let mut expected: BTreeMap<String, u64> = BTreeMap::new();
    for statement in &microbenchmark.statements {
        let sql = match microbenchmark.protocol {
            WireProtocol::Prepared => statement.sql.clone(),
            WireProtocol::Simple => without_placeholders(&statement.sql),
        };
        *expected.entry(without_literals(&sql)).or_default() += EVENTS * u64::from(statement.times);
    }
    if microbenchmark.transaction {
        expected.insert("BEGIN".to_owned(), EVENTS);
        expected.insert("COMMIT".to_owned(), EVENTS);
    }
    assert_eq!(seen, expected, "{name}");
    for line in lines.iter().filter(|line| line.contains("parameters: ")) {
        check_values(microbenchmark, line);
    }
}

/// Values of one execution, as in `DETAIL:  parameters: $1 = '12', $2 = '111'`.
fn check_values(microbenchmark: &Microbenchmark, line: &str) {
    let values: Vec<&str> = line.split('\'').skip(1).step_by(2).collect();
    let name = &microbenchmark.name;
    let number = |index: usize| values[index].parse::<u64>().unwrap();
    match microbenchmark.shape.as_str() {
        _ if name.starts_with("update-one") => assert_eq!(values[1], "1", "{name}"),
        _ if name.starts_with("hot-points") => {
            assert_eq!((values.len(), number(0), number(99)), (100, ROWS / 2 + 1, ROWS / 2 + 100), "{name}");
        }
        // Both ends are in, so 101 keys.
        _ if name.starts_with("range-") => assert_eq!(number(1) - number(0), 100, "{name}"),
        _ if name.starts_with("read-only") && values.len() == 2 => {
            let range = u64::from(microbenchmark.range.unwrap());
            assert_eq!(number(1) - number(0), range - 1, "{name}");
        }
        _ if name.starts_with("update-inlist") => {
            assert_eq!((values.len(), values[0].len()), (11, 119), "{name}");
        }
        _ if name.starts_with("update-nonindex") => {
            assert_eq!(values[0].len(), 119, "{name}");
            assert!((1..=ROWS).contains(&number(1)), "{name}");
        }
        _ => {}
    }
}

/// Quoted texts and bare numbers of a literal INSERT become `?`.
fn without_literals(sql: &str) -> String {
    let Some((head, values)) = sql.split_once(" VALUES (").filter(|(_, values)| !values.contains('$')) else {
        return sql.to_owned();
    };
    let marks = values.split(", ").map(|_| "?").collect::<Vec<_>>().join(", ");
    format!("{head} VALUES ({marks})")
}

fn without_placeholders(sql: &str) -> String {
    (1..=4).rev().fold(sql.to_owned(), |sql, number| sql.replace(&format!("${number}"), "?"))
}
