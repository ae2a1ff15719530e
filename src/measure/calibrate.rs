//! Finds the CPUs on which client and server disturb each other, and are disturbed, the least.

use std::time::Duration;

use super::placement::Cpus;
use super::{Launch, LaunchSpec, LiveBench, MeasureError};
use crate::domain::Placement;
use crate::load::Until;

/// Turns of each placement when the least noisy one is looked for, and how long one is.
const ROUNDS: usize = 12;
const STRETCH: Duration = Duration::from_millis(100);
/// After each move: lets caches fill and the scheduler settle.
const SETTLE: Duration = Duration::from_millis(10);

/// What point queries came to under one placement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PlacementNoise {
    /// The placement.
    pub placement: Placement,
    /// Mean rate in queries per second.
    pub rate: f64,
    /// Standard deviation of the logarithm of a stretch's rate, from the differences of neighbours: a slow drift is
    /// not in it.
    pub noise: f64,
}

impl PlacementNoise {
    fn of(placement: Placement, rates: &[f64]) -> Self {
        let squares: f64 = rates.windows(2).map(|pair| (pair[1] / pair[0]).ln().powi(2)).sum();
        let noise = (squares / (2.0 * rates.len().saturating_sub(1).max(1) as f64)).sqrt();
        Self { placement, rate: rates.iter().sum::<f64>() / rates.len().max(1) as f64, noise }
    }
}

impl LiveBench {
    /// Tries every placement in turns, on a launch of its own, with point queries. The first is the least noisy.
    pub fn calibrate(&self, spec: &LaunchSpec) -> Result<Vec<PlacementNoise>, MeasureError> {
        let mut launch = self.launch(spec)?;
        launch.begin(&spec.suite.warmup)?;
        Launch::warm_up(&mut launch, Until::Elapsed(STRETCH))?;
        let mut trials: Vec<(Placement, Vec<f64>)> = Vec::new();
        for placement in [Placement::SameCpu, Placement::Split, Placement::Free] {
            match Cpus::choose(placement) {
                Ok(_) => trials.push((placement, Vec::new())),
                Err(MeasureError::OneCpu) => {}
                Err(error) => return Err(error),
            }
        }
        for _ in 0..ROUNDS {
            for (placement, rates) in &mut trials {
                launch.place(*placement)?;
                Launch::warm_up(&mut launch, Until::Elapsed(SETTLE))?;
                let stretch = Launch::warm_up(&mut launch, Until::Elapsed(STRETCH))?;
                rates.push(stretch.events as f64 / stretch.elapsed.as_secs_f64());
            }
            trials.reverse();
        }
        Box::new(launch).close(false)?;
        let mut noises: Vec<PlacementNoise> =
            trials.iter().map(|(placement, rates)| PlacementNoise::of(*placement, rates)).collect();
        noises.sort_by(|a, b| a.noise.total_cmp(&b.noise));
        Ok(noises)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_is_no_noise_and_jumps_are() {
        let drifting: Vec<f64> = (0..12).map(|turn| 1000.0 * 1.01f64.powi(turn)).collect();
        let jumping: Vec<f64> = (0..12).map(|turn| if turn % 2 == 0 { 1000.0 } else { 1100.0 }).collect();
        let (drifting, jumping) =
            (PlacementNoise::of(Placement::Free, &drifting), PlacementNoise::of(Placement::Free, &jumping));
        assert!((drifting.noise - 0.01f64.ln_1p() / 2f64.sqrt()).abs() < 1e-9, "{drifting:?}");
        assert!((jumping.noise - 1.1f64.ln() / 2f64.sqrt()).abs() < 1e-9, "{jumping:?}");
        assert!((jumping.rate - 1050.0).abs() < 1e-9);
    }
}
