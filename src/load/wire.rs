//! The client of the timed loop: one blocking connection, messages assembled in place, results
//! parsed only as far as counting rows and noticing errors.
//!
//! It sends what sysbench sends through libpq: Bind (text parameters, binary results), Describe
//! (portal), Execute, Sync for prepared statements; Query for literal ones. tokio-postgres would
//! leave out the Describe and cost the loop 18–40 % of its rate.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use postgres_protocol::message::frontend;
use rustix::event::{PollFd, PollFlags, poll};

use super::watchdog::{Steps, Watchdog};
use crate::domain::{Endpoint, Transport};

/// Type OID of int8: what sysbench declares for every integer parameter.
const INT8_OID: u32 = 20;
/// Type OID of varchar: what sysbench declares for every string parameter.
const VARCHAR_OID: u32 = 1043;

/// Initial size of the receive buffer; it grows only for a control message that does not fit.
const RECEIVE_BYTES: usize = 128 * 1024;

/// A server that sends nothing for this long is taken for dead. Far above any event of the suite.
const SILENCE: Duration = Duration::from_secs(3600);

/// How a client waits for an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waiting {
    /// In the receive itself: one call of the kernel for each part of an answer.
    #[default]
    Receive,
    /// In `poll`, then the receive: two calls, as libpq does it and sysbench with it.
    Poll,
}

