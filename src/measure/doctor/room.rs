//! Disk and memory, and the limits that a container sets.

use std::path::PathBuf;

use super::{Check, Files, existing, size};
use crate::domain::Finding;

/// The largest part of memory that the table may take: what the configuration set `default` gives to
/// `shared_buffers`.
const TABLE_SHARE: f64 = 0.4;

/// A directory that will be written to.
#[derive(Debug, Clone)]
pub struct Place {
    /// The check's name: `disk: results`.
    pub name: &'static str,
    /// Where it is; it need not exist yet.
    pub path: PathBuf,
    /// What will be written to it at most, in bytes.
    pub bytes: u64,
    /// The command that gets more room.
    pub mend: String,
}

/// Whether a directory's file system has the room.
pub(super) fn disk(place: &Place) -> Finding {
    let check = Check::new(place.name, "a full disk ends a sweep; what is stored stays");
    let at = existing(&place.path);
    match rustix::fs::statvfs(&at) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let found = format!("{} free at {}, {} needed", size(free), at.display(), size(place.bytes));
            if free < place.bytes { check.fail(found, place.mend.clone()) } else { check.ok(found) }
        }
        Err(error) => check.unknown(format!("{} does not say how much is free: {error}", at.display())),
    }
}

/// Memory, swap, huge pages, and a container's limits.
pub(super) fn memory(files: &Files, table_bytes: u64) -> Vec<Finding> {
    let meminfo = files.read("proc/meminfo").unwrap_or_default();
    let bytes = |field: &str| meminfo_bytes(&meminfo, field);
    vec![
        fits(bytes("MemTotal"), bytes("MemAvailable"), table_bytes),
        swap(bytes("SwapTotal"), bytes("SwapFree"), bytes("MemTotal")),
        huge_pages(files),
        memory_limit(files, bytes("MemTotal")),
        cpu_quota(files),
    ]
}

fn meminfo_bytes(meminfo: &str, field: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    line.trim().strip_suffix(" kB")?.parse::<u64>().ok().map(|kib| kib * 1024)
}

fn fits(total: Option<u64>, available: Option<u64>, table: u64) -> Finding {
    let check = Check::new("memory", "the microbenchmarks are about a table in memory; a larger one measures the disk");
    let (Some(total), Some(available)) = (total, available) else {
        return check.unknown("/proc/meminfo does not say how much there is");
    };
    let found =
        format!("{} of table and indexes, {} of memory, {} of it available", size(table), size(total), size(available));
    if table as f64 > TABLE_SHARE * total as f64 || table > available {
        // 270 bytes per row, as in the estimate of a sweep's disk space.
        let rows = (TABLE_SHARE * total.min(available) as f64 / 270e6).floor().max(0.1);
        return check.warn(found, format!("regtrack sweep RANGE --rows {:.0}", rows * 1e6));
    }
    check.ok(found)
}

fn swap(total: Option<u64>, free: Option<u64>, memory: Option<u64>) -> Finding {
    let check = Check::new("swap", "memory that was swapped out comes back from the disk in the middle of a slice");
    let (Some(total), Some(free), Some(memory)) = (total, free, memory) else {
        return check.unknown("/proc/meminfo does not say how much is in use");
    };
    let used = total.saturating_sub(free);
    if total == 0 {
        check.ok("there is none")
    } else if used > memory / 100 {
        check.warn(format!("{} of {} in use", size(used), size(total)), "sudo swapoff -a")
    } else {
        check.ok(format!("{} of {} in use: less than a hundredth of memory", size(used), size(total)))
    }
}

fn huge_pages(files: &Files) -> Finding {
    const SETTING: &str = "sys/kernel/mm/transparent_hugepage/enabled";
    let check = Check::new(
        "transparent huge pages",
        "with 'always' the kernel merges and splits pages of a server as it sees fit, differently in each launch",
    );
    let Some(text) = files.read(SETTING) else {
        return check.unknown(format!("there is no /{SETTING}"));
    };
    match text.split_once('[').and_then(|(_, rest)| rest.split_once(']')) {
        Some(("always", _)) => check.warn("always", format!("echo madvise | sudo tee /{SETTING}")),
        Some((word @ ("madvise" | "never"), _)) => check.ok(word),
        _ => check.unknown(format!("/{SETTING} says '{text}'")),
    }
}

/// The least that a control group above this process allows, or `None` where no group is visible.
struct Limits {
    /// Bytes.
    memory: Option<u64>,
    /// CPUs.
    cpus: Option<f64>,
}

impl Limits {
    /// Reads both hierarchies. Inside a container its own group may be mounted as the top one, so the
    /// path is tried below every directory above it, too.
    fn read(files: &Files) -> Option<Self> {
        let groups = files.read("proc/self/cgroup")?;
        let mut limits = Self { memory: None, cpus: None };
        let mut any = false;
        for line in groups.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            for directory in ancestors(path) {
                let number = |file: &str| -> Option<u64> { files.read(file)?.parse().ok() };
                match controllers {
                    "" => {
                        let group = format!("sys/fs/cgroup{directory}");
                        any |= files.exists(&format!("{group}/cgroup.controllers"));
                        limits.at_most(number(&format!("{group}/memory.max")), None);
                        let quota = files.read(&format!("{group}/cpu.max"));
                        limits.at_most(None, quota.as_deref().and_then(cpu_max));
                    }
                    list if list.split(',').any(|name| name == "memory") => {
                        let file = format!("sys/fs/cgroup/memory{directory}/memory.limit_in_bytes");
                        any |= files.exists(&file);
                        limits.at_most(number(&file), None);
                    }
                    list if list.split(',').any(|name| name == "cpu") => {
                        let group = format!("sys/fs/cgroup/cpu{directory}");
                        // -1, which is no number here, means no quota.
                        let quota = number(&format!("{group}/cpu.cfs_quota_us"));
                        let period = number(&format!("{group}/cpu.cfs_period_us"));
                        any |= period.is_some();
                        limits.at_most(None, quota.zip(period).map(|(quota, period)| quota as f64 / period as f64));
                    }
                    _ => {}
                }
            }
        }
        any.then_some(limits)
    }

    fn at_most(&mut self, memory: Option<u64>, cpus: Option<f64>) {
        self.memory = self.memory.into_iter().chain(memory).min();
        self.cpus = self.cpus.into_iter().chain(cpus).reduce(f64::min);
    }
}

