//! Import of published tables of absolute QPS.
//!
//! A table file names its columns (`col-1 : x.pg9023_def.x9a2_bee.pk1`), then lists one
//! microbenchmark per line: values separated by tabs, the name last. Each file becomes one block,
//! since its columns were meant to be compared with each other.

use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rust_decimal::Decimal;
use sha2::{Digest, Sha256};

use super::{FORMAT, Store, StoreError, files, io_error, write_json, write_slices};
use crate::domain::{
    ImportedTarget, Measurement, Origin, Outcome, SliceRecord, SweepManifest, Target, TargetId, Version,
};

/// The file that holds all slices of a table.
const TABLE_FILE: &str = "table.parquet";

/// What the suite says about a row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowKind {
    /// A member of a group.
    Reported,
    /// Known and left out: a warm-up.
    Ignored,
    /// Not known.
    Unknown,
}

/// A table that cannot be imported. Nothing was stored.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// No file was given.
    #[error("there is nothing to import: name at least one qps.abs.*.tsv file")]
    NoFiles,
    /// A line that is not what it should be.
    #[error("{}:{line}: {problem}", file.display())]
    Malformed {
        /// The file.
        file: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: Problem,
    },
}

/// What is wrong with a line of a table.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// Nothing in the file.
    #[error("the file is empty")]
    Empty,
    /// Bytes that are no text.
    #[error("the line is not UTF-8 text")]
    NotUtf8,
    /// The columns are not named.
    #[error(
        "expected a column name such as 'col-1 : x.pg162_def.x9a2_bee.pk1', found '{found}' (only the .tsv tables name \
         their columns)"
    )]
    NoHeader {
        /// The line.
        found: String,
    },
    /// Columns out of order.
    #[error("expected the name of col-{expected}, found that of '{found}'")]
    ColumnNumber {
        /// The number that comes next.
        expected: usize,
        /// What is there.
        found: String,
    },
    /// A column name of another form.
    #[error("the column name '{name}' does not have the form x.VERSION_BUILD.CONFIG.pk1")]
    ColumnName {
        /// The name.
        name: String,
    },
    /// Digits that are no version.
    #[error("'{text}' is not a version (pg9023 is 9.0.23, pg162 is 16.2)")]
    Version {
        /// The text.
        text: String,
    },
    /// The same version, build and configuration twice.
    #[error("the column '{name}' is there twice")]
    RepeatedColumn {
        /// The name.
        name: String,
    },
    /// No line of column labels.
    #[error("expected the line of column labels, col-1 to col-{columns} separated by tabs")]
    NoLabels {
        /// Columns named above.
        columns: usize,
    },
    /// Too few or too many values.
    #[error("expected {expected} fields separated by tabs (a value per column, then the name), found {found}")]
    FieldCount {
        /// Columns named above, and one.
        expected: usize,
        /// Fields found.
        found: usize,
    },
    /// A value that is no rate.
    #[error("'{text}' in col-{column} is not a number above zero in plain decimal form")]
    NotARate {
        /// The value.
        text: String,
        /// The column, from 1.
        column: usize,
    },
    /// A row that the suite does not have.
    #[error("the suite has no microbenchmark '{name}'")]
    UnknownRow {
        /// Its name.
        name: String,
    },
    /// A row that is there twice.
    #[error("the row '{name}' is there twice, first on line {first}")]
    RepeatedRow {
        /// Its name.
        name: String,
        /// Line of the first one.
        first: usize,
    },
    /// A header without rows.
    #[error("the table has no rows that the suite reports")]
    NoRows,
}

/// The files of one import, understood.
pub struct Tables {
    parsed: Vec<Table>,
    /// The files, without those whose content another one has.
    files: Vec<String>,
    /// Name of the sweep that they make.
    id: String,
}

/// One file, understood.
struct Table {
    columns: Vec<ColumnName>,
    rows: Vec<Row>,
}

