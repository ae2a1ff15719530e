//! From what a person asked for to what will be run: looks everything up in the catalogue and
//! refuses what cannot be.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::SweepError;
use super::profile::Profile;
use crate::analysis;
use crate::catalog::variants::Variants;
use crate::catalog::versions::{self, Catalogue};
use crate::catalog::{configs, configs::ConfigSet, connections, suite};
use crate::domain::{Placement, Protocol, Release, ReleaseRange, Stopping, Suite, Variant, VariantName, Version};
use crate::server::InitOptions;

/// What a person asked for; `None` takes the profile's value.
#[derive(Debug, Clone)]
pub struct SweepRequest {
    /// The releases.
    pub range: ReleaseRange,
    /// Every minor in the range instead of the latest of each major.
    pub minors: bool,
    /// How each is compiled; empty for the default variant.
    pub variants: Vec<VariantName>,
    /// The profile.
    pub profile: &'static Profile,
    /// Rows to load.
    pub rows: Option<u64>,
    /// Seconds per slice, read and write.
    pub seconds: Option<f64>,
    /// Seconds per write slice, where they differ.
    pub write_seconds: Option<f64>,
    /// Seconds of warm-up before each slice.
    pub warmup_seconds: Option<f64>,
    /// Launches per release.
    pub launches: Option<u32>,
    /// Patterns of microbenchmarks; empty for all.
    pub benches: Vec<String>,
    /// Name or directory of a configuration set.
    pub config: Option<String>,
    /// Data checksums instead of the configuration set's choice.
    pub data_checksums: Option<bool>,
    /// A suite's file instead of the built-in suite.
    pub suite: Option<PathBuf>,
    /// The release that the others are divided by; the oldest when not given.
    pub base: Option<String>,
    /// Measure over a Unix-domain socket.
    pub unix_socket: bool,
    /// Numbers of connections; empty for the suite's own, which is one.
    pub connections: Vec<u32>,
    /// Length in seconds of the turns in which launches are measured together; 0 for one after the other.
    pub stretch_seconds: Option<f64>,
    /// Which CPUs client and servers use.
    pub placement: Option<WantedPlacement>,
    /// When a microbenchmark stops before it has all launches.
    pub precision: Option<WantedPrecision>,
    /// Chance with which a change of the threshold plus the precision is to be found.
    pub power: Option<f64>,
    /// Measure the base twice.
    pub blind: Option<bool>,
}

/// How well a ratio is to be known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum WantedPrecision {
    /// As well as the given number of launches tells.
    Fixed,
    /// To within this share either way: then no more launches are made.
    Within(f64),
}

/// Which CPUs client and servers are to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WantedPlacement {
    /// Those that turn out to be the least noisy.
    Calibrated,
    /// These.
    Fixed(Placement),
}

impl SweepRequest {
    /// A range with a profile's numbers, and nothing else asked for.
    #[must_use]
    pub const fn new(range: ReleaseRange, profile: &'static Profile) -> Self {
        Self {
            range,
            minors: false,
            variants: Vec::new(),
            profile,
            rows: None,
            seconds: None,
            write_seconds: None,
            warmup_seconds: None,
            launches: None,
            benches: Vec::new(),
            config: None,
            data_checksums: None,
            suite: None,
            base: None,
            unix_socket: false,
            stretch_seconds: None,
            placement: None,
            precision: None,
            power: None,
            blind: None,
            connections: Vec::new(),
        }
    }
}

/// A server that is wanted: a release, compiled in one way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WantedServer {
    /// The release.
    pub release: Release,
    /// Whether only the major was named, so that another minor of it would serve as well.
    pub floating: bool,
    /// How it is compiled, if it is.
    pub variant: Variant,
}

impl WantedServer {
    /// Version, and variant unless that is the default: `17.5`, `17.5 o3`.
    #[must_use]
    pub fn label(&self) -> String {
        self.named(&self.release.version.to_string())
    }

