//! When a sweep that runs is looked at, and what error each look may spend.
//!
//! Looks are planned: a function of the largest number of launches alone, so that a report can tell how often
//! the data may have been looked at, whether or not the sweep went that far. The errors of all looks add up to
//! those of a single one (Lan and DeMets, Biometrika 70, 1983: an alpha-spending function; here each look gets
//! its increment as a level of its own, which Bonferroni's inequality covers whatever the noise is like).

use crate::domain::Stopping;

/// Launches at the first look: fewer leave a single comparison too few degrees of freedom.
const FIRST: u32 = 4;

/// Launches between looks at least, since those between two looks have to be able to confirm a change.
pub(super) const FRESH: u32 = 4;

/// From look to look, launches grow by this share at least: looking more often costs certainty.
const GROWTH: f64 = 0.4;

/// One planned look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Look {
    /// Launches per target.
    pub(super) launches: u32,
    /// Share of the error that calling changes may spend: in proportion to launches, so that large changes are
    /// found early.
    pub(super) change: f64,
    /// Share of the error of intervals, and so of "no change": with the square of launches, since narrow
    /// intervals take many launches anyway.
    pub(super) interval: f64,
}

/// The planned looks, the last at `max_launches`.
pub(super) fn schedule(stopping: &Stopping) -> Vec<Look> {
    let last = stopping.max_launches.max(1);
    // A short sweep has two looks, since a change needs a later one that confirms it.
    let mut launches = vec![FIRST.min(last.div_ceil(2))];
    while launches[launches.len() - 1] < last {
        let now = launches[launches.len() - 1];
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a count")]
        let next = now + FRESH.max((f64::from(now) * GROWTH) as u32);
        // No look without enough launches left for another one.
        launches.push(if next + FRESH > last { last } else { next });
    }
    let share = |launches: u32| f64::from(launches) / f64::from(last);
    let mut looks = Vec::new();
    let mut spent = 0.0;
    for launches in launches {
        let now = share(launches);
        looks.push(Look { launches, change: now - spent, interval: now * now - spent * spent });
        spent = now;
    }
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn launches(max_launches: u32) -> Vec<u32> {
        let looks = schedule(&Stopping { precision: 0.01, power: 0.9, max_launches });
        for (sum, what) in [
            (looks.iter().map(|look| look.change).sum::<f64>(), "change"),
            (looks.iter().map(|look| look.interval).sum::<f64>(), "interval"),
        ] {
            assert!((sum - 1.0).abs() < 1e-12, "{what}: {sum}");
        }
        looks.iter().map(|look| look.launches).collect()
    }

    #[test]
    fn looks_leave_room_for_fresh_launches_and_spend_everything() {
        assert_eq!(launches(1), [1]);
        assert_eq!(launches(2), [1, 2]);
        assert_eq!(launches(5), [3, 5]);
        assert_eq!(launches(8), [4, 8]);
        assert_eq!(launches(11), [4, 11]);
        assert_eq!(launches(20), [4, 8, 12, 16, 20]);
        assert_eq!(launches(48), [4, 8, 12, 16, 22, 30, 42, 48]);
    }
}