/// What went wrong on the measuring connection.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// The connection could not be opened.
    #[error("could not open the measuring connection on port {port}")]
    Connect {
        /// The server's port.
        port: u16,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The server sent nothing while an answer was awaited.
    #[error("the server sent nothing for {seconds} seconds; it hangs")]
    Silent {
        /// How long it was waited for.
        seconds: u64,
    },
    /// There is no thread for a connection.
    #[error("could not start a thread for a connection")]
    Thread(#[source] io::Error),
    /// The connection broke.
    #[error("the measuring connection broke")]
    Broken(#[source] io::Error),
    /// The server asked for something that regtrack's own servers never ask for.
    #[error("the server sent an unexpected message '{0}'")]
    Unexpected(char),
    /// A message could not be encoded.
    #[error("could not encode a protocol message")]
    Encode(#[source] io::Error),
    /// A statement failed.
    #[error("the server answered '{sql}' with {error}")]
    Statement {
        /// The statement.
        sql: String,
        /// The server's words.
        error: ServerError,
    },
}

/// An ErrorResponse.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{severity} {code}: {message}")]
pub struct ServerError {
    /// `ERROR`, `FATAL`, …
    pub severity: String,
    /// SQLSTATE.
    pub code: String,
    /// The primary message.
    pub message: String,
}

impl ServerError {
    /// Whether sysbench would roll back and run the event again: deadlock, duplicate key,
    /// serialisation failure.
    #[must_use]
    pub fn is_retried(&self) -> bool {
        matches!(self.code.as_str(), "40P01" | "23505" | "40001")
    }
}

/// What one statement came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Reply {
    /// Rows received.
    pub rows: u64,
    /// Whether the server described a result set.
    pub is_result_set: bool,
    /// Rows that a command affected.
    pub affected: u64,
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Stream {
    /// A second handle of the same socket.
    fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
        })
    }

    /// Waits until there is something to receive. Should it return early, the receive waits.
    fn poll(&self) {
        let socket = match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        };
        let _ = poll(&mut [PollFd::from_borrowed_fd(socket, PollFlags::IN | PollFlags::ERR)], None);
    }

    /// Ends the connection, also for a thread that waits for something to come.
    fn shut_down(&self) {
        // A socket that is closed already is what was wanted.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        };
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One connection of the timed loop.
pub(super) struct WireClient {
    stream: Stream,
    steps: Arc<Steps>,
    silence: Duration,
    waiting: Waiting,
    /// Ends with the connection.
    _watchdog: Watchdog,
    send: Vec<u8>,
    receive: Vec<u8>,
    /// Unread bytes are `receive[start..end]`.
    start: usize,
    end: usize,
    backend_pid: u32,
    error: Option<ServerError>,
}

/// A named statement on the server, with the fixed bytes of its messages.
#[derive(Debug, Clone)]
pub(super) struct Prepared {
    sql: String,
    bind_head: Vec<u8>,
}

impl WireClient {
    /// Opens a connection. Servers started by regtrack trust local connections, so no
    /// authentication method is implemented.
    pub(super) fn connect(endpoint: &Endpoint, waiting: Waiting) -> Result<Self, WireError> {
        Self::connect_within(endpoint, waiting, SILENCE)
    }

    /// As [`Self::connect`], with another patience for a server that sends nothing.
    fn connect_within(endpoint: &Endpoint, waiting: Waiting, silence: Duration) -> Result<Self, WireError> {
        let error = |source| WireError::Connect { port: endpoint.port, source };
        let stream = open_stream(endpoint).map_err(error)?;
        let steps = Arc::new(Steps::default());
        let other = stream.try_clone().map_err(error)?;
        let watchdog = Watchdog::watch(steps.clone(), silence, move || other.shut_down()).map_err(error)?;
        let mut client = Self {
            stream,
            steps,
            silence,
            waiting,
            _watchdog: watchdog,
            send: Vec::with_capacity(16 * 1024),
            receive: vec![0; RECEIVE_BYTES],
            start: 0,
            end: 0,
            backend_pid: 0,
            error: None,
        };
        let mut startup = BytesMut::new();
        let parameters = [("user", endpoint.user.as_str()), ("database", endpoint.database.as_str())];
        frontend::startup_message(parameters, &mut startup).map_err(WireError::Encode)?;
        client.request(&startup)?;
        client.finish("the connection request")?;
        Ok(client)
    }

    /// Process id of the server's backend.
    #[must_use]
    pub(super) fn backend_pid(&self) -> u32 {
        self.backend_pid
    }

    /// Prepares a named statement. `text_params[i]` tells whether parameter i + 1 is a varchar.
    pub(super) fn prepare(&mut self, name: &str, sql: &str, text_params: &[bool]) -> Result<Prepared, WireError> {
        let types = text_params.iter().map(|&text| if text { VARCHAR_OID } else { INT8_OID });
        let mut message = BytesMut::new();
        frontend::parse(name, sql, types, &mut message).map_err(WireError::Encode)?;
        frontend::sync(&mut message);
        self.request(&message)?;
        self.finish(sql)?;

        let mut bind_head = vec![b'B', 0, 0, 0, 0];
        bind_head.push(0); // the unnamed portal
        bind_head.extend_from_slice(name.as_bytes());
        bind_head.push(0);
        bind_head.extend_from_slice(&0u16.to_be_bytes()); // no parameter formats: all text
        let count = u16::try_from(text_params.len()).map_err(|_| {
            WireError::Encode(io::Error::new(io::ErrorKind::InvalidInput, "more than 65535 parameters"))
        })?;
        bind_head.extend_from_slice(&count.to_be_bytes());
        Ok(Prepared { sql: sql.to_owned(), bind_head })
    }

    /// Executes a prepared statement; `write_params` calls [`Params`] once per parameter.
    pub(super) fn execute(
        &mut self,
        statement: &Prepared,
        write_params: impl FnOnce(&mut Params<'_>),
    ) -> Result<Reply, WireError> {
        /// Result formats (one: binary), then Describe (unnamed portal), Execute (unnamed portal,
        /// no row limit), Sync.
        const TAIL: [u8; 26] = [
            0, 1, 0, 1, // result formats
            b'D', 0, 0, 0, 6, b'P', 0, // Describe
            b'E', 0, 0, 0, 9, 0, 0, 0, 0, 0, // Execute
            b'S', 0, 0, 0, 4, // Sync
        ];
        const FORMATS: usize = 4;
        self.send.clear();
        self.send.extend_from_slice(&statement.bind_head);
        write_params(&mut Params { out: &mut self.send });
        let length = be_length(self.send.len() - 1 + FORMATS);
        self.send[1..5].copy_from_slice(&length);
        self.send.extend_from_slice(&TAIL);
        self.stream.write_all(&self.send).map_err(WireError::Broken)?;
        self.finish(&statement.sql)
    }

    /// Sends one statement as text by the simple protocol; `write_sql` appends it.
    pub(super) fn simple(&mut self, write_sql: impl FnOnce(&mut Vec<u8>)) -> Result<Reply, WireError> {
        self.send.clear();
        self.send.extend_from_slice(&[b'Q', 0, 0, 0, 0]);
        write_sql(&mut self.send);
        self.send.push(0);
        let length = be_length(self.send.len() - 1);
        self.send[1..5].copy_from_slice(&length);
        self.stream.write_all(&self.send).map_err(WireError::Broken)?;
        let reply = self.read_reply()?;
        match self.error.take() {
            None => Ok(reply),
            Some(error) => {
                let sql = String::from_utf8_lossy(&self.send[5..self.send.len() - 1]).into_owned();
                Err(WireError::Statement { sql, error })
            }
        }
    }

    /// Runs a statement outside of any measurement by the simple protocol. Returns the first column of its rows.
    pub(super) fn first_column(&mut self, sql: &str) -> Result<Vec<String>, WireError> {
        let mut message = BytesMut::new();
        frontend::query(sql, &mut message).map_err(WireError::Encode)?;
        self.request(&message)?;
        self.steps.turn();
        let rows = self.read_first_column();
        self.steps.turn();
        match (rows, self.error.take()) {
            (Ok(_), Some(error)) => Err(WireError::Statement { sql: sql.to_owned(), error }),
            (rows, _) => rows,
        }
    }

    /// Reads up to and including ReadyForQuery. Apart from [`Self::read_messages`], which keeps no row.
    fn read_first_column(&mut self) -> Result<Vec<String>, WireError> {
        let mut rows = Vec::new();
        loop {
            let (kind, length) = self.header()?;
            let body = self.body(length)?;
            match kind {
                b'D' => rows.extend(first_value(body)),
                b'E' => self.error = Some(parse_error(body)),
                b'Z' => return Ok(rows),
                _ => {}
            }
        }
    }

    fn finish(&mut self, sql: &str) -> Result<Reply, WireError> {
        let reply = self.read_reply()?;
        match self.error.take() {
            None => Ok(reply),
            Some(error) => Err(WireError::Statement { sql: sql.to_owned(), error }),
        }
    }

    /// Sends what no measured event sends.
    fn request(&mut self, message: &[u8]) -> Result<(), WireError> {
        self.stream.write_all(message).map_err(WireError::Broken)
    }

    /// Waits for the whole answer. A server error is left in `self.error`.
    fn read_reply(&mut self) -> Result<Reply, WireError> {
        self.steps.turn();
        let reply = self.read_messages();
        self.steps.turn();
        reply
    }

    /// Reads up to and including ReadyForQuery.
    fn read_messages(&mut self) -> Result<Reply, WireError> {
        let mut reply = Reply::default();
        loop {
            let (kind, length) = self.header()?;
            match kind {
                b'D' => {
                    reply.rows += 1;
                    self.skip(length)?;
                }
                b'T' => {
                    reply.is_result_set = true;
                    self.skip(length)?;
                }
                b'C' => reply.affected += affected_rows(self.body(length)?),
                b'Z' => {
                    self.skip(length)?;
                    return Ok(reply);
                }
                b'E' => {
                    let error = parse_error(self.body(length)?);
                    let fatal = error.severity == "FATAL" || error.severity == "PANIC";
                    self.error = Some(error);
                    if fatal {
                        // The server closes the connection: no ReadyForQuery follows.
                        return Ok(reply);
                    }
                }
                b'K' => {
                    let body = self.body(length)?;
                    if let Some(pid) = body.first_chunk::<4>() {
                        self.backend_pid = u32::from_be_bytes(*pid);
                    }
                }
                b'R' => {
                    // AuthenticationOk carries 0; anything else asks for a password.
                    if self.body(length)? != [0, 0, 0, 0] {
                        return Err(WireError::Unexpected('R'));
                    }
                }
                // ParseComplete, BindComplete, NoData, EmptyQueryResponse, ParameterStatus, notices.
                b'1' | b'2' | b'n' | b'I' | b'S' | b'N' | b'A' => self.skip(length)?,
                other => return Err(WireError::Unexpected(char::from(other))),
            }
        }
    }

    /// Type and body length of the next message.
    fn header(&mut self) -> Result<(u8, usize), WireError> {
        const HEADER: usize = 5;
        self.fill(HEADER)?;
        let head = &self.receive[self.start..self.start + HEADER];
        let kind = head[0];
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        self.start += HEADER;
        // The length counts itself.
        length.checked_sub(4).map(|body| (kind, body)).ok_or(WireError::Unexpected(char::from(kind)))
    }

    /// Passes over `length` bytes without keeping them: rows may be larger than the buffer.
    fn skip(&mut self, mut length: usize) -> Result<(), WireError> {
        loop {
            let available = self.end - self.start;
            if length <= available {
                self.start += length;
                return Ok(());
            }
            length -= available;
            self.start = 0;
            self.end = 0;
            self.receive_more()?;
        }
    }

    /// The next `length` bytes, consumed.
    fn body(&mut self, length: usize) -> Result<&[u8], WireError> {
        self.fill(length)?;
        let body = &self.receive[self.start..self.start + length];
        self.start += length;
        Ok(body)
    }

    /// Makes at least `wanted` unread bytes available in one piece.
    fn fill(&mut self, wanted: usize) -> Result<(), WireError> {
        if self.end - self.start >= wanted {
            return Ok(());
        }
        self.receive.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if wanted > self.receive.len() {
            self.receive.resize(wanted, 0);
        }
        while self.end < wanted {
            self.receive_more()?;
        }
        Ok(())
    }

    fn receive_more(&mut self) -> Result<(), WireError> {
        if self.waiting == Waiting::Poll {
            self.stream.poll();
        }
        match self.stream.read(&mut self.receive[self.end..]) {
            Ok(0) if self.steps.is_given_up() => Err(WireError::Silent { seconds: self.silence.as_secs() }),
            Ok(0) => Err(WireError::Broken(io::ErrorKind::UnexpectedEof.into())),
            Ok(count) => {
                self.end += count;
                self.steps.advance();
                Ok(())
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            Err(error) => Err(WireError::Broken(error)),
        }
    }
}

impl Drop for WireClient {
    /// Says goodbye, so that the backend ends cleanly and reports its statistics.
    fn drop(&mut self) {
        let _ = self.stream.write_all(&[b'X', 0, 0, 0, 4]);
    }
}

/// Writes text parameters into a Bind message.
pub(super) struct Params<'a> {
    out: &'a mut Vec<u8>,
}

impl Params<'_> {
    /// Appends an integer.
    pub(super) fn integer(&mut self, value: i64) {
        let mut digits = itoa::Buffer::new();
        let digits = digits.format(value).as_bytes();
        self.out.extend_from_slice(&be_length(digits.len()));
        self.out.extend_from_slice(digits);
    }

    /// Appends a text that `write` produces.
    pub(super) fn text(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        let at = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        write(self.out);
        let length = be_length(self.out.len() - at - 4);
        self.out[at..at + 4].copy_from_slice(&length);
    }
}

fn open_stream(endpoint: &Endpoint) -> io::Result<Stream> {
    match &endpoint.transport {
        Transport::Tcp => {
            let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, endpoint.port))?;
            // libpq does the same: without it a two-write request would wait for an acknowledgement.
            stream.set_nodelay(true)?;
            Ok(Stream::Tcp(stream))
        }
        Transport::Unix(directory) => {
            let path = directory.join(format!(".s.PGSQL.{}", endpoint.port));
            Ok(Stream::Unix(UnixStream::connect(path)?))
        }
    }
}

