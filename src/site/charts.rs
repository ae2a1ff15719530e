//! Line charts over releases, as SVG that takes its fonts and colours from the style sheet.

use charts_rs::{
    AxisLabelOverflow, Box as Margin, Color, Error, LineChart, Series, SeriesBand, Symbol, svg_with_accessibility,
};

use super::format;

/// Colours double as hooks: the style sheet replaces them one by one for dark screens.
const INK: &str = "#56606B";
const GRID: &str = "#DDE1E6";
const REFERENCE: &str = "#8A939D";
const LAUNCH: &str = "#748293";
/// Lines that a chart can tell apart.
pub(super) const COLOURS: usize = PALETTE.len();

/// Okabe and Ito's palette without its yellow, which is too pale for a line on white.
const PALETTE: [&str; 7] = ["#0B62A4", "#C2540A", "#007F5F", "#A8467F", "#3A8FC4", "#B07D00", "#4D4D4D"];

/// One release in the chart of a microbenchmark.
#[derive(Default)]
pub(super) struct Point {
    /// Name on the axis.
    pub(super) label: String,
    /// What the line goes through.
    pub(super) value: Option<f64>,
    /// Its 95 % interval.
    pub(super) interval: Option<(f64, f64)>,
    /// The same of each launch.
    pub(super) launches: Vec<f64>,
}

/// A named line over all releases.
pub(super) struct Line {
    /// Name of the line.
    pub(super) name: String,
    /// One value per release.
    pub(super) values: Vec<Option<f64>>,
}

/// What a chart is for those who do not see it.
#[derive(Clone, Copy)]
pub(super) struct Alternative<'a> {
    /// What it shows.
    pub(super) title: &'a str,
    /// What can be read off it; empty where the title says all.
    pub(super) description: &'a str,
}

/// Relative QPS of one microbenchmark with intervals as whiskers and launches as small points.
/// `None` when no release has a ratio.
pub(super) fn relative(points: &[Point], text: Alternative) -> Result<Option<String>, Error> {
    let Some(axis) = Axis::around(everything(points)) else { return Ok(None) };
    let mut all = vec![reference(&axis, points.len(), 1)];
    all.extend(points_series(&axis, points));
    draw(all, labels(points), &[PALETTE[0], REFERENCE, LAUNCH], &axis, Size::Full, text).map(Some)
}

/// Values of one microbenchmark with launches as small points. `None` when there is no value.
pub(super) fn values(points: &[Point], size: Size, text: Alternative) -> Result<Option<String>, Error> {
    let Some(axis) = Axis::over(everything(points)) else { return Ok(None) };
    draw(points_series(&axis, points), labels(points), &[PALETTE[0], REFERENCE, LAUNCH], &axis, size, text).map(Some)
}

/// Several lines of ratios over all releases, coloured in the order of the style sheet's `--line-N`. The page
/// writes the legend. `None` when there is no value at all.
pub(super) fn lines(lines: &[Line], labels: &[String], title: &str) -> Result<Option<String>, Error> {
    let text = Alternative { title, description: "" };
    Axis::around(line_values(lines)).map(|axis| draw_lines(lines, labels, &axis, text)).transpose()
}

/// The same for values that are no ratios.
pub(super) fn value_lines(lines: &[Line], labels: &[String], text: Alternative) -> Result<Option<String>, Error> {
    Axis::over(line_values(lines)).map(|axis| draw_lines(lines, labels, &axis, text)).transpose()
}

fn line_values(lines: &[Line]) -> impl Iterator<Item = f64> {
    lines.iter().flat_map(|line| line.values.iter().flatten().copied())
}

fn draw_lines(lines: &[Line], labels: &[String], axis: &Axis, text: Alternative) -> Result<String, Error> {
    let colours: Vec<&str> = PALETTE.iter().copied().cycle().take(lines.len()).collect();
    let all = lines.iter().zip(&colours).map(|(line, colour)| {
        let mut series = series(axis, &line.name, line.values.iter().copied());
        series.symbol = Some(Symbol::Circle(2.5, Some((*colour).into())));
        series
    });
    draw(all.collect(), labels.to_vec(), &colours, axis, Size::Full, text)
}

fn everything(points: &[Point]) -> impl Iterator<Item = f64> {
    points.iter().flat_map(|point| {
        let (low, high) = point.interval.unzip();
        [point.value, low, high].into_iter().flatten().chain(point.launches.iter().copied())
    })
}

