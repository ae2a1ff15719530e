//! Whether the two ends differ at all, before anything between them is searched. Pure.

use statrs::distribution::{ContinuousCDF as _, StudentsT};

/// Numbers of launches after which the ends are judged. In between nobody looks, so that looking often does not find
/// differences by itself.
const LOOKS: [usize; 8] = [3, 4, 6, 9, 13, 18, 26, 36];

/// Chance that ends which do not differ are taken for different, over all looks.
const FALSE_ALARM: f64 = 0.01;

/// What is known about the ends. Ratios are those of the far end to the near one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Ends {
    /// They differ.
    Differ(Effect),
    /// They differ by no more than the threshold.
    Alike(Effect),
    /// More launches are needed.
    Open {
        /// What is known so far; absent before the first look.
        effect: Option<Effect>,
        /// Launches of each at the next look; `None` when there is none left.
        next_look: Option<usize>,
    },
}

/// Natural logarithm of a ratio with its interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Effect {
    /// Mean over the blocks.
    pub mean: f64,
    /// Lower limit, at the strictness of one look.
    pub low: f64,
    /// Upper limit.
    pub high: f64,
}

impl Effect {
    /// Mean and t-interval of some differences at two-sided error `alpha`; `None` of fewer than two.
    #[must_use]
    pub fn of(differences: &[f64], alpha: f64) -> Option<Self> {
        let count = differences.len() as f64;
        if differences.len() < 2 {
            return None;
        }
        let mean = differences.iter().sum::<f64>() / count;
        let variance = differences.iter().map(|one| (one - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let quantile = StudentsT::new(0.0, 1.0, count - 1.0).ok()?.inverse_cdf(1.0 - alpha / 2.0);
        let half = quantile * (variance / count).sqrt();
        Some(Self { mean, low: mean - half, high: mean + half })
    }

    /// The largest difference that the interval leaves room for, as a share.
    #[must_use]
    pub fn bound(&self) -> f64 {
        self.high.exp_m1().abs().max(self.low.exp_m1().abs())
    }
}

/// Judges the differences of the logarithms, far end minus near end, one per block.
pub(super) fn ends(differences: &[f64], threshold: f64) -> Ends {
    let alpha = FALSE_ALARM / LOOKS.len() as f64;
    let next_look = LOOKS.into_iter().find(|look| *look > differences.len());
    let Some(look) = LOOKS.into_iter().rev().find(|look| *look <= differences.len()) else {
        return Ends::Open { effect: None, next_look };
    };
    // What came after the last look is not looked at, with one exception: after all looks everything counts.
    let seen = if next_look.is_some() { &differences[..look] } else { differences };
    match Effect::of(seen, alpha) {
        Some(effect) if effect.low > 0.0 || effect.high < 0.0 => Ends::Differ(effect),
        Some(effect) if effect.bound() <= threshold => Ends::Alike(effect),
        effect => Ends::Open { effect, next_look },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_judged_at_the_looks_only() {
        assert!(matches!(ends(&[0.1, 0.1], 0.01), Ends::Open { effect: None, next_look: Some(3) }));
        let different = [0.10, 0.101, 0.102];
        assert!(matches!(ends(&different, 0.01), Ends::Differ(effect) if effect.mean > 0.1));
        let wild = [0.1, -0.1, 0.05, 0.0, 0.0];
        assert!(matches!(ends(&wild, 0.01), Ends::Open { effect: Some(_), next_look: Some(6) }));
        assert!(matches!(ends(&[0.0; 36].map(|_| 0.0), 0.01), Ends::Alike(_)));
    }

    #[test]
    fn the_interval_is_students() {
        // Mean 2, standard deviation 1, n = 3: half width 4.3027 / √3 at 5 % (t with 2 degrees of freedom).
        let effect = Effect::of(&[1.0, 2.0, 3.0], 0.05).unwrap();
        assert!((effect.high - effect.mean - 4.302_652_73 / 3.0_f64.sqrt()).abs() < 1e-6);
        assert!((Effect { mean: 0.0, low: -0.02, high: 0.01 }.bound() - 0.0198).abs() < 1e-4);
        assert_eq!(Effect::of(&[1.0], 0.05), None);
    }
}
