//! A machine that exists only in memory: releases of known speed, launches with noise of a known size,
//! and faults where a test wants them. It keeps a diary of everything that it was asked to do.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use jiff::Timestamp;
use sha2::{Digest, Sha256};

use regtrack::build::{BuildError, Builder, Choice, Request};
use regtrack::domain::{
    Build, BuildFingerprint, Measurement, Microbenchmark, Protocol, Provenance, RateUnit, Version, WireProtocol,
};
use regtrack::load::{Random, Until};
use regtrack::measure::{Bench, Launch, LaunchFacts, LaunchSpec, MeasureError, Stretch, postwrite_name};
use regtrack::server::ServerError;

/// A change of speed that comes with a release and stays in all later ones.
pub(super) struct Change {
    /// First release that has it.
    pub(super) since: Version,
    /// Start of the names of the microbenchmarks that it changes.
    pub(super) rows: &'static str,
    /// New rate / old rate.
    pub(super) factor: f64,
}

/// One thing that the world was asked to do in a launch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Act {
    Begin,
    Continue,
    /// A stretch of so many events.
    Stretch(u64),
    /// The end of a slice.
    Measure(String),
    Postwrite(u32),
    Recover,
    Close {
        keep: bool,
    },
}

/// When an interruption reaches the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Moment {
    /// Before the step has any effect.
    Before,
    /// When its effect is on the disk, but its result is not with the caller yet.
    After,
}

/// The world. Faults are sets that a test fills and, for a repair, empties again.
pub(super) struct World {
    pub(super) seed: u64,
    pub(super) changes: Vec<Change>,
    /// Standard deviations of the logarithm of a rate: what all slices of a launch share, and the rest.
    pub(super) launch_sd: f64,
    pub(super) slice_sd: f64,
    /// Starts of the names of microbenchmarks whose slices scatter ten times as much.
    pub(super) unsteady: Vec<&'static str>,

    /// Speed of a server that is measured a second time under another name: 1 in a world that is right.
    pub(super) again_factor: f64,

    /// What builds are made with; another compiler makes other builds.
    pub(super) compiler: &'static str,
    /// Releases that cannot be built.
    pub(super) unbuildable: BTreeSet<Version>,
    /// A port that the servers are to have, and that someone else has.
    pub(super) taken_port: Option<u16>,
    /// Launches, by name, that cannot be opened.
    pub(super) unopenable: BTreeSet<String>,
    /// Microbenchmarks that fail on a release.
    pub(super) failing: BTreeSet<(Version, String)>,
    /// Slices, by launch, in which the server dies; once each.
    pub(super) deadly: BTreeSet<(String, String)>,
    /// Whether a server that died comes back.
    pub(super) recovers: bool,
    /// The step that is interrupted, counted from 1 over openings, measurements and postwrites.
    pub(super) interrupt: Option<(usize, Moment)>,

    /// What was done, by launch.
    pub(super) diary: Vec<(String, Act)>,
    /// Steps so far.
    pub(super) steps: usize,
    /// Events of each write that a given-up launch's table has seen.
    pub(super) ages: Vec<(String, BTreeMap<String, u64>)>,
    /// Launches that are up, and the most that were.
    up: usize,
    pub(super) most_up: usize,
    clusters: BTreeMap<PathBuf, Cluster>,
}