fn labels(points: &[Point]) -> Vec<String> {
    points.iter().map(|point| point.label.clone()).collect()
}

/// Launches, then the line with its whiskers above them.
fn points_series(axis: &Axis, points: &[Point]) -> Vec<Series> {
    let bounds = |end: fn((f64, f64)) -> f64| {
        points.iter().map(|point| point.interval.map(|interval| axis.position(end(interval)))).collect()
    };
    let mut line = series(axis, "value", points.iter().map(|point| point.value));
    line.symbol = Some(Symbol::Circle(3.5, Some(PALETTE[0].into())));
    if points.iter().any(|point| point.interval.is_some()) {
        line.error_bar = Some(SeriesBand { lower: bounds(|i| i.0), upper: bounds(|i| i.1), ..SeriesBand::default() });
    }
    line.index = Some(0);
    let mut all = launch_series(axis, points);
    all.push(line);
    all
}

/// Each launch of each release is a point of its own. Neighbours are kept in different series, so
/// that no line joins them.
fn launch_series(axis: &Axis, points: &[Point]) -> Vec<Series> {
    let launches = points.iter().map(|point| point.launches.len()).max().unwrap_or(0);
    let one = |launch: usize, parity: usize| {
        let values = points.iter().enumerate().map(|(index, point)| {
            let drawn = index % 2 == parity;
            point.launches.get(launch).copied().filter(|_| drawn)
        });
        let mut series = series(axis, "launch", values);
        series.symbol = Some(Symbol::Circle(2.0, Some(LAUNCH.into())));
        series.index = Some(2);
        series
    };
    (0..launches).flat_map(|launch| [one(launch, 0), one(launch, 1)]).collect()
}

/// The dashed line at 1.00.
fn reference(axis: &Axis, count: usize, colour: usize) -> Series {
    let mut series = series(axis, "base", std::iter::repeat_n(Some(1.0), count));
    series.symbol = Some(Symbol::None);
    series.stroke_dash_array = Some("4,4".to_owned());
    series.index = Some(colour);
    series
}

fn series(axis: &Axis, name: &str, values: impl Iterator<Item = Option<f64>>) -> Series {
    Series::new_nullable(name.to_owned(), values.map(|value| value.map(|value| axis.position(value))).collect())
}

/// How much room a chart takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Size {
    /// The width of the page.
    Full,
    /// Beside another one.
    Half,
}

impl Size {
    /// Width and height in SVG units; pages scale the picture to the space there is.
    const fn units(self) -> (f32, f32) {
        match self {
            Self::Full => (960.0, 320.0),
            Self::Half => (640.0, 260.0),
        }
    }

    const fn class(self) -> &'static str {
        match self {
            Self::Full => "chart",
            Self::Half => "chart half-chart",
        }
    }
}

fn draw(
    series: Vec<Series>,
    labels: Vec<String>,
    colours: &[&str],
    axis: &Axis,
    size: Size,
    text: Alternative,
) -> Result<String, Error> {
    let ink: Color = INK.into();
    let mut chart = LineChart::new(series, labels);
    (chart.width, chart.height) = size.units();
    chart.margin = Margin { top: 10.0, right: 8.0, bottom: 4.0, left: 4.0 };
    chart.background_color = Color::transparent();
    chart.series.stroke_width = 1.75;
    chart.series.colors = colours.iter().map(|colour| (*colour).into()).collect();
    chart.grid.stroke_color = GRID.into();
    chart.x_axis.stroke_color = GRID.into();
    chart.x_axis.font.size = 13.0;
    chart.x_axis.font.color = ink;
    chart.x_axis.label_overflow = AxisLabelOverflow::Rotate;
    chart.legend.show = Some(false);
    let y_axis = &mut chart.y_axis_configs[0];
    y_axis.font.size = 13.0;
    y_axis.font.color = ink;
    y_axis.min = Some(0.0);
    y_axis.max = Some(axis.position(axis.max()));
    y_axis.split_number = axis.steps;
    y_axis.formatter = Some(format!("{TICK}{}", axis.widest()));
    let svg = svg_with_accessibility(&chart.svg()?, text.title, text.description);
    Ok(adapt(&svg, axis, size))
}

/// Stands before every tick of the value axis until [`adapt`] writes the value there.
const TICK: char = '\u{E000}';

