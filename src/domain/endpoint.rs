//! Where a running server is reached. Always on this machine.

use std::path::PathBuf;

/// How the client reaches the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// TCP on 127.0.0.1, as sysbench does it.
    Tcp,
    /// A Unix-domain socket in this directory.
    Unix(PathBuf),
}

/// Address and identity for a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// How to get there.
    pub transport: Transport,
    /// Port; with a Unix socket, the number in the socket's name.
    pub port: u16,
    /// Role, a superuser.
    pub user: String,
    /// Database.
    pub database: String,
}
