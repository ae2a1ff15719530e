//! What a microbenchmark does, and the command that measures it again.

use serde::Serialize;

use crate::domain::{
    Clock, Microbenchmark, Origin, Param, Protocol, RateUnit, ReportRow, Statement, SweepManifest, WireProtocol,
};
use crate::site::format::{self, whole};
use crate::site::view::{Fact, Site};

/// Options of a sweep that say where its servers came from; they are no part of the protocol.
const SERVER_OPTIONS: [&str; 2] = ["--source", "--variant"];

#[derive(Serialize)]
pub(super) struct StatementView {
    times: u32,
    sql: String,
    params: Vec<ParamView>,
}

#[derive(Serialize)]
struct ParamView {
    names: String,
    meaning: String,
}

pub(super) fn facts(site: &Site, row: &ReportRow) -> Vec<Fact> {
    let title = site.report.groups.iter().find(|group| group.name == row.group).map(|group| group.title.as_str());
    let group = title.map_or_else(|| row.group.clone(), |title| format!("{}: {title}", row.group));
    let mut facts = vec![Fact::new("Group", group)];
    let rate = match row.unit {
        RateUnit::Qps => "queries per second (QPS), BEGIN and COMMIT counted",
        RateUnit::MegarowsPerSecond => "millions of table rows read per second (Mrows/s)",
    };
    if let Some(definition) = &row.definition {
        let protocol = match definition.protocol {
            WireProtocol::Prepared => "prepared: Bind, Describe, Execute, Sync; text parameters, binary results",
            WireProtocol::Simple => "simple: one Query message, values as literals",
        };
        facts.extend([
            Fact::new("Shape", definition.shape.clone()),
            Fact::new("Step", format!("{} in run order", definition.step)),
            Fact::new("Queries per event", queries_per_event(definition)),
            Fact::new("Protocol", protocol),
            Fact::new("Duration", duration(site, definition.clock)),
        ]);
        facts.extend(definition.range.map(|range| Fact::new("range", whole(range.into()))));
    }
    facts.push(Fact::new("Rate", rate));
    facts
}

fn queries_per_event(definition: &Microbenchmark) -> String {
    let count = definition.queries_per_event();
    let transaction = if definition.transaction { ", BEGIN and COMMIT included" } else { "" };
    format!("{count}{transaction}")
}

fn duration(site: &Site, clock: Clock) -> String {
    let Some(protocol) = site.protocol() else {
        return "as published".to_owned();
    };
    let seconds = |seconds: f64| {
        format!("{} s after {} s of warm-up", format::plain(seconds), format::plain(protocol.slice_warmup_seconds))
    };
    match clock {
        Clock::Once if protocol.scan_once => "one execution, no warm-up".to_owned(),
        Clock::Read | Clock::Once => seconds(protocol.read_seconds),
        Clock::Write => seconds(protocol.write_seconds),
    }
}

pub(super) fn statements(site: &Site, definition: &Microbenchmark) -> Vec<StatementView> {
    let rows = site.protocol().map(|protocol| protocol.rows);
    let statement = |statement: &Statement| StatementView {
        times: statement.times,
        sql: shorten(&statement.sql),
        params: explain(&statement.params, rows),
    };
    definition.statements.iter().map(statement).collect()
}

