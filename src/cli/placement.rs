//! `--placement`: the CPUs of client and servers, asked for or found out.

use std::sync::Arc;

use super::Failure;
use super::printer::Printer;
use crate::domain::{Placement, Protocol};
use crate::measure::{LaunchSpec, LiveBench, PlacementNoise};
use crate::sweep::{Execution, Prepared, WantedPlacement};

/// Enough for point queries, and loaded at once.
const ROWS: u64 = 20_000;

pub(super) fn parse(text: &str) -> Result<WantedPlacement, String> {
    match text {
        "auto" => Ok(WantedPlacement::Calibrated),
        _ => text.parse().map(WantedPlacement::Fixed).map_err(|_| "must be same-cpu, split, free or auto".to_owned()),
    }
}

/// The placement of a sweep: what was asked for or found out before, else what is found out now and written down.
pub(super) fn settle(
    bench: &LiveBench,
    prepared: &Prepared,
    execution: &mut Execution<'_>,
    printer: Printer,
) -> Result<Placement, Failure> {
    if let Some(placement) = execution.manifest.placement {
        return Ok(placement);
    }
    let placement = calibrate(bench, prepared, execution, printer)?;
    execution.manifest.placement = Some(placement);
    execution.store.write_manifest(&execution.manifest)?;
    Ok(placement)
}

/// Finds out under which placement the base's point queries scatter least.
fn calibrate(
    bench: &LiveBench,
    prepared: &Prepared,
    execution: &Execution<'_>,
    printer: Printer,
) -> Result<Placement, Failure> {
    let manifest = &execution.manifest;
    let base = manifest.targets.iter().find(|target| target.id == manifest.base);
    let Some(base) = base.and_then(|base| base.build.clone()) else { return Ok(Placement::default()) };
    let name = "calibration";
    let spec = LaunchSpec {
        directory: execution.clusters.join(&manifest.id).join(name),
        template: None,
        log: execution.store.log(&manifest.id, name)?,
        build: base,
        brake: None,
        settings: execution.settings.get(&manifest.base).cloned().unwrap_or_default(),
        init: prepared.init_options(),
        suite: Arc::clone(&prepared.suite),
        protocol: Protocol {
            rows: ROWS.min(prepared.protocol.rows),
            load_warmup_seconds: 0.0,
            postwrite_rest_seconds: 0.0,
            ..prepared.protocol.clone()
        },
        seed: 0,
        plans: false,
    };
    let noises = bench.calibrate(&spec).map_err(|error| Failure::of_sweep(error.into()))?;
    let words = |noise: &PlacementNoise| {
        format!("{} {:.0} QPS ± {:.1} µs per query", noise.placement, noise.rate, noise.noise_us)
    };
    let list: Vec<String> = noises.iter().map(words).collect();
    printer.say(&format!("  placement by point queries, least noisy first: {}", list.join(", ")));
    Ok(noises.first().map_or_else(Placement::default, |noise| noise.placement))
}
