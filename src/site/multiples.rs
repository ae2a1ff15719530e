//! How slices went, second by second: one small picture per release, all to the same scale. The template draws them, so
//! that labels are escaped there like any other text.

use serde::Serialize;

use super::format::{counted, fixed, whole};
use crate::domain::{Cell, Course};

/// Size of a picture in SVG units.
const WIDTH: f64 = 240.0;
const HEIGHT: f64 = 72.0;

/// Most points of a line: a page with 20 releases of 6 launches stays small.
const MOST_POINTS: usize = 60;

/// The pictures of a microbenchmark.
#[derive(Serialize)]
pub(super) struct Multiples {
    /// Queries per second at the upper edge.
    top: String,
    /// Seconds at the right edge.
    seconds: usize,
    /// Seconds that a point stands for; 1 where nothing was averaged.
    averaged: usize,
    pictures: Vec<Picture>,
}

#[derive(Serialize)]
struct Picture {
    label: String,
    /// What it shows, in words.
    description: String,
    /// Points of the lines, as SVG has them.
    lines: Vec<String>,
    /// Single points, where there is one second only.
    dots: Vec<(String, String)>,
    /// What the server did by itself meanwhile.
    background: String,
}

/// The scale that all pictures share.
struct Scale {
    top: f64,
    seconds: usize,
    averaged: usize,
}

/// `None` when no slice has a full second.
pub(super) fn of(cells: &[Cell], labels: &[&str]) -> Option<Multiples> {
    let courses = || cells.iter().flat_map(|cell| &cell.courses).map(|course| &course.queries_by_second);
    let seconds = courses().map(Vec::len).max().filter(|&seconds| seconds > 0)?;
    let top = courses().flatten().copied().max().filter(|&top| top > 0)?;
    let scale = Scale { top: round_up(f64::from(top)), seconds, averaged: seconds.div_ceil(MOST_POINTS) };
    let pictures = cells.iter().zip(labels).filter_map(|(cell, label)| picture(&cell.courses, label, &scale));
    Some(Multiples { top: fixed(scale.top, 0), seconds, averaged: scale.averaged, pictures: pictures.collect() })
}

/// The next number with one digit and a half: 1, 1.5, 2, 2.5, … times a power of ten.
fn round_up(value: f64) -> f64 {
    let half = 10.0_f64.powf(value.log10().floor()) / 2.0;
    ((value / half).ceil() * half).max(1.0)
}

fn picture(courses: &[Course], label: &str, scale: &Scale) -> Option<Picture> {
    let samples: Vec<u32> = courses.iter().flat_map(|course| &course.queries_by_second).copied().collect();
    let (least, most) = (samples.iter().min()?, samples.iter().max()?);
    let points: Vec<Vec<(String, String)>> = courses.iter().map(|course| points(course, scale)).collect();
    let (lines, dots): (Vec<_>, Vec<_>) = points.into_iter().partition(|points| points.len() != 1);
    let line =
        |points: &Vec<(String, String)>| points.iter().map(|(x, y)| format!("{x},{y}")).collect::<Vec<_>>().join(" ");
    let range = format!("{} to {} queries in a second", whole((*least).into()), whole((*most).into()));
    Some(Picture {
        label: label.to_owned(),
        description: format!("{}; {range}", counted(courses.len(), "launch", "launches")),
        lines: lines.iter().filter(|points| !points.is_empty()).map(line).collect(),
        dots: dots.into_iter().flatten().collect(),
        background: background(courses),
    })
}

/// One point per group of seconds, at the middle of its time.
fn points(course: &Course, scale: &Scale) -> Vec<(String, String)> {
    let groups = course.queries_by_second.chunks(scale.averaged).enumerate();
    let point = |(index, group): (usize, &[u32])| {
        let mean = group.iter().map(|&queries| f64::from(queries)).sum::<f64>() / group.len() as f64;
        let middle = (index * scale.averaged) as f64 + group.len() as f64 / 2.0;
        let (x, y) = (middle / scale.seconds as f64 * WIDTH, (1.0 - mean / scale.top) * HEIGHT);
        (format!("{x:.0}"), format!("{y:.0}"))
    };
    groups.map(point).collect()
}

/// `1 checkpoint in block 2; 3 autovacuums in block 1`; empty where there was none, or nobody counted.
fn background(courses: &[Course]) -> String {
    let of = |count: fn(&Course) -> Option<u64>, one: &str, many: &str| -> Vec<String> {
        let counts = courses.iter().filter_map(|course| Some((course.block, count(course)?)));
        let words = counts.filter(|(_, count)| *count > 0).map(|(block, count)| {
            format!("{} in block {block}", counted(usize::try_from(count).unwrap_or(usize::MAX), one, many))
        });
        words.collect()
    };
    let mut words = of(|course| course.checkpoints, "checkpoint", "checkpoints");
    words.extend(of(|course| course.autovacuums, "autovacuum", "autovacuums"));
    words.join("; ")
}

impl Multiples {
    /// What the edges of the pictures mean.
    pub(super) fn note(&self) -> String {
        let averaged = match self.averaged {
            1 => String::new(),
            seconds => format!(" Each point is the mean of {seconds} seconds."),
        };
        format!(
            "One picture per release and one line per launch, all to the same scale: from 0 to {} queries per second \
             upwards, from 0 to {} s of measured time to the right.{averaged}",
            self.top,
            whole(self.seconds as u64)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cell(courses: &[&[u32]]) -> Cell {
        let course = |(index, seconds): (usize, &&[u32])| Course {
            block: u32::try_from(index).unwrap() + 1,
            queries_by_second: seconds.to_vec(),
            checkpoints: Some(u64::from(index == 1)),
            autovacuums: None,
        };
        Cell { courses: courses.iter().enumerate().map(course).collect(), ..Cell::default() }
    }

    #[test]
    fn all_pictures_have_one_scale() {
        let multiples =
            of(&[cell(&[&[100, 50], &[75]]), Cell::default(), cell(&[&[200, 190]])], &["9.6", "10", "11"]).unwrap();
        assert_eq!((multiples.top.as_str(), multiples.seconds, multiples.pictures.len()), ("200", 2, 2));
        let first = &multiples.pictures[0];
        assert_eq!(first.lines, ["60,36 180,54"]);
        assert_eq!(first.dots, [("60".to_owned(), "45".to_owned())]);
        assert_eq!((first.label.as_str(), first.background.as_str()), ("9.6", "1 checkpoint in block 2"));
        assert_eq!(first.description, "2 launches; 50 to 100 queries in a second");
        assert!(!multiples.note().contains("mean"));
    }

    #[test]
    fn long_slices_are_averaged_to_few_points() {
        let seconds: Vec<u32> = (0..1201).map(|second| 1000 + second % 3).collect();
        let multiples = of(&[cell(&[&seconds])], &["18.4"]).unwrap();
        assert_eq!((multiples.averaged, multiples.top.as_str()), (21, "1,500"));
        assert_eq!(multiples.pictures[0].lines[0].split(' ').count(), 58);
        assert!(multiples.note().contains("the mean of 21 seconds"));
    }

    #[test]
    fn without_a_full_second_there_is_no_picture() {
        assert!(of(&[cell(&[&[]]), Cell::default()], &["17", "18"]).is_none());
        assert!(of(&[cell(&[&[0, 0]])], &["17"]).is_none());
    }
}
