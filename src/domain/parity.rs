//! How regtrack's client compares with other clients on one server: what one microbenchmark gave.

use serde::{Deserialize, Serialize};

/// One timed run of one client.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClientRun {
    /// Statements completed, BEGIN and COMMIT included.
    pub queries: u64,
    /// Length of the timed stretch in seconds.
    pub seconds: f64,
    /// CPU time of the server's backend in nanoseconds.
    pub backend_cpu_ns: Option<u64>,
    /// Times that the backend went to sleep: once per query, unless the next one is there when it looks.
    pub backend_sleeps: Option<u64>,
    /// CPU time of the client in nanoseconds.
    pub client_cpu_ns: Option<u64>,
}

/// One run of each client, one right after the other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ParityRound {
    /// regtrack's own client.
    pub regtrack: ClientRun,
    /// sysbench with the twin of the microbenchmark's shape.
    pub sysbench: ClientRun,
    /// pgbench, where it is at hand and can draw the parameters.
    pub pgbench: Option<ClientRun>,
}

/// Instructions that the backend executed for each client in a server under valgrind, as many events each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CountedRun {
    /// Statements completed by either, BEGIN and COMMIT included.
    pub queries: u64,
    /// For regtrack's client.
    pub regtrack: u64,
    /// For sysbench.
    pub sysbench: u64,
    /// Whether both met about as many rows. Ranges that are long against the table are cut off at its end, for either
    /// client somewhere else.
    pub alike: bool,
}

/// Everything that was found out about one microbenchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct ParityRecord {
    /// The microbenchmark's name.
    pub microbenchmark: String,
    /// Statements that the server did not log alike for both clients, in words; empty when it did.
    pub differences: Vec<String>,
    /// The timed rounds, in order.
    pub rounds: Vec<ParityRound>,
    /// Counted instructions instead of timed rounds.
    pub counted: Option<CountedRun>,
}

/// Which CPUs client and backend may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Placement {
    /// All that regtrack itself may use.
    #[default]
    Free,
    /// One for both.
    SameCpu,
    /// One for each.
    Split,
}

impl std::fmt::Display for Placement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Free => "free",
            Self::SameCpu => "same-cpu",
            Self::Split => "split",
        })
    }
}

impl std::str::FromStr for Placement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let known = [Self::Free, Self::SameCpu, Self::Split];
        let found = known.into_iter().find(|placement| placement.to_string() == text);
        found.ok_or_else(|| "must be free, same-cpu or split".to_owned())
    }
}