/// What a column name says.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct ColumnName {
    version: Version,
    labels: (String, String),
}

struct Row {
    name: String,
    rates: Vec<f64>,
}

/// Reads tables of absolute QPS. A file with the same content as another is taken once. `row_kind`
/// tells what the suite knows about a row; an unknown row is an error.
pub fn read_tables(paths: &[PathBuf], row_kind: &dyn Fn(&str) -> RowKind) -> Result<Tables, StoreError> {
    if paths.is_empty() {
        return Err(ImportError::NoFiles.into());
    }
    let mut hashes = BTreeSet::new();
    let (mut tables, mut files) = (Vec::new(), Vec::new());
    for path in paths {
        let bytes = fs::read(path).map_err(io_error("read", path))?;
        let table = parse(&bytes, row_kind).map_err(|(line, problem)| ImportError::Malformed {
            file: path.clone(),
            line,
            problem,
        })?;
        if hashes.insert(format!("{:x}", Sha256::digest(&bytes))) {
            tables.push(table);
            files.push(path.display().to_string());
        }
    }
    let id = format!("import-{}", short_hash(hashes.iter().map(String::as_str)));
    Ok(Tables { parsed: tables, files, id })
}

/// Stores tables as one sweep, one block each, and makes it current. Holds the store's lock meanwhile.
///
/// The sweep is named after the contents, so the same tables imported again are the same sweep and
/// change nothing, unless one of its files was lost: then the sweep is made again.
pub fn import(store: &Store, tables: &Tables) -> Result<SweepManifest, StoreError> {
    let _lock = store.lock()?;
    let dir = store.sweep_dir(&tables.id)?;
    let is_whole = (1..=tables.parsed.len()).all(|block| block_dir(&dir, block).join(TABLE_FILE).is_file());
    let manifest = match store.manifest(&tables.id)? {
        Some(manifest) if is_whole => manifest,
        Some(_) => {
            store.remove_sweep(&tables.id)?;
            add_sweep(store, tables)?
        }
        None => add_sweep(store, tables)?,
    };
    store.set_current(&manifest.id)?;
    Ok(manifest)
}

/// Writes the sweep under a temporary name and renames it as a whole.
fn add_sweep(store: &Store, tables: &Tables) -> Result<SweepManifest, StoreError> {
    let Tables { parsed: tables, files: names, id } = tables;
    let now = Timestamp::now();
    let targets = targets(tables);
    let ids: HashMap<&ColumnName, TargetId> = targets.iter().map(|(name, target)| (*name, target.id.clone())).collect();
    let blocks = blocks(tables, &ids, now);
    let targets: Vec<Target> = targets.into_iter().map(|(_, target)| target).collect();
    let manifest = SweepManifest {
        format: FORMAT,
        id: id.clone(),
        regtrack: env!("CARGO_PKG_VERSION").to_owned(),
        created_at: now,
        updated_at: now,
        command: format!("regtrack import {}", names.join(" ")),
        arguments: Vec::new(),
        origin: Origin::Imported { files: names.clone() },
        launches: u32::try_from(tables.len()).unwrap_or(u32::MAX),
        stopping: None,
        base: targets[0].id.clone(),
        targets,
        former_targets: Vec::new(),
        host: None,
        placement: None,
        blind: None,
        doctor: Vec::new(),
    };

    let dir = store.sweep_dir(&manifest.id)?;
    let unfinished = files::temporary(&dir);
    for (block, slices) in (1..).zip(&blocks) {
        let slices_dir = block_dir(&unfinished, block);
        files::create_directory(&slices_dir).map_err(io_error("create", &slices_dir))?;
        write_slices(&slices_dir.join(TABLE_FILE), slices)?;
    }
    write_json(&unfinished.join("manifest.json"), &manifest)?;
    fs::rename(&unfinished, &dir).map_err(io_error("write", &dir))?;
    files::sync_directory(&dir).map_err(io_error("write", &dir))?;
    Ok(manifest)
}

