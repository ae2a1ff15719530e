//! Instructions from the processor's own counter.

use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter};

/// Counts a process's instructions in user space while it is told to. The processor counts by itself: the process is
/// not slowed down, but for a reading at each of its context switches.
pub(in crate::measure) struct InstructionCounter(Counter);

impl InstructionCounter {
    /// For process `pid`; `None` on machines whose kernel or processor offers no such counter, as many virtual ones
    /// do not, and where another account's processes may not be observed (perf_event_open(2)).
    pub(in crate::measure) fn open(pid: u32) -> Option<Self> {
        Self::of(pid, Hardware::INSTRUCTIONS)
    }

    fn of(pid: u32, event: impl Event) -> Option<Self> {
        let pid = i32::try_from(pid).ok()?;
        // A builder leaves the kernel's and a hypervisor's instructions out unless told otherwise.
        let counter = Builder::new(event).observe_pid(pid).any_cpu().build();
        counter.inspect_err(|error| tracing::debug!(%error, "no counter of instructions")).ok().map(Self)
    }

    /// Begins to count.
    pub(in crate::measure) fn start(&mut self) -> Option<()> {
        self.0.enable().ok()
    }

    /// Ends and gives the count; `None` when the processor's counter was lent to somebody else meanwhile.
    pub(in crate::measure) fn stop(&mut self) -> Option<u64> {
        self.0.disable().ok()?;
        let read = self.0.read_count_and_time().ok()?;
        (read.time_running >= read.time_enabled).then_some(read.count)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use perf_event::events::Software;

    use super::*;

    #[test]
    fn a_process_is_counted_while_it_should_be() {
        // The kernel's own events exist on every machine; some forbid to look at all.
        if InstructionCounter::of(std::process::id(), Software::CONTEXT_SWITCHES).is_none() {
            return;
        }
        let mut cat = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut input = cat.stdin.take().unwrap();
        let mut of_cat = InstructionCounter::of(cat.id(), Software::TASK_CLOCK).unwrap();
        assert_eq!(of_cat.stop(), Some(0), "it was not told to begin");
        of_cat.start().unwrap();
        for _ in 0..100 {
            input.write_all(&[b'x'; 4096]).unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        let nanoseconds = of_cat.stop().unwrap();
        assert!(nanoseconds > 0, "{nanoseconds}");
        drop(input);
        cat.wait().unwrap();
        assert!(InstructionCounter::open(u32::MAX).is_none());
    }
}
