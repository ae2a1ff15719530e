//! regtrack's client against others: ratios over rounds, and whether the two do the same.

use super::CONFIDENCE;
use super::ratios::LogMean;
use crate::domain::{ClientRun, ParityRecord, ParityRound};

/// How far the backend's CPU time or instructions per query may be from sysbench's, as a share of it.
pub const BACKEND_BOUND: f64 = 0.02;

/// A ratio over rounds: regtrack / other client.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ratio {
    /// Geometric mean over the rounds.
    pub mean: f64,
    /// Its t interval at [`CONFIDENCE`], from two rounds on.
    pub interval: Option<(f64, f64)>,
}

/// What one client came to, as means over the rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rates {
    /// Queries per second.
    pub qps: f64,
    /// CPU time of the client in microseconds per query.
    pub client_cpu_us: Option<f64>,
    /// CPU time of the backend in microseconds per query.
    pub backend_cpu_us: Option<f64>,
    /// Times per query that the backend went to sleep.
    pub backend_sleeps: Option<f64>,
}

/// One microbenchmark with regtrack's client and others. Ratios are regtrack / other.
#[derive(Debug, Clone, PartialEq)]
pub struct Parity {
    /// The microbenchmark's name.
    pub name: String,
    /// What the server did not log alike for regtrack and sysbench.
    pub differences: Vec<String>,
    /// How many rounds there were.
    pub rounds: usize,
    /// regtrack's client.
    pub regtrack: Rates,
    /// sysbench.
    pub sysbench: Rates,
    /// Queries per second, sysbench.
    pub qps: Option<Ratio>,
    /// CPU time of the client per query, sysbench.
    pub client_cpu: Option<Ratio>,
    /// CPU time of the backend per query, sysbench.
    pub backend_cpu: Option<Ratio>,
    /// Queries per second, pgbench; `None` where it was not run.
    pub pgbench_qps: Option<Ratio>,
    /// Instructions of the backend per query under regtrack and under sysbench, where they were counted.
    pub instructions: Option<(f64, f64)>,
    /// Whether the instructions were those of about as many rows.
    pub alike: bool,
}

/// Combines the rounds of a microbenchmark.
#[must_use]
pub fn parity(record: &ParityRecord) -> Parity {
    let over_rounds = |of: &dyn Fn(&ParityRound) -> Option<f64>| Ratio::over(record.rounds.iter().filter_map(of));
    Parity {
        name: record.microbenchmark.clone(),
        differences: record.differences.clone(),
        rounds: record.rounds.len(),
        regtrack: Rates::over(&record.rounds, |round| round.regtrack),
        sysbench: Rates::over(&record.rounds, |round| round.sysbench),
        qps: over_rounds(&|round| quotient(Some(qps(&round.regtrack)), Some(qps(&round.sysbench)))),
        client_cpu: over_rounds(&|round| {
            let per_query = |run: &ClientRun| per_query(run, run.client_cpu_ns);
            quotient(per_query(&round.regtrack), per_query(&round.sysbench))
        }),
        backend_cpu: over_rounds(&|round| {
            let per_query = |run: &ClientRun| per_query(run, run.backend_cpu_ns);
            quotient(per_query(&round.regtrack), per_query(&round.sysbench))
        }),
        pgbench_qps: over_rounds(&|round| quotient(Some(qps(&round.regtrack)), round.pgbench.as_ref().map(qps))),
        instructions: record.counted.map(|counted| {
            let per_query = |count: u64| count as f64 / counted.queries as f64;
            (per_query(counted.regtrack), per_query(counted.sysbench))
        }),
        alike: record.counted.is_none_or(|counted| counted.alike),
    }
}

impl Parity {
    /// Whether the server logged the same statements for regtrack and sysbench.
    #[must_use]
    pub fn statements_equal(&self) -> bool {
        self.differences.is_empty()
    }

    /// Instructions of the backend per query, sysbench.
    #[must_use]
    pub fn instructions_ratio(&self) -> Option<Ratio> {
        self.instructions.map(|(ours, theirs)| Ratio { mean: ours / theirs, interval: None })
    }