/// Where the slices of one table are, in the directory of a sweep.
fn block_dir(sweep: &Path, block: usize) -> PathBuf {
    sweep.join("slices").join(format!("b{block}"))
}

/// The targets of all tables, oldest first, labelled as briefly as the set allows.
fn targets(tables: &[Table]) -> Vec<(&ColumnName, Target)> {
    let mut names: Vec<&ColumnName> = Vec::new();
    for name in tables.iter().flat_map(|table| &table.columns) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.sort_by_key(|name| name.version);
    let target = |name: &ColumnName| {
        let ColumnName { version, labels: (build, config) } = name;
        let alone = |same: &dyn Fn(&ColumnName) -> bool| names.iter().filter(|other| same(other)).count() == 1;
        let label = if alone(&|other| other.version == *version) {
            version.to_string()
        } else if alone(&|other| other.version == *version && other.labels.1 == *config) {
            format!("{version} {config}")
        } else {
            format!("{version} {build} {config}")
        };
        let hash = short_hash([build.as_str(), config.as_str()].into_iter());
        Target {
            id: TargetId(format!("{version}-{}", &hash[..8])),
            label,
            version: *version,
            build: None,
            brake: None,
            imported: Some(ImportedTarget { build: build.clone(), config: config.clone() }),
            settings: std::collections::BTreeMap::new(),
            data_digest: None,
        }
    };
    names.iter().map(|name| (*name, target(name))).collect()
}

/// One block of slices per table.
///
/// A column that agrees row for row with the same target's column in an earlier table is that very
/// measurement, printed again; it keeps the launch's name, so that nobody counts it twice.
fn blocks(tables: &[Table], ids: &HashMap<&ColumnName, TargetId>, now: Timestamp) -> Vec<Vec<SliceRecord>> {
    let mut launches: Vec<(&ColumnName, HashMap<&str, f64>, String)> = Vec::new();
    let mut blocks = Vec::new();
    for (block, table) in (1..).zip(tables) {
        let mut names = Vec::new();
        for (index, column) in table.columns.iter().enumerate() {
            let rates: HashMap<&str, f64> =
                table.rows.iter().map(|row| (row.name.as_str(), row.rates[index])).collect();
            let earlier = launches.iter().find(|(name, other, _)| *name == column && agree(&rates, other));
            let launch = earlier.map_or_else(|| format!("b{block}-{}-1", ids[column]), |(.., launch)| launch.clone());
            launches.push((column, rates, launch.clone()));
            names.push(launch);
        }
        let mut slices = Vec::new();
        for row in &table.rows {
            for ((column, launch), rate) in table.columns.iter().zip(&names).zip(&row.rates) {
                let measurement = Measurement { published_rate: Some(*rate), ..Measurement::default() };
                slices.push(SliceRecord {
                    block,
                    target: ids[column].clone(),
                    launch: launch.clone(),
                    server_start: 1,
                    microbenchmark: row.name.clone(),
                    started_at: now,
                    outcome: Outcome::Measured(Box::new(measurement)),
                });
            }
        }
        blocks.push(slices);
    }
    blocks
}

/// Whether two columns have rows in common and all of those are equal.
#[expect(clippy::float_cmp, reason = "equal printed texts give equal numbers")]
fn agree(a: &HashMap<&str, f64>, b: &HashMap<&str, f64>) -> bool {
    let mut common = a.iter().filter_map(|(name, rate)| Some((rate, b.get(name)?))).peekable();
    common.peek().is_some() && common.all(|(a, b)| a == b)
}

