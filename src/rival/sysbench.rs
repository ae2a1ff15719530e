//! sysbench with the twins of `sysbench-lua/`, held at a gate before its first event and after its last.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use include_dir::{Dir, include_dir};
use tempfile::TempDir;

use super::{HELP_DEADLINE, RivalError, client, host};
use crate::domain::{Endpoint, Microbenchmark};
use crate::process::{self, Dialog};

static TWINS: Dir = include_dir!("$CARGO_MANIFEST_DIR/sysbench-lua");

const CLIENT: &str = "sysbench";

/// How often `lib/gate.lua` sends a mark.
const MARKS: u64 = 3;

/// A sysbench that can talk to PostgreSQL, with the twins in a directory of their own.
#[derive(Debug)]
pub struct Sysbench {
    program: PathBuf,
    version: String,
    twins: TempDir,
}

/// What one run is to do.
#[derive(Debug, Clone, Copy)]
pub struct SysbenchRun<'a> {
    /// The server.
    pub endpoint: &'a Endpoint,
    /// What to run.
    pub microbenchmark: &'a Microbenchmark,
    /// The options of its twin.
    pub options: &'a [String],
    /// Rows that the table was loaded with.
    pub rows: u64,
    /// Events before the gate.
    pub warmup_events: u64,
    /// Events between the gates.
    pub events: u64,
    /// A statement that is sent twice right before the first gate and once right before the second.
    pub mark: Option<&'static str>,
    /// Seed of the random numbers.
    pub seed: u64,
    /// How long each stretch may take.
    pub deadline: Duration,
}

/// What sysbench counted between the gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SysbenchReport {
    /// Events.
    pub events: u64,
    /// Statements, BEGIN and COMMIT included.
    pub queries: u64,
}

/// A sysbench at its gate: connected, its statements prepared, nothing running.
#[derive(Debug)]
pub struct Gate<'a> {
    dialog: Dialog,
    run: SysbenchRun<'a>,
}

impl Sysbench {
    /// Looks at `program` and writes the twins to a private directory.
    pub fn find(program: &Path) -> Result<Self, RivalError> {
        let ask = |option| process::run(Command::new(program).arg(option), HELP_DEADLINE, None);
        let help = ask("--help").map_err(|source| {
            if source.is_not_found() {
                return RivalError::NoSysbench { program: program.to_owned() };
            }
            RivalError::Run { client: CLIENT, source }
        })?;
        if !help.contains("pgsql - PostgreSQL driver") {
            return Err(RivalError::NoDriver { program: program.to_owned() });
        }
        let version = ask("--version").map_err(|source| RivalError::Run { client: CLIENT, source })?;
        let error = |source| RivalError::Scripts { client: CLIENT, path: std::env::temp_dir(), source };
        let twins = tempfile::Builder::new().prefix("regtrack-twins-").tempdir().map_err(error)?;
        TWINS.extract(twins.path()).map_err(error)?;
        Ok(Self { program: program.to_owned(), version: version.trim().to_owned(), twins })
    }

    /// What it calls itself: `sysbench 1.0.20`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Starts a run and brings it to its first gate, after the warm-up.
    pub fn start<'a>(&self, run: SysbenchRun<'a>) -> Result<Gate<'a>, RivalError> {
        let mut command = client(&self.program);
        command.arg(self.script(&run.microbenchmark.shape)?);
        connect(&mut command, run.endpoint, run.rows);
        command.arg("--time=0");
        command.args(run.options);
        command.arg(format!("--events={}", run.events));
        command.arg(format!("--warmup-events={}", run.warmup_events));
        command.arg(format!("--rand-seed={}", run.seed));
        command.args(run.mark.map(|mark| format!("--mark={mark}")));
        command.arg("run");
        let error = |source| RivalError::Run { client: CLIENT, source };
        let mut dialog = Dialog::start(&mut command).map_err(error)?;
        dialog.hear("gate: ready", run.deadline).map_err(error)?;
        Ok(Gate { dialog, run })
    }

    /// Has sysbench's own script make and fill `sbtest1` in its own way, with both indexes, and says how long that took
    /// from the program's start to its end.
    pub fn prepare(&self, endpoint: &Endpoint, rows: u64, deadline: Duration) -> Result<Duration, RivalError> {
        /// Comes with sysbench. The scripts `oltp_*` share what makes their tables.
        const SCRIPT: &str = "oltp_read_only";
        let mut command = client(&self.program);
        command.arg(SCRIPT);
        connect(&mut command, endpoint, rows);
        command.args(["--tables=1", "prepare"]);
        let begin = Instant::now();
        process::run(&mut command, deadline, None).map_err(|source| RivalError::Run { client: CLIENT, source })?;
        Ok(begin.elapsed())
    }

    /// A script that loads a twin and then the gate, which wraps it.
    fn script(&self, shape: &str) -> Result<PathBuf, RivalError> {
        let directory = self.twins.path().display();
        let path = self.twins.path().join(format!("gated-{shape}.lua"));
        let text = format!("dofile(\"{directory}/{shape}.lua\")\ndofile(\"{directory}/lib/gate.lua\")\n");
        let written = fs::write(&path, text);
        written.map_err(|source| RivalError::Scripts { client: CLIENT, path: path.clone(), source })?;
        Ok(path)
    }
}

