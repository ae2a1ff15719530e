//! A directory on a web server of this machine, for as long as it is held.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

pub(super) struct Served {
    port: u16,
    over: Arc<AtomicBool>,
    server: Option<JoinHandle<()>>,
}

impl Served {
    pub(super) fn new(directory: &Path) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let over = Arc::new(AtomicBool::new(false));
        let (seen, directory) = (Arc::clone(&over), directory.to_owned());
        let server = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                let directory = directory.clone();
                // A browser opens connections in advance: one must not keep the next one waiting.
                std::thread::spawn(move || stream.ok().and_then(|stream| answer(stream, &directory)));
            }
        });
        Self { port, over, server: Some(server) }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.port)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        self.server.take().map(JoinHandle::join);
    }
}

/// One request per connection.
fn answer(mut stream: TcpStream, directory: &Path) -> Option<()> {
    let mut request = String::new();
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    reader.read_line(&mut request).ok()?;
    let mut line = String::new();
    while reader.read_line(&mut line).ok()? > 2 {
        line.clear();
    }
    let path = request.split(' ').nth(1)?.trim_start_matches('/').to_owned();
    let file: PathBuf = directory.join(if path.is_empty() { "index.html" } else { &path });
    let kind = match file.extension()?.to_str()? {
        "html" => "text/html",
        "css" => "text/css",
        "js" => "text/javascript",
        "svg" => "image/svg+xml",
        _ => "application/octet-stream",
    };
    let (status, body) = fs::read(&file).map_or(("404 Not Found", Vec::new()), |body| ("200 OK", body));
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).ok()?;
    stream.write_all(&body).ok()
}
