//! What else happens on the machine: from two looks at `/proc`.

use std::collections::BTreeMap;

use super::{Check, Files};
use crate::domain::Finding;

/// Load of the last minute above which something else was going on.
const LOAD: f64 = 0.5;

/// Share of one CPU that others may use while they are watched.
const OTHERS: f64 = 0.10;

/// Share of the wanted CPU time that the host may withhold.
const STEAL: f64 = 0.01;

/// Share of one CPU that has to be wanted before the absence of steal means anything.
const WANTED: f64 = 0.3;

/// How many processes are named.
const NAMED: usize = 3;

/// CPU time of the machine and of every visible process, in clock ticks.
#[derive(Debug, Default)]
pub(super) struct Snapshot {
    machine: Option<Ticks>,
    processes: BTreeMap<u32, (String, u64)>,
}

/// The first line of `/proc/stat` (proc_stat(5)), and how many CPUs it sums up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ticks {
    busy: u64,
    idle: u64,
    steal: u64,
    cpus: u64,
}

impl Snapshot {
    pub(super) fn take(files: &Files) -> Self {
        let machine = files.read("proc/stat").as_deref().and_then(ticks);
        let pids = files.names("proc").into_iter().filter_map(|name| name.parse::<u32>().ok());
        let process = |pid: u32| Some((pid, process_ticks(&files.read(&format!("proc/{pid}/stat"))?)?));
        Self { machine, processes: pids.filter_map(process).collect() }
    }

    /// Machine ticks between `self` and `later`, with the ticks of one CPU in that time.
    fn until(&self, later: &Self) -> Option<(Ticks, f64)> {
        let (a, b) = (self.machine?, later.machine?);
        let passed = Ticks {
            busy: b.busy.saturating_sub(a.busy),
            idle: b.idle.saturating_sub(a.idle),
            steal: b.steal.saturating_sub(a.steal),
            cpus: b.cpus,
        };
        let all = passed.busy + passed.idle + passed.steal;
        (all > 0).then(|| (passed, all as f64 / passed.cpus as f64))
    }
}

fn ticks(stat: &str) -> Option<Ticks> {
    let is_cpu =
        |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    let cpus = stat.lines().filter(is_cpu).count() as u64;
    let numbers = stat.lines().next()?.strip_prefix("cpu ")?.split_whitespace().map(str::parse);
    let numbers: Vec<u64> = numbers.collect::<Result<_, _>>().ok()?;
    // Guest time, at the end, is part of user time already.
    let [user, nice, system, idle, iowait, irq, softirq, steal, ..] = *numbers else { return None };
    let busy = user + nice + system + irq + softirq;
    (cpus > 0).then_some(Ticks { busy, idle: idle + iowait, steal, cpus })
}

/// Name and CPU time from `/proc/<pid>/stat`. The name stands in parentheses and may hold any.
fn process_ticks(stat: &str) -> Option<(String, u64)> {
    let (head, tail) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    // utime and stime are the fields 14 and 15; the name is the second.
    let mut times = tail.split_whitespace().skip(11).map(str::parse::<u64>);
    let (Some(Ok(user)), Some(Ok(system))) = (times.next(), times.next()) else { return None };
    Some((name.to_owned(), user + system))
}

/// The load average of the last minute.
pub(super) fn load_average(files: &Files) -> Finding {
    let check = Check::new("load average", "what ran a minute ago may run again, and the CPUs are still warm of it");
    let first = files.read("proc/loadavg").and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    match first {
        None => check.unknown("/proc/loadavg cannot be read"),
        Some(load) if load > LOAD => check.warn(format!("{load:.2}"), "sleep 60"),
        Some(load) => check.ok(format!("{load:.2}")),
    }
}

/// What other processes used between two looks, the busiest first; `own` is this process.
pub(super) fn others(before: &Snapshot, after: &Snapshot, own: u32) -> Finding {
    let check = Check::new(
        "other processes",
        "whoever else runs takes CPU time, caches and memory bandwidth; stop what need not run",
    );
    let Some((machine, one_cpu)) = before.until(after) else {
        return check.unknown("/proc/stat cannot be read");
    };
    let used = |pid: &u32, now: u64| now.saturating_sub(before.processes.get(pid).map_or(0, |(_, ticks)| *ticks));
    let mut busy: Vec<(u64, u32, &str)> =
        after.processes.iter().map(|(pid, (name, now))| (used(pid, *now), *pid, name.as_str())).collect();
    let seen: u64 = busy.iter().map(|(ticks, ..)| ticks).sum();
    busy.retain(|(ticks, pid, _)| *ticks > 0 && *pid != own);
    busy.sort_by_key(|(ticks, ..)| std::cmp::Reverse(*ticks));
    // Of processes outside of a container, and of those that came and went.
    let unseen = machine.busy.saturating_sub(seen);
    let share = |ticks: u64| ticks as f64 / one_cpu;
    let percent = |ticks: u64| format!("{:.0} %", 100.0 * share(ticks));
    let mut parts: Vec<String> =
        busy.iter().take(NAMED).map(|(ticks, pid, name)| format!("{name} ({pid}) {}", percent(*ticks))).collect();
    if share(unseen) > OTHERS / 2.0 {
        parts.push(format!("processes that cannot be seen from here, or that ended, {}", percent(unseen)));
    }
    let total = busy.iter().map(|(ticks, ..)| ticks).sum::<u64>() + unseen;
    let list = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
    let found = format!("{} of one CPU{list}", percent(total));
    if share(total) <= OTHERS { check.ok(found) } else { check.warn_only(found) }
}

