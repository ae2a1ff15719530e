//! Is it significant, and is it big enough to matter? Two questions, one verdict.
//!
//! All comparisons of a sweep with its base are one family. A change is called where it exceeds the threshold
//! surely enough for one of so many (Holm, Scandinavian Journal of Statistics 6, 1979). "No change" is called
//! where the interval lies inside the threshold.

use std::cell::OnceCell;

use super::layout::{Difference, Layout};
use super::looks::{self, Look};
use super::ratios::{t_quantile, t_tail};
use super::{Certainty, LaunchesWanted, Stopping, Verdict};

/// Changes up to this share of the base's rate don't matter in practice.
pub const THRESHOLD: f64 = 0.01;

/// Confidence of the intervals that are shown.
pub const CONFIDENCE: f64 = 0.95;

/// The chance of one or more false changes among all comparisons of a sweep.
pub const FAMILY_ERROR: f64 = 0.05;

/// The chance, in one direction, that launches without a change confirm one.
pub const CONFIRMATION: f64 = 0.005;

/// Whatever the size of the family, a single comparison is flagged by mistake at most this often over all looks:
/// with [`CONFIRMATION`], confirmed by mistake at most once in ten thousand.
const SINGLE_ERROR: f64 = 0.02;

/// Where the number of launches is fixed, the chance of finding a change that the launches wanted are counted for.
const POWER: f64 = 0.9;

/// More launches than this are not worth naming.
const MOST_WANTED: u32 = 9999;

/// How the launches of a sweep came about.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Design {
    /// Their number was fixed beforehand: one look, at the end.
    Fixed,
    /// A row stops when planned looks find it decided.
    Sequential(Stopping),
}

/// One target compared with the base on one microbenchmark.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// log(target / base).
    pub log: f64,
    /// Blocks that both have, as far as the last look saw them.
    pub common_blocks: u32,
    /// The ends of its interval, in logarithms.
    pub interval: Option<(f64, f64)>,
    /// The answer.
    pub verdict: Verdict,
    /// How sure it is.
    pub certainty: Certainty,
    /// Whether any look showed a change, confirmed or not.
    pub seen: bool,
}

/// All targets of one microbenchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgedRow {
    /// One entry per target; none for the base and where there is no ratio.
    pub comparisons: Vec<Option<Judged>>,
    /// Launches per target at the last look; 0 before the first.
    pub look: u32,
    /// Whether more launches would not change any answer. Never in a fixed design.
    pub settled: bool,
}

/// Judges all comparisons of a sweep together, one layout per microbenchmark.
#[must_use]
pub fn judge(rows: &[Layout], design: Design) -> Vec<JudgedRow> {
    match design {
        Design::Fixed => fixed(rows),
        Design::Sequential(stopping) => sequential(rows, &stopping),
    }
}

/// Where a comparison stands after the looks so far.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Standing {
    Open,
    /// A look showed a change, up or down, after so many launches.
    Flagged {
        launches: u32,
        up: bool,
    },
    /// And later launches alone showed it as well.
    Called {
        up: bool,
    },
}

/// Row and target.
type Place = (usize, usize);

/// How many comparisons there are at all.
fn family(rows: &[Layout]) -> usize {
    let compared = |row: &Layout| (0..row.targets()).filter(|target| row.is_compared(*target)).count();
    rows.iter().map(compared).sum()
}

fn fixed(rows: &[Layout]) -> Vec<JudgedRow> {
    let family = family(rows);
    let differences: Vec<Vec<Option<Difference>>> = rows.iter().map(|row| row.differences(0, u32::MAX)).collect();
    let all = places(&differences).map(|(place, difference)| (place, p_value(&difference)));
    let changed = holm(all.collect(), FAMILY_ERROR, FAMILY_ERROR, family);
    let judged = |(row, differences): (usize, &Vec<Option<Difference>>)| {
        let halves = OnceCell::new();
        let judged = |(target, difference): (usize, &Option<Difference>)| {
            let difference = (*difference)?;
            let change = changed.contains(&(row, target)).then_some(difference.log > 0.0);
            let judged = judged(&difference, change, 1.0 - CONFIDENCE, THRESHOLD, || {
                wanted(&difference, FAMILY_ERROR / family as f64, POWER, THRESHOLD)
            });
            let confirmed = change.is_some_and(|up| {
                both_halves_show(halves.get_or_init(|| halves_of(&rows[row])), target, up)
                    && shows_alone(&rows[row], target, u32::MAX, up)
            });
            Some(Judged { certainty: Certainty { confirmed, ..judged.certainty }, ..judged })
        };
        JudgedRow {
            comparisons: differences.iter().enumerate().map(judged).collect(),
            look: rows[row].closed(),
            settled: false,
        }
    };
    differences.iter().enumerate().map(judged).collect()
}

