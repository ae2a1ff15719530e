//! A server's life: Build + settings → [`Cluster`] → [`Server`] and back. Knows no benchmark.
//!
//! Servers listen on 127.0.0.1 and on a private socket directory only, never on port 5432, and die
//! with regtrack: a stop in the ordinary way, `Drop` on errors and panics, and the kernel's
//! parent-death signal when regtrack itself is killed.

mod account;
mod brake;
mod cluster;
mod running;

use std::path::PathBuf;

pub use account::Account;
pub use cluster::{Cluster, InitOptions, SUPERUSER, known_settings};
pub use running::{DEFAULT_PORT, Server, StartOptions, remove_socket_dir, stop_leftover};

use crate::domain::Version;
use crate::process::{CommandError, quoted};
use crate::sql::SqlError;

/// What went wrong in a server's life.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The account could not be looked up.
    #[error("could not look up the account '{name}' that servers are to run under")]
    Account {
        /// The account.
        name: String,
        /// Why.
        #[source]
        source: CommandError,
    },
    /// The account is root or has no usable number.
    #[error("servers cannot run as '{name}' (id {id}): PostgreSQL wants an unprivileged account")]
    AccountUnusable {
        /// The account.
        name: String,
        /// Its id.
        id: String,
    },
    /// Only root can run servers under another account.
    #[error("only root can run servers under the account '{name}'")]
    AccountNeedsRoot {
        /// The account.
        name: String,
    },
    /// A directory or file could not be made.
    #[error("could not prepare {}", path.display())]
    Directory {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// initdb failed.
    #[error("could not initialise a data directory for PostgreSQL {version}")]
    Initdb {
        /// The release.
        version: Version,
        /// Why.
        #[source]
        source: CommandError,
    },
    /// A server program did not list its settings.
    #[error("could not ask the server of PostgreSQL {version} which settings it has")]
    Settings {
        /// The release.
        version: Version,
        /// Why.
        #[source]
        source: CommandError,
    },
    /// A data directory could not be copied.
    #[error("could not copy the data directory {} to {}", from.display(), to.display())]
    Copy {
        /// The original.
        from: PathBuf,
        /// The copy.
        to: PathBuf,
        /// Why.
        #[source]
        source: CommandError,
    },
    /// The brake could not be compiled.
    #[error("could not compile the brake that slows a server down (Debian: apt-get install build-essential)")]
    BrakeCompile {
        /// Why.
        #[source]
        source: CommandError,
    },
    /// The loader left the brake out.
    #[error(
        "the server (process {pid}) runs without its brake; its data directory's path must have no space and no colon"
    )]
    BrakeNotLoaded {
        /// Its process.
        pid: u32,
    },
    /// The server program could not be started or watched.
    #[error("could not run the server of PostgreSQL {version} (the program setpriv of util-linux is needed)")]
    Spawn {
        /// The release.
        version: Version,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The server ended by itself.
    #[error("the server of PostgreSQL {version} ended by itself ({status}); its log: {}{}", log.display(), quoted(tail))]
    Died {
        /// The release.
        version: Version,
        /// Exit status.
        status: String,
        /// Last lines of the log.
        tail: Vec<String>,
        /// The log.
        log: PathBuf,
    },
    /// The server runs but takes no connections.
    #[error("the server of PostgreSQL {version} takes no connections; see {}", log.display())]
    NotReady {
        /// The release.
        version: Version,
        /// Why.
        #[source]
        source: SqlError,
        /// The log.
        log: PathBuf,
    },
    /// The server survived every signal.
    #[error("the server of PostgreSQL {version} (process {pid}) does not stop")]
    WontStop {
        /// The release.
        version: Version,
        /// Its process.
        pid: u32,
    },
    /// A server of an earlier run does not stop.
    #[error("a server of an earlier run still works in {} (process {pid}) and does not stop", directory.display())]
    Leftover {
        /// Its data directory.
        directory: PathBuf,
        /// Its process.
        pid: u32,
    },
    /// No port is free.
    #[error("could not find a free port on 127.0.0.1")]
    NoPort(#[source] std::io::Error),
    /// The wanted port is taken.
    #[error("port {port} on 127.0.0.1 is in use; leave out --port to take a free one")]
    PortInUse {
        /// The port.
        port: u16,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The wanted port is PostgreSQL's own.
    #[error("port 5432 is never used, so that no server of yours can be met by mistake; choose another")]
    DefaultPort,
}
