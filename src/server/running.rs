//! A running server: started on loopback with a port of its own, watched, stopped.

use std::ffi::OsString;
use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use sha2::{Digest, Sha256};

use super::{Cluster, SUPERUSER, ServerError, brake};
use crate::domain::{Brake, Endpoint, Major, Transport, Version};
use crate::process::log_tail;
use crate::sql::{Connection, SqlError};

/// How long a start may take; crash recovery after an interrupted write step is part of it.
const START_DEADLINE: Duration = Duration::from_secs(900);
/// How long a fast shutdown may take: it writes a checkpoint.
const STOP_DEADLINE: Duration = Duration::from_secs(600);
/// How long an immediate shutdown may take.
const QUIT_DEADLINE: Duration = Duration::from_secs(30);

/// Other programs may take a chosen port before the server binds it.
const PORT_ATTEMPTS: u32 = 5;

/// Database that initdb makes.
const DATABASE: &str = "postgres";

/// The port that PostgreSQL uses by default. Never used, so that a mistake cannot reach it.
pub const DEFAULT_PORT: u16 = 5432;

/// First major whose servers can do without a Unix-domain socket.
const SOCKETLESS_SINCE: Major = Major::new(9, 3);

/// `sun_path` holds 108 bytes; the socket's own name takes part of it.
const LONGEST_SOCKET_DIR: usize = 85;

/// How a server is started and made reachable.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StartOptions {
    /// A fixed port instead of a free one.
    pub port: Option<u16>,
    /// Measure over a Unix-domain socket instead of TCP.
    pub unix_socket: bool,
    /// A slowdown that is planted in it.
    pub brake: Option<Brake>,
    /// A program with its arguments that the server's own program and arguments are appended to, such as valgrind.
    pub under: Vec<OsString>,
}

impl StartOptions {
    /// Fails when the port that was asked for is taken, or is PostgreSQL's own.
    pub fn check(&self) -> Result<(), ServerError> {
        self.port.map_or(Ok(()), |port| check_port(port).map(drop))
    }
}

/// A running server. Dropping it stops it at once; [`Server::stop`] does it properly.
#[derive(Debug)]
pub struct Server {
    cluster: Option<Cluster>,
    child: Child,
    endpoint: Endpoint,
    log: PathBuf,
}

