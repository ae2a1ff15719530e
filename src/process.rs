//! Runs a child program with a deadline and keeps what it said, or speaks with it while it runs. Knows no program by
//! name.

mod dialog;

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

pub use dialog::Dialog;

/// Lines of a child's output that an error shows.
const TAIL_LINES: usize = 15;

/// Bytes from the end of a log that are searched for those lines.
const TAIL_BYTES: u64 = 16 * 1024;

/// A child program that could not be run or did not succeed.
#[derive(Debug, thiserror::Error)]
pub struct CommandError {
    program: String,
    arguments: String,
    kind: CommandErrorKind,
    tail: Vec<String>,
    log: Option<PathBuf>,
}

/// How it failed.
#[derive(Debug)]
pub enum CommandErrorKind {
    /// It could not be started.
    Start(io::Error),
    /// It ended with a failure.
    Status(ExitStatus),
    /// It was still running at its deadline and was killed.
    Deadline(Duration),
    /// regtrack was asked to stop while it ran.
    Interrupted,
    /// Its output could not be written or read.
    Output(io::Error),
}

/// Set when regtrack is asked to stop; children are ended then.
static INTERRUPTED: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// The flag that a signal handler sets. One for the whole process, because signals are.
pub fn interrupt_flag() -> Arc<AtomicBool> {
    Arc::clone(INTERRUPTED.get_or_init(Arc::default))
}

/// Whether regtrack was asked to stop.
#[must_use]
pub fn is_interrupted() -> bool {
    INTERRUPTED.get().is_some_and(|flag| flag.load(Ordering::Relaxed))
}

impl CommandError {
    /// How it failed.
    #[must_use]
    pub fn kind(&self) -> &CommandErrorKind {
        &self.kind
    }

    /// Whether the program does not exist on this machine.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        matches!(&self.kind, CommandErrorKind::Start(error) if error.kind() == io::ErrorKind::NotFound)
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let command = if self.arguments.is_empty() {
            self.program.clone()
        } else {
            format!("{} {}", self.program, self.arguments)
        };
        match &self.kind {
            CommandErrorKind::Start(error) if error.kind() == io::ErrorKind::NotFound => {
                write!(f, "the program '{}' is not on this machine", self.program)?;
            }
            CommandErrorKind::Start(error) => write!(f, "could not start '{command}': {error}")?,
            CommandErrorKind::Status(status) => write!(f, "'{command}' failed ({status})")?,
            CommandErrorKind::Deadline(limit) => {
                write!(f, "'{command}' was still running after {} s and was stopped", limit.as_secs())?;
            }
            CommandErrorKind::Interrupted => write!(f, "'{command}' was interrupted")?,
            CommandErrorKind::Output(error) => write!(f, "could not handle the output of '{command}': {error}")?,
        }
        f.write_str(&quoted(&self.tail))?;
        if let Some(log) = &self.log {
            write!(f, "\n    full log: {}", log.display())?;
        }
        Ok(())
    }
}

/// Runs `command` to its end and returns its standard output.
///
/// Both output streams go to files, so a chatty child never blocks on a full pipe. With `log`, the
/// child's standard error is appended there and the error names that file.
pub fn run(command: &mut Command, deadline: Duration, log: Option<&Path>) -> Result<String, CommandError> {
    run_to_end(command, deadline, log, Child::kill)
}

/// [`run`] for a program with children of its own, such as make: they get a process group, and all of it is ended with
/// the program. The group is asked first, so that a make can remove what it made in part.
pub fn run_group(command: &mut Command, deadline: Duration, log: Option<&Path>) -> Result<String, CommandError> {
    run_to_end(command.process_group(0), deadline, log, end_group)
}

/// Asks a child's process group to end, and after some seconds ends it.
fn end_group(child: &mut Child) -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let Some(group) = group else { return child.kill() };
    let _ = kill_process_group(group, Signal::TERM);
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE && child.try_wait()?.is_none() {
        std::thread::sleep(Duration::from_millis(20));
    }
    // Also those that outlived their leader.
    let _ = kill_process_group(group, Signal::KILL);
    Ok(())
}

