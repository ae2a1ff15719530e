//! A web server for tests: gives prepared answers in turn, and remembers what it was asked.

use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// An answer: the status, further header lines, the length that it announces if not its own, the body.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    status: &'static str,
    headers: String,
    announced: Option<usize>,
    body: Vec<u8>,
}

impl Answer {
    pub(crate) fn new(status: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status, headers: String::new(), announced: None, body: body.into() }
    }

    pub(crate) fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::new("200 OK", body)
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.extend([name, ": ", value, "\r\n"]);
        self
    }

    /// Announces a longer body than it sends.
    pub(crate) fn announces(mut self, length: usize) -> Self {
        self.announced = Some(length);
        self
    }
}

/// What a request was: its path, and its header lines in lower case.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) path: String,
    headers: Vec<String>,
}

impl Question {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

pub(crate) type Questions = Arc<Mutex<Vec<Question>>>;

/// A server that chooses its answer by the number of the request and its path, as long as there is one; its address,
/// and what it was asked.
pub(crate) fn serve(answer: impl Fn(usize, &str) -> Option<Answer> + Send + 'static) -> (String, Questions) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    let questions = Questions::default();
    let log = Arc::clone(&questions);
    std::thread::spawn(move || {
        for number in 0.. {
            let (mut stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
            // A client that has given up may connect and go away without a word.
            let Some(path) = lines.next().and_then(|line| Some(line.split(' ').nth(1)?.to_owned())) else { continue };
            let headers = lines.take_while(|line| !line.is_empty()).map(|line| line.to_lowercase()).collect();
            log.lock().unwrap().push(Question { path: path.clone(), headers });
            let Some(Answer { status, headers, announced, body }) = answer(number, &path) else { break };
            let length = announced.unwrap_or(body.len());
            let head = format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n");
            // The client may have gone away.
            let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        }
    });
    (address, questions)
}

/// A server that gives these answers in turn, and none after them.
pub(crate) fn in_turn(answers: Vec<Answer>) -> (String, Questions) {
    serve(move |number, _| answers.get(number).cloned())
}
