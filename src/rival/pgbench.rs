//! pgbench with prepared statements, for microbenchmarks whose parameters it can draw.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{HELP_DEADLINE, RivalError, client, host};
use crate::domain::{Endpoint, Major, Microbenchmark, Param, Statement, Version, WireProtocol};
use crate::process::{self, Dialog};

const CLIENT: &str = "pgbench";

/// First major whose statements may have more than nine parameters (`MAX_ARGS` in src/bin/pgbench/pgbench.c, of
/// which the statement's text takes one).
const MANY_PARAMETERS_SINCE: Major = Major::new(12, 0);
const MANY_PARAMETERS: usize = 255;
const FEW_PARAMETERS: usize = 9;

/// A pgbench that works.
#[derive(Debug)]
pub struct Pgbench {
    program: PathBuf,
    version: String,
    most_parameters: usize,
}

/// What one run is to do.
#[derive(Debug, Clone, Copy)]
pub struct PgbenchRun<'a> {
    /// The server.
    pub endpoint: &'a Endpoint,
    /// The script, as [`Pgbench::script`] made it.
    pub script: &'a Path,
    /// Events: transactions, as pgbench calls them.
    pub events: u64,
    /// How long it may take.
    pub deadline: Duration,
}

/// What pgbench reported.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PgbenchReport {
    /// Events.
    pub events: u64,
    /// Events per second, without the time for the connection.
    pub rate: f64,
}

impl Pgbench {
    /// The pgbench at `own`, or else the one on the search path; `None` where neither works.
    #[must_use]
    pub fn find(own: &Path) -> Option<Self> {
        [own, Path::new(CLIENT)].into_iter().find_map(|program| {
            let version = process::run(Command::new(program).arg("--version"), HELP_DEADLINE, None).ok()?;
            let version = version.trim().to_owned();
            Some(Self { program: program.to_owned(), most_parameters: most_parameters(&version), version })
        })
    }

    /// What it calls itself: `pgbench (PostgreSQL) 17.2`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Writes the script for a microbenchmark into `directory` and returns its path; `None` where pgbench cannot do
    /// what the microbenchmark does.
    pub fn script(
        &self,
        microbenchmark: &Microbenchmark,
        rows: u64,
        directory: &Path,
    ) -> Result<Option<PathBuf>, RivalError> {
        let Some(text) = script(microbenchmark, rows, self.most_parameters) else { return Ok(None) };
        let path = directory.join("pgbench.sql");
        let written = fs::write(&path, text);
        written.map_err(|source| RivalError::Scripts { client: CLIENT, path: path.clone(), source })?;
        Ok(Some(path))
    }

    /// Starts a run, whose end [`PgbenchRun::end`] waits for.
    pub fn start(&self, run: PgbenchRun<'_>) -> Result<Dialog, RivalError> {
        let mut command = client(&self.program);
        command.args(["--no-vacuum", "--protocol=prepared", "--client=1", "--jobs=1"]);
        command.arg(format!("--file={}", run.script.display()));
        command.arg(format!("--transactions={}", run.events));
        command.arg(format!("--host={}", host(run.endpoint)));
        command.arg(format!("--port={}", run.endpoint.port));
        command.arg(format!("--username={}", run.endpoint.user));
        command.arg(&run.endpoint.database);
        Dialog::start(&mut command).map_err(|source| RivalError::Run { client: CLIENT, source })
    }
}

impl PgbenchRun<'_> {
    /// Waits for the end of a run and reads its report.
    pub fn end(&self, dialog: Dialog) -> Result<PgbenchReport, RivalError> {
        let report = dialog.end(self.deadline).map_err(|source| RivalError::Run { client: CLIENT, source })?;
        read_report(&report, self.events)
    }
}

fn most_parameters(version: &str) -> usize {
    let version = version.split_whitespace().find_map(|word| word.parse::<Version>().ok());
    let has_many = version.is_none_or(|version| version.major >= MANY_PARAMETERS_SINCE);
    if has_many { MANY_PARAMETERS } else { FEW_PARAMETERS }
}

/// The script of a microbenchmark: one prepared statement with integers that pgbench can draw. It has no texts, no
/// zipfian distribution with an exponent below 1, and no slots.
fn script(microbenchmark: &Microbenchmark, rows: u64, most_parameters: usize) -> Option<String> {
    let [statement @ Statement { times: 1, .. }] = microbenchmark.statements.as_slice() else { return None };
    let fits = microbenchmark.protocol == WireProtocol::Prepared && !microbenchmark.transaction;
    if !fits || statement.params.len() > most_parameters {
        return None;
    }
    let mut text = String::new();
    for (index, param) in statement.params.iter().enumerate() {
        let value = match *param {
            Param::Uniform { over, .. } => format!("random(1, {})", over.unwrap_or(rows)),
            Param::Middle { index } => (rows / 2 + u64::from(index)).to_string(),
            Param::Offset { of, plus } => format!(":p{of} + {plus}"),
            Param::Zipfian { .. } | Param::Kept { .. } | Param::C | Param::Pad => return None,
        };
        // Writing to a string does not fail.
        let _ = writeln!(text, "\\set p{} {value}", index + 1);
    }
    let mut sql = statement.sql.clone();
    for number in (1..=statement.params.len()).rev() {
        // pgbench declares no types; the cast makes the parameter an int8, as sysbench declares it.
        sql = sql.replace(&format!("${number}"), &format!("CAST(:p{number} AS int8)"));
    }
    let _ = writeln!(text, "{sql};");
    Some(text)
}

