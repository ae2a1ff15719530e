//! A chart of ratios over weeks as SVG: lines with gaps, and marks where they change.

use std::fmt::Write as _;

use super::format;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 320.0;
/// Room for the numbers at the left, for the last label at the right, above, and for the weeks below.
const LEFT: f64 = 46.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 28.0;

/// A named line.
pub(super) struct Line {
    /// One value per week.
    pub(super) values: Vec<Option<f64>>,
    /// Weeks that are marked, with what is said about each.
    pub(super) marks: Vec<(usize, String)>,
}

/// The lines over the weeks, coloured in the order of the style sheet's `--line-N`; past those they are dashed. `None`
/// when there is nothing to draw.
pub(super) fn draw(weeks: &[String], lines: &[Line], title: &str, description: &str) -> Option<String> {
    let values = lines.iter().flat_map(|line| line.values.iter().flatten().copied());
    let scale = Scale::around(values, weeks.len())?;
    let mut svg = format!(
        "<svg class=\"chart\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\"><title>{}</title><desc>{}</desc>",
        escaped(title),
        escaped(description)
    );
    // Writing to a string does not fail.
    let _ = grid(&mut svg, &scale, weeks);
    for (index, line) in lines.iter().enumerate() {
        let _ = path(&mut svg, &scale, line, index);
    }
    svg.push_str("</svg>");
    Some(svg)
}

fn grid(svg: &mut String, scale: &Scale, weeks: &[String]) -> std::fmt::Result {
    for tick in scale.ticks() {
        let y = scale.y(tick);
        let class = if (tick - 1.0).abs() < 1e-9 { "one" } else { "grid" };
        write!(
            svg,
            "<path class=\"{class}\" d=\"M{LEFT} {y:.1}H{:.1}\"/><text class=\"value\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y + 4.0,
            format::fixed(tick, 2)
        )?;
    }
    for (index, week) in weeks.iter().enumerate().step_by(weeks.len().div_ceil(9).max(1)) {
        let (x, y) = (scale.x(index), HEIGHT - 8.0);
        write!(svg, "<text class=\"week\" x=\"{x:.1}\" y=\"{y:.1}\">{}</text>", escaped(week))?;
    }
    Ok(())
}

fn path(svg: &mut String, scale: &Scale, line: &Line, index: usize) -> std::fmt::Result {
    /// Colours of the style sheet.
    const COLOURS: usize = 7;
    let dashed = if index >= COLOURS { " dashed" } else { "" };
    write!(svg, "<g class=\"line k{}{dashed}\"><path d=\"", index % COLOURS)?;
    let mut joined = false;
    for (week, value) in line.values.iter().enumerate() {
        if let Some(value) = value {
            let verb = if joined { 'L' } else { 'M' };
            write!(svg, "{verb}{:.1} {:.1}", scale.x(week), scale.y(*value))?;
        }
        joined = value.is_some();
    }
    svg.push_str("\"/>");
    for (week, value) in line.values.iter().enumerate().filter_map(|(week, value)| Some((week, (*value)?))) {
        // A week with gaps on both sides has no line to it.
        let is_alone = |at: Option<usize>| at.and_then(|at| *line.values.get(at)?).is_none();
        if is_alone(week.checked_sub(1)) && is_alone(Some(week + 1)) {
            write!(
                svg,
                "<circle class=\"point\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.5\"/>",
                scale.x(week),
                scale.y(value)
            )?;
        }
    }
    for (week, words) in &line.marks {
        if let Some(Some(value)) = line.values.get(*week) {
            write!(
                svg,
                "<circle class=\"mark\" cx=\"{:.1}\" cy=\"{:.1}\" r=\"5.5\"><title>{}</title></circle>",
                scale.x(*week),
                scale.y(*value),
                escaped(words)
            )?;
        }
    }
    svg.push_str("</g>");
    Ok(())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// From weeks and ratios to places.
struct Scale {
    low: f64,
    step: f64,
    steps: usize,
    weeks: usize,
}

impl Scale {
    /// The smallest scale with round ticks that holds 1.00, all ratios, and some air.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most ten steps")]
    fn around(ratios: impl Iterator<Item = f64>, weeks: usize) -> Option<Self> {
        const MOST: f64 = 7.0;
        let ends = ratios.filter(|ratio| ratio.is_finite()).fold(None, |ends: Option<(f64, f64)>, ratio| {
            let (low, high) = ends.unwrap_or((1.0, 1.0));
            Some((low.min(ratio), high.max(ratio)))
        });
        let (low, high) = ends?;
        let fits = |step: &f64| (high - low) / step <= MOST;
        let round = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0].into_iter().find(fits);
        let step = round.unwrap_or_else(|| ((high - low) / MOST).ceil());
        // What lies on a tick gets air as well.
        let (first, last) = ((low / step - 0.25).floor().max(0.0), (high / step + 0.25).ceil());
        Some(Self { low: first * step, step, steps: (last - first) as usize, weeks })
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let (low, step) = (self.low, self.step);
        (0..=self.steps).map(move |index| low + step * index as f64)
    }

    fn y(&self, ratio: f64) -> f64 {
        let share = (ratio - self.low) / (self.step * self.steps as f64);
        HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)
    }

    fn x(&self, week: usize) -> f64 {
        let inside = WIDTH - LEFT - RIGHT - 20.0;
        let share = if self.weeks > 1 { week as f64 / (self.weeks - 1) as f64 } else { 0.5 };
        LEFT + 10.0 + share * inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weeks(count: usize) -> Vec<String> {
        (1..=count).map(|week| format!("2026-W{week:02}")).collect()
    }

    #[test]
    fn gaps_break_the_line_and_lonely_weeks_are_points() {
        let line = Line { values: vec![Some(1.0), Some(0.98), None, Some(0.97), None], marks: vec![] };
        let svg = draw(&weeks(5), &[line], "a < b", "c").unwrap();
        assert_eq!(svg.matches("class=\"point\"").count(), 1);
        let path = svg.split("<g class=\"line k0\"><path d=\"").nth(1).unwrap().split('"').next().unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 1), "{path}");
        assert!(svg.contains("a &lt; b") && !svg.contains("http"), "{svg}");
    }

    #[test]
    fn marks_stand_on_their_values_and_say_why() {
        let line = Line { values: vec![Some(1.0), Some(0.9)], marks: vec![(1, "down by 10.0 %".to_owned())] };
        let svg = draw(&weeks(2), &[line], "t", "d").unwrap();
        assert!(svg.contains("<title>down by 10.0 %</title>"), "{svg}");
        assert_eq!(svg.matches("class=\"mark\"").count(), 1);
        assert!(draw(&weeks(2), &[], "t", "d").is_none());
    }

    #[test]
    fn ticks_are_round_and_hold_every_value() {
        for ratios in [vec![1.0], vec![0.995, 1.004], vec![0.05], vec![7.9], vec![25.0], vec![120.0]] {
            let scale = Scale::around(ratios.iter().copied(), 3).unwrap();
            let ticks: Vec<f64> = scale.ticks().collect();
            assert!(ratios.iter().all(|ratio| ticks[0] <= *ratio && *ratio <= ticks[ticks.len() - 1]), "{ratios:?}");
            assert!((2..=11).contains(&ticks.len()), "{ratios:?}: {ticks:?}");
            assert!(ratios.iter().all(|ratio| (TOP..=HEIGHT - BOTTOM).contains(&scale.y(*ratio))));
        }
    }
}
