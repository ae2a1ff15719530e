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

/// What the display is told.
enum Shown {
    Event(Event),
    Line(String),
}

/// The display of a running sweep.
pub(super) struct Progress {
    sender: Option<Sender<Shown>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts the display. How much there is to do comes with the events.
    pub(super) fn new(printer: Printer, control: Arc<Control>) -> Self {
        Self::start(Display::new(printer, control))
    }

    fn start(mut display: Display) -> Self {
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            loop {
                match receiver.recv_timeout(REDRAW) {
                    Ok(Shown::Event(event)) => display.show(event),
                    Ok(Shown::Line(text)) => display.line(&text),
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
        self.send(Shown::Event(event));
    }

    /// Shows a line as it is.
    pub(super) fn say(&self, text: String) {
        self.send(Shown::Line(text));
    }

    fn send(&self, shown: Shown) {
        if let Some(sender) = &self.sender {
            // The display may be gone after a panic of its own; the sweep goes on without it.
            let _ = sender.send(shown);
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
    fn new(printer: Printer, control: Arc<Control>) -> Self {
        let target =
            if printer.is_live() { ProgressDrawTarget::stderr_with_hz(2) } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(None, target);
        bar.set_style(style("{elapsed} {msg}"));
        let (launch, slice, started) = (String::new(), String::new(), Instant::now());
        Self { printer, bar, control, started, estimate: Duration::ZERO, wanted: 0, finished: 0, launch, slice }
    }

    /// What was finished in this call is among the stored slices.
    fn planned(&mut self, total: usize, stored: usize, estimate: Duration) {
        self.wanted = self.finished + total - stored;
        if self.finished == 0 {
            (self.estimate, self.started) = (estimate, Instant::now());
        }
        self.bar.set_style(style("{bar:30} {pos}/{len} {elapsed} {msg}"));
        self.bar.set_length(total as u64);
        self.bar.set_position(stored as u64);
    }

    fn show(&mut self, event: Event) {
        match event {
            Event::Note(text) => self.line(&format!("note: {text}")),
            Event::Planned { total, stored, estimate } => self.planned(total, stored, estimate),
            Event::BudgetSpent { budget, open } => {
                let budget = HumanDuration(budget);
                self.line(&format!(
                    "note: the next block would not end within the budget of {budget}; {open} microbenchmarks are open, \
                     and the same command goes on with them"
                ));
            }
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

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

fn rate_text(rate: f64, unit: RateUnit) -> String {
    match unit {
        RateUnit::Qps => format!("{rate:.0} QPS"),
        RateUnit::MegarowsPerSecond => format!("{rate:.3} M rows/s"),
    }
}