/// `/a/b` → `/a/b`, `/a`, and nothing.
fn ancestors(path: &str) -> impl Iterator<Item = &str> {
    let path = path.trim_end_matches('/');
    std::iter::successors(Some(path), |path| path.rfind('/').map(|at| &path[..at]))
}

/// CPUs from `200000 100000`; `None` from `max 100000`.
fn cpu_max(text: &str) -> Option<f64> {
    let (quota, period) = text.split_once(' ')?;
    Some(quota.parse::<f64>().ok()? / period.parse::<f64>().ok()?)
}

const NO_GROUPS: &str = "no control group of this process is visible";

fn memory_limit(files: &Files, total: Option<u64>) -> Finding {
    let check = Check::new(
        "memory limit",
        "settings follow the memory of the machine; with a lower limit the page cache is pushed out, or a server killed",
    );
    match (Limits::read(files), total) {
        (None, _) => check.unknown(NO_GROUPS),
        (_, None) => check.unknown("/proc/meminfo does not say how much memory there is"),
        (Some(Limits { memory: Some(limit), .. }), Some(total)) if limit < total => {
            check.warn_only(format!("{} of the machine's {}", size(limit), size(total)))
        }
        _ => check.ok("none below the memory of the machine"),
    }
}

fn cpu_quota(files: &Files) -> Finding {
    let check = Check::new(
        "cpu quota",
        "a quota stops client and server for the rest of a period as soon as it is used up, in the middle of a slice",
    );
    match Limits::read(files) {
        None => check.unknown(NO_GROUPS),
        Some(Limits { cpus: Some(cpus), .. }) => check.warn_only(format!("{cpus:.1} CPUs")),
        Some(_) => check.ok("none"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Machine;
    use super::*;
    use crate::domain::FindingStatus;

    const MEMINFO: &str = "MemTotal:        8000000 kB\nMemFree:          100000 kB\nMemAvailable:    6000000 kB\n\
        SwapTotal:       2000000 kB\nSwapFree:        1900000 kB\n";

    fn statuses(machine: &Machine, table: u64) -> String {
        let words = memory(&machine.files(), table).into_iter().map(|finding| finding.status.word());
        words.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_table_has_to_fit_and_swap_to_be_idle() {
        let machine = Machine::new(&[
            ("proc/meminfo", MEMINFO),
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("proc/self/cgroup", "0::/\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
        ]);
        assert_eq!(statuses(&machine, 1 << 30), "ok warn ok ok ok");
        let large = &memory(&machine.files(), 4 << 30)[0];
        assert_eq!(large.found, "4.0 GiB of table and indexes, 7.6 GiB of memory, 5.7 GiB of it available");
        assert_eq!(large.mend.as_deref(), Some("regtrack sweep RANGE --rows 9000000"));
        machine.set("proc/meminfo", &MEMINFO.replace("1900000", "1999000"));
        machine.set("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
        assert_eq!(statuses(&machine, 1 << 30), "ok ok warn ok ok");
    }

    #[test]
    fn limits_of_both_kinds_of_control_groups_are_seen() {
        let v2 = Machine::new(&[
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "0::/system.slice/run.scope\n"),
            ("sys/fs/cgroup/cgroup.controllers", "cpu memory\n"),
            ("sys/fs/cgroup/system.slice/run.scope/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/system.slice/cpu.max", "150000 100000\n"),
            ("sys/fs/cgroup/system.slice/memory.max", "1073741824\n"),
        ]);
        let findings = memory(&v2.files(), 1);
        assert_eq!(findings[3].found, "1.0 GiB of the machine's 7.6 GiB");
        assert_eq!((findings[4].status, findings[4].found.as_str()), (FindingStatus::Warn, "1.5 CPUs"));

        let v1 = Machine::new(&[
            ("proc/meminfo", MEMINFO),
            ("proc/self/cgroup", "4:memory:/docker/abc\n2:cpu,cpuacct:/docker/abc\n"),
            // The container's own group, mounted at the top.
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"),
        ]);
        let findings = memory(&v1.files(), 1);
        assert_eq!([findings[3].status, findings[4].status], [FindingStatus::Ok; 2]);
        v1.set("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
        assert_eq!(memory(&v1.files(), 1)[4].found, "0.5 CPUs");
    }

    #[test]
    fn a_directory_that_is_still_to_be_made_is_judged_by_the_one_above() {
        let dir = tempfile::tempdir().unwrap();
        let place = |bytes| {
            let path = dir.path().join("deep/results");
            disk(&Place { name: "disk: results", path, bytes, mend: "make room".into() })
        };
        assert_eq!(place(1).status, FindingStatus::Ok);
        let full = place(u64::MAX);
        assert_eq!((full.status, full.mend.as_deref()), (FindingStatus::Fail, Some("make room")));
    }
}
