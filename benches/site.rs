//! How long a site takes, from results on the disk to pages on the disk, and how that grows: prints the tables of
//! docs/site.md.
//!
//!     cargo bench --bench site [-- WEEKS... [/DIRECTORY]]
//!
//! For each number of WEEKS (16, 64, 260) a results directory is made up: one sweep a week of 20 releases × 42
//! microbenchmarks × 6 launches. Then the program itself writes the site with nothing prepared, writes it again after one
//! more week, and once more after nothing. Seconds are of the wall, memory is the most that was resident. In a DIRECTORY
//! that is named, results and site stay for a look.
//!
//! What is made up comes from a seed and is the same every time: the rate of a launch is that of its release and
//! microbenchmark times e^N(0, 0.7 %) for the launch and e^N(0, 0.3 %) for the slice. Each release is up to 4 % faster or
//! slower than the one before it in a third of the microbenchmarks. One microbenchmark in ten of each release changes
//! by 3 % in a week of its own, as after a change of its build, and in every eighth week the whole machine is 2 % slower.
//! One slice in a thousand has failed. All slices have rates by second and a latency histogram.

use std::io::{self, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use jiff::civil::date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use regtrack::catalog::suite;
use regtrack::domain::{
    Build, BuildFingerprint, HostFingerprint, Measurement, Origin, Outcome, Protocol, Provenance, SliceRecord, Suite,
    SweepManifest, Target, TargetId, Version,
};
use regtrack::load::Random;
use regtrack::store::Store;

const TARGETS: usize = 20;
const LAUNCHES: u32 = 6;
const SEED: u64 = 20_261_201;
const SECONDS: u32 = 10;

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<(), Failure> {
    let given: Vec<u32> = std::env::args().skip(1).filter_map(|argument| argument.parse().ok()).collect();
    let weeks = if given.is_empty() { vec![16, 64, 260] } else { given };
    let mut out = io::stdout().lock();
    writeln!(out, "| Weeks | Slices | Results | Whole site | Memory | One more week | Nothing new | Pages | Site |")?;
    writeln!(out, "|---:|---:|---:|---:|---:|---:|---:|---:|---:|")?;
    let kept = std::env::args().skip(1).find(|argument| argument.starts_with('/'));
    for weeks in weeks {
        let place = tempfile::tempdir()?;
        let directory =
            kept.as_ref().map_or_else(|| place.path().to_owned(), |kept| Path::new(kept).join(weeks.to_string()));
        writeln!(out, "{}", measure(weeks, &directory)?)?;
        out.flush()?;
    }
    Ok(())
}

/// One line of the table.
fn measure(weeks: u32, place: &Path) -> Result<String, Failure> {
    let world = World::new()?;
    let store = Store::create_or_open(place.join("results"))?;
    for week in 0..weeks {
        world.write(&store, week)?;
    }
    let whole = render(place)?;
    world.write(&store, weeks)?;
    let more = render(place)?;
    let nothing = render(place)?;
    let slices = (weeks as usize) * TARGETS * world.suite.microbenchmarks.len() * LAUNCHES as usize;
    let (_, results) = size(&place.join("results"))?;
    let (pages, site) = size(&place.join("site"))?;
    Ok(format!(
        "| {weeks} | {slices} | {} MiB | {:.2} s | {} MiB | {:.2} s | {:.2} s | {pages} | {} MiB |",
        results >> 20,
        whole.seconds,
        whole.memory_kib >> 10,
        more.seconds,
        nothing.seconds,
        site >> 20
    ))
}

struct Run {
    seconds: f64,
    memory_kib: u64,
}

/// Lets the program write the site.
fn render(place: &Path) -> Result<Run, Failure> {
    let start = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_regtrack"))
        .args(["report", "--site", "site", "--results", "results"])
        .current_dir(place)
        .stdout(Stdio::null())
        .spawn()?;
    // The kernel forgets the peak of a process when it is waited for, so it is read until then.
    let mut memory_kib = 0;
    let status = loop {
        memory_kib = memory_kib.max(peak_kib(child.id()).unwrap_or(0));
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    };
    if !status.success() {
        return Err(format!("regtrack ended with {status}").into());
    }
    Ok(Run { seconds: start.elapsed().as_secs_f64(), memory_kib })
}

fn peak_kib(process: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Number of HTML pages and bytes of all files below `directory`.
fn size(directory: &Path) -> io::Result<(usize, u64)> {
    let mut size = (0, 0);
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        let (path, metadata) = (entry.path(), entry.metadata()?);
        let (pages, bytes) = if metadata.is_dir() {
            self::size(&path)?
        } else {
            (usize::from(path.extension().is_some_and(|extension| extension == "html")), metadata.len())
        };
        size = (size.0 + pages, size.1 + bytes);
    }
    Ok(size)
}

/// What does not change from week to week.
struct World {
    suite: Suite,
    targets: Vec<Target>,
    /// Queries per second by microbenchmark and target.
    rates: Vec<Vec<f64>>,
    /// The week from which on a rate is another, and by which factor.
    steps: Vec<Vec<Option<(u32, f64)>>>,
    /// Latencies by microbenchmark.
    histograms: Vec<Vec<u8>>,
}

impl World {
    fn new() -> Result<Self, Failure> {
        let suite = suite::builtin()?;
        let mut normal = Normal(Random::new(SEED));
        let targets: Vec<Target> = (0..TARGETS).map(target).collect::<Result<_, _>>()?;
        let (mut rates, mut steps, mut histograms) = (Vec::new(), Vec::new(), Vec::new());
        for _ in &suite.microbenchmarks {
            let mut rate = 2000.0 + 40_000.0 * normal.0.unit();
            histograms.push(histogram(1e9 / rate, &mut normal)?);
            let mut row = Vec::new();
            for _ in &targets {
                let changes = normal.0.unit() < 0.33;
                rate *= if changes { 1.0 + 0.08 * (normal.0.unit() - 0.5) } else { 1.0 };
                row.push(rate);
            }
            rates.push(row);
            steps.push(targets.iter().map(|_| step(&mut normal)).collect());
        }
        Ok(Self { suite, targets, rates, steps, histograms })
    }

    /// Adds the sweep of a week.
    fn write(&self, store: &Store, week: u32) -> Result<(), Failure> {
        let start = saturday(week)?;
        let (year, number) = {
            let date = TimeZone::UTC.to_datetime(start).date().iso_week_date();
            (date.year(), date.week())
        };
        let id = format!("{year}-W{number:02}");
        let manifest = self.manifest(&id, start)?;
        store.write_pack(&id, &self.slices(week, start)?)?;
        store.write_suite(&id, &suite::text(None)?)?;
        store.write_manifest(&manifest)?;
        Ok(store.set_current(&id)?)
    }

    fn manifest(&self, id: &str, start: Timestamp) -> Result<SweepManifest, Failure> {
        Ok(SweepManifest {
            format: regtrack::store::FORMAT,
            id: id.to_owned(),
            regtrack: env!("CARGO_PKG_VERSION").to_owned(),
            created_at: start,
            updated_at: start.checked_add(20.hours())?,
            command: "regtrack weekly".to_owned(),
            arguments: vec!["weekly".to_owned()],
            origin: Origin::Measured { profile: "standard".to_owned(), protocol: Box::new(self.protocol()) },
            launches: LAUNCHES,
            stopping: None,
            targets: self.targets.clone(),
            former_targets: Vec::new(),
            base: self.targets[0].id.clone(),
            blind: None,
            host: Some(HostFingerprint { cpus: 2, memory_mib: 24_576, ..HostFingerprint::default() }),
            placement: None,
            doctor: Vec::new(),
        })
    }

    fn protocol(&self) -> Protocol {
        Protocol {
            suite: self.suite.name.clone(),
            suite_hash: suite::hash(&self.suite),
            rows: 1_000_000,
            read_seconds: SECONDS.into(),
            write_seconds: SECONDS.into(),
            slice_warmup_seconds: 1.0,
            load_warmup_seconds: 5.0,
            scan_once: false,
            postwrite_rest_seconds: 2.0,
            stretch_seconds: 0.25,
            placement: None,
            config: "default".to_owned(),
            config_hash: "0".repeat(64),
            data_checksums: false,
            transport: "tcp".to_owned(),
            microbenchmarks: self.suite.microbenchmarks.iter().map(|one| one.name.clone()).collect(),
        }
    }

    fn slices(&self, week: u32, start: Timestamp) -> Result<Vec<SliceRecord>, Failure> {
        let mut normal = Normal(Random::new(SEED + 1 + u64::from(week)));
        let mut slices = Vec::new();
        let machine = if week % 8 == 7 { 0.98 } else { 1.0 };
        let mut second = 0;
        for block in 1..=LAUNCHES {
            let launches: Vec<f64> = self.targets.iter().map(|_| (0.007 * normal.draw()).exp()).collect();
            for (row, microbenchmark) in self.suite.microbenchmarks.iter().enumerate() {
                for (at, target) in self.targets.iter().enumerate() {
                    second += 13;
                    let step =
                        self.steps[row][at].filter(|(since, _)| week >= *since).map_or(1.0, |(_, factor)| factor);
                    let rate = self.rates[row][at] * step * machine * launches[at] * (0.003 * normal.draw()).exp();
                    let outcome = if normal.0.unit() < 0.001 {
                        Outcome::Failed("the server ended by itself".to_owned())
                    } else {
                        Outcome::Measured(Box::new(self.measurement(row, rate, microbenchmark.writes(), &mut normal)))
                    };
                    slices.push(SliceRecord {
                        block,
                        target: target.id.clone(),
                        launch: format!("b{block}-{}", target.id),
                        server_start: 1,
                        microbenchmark: microbenchmark.name.clone(),
                        started_at: start.checked_add(second.seconds())?,
                        outcome,
                    });
                }
            }
        }
        Ok(slices)
    }

    fn measurement(&self, row: usize, rate: f64, writes: bool, normal: &mut Normal) -> Measurement {
        let by_second = (0..SECONDS).map(|_| whole(rate * (0.01 * normal.draw()).exp()));
        let queries_by_second: Vec<u32> = by_second.map(|queries| u32::try_from(queries).unwrap_or(u32::MAX)).collect();
        let queries = whole(rate * f64::from(SECONDS));
        let micros = 1e6 / rate;
        Measurement {
            seconds: f64::from(SECONDS),
            warmup_seconds: 1.0,
            events: queries,
            queries,
            reads: if writes { 0 } else { queries },
            writes: if writes { queries } else { 0 },
            rows: queries,
            queries_by_second,
            latency_histogram: self.histograms[row].clone(),
            latency_us_mean: micros,
            latency_us_p50: micros * 0.95,
            latency_us_p95: micros * 1.3,
            latency_us_p99: micros * 2.0,
            latency_us_max: micros * 40.0,
            backend_cpu_ns: Some(whole(queries as f64 * 1e9 / rate * 0.6)),
            backend_wait_ns: Some(1_000_000),
            backend_voluntary_switches: Some(queries),
            backend_involuntary_switches: Some(100),
            client_cpu_ns: Some(whole(queries as f64 * 1e9 / rate * 0.3)),
            wal_bytes: Some(if writes { queries * 200 } else { 0 }),
            buffers_queries: queries,
            buffers_hit: Some(queries * 4),
            buffers_read: Some(0),
            checkpoints: Some(0),
            autovacuums: Some(0),
            ..Measurement::default()
        }
    }
}

fn target(index: usize) -> Result<Target, Failure> {
    // The majors from 9.0 on by their last minor, and three minors more of the newest.
    const VERSIONS: [&str; TARGETS] = [
        "9.0.23", "9.1.24", "9.2.24", "9.3.25", "9.4.26", "9.5.25", "9.6.24", "10.23", "11.22", "12.22", "13.23",
        "14.20", "15.15", "16.11", "17.7", "17.8", "18.1", "18.2", "18.3", "18.4",
    ];
    let version: Version = VERSIONS[index].parse()?;
    let build = Build {
        version,
        key: format!("{index:064x}"),
        provenance: Provenance::Installed { prefix: "/opt/postgresql".into() },
        variant: None,
        fingerprint: BuildFingerprint {
            version_text: format!("postgres (PostgreSQL) {version}"),
            compiler: Some("gcc 12.2.0".to_owned()),
            cflags: Some("-O2".to_owned()),
            configure: None,
            postgres_sha256: format!("{index:064x}"),
        },
        prefix: "/opt/postgresql".into(),
    };
    Ok(Target {
        id: TargetId(format!("{version}-{index:08x}")),
        label: version.to_string(),
        version,
        build: Some(build),
        brake: None,
        imported: None,
        settings: [("shared_buffers".to_owned(), "6GB".to_owned())].into(),
        data_digest: Some("0".repeat(32)),
    })
}

/// In one case of ten, a week within five years and a factor.
fn step(normal: &mut Normal) -> Option<(u32, f64)> {
    let factor = if normal.0.unit() < 0.5 { 0.97 } else { 1.03 };
    let week = u32::try_from(normal.0.uniform(260)).unwrap_or(0);
    (normal.0.unit() < 0.1).then_some((week, factor))
}

/// Latencies around `nanoseconds` with a long tail.
fn histogram(nanoseconds: f64, normal: &mut Normal) -> Result<Vec<u8>, Failure> {
    let mut histogram = Histogram::<u64>::new(3)?;
    for _ in 0..20_000 {
        histogram.record(whole(nanoseconds * (0.2 * normal.draw()).exp()).max(1))?;
    }
    let mut bytes = Vec::new();
    V2Serializer::new().serialize(&histogram, &mut bytes)?;
    Ok(bytes)
}

/// Saturday, three o'clock in the morning, of a week from the first of 2022 on.
fn saturday(week: u32) -> Result<Timestamp, Failure> {
    let first = date(2022, 1, 8).at(3, 0, 0, 0).to_zoned(TimeZone::UTC)?;
    Ok(first.checked_add(i64::from(week).weeks())?.timestamp())
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive, and far below 2^53")]
fn whole(number: f64) -> u64 {
    number.round() as u64
}

/// Standard normal numbers by Box and Muller's method.
struct Normal(Random);

impl Normal {
    fn draw(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.0.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * self.0.unit()).cos()
    }
}