/// All targets' differences in the earlier and in the later half of the blocks.
fn halves_of(row: &Layout) -> [Vec<Option<Difference>>; 2] {
    let numbers: Vec<u32> = row.numbers().collect();
    let middle = numbers.get((numbers.len().max(1) - 1) / 2).copied().unwrap_or(0);
    [row.differences(0, middle), row.differences(middle, u32::MAX)]
}

/// Without looks in between, the later half of the blocks confirms what the earlier half shows. Halves of fewer blocks
/// than there are between looks cannot: a noisy target may not be told from quiet ones by so few.
fn both_halves_show(halves: &[Vec<Option<Difference>>; 2], target: usize, up: bool) -> bool {
    let is_shown = |part: &Difference| part.common_blocks >= looks::FRESH && shows(part, up);
    halves.iter().all(|half| half[target].as_ref().is_some_and(is_shown))
}

/// Whether the blocks so far show it without the scatter of other targets, which may be smaller than this one's.
fn shows_alone(row: &Layout, target: usize, until: u32, up: bool) -> bool {
    row.paired(target, until).is_some_and(|difference| shows(&difference, up))
}

/// Whether these launches alone show a change in this direction.
fn shows(difference: &Difference, up: bool) -> bool {
    let Some(error) = difference.error else { return false };
    let log = if up { difference.log } else { -difference.log };
    log > 0.0 && log > t_quantile(1.0 - 2.0 * CONFIRMATION, error.freedom) * error.standard_error
}

fn sequential(rows: &[Layout], stopping: &Stopping) -> Vec<JudgedRow> {
    let family = family(rows);
    let looks = looks::schedule(stopping);
    let mut states: Vec<RowState> = rows.iter().map(RowState::new).collect();
    for (index, look) in looks.iter().enumerate() {
        let is_last = index + 1 == looks.len();
        for (state, row) in states.iter_mut().zip(rows) {
            state.confirm(row, look);
        }
        flag(&mut states, look, family);
        for state in &mut states {
            state.settle(look, stopping, is_last);
        }
    }
    let level = FAMILY_ERROR / family as f64 * looks.iter().map(|look| look.change).fold(0.0, f64::max);
    states.into_iter().zip(rows).map(|(state, row)| state.judged(row, &looks, stopping, level)).collect()
}

/// Flags what exceeds the threshold at this look, among those that are not flagged or called yet.
fn flag(states: &mut [RowState], look: &Look, family: usize) {
    let mut open: Vec<(Place, f64)> = Vec::new();
    let mut decided = 0;
    for (row, state) in states.iter().enumerate() {
        for (target, standing) in state.standings.iter().enumerate() {
            match (standing, state.differences[target]) {
                (Standing::Open, Some(difference)) if state.is_at(look) => {
                    open.push(((row, target), p_value(&difference)));
                }
                (Standing::Open, _) => {}
                _ => decided += 1,
            }
        }
    }
    // If these were flagged rightly, they are no longer part of what may be flagged wrongly.
    for (row, target) in holm(open, FAMILY_ERROR * look.change, SINGLE_ERROR * look.change, family - decided) {
        let up = states[row].differences[target].is_some_and(|difference| difference.log > 0.0);
        states[row].standings[target] = Standing::Flagged { launches: look.launches, up };
        states[row].seen[target] = true;
    }
}