    /// What keeps the two clients from being called equal, in words.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        let mut failures: Vec<String> =
            self.differences.iter().map(|difference| format!("{}: {difference}", self.name)).collect();
        let bound = (BACKEND_BOUND * 100.0).round();
        if let Some(ratio) = self.instructions_ratio() {
            if self.alike && !ratio.touches(BACKEND_BOUND) {
                failures.push(format!(
                    "{}: the backend's instructions per query are {:.4} times those under sysbench, more than {bound} % away",
                    self.name, ratio.mean
                ));
            }
            return failures;
        }
        match self.backend_cpu {
            None => failures.push(format!("{}: this kernel does not tell the backend's CPU time", self.name)),
            Some(ratio) if !ratio.touches(BACKEND_BOUND) => failures.push(format!(
                "{}: the backend's CPU time per query is {:.3} times that under sysbench, more than {bound} % away",
                self.name, ratio.mean
            )),
            Some(_) => {}
        }
        failures
    }
}

impl Ratio {
    /// Of the ratios that are above zero and finite; `None` without any.
    fn over(ratios: impl Iterator<Item = f64>) -> Option<Self> {
        let ratios: Vec<f64> = ratios.filter(|ratio| ratio.is_finite() && *ratio > 0.0).collect();
        if ratios.is_empty() {
            return None;
        }
        let logs = LogMean::of(&ratios);
        let interval = (ratios.len() > 1).then(|| {
            let half = logs.half_width(CONFIDENCE);
            ((logs.mean - half).exp(), (logs.mean + half).exp())
        });
        Some(Self { mean: logs.mean.exp(), interval })
    }

    /// The geometric mean of several ratios, without an interval; `None` without any.
    #[must_use]
    pub fn mean_of(ratios: impl Iterator<Item = Self>) -> Option<Self> {
        Self::over(ratios.map(|ratio| ratio.mean)).map(|ratio| Self { interval: None, ..ratio })
    }

    /// Whether the ratio or its interval reaches to within `bound` of 1.
    #[must_use]
    pub fn touches(&self, bound: f64) -> bool {
        let (low, high) = self.interval.unwrap_or((self.mean, self.mean));
        low <= 1.0 + bound && high >= 1.0 - bound
    }
}

impl Rates {
    fn over(rounds: &[ParityRound], client: impl Fn(&ParityRound) -> ClientRun) -> Self {
        const NS_PER_US: f64 = 1000.0;
        let count = rounds.len() as f64;
        let mean = |of: &dyn Fn(&ClientRun) -> Option<f64>| {
            rounds.iter().map(|round| of(&client(round))).sum::<Option<f64>>().map(|sum| sum / count)
        };
        Self {
            qps: mean(&|run| Some(qps(run))).unwrap_or(f64::NAN),
            client_cpu_us: mean(&|run| Some(per_query(run, run.client_cpu_ns)? / NS_PER_US)),
            backend_cpu_us: mean(&|run| Some(per_query(run, run.backend_cpu_ns)? / NS_PER_US)),
            backend_sleeps: mean(&|run| per_query(run, run.backend_sleeps)),
        }
    }
}

fn qps(run: &ClientRun) -> f64 {
    run.queries as f64 / run.seconds
}

fn per_query(run: &ClientRun, count: Option<u64>) -> Option<f64> {
    count.map(|count| count as f64 / run.queries as f64)
}

