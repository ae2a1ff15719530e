//! Which CPUs client and backend run on.

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::domain::Placement;
use crate::measure::MeasureError;

/// The CPUs of both sides; `None` leaves a side alone.
pub(super) struct Cpus {
    allowed: CpuSet,
    client: Option<CpuSet>,
    backend: Option<CpuSet>,
}

/// This thread on the client's CPU, and all that it starts meanwhile; as it was before once this is dropped.
pub(super) struct Pinned {
    before: Option<CpuSet>,
}

impl Cpus {
    /// Chooses among the CPUs that this process may use: the last ones, since the first often handles the interrupts.
    pub(super) fn choose(placement: Placement) -> Result<Self, MeasureError> {
        let allowed = sched_getaffinity(None).map_err(error)?;
        let mut cpus = (0..CpuSet::MAX_CPU).rev().filter(|cpu| allowed.is_set(*cpu));
        let mut next = || cpus.next().map(one);
        let (client, backend) = match placement {
            Placement::Free => (None, None),
            Placement::SameCpu => {
                let cpu = next();
                (cpu, cpu)
            }
            Placement::Split => {
                let (backend, client) = (next(), next());
                if client.is_none() {
                    return Err(MeasureError::OneCpu);
                }
                (client, backend)
            }
        };
        Ok(Self { allowed, client, backend })
    }

    /// Binds this thread to the client's CPU. Programs that it starts inherit that.
    pub(super) fn client(&self) -> Result<Pinned, MeasureError> {
        let Some(client) = &self.client else { return Ok(Pinned { before: None }) };
        let before = sched_getaffinity(None).map_err(error)?;
        sched_setaffinity(None, client).map_err(error)?;
        Ok(Pinned { before: Some(before) })
    }

    /// Binds a backend, or the backends that the postmaster `pid` will start: they inherit it from the moment they are
    /// born.
    pub(super) fn bind_backends(&self, pid: u32) -> Result<(), MeasureError> {
        let backend = self.backend.as_ref().unwrap_or(&self.allowed);
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        // Without a pid the call would bind this thread.
        pid.map_or(Ok(()), |pid| sched_setaffinity(Some(pid), backend).map_err(error))
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // What was allowed before is allowed still; and nobody could be told.
            let _ = sched_setaffinity(None, before);
        }
    }
}

fn one(cpu: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(cpu);
    set
}

fn error(errno: rustix::io::Errno) -> MeasureError {
    MeasureError::Placement(errno.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_gets_its_cpus_back() {
        let before = sched_getaffinity(None).unwrap();
        let cpus = Cpus::choose(Placement::SameCpu).unwrap();
        let pinned = cpus.client().unwrap();
        assert_eq!(sched_getaffinity(None).unwrap().count(), 1);
        drop(pinned);
        assert!(sched_getaffinity(None).unwrap() == before);
    }

    #[test]
    fn what_a_bound_process_starts_is_bound_too() {
        use std::io::Write as _;
        use std::process::{Command, Stdio};

        for (placement, expected) in [(Placement::SameCpu, Some(1)), (Placement::Free, None)] {
            let allowed = sched_getaffinity(None).unwrap().count();
            let mut shell = Command::new("sh")
                .args(["-c", "read go; grep Cpus_allowed: /proc/self/status"])
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            Cpus::choose(placement).unwrap().bind_backends(shell.id()).unwrap();
            writeln!(shell.stdin.take().unwrap(), "go").unwrap();
            let text = String::from_utf8(shell.wait_with_output().unwrap().stdout).unwrap();
            let mask = text.trim().strip_prefix("Cpus_allowed:").unwrap().trim().replace(',', "");
            let cpus = mask.chars().map(|digit| digit.to_digit(16).unwrap().count_ones()).sum::<u32>();
            assert_eq!(cpus, expected.unwrap_or(allowed), "{placement}: {text}");
        }
    }

    #[test]
    fn split_takes_two_different_cpus() {
        match Cpus::choose(Placement::Split) {
            Ok(cpus) => assert!(cpus.client.unwrap() != cpus.backend.unwrap()),
            Err(error) => assert!(matches!(error, MeasureError::OneCpu)),
        }
    }
}
