//! False alarms and power of the change points, fewer than `cargo bench --bench changes` counts.

use super::steps::{Scatter, false_alarms, found};

#[test]
fn false_alarms_are_rare_whatever_the_noise() {
    for scatter in Scatter::ALL {
        for (length, count) in [(8, 3000), (26, 2000), (52, 1000), (260, 60)] {
            let alarms = false_alarms(scatter, length, count);
            // Three in a thousand are the most that was counted; this many are next to impossible then.
            let most = 4 + count / 125;
            assert!(alarms <= most, "{}, {length}: {alarms} of {count}", scatter.name());
        }
    }
}

#[test]
fn planted_steps_are_found() {
    for (length, step, least) in [(26, 3.0, 60), (52, 2.0, 80), (52, 3.0, 97)] {
        let found = found(Scatter::Gaussian, length, step, 100);
        assert!(found >= least, "{step} in {length}: {found} of 100");
    }
}