/// Replaces the middle of a long list of placeholders: `$1, $2, …, $100`.
pub(super) fn shorten(sql: &str) -> String {
    const LONGEST: usize = 6;
    let parts: Vec<&str> = sql.split(',').collect();
    // The first and the last of a list stand beside a parenthesis and are not counted here.
    let is_inner = |part: &&&str| {
        let digits = part.trim().strip_prefix('$');
        digits.is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut short = Vec::new();
    let mut position = 0;
    while position < parts.len() {
        let run = parts[position..].iter().take_while(is_inner).count();
        if run > LONGEST {
            short.extend([parts[position], " …"]);
        } else {
            short.extend(&parts[position..position + run.max(1)]);
        }
        position += run.max(1);
    }
    short.join(",")
}

/// One line per run of placeholders with the same meaning.
fn explain(params: &[Param], rows: Option<u64>) -> Vec<ParamView> {
    let mut lines: Vec<ParamView> = Vec::new();
    let mut start = 0;
    while start < params.len() {
        let run = params[start..].windows(2).take_while(|pair| continues(pair[0], pair[1])).count() + 1;
        let (first, last) = (params[start], params[start + run - 1]);
        let names = if run == 1 { format!("${}", start + 1) } else { format!("${} … ${}", start + 1, start + run) };
        lines.push(ParamView { names, meaning: meaning(first, last, run, rows) });
        start += run;
    }
    lines
}

fn continues(one: Param, next: Param) -> bool {
    match (one, next) {
        (Param::Middle { index: one }, Param::Middle { index: next }) => next == one + 1,
        _ => one == next,
    }
}

fn meaning(first: Param, last: Param, run: usize, rows: Option<u64>) -> String {
    let each = if run > 1 { ", drawn anew for each" } else { "" };
    let size = rows.map_or_else(|| "table size".to_owned(), |rows| format!("{} (table size)", whole(rows)));
    match first {
        Param::Uniform { over, keep } => {
            let upper = over.map_or(size, whole);
            let kept = keep.map_or_else(String::new, |slot| format!(", kept as value {slot} for later in the event"));
            format!("uniform integer from 1 to {upper}{each}{kept} (int8)")
        }
        Param::Zipfian { exponent } => {
            format!("Zipfian integer from 1 to {size}, exponent {}{each} (int8)", format::plain(exponent))
        }
        Param::Middle { index } => {
            let to = if let Param::Middle { index: to } = last { to } else { index };
            let span = if to == index { index.to_string() } else { format!("{index} … {to}") };
            format!("the same on every event: table size / 2 + {span} (int8)")
        }
        Param::Offset { of, plus } if plus < 0 => format!("${of} − {} (int8)", whole(plus.unsigned_abs())),
        Param::Offset { of, plus } => format!("${of} + {} (int8)", whole(plus.unsigned_abs())),
        Param::Kept { slot } => format!("value {slot} kept earlier in the event (int8)"),
        Param::C => format!("fresh text for column c: ten groups of eleven digits, 119 characters{each} (varchar)"),
        Param::Pad => format!("fresh text for column pad: five groups of eleven digits, 59 characters{each} (varchar)"),
    }
}

/// The command that measures a row again, for the base and the newest release. `None` for imported tables.
pub(super) fn command(site: &Site, row: &ReportRow) -> Option<String> {
    let manifest = &site.report.manifest;
    let Origin::Measured { profile, protocol } = &manifest.origin else { return None };
    let base = site.targets().get(site.report.base)?.version.to_string();
    let newest = site.targets().last()?.version.to_string();
    let releases = if newest == base { base.clone() } else { format!("{base},{newest}") };
    let mut words = vec!["regtrack sweep".to_owned(), releases, format!("--base {base}")];
    words.push(format!("--bench {}", quoted(&row.name)));
    let connections = row.definition.as_ref().map_or(1, |definition| definition.connections);
    words.extend((connections > 1).then(|| format!("--connections {connections}")));
    words.push(format!("--profile {}", quoted(profile)));
    words.extend(protocol_options(protocol));
    words.extend(sweep_options(manifest));
    Some(words.join(" "))
}

/// The numbers of the protocol that have options; all others come with the profile.
fn protocol_options(protocol: &Protocol) -> Vec<String> {
    let mut options = vec![
        format!("--rows {}", protocol.rows),
        format!("--seconds {}", protocol.read_seconds),
        format!("--write-seconds {}", protocol.write_seconds),
        format!("--warmup {}", protocol.slice_warmup_seconds),
        format!("--stretch {}", protocol.stretch_seconds),
        format!("--config {}", quoted(&protocol.config)),
        format!("--data-checksums {}", if protocol.data_checksums { "on" } else { "off" }),
        format!("--transport {}", quoted(&protocol.transport)),
    ];
    if protocol.suite != BUILT_IN_SUITE {
        options.push("--suite FILE".to_owned());
    }
    options
}

/// Name of the suite that needs no option.
const BUILT_IN_SUITE: &str = "sysbench";

fn sweep_options(manifest: &SweepManifest) -> Vec<String> {
    let mut options = vec![format!("--launches {}", manifest.launches)];
    options.push(manifest.stopping.map_or_else(
        || "--precision off".to_owned(),
        |stopping| format!("--precision {}%", format::plain(stopping.precision * 100.0)),
    ));
    options.extend(manifest.placement.map(|placement| format!("--placement {placement}")));
    let arguments = &manifest.arguments;
    for name in SERVER_OPTIONS {
        let follows = |at: usize| arguments.get(at + 1).map(String::as_str);
        let value = arguments.iter().enumerate().find_map(|(at, argument)| {
            if argument == name { follows(at) } else { argument.strip_prefix(name)?.strip_prefix('=') }
        });
        options.extend(value.map(|value| format!("{name} {}", quoted(value))));
    }
    options
}

/// A word as a shell takes it literally.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ':' | ',' | '+' | '@' | '=');
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(params: &[Param]) -> Vec<String> {
        explain(params, Some(1_000_000)).into_iter().map(|line| format!("{}: {}", line.names, line.meaning)).collect()
    }

    #[test]
    fn long_lists_are_shortened_and_short_ones_are_not() {
        let list = |count: usize| (1..=count).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ");
        assert_eq!(
            shorten(&format!("SELECT c FROM sbtest1 WHERE id IN ({})", list(100))),
            "SELECT c FROM sbtest1 WHERE id IN ($1, $2, …, $100)"
        );
        let short = "INSERT INTO sbtest1 (id, k, c, pad) VALUES ($1, $2, $3, $4)";
        assert_eq!(shorten(short), short);
    }

    #[test]
    fn parameters_are_told_in_runs() {
        let uniform = Param::Uniform { over: None, keep: None };
        assert_eq!(
            lines(&[Param::C, uniform, uniform]),
            [
                "$1: fresh text for column c: ten groups of eleven digits, 119 characters (varchar)",
                "$2 … $3: uniform integer from 1 to 1,000,000 (table size), drawn anew for each (int8)",
            ]
        );
        assert_eq!(
            lines(&[Param::Middle { index: 1 }, Param::Middle { index: 2 }]),
            ["$1 … $2: the same on every event: table size / 2 + 1 … 2 (int8)"]
        );
        assert_eq!(
            lines(&[Param::Uniform { over: Some(1), keep: Some(0) }, Param::Offset { of: 1, plus: -99 }]),
            ["$1: uniform integer from 1 to 1, kept as value 0 for later in the event (int8)", "$2: $1 − 99 (int8)"]
        );
    }

    #[test]
    fn a_word_reaches_the_program_as_it_is() {
        assert_eq!(quoted("point-query_range=100@c4"), "point-query_range=100@c4");
        assert_eq!(quoted("it's *"), r"'it'\''s *'");
    }
}
