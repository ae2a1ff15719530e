//! What from outside may have spoilt a slice: other work on the machine, a hypervisor that took the CPU away, a clock
//! that was set, a machine that slept. Such a slice is stored with the reason.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::probes::MachineCpu;

/// Work of others, as a share of one CPU, from which on a slice counts as disturbed. A server's own background
/// processes are among the others, and stay below it.
const FOREIGN_SHARE: f64 = 0.25;
/// Share of one CPU that a hypervisor may take away.
const STOLEN_SHARE: f64 = 0.05;
/// Shortest stretch about which `/proc/stat`, which counts in hundredths of a second, says anything.
const SHORTEST: Duration = Duration::from_millis(500);
/// Difference of two clocks that is no mere adjustment of their rate.
const STEP: Duration = Duration::from_millis(200);

/// CPU time that neither client nor backend used, over the stretches of a slice.
#[derive(Debug, Default)]
pub(super) struct Foreign {
    busy_ns: u64,
    stolen_ns: u64,
    elapsed: Duration,
}

impl Foreign {
    /// Adds a stretch: what the whole machine used, and what of it was the client's and the backend's. Readings that
    /// are missing leave the stretch out.
    pub(super) fn add(
        &mut self,
        machine: MachineCpu,
        client_ns: Option<u64>,
        backend_ns: Option<u64>,
        elapsed: Duration,
    ) {
        let (Some(busy), Some(client), Some(backend)) = (machine.busy_ns, client_ns, backend_ns) else { return };
        self.busy_ns += busy.saturating_sub(client + backend);
        self.stolen_ns += machine.stolen_ns.unwrap_or(0);
        self.elapsed += elapsed;
    }

    /// What disturbed, in words.
    pub(super) fn finding(&self) -> Vec<String> {
        if self.elapsed < SHORTEST {
            return Vec::new();
        }
        let share = |ns: u64| ns as f64 / self.elapsed.as_nanos() as f64;
        let percent = |ns: u64| format!("{:.0} %", 100.0 * share(ns));
        let mut findings = Vec::new();
        if share(self.busy_ns) > FOREIGN_SHARE {
            findings.push(format!("other processes used {} of a CPU", percent(self.busy_ns)));
        }
        if share(self.stolen_ns) > STOLEN_SHARE {
            findings.push(format!("the hypervisor took away {} of a CPU", percent(self.stolen_ns)));
        }
        findings
    }
}

/// Three clocks at one moment, in nanoseconds: one that can be set, one that stands still while the machine sleeps, and
/// one that does neither (clock_gettime(2)).
#[derive(Debug, Clone, Copy)]
pub(super) struct Clocks {
    real: i128,
    monotonic: i128,
    boot: i128,
}

impl Clocks {
    pub(super) fn read() -> Self {
        let nanoseconds = |clock| {
            let time = clock_gettime(clock);
            i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
        };
        let (real, monotonic, boot) = (ClockId::Realtime, ClockId::Monotonic, ClockId::Boottime);
        Self { real: nanoseconds(real), monotonic: nanoseconds(monotonic), boot: nanoseconds(boot) }
    }

    /// What happened to the clocks since, in words.
    pub(super) fn changes(self, later: Self) -> Vec<String> {
        let seconds = |ns: i128| ns as f64 / 1e9;
        let slept = (later.boot - self.boot) - (later.monotonic - self.monotonic);
        let set = (later.real - self.real) - (later.boot - self.boot);
        let step = i128::try_from(STEP.as_nanos()).unwrap_or(i128::MAX);
        let mut changes = Vec::new();
        if slept > step {
            changes.push(format!("the machine was suspended for {:.1} s", seconds(slept)));
        }
        if set.abs() > step {
            changes.push(format!("the clock was set by {:+.1} s", seconds(set)));
        }
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(busy_ms: u64, stolen_ms: u64) -> MachineCpu {
        MachineCpu { busy_ns: Some(busy_ms * 1_000_000), stolen_ns: Some(stolen_ms * 1_000_000) }
    }

    #[test]
    fn what_client_and_backend_use_is_no_disturbance_and_what_others_use_is() {
        let finding = |busy: u64, stolen: u64| {
            let mut foreign = Foreign::default();
            for _ in 0..4 {
                let (client, backend) = (Some(100_000_000), Some(150_000_000));
                foreign.add(machine(250 + busy, stolen), client, backend, Duration::from_millis(250));
            }
            foreign.finding()
        };
        assert!(finding(50, 10).is_empty());
        assert_eq!(finding(100, 0), ["other processes used 40 % of a CPU"]);
        assert_eq!(finding(0, 20), ["the hypervisor took away 8 % of a CPU"]);
    }

    #[test]
    fn a_short_slice_and_missing_readings_say_nothing() {
        let mut foreign = Foreign::default();
        foreign.add(machine(300, 100), Some(0), Some(0), Duration::from_millis(250));
        foreign.add(machine(3000, 100), None, Some(0), Duration::from_secs(1));
        assert!(foreign.finding().is_empty());
    }

    #[test]
    fn a_clock_that_is_set_and_a_machine_that_sleeps_are_told_apart() {
        let now = Clocks::read();
        let second = 1_000_000_000;
        let later = |real, monotonic, boot| Clocks {
            real: now.real + real,
            monotonic: now.monotonic + monotonic,
            boot: now.boot + boot,
        };
        assert!(now.changes(later(second, second, second)).is_empty());
        assert_eq!(now.changes(later(-2 * second, second, second)), ["the clock was set by -3.0 s"]);
        assert_eq!(now.changes(later(13 * second, second, 13 * second)), ["the machine was suspended for 12.0 s"]);
        assert!(now.changes(Clocks::read()).is_empty());
    }
}
