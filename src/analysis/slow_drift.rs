//! What is lost bit by bit: the last weeks against the best that there ever was.

use statrs::distribution::{ContinuousCDF as _, Normal};

use super::THRESHOLD;
use super::changes::Series;
use crate::domain::{Line, SlowDrift, Track};

/// Weeks whose mean is called a level.
const LEVEL: usize = 4;

/// The chance that a microbenchmark without any loss shows one on some line, as far as its weeks are independent.
const ERROR: f64 = 0.001;

/// A step that makes up this share of a loss explains it.
const EXPLAINS: f64 = 0.5;

/// The levels of one track.
struct Levels {
    /// Index into the tracks.
    track: usize,
    /// Mean log of each run of [`LEVEL`] points.
    runs: Vec<f64>,
    /// Standard error of such a mean.
    error: f64,
}

impl Levels {
    fn of(index: usize, track: &Track) -> Option<Self> {
        let logs: Vec<f64> = track.points.iter().map(|point| point.answer.ratio.ln()).collect();
        if logs.len() < LEVEL {
            return None;
        }
        let series = Series::new(&logs);
        let runs = series.values.windows(LEVEL).map(|run| run.iter().sum::<f64>() / LEVEL as f64).collect();
        Some(Self { track: index, runs, error: series.noise / (LEVEL as f64).sqrt() })
    }

    fn now(&self) -> f64 {
        self.runs[self.runs.len() - 1]
    }

    /// The highest level, and the index of its run.
    fn best(&self) -> (f64, usize) {
        let runs = self.runs.iter().copied().zip(0..);
        runs.fold((f64::NEG_INFINITY, 0), |best, run| if run.0 > best.0 { run } else { best })
    }
}

/// Looks for losses on all tracks of a series of `weeks` weeks.
pub(super) fn fill(tracks: &mut [Track], lines: &[Line], weeks: usize) {
    let microbenchmarks = tracks.iter().map(|track| track.microbenchmark + 1).max().unwrap_or(0);
    let mut by_row: Vec<Vec<Levels>> = (0..microbenchmarks).map(|_| Vec::new()).collect();
    for (index, track) in tracks.iter().enumerate() {
        // A major's line is made of its targets, so it has no level of its own that they don't have.
        if matches!(lines[track.line], Line::Target(_)) {
            by_row[track.microbenchmark].extend(Levels::of(index, track));
        }
    }
    for levels in &by_row {
        let found: Vec<(usize, SlowDrift)> =
            levels.iter().filter_map(|level| Some((level.track, drift(level, levels, tracks, weeks)?))).collect();
        for (track, drift) in found {
            tracks[track].drift = Some(drift);
        }
    }
}

/// The loss of one line against the best level of all lines of its microbenchmark that are not newer.
fn drift(of: &Levels, all: &[Levels], tracks: &[Track], weeks: usize) -> Option<SlowDrift> {
    let track = &tracks[of.track];
    // A line that is not measured any more has no present.
    let is_followed = track.points.last().is_some_and(|point| point.week + LEVEL >= weeks);
    let older: Vec<&Levels> = all.iter().filter(|other| tracks[other.track].line <= track.line).collect();
    let (best, (level, run)) =
        older.iter().map(|other| (*other, other.best())).max_by(|a, b| a.1.0.total_cmp(&b.1.0))?;
    let loss = level - of.now();
    let tried: usize = older.iter().map(|other| other.runs.len()).sum();
    let error = of.error.hypot(best.error);
    let is_sure = is_followed && loss >= THRESHOLD.ln_1p() && loss > quantile(ERROR / tried as f64) * error;
    let end = run + LEVEL - 1;
    (is_sure && largest_step(of, best, end, &older, tracks) < EXPLAINS * loss).then(|| SlowDrift {
        now: of.now().exp(),
        best: level.exp(),
        best_line: tracks[best.track].line,
        best_week: tracks[best.track].points[end].week,
    })
}

/// The largest single step down between the best level and the present one: from release to release, and from week to
/// week on this line and on the best one.
fn largest_step(of: &Levels, best: &Levels, end: usize, older: &[&Levels], tracks: &[Track]) -> f64 {
    let (line, best_line) = (tracks[of.track].line, tracks[best.track].line);
    let between: Vec<f64> = older
        .iter()
        .filter(|other| (best_line..=line).contains(&tracks[other.track].line))
        .map(|other| other.now())
        .collect();
    let releases = between.windows(2).map(|pair| pair[0] - pair[1]);
    let changes = |levels: &Levels, from: usize| {
        let changes = tracks[levels.track].changes.iter().filter(move |change| change.at > from);
        changes.map(|change| -change.factor().ln()).collect::<Vec<f64>>()
    };
    let own = changes(of, if line == best_line { end } else { 0 });
    releases.chain(own).chain(changes(best, end)).fold(0.0, f64::max)
}

/// How far from 0 a standard normal deviate is with this chance, in one direction.
fn quantile(chance: f64) -> f64 {
    Normal::standard().inverse_cdf(1.0 - chance)
}
