//! CPU time and context switches from procfs.

use std::fs;

/// CPU use of one process so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::measure) struct BackendCpu {
    /// Time on a CPU in nanoseconds.
    pub(in crate::measure) cpu_ns: Option<u64>,
    /// Time ready to run but waiting for a CPU, in nanoseconds.
    pub(in crate::measure) wait_ns: Option<u64>,
    /// Times it gave the CPU up.
    pub(in crate::measure) voluntary_switches: Option<u64>,
    /// Times the CPU was taken from it.
    pub(in crate::measure) involuntary_switches: Option<u64>,
}

impl BackendCpu {
    /// Reads the counters of process `pid`.
    pub(in crate::measure) fn read(pid: u32) -> Self {
        let (cpu_ns, wait_ns) = schedstat(&format!("/proc/{pid}/schedstat")).unzip();
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        Self {
            cpu_ns,
            wait_ns,
            voluntary_switches: status_field(&status, "voluntary_ctxt_switches:"),
            involuntary_switches: status_field(&status, "nonvoluntary_ctxt_switches:"),
        }
    }

    /// Reads the counters of several processes and adds them up. What one lacks, the sum lacks.
    pub(in crate::measure) fn read_all(pids: &[u32]) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        let add = |a: Self, b: Self| Self {
            cpu_ns: sum(a.cpu_ns, b.cpu_ns),
            wait_ns: sum(a.wait_ns, b.wait_ns),
            voluntary_switches: sum(a.voluntary_switches, b.voluntary_switches),
            involuntary_switches: sum(a.involuntary_switches, b.involuntary_switches),
        };
        pids.iter().copied().map(Self::read).reduce(add).unwrap_or_default()
    }

    /// What was used between `self` and `later`.
    pub(in crate::measure) fn until(self, later: Self) -> Self {
        let difference = |a: Option<u64>, b: Option<u64>| b?.checked_sub(a?);
        Self {
            cpu_ns: difference(self.cpu_ns, later.cpu_ns),
            wait_ns: difference(self.wait_ns, later.wait_ns),
            voluntary_switches: difference(self.voluntary_switches, later.voluntary_switches),
            involuntary_switches: difference(self.involuntary_switches, later.involuntary_switches),
        }
    }
}

/// CPU time of the calling thread so far, in nanoseconds: the timed loop runs on it.
pub(in crate::measure) fn client_cpu_ns() -> Option<u64> {
    schedstat("/proc/thread-self/schedstat").map(|(cpu_ns, _)| cpu_ns)
}

/// CPU time of all threads of process `pid` so far, in nanoseconds. Threads that have ended are not in it.
pub(in crate::measure) fn process_cpu_ns(pid: u32) -> Option<u64> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
    // A thread may end between being listed and being read.
    let of = |thread: fs::DirEntry| schedstat(&thread.path().join("schedstat").to_string_lossy()).map(|(cpu, _)| cpu);
    threads.flatten().filter_map(of).reduce(|sum, cpu| sum + cpu)
}

/// Time on a CPU and time waiting for one (Linux: Documentation/scheduler/sched-stats).
fn schedstat(path: &str) -> Option<(u64, u64)> {
    let text = fs::read_to_string(path).ok()?;
    let mut numbers = text.split_ascii_whitespace().map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

fn status_field(status: &str, name: &str) -> Option<u64> {
    status.lines().find_map(|line| line.strip_prefix(name)).and_then(|value| value.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_told_apart_by_their_whole_name() {
        let status = "voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(status_field(status, "voluntary_ctxt_switches:"), Some(12));
        assert_eq!(status_field(status, "nonvoluntary_ctxt_switches:"), Some(3));
        assert_eq!(status_field(status, "VmRSS:"), None);
    }

    #[test]
    fn a_process_is_all_its_threads() {
        let thread = client_cpu_ns().unwrap();
        let process = process_cpu_ns(std::process::id()).unwrap();
        assert!(process >= thread, "{process} {thread}");
        assert_eq!(process_cpu_ns(u32::MAX), None);
    }

    #[test]
    fn several_processes_are_added_up() {
        let own = std::process::id();
        let (one, two) = (BackendCpu::read(own), BackendCpu::read_all(&[own, own]));
        assert!(two.cpu_ns.unwrap() >= 2 * one.cpu_ns.unwrap());
        assert_eq!(BackendCpu::read_all(&[own, u32::MAX]).cpu_ns, None);
        assert_eq!(BackendCpu::read_all(&[]), BackendCpu::default());
    }

    #[test]
    fn what_is_missing_stays_missing() {
        let gone = BackendCpu::read(u32::MAX);
        assert_eq!(gone, BackendCpu::default());
        let some = BackendCpu { cpu_ns: Some(5), ..BackendCpu::default() };
        assert_eq!(some.until(gone).cpu_ns, None);
        assert_eq!(some.until(BackendCpu { cpu_ns: Some(9), ..some }).cpu_ns, Some(4));
    }
}