/// A length field. Messages of the suite stay far below 4 GiB.
fn be_length(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes()
}

/// The first value of a DataRow; `None` for NULL.
fn first_value(row: &[u8]) -> Option<String> {
    let (length, values) = row.get(2..)?.split_first_chunk::<4>()?;
    // NULL has the length −1, which is longer than any row.
    let value = values.get(..u32::from_be_bytes(*length) as usize)?;
    Some(String::from_utf8_lossy(value).into_owned())
}

/// Rows in a command tag: `UPDATE 1`, `INSERT 0 1`, `DELETE 0`; 0 for `SELECT 5` and `BEGIN`.
fn affected_rows(tag: &[u8]) -> u64 {
    let tag = tag.strip_suffix(&[0]).unwrap_or(tag);
    if !matches!(tag.first(), Some(b'U' | b'I' | b'D')) {
        return 0;
    }
    tag.rsplit(|byte| *byte == b' ')
        .next()
        .filter(|digits| digits.iter().all(u8::is_ascii_digit))
        .map_or(0, |digits| digits.iter().fold(0, |value, digit| value * 10 + u64::from(digit - b'0')))
}

fn parse_error(body: &[u8]) -> ServerError {
    let field = |wanted: u8| {
        let found = body.split(|byte| *byte == 0).find(|field| field.first() == Some(&wanted));
        found.map(|field| String::from_utf8_lossy(&field[1..]).into_owned()).unwrap_or_default()
    };
    ServerError { severity: field(b'S'), code: field(b'C'), message: field(b'M') }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn command_tags_give_the_affected_rows() {
        for (tag, rows) in [
            ("UPDATE 1\0", 1),
            ("INSERT 0 12\0", 12),
            ("DELETE 0\0", 0),
            ("SELECT 5\0", 0),
            ("BEGIN\0", 0),
            ("DROP TABLE\0", 0),
        ] {
            assert_eq!(affected_rows(tag.as_bytes()), rows, "{tag:?}");
        }
    }

    #[test]
    fn the_first_value_of_a_row_is_text_or_null() {
        assert_eq!(first_value(b"\0\x02\0\0\0\x02ab\0\0\0\x01c").as_deref(), Some("ab"));
        assert_eq!(first_value(b"\0\x01\xff\xff\xff\xff"), None);
        assert_eq!(first_value(b"\0\0"), None);
    }

    #[test]
    fn errors_are_read_field_by_field() {
        let error = parse_error(b"SERROR\0C23505\0Mduplicate key\0Fnbtinsert.c\0\0");
        assert_eq!(error.to_string(), "ERROR 23505: duplicate key");
        assert!(error.is_retried());
        assert!(!parse_error(b"SERROR\0C42601\0Msyntax\0\0").is_retried());
    }

    /// A server that lets a client in and then does `rest` with the connection.
    fn stand_in(rest: impl FnOnce(TcpStream) + Send + 'static) -> Endpoint {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let (mut client, _) = listener.accept().unwrap();
            let mut startup = [0; 1024];
            assert!(client.read(&mut startup).unwrap() > 8);
            // AuthenticationOk, BackendKeyData, ReadyForQuery
            client.write_all(b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c\0\0\0\x07\0\0\0\0Z\0\0\0\x05I").unwrap();
            rest(client);
        });
        let (user, database) = ("u".to_owned(), "d".to_owned());
        Endpoint { transport: Transport::Tcp, port, user, database }
    }

    #[test]
    fn a_server_that_hangs_is_given_up() {
        let endpoint = stand_in(|mut client| {
            // Until the client goes away.
            while client.read(&mut [0; 64]).is_ok_and(|count| count > 0) {}
        });
        let mut client = WireClient::connect_within(&endpoint, Waiting::Poll, Duration::from_millis(300)).unwrap();
        assert_eq!(client.backend_pid(), 7);
        // Resting is not hanging.
        std::thread::sleep(Duration::from_millis(600));
        let error = client.simple(|sql| sql.extend_from_slice(b"SELECT 1")).unwrap_err();
        assert!(matches!(error, WireError::Silent { .. }), "{error}");
    }

    #[test]
    fn a_server_that_goes_away_is_noticed_at_once() {
        let endpoint = stand_in(drop);
        let mut client = WireClient::connect(&endpoint, Waiting::Receive).unwrap();
        let error = client.simple(|sql| sql.extend_from_slice(b"SELECT 1")).unwrap_err();
        assert!(matches!(error, WireError::Broken(_)), "{error}");
    }

    #[test]
    fn parameters_carry_their_length() {
        let mut out = Vec::new();
        let mut params = Params { out: &mut out };
        params.integer(-15);
        params.text(|text| text.extend_from_slice(b"ab"));
        assert_eq!(out, [0, 0, 0, 3, b'-', b'1', b'5', 0, 0, 0, 2, b'a', b'b']);
    }
}