fn run_to_end(
    command: &mut Command,
    deadline: Duration,
    log: Option<&Path>,
    end: impl FnOnce(&mut Child) -> io::Result<()>,
) -> Result<String, CommandError> {
    let (program, arguments) = words(command);
    let error = move |kind, tail| CommandError {
        program: program.clone(),
        arguments: arguments.clone(),
        kind,
        tail,
        log: log.map(Path::to_owned),
    };
    let output_error = |source: io::Error| error(CommandErrorKind::Output(source), Vec::new());

    let stdout = tempfile::tempfile().map_err(output_error)?;
    let stderr = match log {
        Some(path) => File::options().create(true).append(true).read(true).open(path),
        None => tempfile::tempfile(),
    }
    .map_err(output_error)?;
    let mut read_stdout = stdout.try_clone().map_err(output_error)?;
    let mut read_stderr = stderr.try_clone().map_err(output_error)?;

    command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
    let mut child = command.spawn().map_err(|source| error(CommandErrorKind::Start(source), Vec::new()))?;
    let status = wait(&mut child, deadline, end).map_err(output_error)?;
    match status {
        Some(status) if status.success() => {
            let mut text = String::new();
            let read = read_stdout.rewind().and_then(|()| read_stdout.read_to_string(&mut text));
            read.map_err(output_error)?;
            Ok(text)
        }
        _ if is_interrupted() => Err(error(CommandErrorKind::Interrupted, Vec::new())),
        Some(status) => {
            let mut lines = tail(&mut read_stderr);
            if lines.is_empty() {
                lines = tail(&mut read_stdout);
            }
            Err(error(CommandErrorKind::Status(status), lines))
        }
        None => Err(error(CommandErrorKind::Deadline(deadline), tail(&mut read_stderr))),
    }
}

/// Program and arguments of a command as text for messages.
fn words(command: &Command) -> (String, String) {
    let arguments: Vec<_> = command.get_args().map(|arg| arg.to_string_lossy()).collect();
    (command.get_program().to_string_lossy().into_owned(), arguments.join(" "))
}

/// Waits for `child` until the deadline or an interruption; past that ends it by `end` and returns `None`.
fn wait(
    child: &mut Child,
    deadline: Duration,
    end: impl FnOnce(&mut Child) -> io::Result<()>,
) -> io::Result<Option<ExitStatus>> {
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() > deadline || is_interrupted() {
            end(child)?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// The last lines of a file, blank ones left out; empty when it cannot be read.
fn tail(file: &mut File) -> Vec<String> {
    let mut read = || -> io::Result<String> {
        let length = file.seek(SeekFrom::End(0))?;
        file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    };
    let text = read().unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(TAIL_LINES)..].iter().map(|line| (*line).to_owned()).collect()
}

/// The last lines of a log file, for errors about long-running children.
#[must_use]
pub fn log_tail(path: &Path) -> Vec<String> {
    File::open(path).map(|mut file| tail(&mut file)).unwrap_or_default()
}

/// Log lines as they stand below a message, each on a line of its own.
#[must_use]
pub fn quoted(lines: &[String]) -> String {
    lines.iter().flat_map(|line| ["\n    | ", line]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn standard_output_is_returned() {
        assert_eq!(run(Command::new("echo").arg("hello"), LIMIT, None).unwrap(), "hello\n");
    }

    #[test]
    fn a_failure_shows_command_status_and_last_lines() {
        let error = run(Command::new("sh").args(["-c", "echo broken >&2; exit 3"]), LIMIT, None).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("exit status: 3") && text.contains("| broken"), "{text}");
    }

    #[test]
    fn a_missing_program_is_told_apart() {
        let error = run(&mut Command::new("regtrack-no-such-program"), LIMIT, None).unwrap_err();
        assert!(error.is_not_found());
        assert!(error.to_string().contains("is not on this machine"));
    }

    #[test]
    fn a_child_is_stopped_at_its_deadline() {
        let error = run(Command::new("sleep").arg("30"), Duration::from_millis(50), None).unwrap_err();
        assert!(matches!(error.kind(), CommandErrorKind::Deadline(_)));
    }
}