/// A loaded data directory.
#[derive(Default)]
struct Cluster {
    server_starts: u32,
    done: BTreeSet<String>,
    /// Steps that were tried and failed.
    lost: BTreeSet<String>,
    /// Events of each write.
    events: BTreeMap<String, u64>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            seed,
            changes: Vec::new(),
            launch_sd: 0.01,
            slice_sd: 0.005,
            unsteady: Vec::new(),
            again_factor: 1.0,
            compiler: "gcc 12.2.0",
            unbuildable: BTreeSet::new(),
            taken_port: None,
            unopenable: BTreeSet::new(),
            failing: BTreeSet::new(),
            deadly: BTreeSet::new(),
            recovers: true,
            interrupt: None,
            diary: Vec::new(),
            steps: 0,
            ages: Vec::new(),
            up: 0,
            most_up: 0,
            clusters: BTreeMap::new(),
        }
    }

    /// All data directories are gone, as when the clusters lay on another disk.
    pub(super) fn lose_clusters(&mut self) {
        self.clusters.clear();
    }

    /// Data directories that are still there.
    pub(super) fn cluster_count(&self) -> usize {
        self.clusters.len()
    }

    /// What was done in a launch, and in which order; slices as a whole.
    pub(super) fn acts(&self, launch: &str) -> Vec<Act> {
        let acts = self.diary.iter().filter(|(name, act)| name == launch && !matches!(act, Act::Stretch(_)));
        acts.map(|(_, act)| act.clone()).collect()
    }

    /// Names of the launches in the order in which they were worked on.
    pub(super) fn launches(&self) -> Vec<String> {
        let mut names: Vec<String> = self.diary.iter().map(|(name, _)| name.clone()).collect();
        names.dedup();
        names
    }

    /// Rate without noise in queries per second (for scans, executions per second).
    pub(super) fn true_rate(&self, microbenchmark: &Microbenchmark, version: Version, protocol: &Protocol) -> f64 {
        let changed = self
            .changes
            .iter()
            .filter(|change| version >= change.since && microbenchmark.name.starts_with(change.rows));
        let rate = match microbenchmark.unit {
            RateUnit::Qps => 300.0 * f64::from(1 + microbenchmark.step % 7) * microbenchmark.statements.len() as f64,
            RateUnit::MegarowsPerSecond => 2e6 / protocol.rows as f64,
        };
        changed.fold(rate, |rate, change| rate * change.factor)
    }

    /// What a slice comes to: the same for the same world, launch and microbenchmark.
    pub(super) fn measurement(
        &self,
        microbenchmark: &Microbenchmark,
        version: Version,
        launch: &str,
        protocol: &Protocol,
    ) -> Measurement {
        let effect = self.launch_sd * self.normal(&[launch]);
        let is_unsteady = self.unsteady.iter().any(|start| microbenchmark.name.starts_with(start));
        let slice_sd = if is_unsteady { 10.0 * self.slice_sd } else { self.slice_sd };
        let noise = slice_sd * self.normal(&[launch, &microbenchmark.name]);
        let again = if launch.ends_with("-again") { self.again_factor } else { 1.0 };
        let rate = again * self.true_rate(microbenchmark, version, protocol) * (effect + noise).exp();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a rate is positive and small")]
        let queries = (rate * protocol.read_seconds).ceil() as u64;
        Measurement {
            seconds: queries as f64 / rate,
            warmup_seconds: protocol.slice_warmup_seconds,
            events: queries / u64::from(microbenchmark.queries_per_event()),
            queries,
            reads: if microbenchmark.protocol == WireProtocol::Simple { 0 } else { queries },
            latency_us_mean: 1e6 / rate,
            latency_us_p95: 2e6 / rate,
            backend_cpu_ns: Some(queries * 50_000),
            ..Measurement::default()
        }
    }

    /// A normal deviate that belongs to these words.
    fn normal(&self, words: &[&str]) -> f64 {
        let hash = Sha256::digest(format!("{}/{}", self.seed, words.join("/")));
        let mut head = [0; 8];
        head.copy_from_slice(&hash[..8]);
        let mut random = Random::new(u64::from_le_bytes(head));
        // Box and Muller; 1 − u is above zero.
        let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
        radius * (std::f64::consts::TAU * random.unit()).cos()
    }

    /// Counts a step and says whether it is the one that is interrupted.
    fn step(&mut self) -> Option<Moment> {
        self.steps += 1;
        self.interrupt.filter(|(at, _)| *at == self.steps).map(|(_, moment)| moment)
    }

    fn write(&mut self, launch: &str, act: Act) {
        self.diary.push((launch.to_owned(), act));
    }
}

/// Name of the launch that a specification is about: that of its directory.
fn name(spec: &LaunchSpec) -> String {
    spec.directory.file_name().unwrap().to_string_lossy().into_owned()
}

impl Builder for World {
    fn plan(&self, requests: &[Request]) -> Result<Vec<Vec<Choice>>, BuildError> {
        Ok(requests.iter().map(|request| vec![Choice::Archive(request.clone())]).collect())
    }

    fn provide(&self, choices: &[Choice], _say: &mut dyn FnMut(&str)) -> Result<Build, BuildError> {
        let release = choices[0].release();
        let version = release.version;
        if self.unbuildable.contains(&version) {
            let (place, wanted) = (release.archive.clone(), version.to_string());
            return Err(BuildError::WrongVersion { place, found: version, wanted });
        }
        let key = format!("{:x}", Sha256::digest(format!("{version} {}", self.compiler)));
        Ok(Build {
            version,
            prefix: PathBuf::from("/nowhere").join(&key),
            provenance: Provenance::Source { source: release.archive.clone(), sha256: None },
            fingerprint: BuildFingerprint {
                version_text: format!("postgres (PostgreSQL) {version}"),
                compiler: Some(self.compiler.to_owned()),
                cflags: Some("-O2".to_owned()),
                configure: None,
                postgres_sha256: key.clone(),
            },
            variant: choices[0].variant().map(|variant| variant.name.clone()),
            key,
        })
    }
}

