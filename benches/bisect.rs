//! How often a bisect finds a planted step, and at what cost: prints the table of docs/bisect.md.
//!
//!     cargo bench --bench bisect [-- CASES]
//!
//! CASES planted steps (200) per size, confidence and kind of trouble, each somewhere in 2,500 commits, with a launch
//! spread of 0.65 %. A build counts for 180 seconds and a block of two launches for 30. The same numbers come out every
//! time.

// One file for the tests and for this.
#[path = "../tests/it/sim/hunt.rs"]
mod hunt;

use std::io::Write as _;

use hunt::{COMMITS, SPREAD, Trouble, hunt as hunt_for};

fn main() -> std::io::Result<()> {
    let cases = std::env::args().find_map(|argument| argument.parse().ok()).unwrap_or(200);
    let mut out = std::io::stdout().lock();
    writeln!(out, "{COMMITS} commits, launch spread {:.2} %, {cases} planted steps per line\n", 100.0 * SPREAD)?;
    writeln!(
        out,
        "| Step | Launches | Confidence | Found | Wrong | Open | Answers right | Builds (median, most) | Blocks | Hours |"
    )?;
    writeln!(out, "|---:|---|---:|---:|---:|---:|---:|---:|---:|---:|")?;
    for trouble in Trouble::ALL {
        for (size, confidence) in [(0.03, 0.99), (0.03, 0.95), (0.02, 0.99), (0.02, 0.95)] {
            let bag = hunt_for(size, trouble, confidence, cases);
            writeln!(
                out,
                "| {:.0} % | {} | {confidence} | {:.1} % | {} | {} | {:.1} % | {}, {} | {} | {:.1} |",
                100.0 * size,
                trouble.name(),
                100.0 * bag.found(),
                bag.wrong,
                bag.open,
                100.0 * bag.honesty(),
                median(&bag.builds),
                bag.builds.iter().max().unwrap_or(&0),
                median(&bag.blocks),
                median(&bag.seconds) / 3600.0,
            )?;
            out.flush()?;
        }
    }
    let alike = hunt_for(0.0, Trouble::None, 0.99, cases);
    writeln!(out, "\nends that do not differ: {} of {cases} were taken for different", alike.right + alike.wrong)
}

/// The middle one.
fn median<T: Copy + PartialOrd>(numbers: &[T]) -> T {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).expect("numbers"));
    sorted[sorted.len() / 2]
}