/// A row on its way through the looks.
struct RowState {
    standings: Vec<Standing>,
    /// Whether a target was ever flagged.
    seen: Vec<bool>,
    /// As of the last look.
    differences: Vec<Option<Difference>>,
    /// Launches at the last look; 0 before the first.
    look: u32,
    settled: bool,
}

impl RowState {
    fn new(row: &Layout) -> Self {
        Self {
            standings: vec![Standing::Open; row.targets()],
            seen: vec![false; row.targets()],
            differences: vec![None; row.targets()],
            look: 0,
            settled: false,
        }
    }

    fn is_at(&self, look: &Look) -> bool {
        self.look == look.launches
    }

    /// Takes the row to a look, if it is measured that far and still open, and lets the launches since the last
    /// look confirm what that one flagged.
    fn confirm(&mut self, row: &Layout, look: &Look) {
        if self.settled || row.closed() < look.launches {
            return;
        }
        self.differences = row.differences(0, look.launches);
        self.look = look.launches;
        let mut since: Option<(u32, Vec<Option<Difference>>)> = None;
        for (target, standing) in self.standings.iter_mut().enumerate() {
            let Standing::Flagged { launches, up } = *standing else { continue };
            // All flags stem from the look before: they are resolved here.
            let (_, fresh) = since.get_or_insert_with(|| (launches, row.differences(launches, look.launches)));
            let confirmed = fresh[target].is_some_and(|difference| shows(&difference, up))
                && shows_alone(row, target, look.launches, up);
            *standing = if confirmed { Standing::Called { up } } else { Standing::Open };
        }
    }

    fn settle(&mut self, look: &Look, stopping: &Stopping, is_last: bool) {
        if !self.is_at(look) {
            return;
        }
        let (precision, beyond) = (stopping.precision.ln_1p(), (THRESHOLD + stopping.precision).ln_1p());
        let is_settled = |(standing, difference): (&Standing, &Option<Difference>)| match (standing, difference) {
            (Standing::Flagged { .. }, _) => false,
            // Known well enough, and not so near to a change worth calling that more launches might call it.
            (Standing::Open, Some(difference)) => difference.error.is_some_and(|error| {
                let reach = t_quantile(1.0 - level(look), error.freedom) * error.standard_error;
                reach <= precision && difference.log.abs() + reach <= beyond
            }),
            // Where blocks went by without a ratio, further ones promise none.
            (Standing::Called { .. }, _) | (Standing::Open, None) => true,
        };
        self.settled = is_last || self.standings.iter().zip(&self.differences).all(is_settled);
    }

    fn judged(self, row: &Layout, looks: &[Look], stopping: &Stopping, change_level: f64) -> JudgedRow {
        let look = looks.iter().find(|look| look.launches == self.look);
        // Before the first look there are ratios, but nothing to say about them.
        let differences = if look.is_some() { self.differences } else { row.differences(0, u32::MAX) };
        let judged = |((difference, standing), seen): ((Option<Difference>, &Standing), bool)| {
            let difference = difference?;
            let Some(look) = look else {
                let (log, common_blocks) = (difference.log, difference.common_blocks);
                let (interval, verdict, certainty) = (None, Verdict::Inconclusive, Certainty::default());
                return Some(Judged { log, common_blocks, interval, verdict, certainty, seen: false });
            };
            let change = if let Standing::Called { up } = standing { Some(*up) } else { None };
            let judged = judged(&difference, change, level(look), stopping.precision, || {
                wanted(&difference, change_level, stopping.power, stopping.precision)
            });
            let flagged = matches!(standing, Standing::Flagged { .. });
            let verdict = if flagged { Verdict::Inconclusive } else { judged.verdict };
            let wanted = judged.certainty.wanted.filter(|_| !flagged);
            let certainty = Certainty { confirmed: change.is_some(), flagged, wanted, ..judged.certainty };
            Some(Judged { verdict, certainty, seen, ..judged })
        };
        JudgedRow {
            comparisons: differences.into_iter().zip(&self.standings).zip(self.seen).map(judged).collect(),
            look: self.look,
            settled: self.settled,
        }
    }
}

/// What the interval at a look may miss.
fn level(look: &Look) -> f64 {
    (1.0 - CONFIDENCE) * look.interval
}

