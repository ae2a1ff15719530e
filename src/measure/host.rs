//! What machine this is.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::domain::HostFingerprint;
use crate::process;

const COMPILER_DEADLINE: Duration = Duration::from_secs(20);

/// Reads the fingerprint of this machine; `data` is the directory that will hold the clusters.
#[must_use]
pub fn fingerprint(data: &Path) -> HostFingerprint {
    let uname = rustix::system::uname();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or("");
    let os_release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let os = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME=")).unwrap_or("");
    HostFingerprint {
        hostname: uname.nodename().to_string_lossy().into_owned(),
        cpu: cpu.trim_start_matches([' ', '\t', ':']).to_owned(),
        cpus: std::thread::available_parallelism().map_or(0, |count| u32::try_from(count.get()).unwrap_or(u32::MAX)),
        memory_mib: memory_mib(),
        kernel: format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy()),
        os: os.trim_matches('"').to_owned(),
        governor: read_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        transparent_huge_pages: read_line("/sys/kernel/mm/transparent_hugepage/enabled").map(|text| chosen(&text)),
        filesystem: filesystem(data),
        c_compiler: process::run(Command::new("cc").arg("--version"), COMPILER_DEADLINE, None)
            .ok()
            .and_then(|text| text.lines().next().map(str::to_owned)),
    }
}

/// Physical memory in MiB; 0 when the kernel does not say.
#[must_use]
pub fn memory_mib() -> u64 {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let total = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    total.and_then(|text| text.trim().trim_end_matches(" kB").parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn read_line(path: &str) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// The bracketed word of a kernel setting such as `always [madvise] never`.
fn chosen(text: &str) -> String {
    let bracketed = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(text, |(word, _)| word).to_owned()
}

/// Type of the file system that holds `path`: the mount with the longest matching prefix.
fn filesystem(path: &Path) -> Option<String> {
    let path = path.ancestors().find_map(|ancestor| ancestor.canonicalize().ok())?;
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let mounts = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    let holding = mounts.filter(|(point, _)| path.starts_with(point));
    holding.max_by_key(|(point, _)| point.len()).map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chosen_word_of_a_kernel_setting_is_found() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("performance"), "performance");
    }

    #[test]
    fn this_machine_has_a_fingerprint() {
        let host = fingerprint(Path::new("/tmp"));
        assert!(host.cpus >= 1 && host.memory_mib > 100 && host.kernel.starts_with("Linux "), "{host:?}");
    }
}
