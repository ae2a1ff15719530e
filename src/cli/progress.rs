//! Shows a sweep's events: a live line on a terminal, plain lines elsewhere. Runs on a thread of
//! its own, so that nothing is drawn from the thread that measures.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{HumanDuration, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::printer::Printer;
use crate::domain::RateUnit;
use crate::load::Control;
use crate::sweep::Event;

/// How often the live line is drawn. Rarely enough to leave the measured processes alone.
const REDRAW: Duration = Duration::from_millis(500);

/// The display of a running sweep.
pub(super) struct Progress {
    sender: Option<Sender<Event>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts the display for getting servers: no slices yet.
    pub(super) fn of_builds(printer: Printer, control: Arc<Control>) -> Self {
        Self::start(Display::new(printer, 0, 0, Duration::ZERO, control))
    }

    /// Starts the display for `total` slices of which `stored` are there already; the others will
    /// take about `estimate`.
    pub(super) fn of_slices(
        printer: Printer,
        total: usize,
        stored: usize,
        estimate: Duration,
        control: Arc<Control>,
    ) -> Self {
        Self::start(Display::new(printer, total, stored, estimate, control))
    }

    fn start(mut display: Display) -> Self {
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            loop {
                match receiver.recv_timeout(REDRAW) {
                    Ok(event) => display.show(event),
                    Err(RecvTimeoutError::Timeout) => display.redraw(),
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
            display.finish();
        });
        Self { sender: Some(sender), thread: Some(thread) }
    }

    /// Passes an event on.
    pub(super) fn event(&self, event: Event) {
        if let Some(sender) = &self.sender {
            // The display may be gone after a panic of its own; the sweep goes on without it.
            let _ = sender.send(event);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.sender = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Display {
    printer: Printer,
    bar: ProgressBar,
    control: Arc<Control>,
    started: Instant,
    estimate: Duration,
    /// Slices of this call only: stored ones took no time.
    wanted: usize,
    finished: usize,
    launch: String,
    slice: String,
}

impl Display {
    fn new(printer: Printer, total: usize, stored: usize, estimate: Duration, control: Arc<Control>) -> Self {
        let target =
            if printer.is_live() { ProgressDrawTarget::stderr_with_hz(2) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(total as u64), target);
        let template = if total == 0 { "{elapsed} {msg}" } else { "{bar:30} {pos}/{len} {elapsed} {msg}" };
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_position(stored as u64);
        let (launch, slice) = (String::new(), String::new());
        let started = Instant::now();
        Self { printer, bar, control, started, estimate, wanted: total - stored, finished: 0, launch, slice }
    }

    fn show(&mut self, event: Event) {
        match event {
            Event::Note(text) => self.line(&format!("note: {text}")),
            Event::BuildStarted { number, of, choice } => {
                self.slice = format!("getting server {number} of {of}: {choice}");
            }
            Event::LaunchStarted { number, of, block, target } => {
                self.launch = format!("launch {number}/{of} (block {block}) PostgreSQL {target}");
                "loading".clone_into(&mut self.slice);
                if !self.printer.is_live() {
                    let line = format!("{}, {} of {} slices, {}", self.launch, self.finished, self.wanted, self.eta());
                    self.line(&line);
                }
            }
            Event::SliceStarted { targets, microbenchmark, seconds } => {
                self.control.queries_last_second.store(0, Ordering::Relaxed);
                let seconds = seconds.map_or_else(|| "once".to_owned(), |seconds| format!("{seconds} s"));
                let turns = if targets.len() > 1 { format!("{} × ", targets.len()) } else { String::new() };
                self.slice = format!("{microbenchmark} ({turns}{seconds})");
            }
            Event::SliceDone { target, microbenchmark, rate, unit } => {
                self.count();
                if self.printer.is_verbose() {
                    let line = format!("  {microbenchmark} {target} {}", rate_text(rate, unit));
                    self.line(&line);
                }
            }
            Event::SliceFailed => self.count(),
            Event::Postwrite => "vacuum and checkpoint".clone_into(&mut self.slice),
        }
        self.redraw();
    }

    fn count(&mut self) {
        self.finished += 1;
        self.bar.inc(1);
    }

    fn redraw(&self) {
        let qps = self.control.queries_last_second.load(Ordering::Relaxed);
        let qps = if qps > 0 { format!(" {qps} QPS") } else { String::new() };
        let message = if self.wanted == 0 {
            self.slice.clone()
        } else {
            format!("{} · {} · {}{qps}", self.eta(), self.launch, self.slice)
        };
        self.bar.set_message(message);
    }

    /// Remaining time at the pace of this call so far; before the first slice, as planned.
    fn eta(&self) -> String {
        if self.finished == 0 {
            let left = self.estimate.saturating_sub(self.started.elapsed());
            return format!("ETA {}", HumanDuration(left));
        }
        let per_slice = self.started.elapsed().as_secs_f64() / self.finished as f64;
        let remaining = per_slice * (self.wanted - self.finished.min(self.wanted)) as f64;
        format!("ETA {}", HumanDuration(Duration::from_secs_f64(remaining)))
    }

    fn line(&self, text: &str) {
        self.bar.suspend(|| self.printer.say(text));
    }

    fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn rate_text(rate: f64, unit: RateUnit) -> String {
    match unit {
        RateUnit::Qps => format!("{rate:.0} QPS"),
        RateUnit::MegarowsPerSecond => format!("{rate:.3} M rows/s"),
    }
}
