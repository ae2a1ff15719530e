//! Other people's clients: sysbench with our twins, and pgbench. Starts them, holds them at their gate, reads their
//! reports. Knows no server but its address.

mod pgbench;
mod sysbench;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub use pgbench::{Pgbench, PgbenchReport, PgbenchRun};
pub use sysbench::{Gate, Sysbench, SysbenchReport, SysbenchRun};

use crate::domain::{Endpoint, Transport};
use crate::process::CommandError;

/// How long a program may take to say what it is.
const HELP_DEADLINE: Duration = Duration::from_secs(20);

/// The name that the other clients' backends have in `pg_stat_activity`.
pub const APPLICATION_NAME: &str = "regtrack-rival";

/// What went wrong with another client.
#[derive(Debug, thiserror::Error)]
pub enum RivalError {
    /// There is no sysbench.
    #[error(
        "the program '{}' is not on this machine: install sysbench ('sudo apt-get install sysbench' on Debian and \
         Ubuntu), or name it with --sysbench",
        program.display()
    )]
    NoSysbench {
        /// The program that was looked for.
        program: PathBuf,
    },
    /// A sysbench that cannot talk to PostgreSQL.
    #[error("{} has no driver for PostgreSQL; use one that was built with it, such as Debian's package sysbench", program.display())]
    NoDriver {
        /// The program.
        program: PathBuf,
    },
    /// A program failed.
    #[error("{client} failed")]
    Run {
        /// The program's name.
        client: &'static str,
        /// Why, in its own words.
        #[source]
        source: CommandError,
    },
    /// Its scripts could not be written.
    #[error("could not write the scripts for {client} to {}", path.display())]
    Scripts {
        /// The program's name.
        client: &'static str,
        /// The place.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A report without a number that it should have.
    #[error("the report of {client} has no '{label}'; this version of it is not supported:\n{report}")]
    Report {
        /// The program's name.
        client: &'static str,
        /// What was looked for.
        label: &'static str,
        /// All that it said.
        report: String,
    },
    /// It did something else than it was asked to.
    #[error("{client} counted {found} {what} instead of {expected}; errors in the server's log may say why")]
    Count {
        /// The program's name.
        client: &'static str,
        /// What was counted.
        what: &'static str,
        /// By the client.
        found: u64,
        /// What was asked for.
        expected: u64,
    },
}

/// A command for a client that ends with regtrack, however that ends, and that hears nothing of the caller's
/// PGOPTIONS and the like. `setpriv` replaces itself with the program, so the child's pid is the program's own.
fn client(program: &Path) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("PG")) {
        command.env_remove(name);
    }
    command.env("PGAPPNAME", APPLICATION_NAME).env("LC_ALL", "C").current_dir("/");
    command
}

/// The server's host as libpq takes it: an address, or the directory of a socket.
fn host(endpoint: &Endpoint) -> String {
    match &endpoint.transport {
        Transport::Tcp => "127.0.0.1".to_owned(),
        Transport::Unix(directory) => directory.display().to_string(),
    }
}
