//! Series of a known level: how often a change point is found where there is none, and where there is one.

use regtrack::analysis::changes;
use regtrack::load::Random;

/// How values scatter around the level. All have standard deviation 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scatter {
    /// Normal deviates.
    Gaussian,
    /// Student's t with three degrees of freedom: a hundredth of the values are further out than 2.6.
    HeavyTails,
    /// Normal deviates, each of which keeps three tenths of the one before it.
    Alike,
}

impl Scatter {
    pub(crate) const ALL: [Self; 3] = [Self::Gaussian, Self::HeavyTails, Self::Alike];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Gaussian => "gaussian",
            Self::HeavyTails => "heavy tails (t, 3 degrees)",
            Self::Alike => "autoregressive, 0.3",
        }
    }

    pub(crate) fn series(self, length: usize, random: &mut Random) -> Vec<f64> {
        let mut last = normal(random);
        let mut next = || match self {
            Self::Gaussian => normal(random),
            Self::HeavyTails => {
                let squares: f64 = (0..3).map(|_| normal(random).powi(2)).sum();
                normal(random) / squares.sqrt()
            }
            Self::Alike => {
                last = 0.3 * last + (1.0_f64 - 0.09).sqrt() * normal(random);
                last
            }
        };
        (0..length).map(|_| next()).collect()
    }
}

/// Box and Muller; 1 − u is above zero.
fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * (1.0 - random.unit()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// The generator of one case, the same every time.
pub(crate) fn random(scatter: Scatter, length: usize) -> Random {
    Random::new(length as u64 * 10 + scatter as u64)
}

/// Of `count` series without a change, how many show one.
pub(crate) fn false_alarms(scatter: Scatter, length: usize, count: u32) -> u32 {
    let mut random = random(scatter, length);
    (0..count).map(|_| u32::from(!changes(&scatter.series(length, &mut random)).is_empty())).sum()
}

/// Of `count` series whose level rises by `step` in the middle, how many show a change within three values of it.
pub(crate) fn found(scatter: Scatter, length: usize, step: f64, count: u32) -> u32 {
    let mut random = random(scatter, length);
    let one = |_| {
        let mut values = scatter.series(length, &mut random);
        let at = length / 2;
        values[at..].iter_mut().for_each(|value| *value += step);
        u32::from(changes(&values).iter().any(|change| change.at.abs_diff(at) <= 3))
    };
    (0..count).map(one).sum()
}
