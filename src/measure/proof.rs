//! Proves that a build works, with everything that a sweep will ask of it.

use super::{Bench, LaunchSpec, MeasureError, Member, measure};

/// Brings a launch up, checks that the server is the release that it should be, runs every microbenchmark of the suite
/// in turn with the postwrites between them, and gives the launch up. Nothing is recorded: how long each runs is the
/// protocol's business, and one event is enough.
pub fn prove(bench: &dyn Bench, spec: &LaunchSpec) -> Result<(), MeasureError> {
    let mut launch = bench.open(spec)?;
    let microbenchmarks = &spec.suite.microbenchmarks;
    for (index, microbenchmark) in microbenchmarks.iter().enumerate() {
        for outcome in measure(&mut [Member::new(launch.as_mut())], microbenchmark, &spec.protocol, spec.seed) {
            outcome?;
        }
        let step = microbenchmark.step;
        let ends = microbenchmarks.get(index + 1).is_none_or(|next| next.step != step);
        if ends && spec.suite.postwrite_after.contains(&step) {
            launch.postwrite(step)?;
        }
    }
    launch.close(false)
}