fn quotient(ours: Option<f64>, theirs: Option<f64>) -> Option<f64> {
    Some(ours? / theirs?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(seconds: f64, backend: u64, client: u64) -> ClientRun {
        let backend_sleeps = Some(900);
        ClientRun { queries: 1000, seconds, backend_cpu_ns: Some(backend), backend_sleeps, client_cpu_ns: Some(client) }
    }

    fn record(rounds: Vec<ParityRound>) -> ParityRecord {
        ParityRecord { microbenchmark: "one".to_owned(), differences: Vec::new(), rounds, counted: None }
    }

    #[test]
    fn ratios_are_those_of_a_worked_example() {
        let round = |seconds, backend| ParityRound {
            regtrack: run(1.0, 1000, 100),
            sysbench: run(seconds, backend, 400),
            pgbench: None,
        };
        // QPS ratios 2 and 8: logarithms ln 2 and ln 8, mean ln 4, sd ln 4 / √2, half width 12.7062 · ln 4 / 2.
        let parity = parity(&record(vec![round(2.0, 1000), round(8.0, 1000)]));
        let qps = parity.qps.unwrap();
        assert!((qps.mean - 4.0).abs() < 1e-9, "{qps:?}");
        let (low, high) = qps.interval.unwrap();
        let half = 12.706_204 * 4f64.ln() / 2.0;
        assert!((high.ln() - (4f64.ln() + half)).abs() < 1e-4 && (low * high - 16.0).abs() < 1e-6, "{low} {high}");
        assert!((parity.client_cpu.unwrap().mean - 0.25).abs() < 1e-9);
        assert!((parity.backend_cpu.unwrap().mean - 1.0).abs() < 1e-9);
        assert_eq!((parity.pgbench_qps, parity.rounds), (None, 2));
        let rates =
            Rates { qps: 312.5, client_cpu_us: Some(0.0004), backend_cpu_us: Some(0.001), backend_sleeps: Some(0.9) };
        assert_eq!(parity.sysbench, rates, "1000 queries in 2 s and in 8 s");
        assert_eq!(parity.failures(), [""; 0]);
    }

    #[test]
    fn a_backend_that_works_more_is_a_failure_unless_that_may_be_chance() {
        let round = |ours, theirs| ParityRound {
            regtrack: run(1.0, ours, 1),
            sysbench: run(1.0, theirs, 1),
            pgbench: Some(run(2.0, 1, 1)),
        };
        let sure = parity(&record(vec![round(1030, 1000), round(1031, 1000), round(1030, 1000)]));
        assert!(sure.failures()[0].starts_with("one: the backend's CPU time per query is 1.030 times"), "{sure:?}");
        let unsure = parity(&record(vec![round(1030, 1000), round(1090, 1000), round(990, 1000)]));
        assert_eq!(unsure.failures(), [""; 0], "{unsure:?}");
        let single = parity(&record(vec![round(1030, 1000)]));
        assert_eq!((single.failures().len(), single.backend_cpu.unwrap().interval), (1, None));
        assert!((single.pgbench_qps.unwrap().mean - 2.0).abs() < 1e-9);
    }

    #[test]
    fn counted_instructions_are_judged_in_place_of_time() {
        let counted = |regtrack, alike| {
            let counted = Some(crate::domain::CountedRun { queries: 100, regtrack, sysbench: 1_000_000, alike });
            parity(&ParityRecord { counted, ..record(Vec::new()) })
        };
        let equal = counted(1_019_000, true);
        assert_eq!(equal.instructions, Some((10_190.0, 10_000.0)));
        assert!((equal.instructions_ratio().unwrap().mean - 1.019).abs() < 1e-12);
        assert_eq!(equal.failures(), [""; 0]);
        assert_eq!(counted(1_021_000, false).failures(), [""; 0], "other rows");
        let failures = counted(1_021_000, true).failures();
        assert!(failures[0].contains("1.0210 times those under sysbench"), "{failures:?}");
    }

    #[test]
    fn what_was_not_read_is_missing_and_named() {
        let blind = ClientRun { backend_cpu_ns: None, client_cpu_ns: None, ..run(1.0, 0, 0) };
        let mut blind = record(vec![ParityRound { regtrack: blind, sysbench: blind, pgbench: None }]);
        blind.differences.push("executed 'SELECT 1': regtrack 2, sysbench 1".to_owned());
        let parity = parity(&blind);
        assert_eq!((parity.backend_cpu, parity.client_cpu, parity.statements_equal()), (None, None, false));
        assert_eq!(parity.failures().len(), 2, "{:?}", parity.failures());
    }

    #[test]
    fn means_of_ratios_have_no_interval() {
        let ratio = |mean| Ratio { mean, interval: Some((0.1, 9.0)) };
        let mean = Ratio::mean_of([ratio(2.0), ratio(0.5)].into_iter()).unwrap();
        assert!((mean.mean - 1.0).abs() < 1e-12 && mean.interval.is_none());
        assert_eq!(Ratio::mean_of(std::iter::empty()), None);
    }
}
