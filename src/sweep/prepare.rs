//! From what a person asked for to what will be run: looks everything up in the catalogue and
//! refuses what cannot be.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::SweepError;
use super::profile::Profile;
use crate::catalog::versions::{Catalogue, Selected};
use crate::catalog::{configs, configs::ConfigSet, suite};
use crate::domain::{Protocol, ReleaseRange, Suite, Version};
use crate::server::InitOptions;

/// What a person asked for; `None` takes the profile's value.
#[derive(Debug, Clone)]
pub struct SweepRequest {
    /// The releases.
    pub range: ReleaseRange,
    /// Every minor in the range instead of the latest of each major.
    pub minors: bool,
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
}

impl SweepRequest {
    /// A range with a profile's numbers, and nothing else asked for.
    #[must_use]
    pub const fn new(range: ReleaseRange, profile: &'static Profile) -> Self {
        Self {
            range,
            minors: false,
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
        }
    }
}

/// What will be run.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// The releases, oldest first.
    pub selected: Vec<Selected>,
    /// Index of the base in `selected`.
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
    /// Launches per release.
    pub launches: u32,
    /// The profile's name.
    pub profile: &'static str,
    /// Memory for which the configuration is rendered, in MiB.
    pub memory_mib: u64,
}

/// Looks everything up.
pub fn prepare(request: &SweepRequest, catalogue: &Catalogue, memory_mib: u64) -> Result<Prepared, SweepError> {
    let selected = catalogue.resolve(&request.range, request.minors)?;
    if selected.is_empty() {
        return Err(SweepError::EmptyRange { range: request.range.to_string() });
    }
    let base = match &request.base {
        None => 0,
        Some(base) => find_base(base, &selected)?,
    };
    let suite_text = suite::text(request.suite.as_deref())?;
    let suite_name = request.suite.as_ref().map_or_else(|| "the built-in suite".into(), |path| path.to_string_lossy());
    let suite = suite::parse(&suite_text, &suite_name)?;
    let profile = request.profile;
    let config = configs::load(request.config.as_deref().unwrap_or(profile.config))?;
    let render = |selected: &Selected| config.render(selected.release.version.major, memory_mib);
    selected.iter().try_for_each(|selected| render(selected).map(drop))?;
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
        config: config.name.clone(),
        config_hash: config.hash(memory_mib)?,
        data_checksums: request.data_checksums.unwrap_or(config.data_checksums),
        transport: if request.unix_socket { "unix" } else { "tcp" }.to_owned(),
        microbenchmarks: suite::select(&suite, &request.benches)?,
    };
    Ok(Prepared {
        selected,
        base,
        base_is_given: request.base.is_some(),
        suite: Arc::new(suite),
        suite_text,
        config,
        protocol,
        launches: request.launches.unwrap_or(profile.launches).max(1),
        profile: profile.name,
        memory_mib,
    })
}

impl Prepared {
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

fn find_base(text: &str, selected: &[Selected]) -> Result<usize, SweepError> {
    let of_major = |selected: &Selected| selected.release.version.major.to_string() == text;
    let exact = |selected: &Selected| text.parse::<Version>().is_ok_and(|version| version == selected.release.version);
    selected.iter().position(exact).or_else(|| selected.iter().position(of_major)).ok_or_else(|| {
        let in_range = selected.iter().map(|selected| selected.release.version.to_string()).collect();
        SweepError::BaseOutside { base: text.to_owned(), in_range }
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