/// charts-rs writes ticks with one decimal and a thousand as 1k, so the chart is drawn in steps of the axis
/// with a placeholder as wide as the widest tick, and the values are filled in here, from the top
/// down. The fixed size goes too: the view box alone lets the picture scale.
fn adapt(svg: &str, axis: &Axis, size: Size) -> String {
    let (width, height) = size.units();
    let fixed_size = format!("<svg width=\"{width}\" height=\"{height}\"");
    let svg = svg.replacen(&fixed_size, &format!("<svg class=\"{}\"", size.class()), 1).replacen(
        " xmlns=\"http://www.w3.org/2000/svg\"",
        "",
        1,
    );
    let mut parts = svg.split(TICK);
    let mut adapted = parts.next().unwrap_or_default().to_owned();
    for (part, tick) in parts.zip(axis.ticks_from_the_top()) {
        adapted.push_str(&tick);
        adapted.push_str(part.strip_prefix(axis.widest().as_str()).unwrap_or(part));
    }
    adapted
}

/// A value axis whose ticks fall on round numbers.
struct Axis {
    min: f64,
    step: f64,
    steps: usize,
    decimals: u32,
}

/// Chart units from one tick to the next: large enough that charts-rs rounds nothing visible.
const UNITS_PER_STEP: f64 = 100.0;

/// Most steps of an axis, without the air at its ends.
const MOST_STEPS: f64 = 7.0;

impl Axis {
    fn max(&self) -> f64 {
        self.min + self.step * self.steps as f64
    }

    /// Where a value stands in the chart.
    #[expect(clippy::cast_possible_truncation, reason = "a picture needs no more than seven digits")]
    fn position(&self, value: f64) -> f32 {
        ((value - self.min) / self.step * UNITS_PER_STEP) as f32
    }

    /// The ticks, largest first.
    fn ticks_from_the_top(&self) -> impl Iterator<Item = String> {
        (0..=self.steps).rev().map(|index| format::fixed(self.min + self.step * index as f64, self.decimals))
    }

    fn widest(&self) -> String {
        format::fixed(self.max(), self.decimals)
    }

    /// The smallest axis of ratios that holds 1.00 and all of them. `None` without a ratio.
    fn around(ratios: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) = ends(ratios)?;
        let axis = Self::between(low.min(1.0), high.max(1.0), 0.01);
        Some(Self { decimals: 2, ..axis })
    }

    /// The smallest axis that holds all values. It begins at zero unless they lie close together far from it. `None`
    /// without a value.
    fn over(values: impl Iterator<Item = f64>) -> Option<Self> {
        const CLOSE: f64 = 0.5;
        let (low, high) = ends(values)?;
        let low = if low > high * CLOSE { low } else { low.min(0.0) };
        // Differences below this share are none.
        let smallest_step = if high == 0.0 { 1.0 } else { high.abs() / 200.0 };
        Some(Self::between(low, high, smallest_step))
    }

    /// An axis with some air at both ends.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "there are at most nine steps")]
    fn between(low: f64, high: f64, smallest_step: f64) -> Self {
        let step = round_step(((high - low) / MOST_STEPS).max(smallest_step));
        let air = step / 4.0;
        // Nothing that is shown can be negative, so neither can the axis.
        let min = (((low - air) / step).floor() * step).max(0.0);
        let steps = ((high + air - min) / step).ceil().max(1.0) as usize;
        let decimals = (-step.log10().floor()).max(0.0) as u32;
        Self { min, step, steps, decimals }
    }
}

/// The smallest of 1, 2, 5, 10, 20, … and their tenths that is not below `step`.
fn round_step(step: f64) -> f64 {
    // A hair less, so that 0.01 does not become 0.02 by its binary digits.
    let step = step * (1.0 - 1e-9);
    let power = 10.0_f64.powf(step.log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|factor| factor * power).find(|round| *round >= step).unwrap_or(10.0 * power)
}

