//! One administrative connection with blocking calls: everything outside the timed loop.
//!
//! Measuring runs on a single thread, so the connection brings its own current-thread runtime
//! instead of making every layer asynchronous.

use std::time::Duration;

use futures_util::SinkExt as _;
use tokio::runtime::Runtime;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Config, NoTls, Row};

use crate::domain::{Endpoint, Transport};

/// How long a connection attempt may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// An administrative connection.
pub struct Connection {
    runtime: Runtime,
    client: Client,
    endpoint: Endpoint,
}

/// A statement or a connection attempt that failed.
#[derive(Debug, thiserror::Error)]
pub enum SqlError {
    /// The runtime under the connection could not be made.
    #[error("could not set up a connection")]
    Runtime(#[source] std::io::Error),
    /// No connection.
    #[error("could not connect to port {port}: {}", server_message(source))]
    Connect {
        /// The server's port.
        port: u16,
        /// Why.
        source: tokio_postgres::Error,
    },
    /// A statement failed.
    #[error("the server refused '{sql}': {}", server_message(source))]
    Statement {
        /// The statement, shortened.
        sql: String,
        /// Why.
        source: tokio_postgres::Error,
    },
}

impl SqlError {
    /// Whether the server is there but not ready yet (SQLSTATE 57P03) or not listening yet.
    #[must_use]
    pub fn is_not_ready(&self) -> bool {
        match self {
            Self::Connect { source, .. } => {
                source.code().is_none_or(|code| *code == tokio_postgres::error::SqlState::CANNOT_CONNECT_NOW)
            }
            _ => false,
        }
    }
}

/// The server's own words where there are any: `tokio_postgres::Error` prints only "db error".
fn server_message(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(
        || {
            let mut text = error.to_string();
            let mut source = std::error::Error::source(error);
            while let Some(inner) = source {
                text = format!("{text}: {inner}");
                source = inner.source();
            }
            text
        },
        |db| format!("{} ({})", db.message(), db.code().code()),
    )
}

impl Connection {
    /// Opens a connection.
    pub fn open(endpoint: &Endpoint) -> Result<Self, SqlError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(SqlError::Runtime)?;
        let mut config = Config::new();
        config
            .port(endpoint.port)
            .user(&endpoint.user)
            .dbname(&endpoint.database)
            .connect_timeout(CONNECT_TIMEOUT)
            .application_name("regtrack");
        match &endpoint.transport {
            Transport::Tcp => config.host("127.0.0.1"),
            Transport::Unix(directory) => config.host_path(directory),
        };
        let error = |source| SqlError::Connect { port: endpoint.port, source };
        let (client, connection) = runtime.block_on(config.connect(NoTls)).map_err(error)?;
        // The task ends with the connection; what breaks it is reported by the next statement.
        runtime.spawn(connection);
        Ok(Self { runtime, client, endpoint: endpoint.clone() })
    }

    /// Where it leads, for another connection to the same server.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Runs one or more statements by the simple protocol and drops what they return.
    pub fn execute(&self, sql: &str) -> Result<(), SqlError> {
        self.runtime.block_on(self.client.batch_execute(sql)).map_err(|source| statement_error(sql, source))
    }

    /// Runs one query and returns its rows.
    pub fn query(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, SqlError> {
        self.runtime.block_on(self.client.query(sql, params)).map_err(|source| statement_error(sql, source))
    }

    /// Runs a query that returns one row with one text value; `None` for NULL or no row.
    pub fn text(&self, sql: &str) -> Result<Option<String>, SqlError> {
        Ok(self.query(sql, &[])?.first().and_then(|row| row.get(0)))
    }

    /// Sends the blocks that `next` yields as the data of a `COPY … FROM STDIN`, returns the rows
    /// that the server counted.
    pub fn copy_in(&self, sql: &str, mut next: impl FnMut() -> Option<bytes::Bytes>) -> Result<u64, SqlError> {
        let copy = async {
            let sink = self.client.copy_in(sql).await?;
            let mut sink = std::pin::pin!(sink);
            while let Some(block) = next() {
                sink.send(block).await?;
            }
            sink.finish().await
        };
        self.runtime.block_on(copy).map_err(|source| statement_error(sql, source))
    }
}

fn statement_error(sql: &str, source: tokio_postgres::Error) -> SqlError {
    const SHOWN: usize = 200;
    let shortened = sql.char_indices().nth(SHOWN).map_or_else(|| sql.to_owned(), |(at, _)| format!("{}…", &sql[..at]));
    SqlError::Statement { sql: shortened, source }
}
