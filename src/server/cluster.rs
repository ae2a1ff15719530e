//! An initialised data directory.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Account, ServerError};
use crate::domain::{Build, Major};
use crate::process;

/// How long initdb may take on a slow disk.
const INITDB_DEADLINE: Duration = Duration::from_secs(300);

/// How long a program may take to tell about itself.
const HELP_DEADLINE: Duration = Duration::from_secs(20);

/// How long a copy of a data directory may take: 100 GB at 30 MB/s.
const COPY_DEADLINE: Duration = Duration::from_secs(3600);

/// The superuser of every cluster.
pub const SUPERUSER: &str = "regtrack";

/// First major whose initdb offers data checksums.
const CHECKSUMS_SINCE: Major = Major::new(9, 3);
/// First major whose initdb turns them on by itself.
const CHECKSUMS_DEFAULT_SINCE: Major = Major::new(18, 0);

/// What is decided when a data directory is made. The same for every release that allows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InitOptions {
    /// Locale of all categories.
    pub locale: String,
    /// Encoding of all databases.
    pub encoding: String,
    /// Data checksums, where the release has them.
    pub data_checksums: bool,
}

/// An initialised data directory without a running server.
#[derive(Debug, Clone)]
pub struct Cluster {
    pub(super) build: Build,
    pub(super) account: Account,
    pub(super) directory: PathBuf,
}

impl Cluster {
    /// Runs initdb in `directory`, which must not exist yet, and appends `settings` to the
    /// generated postgresql.conf.
    pub fn create(
        build: &Build,
        account: &Account,
        directory: &Path,
        options: &InitOptions,
        settings: &str,
    ) -> Result<Self, ServerError> {
        account.create_dir(directory)?;
        let mut command = account.command(&build.program("initdb"), "KILL");
        command.arg("-D").arg(directory);
        command.args(["-U", SUPERUSER, "-A", "trust", "-E", &options.encoding]);
        command.arg(format!("--locale={}", options.locale));
        command.args(checksum_option(build.version.major, options.data_checksums).filter(|option| {
            // Early commits of the cycle that brought an option lack it.
            !build.version.is_prerelease() || offers(build, account, option)
        }));
        let error = |source| ServerError::Initdb { version: build.version, source };
        process::run(&mut command, INITDB_DEADLINE, None).map_err(error)?;

        let path = directory.join("postgresql.conf");
        let append = || -> std::io::Result<()> {
            let mut file = File::options().append(true).open(&path)?;
            writeln!(file, "\n# Added by regtrack\n{settings}")?;
            file.sync_all()
        };
        append().map_err(|source| ServerError::Directory { path: path.clone(), source })?;
        Ok(Self { build: build.clone(), account: account.clone(), directory: directory.to_owned() })
    }

    /// A data directory that [`Cluster::create`] made earlier. A server that an earlier regtrack
    /// left in it is stopped first.
    pub fn reopen(build: &Build, account: &Account, directory: &Path) -> Result<Self, ServerError> {
        super::running::stop_leftover(directory)?;
        Ok(Self { build: build.clone(), account: account.clone(), directory: directory.to_owned() })
    }

    /// Copies the data directory to `directory`, which must not exist yet, and waits until the copy is on the disk.
    /// Where the file system can (Btrfs, XFS), both share their blocks until one of them is written to. No server may
    /// run in it.
    pub fn copy_to(&self, directory: &Path) -> Result<Self, ServerError> {
        let error = |source| ServerError::Copy { from: self.directory.clone(), to: directory.to_owned(), source };
        self.account.create_dir(directory)?;
        let mut command = self.account.command(Path::new("cp"), "KILL");
        // The dot: the content, not the directory.
        command.args(["-a", "--reflink=auto"]).arg(self.directory.join(".")).arg(directory);
        process::run(&mut command, COPY_DEADLINE, None).map_err(error)?;
        let sync = || -> std::io::Result<()> { Ok(rustix::fs::syncfs(File::open(directory)?)?) };
        sync().map_err(|source| ServerError::Directory { path: directory.to_owned(), source })?;
        Ok(Self { directory: directory.to_owned(), ..self.clone() })
    }

    /// The data directory.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Whether a build's initdb names `option` among its own.
fn offers(build: &Build, account: &Account, option: &str) -> bool {
    let mut command = account.command(&build.program("initdb"), "KILL");
    process::run(command.arg("--help"), HELP_DEADLINE, None).is_ok_and(|help| help.contains(option))
}

/// Names of the settings that a build's server has, as it lists them itself (`--describe-config`: one per line, the name
/// first).
pub fn known_settings(build: &Build, account: &Account) -> Result<BTreeSet<String>, ServerError> {
    let mut command = account.command(&build.program("postgres"), "KILL");
    command.arg("--describe-config");
    let list = process::run(&mut command, HELP_DEADLINE, None)
        .map_err(|source| ServerError::Settings { version: build.version, source })?;
    Ok(list.lines().filter_map(|line| line.split('\t').next()).map(str::to_owned).collect())
}

fn checksum_option(major: Major, wanted: bool) -> Option<&'static str> {
    match wanted {
        true if major >= CHECKSUMS_SINCE => Some("--data-checksums"),
        false if major >= CHECKSUMS_DEFAULT_SINCE => Some("--no-data-checksums"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_asked_for_where_the_release_knows_them() {
        let option = |major: &str, wanted| checksum_option(major.parse().unwrap(), wanted);
        assert_eq!(option("9.2", true), None);
        assert_eq!(option("9.3", true), Some("--data-checksums"));
        assert_eq!(option("17", false), None);
        assert_eq!(option("18", false), Some("--no-data-checksums"));
    }
}