impl Cluster {
    /// Starts a server and waits until it takes connections. Its output is appended to `log`.
    pub fn start(self, options: &StartOptions, log: &Path) -> Result<Server, ServerError> {
        let socket_dir = self.socket_dir(options.unix_socket);
        if let Some(directory) = socket_dir.as_ref().filter(|directory| !directory.exists()) {
            self.account.create_dir(directory)?;
        }
        let environment = match options.brake {
            Some(brake) => brake::environment(brake, &self.directory)?.to_vec(),
            None => Vec::new(),
        };
        let mut attempt = 1;
        loop {
            let port = options.port.map_or_else(free_port, check_port)?;
            let child = self.spawn(port, socket_dir.as_deref(), &options.under, &environment, log)?;
            let transport = match &socket_dir {
                Some(directory) if options.unix_socket => Transport::Unix(directory.clone()),
                _ => Transport::Tcp,
            };
            let endpoint = Endpoint { transport, port, user: SUPERUSER.to_owned(), database: DATABASE.to_owned() };
            let mut server = Server { cluster: None, child, endpoint, log: log.to_owned() };
            match server.wait_until_ready(self.build.version) {
                Ok(()) => {
                    if options.brake.is_some() {
                        brake::check_loaded(server.pid())?;
                    }
                    server.cluster = Some(self);
                    return Ok(server);
                }
                Err(ServerError::Died { tail, .. })
                    if options.port.is_none() && attempt < PORT_ATTEMPTS && lost_port(&tail) =>
                {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn spawn(
        &self,
        port: u16,
        socket_dir: Option<&Path>,
        under: &[OsString],
        environment: &[(&str, String)],
        log: &Path,
    ) -> Result<Child, ServerError> {
        let open = || -> std::io::Result<(File, File)> {
            let file = File::options().create(true).append(true).open(log)?;
            Ok((file.try_clone()?, file))
        };
        let (stdout, stderr) = open().map_err(|source| ServerError::Directory { path: log.to_owned(), source })?;
        let postgres = self.build.program("postgres");
        let mut command = match under {
            [] => self.account.command(&postgres, "INT"),
            [program, arguments @ ..] => {
                let mut command = self.account.command(Path::new(program), "INT");
                command.args(arguments).arg(&postgres);
                command
            }
        };
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        command.arg("-D").arg(&self.directory);
        command.arg("-p").arg(port.to_string());
        command.args(["-c", "listen_addresses=127.0.0.1"]);
        // An empty name means no socket.
        command.arg("-k").arg(socket_dir.unwrap_or(Path::new("")));
        command.stdin(std::process::Stdio::null()).stdout(stdout).stderr(stderr);
        command.spawn().map_err(|source| ServerError::Spawn { version: self.build.version, source })
    }

    /// Where the server's socket goes, if it has one: only when it is asked for, and before 9.3, where
    /// there is no way to do without.
    fn socket_dir(&self, wanted: bool) -> Option<PathBuf> {
        let needed = wanted || self.build.version.major < SOCKETLESS_SINCE;
        needed.then(|| socket_dir(&self.directory))
    }
}

impl Server {
    /// How to reach it.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Process id of the postmaster, whose children the backends are.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// An administrative connection.
    pub fn connect(&self) -> Result<Connection, SqlError> {
        Connection::open(&self.endpoint)
    }

    /// Fails with the end of the log when the server has ended by itself.
    pub fn check_alive(&mut self) -> Result<(), ServerError> {
        match self.child.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(ServerError::Died {
                version: self.version(),
                status: status.to_string(),
                tail: log_tail(&self.log),
                log: self.log.clone(),
            }),
            Err(source) => Err(ServerError::Spawn { version: self.version(), source }),
        }
    }

    /// Stops the server (fast shutdown, with a checkpoint) and gives its cluster back.
    pub fn stop(mut self) -> Result<Cluster, ServerError> {
        self.shut_down(Signal::INT, STOP_DEADLINE)?;
        self.remove_socket_dir();
        // `cluster` is set by `start` before the server is handed out.
        Ok(self.cluster.take().unwrap_or_else(|| unreachable!("a started server has its cluster")))
    }

    fn version(&self) -> Version {
        self.cluster.as_ref().map_or(Version::release(Major::new(0, 0), 0), |cluster| cluster.build.version)
    }

    fn wait_until_ready(&mut self, version: Version) -> Result<(), ServerError> {
        let start = Instant::now();
        loop {
            if let Ok(Some(status)) = self.child.try_wait() {
                let (status, tail, log) = (status.to_string(), log_tail(&self.log), self.log.clone());
                return Err(ServerError::Died { version, status, tail, log });
            }
            let waited_out = start.elapsed() > START_DEADLINE;
            match self.connect() {
                Ok(_) => return Ok(()),
                Err(error) if error.is_not_ready() && !waited_out => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(source) => return Err(ServerError::NotReady { version, source, log: self.log.clone() }),
            }
        }
    }

    fn shut_down(&mut self, signal: Signal, deadline: Duration) -> Result<(), ServerError> {
        let version = self.version();
        for (signal, deadline) in [(signal, deadline), (Signal::QUIT, QUIT_DEADLINE), (Signal::KILL, QUIT_DEADLINE)] {
            if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
                // The child may have ended meanwhile; the wait below tells.
                let _ = rustix::process::kill_process(pid, signal);
            }
            let start = Instant::now();
            while start.elapsed() < deadline {
                match self.child.try_wait() {
                    Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                    Ok(Some(_)) => return Ok(()),
                    Err(source) => return Err(ServerError::Spawn { version, source }),
                }
            }
        }
        Err(ServerError::WontStop { version, pid: self.child.id() })
    }

    fn remove_socket_dir(&self) {
        if let Some(cluster) = &self.cluster {
            remove_socket_dir(&cluster.directory);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            // Errors have nowhere to go here; the parent-death signal is the last net.
            let _ = self.shut_down(Signal::QUIT, QUIT_DEADLINE);
        }
        self.remove_socket_dir();
    }
}

/// The directory for the socket of the cluster in `data`: beside it, or below /tmp when that path is too
/// long for a socket's address. The name depends on `data` only, so that whoever cleans up finds it.
fn socket_dir(data: &Path) -> PathBuf {
    let beside = data.with_extension("sock");
    if beside.as_os_str().len() <= LONGEST_SOCKET_DIR {
        return beside;
    }
    let hash = format!("{:x}", Sha256::digest(data.as_os_str().as_encoded_bytes()));
    std::env::temp_dir().join(format!("regtrack-{}.sock", &hash[..16]))
}

/// Removes the directory that a server of the cluster in `data` may have had for its socket.
pub fn remove_socket_dir(data: &Path) {
    // Fails harmlessly when there is none, or when something else lies in it.
    let _ = fs::remove_dir(socket_dir(data));
}

/// Stops a server that a killed regtrack left in `directory`. Only a process whose command line
/// names exactly this data directory is touched.
pub fn stop_leftover(directory: &Path) -> Result<(), ServerError> {
    let Ok(text) = fs::read_to_string(directory.join("postmaster.pid")) else { return Ok(()) };
    let Some(raw) = process_in(&text) else { return Ok(()) };
    let Some(pid) = Pid::from_raw(raw) else { return Ok(()) };
    for (signal, deadline) in
        [(Signal::INT, STOP_DEADLINE), (Signal::QUIT, QUIT_DEADLINE), (Signal::KILL, QUIT_DEADLINE)]
    {
        let start = Instant::now();
        let mut sent = false;
        while start.elapsed() < deadline {
            if !runs_in(raw, directory) {
                return Ok(());
            }
            if !sent {
                let _ = rustix::process::kill_process(pid, signal);
                sent = true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Err(ServerError::Leftover { directory: directory.to_owned(), pid: raw.unsigned_abs() })
}

/// The process that a `postmaster.pid` names. While initdb works it is that of a server without a postmaster, with a
/// minus before it (`CreateLockFile` in `miscinit.c`).
fn process_in(postmaster_pid: &str) -> Option<i32> {
    let number = postmaster_pid.lines().next()?.trim();
    let number: u32 = number.strip_prefix('-').unwrap_or(number).parse().ok()?;
    i32::try_from(number).ok()
}

/// Whether process `pid` is a server on the data directory `directory`.
fn runs_in(pid: i32, directory: &Path) -> bool {
    let Ok(command_line) = fs::read(format!("/proc/{pid}/cmdline")) else { return false };
    let wanted = directory.as_os_str().as_encoded_bytes();
    command_line.split(|byte| *byte == 0).any(|argument| argument == wanted)
}

fn free_port() -> Result<u16, ServerError> {
    loop {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(ServerError::NoPort)?;
        let port = listener.local_addr().map_err(ServerError::NoPort)?.port();
        if port != DEFAULT_PORT {
            return Ok(port);
        }
    }
}

/// A port that was asked for has to be free, and is never PostgreSQL's own.
fn check_port(port: u16) -> Result<u16, ServerError> {
    if port == DEFAULT_PORT {
        return Err(ServerError::DefaultPort);
    }
    match TcpListener::bind((Ipv4Addr::LOCALHOST, port)) {
        Ok(_) => Ok(port),
        Err(source) => Err(ServerError::PortInUse { port, source }),
    }
}

fn lost_port(tail: &[String]) -> bool {
    tail.iter().any(|line| line.contains("could not bind"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_of_a_lock_file_is_found_also_while_initdb_works() {
        assert_eq!(process_in("4711\n/data\n"), Some(4711));
        assert_eq!(process_in("-4711\n/data\n"), Some(4711));
        assert_eq!(process_in("--4711"), None);
        assert_eq!(process_in(""), None);
        assert_eq!(process_in("postmaster"), None);
    }
}
