//! Waiting for another process to fall asleep.

use std::fs;
use std::time::{Duration, Instant};

/// A backend that works on for so long after its answer is not waited for any more.
const PATIENCE: Duration = Duration::from_secs(5);

/// Between two looks; a backend under valgrind is awake for some ten times as long.
const NAP: Duration = Duration::from_micros(10);

/// Returns when process `pid` sleeps, which for a backend that has answered means that it waits for its client. At
/// once without a process, or when it is gone.
///
/// A message that arrives while the backend is still on its way to sleep spares it the way: by a race, some queries
/// would cost some hundreds of instructions less than others.
#[inline]
pub(super) fn wait_for_sleep(pid: Option<u32>) {
    let Some(pid) = pid else { return };
    let begin = Instant::now();
    while is_awake(pid) && begin.elapsed() < PATIENCE {
        // Leaves the CPU to it, should there be no other.
        std::thread::sleep(NAP);
    }
}

/// Whether the process runs, or waits for a device (proc_pid_stat(5), field 3). The name before it may hold anything.
fn is_awake(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").and_then(|(_, rest)| rest.bytes().next());
    matches!(state, Some(b'R' | b'D'))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn running_and_sleeping_are_told_apart() {
        // This thread may not be the process's first.
        let begin = Instant::now();
        let mut busy = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        assert!(is_awake(busy.id()));
        busy.kill().unwrap();
        busy.wait().unwrap();
        assert!(!is_awake(busy.id()), "it is gone");
        wait_for_sleep(Some(busy.id()));
        wait_for_sleep(None);

        let mut asleep = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        wait_for_sleep(Some(asleep.id()));
        drop(asleep.stdin.take());
        asleep.wait().unwrap();
        assert!(begin.elapsed() < PATIENCE);
    }
}
