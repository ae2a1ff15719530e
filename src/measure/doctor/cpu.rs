//! What the CPUs are, and what makes them fast at one moment and slow at the next.

use std::collections::BTreeSet;

use super::{Check, Files};
use crate::domain::Finding;

const CPUS: &str = "sys/devices/system/cpu";

/// All checks of the CPUs.
pub(super) fn all(files: &Files) -> Vec<Finding> {
    let cpuinfo = files.read("proc/cpuinfo").unwrap_or_default();
    let is_virtual = has_hypervisor(&cpuinfo);
    vec![
        cpus(),
        governor(files),
        turbo(files),
        smt(files, is_virtual),
        hypervisor(files, is_virtual),
        clock_source(files),
        perf_events(files),
    ]
}

fn cpus() -> Finding {
    let check = Check::new("cpus", "client and server work in turns, and each needs a CPU of its own");
    match std::thread::available_parallelism() {
        Ok(count) if count.get() >= 2 => check.ok(count.to_string()),
        Ok(_) => check.warn_only("only one for this process"),
        Err(error) => check.unknown(error.to_string()),
    }
}

fn governor(files: &Files) -> Finding {
    let check = Check::new("cpu governor", "a CPU that clocks down between queries makes short queries look slow");
    let is_cpu = |name: &String| name.strip_prefix("cpu").is_some_and(|rest| rest.parse::<u32>().is_ok());
    let cpus = files.names(CPUS).into_iter().filter(is_cpu);
    let governors: BTreeSet<String> =
        cpus.filter_map(|cpu| files.read(&format!("{CPUS}/{cpu}/cpufreq/scaling_governor"))).collect();
    let found = governors.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    match found.as_str() {
        "" => check.unknown("the kernel does not control the frequency here (usual in a virtual machine)"),
        "performance" => check.ok(found),
        _ => check.warn(found, format!("echo performance | sudo tee /{CPUS}/cpu*/cpufreq/scaling_governor")),
    }
}

fn turbo(files: &Files) -> Finding {
    let check = Check::new("turbo", "the boost depends on temperature and on what other CPUs do");
    // Whose 1 means off, and whose 1 means on.
    let intel = files.read(&format!("{CPUS}/intel_pstate/no_turbo"));
    let others = files.read(&format!("{CPUS}/cpufreq/boost"));
    match (intel.as_deref(), others.as_deref()) {
        (Some("1"), _) | (None, Some("0")) => check.ok("off"),
        (Some("0"), _) => check.warn("on", format!("echo 1 | sudo tee /{CPUS}/intel_pstate/no_turbo")),
        (None, Some("1")) => check.warn("on", format!("echo 0 | sudo tee /{CPUS}/cpufreq/boost")),
        _ => check.unknown("the kernel has no switch for it here (usual in a virtual machine)"),
    }
}

fn smt(files: &Files, is_virtual: Option<bool>) -> Finding {
    let check = Check::new("smt", "a thread beside another on one core is slower than alone on it");
    match files.read(&format!("{CPUS}/smt/active")).as_deref() {
        Some("1") => check.warn("on", format!("echo off | sudo tee /{CPUS}/smt/control")),
        Some("0") if is_virtual == Some(false) => check.ok("off"),
        Some("0") => check.unknown("this machine sees no sibling threads, but the host may have them"),
        _ => check.unknown(format!("there is no /{CPUS}/smt/active")),
    }
}

/// Whether the CPU flags say that this is a guest; `None` where there are no such flags.
fn has_hypervisor(cpuinfo: &str) -> Option<bool> {
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags")?.trim_start().strip_prefix(':'))?;
    Some(flags.split_whitespace().any(|flag| flag == "hypervisor"))
}

fn hypervisor(files: &Files, is_virtual: Option<bool>) -> Finding {
    let check = Check::new("hypervisor", "other guests take CPU time, caches and memory bandwidth unseen");
    let name = || {
        let parts = ["sys/hypervisor/type", "sys/class/dmi/id/sys_vendor", "sys/class/dmi/id/product_name"];
        let parts: Vec<String> = parts.iter().filter_map(|path| files.read(path)).collect();
        if parts.is_empty() { String::new() } else { format!(" ({})", parts.join(" ")) }
    };
    match is_virtual {
        Some(true) => check.warn_only(format!("this is a virtual machine{}", name())),
        Some(false) => check.ok("none"),
        None => check.unknown("the CPU flags do not tell on this architecture"),
    }
}

fn clock_source(files: &Files) -> Finding {
    const DIRECTORY: &str = "sys/devices/system/clocksource/clocksource0";
    let check = Check::new("clock source", "a clock that cannot be read without the kernel slows every time stamp");
    let Some(current) = files.read(&format!("{DIRECTORY}/current_clocksource")) else {
        return check.unknown(format!("there is no /{DIRECTORY}"));
    };
    // Those that the vDSO can read.
    if current == "tsc"
        || current == "kvm-clock"
        || current.starts_with("hyperv_clocksource")
        || current == "arch_sys_counter"
    {
        return check.ok(current);
    }
    let available = files.read(&format!("{DIRECTORY}/available_clocksource")).unwrap_or_default();
    if available.split_whitespace().any(|name| name == "tsc") {
        return check.warn(current, format!("echo tsc | sudo tee /{DIRECTORY}/current_clocksource"));
    }
    check.warn_only(current)
}

