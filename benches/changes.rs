//! False alarms and power of the change points, counted over simulated series: prints the table of docs/methodology.md,
//! and how long a history of years takes.
//!
//!     cargo bench --bench changes [-- SERIES]
//!
//! SERIES without a change per case (20,000). The same numbers come out every time.

// One file for the tests and for this; each uses a part of it.
#[path = "../tests/it/sim/steps.rs"]
mod steps;

use std::io::Write as _;
use std::time::Instant;

use regtrack::analysis::changes;
use steps::{Scatter, false_alarms, found, random};

const LENGTHS: [usize; 5] = [8, 12, 26, 52, 260];

/// Heights of planted steps, in standard deviations.
const STEPS: [f64; 4] = [1.0, 2.0, 3.0, 5.0];

fn main() -> std::io::Result<()> {
    let count: u32 = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(20_000);
    let mut out = std::io::stdout().lock();
    writeln!(out, "| Weeks | Noise | false alarms | 1 σ | 2 σ | 3 σ | 5 σ |")?;
    writeln!(out, "|---:|---|---:|---:|---:|---:|---:|")?;
    for length in LENGTHS {
        for scatter in Scatter::ALL {
            let alarms = false_alarms(scatter, length, count);
            let share = 100.0 * f64::from(alarms) / f64::from(count);
            let planted = count / 10;
            let power = STEPS.map(|step| {
                format!("{:.0} %", 100.0 * f64::from(found(scatter, length, step, planted)) / f64::from(planted))
            });
            writeln!(
                out,
                "| {length} | {} | {alarms} of {count} ({share:.2} %) | {} |",
                scatter.name(),
                power.join(" | ")
            )?;
        }
    }
    looks(&mut out, count / 10)?;
    speed(&mut out)
}

/// Whoever looks every week sees more than one beginning of a series.
fn looks(out: &mut impl std::io::Write, count: u32) -> std::io::Result<()> {
    let mut random = random(Scatter::Gaussian, 53);
    let one = |_| {
        let values = Scatter::Gaussian.series(52, &mut random);
        u32::from((8..=52).any(|length| !changes(&values[..length]).is_empty()))
    };
    let alarmed: u32 = (0..count).map(one).sum();
    writeln!(
        out,
        "\nIn {alarmed} of {count} gaussian series of a year ({:.1} %) at least one of its weekly looks shows a change.",
        100.0 * f64::from(alarmed) / f64::from(count)
    )
}

fn speed(out: &mut impl std::io::Write) -> std::io::Result<()> {
    let mut random = random(Scatter::Gaussian, 260);
    let all: Vec<Vec<f64>> = (0..840).map(|_| Scatter::Gaussian.series(260, &mut random)).collect();
    let begin = Instant::now();
    let found: usize = all.iter().map(|values| changes(values).len()).sum();
    writeln!(out, "840 series of 260 weeks: {:.2} s, {found} change points.", begin.elapsed().as_secs_f64())
}