/// The answer of a comparison whose change, up or down, is called or not; `within_share` is what "no change" means.
fn judged(
    difference: &Difference,
    change: Option<bool>,
    level: f64,
    within_share: f64,
    wanted: impl FnOnce() -> Option<LaunchesWanted>,
) -> Judged {
    let Difference { log, common_blocks, error } = *difference;
    let interval = error.map(|error| {
        let reach = t_quantile(1.0 - level, error.freedom) * error.standard_error;
        (log - reach, log + reach)
    });
    let within = within_share.ln_1p();
    let verdict = match (change, interval) {
        (Some(true), _) => Verdict::Improved,
        (Some(false), _) => Verdict::Regressed,
        (None, Some((low, high))) if low > -within && high < within => Verdict::Same,
        _ => Verdict::Inconclusive,
    };
    let bound = interval.map(|(low, high)| low.exp_m1().abs().max(high.exp_m1().abs()));
    // A change that the interval excludes is settled.
    let is_open = verdict == Verdict::Inconclusive && bound.is_some_and(|bound| bound > THRESHOLD + within_share);
    let certainty = Certainty { bound, wanted: if is_open { wanted() } else { None }, ..Certainty::default() };
    Judged { log, common_blocks, interval, verdict, certainty, seen: change.is_some() }
}

/// The chance of a difference this far beyond the threshold, if the truth is at the threshold: on one side of it
/// or the other, since either would be called.
fn p_value(difference: &Difference) -> f64 {
    let Some(error) = difference.error else { return 1.0 };
    let (size, threshold) = (difference.log.abs(), THRESHOLD.ln_1p());
    let t = (size - threshold) / error.standard_error;
    // Above 5 % for every number of degrees of freedom, and so never small enough.
    if t.is_nan() || t < 1.6 {
        return 1.0;
    }
    t_tail(t, error.freedom) + t_tail((size + threshold) / error.standard_error, error.freedom)
}

/// Those whose p value is small enough: the smallest has to be one of `family`, the next one of one less, and so on
/// until the first that is not. None needs less than `single`.
fn holm(mut p_values: Vec<(Place, f64)>, error: f64, single: f64, family: usize) -> Vec<Place> {
    p_values.retain(|(_, p)| *p <= error);
    p_values.sort_by(|(_, a), (_, b)| a.total_cmp(b));
    let is_small = |(index, (_, p)): &(usize, (Place, f64))| *p <= (error / (family - index) as f64).min(single);
    p_values.into_iter().enumerate().take_while(is_small).map(|(_, (place, _))| place).collect()
}

fn places(differences: &[Vec<Option<Difference>>]) -> impl Iterator<Item = (Place, Difference)> {
    differences.iter().enumerate().flat_map(|(row, differences)| {
        let place = move |(target, difference): (usize, &Option<Difference>)| Some(((row, target), (*difference)?));
        differences.iter().enumerate().filter_map(place)
    })
}