/// The world as the place where launches happen: several may be up together.
pub(super) struct Workbench<'w>(RefCell<&'w mut World>);

impl<'w> Workbench<'w> {
    pub(super) fn new(world: &'w mut World) -> Self {
        Self(RefCell::new(world))
    }
}

impl Bench for Workbench<'_> {
    fn open(&self, spec: &LaunchSpec) -> Result<Box<dyn Launch + '_>, MeasureError> {
        let facts = self.0.borrow_mut().open(spec)?;
        Ok(Box::new(SimLaunch {
            world: &self.0,
            spec: spec.clone(),
            name: name(spec),
            facts,
            alive: true,
            slice: None,
        }))
    }
}

impl World {
    fn open(&mut self, spec: &LaunchSpec) -> Result<LaunchFacts, MeasureError> {
        let name = name(spec);
        let interrupted = self.step();
        if interrupted == Some(Moment::Before) {
            return Err(MeasureError::Interrupted);
        }
        if let Some(port) = self.taken_port {
            return Err(ServerError::PortInUse { port, source: std::io::ErrorKind::AddrInUse.into() }.into());
        }
        if self.unopenable.contains(&name) {
            return Err(MeasureError::NoServer { version: spec.build.version });
        }
        let known = self.clusters.contains_key(&spec.directory);
        self.write(&name, if known { Act::Continue } else { Act::Begin });
        let cluster = self.clusters.entry(spec.directory.clone()).or_default();
        cluster.server_starts += 1;
        let facts = LaunchFacts {
            server_start: cluster.server_starts,
            settings: [("shared_buffers".to_owned(), "1GB".to_owned())].into(),
            data_digest: format!("{} rows", spec.protocol.rows),
            done: cluster.done.clone(),
        };
        if interrupted.is_some() {
            return Err(MeasureError::Interrupted);
        }
        self.up += 1;
        self.most_up = self.most_up.max(self.up);
        Ok(facts)
    }
}

struct SimLaunch<'a, 'w> {
    world: &'a RefCell<&'w mut World>,
    spec: LaunchSpec,
    name: String,
    facts: LaunchFacts,
    alive: bool,
    slice: Option<Slice>,
}

/// A slice in the making.
struct Slice {
    microbenchmark: Microbenchmark,
    /// Whether an interruption comes when its effect is there.
    interrupted: bool,
    /// Events so far, with those that do not count.
    events: u64,
}

impl SimLaunch<'_, '_> {
    fn with_cluster<T>(&self, act: impl FnOnce(&mut Cluster) -> T) -> T {
        act(self.world.borrow_mut().clusters.get_mut(&self.spec.directory).unwrap())
    }

    fn write(&self, act: Act) {
        self.world.borrow_mut().write(&self.name, act);
    }

    fn done(&mut self, step: String) {
        self.with_cluster(|cluster| cluster.done.insert(step.clone()));
        self.facts.done.insert(step);
    }

    /// Steps before this one that change the table, in the sweep's protocol.
    fn expected_before(&self, step: u32) -> BTreeSet<String> {
        let suite = &self.spec.suite;
        let in_protocol = |name: &String| self.spec.protocol.microbenchmarks.contains(name);
        let before = suite.microbenchmarks.iter().filter(|one| one.step < step && in_protocol(&one.name));
        let writes: Vec<&Microbenchmark> = before.filter(|one| one.writes()).collect();
        let mut expected: BTreeSet<String> = writes.iter().map(|one| one.name.clone()).collect();
        let first_write = writes.iter().map(|one| one.step).min().unwrap_or(u32::MAX);
        let postwrites = suite.postwrite_after.iter().filter(|after| (first_write..step).contains(after));
        expected.extend(postwrites.map(|after| postwrite_name(*after)));
        expected
    }

    /// The table must be in the state that the suite says, whatever happened before.
    fn check_table(&self, microbenchmark: &Microbenchmark) {
        let expected = self.expected_before(microbenchmark.step);
        self.with_cluster(|cluster| {
            let missing: Vec<&String> =
                expected.iter().filter(|step| !cluster.done.contains(*step) && !cluster.lost.contains(*step)).collect();
            assert!(missing.is_empty(), "{}: {} was measured without {missing:?}", self.name, microbenchmark.name);
        });
    }