/// CPU time that was wanted between two looks and that the host gave to somebody else.
pub(super) fn steal(before: &Snapshot, after: &Snapshot) -> Finding {
    let check = Check::new("steal time", "the host of a virtual machine gave the CPU to another guest meanwhile");
    let Some((machine, one_cpu)) = before.until(after) else {
        return check.unknown("/proc/stat cannot be read");
    };
    let wanted = machine.busy + machine.steal;
    let share = machine.steal as f64 / wanted.max(1) as f64;
    let found = format!("{:.1} % of the CPU time that was wanted", 100.0 * share);
    if share > STEAL {
        check.warn_only(found)
    } else if (wanted as f64) < WANTED * one_cpu {
        check.unknown("too little CPU time was wanted for any to be withheld")
    } else {
        check.ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Machine;
    use super::*;
    use crate::domain::FindingStatus;

    /// `/proc/stat` of a machine with two CPUs.
    fn stat(user: u64, idle: u64, steal: u64) -> String {
        format!(
            "cpu  {user} 0 10 {idle} 5 0 1 {steal} 7 0\ncpu0 1 0 0 1 0 0 0 0 0 0\ncpu1 1 0 0 1 0 0 0 0 0 0\nintr 5\n"
        )
    }

    fn process(name: &str, user: u64, system: u64) -> String {
        format!("42 ({name}) S 1 42 42 0 -1 4194304 100 0 0 0 {user} {system} 0 0 20 0 1 0 100 1000 10 0\n")
    }

    fn snapshot(files: &[(&str, &str)]) -> Snapshot {
        Snapshot::take(&Machine::new(files).files())
    }

    #[test]
    fn names_of_processes_may_hold_anything() {
        assert_eq!(process_ticks(&process("a) R 1 (b", 30, 12)), Some(("a) R 1 (b".to_owned(), 42)));
        assert_eq!(process_ticks("1 (short) S 1"), None);
    }

    #[test]
    fn others_are_named_and_we_are_not() {
        let before = snapshot(&[
            ("proc/stat", &stat(1000, 5000, 0)),
            ("proc/7/stat", &process("own", 10, 0)),
            ("proc/8/stat", &process("busy one", 100, 20)),
        ]);
        // A second of two CPUs: 200 ticks, of which this process used 20, another 50, and a new one 6.
        let after = snapshot(&[
            ("proc/stat", &stat(1077, 5123, 0)),
            ("proc/7/stat", &process("own", 30, 0)),
            ("proc/8/stat", &process("busy one", 140, 30)),
            ("proc/9/stat", &process("new", 6, 0)),
        ]);
        let finding = others(&before, &after, 7);
        assert_eq!(finding.found, "57 % of one CPU: busy one (8) 50 %, new (9) 6 %");
        assert_eq!(finding.status, FindingStatus::Warn);
    }

    #[test]
    fn what_a_container_does_not_show_is_noticed_in_the_sum() {
        let before = snapshot(&[("proc/stat", &stat(1000, 5000, 0)), ("proc/7/stat", &process("own", 10, 0))]);
        let after = snapshot(&[("proc/stat", &stat(1090, 5110, 0)), ("proc/7/stat", &process("own", 11, 0))]);
        let finding = others(&before, &after, 7);
        assert_eq!(finding.found, "89 % of one CPU: processes that cannot be seen from here, or that ended, 89 %");
        assert_eq!(finding.status, FindingStatus::Warn);
        let quiet = snapshot(&[("proc/stat", &stat(1003, 5197, 0)), ("proc/7/stat", &process("own", 11, 0))]);
        assert_eq!(others(&before, &quiet, 7).status, FindingStatus::Ok);
    }

    #[test]
    fn steal_is_a_share_of_what_was_wanted() {
        let at = |user, idle, steal| snapshot(&[("proc/stat", &stat(user, idle, steal))]);
        let before = at(1000, 5000, 100);
        let status = |after: &Snapshot| steal(&before, after).status;
        assert_eq!(steal(&before, &at(1090, 5100, 110)).found, "10.0 % of the CPU time that was wanted");
        assert_eq!(status(&at(1090, 5100, 110)), FindingStatus::Warn);
        assert_eq!(status(&at(1100, 5100, 100)), FindingStatus::Ok);
        assert_eq!(status(&at(1002, 5198, 100)), FindingStatus::Unknown, "an idle machine says nothing");
    }

    #[test]
    fn a_kernel_without_steal_is_unknown() {
        assert_eq!(ticks("cpu  1 2 3 4 5 6 7\ncpu0 1 2 3 4 5 6 7\n"), None);
        assert_eq!(ticks(""), None);
    }

    #[test]
    fn the_load_of_the_last_minute_counts() {
        let load = |text: &str| load_average(&Machine::new(&[("proc/loadavg", text)]).files());
        assert_eq!(load("0.08 3.00 9.00 1/234 5678\n").status, FindingStatus::Ok);
        let busy = load("1.93 0.00 0.00 1/234 5678\n");
        assert_eq!((busy.status, busy.found.as_str()), (FindingStatus::Warn, "1.93"));
    }
}
