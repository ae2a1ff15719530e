//! Error rates and power of the verdicts, counted over simulated sweeps: prints the table of docs/methodology.md.
//!
//!     cargo bench --bench simulation [-- SWEEPS [NOISE]]
//!
//! SWEEPS of equal releases per kind of noise and design (1200, which are 100,800 comparisons). The same numbers come
//! out every time. NOISE is part of the name of a kind of noise: others are left out.

// One file for the tests and for this; each uses a part of it.
#[path = "../tests/it/sim/noise.rs"]
mod noise;

use std::io::Write as _;

use regtrack::analysis::Design;
use regtrack::domain::Stopping;

use noise::{STEPS, Shape, Tally, nulls, planted};

/// Sweeps with planted steps, as a share of those without.
const PLANTED: u32 = 8;

const MOST_LAUNCHES: u32 = 40;

fn main() -> std::io::Result<()> {
    let sweeps = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(1200);
    let named: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    let chosen = |shape: &Shape| named.get(1).is_none_or(|name| shape.name().contains(name.as_str()));
    let stopping = Stopping { precision: 0.01, power: 0.9, max_launches: MOST_LAUNCHES };
    let designs = [
        ("5 launches", Design::Fixed, 5),
        ("10 launches", Design::Fixed, 10),
        ("looks, at most 40", Design::Sequential(stopping), MOST_LAUNCHES),
    ];
    let mut out = std::io::stdout().lock();
    let steps = STEPS.map(|step| format!(" {:.0} % |", step * 100.0)).concat();
    writeln!(
        out,
        "| Noise | Design | seen | confirmed | sweeps with a verdict | intervals that miss | warned of a shift | of drift | launches |{steps}"
    )?;
    writeln!(out, "|---|---|---:|---:|---:|---:|---:|---:|---:|{}", "---:|".repeat(STEPS.len()))?;
    for shape in Shape::ALL.into_iter().filter(chosen) {
        for (design, how, launches) in designs {
            let equal = nulls(shape, how, launches, sweeps);
            let (found, _) = planted(shape, how, launches, (sweeps / PLANTED).max(1));
            writeln!(
                out,
                "| {} | {design} | {} |{}",
                shape.name(),
                errors(&equal),
                found.map(|tally| power(&tally)).concat()
            )?;
        }
    }
    Ok(())
}

fn errors(tally: &Tally) -> String {
    let share = |count: u32, of: u32| f64::from(count) / f64::from(of);
    let comparisons =
        |count: u32| format!("{count} of {} ({:.1e})", tally.comparisons, share(count, tally.comparisons));
    [
        comparisons(tally.seen),
        comparisons(tally.confirmed),
        format!("{:.2} %", 100.0 * share(tally.sweeps_called, tally.sweeps)),
        format!("{:.1} %", 100.0 * share(tally.missed, tally.comparisons)),
        format!("{:.1} %", 100.0 * share(tally.shifted, tally.sweeps)),
        format!("{:.1} %", 100.0 * share(tally.drifted, tally.sweeps)),
        format!("{:.1}", tally.launches as f64 / f64::from(tally.rows)),
    ]
    .join(" | ")
}

/// Share of planted steps that are called, and of those that are called and confirmed.
fn power(tally: &Tally) -> String {
    let percent = |count: u32| 100.0 * f64::from(count) / f64::from(tally.comparisons);
    format!(" {:.0} / {:.0} |", percent(tally.called), percent(tally.confirmed))
}