    /// Runs events of the slice at the release's true rate.
    fn run(&mut self, until: Until) -> Result<Stretch, MeasureError> {
        let version = self.spec.build.version;
        let slice = self.slice.as_mut().ok_or(MeasureError::NoSlice)?;
        let queries = self.world.borrow().true_rate(&slice.microbenchmark, version, &self.spec.protocol);
        let rate = queries / f64::from(slice.microbenchmark.queries_per_event());
        let events = match until {
            Until::Events(events) => events,
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number of events")]
            Until::Elapsed(elapsed) => (elapsed.as_secs_f64() * rate).ceil() as u64,
        };
        slice.events += events;
        Ok(Stretch { events, elapsed: Duration::from_secs_f64(events as f64 / rate) })
    }
}

impl Launch for SimLaunch<'_, '_> {
    fn facts(&self) -> &LaunchFacts {
        &self.facts
    }

    fn begin(&mut self, microbenchmark: &Microbenchmark) -> Result<(), MeasureError> {
        let interrupted = self.world.borrow_mut().step();
        if interrupted == Some(Moment::Before) {
            return Err(MeasureError::Interrupted);
        }
        assert!(self.alive, "{}: {} was measured on a dead server", self.name, microbenchmark.name);
        self.check_table(microbenchmark);
        let microbenchmark = microbenchmark.clone();
        self.slice = Some(Slice { microbenchmark, interrupted: interrupted.is_some(), events: 0 });
        Ok(())
    }

    fn warm_up(&mut self, until: Until) -> Result<Stretch, MeasureError> {
        self.run(until)
    }

    fn stretch(&mut self, until: Until) -> Result<Stretch, MeasureError> {
        let stretch = self.run(until)?;
        self.write(Act::Stretch(stretch.events));
        Ok(stretch)
    }

    fn finish(&mut self) -> Result<(Timestamp, Measurement), MeasureError> {
        let version = self.spec.build.version;
        let Slice { microbenchmark, interrupted, events } = self.slice.take().ok_or(MeasureError::NoSlice)?;
        let step = microbenchmark.name.clone();
        self.write(Act::Measure(step.clone()));
        if self.world.borrow_mut().deadly.remove(&(self.name.clone(), step.clone())) {
            self.alive = false;
            self.with_cluster(|cluster| cluster.lost.insert(step));
            let (status, log) = ("signal: 11 (SIGSEGV)".to_owned(), self.spec.directory.join("server.log"));
            return Err(ServerError::Died { version, status, tail: Vec::new(), log }.into());
        }
        if self.world.borrow().failing.contains(&(version, step.clone())) {
            self.with_cluster(|cluster| cluster.lost.insert(step));
            return Err(MeasureError::NoServer { version });
        }
        let measurement = self.world.borrow().measurement(&microbenchmark, version, &self.name, &self.spec.protocol);
        if microbenchmark.writes() {
            self.with_cluster(|cluster| cluster.events.insert(step.clone(), events));
        }
        self.done(step);
        if interrupted { Err(MeasureError::Interrupted) } else { Ok((Timestamp::now(), measurement)) }
    }

    fn postwrite(&mut self, step: u32) -> Result<(), MeasureError> {
        let interrupted = self.world.borrow_mut().step();
        if interrupted == Some(Moment::Before) {
            return Err(MeasureError::Interrupted);
        }
        assert!(self.alive, "{}: a postwrite on a dead server", self.name);
        self.write(Act::Postwrite(step));
        self.done(postwrite_name(step));
        if interrupted.is_some() { Err(MeasureError::Interrupted) } else { Ok(()) }
    }

    fn recover(&mut self) -> Result<(), MeasureError> {
        self.write(Act::Recover);
        if !self.world.borrow().recovers {
            return Err(MeasureError::NoServer { version: self.spec.build.version });
        }
        self.alive = true;
        self.facts.server_start = self.with_cluster(|cluster| {
            cluster.server_starts += 1;
            cluster.server_starts
        });
        Ok(())
    }

    fn close(self: Box<Self>, keep: bool) -> Result<(), MeasureError> {
        self.write(Act::Close { keep });
        let mut world = self.world.borrow_mut();
        world.up -= 1;
        if !keep {
            let ages = world.clusters.remove(&self.spec.directory).map(|cluster| cluster.events).unwrap_or_default();
            world.ages.push((self.name.clone(), ages));
        }
        Ok(())
    }
}
