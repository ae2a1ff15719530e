//! The load client on a real server: what its loop costs, and several connections at once.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use regtrack::catalog::{connections, suite};
use regtrack::domain::{Microbenchmark, Suite};
use regtrack::load::{self, Control, Session, Sessions, Until};
use regtrack::server::{Account, Cluster, InitOptions, Server, StartOptions};
use regtrack::sql::Connection;

use super::{Place, build};

const ROWS: u64 = 20_000;
const SETTINGS: &str = "shared_buffers = '64MB'\nsynchronous_commit = off\n";

fn server(directory: &Path, suite: &Suite) -> (Server, Connection) {
    let account = Account::choose(None).unwrap();
    let init = InitOptions { locale: "C".to_owned(), encoding: "UTF8".to_owned(), data_checksums: false };
    let cluster = Cluster::create(&build("17").unwrap(), &account, &directory.join("data"), &init, SETTINGS).unwrap();
    let server = cluster.start(&StartOptions::default(), &directory.join("log")).unwrap();
    let admin = server.connect().unwrap();
    load::load(&admin, &suite.dataset, ROWS, &AtomicBool::new(false)).unwrap();
    (server, admin)
}

/// Allocations of a run of so many events on an open session.
fn allocations(session: &mut Session, events: u64) -> u64 {
    let control = Control::default();
    let info = allocation_counter::measure(|| {
        let tally = session.run(Until::Events(events), &control).unwrap();
        assert_eq!(tally.events, events);
    });
    info.count_total
}

#[test]
fn no_event_allocates_memory() {
    let Some(place) = Place::for_test("no_event_allocates_memory") else { return };
    let suite = suite::builtin().unwrap();
    let (server, admin) = server(place.path(), &suite);
    for microbenchmark in &suite.microbenchmarks {
        // A scan passes over all rows: a few of them will do.
        let events = if microbenchmark.shape == "scan" { 20 } else { 1000 };
        let mut session = Session::open(server.endpoint(), microbenchmark, ROWS, 3).unwrap();
        // What a run sets up before its first event, and that it is counted at all.
        let before = allocations(&mut session, 0);
        assert!(before > 0, "{}: nothing is counted", microbenchmark.name);
        let all = allocations(&mut session, events);
        assert_eq!(all - before, 0, "{}: allocations of {events} events", microbenchmark.name);
    }
    drop(admin);
    server.stop().unwrap();
}

/// The table's rows and whether their ids are 1 to `ROWS`.
fn rows(admin: &Connection) -> (u64, bool) {
    let sql = format!(
        "SELECT count(*) || ' ' || (count(*) = {ROWS} AND min(id) = 1 AND max(id) = {ROWS} AND count(DISTINCT id) = {ROWS}) \
         FROM sbtest1"
    );
    let text = admin.text(&sql).unwrap().unwrap();
    let (count, is_whole) = text.split_once(' ').unwrap();
    (count.parse().unwrap(), is_whole == "true")
}

#[test]
fn explaining_changes_nothing() {
    let Some(place) = Place::for_test("explaining_changes_nothing") else { return };
    let suite = suite::builtin().unwrap();
    let (server, admin) = server(place.path(), &suite);
    let digest = load::digest(&admin, &suite.dataset.table).unwrap();
    for microbenchmark in &suite.microbenchmarks {
        let mut session = Session::open(server.endpoint(), microbenchmark, ROWS, 3).unwrap();
        let explained = session.explain().unwrap();
        assert_eq!(explained.len(), microbenchmark.statements.len(), "{}", microbenchmark.name);
        assert!(explained.iter().all(|json| json.contains("\"Node Type\"")), "{explained:?}");
    }
    assert_eq!(load::digest(&admin, &suite.dataset.table).unwrap(), digest);
    drop(admin);
    server.stop().unwrap();
}

#[test]
fn four_connections_leave_the_table_as_one_does() {
    const CONNECTIONS: u32 = 4;
    let Some(place) = Place::for_test("four_connections_leave_the_table_as_one_does") else { return };
    let text = connections::set(&suite::text(None).unwrap(), "suite", &[CONNECTIONS]).unwrap();
    let suite = suite::parse(&text, "suite").unwrap();
    let (server, admin) = server(place.path(), &suite);
    for microbenchmark in &suite.microbenchmarks {
        let until = Until::Elapsed(Duration::from_millis(150));
        let before = rows(&admin).0;
        let mut sessions = Sessions::open(server.endpoint(), microbenchmark, ROWS, 5).unwrap();
        let mut backends = sessions.backend_pids();
        let tally = sessions.run(until, &Control::default()).unwrap();
        drop(sessions);

        let name = &microbenchmark.name;
        backends.sort_unstable();
        backends.dedup();
        assert_eq!(backends.len(), 4, "{name}");
        assert!(tally.elapsed >= Duration::from_millis(150) && tally.events >= 4, "{name}: {tally:?}");
        assert_eq!(tally.latency.len(), tally.events, "{name}");
        let failed = tally.queries - tally.events * u64::from(microbenchmark.queries_per_event());
        assert!(failed == 0 || tally.retries > 0, "{name}: {} queries of {} events", tally.queries, tally.events);
        assert!(tally.client_cpu_ns > 0, "{name}");
        check_rows(microbenchmark, before, rows(&admin), tally.writes);
    }
    drop(admin);
    server.stop().unwrap();
}

/// Only deletes and inserts change which rows there are, and by as many as they say.
fn check_rows(microbenchmark: &Microbenchmark, before: u64, (after, is_whole): (u64, bool), writes: u64) {
    let name = &microbenchmark.name;
    match microbenchmark.base_name() {
        "delete" => assert_eq!(before - after, writes, "{name}"),
        "insert" => assert_eq!(after - before, writes, "{name}"),
        _ => assert!(is_whole, "{name}: {after} rows, ids not 1 to {ROWS}"),
    }
}

#[test]
fn events_of_several_connections_are_counted_together() {
    let Some(place) = Place::for_test("events_of_several_connections_are_counted_together") else { return };
    let mut suite = suite::builtin().unwrap();
    let (server, admin) = server(place.path(), &suite);
    let point = &mut suite.microbenchmarks[0];
    point.connections = 3;
    let mut sessions = Sessions::open(server.endpoint(), point, ROWS, 5).unwrap();
    let tally = sessions.run(Until::Events(210), &Control::default()).unwrap();
    assert_eq!((tally.events, tally.queries, tally.rows), (210, 210, 210));
    // The table goes away under all of them: the run fails, and ends.
    admin.execute("DROP TABLE sbtest1").unwrap();
    let error = sessions.run(Until::Elapsed(Duration::from_secs(60)), &Control::default()).unwrap_err().to_string();
    assert!(error.contains("sbtest1"), "{error}");
    drop(sessions);
    drop(admin);
    server.stop().unwrap();
}
