//! The account that servers run under. PostgreSQL refuses to run as root, so root hands its servers
//! to an unprivileged account.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::ServerError;
use crate::process::{self, CommandError};

/// How long a helper program such as `id` may take.
const HELPER_DEADLINE: Duration = Duration::from_secs(20);

/// Accounts that root tries in turn when none is named.
const CANDIDATES: [&str; 2] = ["postgres", "nobody"];

/// Who servers run as.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Name, for messages.
    pub name: String,
    /// Set when regtrack is root and has to step down: user id and group id.
    switch_to: Option<(u32, u32)>,
}

impl Account {
    /// The account for this process: its own, or for root `wanted`, `postgres` or `nobody`.
    pub fn choose(wanted: Option<&str>) -> Result<Self, ServerError> {
        if !rustix::process::geteuid().is_root() {
            let own = id(&["-un"]).map_err(|source| ServerError::Account { name: "this user".to_owned(), source })?;
            return match wanted {
                Some(name) if name != own => Err(ServerError::AccountNeedsRoot { name: name.to_owned() }),
                _ => Ok(Self { name: own, switch_to: None }),
            };
        }
        if let Some(name) = wanted {
            return Self::named(name);
        }
        let mut last = None;
        for name in CANDIDATES {
            match Self::named(name) {
                Ok(account) => return Ok(account),
                Err(error) => last = Some(error),
            }
        }
        Err(last.unwrap_or_else(|| unreachable!("there are candidates")))
    }

    fn named(name: &str) -> Result<Self, ServerError> {
        let number = |flag: &str| -> Result<u32, ServerError> {
            let text =
                id(&[flag, "--", name]).map_err(|source| ServerError::Account { name: name.to_owned(), source })?;
            text.parse().map_err(|_| ServerError::AccountUnusable { name: name.to_owned(), id: text })
        };
        let (uid, gid) = (number("-u")?, number("-g")?);
        if uid == 0 {
            return Err(ServerError::AccountUnusable { name: name.to_owned(), id: "0".to_owned() });
        }
        Ok(Self { name: name.to_owned(), switch_to: Some((uid, gid)) })
    }

    /// Whether servers run under another account than regtrack itself.
    #[must_use]
    pub const fn is_other(&self) -> bool {
        self.switch_to.is_some()
    }

    /// User and group id when servers run under another account.
    #[must_use]
    pub const fn ids(&self) -> Option<(u32, u32)> {
        self.switch_to
    }

    /// A command that runs `program` under the account and gets `signal` when regtrack dies,
    /// however it dies. `setpriv` replaces itself with the program, so the child's pid is the
    /// program's own.
    ///
    /// The kernel sends the signal when the *thread* that started the child ends: start servers
    /// from the main thread.
    #[must_use]
    pub fn command(&self, program: &Path, signal: &str) -> Command {
        let mut command = Command::new("setpriv");
        if let Some((uid, gid)) = self.switch_to {
            command.args([format!("--reuid={uid}"), format!("--regid={gid}"), "--clear-groups".to_owned()]);
        }
        command.args(["--pdeathsig", signal, "--"]).arg(program);
        // A caller's PGDATA, PGPORT or PGOPTIONS must not reach the servers of a benchmark.
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C").env("TZ", "UTC");
        // A group of its own: Ctrl-C is for regtrack, which then stops its servers in order.
        command.process_group(0);
        // The account may not be allowed into the caller's working directory.
        command.current_dir("/");
        command
    }

    /// Makes the directory `path` with mode 0700, owned by the account.
    pub fn create_dir(&self, path: &Path) -> Result<(), ServerError> {
        use std::os::unix::fs::DirBuilderExt as _;
        let error = |source| ServerError::Directory { path: path.to_owned(), source };
        std::fs::DirBuilder::new().mode(0o700).create(path).map_err(error)?;
        match self.switch_to {
            Some((uid, gid)) => chown(path, Some(uid), Some(gid)).map_err(error),
            None => Ok(()),
        }
    }

    /// Whether the account can enter `directory`: every directory above it must be searchable.
    #[must_use]
    pub fn can_enter(&self, directory: &Path) -> bool {
        if self.switch_to.is_none() {
            return true;
        }
        let mut command = self.command(Path::new("test"), "KILL");
        command.arg("-x").arg(directory);
        process::run(&mut command, HELPER_DEADLINE, None).is_ok()
    }
}

fn id(arguments: &[&str]) -> Result<String, CommandError> {
    process::run(Command::new("id").args(arguments), HELPER_DEADLINE, None).map(|text| text.trim().to_owned())
}
