//! Line charts of ratios over releases, as SVG that takes its fonts and colours from the style sheet.

use charts_rs::{
    AxisLabelOverflow, Box as Margin, Color, Error, LineChart, Series, SeriesBand, Symbol, svg_with_accessibility,
};

use super::format;

/// Width in SVG units; pages scale the picture to the space there is.
const WIDTH: f32 = 960.0;
const HEIGHT: f32 = 320.0;

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
pub(super) struct Point {
    /// Name on the axis.
    pub(super) label: String,
    /// QPS relative to the base.
    pub(super) ratio: Option<f64>,
    /// Its 95 % interval.
    pub(super) interval: Option<(f64, f64)>,
    /// The ratio of each launch to the base's launch in the same block.
    pub(super) launches: Vec<f64>,
}

/// A named line over all releases.
pub(super) struct Line {
    /// Name of the line.
    pub(super) name: String,
    /// One value per release.
    pub(super) values: Vec<Option<f64>>,
}

/// Relative QPS of one microbenchmark with intervals as whiskers and launches as small points.
/// `None` when no release has a ratio.
pub(super) fn relative(points: &[Point], title: &str) -> Result<Option<String>, Error> {
    let everything = points.iter().flat_map(|point| {
        let (low, high) = point.interval.unzip();
        [point.ratio, low, high].into_iter().flatten().chain(point.launches.iter().copied())
    });
    let Some(axis) = Axis::around(everything) else {
        return Ok(None);
    };
    let bounds =
        |end: fn((f64, f64)) -> f64| points.iter().map(|point| point.interval.map(|i| percent(end(i)))).collect();
    let mut ratios = series("relative QPS", points.iter().map(|point| point.ratio));
    ratios.symbol = Some(Symbol::Circle(3.5, Some(PALETTE[0].into())));
    ratios.error_bar = Some(SeriesBand { lower: bounds(|i| i.0), upper: bounds(|i| i.1), ..SeriesBand::default() });
    ratios.index = Some(0);

    let mut all = vec![reference(points.len(), 1)];
    all.extend(launch_series(points));
    all.push(ratios);
    let labels = points.iter().map(|point| point.label.clone()).collect();
    draw(all, labels, &[PALETTE[0], REFERENCE, LAUNCH], &axis, title).map(Some)
}

/// Several lines over all releases, coloured in the order of the style sheet's `--line-N`. The page
/// writes the legend. `None` when there is no value at all.
pub(super) fn lines(lines: &[Line], labels: &[String], title: &str) -> Result<Option<String>, Error> {
    let Some(axis) = Axis::around(lines.iter().flat_map(|line| line.values.iter().flatten().copied())) else {
        return Ok(None);
    };
    let colours: Vec<&str> = PALETTE.iter().copied().cycle().take(lines.len()).collect();
    let all = lines.iter().zip(&colours).map(|(line, colour)| {
        let mut series = series(&line.name, line.values.iter().copied());
        series.symbol = Some(Symbol::Circle(2.5, Some((*colour).into())));
        series
    });
    draw(all.collect(), labels.to_vec(), &colours, &axis, title).map(Some)
}

/// Each launch of each release is a point of its own. Neighbours are kept in different series, so
/// that no line joins them.
fn launch_series(points: &[Point]) -> Vec<Series> {
    let launches = points.iter().map(|point| point.launches.len()).max().unwrap_or(0);
    let one = |launch: usize, parity: usize| {
        let values = points.iter().enumerate().map(|(index, point)| {
            let drawn = index % 2 == parity;
            point.launches.get(launch).copied().filter(|_| drawn)
        });
        let mut series = series("launch", values);
        series.symbol = Some(Symbol::Circle(2.0, Some(LAUNCH.into())));
        series.index = Some(2);
        series
    };
    (0..launches).flat_map(|launch| [one(launch, 0), one(launch, 1)]).collect()
}

/// The dashed line at 1.00.
fn reference(count: usize, colour: usize) -> Series {
    let mut series = series("base", std::iter::repeat_n(Some(1.0), count));
    series.symbol = Some(Symbol::None);
    series.stroke_dash_array = Some("4,4".to_owned());
    series.index = Some(colour);
    series
}

fn series(name: &str, values: impl Iterator<Item = Option<f64>>) -> Series {
    Series::new_nullable(name.to_owned(), values.map(|value| value.map(percent)).collect())
}

fn draw(series: Vec<Series>, labels: Vec<String>, colours: &[&str], axis: &Axis, title: &str) -> Result<String, Error> {
    let ink: Color = INK.into();
    let mut chart = LineChart::new(series, labels);
    chart.width = WIDTH;
    chart.height = HEIGHT;
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
    y_axis.min = Some(axis.min);
    y_axis.max = Some(axis.max);
    y_axis.split_number = axis.steps;
    y_axis.formatter = Some(format!("{TICK}{}", axis.widest()));
    let svg = svg_with_accessibility(&chart.svg()?, title, "");
    Ok(adapt(&svg, axis))
}

