//! Suites: from the TOML in `suites/` (or a file of the user's) to plain, fully expanded domain data.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use globset::GlobBuilder;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::connections;
use super::params::{self, Expanded, ParamProblem, Slots};
use super::{CatalogError, hint, nearest};
use crate::domain::{
    Clock, Dataset, Group, Microbenchmark, Param, RateUnit, Statement, Suite, WireProtocol, base_name,
};

/// The suite that comes with the program, and the file name that its errors show.
const BUILTIN: &str = include_str!("suites/sysbench.toml");
const BUILTIN_NAME: &str = "suites/sysbench.toml";

/// Hex digits of a suite's hash.
const HASH_LENGTH: usize = 16;

/// What is wrong with one field of a suite.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SuiteProblem {
    /// A parameter is wrong.
    #[error(transparent)]
    Param(ParamProblem),
    /// A name that cannot be part of a directory's.
    #[error("'{name}' must consist of letters, digits, '-' and '_'")]
    Name {
        /// The name.
        name: String,
    },
    /// A name that must be unique is not.
    #[error("'{name}' is already taken")]
    Duplicate {
        /// The name.
        name: String,
    },
    /// A group or shape that is not defined.
    #[error("'{name}' is not defined in this suite{}", hint(nearest))]
    Undefined {
        /// The name.
        name: String,
        /// Names that look like it.
        nearest: Vec<String>,
    },
    /// The base name is in another group already.
    #[error("'{base}' is in another group already, with or without .pre")]
    OtherGroup {
        /// The microbenchmark's base name.
        base: String,
    },
    /// Neither `shape` nor `statements`, or both.
    #[error("give either a shape or statements (with transaction, protocol and unit), not both")]
    ShapeOrStatements,
    /// `with` has a key that no statement uses, or is given without a shape.
    #[error("'{{{key}}}' occurs in no statement of the shape")]
    UnusedKey {
        /// The key.
        key: String,
    },
    /// A statement has a `{key}` that `with` does not give.
    #[error("'{{{key}}}' has no value: give it in 'with'")]
    MissingKey {
        /// The key.
        key: String,
    },
    /// `{list}` without exactly one counted parameter.
    #[error("'{{list}}' stands for the one parameter with a count, but {lists} of the parameters have one")]
    List {
        /// How many have a count.
        lists: usize,
    },
    /// `$3` with two parameters.
    #[error("${placeholder} occurs, but the statement has {params} parameters")]
    UnknownPlaceholder {
        /// Its number.
        placeholder: usize,
        /// How many parameters there are.
        params: usize,
    },
    /// A parameter that no placeholder takes.
    #[error("${placeholder} does not occur, but the statement has {params} parameters")]
    UnusedParam {
        /// Its number.
        placeholder: usize,
        /// How many parameters there are.
        params: usize,
    },
    /// An event or a repetition of nothing.
    #[error("must be at least {least}")]
    TooSmall {
        /// The least value.
        least: u32,
    },
    /// An event without statements.
    #[error("needs at least one statement")]
    NoStatements,
    /// The number in the name is not the range.
    #[error("is {range}, but the name '{name}' says otherwise")]
    RangeInName {
        /// The range.
        range: u32,
        /// The microbenchmark's name.
        name: String,
    },
    /// No number of connections, one twice, or one that cannot be.
    #[error("must be different numbers from 1 to {most}")]
    Connections {
        /// The largest number.
        most: u32,
    },
    /// A step that nothing has.
    #[error("there is no step {step}")]
    NoStep {
        /// The step.
        step: u32,
    },
}

/// The suite that comes with the program.
pub fn builtin() -> Result<Suite, CatalogError> {
    parse(BUILTIN, BUILTIN_NAME)
}

/// The suite in the TOML file at `path`.
pub fn load(path: &Path) -> Result<Suite, CatalogError> {
    parse(&text(Some(path))?, &path.display().to_string())
}

/// The definition as text: of the suite in the file at `path`, or of the built-in one. Results keep it
/// beside the slices, so that they can be read when the definition has changed or gone.
pub fn text(path: Option<&Path>) -> Result<String, CatalogError> {
    match path {
        Some(path) => fs::read_to_string(path).map_err(|source| CatalogError::Read { path: path.to_owned(), source }),
        None => Ok(BUILTIN.to_owned()),
    }
}

/// Base names of rows that published tables of the built-in suite have and that an import leaves
/// out, because they only warm up.
pub fn ignored_rows() -> Result<Vec<String>, CatalogError> {
    Ok(parse_raw(BUILTIN, BUILTIN_NAME)?.suite.ignored_rows)
}