    fn named(&self, release: &str) -> String {
        if self.variant.name.is_default() { release.to_owned() } else { format!("{release} {}", self.variant.name) }
    }
}

/// What will be run.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The servers, oldest release first, variants of one release side by side.
    pub wanted: Vec<WantedServer>,
    /// Index of the base in `wanted`.
    pub base: usize,
    /// Whether the base was asked for, and not just the oldest release.
    pub base_is_given: bool,
    /// The suite.
    pub suite: Arc<Suite>,
    /// Its definition as text.
    pub suite_text: String,
    /// The configuration set.
    pub config: ConfigSet,
    /// The numbers.
    pub protocol: Protocol,
    /// Launches per release, at most.
    pub launches: u32,
    /// When a microbenchmark stops before that; absent when all launches are made.
    pub stopping: Option<Stopping>,
    /// Whether the base is measured twice.
    pub blind: bool,
    /// The profile's name.
    pub profile: &'static str,
    /// Name of the sweep, where it is not to follow from the numbers.
    pub name: Option<String>,
    /// Memory for which the configuration is rendered, in MiB.
    pub memory_mib: u64,
}

/// Looks everything up.
pub fn prepare(request: &SweepRequest, catalogue: &Catalogue, memory_mib: u64) -> Result<Prepared, SweepError> {
    let selected = catalogue.resolve(&request.range, request.minors)?;
    if selected.is_empty() {
        return Err(SweepError::EmptyRange { range: request.range.to_string() });
    }
    let variants = variants(&request.variants)?;
    let each = |selected: &versions::Selected| {
        let (release, floating) = (selected.release.clone(), selected.floating);
        let server = |variant: &Variant| WantedServer { release: release.clone(), floating, variant: variant.clone() };
        variants.iter().map(server).collect::<Vec<_>>()
    };
    let wanted: Vec<WantedServer> = selected.iter().flat_map(each).collect();
    let base = match &request.base {
        None => 0,
        Some(base) => find_base(base, &wanted)?,
    };
    let suite_name = request.suite.as_ref().map_or_else(|| "the built-in suite".into(), |path| path.to_string_lossy());
    let suite_text = match (suite::text(request.suite.as_deref())?, request.connections.as_slice()) {
        (text, []) => text,
        (text, numbers) => connections::set(&text, &suite_name, numbers)?,
    };
    let suite = suite::parse(&suite_text, &suite_name)?;
    let profile = request.profile;
    let config = configs::load(request.config.as_deref().unwrap_or(profile.config))?;
    let render = |server: &WantedServer| config.render(server.release.version.major, memory_mib);
    wanted.iter().try_for_each(|server| render(server).map(drop))?;
    let rows = request.rows.unwrap_or(profile.rows);
    check_rows(rows)?;
    let read_seconds = request.seconds.unwrap_or(profile.read_seconds);
    let protocol = Protocol {
        suite: suite.name.clone(),
        suite_hash: suite::hash(&suite),
        rows,
        read_seconds,
        write_seconds: request.write_seconds.or(request.seconds).unwrap_or(profile.write_seconds),
        slice_warmup_seconds: request.warmup_seconds.unwrap_or(profile.slice_warmup_seconds),
        load_warmup_seconds: profile.load_warmup_seconds.min(read_seconds.max(1.0)),
        scan_once: profile.scan_once,
        postwrite_rest_seconds: profile.postwrite.seconds(rows),
        stretch_seconds: request.stretch_seconds.unwrap_or(profile.stretch_seconds),
        placement: match request.placement {
            None => profile.placement,
            Some(WantedPlacement::Calibrated) => None,
            Some(WantedPlacement::Fixed(placement)) => Some(placement),
        },
        config: config.name.clone(),
        config_hash: config.hash(memory_mib)?,
        data_checksums: request.data_checksums.unwrap_or(config.data_checksums),
        transport: if request.unix_socket { "unix" } else { "tcp" }.to_owned(),
        microbenchmarks: suite::select(&suite, &request.benches)?,
    };
    let launches = request.launches.unwrap_or(profile.launches).max(1);
    let precision = match request.precision {
        Some(WantedPrecision::Fixed) => None,
        Some(WantedPrecision::Within(precision)) => Some(precision),
        None => profile.precision,
    };
    let power = request.power.unwrap_or(analysis::POWER);
    let stopping = precision.map(|precision| Stopping { precision, power, max_launches: launches });
    Ok(Prepared {
        wanted,
        base,
        base_is_given: request.base.is_some(),
        suite: Arc::new(suite),
        suite_text,
        config,
        protocol,
        launches,
        stopping,
        blind: request.blind.unwrap_or(profile.blind),
        profile: profile.name,
        name: None,
        memory_mib,
    })
}

