//! A tap on the wire: stands between one client and a server, passes every byte on, and reads what the
//! client sent.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

/// A tap that waits for its client, or listens to it.
pub(crate) struct Tap {
    port: u16,
    bytes: JoinHandle<io::Result<Vec<u8>>>,
}

/// What a client sent, apart from the connection's beginning and end.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Statements prepared, in order.
    pub(crate) prepared: Vec<Preparation>,
    /// Their names, in order.
    pub(crate) names: Vec<String>,
    /// Statements executed, in order.
    pub(crate) executed: Vec<Execution>,
}

/// A Parse message, without the statement's name: sysbench draws them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Preparation {
    /// Its text.
    pub(crate) sql: String,
    /// Type OIDs of the parameters.
    pub(crate) types: Vec<i32>,
}

/// One statement executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Execution {
    /// The text as it was prepared, or as it was sent.
    pub(crate) sql: String,
    /// Parameters as bound.
    pub(crate) params: Vec<String>,
    /// How it was sent.
    pub(crate) envelope: Envelope,
}

/// How an execution was sent: everything about its messages but text and parameters.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Envelope {
    /// Types of the messages, in order: `BDES`, or `Q`.
    pub(crate) messages: String,
    /// Formats of parameters.
    pub(crate) param_formats: Vec<i16>,
    /// Formats of results.
    pub(crate) result_formats: Vec<i16>,
}

impl Tap {
    /// A tap before the server on `server_port`, for one connection.
    pub(crate) fn before(server_port: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        Self { port, bytes: thread::spawn(move || pass_on(&listener, server_port)) }
    }

    /// Where the client has to connect.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Everything that the client sent, once it has disconnected.
    pub(crate) fn sent(self) -> Sent {
        let bytes = self.bytes.join().unwrap().unwrap();
        Sent::read(&bytes)
    }
}

/// Passes bytes on both ways until the client disconnects, and returns what it sent.
fn pass_on(listener: &TcpListener, server_port: u16) -> io::Result<Vec<u8>> {
    let (mut client, _) = listener.accept()?;
    let mut server = TcpStream::connect((Ipv4Addr::LOCALHOST, server_port))?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
    let answers = thread::spawn(move || io::copy(&mut from_server, &mut to_client));

    let mut sent = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let length = client.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        sent.extend_from_slice(&buffer[..length]);
        server.write_all(&buffer[..length])?;
    }
    server.shutdown(Shutdown::Write)?;
    // A client that is gone cannot take the server's last words.
    let _ = answers.join();
    Ok(sent)
}

impl Sent {
    fn read(bytes: &[u8]) -> Self {
        let mut rest = Message(skip_startup(bytes));
        let mut sent = Self::default();
        let mut texts = HashMap::new();
        let mut current: Option<Execution> = None;
        while !rest.0.is_empty() {
            let kind = char::from(rest.take::<1>()[0]);
            let mut body = rest.body();
            if let Some(execution) = &mut current {
                execution.envelope.messages.push(kind);
            }
            match kind {
                'P' => {
                    let (name, sql) = (body.text(), body.text());
                    let types = body.list(Message::long);
                    sent.names.push(name.clone());
                    texts.insert(name, sql.clone());
                    sent.prepared.push(Preparation { sql, types });
                }
                'B' => {
                    let (_portal, name) = (body.text(), body.text());
                    let param_formats = body.list(Message::short);
                    let params = body.list(Message::value);
                    let result_formats = body.list(Message::short);
                    let envelope = Envelope { messages: "B".to_owned(), param_formats, result_formats };
                    current = Some(Execution { sql: texts[&name].clone(), params, envelope });
                }
                'S' => sent.executed.extend(current.take()),
                'Q' => {
                    let envelope = Envelope { messages: "Q".to_owned(), ..Envelope::default() };
                    sent.executed.push(Execution { sql: body.text(), params: Vec::new(), envelope });
                }
                // Describe and Execute are in the envelope; Terminate ends all.
                'D' | 'E' | 'X' => {}
                other => panic!("the client sent a message '{other}'"),
            }
        }
        sent
    }
}

/// What follows the messages that have no type: requests for encryption, which the server declines,
/// and the one that opens the session.
fn skip_startup(bytes: &[u8]) -> &[u8] {
    const VERSION_3: i32 = 3 << 16;
    let mut rest = Message(bytes);
    while rest.body().long() != VERSION_3 {}
    rest.0
}

/// Bytes that are still to be read.
struct Message<'a>(&'a [u8]);

impl<'a> Message<'a> {
    fn take<const N: usize>(&mut self) -> [u8; N] {
        let (head, rest) = self.0.split_first_chunk().expect("a complete message");
        self.0 = rest;
        *head
    }

    fn bytes(&mut self, length: usize) -> &'a [u8] {
        let (head, rest) = self.0.split_at(length);
        self.0 = rest;
        head
    }

    fn short(&mut self) -> i16 {
        i16::from_be_bytes(self.take())
    }

    fn long(&mut self) -> i32 {
        i32::from_be_bytes(self.take())
    }

    /// What stands after a length that counts itself.
    fn body(&mut self) -> Self {
        let length = usize::try_from(self.long()).unwrap() - 4;
        Message(self.bytes(length))
    }

    /// A text that a zero ends.
    fn text(&mut self) -> String {
        let length = self.0.iter().position(|byte| *byte == 0).expect("a zero at the end of a text");
        let text = String::from_utf8(self.bytes(length).to_vec()).unwrap();
        self.take::<1>();
        text
    }

    /// A parameter's value.
    fn value(&mut self) -> String {
        let length = usize::try_from(self.long()).expect("no parameter is NULL");
        String::from_utf8(self.bytes(length).to_vec()).unwrap()
    }

    /// As many things as a count says.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> T) -> Vec<T> {
        (0..self.short()).map(|_| item(self)).collect()
    }
}