/// Stands before every tick of the value axis until [`adapt`] writes the ratio there.
const TICK: char = '\u{E000}';

/// charts-rs writes ticks with one decimal and a thousand as 1k, so the chart is drawn in percent
/// with a placeholder as wide as the widest tick, and the ratios are filled in here, from the top
/// down. The fixed size goes too: the view box alone lets the picture scale.
fn adapt(svg: &str, axis: &Axis) -> String {
    let size = format!("<svg width=\"{WIDTH}\" height=\"{HEIGHT}\"");
    let svg = svg.replacen(&size, "<svg class=\"chart\"", 1).replacen(" xmlns=\"http://www.w3.org/2000/svg\"", "", 1);
    let mut parts = svg.split(TICK);
    let mut adapted = parts.next().unwrap_or_default().to_owned();
    for (part, tick) in parts.zip(axis.ticks_from_the_top()) {
        adapted.push_str(&tick);
        adapted.push_str(part.strip_prefix(axis.widest().as_str()).unwrap_or(part));
    }
    adapted
}

#[expect(clippy::cast_possible_truncation, reason = "a picture needs no more than seven digits")]
fn percent(ratio: f64) -> f32 {
    (ratio * 100.0) as f32
}

/// A value axis in percent whose ticks fall on round numbers, and on 100 unless they are wider apart.
struct Axis {
    min: f32,
    max: f32,
    steps: usize,
}

impl Axis {
    /// The ticks as ratios, largest first.
    fn ticks_from_the_top(&self) -> impl Iterator<Item = String> {
        let (min, max) = (f64::from(self.min), f64::from(self.max));
        let step = (max - min) / self.steps as f64;
        (0..=self.steps).map(move |index| format::fixed((max - step * index as f64) / 100.0, 2))
    }

    fn widest(&self) -> String {
        format::fixed(f64::from(self.max) / 100.0, 2)
    }

    /// The smallest such axis that holds 1.00, all ratios, and some air. `None` without a ratio.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "both ends are whole multiples of the step, and there are at most nine steps"
    )]
    fn around(ratios: impl Iterator<Item = f64>) -> Option<Self> {
        let ends = ratios.filter(|ratio| ratio.is_finite()).fold(None, |ends, ratio| {
            let (low, high) = ends.unwrap_or((1.0_f64, 1.0_f64));
            Some((low.min(ratio), high.max(ratio)))
        });
        let (low, high) = ends.map(|(low, high)| (low * 100.0, high * 100.0))?;
        let most_steps = 8.0;
        let step = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
            .into_iter()
            .find(|step| (high - low) / step <= most_steps - 1.0)
            .unwrap_or_else(|| ((high - low) / 7.0 / 100.0).ceil() * 100.0);
        let air = step / 4.0;
        // QPS cannot be negative, so neither can the axis.
        let min = (((low - air) / step).floor() * step).max(0.0);
        let max = ((high + air) / step).ceil() * step;
        Some(Self { min: min as f32, max: max as f32, steps: ((max - min) / step).round() as usize })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(label: &str, ratio: f64) -> Point {
        Point {
            label: label.to_owned(),
            ratio: Some(ratio),
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
        let svg = relative(&points, "scan").unwrap().unwrap();
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
        let svg = relative(&[point("9.0.23", 1.0), point("18.4", 25.0)], "scan").unwrap().unwrap();
        assert!(height_of(&svg, "24.00") < height_of(&svg, "4.00"));
        assert!(!svg.contains("k\n"), "{svg}");
    }

    #[test]
    fn text_is_escaped() {
        let svg = relative(&[point("<script>", 1.0)], "a < b").unwrap().unwrap();
        assert!(!svg.contains("<script>"), "{svg}");
        assert!(svg.contains("a &lt; b"), "{svg}");
    }

    #[test]
    fn without_a_ratio_there_is_no_chart() {
        let nothing = Point { label: "18.4".to_owned(), ratio: None, interval: None, launches: Vec::new() };
        assert!(relative(&[nothing], "scan").unwrap().is_none());
        assert!(lines(&[], &[], "medians").unwrap().is_none());
    }

    #[test]
    fn the_axis_has_round_ends_around_every_value() {
        for ratios in [vec![1.0], vec![0.995, 1.004], vec![0.05, 1.0], vec![1.0, 7.9], vec![0.4, 25.0]] {
            let axis = Axis::around(ratios.iter().copied()).unwrap();
            assert!(ratios.iter().all(|&ratio| percent(ratio) >= axis.min && percent(ratio) <= axis.max), "{ratios:?}");
            assert!((1..=10).contains(&axis.steps), "{ratios:?}: {} steps", axis.steps);
            let step = (axis.max - axis.min) / axis.steps as f32;
            assert!(step > 100.0 || (100.0 - axis.min) % step < 1e-3, "{ratios:?}: 1.00 lies on a tick");
        }
    }
}
