//! What a server logged of a connection: which statements it prepared and executed, and how often.

use std::collections::{BTreeMap, BTreeSet};

/// What the server did, and with which statement.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Logged {
    /// `parse`, `bind`, `execute`, or `statement` for the simple protocol.
    step: String,
    /// Its text; literals of the simple protocol are `?`.
    sql: String,
}

/// How often each was logged.
pub(super) type Counts = BTreeMap<Logged, u64>;

/// The steps that the server process `pid` logged with `log_min_duration_statement = 0` and a `log_line_prefix` of
/// `[%p] `:
///
/// ```text
/// [123] LOG:  duration: 0.015 ms  execute s0: SELECT c FROM sbtest1 WHERE id=$1
/// [123] LOG:  duration: 0.015 ms  statement: SELECT 1
/// ```
pub(super) fn counts(log: &str, pid: u32) -> Counts {
    let prefix = format!("[{pid}] LOG:  duration: ");
    let mut counts = Counts::new();
    for line in log.lines().filter_map(|line| line.strip_prefix(&prefix)) {
        let Some((step, sql)) = line.split_once(" ms  ").and_then(|(_, rest)| rest.split_once(": ")) else { continue };
        // The statement's name, which follows the step, is the client's own business.
        let step = step.split(' ').next().unwrap_or_default().to_owned();
        let sql = if step == "statement" { without_literals(sql) } else { sql.to_owned() };
        *counts.entry(Logged { step, sql }).or_default() += 1;
    }
    counts
}

/// What was not logged equally often for both, in words.
pub(super) fn differences(regtrack: &Counts, sysbench: &Counts) -> Vec<String> {
    const SHOWN: usize = 120;
    let all: BTreeSet<&Logged> = regtrack.keys().chain(sysbench.keys()).collect();
    let count = |counts: &Counts, logged: &Logged| counts.get(logged).copied().unwrap_or(0);
    let different = all.into_iter().filter(|logged| count(regtrack, logged) != count(sysbench, logged));
    let mut words: Vec<String> = different
        .map(|logged| {
            let sql: String = logged.sql.chars().take(SHOWN).collect();
            let (ours, theirs) = (count(regtrack, logged), count(sysbench, logged));
            format!("{} '{sql}': {ours} times with regtrack, {theirs} times with sysbench", logged.step)
        })
        .collect();
    if regtrack.is_empty() && sysbench.is_empty() {
        words.push("the server logged no statement of either client".to_owned());
    }
    words
}

/// Quoted texts and whole numbers become `?`.
fn without_literals(sql: &str) -> String {
    let mut out = String::with_capacity(sql.len());
    let mut rest = sql;
    while let Some(first) = rest.chars().next() {
        let in_word = out.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == '$');
        let literal = match first {
            '\'' => rest[1..].find('\'').map_or(rest.len(), |end| end + 2),
            '0'..='9' if !in_word => rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()),
            _ => 0,
        };
        if literal > 0 {
            out.push('?');
        } else {
            out.push(first);
        }
        rest = &rest[literal.max(first.len_utf8())..];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "[7] LOG:  duration: 0.201 ms  parse s0: SELECT c FROM t WHERE id=$1\n\
        [8] LOG:  duration: 0.201 ms  parse sbstmt1: SELECT c FROM t WHERE id=$1\n\
        [7] LOG:  duration: 0.011 ms  bind s0: SELECT c FROM t WHERE id=$1\n\
        [7] DETAIL:  parameters: $1 = '12'\n\
        [7] LOG:  duration: 0.015 ms  execute s0: SELECT c FROM t WHERE id=$1\n\
        [8] LOG:  duration: 0.011 ms  bind sbstmt1: SELECT c FROM t WHERE id=$1\n\
        [8] LOG:  duration: 0.015 ms  execute sbstmt1: SELECT c FROM t WHERE id=$1\n\
        [8] LOG:  duration: 0.115 ms  statement: INSERT INTO t1 (k, c) VALUES (17, '00-11')\n\
        [8] LOG:  checkpoint complete\n";

    fn of(step: &str, sql: &str) -> Logged {
        Logged { step: step.to_owned(), sql: sql.to_owned() }
    }

    #[test]
    fn steps_are_counted_by_process_whatever_the_statement_is_called() {
        let (seven, mut eight) = (counts(LOG, 7), counts(LOG, 8));
        assert_eq!(eight.remove(&of("statement", "INSERT INTO t1 (k, c) VALUES (?, ?)")), Some(1), "{eight:?}");
        assert_eq!(seven.len(), 3);
        assert_eq!(seven, eight);
        assert_eq!(differences(&seven, &eight), [""; 0]);
    }

    #[test]
    fn differences_are_named_with_both_counts() {
        let words = differences(&counts(LOG, 7), &counts(LOG, 8));
        let expected = "statement 'INSERT INTO t1 (k, c) VALUES (?, ?)': 0 times with regtrack, 1 times with sysbench";
        assert_eq!(words, [expected]);
        assert_eq!(differences(&Counts::new(), &Counts::new()).len(), 1, "nothing logged proves nothing");
    }

    #[test]
    fn only_literals_become_marks() {
        assert_eq!(
            without_literals("SELECT * from sbtest1 WHERE LENGTH(c) < 0"),
            "SELECT * from sbtest1 WHERE LENGTH(c) < ?"
        );
        assert_eq!(without_literals("a1 = 12, 'x 3', $1, t_2 'open"), "a1 = ?, ?, $1, t_2 ?");
    }
}
