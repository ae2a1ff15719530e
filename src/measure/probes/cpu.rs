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
    /// Nothing used yet; every counter is there.
    pub(in crate::measure) const ZERO: Self =
        Self { cpu_ns: Some(0), wait_ns: Some(0), voluntary_switches: Some(0), involuntary_switches: Some(0) };

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

impl BackendCpu {
    /// Both together.
    pub(in crate::measure) fn plus(self, other: Self) -> Self {
        let sum = |a: Option<u64>, b: Option<u64>| a?.checked_add(b?);
        Self {
            cpu_ns: sum(self.cpu_ns, other.cpu_ns),
            wait_ns: sum(self.wait_ns, other.wait_ns),
            voluntary_switches: sum(self.voluntary_switches, other.voluntary_switches),
            involuntary_switches: sum(self.involuntary_switches, other.involuntary_switches),
        }
    }
}

/// CPU time of the whole machine so far, all processes and all CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::measure) struct MachineCpu {
    /// Time in which a CPU worked, in nanoseconds.
    pub(in crate::measure) busy_ns: Option<u64>,
    /// Time in which the hypervisor gave a CPU to others although it had work, in nanoseconds.
    pub(in crate::measure) stolen_ns: Option<u64>,
}

impl MachineCpu {
    /// Reads the first line of `/proc/stat`.
    pub(in crate::measure) fn read() -> Self {
        let text = fs::read_to_string("/proc/stat").unwrap_or_default();
        text.lines().next().and_then(Self::parse).unwrap_or_default()
    }

    /// `cpu user nice system idle iowait irq softirq steal …` in hundredths of a second (proc(5)). What guests of
    /// this machine use is in `user` already.
    fn parse(line: &str) -> Option<Self> {
        /// `USER_HZ`, which is 100 wherever PostgreSQL runs.
        const TICK_NS: u64 = 10_000_000;
        let fields: Vec<u64> = line
            .strip_prefix("cpu ")?
            .split_ascii_whitespace()
            .map(|field| field.parse().ok())
            .collect::<Option<_>>()?;
        let [user, nice, system, _idle, _iowait, irq, softirq, steal, ..] = fields[..] else { return None };
        let busy = user + nice + system + irq + softirq;
        Some(Self { busy_ns: Some(busy * TICK_NS), stolen_ns: Some(steal * TICK_NS) })
    }

    /// What was used between `self` and `later`.
    pub(in crate::measure) fn until(self, later: Self) -> Self {
        let difference = |a: Option<u64>, b: Option<u64>| b?.checked_sub(a?);
        Self {
            busy_ns: difference(self.busy_ns, later.busy_ns),
            stolen_ns: difference(self.stolen_ns, later.stolen_ns),
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
    fn the_machine_works_in_every_state_but_idle_and_waiting() {
        let parsed = MachineCpu::parse("cpu  10 2 3 1000 500 1 4 7 0 0").unwrap();
        assert_eq!(parsed, MachineCpu { busy_ns: Some(200_000_000), stolen_ns: Some(70_000_000) });
        assert_eq!(MachineCpu::parse("cpu0 1 2 3 4 5 6 7 8"), None);
        assert!(MachineCpu::read().busy_ns.is_some());
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