/// Launches after which a change of the threshold plus `beyond` would be called at `level` with chance `power`.
fn wanted(difference: &Difference, level: f64, power: f64, beyond: f64) -> Option<LaunchesWanted> {
    let error = difference.error?;
    let launches = f64::from(difference.common_blocks);
    let (scatter, freedom) = (error.standard_error * launches.sqrt(), error.freedom / (launches - 1.0));
    let settles = THRESHOLD + beyond;
    let room = settles.ln_1p() - THRESHOLD.ln_1p();
    let enough = |launches: u32| {
        let (launches, freedom) = (f64::from(launches), freedom * f64::from(launches - 1));
        let sigmas = t_quantile(1.0 - level, freedom) + t_quantile(2.0 * power - 1.0, freedom);
        sigmas * scatter / launches.sqrt() <= room
    };
    let now = difference.common_blocks;
    // More launches never make it worse: halve the range.
    let (mut few, mut many) = (now, MOST_WANTED);
    if !enough(many) {
        return None;
    }
    while few < many {
        let middle = u32::midpoint(few, many);
        if enough(middle) { many = middle } else { few = middle + 1 }
    }
    (many > now).then_some(LaunchesWanted { more: many - now, settles })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A row of two targets whose blocks have these ratios, among `family` that are equal throughout.
    fn rows(ratios: &[f64], family: usize) -> Vec<Layout> {
        let mut rows = vec![Layout::new(2, 0); family];
        for (number, ratio) in (1..).zip(ratios) {
            for (index, row) in rows.iter_mut().enumerate() {
                row.push(number, vec![Some(1.0), Some(if index == 0 { *ratio } else { 1.0 })]);
            }
        }
        rows
    }

    fn fixed(ratios: &[f64], family: usize) -> Judged {
        judge(&rows(ratios, family), Design::Fixed)[0].comparisons[1].unwrap()
    }

    fn sequential(ratios: &[f64], stopping: &Stopping) -> JudgedRow {
        judge(&rows(ratios, 1), Design::Sequential(*stopping)).swap_remove(0)
    }

    const STOPPING: Stopping = Stopping { precision: 0.01, power: 0.9, max_launches: 20 };

    #[test]
    fn one_block_decides_nothing() {
        let judged = fixed(&[0.5], 42);
        assert_eq!((judged.common_blocks, judged.interval), (1, None));
        assert_eq!((judged.verdict, judged.certainty), (Verdict::Inconclusive, Certainty::default()));
    }

    #[test]
    fn the_interval_is_that_of_a_worked_example() {
        // ln 0.90, ln 0.92, ln 0.88: mean −0.105525, sd 0.022226, half width 4.302653 · sd / √3 = 0.055213.
        let judged = fixed(&[0.90, 0.92, 0.88], 1);
        assert!((judged.log.exp() - 0.899_852).abs() < 1e-6, "{judged:?}");
        let (low, high) = judged.interval.unwrap();
        assert!((low.exp() - 0.851_515).abs() < 1e-5 && (high.exp() - 0.950_933).abs() < 1e-5, "{low} {high}");
        assert_eq!(judged.verdict, Verdict::Regressed);
        assert!((judged.certainty.bound.unwrap() - 0.148_485).abs() < 1e-5, "{judged:?}");
        assert!(!judged.certainty.confirmed, "three launches cannot confirm what they show");
    }

    #[test]
    fn significance_and_magnitude_both_decide() {
        let verdict = |ratios: &[f64], family| fixed(ratios, family).verdict;
        assert_eq!(verdict(&[1.05, 1.051, 1.05, 1.049], 42), Verdict::Improved);
        assert_eq!(verdict(&[1.005, 1.0051, 1.005, 1.0049], 42), Verdict::Same, "significant, but too small to matter");
        assert_eq!(verdict(&[1.2, 0.9, 1.1, 1.0], 42), Verdict::Inconclusive);
        assert_eq!(verdict(&[1.03, 1.05, 1.04], 1), Verdict::Improved);
        assert_eq!(verdict(&[1.03, 1.05, 1.04], 42), Verdict::Inconclusive, "one of 42 has to be clearer");
    }

    #[test]
    fn both_halves_confirm_what_all_show() {
        let confirmed = |ratios: &[f64]| fixed(ratios, 1).certainty.confirmed;
        let change = [1.05, 1.052, 1.051, 1.049, 1.05];
        assert!(confirmed(&[change, change].concat()));
        assert!(!confirmed(&[change, [1.07, 1.02, 1.09, 1.01, 1.06]].concat()));
        assert!(!confirmed(&[1.0; 10]));
    }

    #[test]
    fn holm_asks_less_of_the_next() {
        let p = |p_values: &[f64]| p_values.iter().enumerate().map(|(row, p)| ((row, 1), *p)).collect::<Vec<_>>();
        assert_eq!(holm(p(&[0.03, 0.012, 0.2]), 0.05, 0.05, 3), [(1, 1)]);
        assert_eq!(holm(p(&[0.024, 0.012, 0.049]), 0.05, 0.05, 3), [(1, 1), (0, 1), (2, 1)]);
        assert_eq!(holm(p(&[0.02, 0.02, 0.001]), 0.05, 0.05, 3), [(2, 1), (0, 1), (1, 1)]);
        assert_eq!(holm(p(&[0.03]), 0.05, 0.02, 1), []);
    }

    #[test]
    fn launches_wanted_find_a_change_of_two_percent() {
        let judged = fixed(&[1.015, 0.985, 1.015, 0.985], 1);
        let wanted = judged.certainty.wanted.unwrap();
        assert!((wanted.settles - 0.02).abs() < 1e-12);
        // Standard deviation 0.01732, t quantiles 2.032 and 1.307 with 34 degrees of freedom, room ln 1.02 − ln 1.01:
        // (3.339 · 0.01732 / 0.009852)² = 34.5, so 35 launches, of which four are there.
        assert_eq!(wanted.more, 31);
        assert_eq!(fixed(&[1.0, 1.001, 0.999], 1).certainty.wanted, None);
    }

    #[test]
    fn a_change_is_called_only_when_later_launches_show_it() {
        let change = [0.95, 0.951, 0.949, 0.95];
        let first = sequential(&change, &STOPPING);
        let judged = first.comparisons[1].unwrap();
        assert_eq!((first.look, first.settled, judged.verdict), (4, false, Verdict::Inconclusive));
        assert!(judged.certainty.flagged && !judged.certainty.confirmed);
        let between = sequential(&[change.as_slice(), &change[..3]].concat(), &STOPPING);
        assert_eq!(between, first, "nothing is decided between looks");

        let second = sequential(&[change, change].concat(), &STOPPING);
        let judged = second.comparisons[1].unwrap();
        assert_eq!((second.look, second.settled, judged.verdict), (8, true, Verdict::Regressed));
        assert!(judged.certainty.confirmed && !judged.certainty.flagged);

        let gone = sequential(&[change, [1.0, 0.999, 1.001, 1.0]].concat(), &STOPPING);
        let judged = gone.comparisons[1].unwrap();
        assert_eq!((gone.settled, judged.verdict, judged.certainty.flagged), (false, Verdict::Inconclusive, false));
    }

    #[test]
    fn a_row_stops_when_it_is_known_well_enough_and_stays_stopped() {
        let quiet = [1.0, 1.0001, 0.9999, 1.0001, 1.0, 0.9999, 1.0, 1.0001];
        let settled = sequential(&quiet, &STOPPING);
        assert_eq!((settled.look, settled.settled), (4, true), "{settled:?}");
        assert_eq!(settled.comparisons[1].unwrap().verdict, Verdict::Same);
        let wild = [[1.0; 8], [0.8; 8]].concat();
        assert_eq!(sequential(&[quiet.as_slice(), &wild].concat(), &STOPPING), settled, "whatever comes later");

        let noisy: Vec<f64> = (0..20).map(|block| if block % 2 == 0 { 1.1 } else { 0.9 }).collect();
        let given_up = sequential(&noisy, &STOPPING);
        assert_eq!((given_up.look, given_up.settled), (20, true));
        assert_eq!(given_up.comparisons[1].unwrap().verdict, Verdict::Inconclusive);
        assert!(given_up.comparisons[1].unwrap().certainty.wanted.unwrap().more > 100);
    }

    proptest! {
        #[test]
        fn exchanging_base_and_target_mirrors_the_answer(
            ratios in proptest::collection::vec(0.5..2.0f64, 2..8),
            family in 1usize..60,
        ) {
            let there = fixed(&ratios, family);
            let back = fixed(&ratios.iter().map(|ratio| 1.0 / ratio).collect::<Vec<_>>(), family);
            let (low, high) = there.interval.unwrap();
            let (back_low, back_high) = back.interval.unwrap();
            prop_assert!((there.log + back.log).abs() < 1e-9);
            prop_assert!((low + back_high).abs() < 1e-9 && (high + back_low).abs() < 1e-9);
            prop_assert!(low <= there.log && there.log <= high);
            let mirrored = match back.verdict {
                Verdict::Improved => Verdict::Regressed,
                Verdict::Regressed => Verdict::Improved,
                other => other,
            };
            prop_assert_eq!(there.verdict, mirrored);
        }
    }
}
