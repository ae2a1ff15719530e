//! What is run: a suite of microbenchmarks over one data set, fully expanded and ready to execute.
//!
//! The catalogue reads a suite from its TOML file, resolves shapes and placeholders, and hands this
//! plain data to the load client, which needs no further knowledge of any single microbenchmark.

use serde::Serialize;

/// A data set and the microbenchmarks that run on it, in order.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Suite {
    /// Short name, as in `--suite sysbench`.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Where the definition comes from.
    pub source: String,
    /// The table.
    pub dataset: Dataset,
    /// The groups, in the order of the tables.
    pub groups: Vec<Group>,
    /// The unreported warm-up that follows the load.
    pub warmup: Microbenchmark,
    /// The microbenchmarks in run order (ascending `step`).
    pub microbenchmarks: Vec<Microbenchmark>,
    /// Steps after which the postwrite maintenance (vacuum analyze, checkpoint, rest) is done.
    pub postwrite_after: Vec<u32>,
}

/// The one table that all microbenchmarks share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Dataset {
    /// Table name.
    pub table: String,
    /// `CREATE TABLE` statement.
    pub create_table: String,
    /// Statements that finish the load (index builds), run after the rows are in.
    pub finish: Vec<String>,
    /// Seed of the row generator: the same rows for every release.
    pub seed: u64,
}

/// A named set of microbenchmarks that are summarised together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// `point-1`, …, `writes`
    pub name: String,
    /// One line for people.
    pub title: String,
    /// Base names of members (`hot-points`, without `.pre` and `_range=…`), including those that
    /// only appear in imported tables.
    pub members: Vec<String>,
}

/// One of the 42.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Microbenchmark {
    /// Row name as published: `point-query.pre_range=100`; a copy with several connections ends in `@c4`.
    pub name: String,
    /// Name of its group.
    pub group: String,
    /// Name of the statement pattern that it shares with others.
    pub shape: String,
    /// Position in the run order.
    pub step: u32,
    /// The number after `range=`, for shapes that use it.
    pub range: Option<u32>,
    /// How long it runs.
    pub clock: Clock,
    /// Which number its rate is shown as.
    pub unit: RateUnit,
    /// How statements travel.
    pub protocol: Protocol,
    /// Whether each event is wrapped in prepared, counted BEGIN and COMMIT.
    pub transaction: bool,
    /// Connections that run it at once. Left out where it is 1, so that suites without it keep their hash.
    #[serde(skip_serializing_if = "is_one")]
    pub connections: u32,
    /// The statements of one event, in order.
    pub statements: Vec<Statement>,
    /// What it is for, in a sentence or two.
    pub why: String,
}

impl Microbenchmark {
    /// Statements that one event counts for, BEGIN and COMMIT included.
    #[must_use]
    pub fn queries_per_event(&self) -> u32 {
        let transaction = if self.transaction { 2 } else { 0 };
        transaction + self.statements.iter().map(|statement| statement.times).sum::<u32>()
    }

    /// Whether it changes the table.
    #[must_use]
    pub fn writes(&self) -> bool {
        self.statements.iter().any(|statement| !statement.returns_rows())
    }

    /// The name without `.pre`, `_range=…` and `@c…`: `point-query`. Groups are defined over these.
    #[must_use]
    pub fn base_name(&self) -> &str {
        base_name(&self.name)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "the form that serde calls")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

/// Strips `@c…`, `_range=…` and `.pre` from a row name.
#[must_use]
pub fn base_name(row: &str) -> &str {
    let name = row.split_once('@').map_or(row, |(name, _)| name);
    let name = name.split_once("_range=").map_or(name, |(name, _)| name);
    name.strip_suffix(".pre").unwrap_or(name)
}

/// Which of the profile's durations applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// The read seconds.
    Read,
    /// The write seconds.
    Write,
    /// A single execution without warm-up in the article's protocol; profiles may instead repeat
    /// it for the read seconds.
    Once,
}

/// What a rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, serde::Deserialize)]
pub enum RateUnit {
    /// Queries per second, BEGIN and COMMIT counted.
    #[serde(rename = "qps")]
    Qps,
    /// Millions of table rows per second (`scan`).
    #[serde(rename = "mrows/s")]
    MegarowsPerSecond,
}

/// How statements travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Named server-side statements: Bind, Describe, Execute, Sync; text parameters, binary results.
    Prepared,
    /// One Query message with literals spliced in.
    Simple,
}

/// One statement of an event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statement {
    /// SQL with `$1 … $n`, lists already expanded.
    pub sql: String,
    /// One entry per placeholder, in order.
    pub params: Vec<Param>,
    /// How many times it is executed in a row, parameters drawn anew each time.
    pub times: u32,
}

impl Statement {
    /// Whether the server answers with rows: a SELECT, as opposed to a command.
    #[must_use]
    pub fn returns_rows(&self) -> bool {
        self.sql.get(..6).is_some_and(|verb| verb.eq_ignore_ascii_case("select"))
    }
}

/// How the value of one placeholder comes about. Integers travel as int8, texts as varchar.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Param {
    /// Uniform integer in 1 … table size, or in 1 … `over` where given.
    Uniform {
        /// Upper end instead of the table size (`update-one` has 1).
        over: Option<u64>,
        /// Slot in which the value is kept for a later [`Param::Kept`] of the same event.
        keep: Option<u8>,
    },
    /// Zipfian integer in 1 … table size, rank = value, P(r) ∝ r^−exponent.
    Zipfian {
        /// The exponent, 0.8 in sysbench.
        exponent: f64,
    },
    /// The constant table size / 2 + `index` (`index` from 1).
    Middle {
        /// Position in the fixed list.
        index: u32,
    },
    /// The value of an earlier parameter of the same statement (numbered from 1) plus a constant.
    Offset {
        /// The earlier parameter's number.
        of: u16,
        /// What is added.
        plus: i64,
    },
    /// The value kept in a slot earlier in the same event.
    Kept {
        /// The slot.
        slot: u8,
    },
    /// A fresh `c` value: ten groups of eleven digits, 119 characters.
    C,
    /// A fresh `pad` value: five groups of eleven digits, 59 characters.
    Pad,
}

impl Param {
    /// Whether the parameter is a text (varchar) and not an integer (int8).
    #[must_use]
    pub const fn is_text(self) -> bool {
        matches!(self, Self::C | Self::Pad)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_names_lose_pre_and_range() {
        assert_eq!(base_name("point-query.pre_range=100"), "point-query");
        assert_eq!(base_name("update-one_range=100"), "update-one");
        assert_eq!(base_name("scan.warm_range=100"), "scan.warm");
        assert_eq!(base_name("point-query.pre_range=100@c16"), "point-query");
        assert_eq!(base_name("bare"), "bare");
    }
}