/// Told for what comes after a sweep: nothing depends on it here.
fn perf_events(files: &Files) -> Finding {
    const SETTING: &str = "proc/sys/kernel/perf_event_paranoid";
    let check = Check::new(
        "perf events",
        "with the CPU's counters slices have instructions, and perf can explain a difference",
    );
    let Some(level) = files.read(SETTING).and_then(|text| text.parse::<i32>().ok()) else {
        return check.unknown(format!("there is no /{SETTING}"));
    };
    let who = if level <= 2 { "everyone may profile programs of their own" } else { "only root may profile" };
    let counters = if files.exists("sys/bus/event_source/devices/cpu") { "visible" } else { "not visible" };
    check.ok(format!("perf_event_paranoid {level}: {who}; the CPU's counters are {counters}"))
}

#[cfg(test)]
mod tests {
    use super::super::tests::Machine;
    use super::*;
    use crate::domain::FindingStatus;

    const GUEST: &str = "processor\t: 0\nflags\t\t: fpu vme hypervisor lahf_lm\n";
    const METAL: &str = "processor\t: 0\nflags\t\t: fpu vme lahf_lm\n";

    fn finding(machine: &Machine, check: &str) -> (FindingStatus, String, Option<String>) {
        let found = all(&machine.files()).into_iter().find(|finding| finding.check == check).unwrap();
        (found.status, found.found, found.mend)
    }

    #[test]
    fn one_cpu_with_another_governor_is_enough() {
        let machine = Machine::new(&[
            ("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "performance\n"),
            ("sys/devices/system/cpu/cpufreq/boost", "0\n"),
        ]);
        assert_eq!(finding(&machine, "cpu governor").0, FindingStatus::Ok);
        assert_eq!(finding(&machine, "turbo").0, FindingStatus::Ok);
        machine.set("sys/devices/system/cpu/cpu1/cpufreq/scaling_governor", "powersave\n");
        let (status, found, mend) = finding(&machine, "cpu governor");
        assert_eq!((status, found.as_str()), (FindingStatus::Warn, "performance, powersave"));
        assert!(mend.unwrap().starts_with("echo performance | sudo tee /sys/"));
    }

    #[test]
    fn both_switches_of_the_boost_are_read_the_right_way_round() {
        for (switch, value, on) in [
            ("intel_pstate/no_turbo", "0", true),
            ("intel_pstate/no_turbo", "1", false),
            ("cpufreq/boost", "1", true),
            ("cpufreq/boost", "0", false),
        ] {
            let machine = Machine::new(&[(&format!("sys/devices/system/cpu/{switch}"), value)]);
            let (status, _, mend) = finding(&machine, "turbo");
            assert_eq!(status == FindingStatus::Warn, on, "{switch} = {value}");
            let off = if value == "0" { "echo 1 " } else { "echo 0 " };
            assert!(!on || mend.unwrap().starts_with(off), "{switch} = {value}");
        }
    }

    #[test]
    fn a_guest_does_not_know_about_the_threads_of_its_host() {
        let machine = Machine::new(&[("proc/cpuinfo", GUEST), ("sys/devices/system/cpu/smt/active", "0\n")]);
        machine.set("sys/class/dmi/id/sys_vendor", "QEMU\n");
        assert_eq!(finding(&machine, "smt").0, FindingStatus::Unknown);
        assert_eq!(finding(&machine, "hypervisor").1, "this is a virtual machine (QEMU)");
        machine.set("proc/cpuinfo", METAL);
        assert_eq!(
            (finding(&machine, "smt").0, finding(&machine, "hypervisor").0),
            (FindingStatus::Ok, FindingStatus::Ok)
        );
        machine.set("sys/devices/system/cpu/smt/active", "1\n");
        assert_eq!(finding(&machine, "smt").0, FindingStatus::Warn);
    }

    #[test]
    fn a_slow_clock_is_mended_where_a_fast_one_is_available() {
        const DIRECTORY: &str = "sys/devices/system/clocksource/clocksource0";
        let machine = Machine::new(&[(&format!("{DIRECTORY}/current_clocksource"), "hpet\n")]);
        assert_eq!(finding(&machine, "clock source").2, None);
        machine.set(&format!("{DIRECTORY}/available_clocksource"), "tsc hpet acpi_pm \n");
        assert!(finding(&machine, "clock source").2.unwrap().starts_with("echo tsc"));
        machine.set(&format!("{DIRECTORY}/current_clocksource"), "tsc\n");
        assert_eq!(finding(&machine, "clock source").0, FindingStatus::Ok);
    }

    #[test]
    fn perf_is_told_and_never_a_reason_to_worry() {
        let machine = Machine::new(&[("proc/sys/kernel/perf_event_paranoid", "3\n")]);
        let (status, found, _) = finding(&machine, "perf events");
        assert_eq!(status, FindingStatus::Ok);
        assert_eq!(found, "perf_event_paranoid 3: only root may profile; the CPU's counters are not visible");
    }
}
