//! The plans of a statement over releases: each distinct shape once, with what differs from the one before it.

use serde::Serialize;

/// A shape and the releases that have it.
#[derive(Debug, Serialize, PartialEq, Eq)]
pub(super) struct Shape {
    /// Their labels, `16.14, 17.10`.
    releases: String,
    lines: Vec<Line>,
}

/// A line of a plan.
#[derive(Debug, Serialize, PartialEq, Eq)]
struct Line {
    mark: Mark,
    text: String,
}

/// Against the previous shape.
#[derive(Debug, Clone, Copy, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
enum Mark {
    Same,
    Gone,
    New,
}

/// The distinct shapes in the order in which they first appear. A release without a plan takes no part.
pub(super) fn shapes(plans: &[(&str, Vec<String>)]) -> Vec<Shape> {
    let mut distinct: Vec<(&[String], Vec<&str>)> = Vec::new();
    for (label, lines) in plans.iter().filter(|(_, lines)| !lines.is_empty()) {
        match distinct.iter_mut().find(|(known, _)| *known == lines.as_slice()) {
            Some((_, labels)) => labels.push(label),
            None => distinct.push((lines, vec![label])),
        }
    }
    let shape = |index: usize| {
        let (lines, labels) = &distinct[index];
        // The first is compared with itself: nothing is new in it.
        let (previous, _) = &distinct[index.saturating_sub(1)];
        Shape { releases: labels.join(", "), lines: difference(previous, lines) }
    };
    (0..distinct.len()).map(shape).collect()
}

/// Lines of both, what is gone before what is new; the longest common part is the same.
fn difference(old: &[String], new: &[String]) -> Vec<Line> {
    let common = common_lengths(old, new);
    let (mut at_old, mut at_new) = (0, 0);
    let mut lines = Vec::with_capacity(old.len().max(new.len()));
    while at_old < old.len() || at_new < new.len() {
        let (mark, text) = if at_old < old.len() && at_new < new.len() && old[at_old] == new[at_new] {
            (at_old, at_new) = (at_old + 1, at_new + 1);
            (Mark::Same, &new[at_new - 1])
        } else if at_new == new.len()
            || (at_old < old.len() && common[at_old + 1][at_new] >= common[at_old][at_new + 1])
        {
            at_old += 1;
            (Mark::Gone, &old[at_old - 1])
        } else {
            at_new += 1;
            (Mark::New, &new[at_new - 1])
        };
        lines.push(Line { mark, text: text.clone() });
    }
    lines
}

/// `[i][j]` is the length of the longest common subsequence of `old[i..]` and `new[j..]`.
fn common_lengths(old: &[String], new: &[String]) -> Vec<Vec<usize>> {
    let mut lengths = vec![vec![0; new.len() + 1]; old.len() + 1];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            lengths[i][j] =
                if old[i] == new[j] { lengths[i + 1][j + 1] + 1 } else { lengths[i + 1][j].max(lengths[i][j + 1]) };
        }
    }
    lengths
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    fn marked(shape: &Shape) -> String {
        let mark = |line: &Line| match line.mark {
            Mark::Same => " ",
            Mark::Gone => "-",
            Mark::New => "+",
        };
        shape.lines.iter().flat_map(|line| [mark(line), &line.text, "\n"]).collect()
    }

    #[test]
    fn each_shape_is_told_once_with_its_releases_and_differences() {
        let (old, new) = (lines("Unique\n  Sort\n    Index Scan"), lines("Unique\n  Incremental Sort\n    Index Scan"));
        let plans = [("12", old.clone()), ("13", new), ("14", Vec::new()), ("15", old), ("16", lines("HashAggregate"))];
        let shapes = shapes(&plans);
        let releases: Vec<&str> = shapes.iter().map(|shape| shape.releases.as_str()).collect();
        assert_eq!(releases, ["12, 15", "13", "16"]);
        assert_eq!(marked(&shapes[0]), " Unique\n   Sort\n     Index Scan\n");
        assert_eq!(marked(&shapes[1]), " Unique\n-  Sort\n+  Incremental Sort\n     Index Scan\n");
        assert_eq!(marked(&shapes[2]), "-Unique\n-  Incremental Sort\n-    Index Scan\n+HashAggregate\n");
    }

    #[test]
    fn without_plans_there_are_no_shapes() {
        assert!(shapes(&[("17", Vec::new())]).is_empty());
    }
}
