//! Finds the CPUs on which client and server disturb each other, and are disturbed, the least.

use std::time::Duration;

use super::placement::Cpus;
use super::{Launch, LaunchSpec, LiveBench, MeasureError};
use crate::domain::Placement;
use crate::load::Until;

/// Turns of each placement when the least noisy one is looked for, and how long one is.
const ROUNDS: usize = 24;
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
    /// Standard deviation of the time per query from stretch to stretch in microseconds. In time and not as a share:
    /// what is looked for is a difference of the server's work, which is the same time wherever client and server run,
    /// while the waking of each other across CPUs can take several times as long as the work.
    pub noise_us: f64,
}

impl PlacementNoise {
    fn of(placement: Placement, rates: &[f64]) -> Self {
        let times_us: Vec<f64> = rates.iter().map(|rate| 1e6 / rate).collect();
        let noise_us =
            MEDIAN_TO_DEVIATION * median(times_us.windows(2).map(|pair| (pair[1] - pair[0]).abs()).collect());
        Self { placement, rate: rates.iter().sum::<f64>() / rates.len().max(1) as f64, noise_us }
    }
}

/// Standard deviation of normal deviates / median distance of two of them, 1 / (√2 · 0.6745). Differences of neighbours
/// leave a slow drift out, their median a burst.
const MEDIAN_TO_DEVIATION: f64 = 1.0484;

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
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
        noises.sort_by(|a, b| a.noise_us.total_cmp(&b.noise_us));
        Ok(noises)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_a_time_and_neither_a_drift_nor_a_burst() {
        let of = |times_us: Vec<f64>| {
            let rates: Vec<f64> = times_us.iter().map(|time| 1e6 / time).collect();
            PlacementNoise::of(Placement::Free, &rates)
        };
        let jumping = |time: f64| (0..24).map(|turn| time + if turn % 2 == 0 { 2.0 } else { 0.0 }).collect::<Vec<_>>();
        let (short, long) = (of(jumping(20.0)), of(jumping(200.0)));
        assert!((short.noise_us - 2.0 * MEDIAN_TO_DEVIATION).abs() < 1e-6, "{short:?}");
        assert!((long.noise_us - short.noise_us).abs() < 1e-6, "the same time, however long a query takes: {long:?}");
        let drifting = of((0..24).map(|turn| 20.0 + 0.1 * f64::from(turn)).collect());
        assert!(drifting.noise_us < 0.2, "{drifting:?}");
        let mut burst = jumping(20.0);
        burst[7] = 500.0;
        assert!((of(burst).noise_us - short.noise_us).abs() < 1e-6);
    }
}
