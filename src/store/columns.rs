//! Slices as columns: the one place that knows the Parquet files.
//!
//! A column is named after the field of [`SliceRecord`] or [`Measurement`] that it holds, unit last.
//! `docs/results.md` lists them for people who read the files with other programs.

mod documented;
mod table;

use std::io::Cursor;

use polars::prelude::*;
use sha2::{Digest, Sha256};

use crate::domain::{Measurement, Outcome, SliceRecord, TargetId};

pub use documented::{NESTED, slices_table};
pub use table::{table_to_csv, table_to_json, table_to_parquet};

/// Format of the columns. It changes only when an old column changes its meaning or goes away: a
/// column that is new and may be absent needs no new format.
pub const FORMAT: u32 = 1;

/// Values of the column `outcome`.
const MEASURED: &str = "measured";
const FAILED: &str = "failed";

/// Between the sentences of the column `noise`.
const NOISE_SEPARATOR: &str = "; ";

/// Name of the column of plans.
const PLANS: &str = "plans";

/// A file that does not hold slices.
#[derive(Debug, thiserror::Error)]
pub enum ColumnsError {
    /// The bytes are not a complete Parquet file.
    #[error("it is not a complete Parquet file ({0})")]
    Incomplete(&'static str),
    /// The Parquet reader or writer gave up.
    #[error("the Parquet data cannot be handled")]
    Parquet(#[source] PolarsError),
    /// Bytes have changed since the file was written.
    #[error("its content does not match its checksum")]
    Checksum,
    /// A column is missing or has another type.
    #[error("the column '{column}' is missing or has an unexpected type")]
    Column {
        /// The column's name.
        column: &'static str,
        /// What the reader said.
        #[source]
        source: PolarsError,
    },
    /// A value that must be there is not, or makes no sense.
    #[error("row {row} has no usable value in the column '{column}'")]
    Value {
        /// The column's name.
        column: &'static str,
        /// The row, from 1.
        row: usize,
    },
    /// Plans have no form in JSON.
    #[error("the plans of its statements cannot be encoded")]
    Plans(#[source] serde_json::Error),
    /// A later regtrack wrote it.
    #[error("its format is {found}, and this regtrack reads formats up to {FORMAT}")]
    Newer {
        /// The format found.
        found: u32,
    },
}

/// A field of [`Measurement`] as a column: its name and meaning, and how to get and set it.
struct Field<T> {
    name: &'static str,
    meaning: &'static str,
    get: fn(&Measurement) -> T,
    set: fn(&mut Measurement, T),
}

/// Fields named like their columns.
macro_rules! fields {
    ($($field:ident: $meaning:literal),+ $(,)?) => {
        &[$(Field {
            name: stringify!($field),
            meaning: $meaning,
            get: |m| m.$field,
            set: |m, value| m.$field = value,
        }),+]
    };
}

const REALS: &[Field<f64>] = fields![
    seconds: "length of the measured stretch, seconds",
    warmup_seconds: "length of the warm-up before it, seconds",
    latency_us_mean: "mean latency of an event, microseconds",
    latency_us_p50: "median latency of an event, microseconds",
    latency_us_p95: "95th percentile of the latency of events, microseconds",
    latency_us_p99: "99th percentile of the latency of events, microseconds",
    latency_us_max: "longest event, microseconds",
];

const COUNTS: &[Field<u64>] = fields![
    events: "events completed",
    queries: "statements completed, BEGIN and COMMIT included; queries / seconds is the QPS",
    reads: "statements that returned a result set",
    writes: "commands that affected a row",
    others: "commands that affected none",
    rows: "rows received",
    retries: "events run again after a deadlock, duplicate key or serialisation failure",
    buffers_queries: "queries over which the two buffer counts run, the warm-up's included",
];

const OPTIONAL_COUNTS: &[Field<Option<u64>>] = fields![
    backend_cpu_ns: "CPU time of the server's backend, nanoseconds",
    backend_wait_ns: "time the backend was ready to run and waited for a CPU, nanoseconds",
    backend_voluntary_switches: "voluntary context switches of the backend",
    backend_involuntary_switches: "involuntary context switches of the backend",
    client_cpu_ns: "CPU time of the client's threads, nanoseconds",
    wal_bytes: "WAL written by all processes of the server, bytes",
    buffers_hit: "buffers found in shared memory, warm-up included",
    buffers_read: "buffers read from the operating system, warm-up included",
    checkpoints: "checkpoints of the server that began in the slice",
    autovacuums: "automatic vacuums and analyzes of the database's tables in the slice",
    instructions: "instructions of the server's backend in user space",
];

const OPTIONAL_REALS: &[Field<Option<f64>>] = fields![
    published_rate: "imports only: the rate as printed; every other number of such a row is zero or absent",
];

/// The slices as a frame, one row each, in their order.
pub fn to_frame(slices: &[SliceRecord]) -> Result<DataFrame, ColumnsError> {
    let measurements: Vec<Option<&Measurement>> = slices.iter().map(|slice| slice.outcome.measurement()).collect();
    let texts = |text: fn(&SliceRecord) -> &str| slices.iter().map(text).collect::<Vec<_>>();
    let started_at: Vec<String> = slices.iter().map(|slice| slice.started_at.to_string()).collect();
    let failures: Vec<Option<&str>> = slices
        .iter()
        .map(|slice| match &slice.outcome {
            Outcome::Measured(_) => None,
            Outcome::Failed(reason) => Some(reason.as_str()),
        })
        .collect();
    let outcomes: Vec<&str> =
        failures.iter().map(|failure| if failure.is_none() { MEASURED } else { FAILED }).collect();

    let mut columns = vec![
        Column::new("format".into(), vec![FORMAT; slices.len()]),
        Column::new("block".into(), slices.iter().map(|slice| slice.block).collect::<Vec<_>>()),
        Column::new("target".into(), texts(|slice| &slice.target.0)),
        Column::new("launch".into(), texts(|slice| &slice.launch)),
        Column::new("server_start".into(), slices.iter().map(|slice| slice.server_start).collect::<Vec<_>>()),
        Column::new("microbenchmark".into(), texts(|slice| &slice.microbenchmark)),
        Column::new("started_at".into(), started_at),
        Column::new("outcome".into(), outcomes),
        Column::new("failure".into(), failures),
    ];
    for field in REALS {
        let values: Vec<Option<f64>> = measurements.iter().map(|m| m.map(field.get)).collect();
        columns.push(Column::new(field.name.into(), values));
    }
    for field in COUNTS {
        let values: Vec<Option<u64>> = measurements.iter().map(|m| m.map(field.get)).collect();
        columns.push(Column::new(field.name.into(), values));
    }
    for field in OPTIONAL_COUNTS {
        let values: Vec<Option<u64>> = measurements.iter().map(|m| m.and_then(field.get)).collect();
        columns.push(Column::new(field.name.into(), values));
    }
    for field in OPTIONAL_REALS {
        let values: Vec<Option<f64>> = measurements.iter().map(|m| m.and_then(field.get)).collect();
        columns.push(Column::new(field.name.into(), values));
    }
    columns.push(queries_by_second(&measurements));
    let noise = |m: &Measurement| (!m.noise.is_empty()).then(|| m.noise.join(NOISE_SEPARATOR));
    let noises: Vec<Option<String>> = measurements.iter().map(|m| m.and_then(noise)).collect();
    columns.push(Column::new("noise".into(), noises));
    columns.push(plans(&measurements)?);
    let histograms: Vec<Option<&[u8]>> =
        measurements.iter().map(|m| m.map(|m| m.latency_histogram.as_slice())).collect();
    columns.push(Column::new("latency_histogram".into(), histograms));
    DataFrame::new(slices.len(), columns).map_err(ColumnsError::Parquet)
}

/// JSON, which readers of Parquet take apart more easily than nested columns of unknown depth.
fn plans(measurements: &[Option<&Measurement>]) -> Result<Column, ColumnsError> {
    let json = |m: &Measurement| serde_json::to_string(&m.plans).map_err(ColumnsError::Plans);
    let with_plans = measurements.iter().map(|m| m.filter(|m| !m.plans.is_empty()));
    let texts = with_plans.map(|m| m.map(json).transpose()).collect::<Result<Vec<Option<String>>, _>>()?;
    Ok(Column::new(PLANS.into(), texts))
}

fn queries_by_second(measurements: &[Option<&Measurement>]) -> Column {
    let seconds = measurements.iter().flatten().map(|m| m.queries_by_second.len()).sum();
    let mut lists = ListPrimitiveChunkedBuilder::<UInt32Type>::new(
        "queries_by_second".into(),
        measurements.len(),
        seconds,
        DataType::UInt32,
    );
    for measurement in measurements {
        match measurement {
            Some(measurement) => lists.append_slice(&measurement.queries_by_second),
            None => lists.append_null(),
        }
    }
    lists.finish().into_series().into_column()
}

/// The slices of a frame, one per row, in its order. What is [nested](NESTED) and not in the frame stays empty.
pub fn from_frame(frame: &DataFrame) -> Result<Vec<SliceRecord>, ColumnsError> {
    let columns = Columns { frame };
    for (row, found) in columns.counts32("format")?.iter().enumerate() {
        let found = found.ok_or_else(|| missing("format", row))?;
        if found > FORMAT {
            return Err(ColumnsError::Newer { found });
        }
    }
    let measurements = columns.measurements()?;
    let (blocks, starts) = (columns.counts32("block")?, columns.counts32("server_start")?);
    let [targets, launches, names] = ["target", "launch", "microbenchmark"].map(|name| columns.texts(name));
    let (targets, launches, names) = (targets?, launches?, names?);
    let [times, outcomes, failures] = ["started_at", "outcome", "failure"].map(|name| columns.texts(name));
    let (times, outcomes, failures) = (times?, outcomes?, failures?);
    let text = |values: &StringChunked, column, row| -> Result<String, ColumnsError> {
        values.get(row).map(str::to_owned).ok_or_else(|| missing(column, row))
    };
    let slice = |(row, measurement): (usize, Measurement)| {
        let outcome = match outcomes.get(row) {
            Some(MEASURED) => Outcome::Measured(Box::new(measurement)),
            Some(FAILED) => Outcome::Failed(text(failures, "failure", row)?),
            _ => return Err(missing("outcome", row)),
        };
        let started_at = times.get(row).and_then(|time| time.parse().ok());
        Ok(SliceRecord {
            block: blocks.get(row).ok_or_else(|| missing("block", row))?,
            target: TargetId(text(targets, "target", row)?),
            launch: text(launches, "launch", row)?,
            server_start: starts.get(row).ok_or_else(|| missing("server_start", row))?,
            microbenchmark: text(names, "microbenchmark", row)?,
            started_at: started_at.ok_or_else(|| missing("started_at", row))?,
            outcome,
        })
    };
    measurements.into_iter().enumerate().map(slice).collect()
}

/// Typed access to the columns of a frame.
struct Columns<'a> {
    frame: &'a DataFrame,
}

impl<'a> Columns<'a> {
    /// One for each row; that of a failed slice holds nothing.
    fn measurements(&self) -> Result<Vec<Measurement>, ColumnsError> {
        let mut measurements = vec![Measurement::default(); self.frame.height()];
        let outcomes = self.texts("outcome")?;
        let measured: Vec<bool> = outcomes.iter().map(|outcome| outcome == Some(MEASURED)).collect();
        let mut rows = Rows { measurements: &mut measurements, measured: &measured };
        for field in REALS {
            rows.fill_each(field, self.reals(field.name)?.iter())?;
        }
        for field in COUNTS {
            rows.fill_each(field, self.counts(field.name)?.iter())?;
        }
        for field in OPTIONAL_COUNTS.iter().filter(|field| self.has(field.name)) {
            rows.fill(field, self.counts(field.name)?.iter());
        }
        for field in OPTIONAL_REALS.iter().filter(|field| self.has(field.name)) {
            rows.fill(field, self.reals(field.name)?.iter());
        }
        self.fill_nested(&mut rows)?;
        Ok(measurements)
    }

    /// Sets what is text or a list. Such columns may be younger than the file, or not wanted.
    fn fill_nested(&self, rows: &mut Rows<'_>) -> Result<(), ColumnsError> {
        if self.has("noise") {
            for (_, measurement, noise) in rows.measured_of(self.texts("noise")?.iter()) {
                let noise = noise.unwrap_or_default().split(NOISE_SEPARATOR);
                measurement.noise = noise.filter(|it| !it.is_empty()).map(str::to_owned).collect();
            }
        }
        if self.has(PLANS) {
            for (row, measurement, json) in rows.measured_of(self.texts(PLANS)?.iter()) {
                let plans = json.map(|json| serde_json::from_str(json).map_err(|_| missing(PLANS, row)));
                measurement.plans = plans.transpose()?.unwrap_or_default();
            }
        }
        if self.has("latency_histogram") {
            let values = self.column("latency_histogram")?.binary().map_err(wrong("latency_histogram"))?;
            for (row, measurement, bytes) in rows.measured_of(values.iter()) {
                measurement.latency_histogram = bytes.ok_or_else(|| missing("latency_histogram", row))?.to_vec();
            }
        }
        if self.has("queries_by_second") {
            let lists = self.column("queries_by_second")?.list().map_err(wrong("queries_by_second"))?;
            let lists = (0..lists.len()).map(|row| lists.get_as_series(row));
            for (row, measurement, list) in rows.measured_of(lists) {
                let items = list.ok_or_else(|| missing("queries_by_second", row))?;
                let items = items.u32().map_err(wrong("queries_by_second"))?;
                let items: Option<Vec<u32>> = items.iter().collect();
                measurement.queries_by_second = items.ok_or_else(|| missing("queries_by_second", row))?;
            }
        }
        Ok(())
    }

    /// Optional columns may be younger than the file.
    fn has(&self, name: &str) -> bool {
        self.frame.column(name).is_ok()
    }

    fn column(&self, name: &'static str) -> Result<&'a Column, ColumnsError> {
        self.frame.column(name).map_err(wrong(name))
    }

    fn counts32(&self, name: &'static str) -> Result<&'a UInt32Chunked, ColumnsError> {
        self.column(name)?.u32().map_err(wrong(name))
    }

    fn counts(&self, name: &'static str) -> Result<&'a UInt64Chunked, ColumnsError> {
        self.column(name)?.u64().map_err(wrong(name))
    }

    fn reals(&self, name: &'static str) -> Result<&'a Float64Chunked, ColumnsError> {
        self.column(name)?.f64().map_err(wrong(name))
    }

    fn texts(&self, name: &'static str) -> Result<&'a StringChunked, ColumnsError> {
        self.column(name)?.str().map_err(wrong(name))
    }
}

/// The measurements that columns are read into.
struct Rows<'a> {
    measurements: &'a mut [Measurement],
    /// Which of them were measured.
    measured: &'a [bool],
}

impl Rows<'_> {
    /// Those that were measured, each with its row and value.
    fn measured_of<T>(
        &mut self,
        values: impl Iterator<Item = T>,
    ) -> impl Iterator<Item = (usize, &mut Measurement, T)> {
        let rows = self.measurements.iter_mut().zip(values).zip(self.measured).enumerate();
        rows.filter_map(|(row, ((measurement, value), measured))| measured.then_some((row, measurement, value)))
    }

    fn fill<T>(&mut self, field: &Field<T>, values: impl Iterator<Item = T>) {
        for (_, measurement, value) in self.measured_of(values) {
            (field.set)(measurement, value);
        }
    }

    fn fill_each<T>(&mut self, field: &Field<T>, values: impl Iterator<Item = Option<T>>) -> Result<(), ColumnsError> {
        for (row, measurement, value) in self.measured_of(values) {
            (field.set)(measurement, value.ok_or_else(|| missing(field.name, row))?);
        }
        Ok(())
    }
}

fn wrong(column: &'static str) -> impl FnOnce(PolarsError) -> ColumnsError {
    move |source| ColumnsError::Column { column, source }
}

fn missing(column: &'static str, row: usize) -> ColumnsError {
    ColumnsError::Value { column, row: row + 1 }
}

/// The slices as the bytes of a Parquet file, with a checksum.
pub fn to_parquet(slices: &[SliceRecord]) -> Result<Vec<u8>, ColumnsError> {
    let mut frame = to_frame(slices)?;
    let mut bytes = Vec::new();
    // One thread: these frames are small, and nothing may compete with a measurement for long.
    ParquetWriter::new(&mut bytes).set_parallel(false).finish(&mut frame).map_err(ColumnsError::Parquet)?;
    let footer = footer_start(&bytes)?;
    let checksum = Sha256::digest(&bytes);
    bytes.splice(footer..footer, checksum);
    Ok(bytes)
}

/// The slices in the bytes of a Parquet file that [`to_parquet`] made.
pub fn from_parquet(bytes: &[u8]) -> Result<Vec<SliceRecord>, ColumnsError> {
    let reader = ParquetReader::new(Cursor::new(verified(bytes)?)).read_parallel(ParallelStrategy::None);
    from_frame(&reader.finish().map_err(ColumnsError::Parquet)?)
}

/// The same without what is [nested](NESTED): enough for rates and costs, and much less to read.
pub fn flat_from_parquet(bytes: &[u8]) -> Result<Vec<SliceRecord>, ColumnsError> {
    let mut reader = ParquetReader::new(Cursor::new(verified(bytes)?)).read_parallel(ParallelStrategy::None);
    let names = reader.schema().map_err(ColumnsError::Parquet)?;
    let is_flat = |name: &&str| NESTED.iter().all(|nested| nested.0 != *name);
    let flat: Vec<String> = names.iter_names().map(PlSmallStr::as_str).filter(is_flat).map(str::to_owned).collect();
    from_frame(&reader.with_columns(Some(flat)).finish().map_err(ColumnsError::Parquet)?)
}

/// The content without its checksum, if the two agree.
///
/// The checksum lies just before the footer, where Parquet readers skip what no column refers to. A
/// flipped bit would otherwise be a wrong number, or make the reader allocate without bounds.
fn verified(bytes: &[u8]) -> Result<Vec<u8>, ColumnsError> {
    let (data, footer) = bytes.split_at(footer_start(bytes)?);
    let (data, checksum) = data.split_last_chunk::<32>().ok_or(ColumnsError::Checksum)?;
    let content = [data, footer].concat();
    if Sha256::digest(&content).as_slice() == checksum { Ok(content) } else { Err(ColumnsError::Checksum) }
}

/// Where the footer begins, for bytes that have Parquet's magic at both ends around a footer that
/// fits. A truncated or foreign file lacks this.
fn footer_start(bytes: &[u8]) -> Result<usize, ColumnsError> {
    const MAGIC: &[u8] = b"PAR1";
    if !bytes.starts_with(MAGIC) {
        return Err(ColumnsError::Incomplete("it does not begin like one"));
    }
    let Some((rest, [a, b, c, d, tail @ ..])) = bytes.split_last_chunk::<8>() else {
        return Err(ColumnsError::Incomplete("it is too short"));
    };
    if tail != MAGIC {
        return Err(ColumnsError::Incomplete("its end is missing"));
    }
    let footer = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
    let start = rest.len().checked_sub(footer).filter(|start| *start >= MAGIC.len());
    start.ok_or(ColumnsError::Incomplete("its footer does not fit"))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;
    use crate::domain::{PlanCondition, PlanNode, StatementPlan};

    prop_compose! {
        fn plan()(
            statement in 0..9usize,
            names in vec("[A-Za-z $'\"(]{1,12}", 4),
            index in option::of(".{0,9}"),
            cost in option::of(0..1_000_000u32),
            depth in 0..3usize,
        ) -> StatementPlan {
            let node = |below| PlanNode {
                node: names[0].clone(),
                kinds: vec![names[1].clone()],
                index: index.clone(),
                conditions: vec![PlanCondition { name: names[2].clone(), text: names[3].clone() }],
                total_cost: cost.map(|cost| f64::from(cost) / 100.0),
                below,
                ..PlanNode::default()
            };
            StatementPlan { statement, plan: (0..depth).fold(node(Vec::new()), |below, _| node(vec![below])) }
        }
    }

    prop_compose! {
        // Every field is written out: a field that is added to `Measurement` and forgotten in the
        // columns breaks this test.
        fn measurement()(
            reals in vec(any::<f64>().prop_filter("NaN is not equal to itself", |x| !x.is_nan()), 7),
            counts in vec(any::<u64>(), 8),
            optional in vec(option::of(any::<u64>()), 11),
            noise in vec("[a-z %0-9]{1,20}", 0..3),
            published_rate in option::of(0.0..1e9),
            queries_by_second in vec(any::<u32>(), 0..20),
            latency_histogram in vec(any::<u8>(), 0..50),
            plans in vec(plan(), 0..3),
        ) -> Measurement {
            Measurement {
                seconds: reals[0],
                warmup_seconds: reals[1],
                events: counts[0],
                queries: counts[1],
                reads: counts[2],
                writes: counts[3],
                others: counts[4],
                rows: counts[5],
                retries: counts[6],
                buffers_queries: counts[7],
                queries_by_second,
                latency_histogram,
                latency_us_mean: reals[2],
                latency_us_p50: reals[3],
                latency_us_p95: reals[4],
                latency_us_p99: reals[5],
                latency_us_max: reals[6],
                backend_cpu_ns: optional[0],
                backend_wait_ns: optional[1],
                backend_voluntary_switches: optional[2],
                backend_involuntary_switches: optional[3],
                client_cpu_ns: optional[4],
                wal_bytes: optional[5],
                buffers_hit: optional[6],
                buffers_read: optional[7],
                checkpoints: optional[8],
                autovacuums: optional[9],
                noise,
                instructions: optional[10],
                plans,
                published_rate,
            }
        }
    }

    prop_compose! {
        fn record()(
            block in any::<u32>(),
            server_start in any::<u32>(),
            names in vec(".{0,12}", 3),
            nanosecond in -1_000_000_000_000_000_000i64..4_000_000_000_000_000_000,
            outcome in prop_oneof![
                measurement().prop_map(|m| Outcome::Measured(Box::new(m))),
                ".{0,40}".prop_map(Outcome::Failed),
            ],
        ) -> SliceRecord {
            SliceRecord {
                block,
                target: TargetId(names[0].clone()),
                launch: names[1].clone(),
                server_start,
                microbenchmark: names[2].clone(),
                started_at: Timestamp::from_nanosecond(nanosecond.into()).unwrap(),
                outcome,
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn slices_survive_the_way_through_parquet(slices in vec(record(), 0..6)) {
            prop_assert_eq!(from_parquet(&to_parquet(&slices).unwrap()).unwrap(), slices);
        }

        #[test]
        fn one_changed_bit_is_noticed(slice in record(), position in any::<prop::sample::Index>(), bit in 0..8) {
            let mut bytes = to_parquet(&[slice]).unwrap();
            *position.get_mut(&mut bytes) ^= 1u8 << bit;
            prop_assert!(from_parquet(&bytes).is_err());
        }

        #[test]
        fn a_truncated_file_is_an_error(slice in record(), kept in any::<prop::sample::Index>()) {
            let bytes = to_parquet(&[slice]).unwrap();
            prop_assert!(from_parquet(&bytes[..kept.index(bytes.len())]).is_err());
        }
    }

    #[test]
    fn a_newer_format_is_named() {
        let mut frame = to_frame(&[]).unwrap();
        assert_eq!(from_frame(&frame).unwrap(), []);
        let row = Column::new("format".into(), [FORMAT + 1]);
        frame = DataFrame::new(1, vec![row]).unwrap();
        let message = from_frame(&frame).unwrap_err().to_string();
        assert_eq!(message, "its format is 2, and this regtrack reads formats up to 1");
    }

    #[test]
    fn a_file_without_a_younger_optional_column_still_reads() {
        let slice = SliceRecord {
            block: 1,
            target: TargetId("17.0-0".into()),
            launch: "b1".into(),
            server_start: 1,
            microbenchmark: "scan_range=100".into(),
            started_at: Timestamp::UNIX_EPOCH,
            outcome: Outcome::Measured(Box::new(Measurement { wal_bytes: Some(7), ..Measurement::default() })),
        };
        let frame = to_frame(std::slice::from_ref(&slice)).unwrap();
        let older = frame.drop("wal_bytes").unwrap().drop("plans").unwrap();
        let read = from_frame(&older).unwrap();
        assert_eq!(read[0].outcome.measurement().unwrap().wal_bytes, None);
        let error = from_frame(&frame.drop("queries").unwrap()).unwrap_err().to_string();
        assert!(error.contains("'queries' is missing"), "{error}");
    }
}