fn read_report(report: &str, events: u64) -> Result<PgbenchReport, RivalError> {
    let missing = |label| RivalError::Report { client: CLIENT, label, report: report.to_owned() };
    let processed = "number of transactions actually processed:";
    let after = report.lines().find_map(|line| line.strip_prefix(processed));
    let found = after.and_then(|text| text.trim().split('/').next()?.parse().ok()).ok_or_else(|| missing(processed))?;
    if found != events {
        return Err(RivalError::Count { client: CLIENT, what: "transactions", found, expected: events });
    }
    // "without initial connection time" since 14, "excluding connections establishing" before.
    let mut rates = report.lines().filter(|line| line.contains("without initial") || line.contains("excluding"));
    let rate = rates.find_map(|line| line.strip_prefix("tps = ")?.split_whitespace().next()?.parse().ok());
    let rate = rate.filter(|rate: &f64| *rate > 0.0).ok_or_else(|| missing("tps ="))?;
    Ok(PgbenchReport { events, rate })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Clock, RateUnit};

    fn microbenchmark(sql: &str, params: Vec<Param>) -> Microbenchmark {
        Microbenchmark {
            name: "one".to_owned(),
            group: "g".to_owned(),
            shape: "one".to_owned(),
            step: 2,
            range: None,
            clock: Clock::Read,
            unit: RateUnit::Qps,
            protocol: WireProtocol::Prepared,
            transaction: false,
            connections: 1,
            statements: vec![Statement { sql: sql.to_owned(), params, times: 1 }],
            why: String::new(),
        }
    }

    const UNIFORM: Param = Param::Uniform { over: None, keep: None };

    #[test]
    fn integers_become_variables_of_the_script() {
        let range = microbenchmark("SELECT c FROM t WHERE id BETWEEN $1 AND $2", vec![UNIFORM, offset(100)]);
        assert_eq!(
            script(&range, 5000, 9).unwrap(),
            "\\set p1 random(1, 5000)\n\\set p2 :p1 + 100\n\
             SELECT c FROM t WHERE id BETWEEN CAST(:p1 AS int8) AND CAST(:p2 AS int8);\n"
        );
        let list = (1..=11).map(|number| format!("${number}")).collect::<Vec<_>>().join(",");
        let list = microbenchmark(&format!("SELECT 1 WHERE 1 IN ({list})"), vec![Param::Middle { index: 3 }; 11]);
        let text = script(&list, 5000, 11).unwrap();
        assert!(
            text.contains("\\set p11 2503\n") && text.contains(",CAST(:p10 AS int8),CAST(:p11 AS int8))"),
            "{text}"
        );
        assert_eq!(script(&list, 5000, 9), None, "too many parameters");
    }

    fn offset(plus: i64) -> Param {
        Param::Offset { of: 1, plus }
    }

    #[test]
    fn what_pgbench_cannot_draw_has_no_script() {
        for param in [Param::C, Param::Pad, Param::Zipfian { exponent: 0.8 }, Param::Kept { slot: 0 }] {
            assert_eq!(script(&microbenchmark("SELECT $1", vec![param]), 5000, 9), None, "{param:?}");
        }
        let mut simple = microbenchmark("SELECT 1", Vec::new());
        assert!(script(&simple, 5000, 9).is_some());
        simple.protocol = WireProtocol::Simple;
        assert_eq!(script(&simple, 5000, 9), None);
    }

    #[test]
    fn reports_of_old_and_new_releases_are_read() {
        let new = "number of transactions actually processed: 50/50\nnumber of failed transactions: 0 (0.000%)\n\
                   latency average = 0.081 ms\ninitial connection time = 2.011 ms\ntps = 12345.5 (without initial \
                   connection time)";
        let old = "number of transactions actually processed: 50/50\ntps = 9000.1 (including connections \
                   establishing)\ntps = 12345.5 (excluding connections establishing)";
        for report in [new, old] {
            assert_eq!(read_report(report, 50).unwrap(), PgbenchReport { events: 50, rate: 12345.5 });
        }
        assert!(matches!(read_report(new, 51), Err(RivalError::Count { found: 50, .. })));
        assert!(matches!(read_report("tps = 1 (excluding)", 51), Err(RivalError::Report { .. })));
    }

    #[test]
    fn old_programs_take_few_parameters() {
        let most = |version| most_parameters(version);
        assert_eq!(most("pgbench (PostgreSQL) 15.20 (Debian 15.20-0+deb12u1)"), 255);
        assert_eq!(most("pgbench (PostgreSQL) 9.6.24"), 9);
        assert_eq!(most("pgbench (PostgreSQL) 19devel"), 255);
    }
}