fn ends(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|value| value.is_finite()).fold(None, |ends, value| {
        let (low, high) = ends.unwrap_or((value, value));
        Some((low.min(value), high.max(value)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCAN: Alternative = Alternative { title: "scan", description: "" };

    fn point(label: &str, ratio: f64) -> Point {
        Point {
            label: label.to_owned(),
            value: Some(ratio),
            interval: Some((ratio - 0.02, ratio + 0.03)),
            launches: vec![ratio - 0.01, ratio + 0.01],
        }
    }

    /// The height at which a text is written.
    fn height_of(svg: &str, text: &str) -> f64 {
        let before = svg.split(&format!(">\n{text}\n<")).next().unwrap();
        assert_ne!(before, svg, "no {text} in {svg}");
        let y = before.rsplit(" y=\"").next().unwrap();
        y.split('"').next().unwrap().parse().unwrap()
    }

    #[test]
    fn ticks_are_ratios_and_stand_at_the_right_height() {
        let points = [point("9.0.23", 1.0), point("10.23", 0.93), point("18.4", 1.19)];
        let svg = relative(&points, SCAN).unwrap().unwrap();
        assert!(height_of(&svg, "0.90") > height_of(&svg, "1.00"));
        assert!(height_of(&svg, "1.00") > height_of(&svg, "1.15"));
        // The dashed line at 1.00 is the first path; its ticks stand beside the grid lines.
        let reference = svg.split("<path d=\"M ").nth(1).unwrap().split(' ').nth(1).unwrap();
        assert!((height_of(&svg, "1.00") - reference.parse::<f64>().unwrap()).abs() < 8.0, "{svg}");
        assert!(!svg.contains(TICK));
        assert!(svg.contains("viewBox"));
        assert!(!svg.contains("http"), "an inline picture refers to nothing");
        for label in ["9.0.23", "10.23", "18.4"] {
            assert!(svg.contains(label), "{label}");
        }
    }

    #[test]
    fn a_ratio_above_ten_is_not_abbreviated() {
        let svg = relative(&[point("9.0.23", 1.0), point("18.4", 25.0)], SCAN).unwrap().unwrap();
        assert!(height_of(&svg, "25.00") < height_of(&svg, "5.00"));
        assert!(!svg.contains("k\n"), "{svg}");
    }

    #[test]
    fn text_is_escaped() {
        let svg =
            relative(&[point("<script>", 1.0)], Alternative { title: "a < b", description: "c < d" }).unwrap().unwrap();
        assert!(!svg.contains("<script>"), "{svg}");
        assert!(svg.contains("<title>a &lt; b</title>") && svg.contains("<desc>c &lt; d</desc>"), "{svg}");
    }

    #[test]
    fn without_a_ratio_there_is_no_chart() {
        let nothing = [Point { label: "18.4".to_owned(), ..Point::default() }];
        assert!(relative(&nothing, SCAN).unwrap().is_none());
        assert!(values(&nothing, Size::Half, SCAN).unwrap().is_none());
        assert!(value_lines(&[], &[], SCAN).unwrap().is_none());
        assert!(lines(&[], &[], "medians").unwrap().is_none());
    }

    #[test]
    fn the_axis_of_ratios_has_round_ends_around_every_value() {
        for ratios in [vec![1.0], vec![0.995, 1.004], vec![0.05, 1.0], vec![1.0, 7.9], vec![0.4, 25.0]] {
            let axis = Axis::around(ratios.iter().copied()).unwrap();
            assert!(ratios.iter().all(|&ratio| ratio >= axis.min && ratio <= axis.max()), "{ratios:?}");
            assert!((1..=10).contains(&axis.steps), "{ratios:?}: {} steps", axis.steps);
            let steps_to_one = (1.0 - axis.min) / axis.step;
            assert!(
                axis.step > 1.0 || (steps_to_one - steps_to_one.round()).abs() < 1e-6,
                "{ratios:?}: 1.00 is a tick"
            );
        }
    }

    #[test]
    fn the_axis_of_values_begins_at_zero_unless_they_are_close_together() {
        let axis = |values: &[f64]| {
            let axis = Axis::over(values.iter().copied()).unwrap();
            (axis.min, axis.ticks_from_the_top().last().unwrap(), axis.widest())
        };
        assert_eq!(axis(&[21_000.0, 24_000.0]), (20_500.0, "20,500".to_owned(), "24,500".to_owned()));
        assert_eq!(axis(&[0.4, 412.6]).1, "0");
        assert_eq!(axis(&[0.0]).1, "0");
        assert_eq!(axis(&[4.0]), (3.98, "3.98".to_owned(), "4.02".to_owned()));
        let svg = values(&[point("17.0", 21_000.0), point("18.4", 24_000.0)], Size::Half, SCAN).unwrap().unwrap();
        assert!(height_of(&svg, "24,000") < height_of(&svg, "21,000"), "{svg}");
        assert!(svg.contains("class=\"chart half-chart\"") && !svg.contains(TICK));
    }
}
