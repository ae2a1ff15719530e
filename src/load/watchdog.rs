//! Notices a server that hangs, at no cost to the loop that waits for it.
//!
//! A receive with a timeout arms a timer of the kernel each time, which costs the shortest queries several percent of
//! the client's CPU time. So the loop waits without one. It counts its steps in a number that nobody else writes, and a
//! thread that sleeps nearly always shuts the socket down when the number stands still for too long.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the watchdog looks within its deadline. It acts late by one look at most.
const LOOKS: u32 = 8;

/// The steps of one connection: odd while an answer is awaited, even while nothing is.
#[derive(Debug, Default)]
pub(super) struct Steps {
    count: AtomicU64,
    is_given_up: AtomicBool,
}

impl Steps {
    /// A request has been sent, or its answer is complete.
    pub(super) fn turn(&self) {
        self.add(1);
    }

    /// A part of an answer has come.
    pub(super) fn advance(&self) {
        self.add(2);
    }

    /// Whether the watchdog has shut the connection down.
    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
    }

    /// One thread adds, so that load and store need no lock of the bus.
    fn add(&self, steps: u64) {
        self.count.store(self.count.load(Ordering::Relaxed).wrapping_add(steps), Ordering::Relaxed);
    }

    fn look(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }
}

/// A thread that gives a connection up. Dropping it ends the thread.
#[derive(Debug)]
pub(super) struct Watchdog {
    leash: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Watches `steps`, and calls `shut_down` when an answer makes none for `deadline`.
    pub(super) fn watch(
        steps: Arc<Steps>,
        deadline: Duration,
        shut_down: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let (leash, end) = mpsc::channel::<()>();
        let watch = move || {
            let (mut seen, mut looks) = (steps.look(), 0);
            while end.recv_timeout(deadline / LOOKS) == Err(RecvTimeoutError::Timeout) {
                let now = steps.look();
                let is_waiting = now % 2 == 1;
                looks = if is_waiting && now == seen { looks + 1 } else { 0 };
                seen = now;
                if looks >= LOOKS {
                    steps.is_given_up.store(true, Ordering::Release);
                    return shut_down();
                }
            }
        };
        let thread = std::thread::Builder::new().name("regtrack-watchdog".to_owned()).spawn(watch)?;
        Ok(Self { leash: Some(leash), thread: Some(thread) })
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.leash = None;
        if let Some(thread) = self.thread.take() {
            // It holds nothing whose state could be broken.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    const DEADLINE: Duration = Duration::from_millis(80);

    fn watched(steps: &Arc<Steps>) -> (Watchdog, Arc<AtomicBool>) {
        let is_shut = Arc::new(AtomicBool::new(false));
        let flag = is_shut.clone();
        let watchdog = Watchdog::watch(steps.clone(), DEADLINE, move || flag.store(true, Ordering::Release)).unwrap();
        (watchdog, is_shut)
    }

    #[test]
    fn an_answer_that_does_not_come_is_given_up() {
        let steps = Arc::new(Steps::default());
        let (_watchdog, is_shut) = watched(&steps);
        steps.turn();
        let begin = Instant::now();
        while !is_shut.load(Ordering::Acquire) {
            assert!(begin.elapsed() < DEADLINE * 100, "still waiting");
            std::thread::sleep(Duration::from_millis(1));
        }
        assert!(begin.elapsed() >= DEADLINE && steps.is_given_up());
    }

    #[test]
    fn neither_rest_nor_progress_is_given_up() {
        let steps = Arc::new(Steps::default());
        let (_watchdog, is_shut) = watched(&steps);
        std::thread::sleep(DEADLINE * 3);
        steps.turn();
        for _ in 0..60 {
            steps.advance();
            std::thread::sleep(Duration::from_millis(4));
        }
        steps.turn();
        assert!(!is_shut.load(Ordering::Acquire) && !steps.is_given_up());
    }

    #[test]
    fn the_thread_ends_with_its_connection() {
        let steps = Arc::new(Steps::default());
        let begin = Instant::now();
        drop(Watchdog::watch(steps, Duration::from_secs(3600), || ()).unwrap());
        assert!(begin.elapsed() < Duration::from_secs(10));
    }
}