/// Which server, which table size, one thread.
fn connect(command: &mut Command, endpoint: &Endpoint, rows: u64) {
    command.args(["--db-driver=pgsql", "--threads=1"]);
    command.arg(format!("--pgsql-host={}", host(endpoint)));
    command.arg(format!("--pgsql-port={}", endpoint.port));
    command.arg(format!("--pgsql-user={}", endpoint.user));
    command.arg(format!("--pgsql-db={}", endpoint.database));
    command.arg(format!("--table-size={rows}"));
}

impl Gate<'_> {
    /// sysbench's process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.dialog.pid()
    }

    /// Lets the events run, waits at the second gate, and says how long they took.
    pub fn pass(&mut self) -> Result<Duration, RivalError> {
        let error = |source| RivalError::Run { client: CLIENT, source };
        let begin = Instant::now();
        self.dialog.say("go").map_err(error)?;
        self.dialog.hear("gate: done", self.run.deadline).map_err(error)?;
        Ok(begin.elapsed())
    }

    /// Lets it disconnect and end, and reads its report.
    pub fn end(mut self) -> Result<SysbenchReport, RivalError> {
        let error = |source| RivalError::Run { client: CLIENT, source };
        self.dialog.say("go").map_err(error)?;
        let report = self.dialog.end(self.run.deadline).map_err(error)?;
        let run = &self.run;
        let marks = if run.mark.is_some() { MARKS } else { 0 };
        read_report(&report, run.microbenchmark, run.warmup_events, run.events, marks)
    }
}

/// The counts between the gates. sysbench counts the queries of the warm-up and the marks, too.
fn read_report(
    report: &str,
    microbenchmark: &Microbenchmark,
    warmup_events: u64,
    events: u64,
    marks: u64,
) -> Result<SysbenchReport, RivalError> {
    let count = |label: &'static str| -> Result<u64, RivalError> {
        let after = report.lines().find_map(|line| line.trim().strip_prefix(label));
        let number = after.and_then(|text| text.split_whitespace().next()?.parse().ok());
        number.ok_or_else(|| RivalError::Report { client: CLIENT, label, report: report.to_owned() })
    };
    let expect = |what, found, expected| {
        if found == expected { Ok(()) } else { Err(RivalError::Count { client: CLIENT, what, found, expected }) }
    };
    let queries = u64::from(microbenchmark.queries_per_event()) * events;
    let warmup = u64::from(microbenchmark.queries_per_event()) * warmup_events;
    expect("events", count("total number of events:")?, events)?;
    expect("queries", count("total:")?, queries + warmup + marks)?;
    Ok(SysbenchReport { events, queries })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Clock, RateUnit, Statement, WireProtocol};

    /// Made up in the form of sysbench 1.0.20.
    const REPORT: &str = "gate: ready\nThreads started!\n\ngate: done\nSQL statistics:\n    queries performed:\n        \
        read:                            0\n        write:                           0\n        other:                \
                   36\n        total:                           36\n    transactions:                        6      \
        (1.20 per sec.)\n\nGeneral statistics:\n    total time:                          0.0026s\n    total number of \
        events:              10\n";

    fn microbenchmark() -> Microbenchmark {
        let statement = Statement { sql: "SELECT 1".to_owned(), params: Vec::new(), times: 1 };
        Microbenchmark {
            name: "one".to_owned(),
            group: "g".to_owned(),
            shape: "one".to_owned(),
            step: 2,
            range: None,
            clock: Clock::Read,
            unit: RateUnit::Qps,
            protocol: WireProtocol::Prepared,
            transaction: true,
            connections: 1,
            statements: vec![statement],
            why: String::new(),
        }
    }

    #[test]
    fn the_warm_up_is_left_out_of_the_counts() {
        let report = read_report(REPORT, &microbenchmark(), 2, 10, 0).unwrap();
        assert_eq!(report, SysbenchReport { events: 10, queries: 30 });
        let marked = read_report(REPORT, &microbenchmark(), 1, 10, 3).unwrap();
        assert_eq!(marked, report, "three marks are as many as an event has statements");
    }

    #[test]
    fn other_counts_than_those_asked_for_are_an_error() {
        let error = |warmup, events| read_report(REPORT, &microbenchmark(), warmup, events, 0).unwrap_err().to_string();
        assert!(error(2, 11).contains("counted 10 events instead of 11"), "{}", error(2, 11));
        assert!(error(3, 10).contains("counted 36 queries instead of 39"), "{}", error(3, 10));
        let error = read_report("nothing", &microbenchmark(), 0, 1, 0).unwrap_err().to_string();
        assert!(error.contains("has no 'total number of events:'") && error.contains("nothing"), "{error}");
    }

    #[test]
    fn a_missing_sysbench_is_told_with_its_package() {
        let error = Sysbench::find(Path::new("regtrack-no-such-program")).unwrap_err().to_string();
        assert!(error.contains("apt-get install sysbench") && error.contains("--sysbench"), "{error}");
    }

    #[test]
    fn every_twin_and_what_twins_load_is_in_the_program() {
        for name in ["point-query.lua", "lib/twin.lua", "lib/transaction.lua", "lib/gate.lua"] {
            assert!(TWINS.get_file(name).is_some(), "{name}");
        }
    }
}
