//! A child program that is spoken with while it runs, line by line.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::{CommandError, CommandErrorKind, TAIL_LINES, is_interrupted, tail, words};

/// How often a wait looks whether regtrack was asked to stop.
const LOOK: Duration = Duration::from_millis(100);

/// A running child. Dropping it ends the program.
#[derive(Debug)]
pub struct Dialog {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
    heard: Vec<String>,
    stderr: File,
    program: String,
    arguments: String,
}

impl Dialog {
    /// Starts `command` with its standard input and output in hand.
    pub fn start(command: &mut Command) -> Result<Self, CommandError> {
        let (program, arguments) = words(command);
        let error = |kind| CommandError {
            program: program.clone(),
            arguments: arguments.clone(),
            kind,
            tail: Vec::new(),
            log: None,
        };
        let output = |source| error(CommandErrorKind::Output(source));
        let stderr = tempfile::tempfile().map_err(output)?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr.try_clone().map_err(output)?);
        let mut child = command.spawn().map_err(|source| error(CommandErrorKind::Start(source)))?;
        let stdin = child.stdin.take();
        let (sender, lines) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            // Ends when the child closes its output, or when nobody listens any more.
            std::thread::spawn(move || {
                let lines = BufReader::new(stdout).lines().map_while(Result::ok);
                lines.map(|line| sender.send(line)).take_while(Result::is_ok).for_each(drop);
            });
        }
        Ok(Self { child, stdin, lines, heard: Vec::new(), stderr, program, arguments })
    }

    /// Process id of the child.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Sends one line.
    pub fn say(&mut self, line: &str) -> Result<(), CommandError> {
        let stdin = self.stdin.as_mut();
        let said = stdin.map_or(Ok(()), |stdin| writeln!(stdin, "{line}").and_then(|()| stdin.flush()));
        match said {
            Ok(()) => Ok(()),
            // Its own words about why it is gone say more than a broken pipe.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(self.early_end()),
            Err(error) => Err(self.error(CommandErrorKind::Output(error))),
        }
    }

    /// Waits for the line `wanted` and passes over those before it.
    pub fn hear(&mut self, wanted: &str, deadline: Duration) -> Result<(), CommandError> {
        let begin = Instant::now();
        loop {
            match self.next_line(begin, deadline)? {
                Some(line) if line == wanted => return Ok(()),
                Some(_) => {}
                None => return Err(self.early_end()),
            }
        }
    }

    /// Closes the child's input, waits for its end, and returns everything that it said.
    pub fn end(mut self, deadline: Duration) -> Result<String, CommandError> {
        self.stdin = None;
        let begin = Instant::now();
        while self.next_line(begin, deadline)?.is_some() {}
        let status = self.child.wait().map_err(|source| self.error(CommandErrorKind::Output(source)))?;
        if status.success() { Ok(self.heard.join("\n")) } else { Err(self.error(CommandErrorKind::Status(status))) }
    }

    /// The next line, or `None` when there will be no more.
    fn next_line(&mut self, begin: Instant, deadline: Duration) -> Result<Option<String>, CommandError> {
        loop {
            match self.lines.recv_timeout(LOOK) {
                Ok(line) => {
                    self.heard.push(line.clone());
                    return Ok(Some(line));
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if is_interrupted() => {
                    return Err(self.error(CommandErrorKind::Interrupted));
                }
                Err(RecvTimeoutError::Timeout) if begin.elapsed() > deadline => {
                    return Err(self.error(CommandErrorKind::Deadline(deadline)));
                }
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// The child has closed its output although more was to come.
    fn early_end(&mut self) -> CommandError {
        // It may have closed its output only; it is of no use either way.
        let _ = self.child.kill();
        match self.child.wait() {
            _ if is_interrupted() => self.error(CommandErrorKind::Interrupted),
            Ok(status) => self.error(CommandErrorKind::Status(status)),
            Err(source) => self.error(CommandErrorKind::Output(source)),
        }
    }

    fn error(&mut self, kind: CommandErrorKind) -> CommandError {
        let mut words = tail(&mut self.stderr);
        if words.is_empty() {
            words = self.heard.iter().filter(|line| !line.trim().is_empty()).cloned().collect();
            words.drain(..words.len().saturating_sub(TAIL_LINES));
        }
        let (program, arguments) = (self.program.clone(), self.arguments.clone());
        CommandError { program, arguments, kind, tail: words, log: None }
    }
}

impl Drop for Dialog {
    fn drop(&mut self) {
        // Fails harmlessly when it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> Dialog {
        Dialog::start(Command::new("sh").args(["-c", script])).unwrap()
    }

    #[test]
    fn lines_go_both_ways() {
        let mut dialog = shell("echo first; echo ready; read word; echo got $word; read none || echo closed");
        dialog.hear("ready", LIMIT).unwrap();
        dialog.say("this").unwrap();
        assert_eq!(dialog.end(LIMIT).unwrap(), "first\nready\ngot this\nclosed");
    }

    #[test]
    fn an_early_end_shows_the_childs_own_words() {
        let mut dialog = shell("echo out; echo why >&2; exit 3");
        let error = dialog.hear("ready", LIMIT).unwrap_err().to_string();
        assert!(error.contains("| why") && !error.contains("| out"), "{error}");
        let error = shell("echo out; exit 3").end(LIMIT).unwrap_err().to_string();
        assert!(error.contains("exit status: 3") && error.contains("| out"), "{error}");
    }

    #[test]
    fn a_dialog_ends_at_its_deadline_and_the_child_with_it() {
        let mut dialog = shell("exec sleep 30");
        let process = format!("/proc/{}/stat", dialog.pid());
        let error = dialog.hear("ready", Duration::ZERO).unwrap_err();
        assert!(matches!(error.kind(), CommandErrorKind::Deadline(_)));
        drop(dialog);
        assert!(std::fs::read(process).is_err(), "the child is gone and waited for");
    }
}