/// Understands one file; an error has the line, from 1.
fn parse(bytes: &[u8], row_kind: &dyn Fn(&str) -> RowKind) -> Result<Table, (usize, Problem)> {
    let text = str::from_utf8(bytes).map_err(|error| {
        let line = 1 + String::from_utf8_lossy(&bytes[..error.valid_up_to()]).matches('\n').count();
        (line, Problem::NotUtf8)
    })?;
    let mut lines = (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()).peekable();
    if lines.peek().is_none() {
        return Err((1, Problem::Empty));
    }

    let mut columns: Vec<ColumnName> = Vec::new();
    let mut last = 1;
    while let Some((number, line)) = lines.next_if(|(_, line)| line.contains(" : ")) {
        let column = header(line, columns.len() + 1).map_err(|problem| (number, problem))?;
        if columns.contains(&column) {
            return Err((number, Problem::RepeatedColumn { name: line.to_owned() }));
        }
        columns.push(column);
        last = number;
    }
    let (number, line) = lines.next().unwrap_or((last, ""));
    if columns.is_empty() {
        let found = line.chars().take(60).collect();
        return Err((number, Problem::NoHeader { found }));
    }
    let labels = (1..=columns.len()).map(|column| format!("col-{column}"));
    if !line.split('\t').map(str::trim).eq(labels) {
        return Err((number, Problem::NoLabels { columns: columns.len() }));
    }

    let mut rows = Vec::new();
    let mut seen: HashMap<&str, usize> = HashMap::new();
    last = number;
    for (number, line) in lines {
        last = number;
        let (name, rates) = values(line, columns.len()).map_err(|problem| (number, problem))?;
        if let Some(first) = seen.insert(name, number) {
            return Err((number, Problem::RepeatedRow { name: name.to_owned(), first }));
        }
        match row_kind(name) {
            RowKind::Reported => rows.push(Row { name: name.to_owned(), rates }),
            RowKind::Ignored => {}
            RowKind::Unknown => return Err((number, Problem::UnknownRow { name: name.to_owned() })),
        }
    }
    if rows.is_empty() {
        return Err((last, Problem::NoRows));
    }
    Ok(Table { columns, rows })
}

/// `col-3 : x.pg9224_def.x9a2_bee.pk1`
fn header(line: &str, expected: usize) -> Result<ColumnName, Problem> {
    let (number, name) = line.split_once(" : ").unwrap_or((line, ""));
    let (number, name) = (number.trim(), name.trim());
    if !number.starts_with("col-") {
        return Err(Problem::NoHeader { found: line.chars().take(60).collect() });
    }
    if number != format!("col-{expected}") {
        return Err(Problem::ColumnNumber { expected, found: number.to_owned() });
    }
    let parts: Vec<&str> = name.split('.').collect();
    let (&[_, version_build, config, _], true) = (parts.as_slice(), parts.iter().all(|part| !part.is_empty())) else {
        return Err(Problem::ColumnName { name: name.to_owned() });
    };
    let Some((version, build)) = version_build.split_once('_') else {
        return Err(Problem::ColumnName { name: name.to_owned() });
    };
    let version = version_from_digits(version).ok_or_else(|| Problem::Version { text: version.to_owned() })?;
    Ok(ColumnName { version, labels: (build.to_owned(), config.to_owned()) })
}

/// The digits of major and minor run together: `pg9023` is 9.0.23, `pg1023` 10.23, `pg162` 16.2,
/// `pg18beta1` 18beta1. Majors of two numbers begin with 7, 8 or 9; all others have two digits.
fn version_from_digits(text: &str) -> Option<Version> {
    let digits = text.strip_prefix("pg").filter(|digits| digits.is_ascii())?;
    if digits.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        return digits.parse().ok();
    }
    let (major, minor) = digits.split_at_checked(2)?;
    let old = major.starts_with(['7', '8', '9']);
    let major = if old { format!("{}.{}", &major[..1], &major[1..]) } else { major.to_owned() };
    format!("{major}.{minor}").parse().ok()
}

