//! Where servers come from and who runs them: the options of every command that needs servers.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::Context as _;
use clap::Args;

use super::Failure;
use crate::build::{self, Builds, Request};
use crate::catalog::versions::Catalogue;
use crate::domain::{Build, Source, VariantName};
use crate::server::{self, Account};
use crate::sweep::{Prepared, WantedServer};

/// Options about servers.
#[derive(Debug, Args)]
pub(super) struct ServerArgs {
    /// Where servers come from: auto, prebuilt, source, source=PATH, git=PATH, git=PATH@COMMIT or prefix=DIR
    #[arg(long, default_value_t, requires = "range")]
    pub(super) source: Source,
    /// How to compile: o2, o3, native, jit or asserts, +FEATURE, @COMPILER, such as o2,o3 or o2+lz4@clang [default: o2]
    #[arg(long = "variant", value_name = "NAME", value_delimiter = ',', requires = "range")]
    pub(super) variants: Vec<VariantName>,
    /// Account for the servers when regtrack is root [default: postgres, else nobody]
    #[arg(long, value_name = "ACCOUNT", env = "REGTRACK_RUN_AS")]
    pub(super) run_as: Option<String>,
    /// Directory of the builds [default: the user's cache directory; for root /var/cache/regtrack]
    #[arg(long, value_name = "DIR", env = "REGTRACK_CACHE")]
    pub(super) cache: Option<PathBuf>,
    /// Base URL of PostgreSQL's source archives
    #[arg(long, value_name = "URL", env = "REGTRACK_ARCHIVE_URL", default_value = build::ARCHIVE_URL)]
    pub(super) archive_url: String,
    /// Parallel compile jobs [default: one per CPU]
    #[arg(long, requires = "range")]
    pub(super) jobs: Option<usize>,
}

impl ServerArgs {
    /// The account for the servers.
    pub(super) fn account(&self) -> Result<Account, Failure> {
        Ok(Account::choose(self.run_as.as_deref())?)
    }

    /// The directory of the builds.
    pub(super) fn cache_directory(&self, account: &Account) -> Result<PathBuf, Failure> {
        absolute(&match &self.cache {
            Some(directory) => directory.clone(),
            None => default_cache(account)?,
        })
    }

    /// A builder for servers that `account` will run.
    pub(super) fn builder(&self, account: &Account) -> Result<Builds, Failure> {
        self.builder_from(&self.source, account)
    }

    /// A builder with another source.
    pub(super) fn builder_from(&self, source: &Source, account: &Account) -> Result<Builds, Failure> {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Ok(Builds::new(build::Options {
            cache: self.cache_directory(account)?,
            source: source.clone(),
            jobs: self.jobs.unwrap_or(cpus),
            archive_url: self.archive_url.clone(),
            account: account.ids(),
        }))
    }
}

/// What the builder needs to know of the servers that were asked for.
pub(super) fn requests(wanted: &[WantedServer], catalogue: &Catalogue) -> Vec<Request> {
    let request = |server: &WantedServer| {
        let major = server.release.version.major;
        Request {
            release: server.release.clone(),
            floating: server.floating,
            prebuilt_fallback: catalogue.latest_prebuilt(major).cloned(),
            fixups: catalogue.fixups(major).to_vec(),
            variant: server.variant.clone(),
        }
    };
    wanted.iter().map(request).collect()
}

/// Root's own cache directory is closed to the account that runs the servers.
pub(super) fn default_cache(account: &Account) -> Result<PathBuf, Failure> {
    use etcetera::BaseStrategy as _;
    if account.is_other() {
        return Ok(PathBuf::from("/var/cache/regtrack"));
    }
    let strategy =
        etcetera::choose_base_strategy().context("could not find the user's cache directory; use --cache")?;
    Ok(strategy.cache_dir().join("regtrack"))
}

pub(super) fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    Ok(std::path::absolute(path).with_context(|| format!("could not resolve {}", path.display()))?)
}

/// The first signal sets `stop`, which asks for an end at the next event; a second one ends the process at once (its
/// servers end with it).
pub(super) fn watch_signals(stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let exit = i32::from(super::exit::INTERRUPTED);
        signal_hook::flag::register_conditional_shutdown(signal, exit, Arc::clone(stop))
            .and_then(|_| signal_hook::flag::register(signal, Arc::clone(stop)))
            .context("could not watch for signals")?;
    }
    Ok(())
}

/// Lines for the configuration of a build's server. A build from a development cycle is asked which settings it has.
pub(super) fn settings(prepared: &Prepared, build: &Build, account: &Account) -> anyhow::Result<String> {
    let (config, major) = (&prepared.config, build.version.major);
    if !build.version.is_prerelease() {
        return Ok(config.render(major, prepared.memory_mib)?);
    }
    let known = server::known_settings(build, account)?;
    Ok(config.render_development(major, prepared.memory_mib, &known)?)
}