/// Whether an import leaves out `row`, given [`ignored_rows`].
#[must_use]
pub fn is_ignored_row(ignored_rows: &[String], row: &str) -> bool {
    ignored_rows.iter().any(|ignored| ignored == base_name(row))
}

/// The name of the group that a published row belongs to, if any.
#[must_use]
pub fn group_of_row<'a>(suite: &'a Suite, row: &str) -> Option<&'a str> {
    let base = base_name(row);
    let group = suite.groups.iter().find(|group| group.members.iter().any(|member| member == base));
    group.map(|group| group.name.as_str())
}

/// Identifies what a suite runs: the same hash means comparable results. Texts that are only for
/// people (title, source, groups, the reasons why) do not count.
#[must_use]
#[expect(clippy::missing_panics_doc, reason = "plain data with text keys and finite numbers is always JSON")]
pub fn hash(suite: &Suite) -> String {
    let mut suite = suite.clone();
    suite.title.clear();
    suite.source.clear();
    suite.groups.clear();
    suite.warmup.why.clear();
    suite.microbenchmarks.iter_mut().for_each(|microbenchmark| microbenchmark.why.clear());
    let json = serde_json::to_vec(&suite).expect("a suite is representable as JSON");
    let mut hex = format!("{:x}", Sha256::digest(json));
    hex.truncate(HASH_LENGTH);
    hex
}

/// Names of the microbenchmarks that match any of `globs`, in run order; all of them when there are
/// no globs.
///
/// A glob is tried on the full name, the name without `_range=…`, and the base name without `.pre`:
/// `scan`, `point-query.pre`, `read-only_range=10` and `*-si` all work.
pub fn select(suite: &Suite, globs: &[String]) -> Result<Vec<String>, CatalogError> {
    let names = || suite.microbenchmarks.iter().map(|microbenchmark| microbenchmark.name.as_str());
    let mut chosen = BTreeSet::new();
    for glob in globs {
        let matcher = GlobBuilder::new(glob)
            .build()
            .map_err(|problem| CatalogError::Glob { glob: glob.clone(), problem })?
            .compile_matcher();
        let fits = |name: &str| forms(name).iter().any(|form| matcher.is_match(form));
        let found: Vec<usize> = names().enumerate().filter(|(_, name)| fits(name)).map(|(index, _)| index).collect();
        if found.is_empty() {
            let nearest = nearest(glob, names().flat_map(|name| forms(name).into_iter().rev()));
            return Err(CatalogError::NoMicrobenchmark { glob: glob.clone(), suite: suite.name.clone(), nearest });
        }
        chosen.extend(found);
    }
    let all = globs.is_empty();
    let selected = names().enumerate().filter(|(index, _)| all || chosen.contains(index));
    Ok(selected.map(|(_, name)| name.to_owned()).collect())
}

/// The ways in which a microbenchmark may be written, from the longest to the shortest.
fn forms(name: &str) -> [&str; 3] {
    [name, name.split_once("_range=").map_or(name, |(name, _)| name), base_name(name)]
}

