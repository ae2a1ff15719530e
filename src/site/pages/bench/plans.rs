//! The plans of a microbenchmark's statements over releases.

use serde::Serialize;

use super::definition::shorten;
use crate::domain::{Cell, ReportRow};
use crate::site::plans::{self, Shape};
use crate::site::view::Site;

/// The plans of one statement.
#[derive(Serialize)]
pub(super) struct StatementPlans {
    /// The statement, where there are several.
    sql: Option<String>,
    shapes: Vec<Shape>,
    /// Labels of the releases whose plan nobody knows.
    missing: String,
    /// Launches whose plan was another one.
    notes: Vec<String>,
}

/// One entry per statement of which any release has a plan.
pub(super) fn of(site: &Site, row: &ReportRow) -> Vec<StatementPlans> {
    let statements = row.definition.as_ref().map(|definition| definition.statements.as_slice()).unwrap_or_default();
    let planned = row.cells.iter().flat_map(|cell| &cell.plans).map(|plan| plan.statement + 1).max().unwrap_or(0);
    let notes = replanned(site, row);
    let one = |statement: usize| {
        let plans: Vec<(&str, Vec<String>)> = site
            .targets()
            .iter()
            .zip(&row.cells)
            .map(|(target, cell)| (target.label.as_str(), lines(cell, statement)))
            .collect();
        let missing: Vec<&str> = plans.iter().filter(|(_, lines)| lines.is_empty()).map(|(label, _)| *label).collect();
        StatementPlans {
            sql: statements.get(statement).filter(|_| statements.len() > 1).map(|statement| shorten(&statement.sql)),
            shapes: plans::shapes(&plans),
            missing: missing.join(", "),
            notes: if statement == 0 { notes.clone() } else { Vec::new() },
        }
    };
    (0..planned).map(one).collect()
}

fn lines(cell: &Cell, statement: usize) -> Vec<String> {
    let plan = cell.plans.iter().find(|plan| plan.statement == statement);
    plan.map(|plan| plan.plan.lines()).unwrap_or_default()
}

fn replanned(site: &Site, row: &ReportRow) -> Vec<String> {
    let cells = site.targets().iter().zip(&row.cells).filter(|(_, cell)| !cell.replanned.is_empty());
    let note = |(target, cell): (&crate::domain::Target, &Cell)| {
        let blocks = cell.replanned.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        format!("{}: another plan than the one shown in block {blocks}.", target.label)
    };
    cells.map(note).collect()
}