impl Prepared {
    /// Leaves out all servers but the base and those at these indices.
    pub fn keep(&mut self, indices: &[usize]) {
        let base = self.base;
        let stays = |index: usize| index == base || indices.contains(&index);
        self.base = (0..base).filter(|index| stays(*index)).count();
        let mut index = 0..;
        self.wanted.retain(|_| index.next().is_some_and(stays));
    }

    /// What initdb decides, the same for every release.
    #[must_use]
    pub fn init_options(&self) -> InitOptions {
        InitOptions {
            locale: self.config.locale.clone(),
            encoding: self.config.encoding.clone(),
            data_checksums: self.protocol.data_checksums,
        }
    }
}

/// What the names of variants stand for, each once.
fn variants(names: &[VariantName]) -> Result<Vec<Variant>, SweepError> {
    let known = Variants::builtin()?;
    let mut variants: Vec<Variant> = Vec::new();
    for name in names {
        if variants.iter().all(|variant| variant.name != *name) {
            variants.push(known.resolve(name)?);
        }
    }
    if variants.is_empty() {
        variants.push(known.resolve(&VariantName::default())?);
    }
    Ok(variants)
}

/// The base by its label, or as the first server of a version or of a major.
fn find_base(text: &str, wanted: &[WantedServer]) -> Result<usize, SweepError> {
    let by_label = |server: &WantedServer| {
        server.label() == text || server.named(&server.release.version.major.to_string()) == text
    };
    let exact = |server: &WantedServer| text.parse::<Version>().is_ok_and(|version| version == server.release.version);
    let of_major = |server: &WantedServer| server.release.version.major.to_string() == text;
    let found = wanted.iter().position(by_label).or_else(|| wanted.iter().position(exact));
    found.or_else(|| wanted.iter().position(of_major)).ok_or_else(|| SweepError::BaseOutside {
        base: text.to_owned(),
        in_range: wanted.iter().map(WantedServer::label).collect(),
    })
}

/// `id` and `k` are 4-byte integers, and `hot-points` needs a hundred rows above the middle.
fn check_rows(rows: u64) -> Result<(), SweepError> {
    const FEWEST: u64 = 1000;
    const MOST: u64 = 2_000_000_000;
    if (FEWEST..=MOST).contains(&rows) { Ok(()) } else { Err(SweepError::Rows { rows, fewest: FEWEST, most: MOST }) }
}

/// Whether `path` has room for `wanted` bytes; looks at the nearest directory that exists.
pub fn check_space(path: &Path, wanted: u64) -> Result<(), SweepError> {
    let existing = path.ancestors().find(|ancestor| ancestor.exists()).unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(existing) {
        Ok(space) if space.f_bavail * space.f_frsize < wanted => Err(SweepError::NoSpace {
            path: path.to_owned(),
            wanted_mib: wanted >> 20,
            available_mib: (space.f_bavail * space.f_frsize) >> 20,
        }),
        _ => Ok(()),
    }
}