// ------------------------------------------------------------------------------- the file's form

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSuite {
    suite: RawHeader,
    dataset: RawDataset,
    #[serde(rename = "group")]
    groups: Vec<RawGroup>,
    #[serde(default, rename = "shape")]
    shapes: BTreeMap<String, RawShape>,
    warmup: RawMicrobenchmark,
    #[serde(rename = "microbenchmark")]
    microbenchmarks: Vec<RawMicrobenchmark>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHeader {
    name: String,
    title: String,
    source: String,
    postwrite_after: Vec<u32>,
    /// Numbers of connections; each beside 1 is a copy of every microbenchmark.
    #[serde(default = "single")]
    connections: Vec<u32>,
    #[serde(default)]
    ignored_rows: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDataset {
    table: String,
    create_table: String,
    finish: Vec<String>,
    seed: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawGroup {
    name: String,
    title: String,
    /// Base names that only published tables have.
    #[serde(default)]
    members: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawShape {
    #[serde(default)]
    transaction: bool,
    #[serde(default)]
    protocol: RawProtocol,
    #[serde(default = "qps")]
    unit: RateUnit,
    statements: Vec<RawStatement>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawStatement {
    sql: String,
    #[serde(default)]
    params: Vec<String>,
    #[serde(default = "one")]
    times: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawMicrobenchmark {
    name: String,
    group: String,
    step: u32,
    clock: RawClock,
    range: Option<u32>,
    why: String,
    shape: Option<String>,
    #[serde(default)]
    with: BTreeMap<String, String>,
    transaction: Option<bool>,
    protocol: Option<RawProtocol>,
    unit: Option<RateUnit>,
    statements: Option<Vec<RawStatement>>,
}

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawProtocol {
    #[default]
    Prepared,
    Simple,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum RawClock {
    Read,
    Write,
    Once,
}

fn qps() -> RateUnit {
    RateUnit::Qps
}

fn one() -> u32 {
    1
}

fn single() -> Vec<u32> {
    vec![1]
}

// ------------------------------------------------------------------------------- file to domain

/// A problem with its field; the entry and the file are added by the callers.
type FieldResult<T> = Result<T, (&'static str, SuiteProblem)>;

fn parse_raw(text: &str, file: &str) -> Result<RawSuite, CatalogError> {
    toml::from_str(text).map_err(|source| CatalogError::Parse { file: file.to_owned(), source: Box::new(source) })
}

/// Reads a definition; `file` is its name in messages.
pub fn parse(text: &str, file: &str) -> Result<Suite, CatalogError> {
    let raw = parse_raw(text, file)?;
    let locate =
        |entry: String| move |(field, problem)| CatalogError::Suite { file: file.to_owned(), entry, field, problem };

    let name = &raw.suite.name;
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte)) {
        // Sweeps are named after their suite.
        return Err(locate("suite".to_owned())(("name", SuiteProblem::Name { name: name.clone() })));
    }
    let mut groups: Vec<Group> = raw.groups.into_iter().map(RawGroup::into_domain).collect();
    check_groups(&groups).map_err(|(group, problem)| locate(format!("group '{group}'"))(problem))?;

    let expand = |entry: RawMicrobenchmark, kind: &str, least_step: u32| {
        let located = locate(format!("{kind} '{}'", entry.name));
        expand_entry(entry, &groups, &raw.shapes, least_step).map_err(located)
    };
    let warmup = expand(raw.warmup, "warmup", 1)?;
    let mut microbenchmarks = Vec::with_capacity(raw.microbenchmarks.len());
    let mut names = BTreeSet::new();
    for entry in raw.microbenchmarks {
        let microbenchmark = expand(entry, "microbenchmark", 2)?;
        let located = locate(format!("microbenchmark '{}'", microbenchmark.name));
        if !names.insert(microbenchmark.name.clone()) {
            return Err(located(("name", SuiteProblem::Duplicate { name: microbenchmark.name })));
        }
        microbenchmarks.push(microbenchmark);
    }
    microbenchmarks.sort_by_key(|microbenchmark| microbenchmark.step);
    for microbenchmark in &microbenchmarks {
        let located = locate(format!("microbenchmark '{}'", microbenchmark.name));
        add_member(microbenchmark, &mut groups).map_err(located)?;
    }

    let steps: BTreeSet<u32> =
        std::iter::once(&warmup).chain(&microbenchmarks).map(|microbenchmark| microbenchmark.step).collect();
    if let Some(&step) = raw.suite.postwrite_after.iter().find(|step| !steps.contains(step)) {
        return Err(locate("suite".to_owned())(("postwrite_after", SuiteProblem::NoStep { step })));
    }

    let suite = Suite {
        name: raw.suite.name,
        title: raw.suite.title,
        source: raw.suite.source,
        dataset: raw.dataset.into_domain(),
        groups,
        warmup,
        microbenchmarks,
        postwrite_after: raw.suite.postwrite_after,
    };
    let connections = raw.suite.connections;
    connections::check(&connections).map_err(|problem| locate("suite".to_owned())(("connections", problem)))?;
    Ok(connections::expand(suite, &connections))
}

impl RawGroup {
    fn into_domain(self) -> Group {
        Group { name: self.name, title: self.title, members: self.members }
    }
}

impl RawDataset {
    fn into_domain(self) -> Dataset {
        Dataset { table: self.table, create_table: self.create_table, finish: self.finish, seed: self.seed }
    }
}

/// Group names are unique, and a base name belongs to one group only. On failure, names the group.
fn check_groups(groups: &[Group]) -> Result<(), (String, (&'static str, SuiteProblem))> {
    let (mut names, mut members) = (BTreeSet::new(), BTreeSet::new());
    for group in groups {
        let duplicate =
            |field, name: &String| (group.name.clone(), (field, SuiteProblem::Duplicate { name: name.clone() }));
        if !names.insert(&group.name) {
            return Err(duplicate("name", &group.name));
        }
        if let Some(member) = group.members.iter().find(|member| !members.insert(*member)) {
            return Err(duplicate("members", member));
        }
    }
    Ok(())
}

/// Makes the microbenchmark's base name a member of its group, where published rows look it up.
fn add_member(microbenchmark: &Microbenchmark, groups: &mut [Group]) -> FieldResult<()> {
    let base = microbenchmark.base_name();
    let listed = groups.iter().find(|group| group.members.iter().any(|member| member == base));
    match listed.map(|group| group.name == microbenchmark.group) {
        Some(true) => {}
        Some(false) => return Err(("group", SuiteProblem::OtherGroup { base: base.to_owned() })),
        None => {
            let group = groups.iter_mut().find(|group| group.name == microbenchmark.group);
            if let Some(group) = group {
                group.members.push(base.to_owned());
            }
        }
    }
    Ok(())
}

/// One entry with its shape, placeholders and parameters resolved.
fn expand_entry(
    mut entry: RawMicrobenchmark,
    groups: &[Group],
    shapes: &BTreeMap<String, RawShape>,
    least_step: u32,
) -> FieldResult<Microbenchmark> {
    check_numbers(&entry, least_step)?;
    if !groups.iter().any(|group| group.name == entry.group) {
        return Err(("group", undefined(&entry.group, groups.iter().map(|group| group.name.as_str()))));
    }
    let inline;
    let (shape_name, shape) = match (entry.shape.take(), entry.statements.take()) {
        (Some(name), None) => {
            if entry.transaction.is_some() || entry.protocol.is_some() || entry.unit.is_some() {
                return Err(("shape", SuiteProblem::ShapeOrStatements));
            }
            let Some(shape) = shapes.get(&name) else {
                return Err(("shape", undefined(&name, shapes.keys().map(String::as_str))));
            };
            (name, shape)
        }
        (None, Some(statements)) => {
            inline = RawShape {
                transaction: entry.transaction.unwrap_or_default(),
                protocol: entry.protocol.unwrap_or_default(),
                unit: entry.unit.unwrap_or(RateUnit::Qps),
                statements,
            };
            (base_name(&entry.name).to_owned(), &inline)
        }
        _ => return Err(("shape", SuiteProblem::ShapeOrStatements)),
    };
    Ok(Microbenchmark {
        statements: expand_statements(shape, &entry.with, entry.range)?,
        name: entry.name,
        group: entry.group,
        shape: shape_name,
        connections: 1,
        step: entry.step,
        range: entry.range,
        clock: match entry.clock {
            RawClock::Read => Clock::Read,
            RawClock::Write => Clock::Write,
            RawClock::Once => Clock::Once,
        },
        unit: shape.unit,
        protocol: match shape.protocol {
            RawProtocol::Prepared => WireProtocol::Prepared,
            RawProtocol::Simple => WireProtocol::Simple,
        },
        transaction: shape.transaction,
        why: entry.why.trim().to_owned(),
    })
}

/// The step is in bounds, and a range is the one that the name tells.
fn check_numbers(entry: &RawMicrobenchmark, least_step: u32) -> FieldResult<()> {
    if entry.step < least_step {
        return Err(("step", SuiteProblem::TooSmall { least: least_step }));
    }
    let told = entry.name.split_once("_range=").map(|(_, number)| number);
    match (entry.range, told) {
        (Some(0), _) => Err(("range", SuiteProblem::TooSmall { least: 1 })),
        (Some(range), Some(told)) if told != range.to_string() => {
            Err(("range", SuiteProblem::RangeInName { range, name: entry.name.clone() }))
        }
        _ => Ok(()),
    }
}

fn undefined<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> SuiteProblem {
    SuiteProblem::Undefined { name: name.to_owned(), nearest: nearest(name, known) }
}

/// The statements of one event. Kept values live through the whole event.
fn expand_statements(
    shape: &RawShape,
    with: &BTreeMap<String, String>,
    range: Option<u32>,
) -> FieldResult<Vec<Statement>> {
    if shape.statements.is_empty() {
        return Err(("statements", SuiteProblem::NoStatements));
    }
    let texts = || shape.statements.iter().flat_map(|statement| statement.params.iter().chain([&statement.sql]));
    if let Some(key) = with.keys().find(|key| !texts().any(|text| text.contains(&format!("{{{key}}}")))) {
        return Err(("with", SuiteProblem::UnusedKey { key: key.clone() }));
    }
    let mut slots = Slots::default();
    shape.statements.iter().map(|statement| expand_statement(statement, with, range, &mut slots)).collect()
}

fn expand_statement(
    raw: &RawStatement,
    with: &BTreeMap<String, String>,
    range: Option<u32>,
    slots: &mut Slots,
) -> FieldResult<Statement> {
    if raw.times == 0 {
        return Err(("times", SuiteProblem::TooSmall { least: 1 }));
    }
    let fill =
        |text: &str| with.iter().fold(text.to_owned(), |text, (key, value)| text.replace(&format!("{{{key}}}"), value));
    let texts: Vec<String> = raw.params.iter().map(|param| fill(param)).collect();
    if let Some(key) = texts.iter().find_map(|text| unfilled_key(text)) {
        return Err(("params", SuiteProblem::MissingKey { key: key.to_owned() }));
    }
    let Expanded { params, lists } =
        params::expand(&texts, range, slots).map_err(|problem| ("params", SuiteProblem::Param(problem)))?;

    let mut sql = fill(&raw.sql);
    if sql.contains("{list}") {
        let [list] = lists.as_slice() else {
            return Err(("sql", SuiteProblem::List { lists: lists.len() }));
        };
        let placeholders: Vec<String> = list.clone().map(|index| format!("${}", index + 1)).collect();
        sql = sql.replace("{list}", &placeholders.join(","));
    }
    if let Some(key) = unfilled_key(&sql) {
        return Err(("sql", SuiteProblem::MissingKey { key: key.to_owned() }));
    }
    check_placeholders(&sql, &params)?;
    Ok(Statement { sql, params, times: raw.times })
}

/// The first `{key}` left in a text.
fn unfilled_key(text: &str) -> Option<&str> {
    text.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|(key, _)| key).find(|key| {
        key.starts_with(|c: char| c.is_ascii_alphabetic())
            && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    })
}

/// `$1 … $n` each occur, and no other.
fn check_placeholders(sql: &str, params: &[Param]) -> FieldResult<()> {
    let mut used = vec![false; params.len()];
    // Every second piece between single quotes is a literal.
    for piece in sql.split('\'').step_by(2) {
        for rest in piece.split('$').skip(1) {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let Ok(placeholder) = rest[..digits].parse::<usize>() else { continue };
            let Some(seen) = placeholder.checked_sub(1).and_then(|index| used.get_mut(index)) else {
                return Err(("sql", SuiteProblem::UnknownPlaceholder { placeholder, params: params.len() }));
            };
            *seen = true;
        }
    }
    let unused = used.iter().position(|seen| !seen);
    unused.map_or(Ok(()), |index| {
        Err(("sql", SuiteProblem::UnusedParam { placeholder: index + 1, params: params.len() }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published 42: more may be added to the built-in suite.
    fn suite() -> Suite {
        let mut suite = builtin().unwrap();
        suite.microbenchmarks.retain(|one| ORDER.contains(&one.name.as_str()));
        suite
    }

    fn get<'a>(suite: &'a Suite, name: &str) -> &'a Microbenchmark {
        suite.microbenchmarks.iter().find(|microbenchmark| microbenchmark.name == name).unwrap()
    }

    #[test]
    fn there_are_42_in_five_groups() {
        let suite = suite();
        assert_eq!(suite.microbenchmarks.len(), 42);
        let size = |group: &Group| {
            (group.name.clone(), suite.microbenchmarks.iter().filter(|one| one.group == group.name).count())
        };
        let expected = [("point-1", 11), ("point-2", 6), ("range-1", 8), ("range-2", 7), ("writes", 10)];
        let expected = expected.map(|(name, count)| (name.to_owned(), count));
        assert_eq!(suite.groups.iter().map(size).collect::<Vec<_>>(), expected);
        for one in &suite.microbenchmarks {
            assert_eq!(group_of_row(&suite, &one.name), Some(one.group.as_str()), "{}", one.name);
            assert!(one.why.len() > 60, "{} says too little", one.name);
        }
    }

    /// The run order of the article, steps 2 to 43.
    const ORDER: [&str; 42] = [
        "point-query.pre_range=100",
        "random-points.pre_range=10",
        "random-points.pre_range=100",
        "random-points.pre_range=1000",
        "read-only.pre_range=10",
        "read-only.pre_range=100",
        "read-only.pre_range=10000",
        "points-covered-pk.pre_range=100",
        "points-notcovered-pk.pre_range=100",
        "points-covered-si.pre_range=100",
        "points-notcovered-si.pre_range=100",
        "range-covered-pk.pre_range=100",
        "range-notcovered-pk.pre_range=100",
        "range-covered-si.pre_range=100",
        "range-notcovered-si.pre_range=100",
        "update-inlist_range=100",
        "update-index_range=100",
        "update-nonindex_range=100",
        "update-one_range=100",
        "update-zipf_range=100",
        "write-only_range=10000",
        "read-write_range=10",
        "read-write_range=100",
        "read-only_range=10",
        "read-only_range=100",
        "read-only_range=10000",
        "point-query_range=100",
        "random-points_range=10",
        "random-points_range=100",
        "random-points_range=1000",
        "hot-points_range=100",
        "points-covered-pk_range=100",
        "points-notcovered-pk_range=100",
        "points-covered-si_range=100",
        "points-notcovered-si_range=100",
        "range-covered-pk_range=100",
        "range-notcovered-pk_range=100",
        "range-covered-si_range=100",
        "range-notcovered-si_range=100",
        "scan_range=100",
        "delete_range=100",
        "insert_range=100",
    ];

    #[test]
    fn the_order_is_the_published_one() {
        let suite = suite();
        let steps: Vec<(u32, &str)> = suite.microbenchmarks.iter().map(|one| (one.step, one.name.as_str())).collect();
        assert_eq!(steps, (2..).zip(ORDER).collect::<Vec<_>>());
        assert_eq!((suite.warmup.step, suite.warmup.name.as_str()), (1, "point-query.warm"));
        assert_eq!(suite.postwrite_after, [1, 24]);
    }

    #[test]
    fn events_count_as_published() {
        let suite = suite();
        for one in &suite.microbenchmarks {
            let expected = match one.base_name() {
                "read-only" => 16,
                "read-write" => 20,
                "write-only" => 6,
                _ => 1,
            };
            assert_eq!(one.queries_per_event(), expected, "{}", one.name);
            assert_eq!(one.transaction, expected > 1, "{}", one.name);
            let simple = matches!(one.base_name(), "scan" | "insert");
            assert_eq!(one.protocol == WireProtocol::Simple, simple, "{}", one.name);
            assert_eq!(one.unit == RateUnit::MegarowsPerSecond, one.base_name() == "scan", "{}", one.name);
            let clock = match one.base_name() {
                "scan" => Clock::Once,
                "write-only" => Clock::Read,
                _ if one.group == "writes" => Clock::Write,
                _ => Clock::Read,
            };
            assert_eq!(one.clock, clock, "{}", one.name);
        }
    }

    fn lines(microbenchmark: &Microbenchmark) -> Vec<String> {
        let param = |param: &Param| match param {
            Param::Uniform { over: None, keep: None } => "u".to_owned(),
            other => serde_json::to_string(other).unwrap(),
        };
        let line = |one: &Statement| {
            format!("{}x {} | {}", one.times, one.sql, one.params.iter().map(param).collect::<Vec<_>>().join(" "))
        };
        microbenchmark.statements.iter().map(line).collect()
    }

    #[test]
    fn statements_are_expanded_to_the_letter() {
        let suite = suite();
        let of = |name| lines(get(&suite, name));
        assert_eq!(of("point-query_range=100"), ["1x SELECT c FROM sbtest1 WHERE id=$1 | u"]);
        assert_eq!(
            of("random-points_range=10"),
            ["1x SELECT c FROM sbtest1 WHERE id IN ($1,$2,$3,$4,$5,$6,$7,$8,$9,$10) | u u u u u u u u u u"]
        );
        assert_eq!(
            of("range-notcovered-si_range=100"),
            [r#"1x SELECT k, c FROM sbtest1 WHERE k BETWEEN $1 AND $2 | u {"kind":"offset","of":1,"plus":100}"#]
        );
        assert_eq!(
            of("update-one_range=100"),
            [r#"1x UPDATE sbtest1 SET c=$1 WHERE id=$2 | {"kind":"c"} {"kind":"uniform","over":1,"keep":null}"#]
        );
        assert_eq!(
            of("update-zipf_range=100"),
            [r#"1x UPDATE sbtest1 SET c=$1 WHERE id=$2 | {"kind":"c"} {"kind":"zipfian","exponent":0.8}"#]
        );
        assert_eq!(
            of("update-inlist_range=100"),
            ["1x UPDATE sbtest1 set c=$1 WHERE id IN ($2,$3,$4,$5,$6,$7,$8,$9,$10,$11) | \
              {\"kind\":\"c\"} u u u u u u u u u u"]
        );
        assert_eq!(of("scan_range=100"), ["1x SELECT * from sbtest1 WHERE LENGTH(c) < 0 | "]);
        assert_eq!(
            of("insert_range=100"),
            [r#"1x INSERT INTO sbtest1 (k, c, pad) VALUES ($1, $2, $3) | u {"kind":"c"} {"kind":"pad"}"#]
        );
        assert_eq!(
            of("read-write_range=10"),
            [
                "10x SELECT c FROM sbtest1 WHERE id=$1 | u",
                r#"1x SELECT c FROM sbtest1 WHERE id BETWEEN $1 AND $2 | u {"kind":"offset","of":1,"plus":9}"#,
                r#"1x SELECT SUM(k) FROM sbtest1 WHERE id BETWEEN $1 AND $2 | u {"kind":"offset","of":1,"plus":9}"#,
                r#"1x SELECT c FROM sbtest1 WHERE id BETWEEN $1 AND $2 ORDER BY c | u {"kind":"offset","of":1,"plus":9}"#,
                r#"1x SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN $1 AND $2 ORDER BY c | u {"kind":"offset","of":1,"plus":9}"#,
                "1x UPDATE sbtest1 SET k=k+1 WHERE id=$1 | u",
                r#"1x UPDATE sbtest1 SET c=$1 WHERE id=$2 | {"kind":"c"} u"#,
                r#"1x DELETE FROM sbtest1 WHERE id=$1 | {"kind":"uniform","over":null,"keep":0}"#,
                r#"1x INSERT INTO sbtest1 (id, k, c, pad) VALUES ($1, $2, $3, $4) | {"kind":"kept","slot":0} u {"kind":"c"} {"kind":"pad"}"#,
            ]
        );
        let hot = &get(&suite, "hot-points_range=100").statements[0];
        assert!(hot.sql.ends_with("$99,$100)"), "{}", hot.sql);
        assert_eq!(hot.params[99], Param::Middle { index: 100 });
        let covered = &get(&suite, "points-covered-si.pre_range=100").statements[0];
        assert!(covered.sql.starts_with("SELECT k FROM sbtest1 WHERE k IN ($1,$2,"), "{}", covered.sql);
    }

    #[test]
    fn published_rows_find_their_group() {
        let suite = suite();
        assert_eq!(group_of_row(&suite, "read-only-count_range=1000"), Some("range-2"));
        assert_eq!(group_of_row(&suite, "hot-points.pre_range=100"), Some("point-1"));
        assert_eq!(group_of_row(&suite, "scan.warm_range=100"), None);
        let ignored = ignored_rows().unwrap();
        assert!(is_ignored_row(&ignored, "scan.warm_range=100") && !is_ignored_row(&ignored, "scan_range=100"));
    }

    #[test]
    fn globs_select_by_any_form_of_the_name() {
        let suite = suite();
        let count = |globs: &[&str]| {
            select(&suite, &globs.iter().map(|&glob| glob.to_owned()).collect::<Vec<_>>()).map(|names| names.len())
        };
        assert_eq!(count(&[]).unwrap(), 42);
        assert_eq!(count(&["scan"]).unwrap(), 1);
        assert_eq!(count(&["point-query"]).unwrap(), 2, "the base name stands for both");
        assert_eq!(count(&["point-query.pre"]).unwrap(), 1);
        assert_eq!(count(&["read-only_range=10"]).unwrap(), 1);
        assert_eq!(count(&["*.pre"]).unwrap(), 15);
        assert_eq!(count(&["*-si", "points-*"]).unwrap(), 12, "what matches twice is listed once");
        let ordered = select(&suite, &["scan".to_owned(), "point-query.pre".to_owned()]).unwrap();
        assert_eq!(ordered, ["point-query.pre_range=100", "scan_range=100"], "run order, not the order given");
        assert_eq!(
            count(&["scan", "hot-point"]).unwrap_err().to_string(),
            "no microbenchmark of the suite 'sysbench' matches 'hot-point'; nearest: hot-points, hot-points_range=100"
        );
        assert!(count(&["update-[one"]).unwrap_err().to_string().contains("not a valid pattern"));
    }

    #[test]
    fn the_hash_follows_what_is_run_and_not_what_is_said() {
        let suite = suite();
        let mut other = suite.clone();
        other.microbenchmarks[0].why = "something else".to_owned();
        assert_eq!(hash(&other), hash(&suite));
        other.microbenchmarks[0].statements[0].times = 2;
        assert_ne!(hash(&other), hash(&suite));
        assert_eq!(hash(&suite).len(), HASH_LENGTH);
    }

    /// A small valid suite into which each case puts one entry.
    fn parse_with(entry: &str) -> Result<Suite, String> {
        let text = format!(
            r#"
            suite = {{ name = "s", title = "t", source = "x", postwrite_after = [1] }}
            dataset = {{ table = "t", create_table = "CREATE TABLE t()", finish = [], seed = 1 }}
            warmup = {{ name = "w", group = "g", step = 1, clock = "read", why = "w", shape = "one" }}
            [[group]]
            name = "g"
            title = "G"
                        [shape.one]
            statements = [{{ sql = "SELECT 1", params = [] }}]
            [shape.keyed]
            statements = [{{ sql = "SELECT {{columns}} FROM t WHERE id = $1", params = ["uniform"] }}]
            [[microbenchmark]]
            {entry}
            "#
        );
        parse(&text, "s.toml").map_err(|error| match error {
            CatalogError::Parse { source, .. } => source.to_string(),
            other => other.to_string(),
        })
    }

    const HEAD: &str = "name = 'a_range=5'\ngroup = 'g'\nstep = 2\nclock = 'read'\nwhy = 'w'\n";

    #[test]
    fn one_entry_alone_adds_a_microbenchmark() {
        let entry = format!(
            "{HEAD}range = 5\ntransaction = true\n\
             statements = [{{ sql = 'SELECT {{list}} LIMIT $1', params = ['uniform(3)', 'uniform*range'] }}]"
        );
        let suite = parse_with(&entry).unwrap();
        let one = &suite.microbenchmarks[0];
        assert_eq!(one.statements[0].sql, "SELECT $2,$3,$4,$5,$6 LIMIT $1");
        assert_eq!((one.shape.as_str(), one.queries_per_event()), ("a", 3));
    }

    #[test]
    fn broken_entries_name_file_entry_and_field() {
        let cases = [
            (
                "shape = 'ones'",
                "s.toml: microbenchmark 'a_range=5', shape: 'ones' is not defined in this suite; nearest: one",
            ),
            ("", "shape: give either a shape or statements"),
            ("shape = 'one'\ntransaction = true", "shape: give either a shape or statements"),
            ("shape = 'one'\nwith = { x = 'y' }", "with: '{x}' occurs in no statement"),
            ("shape = 'keyed'", "sql: '{columns}' has no value: give it in 'with'"),
            ("shape = 'one'\nrange = 6", "range: is 6, but the name 'a_range=5' says otherwise"),
            ("statements = []", "statements: needs at least one statement"),
            ("statements = [{ sql = 'SELECT $1' }]", "sql: $1 occurs, but the statement has 0 parameters"),
            ("statements = [{ sql = \"SELECT '$1'\", params = ['uniform'] }]", "$1 does not occur, but"),
            (
                "statements = [{ sql = 'SELECT $1, $3', params = ['uniform', 'c'] }]",
                "$3 occurs, but the statement has 2 parameters",
            ),
            ("statements = [{ sql = 'SELECT {list}', params = ['uniform'] }]", "but 0 of the parameters have one"),
            ("statements = [{ sql = 'SELECT $1', params = ['unifrom'] }]", "params: 'unifrom' is neither uniform"),
            ("statements = [{ sql = 'SELECT $1', params = ['uniform*range'] }]", "has no 'range = N'"),
            ("statements = [{ sql = 'SELECT 1', times = 0 }]", "times: must be at least 1"),
            ("statement = []", "unknown field `statement`"),
            ("shape = 'one'\nclocks = 'read'", "unknown field `clocks`"),
        ];
        for (rest, expected) in cases {
            let message = parse_with(&format!("{HEAD}{rest}")).unwrap_err();
            assert!(message.contains(expected), "{rest}\n  gives   {message}\n  expected {expected}");
        }
        let elsewhere = format!("{HEAD}shape = 'one'\n[[group]]\nname = 'h'\ntitle = 'H'\nmembers = ['a']");
        let message = parse_with(&elsewhere).unwrap_err();
        assert!(message.contains("group: 'a' is in another group already"), "{message}");
        let heads = [
            (HEAD.replace("'g'", "'h'"), "group: 'h' is not defined"),
            (HEAD.replace("step = 2", "step = 1"), "step: must be at least 2"),
            (HEAD.replace("'read'", "'often'"), "unknown variant `often`"),
            (format!("{HEAD}shape = 'one'\n[[microbenchmark]]\n{HEAD}"), "name: 'a_range=5' is already taken"),
        ];
        for (head, expected) in heads {
            let message = parse_with(&format!("{head}shape = 'one'")).unwrap_err();
            assert!(message.contains(expected), "{head}\n  gives   {message}\n  expected {expected}");
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = load(Path::new("no/such/suite.toml")).unwrap_err();
        assert_eq!(error.to_string(), "could not read no/such/suite.toml");
    }
}