/// The row's name and its rates.
fn values(line: &str, columns: usize) -> Result<(&str, Vec<f64>), Problem> {
    let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
    let [values @ .., name] = fields.as_slice() else {
        return Err(Problem::FieldCount { expected: columns + 1, found: 0 });
    };
    if values.len() != columns || name.is_empty() {
        return Err(Problem::FieldCount { expected: columns + 1, found: fields.len() });
    }
    let rate = |(column, text): (usize, &&str)| {
        exact_rate(text).ok_or_else(|| Problem::NotARate { text: (*text).to_owned(), column })
    };
    let rates = (1..).zip(values).map(rate).collect::<Result<_, _>>()?;
    Ok((name, rates))
}

/// The number that a text stands for, provided that it reads back as the same decimal.
fn exact_rate(text: &str) -> Option<f64> {
    let decimal = Decimal::from_str_exact(text).ok().filter(|decimal| *decimal > Decimal::ZERO)?;
    let rate: f64 = text.parse().ok()?;
    let read_back = Decimal::from_str_exact(&rate.to_string()).ok()?;
    (read_back == decimal).then_some(rate)
}

/// A short name for a list of texts.
fn short_hash<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update(text);
        hasher.update(b"\n");
    }
    let mut hash = format!("{:x}", hasher.finalize());
    hash.truncate(12);
    hash
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    const TABLE: &str = "col-1 : x.pg9023_def.x9a2_bee.pk1\ncol-2 : x.pg162_def.x9a2_bee.pk1\n\n\
                         col-1\tcol-2\n2859\t2635\thot-points_range=100\n1.310\t1.593\tscan_range=100\n\
                         1\t2\tscan.warm_range=100\n";

    fn kind(row: &str) -> RowKind {
        match row {
            "scan.warm_range=100" => RowKind::Ignored,
            "typo" => RowKind::Unknown,
            _ => RowKind::Reported,
        }
    }

    fn files(contents: &[&str]) -> (TempDir, Store, Vec<PathBuf>) {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::create_or_open(dir.path().join("results")).unwrap();
        let write = |(number, content): (usize, &&str)| {
            let path = dir.path().join(format!("qps.abs.{number}.tsv"));
            fs::write(&path, content).unwrap();
            path
        };
        let paths = contents.iter().enumerate().map(write).collect();
        (dir, store, paths)
    }

    fn import(store: &Store, paths: &[PathBuf], kind: &dyn Fn(&str) -> RowKind) -> Result<SweepManifest, StoreError> {
        super::import(store, &read_tables(paths, kind)?)
    }

    fn problem(content: &str) -> String {
        let (dir, store, paths) = files(&[TABLE, content]);
        let message = import(&store, &paths, &kind).unwrap_err().to_string();
        assert!(store.sweeps().unwrap().is_empty(), "nothing is stored");
        message.replace(&format!("{}/", dir.path().display()), "")
    }

    #[test]
    fn a_table_becomes_a_block() {
        let (_dir, store, paths) = files(&[TABLE]);
        let manifest = import(&store, &paths, &kind).unwrap();
        let labels: Vec<&str> = manifest.targets.iter().map(|target| target.label.as_str()).collect();
        assert_eq!(labels, ["9.0.23", "16.2"]);
        assert_eq!(manifest.base, manifest.targets[0].id);
        assert_eq!(store.current().unwrap(), manifest);
        let rates: Vec<_> = store
            .slices(&manifest.id)
            .unwrap()
            .into_iter()
            .map(|slice| (slice.microbenchmark.clone(), slice.outcome.measurement().unwrap().published_rate.unwrap()))
            .collect();
        let rate = |name: &str, rate: f64| (name.to_owned(), rate);
        let (points, scan) = ("hot-points_range=100", "scan_range=100");
        assert_eq!(rates, [rate(points, 2859.0), rate(points, 2635.0), rate(scan, 1.31), rate(scan, 1.593)]);
    }

    #[test]
    fn importing_again_changes_nothing() {
        let other = TABLE.replace("2859", "2860");
        let (_dir, store, mut paths) = files(&[TABLE, &other, TABLE]);
        let first = import(&store, &paths, &kind).unwrap();
        assert_eq!(first.launches, 2, "a file given twice is one block");
        let alone = import(&store, &paths[..1], &kind).unwrap();
        assert_ne!(first.id, alone.id);
        paths.reverse();
        assert_eq!(import(&store, &paths, &kind).unwrap(), first);
        assert_eq!(store.current().unwrap(), first);
        assert_eq!(store.sweeps().unwrap().len(), 2);
    }

    #[test]
    fn importing_again_replaces_what_was_lost() {
        let (_dir, store, paths) = files(&[TABLE, &TABLE.replace("2859", "2860")]);
        let first = import(&store, &paths, &kind).unwrap();
        let whole = store.slices(&first.id).unwrap();
        fs::remove_file(store.dir().join("sweeps").join(&first.id).join("slices/b2/table.parquet")).unwrap();
        assert!(store.slices(&first.id).unwrap().len() < whole.len());
        assert_eq!(import(&store, &paths, &kind).unwrap().id, first.id);
        assert_eq!(store.slices(&first.id).unwrap().len(), whole.len());
    }

    #[test]
    fn labels_say_more_only_where_needed() {
        let table = "col-1 : x.pg176_o2nofp.x10a_c8r32.pk1\ncol-2 : x.pg180_o2nofp.x10b_c8r32.pk1\n\
                     col-3 : x.pg180_o2nofp.x10c_c8r32.pk1\ncol-4 : x.pg180_def.x10c_c8r32.pk1\n\n\
                     col-1\tcol-2\tcol-3\tcol-4\n1\t2\t3\t4\tscan_range=100\n";
        let (_dir, store, paths) = files(&[table]);
        let manifest = import(&store, &paths, &kind).unwrap();
        let labels: Vec<&str> = manifest.targets.iter().map(|target| target.label.as_str()).collect();
        assert_eq!(labels, ["17.6", "18.0 x10b_c8r32", "18.0 o2nofp x10c_c8r32", "18.0 def x10c_c8r32"]);
    }

    #[test]
    fn a_column_printed_in_two_tables_is_one_launch() {
        let other = TABLE.replace("2859", "2860");
        let (_dir, store, paths) = files(&[TABLE, &other]);
        let manifest = import(&store, &paths, &kind).unwrap();
        let launches: BTreeSet<_> =
            store.slices(&manifest.id).unwrap().into_iter().map(|slice| (slice.block, slice.launch)).collect();
        let [old, new] = [&manifest.targets[0].id, &manifest.targets[1].id];
        let expected = [
            (1, format!("b1-{new}-1")),
            (1, format!("b1-{old}-1")),
            (2, format!("b1-{new}-1")),
            (2, format!("b2-{old}-1")),
        ];
        assert_eq!(launches.into_iter().collect::<Vec<_>>(), expected);
    }

    #[test]
    fn versions_are_read_from_their_digits() {
        for (text, version) in [
            ("pg9023", "9.0.23"),
            ("pg960", "9.6.0"),
            ("pg1023", "10.23"),
            ("pg162", "16.2"),
            ("pg1610", "16.10"),
            ("pg18beta1", "18beta1"),
        ] {
            assert_eq!(version_from_digits(text).unwrap().to_string(), version, "{text}");
        }
        for text in ["pg", "pg1", "pg16", "pg96", "16.2", "pgé62", "my8036", "pg16x"] {
            assert_eq!(version_from_digits(text), None, "{text}");
        }
    }

    #[test]
    fn a_malformed_table_is_refused_with_its_line() {
        let head = "col-1 : x.pg9023_def.x9a2_bee.pk1\n\ncol-1\n";
        let cases = [
            (String::new(), "qps.abs.1.tsv:1: the file is empty"),
            ("a,1,2\n".to_owned(), "qps.abs.1.tsv:1: expected a column name"),
            ("a : b\n".to_owned(), "qps.abs.1.tsv:1: expected a column name"),
            ("col-2 : x.pg162_def.c.pk1\n".to_owned(), ":1: expected the name of col-1, found that of 'col-2'"),
            ("col-1 : x.pg162.c.pk1\n".to_owned(), ":1: the column name 'x.pg162.c.pk1' does not have the form"),
            ("col-1 : x.pg16_def.c.pk1\n".to_owned(), ":1: 'pg16' is not a version"),
            ("col-1 : x.pg162_def.c.pk1\ncol-2 : x.pg162_def.c.pk1\n".to_owned(), ":2: the column 'col-2"),
            ("col-1 : x.pg162_def.c.pk1\n".to_owned(), ":1: expected the line of column labels, col-1 to col-1"),
            ("col-1 : x.pg162_def.c.pk1\n\n12\tscan\n".to_owned(), ":3: expected the line of column labels"),
            (head.to_owned(), ":3: the table has no rows"),
            (
                format!("{head}1\t2\tscan\n"),
                ":4: expected 2 fields separated by tabs (a value per column, then the name), found 3",
            ),
            (format!("{head}1\tscan\n\n12k\tdelete\n"), ":6: '12k' in col-1 is not a number above zero"),
            (format!("{head}0\tscan\n"), ":4: '0' in col-1 is not a number above zero"),
            (format!("{head}NaN\tscan\n"), ":4: 'NaN' in col-1"),
            (format!("{head}1\tscan\n1\ttypo\n"), ":5: the suite has no microbenchmark 'typo'"),
            (format!("{head}1\tscan\n1\tscan\n"), ":5: the row 'scan' is there twice, first on line 4"),
        ];
        for (content, expected) in cases {
            let message = problem(&content);
            assert!(message.contains(expected), "{content:?}: {message}");
        }
        let (_dir, store, paths) = files(&[TABLE]);
        fs::write(&paths[0], b"col-1 : x.pg162_def.c.pk1\n\xff\n").unwrap();
        let message = import(&store, &paths, &kind).unwrap_err().to_string();
        assert!(message.ends_with(":2: the line is not UTF-8 text"), "{message}");
        assert!(import(&store, &[], &kind).unwrap_err().to_string().contains("nothing to import"));
    }

    #[test]
    fn all_archived_tables_can_be_read() {
        let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/reference/callaghan");
        let dir = std::env::var_os("REGTRACK_CALLAGHAN_DIR").map_or_else(beside, PathBuf::from);
        if !dir.is_dir() {
            println!("not run: there is no directory {} with the archived tables", dir.display());
            return;
        }
        let mut read = 0;
        for set in fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.is_dir()) {
            for path in fs::read_dir(set).unwrap().map(|entry| entry.unwrap().path()) {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                if name.starts_with("qps.abs.") && path.extension().is_some_and(|extension| extension == "tsv") {
                    let table = parse(&fs::read(&path).unwrap(), &kind)
                        .unwrap_or_else(|(line, problem)| panic!("{}:{line}: {problem}", path.display()));
                    assert!([32, 42].contains(&table.rows.len()), "{name}");
                    read += 1;
                }
            }
        }
        assert!(read >= 13, "{read} tables");
    }

    proptest! {
        #[test]
        fn rates_keep_their_printed_value(whole in 1u64..100_000_000, thousandths in 0u32..1000) {
            let text = format!("{whole}.{thousandths:03}");
            let rate = exact_rate(&text).unwrap();
            prop_assert_eq!(Decimal::from_str_exact(&rate.to_string()).unwrap(), Decimal::from_str_exact(&text).unwrap());
        }

        #[test]
        fn no_input_makes_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..300) {
            let _ = parse(&bytes, &kind);
            let mut mixed = TABLE.as_bytes()[..cut.min(TABLE.len())].to_vec();
            mixed.extend(bytes);
            let _ = parse(&mixed, &kind);
        }
    }
}
