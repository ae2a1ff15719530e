//! How a server means to run a statement, reduced to what can be compared between releases.

use serde::{Deserialize, Serialize};

/// The plan of one of a microbenchmark's statements.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StatementPlan {
    /// Place of the statement in the microbenchmark, from 0.
    pub statement: usize,
    /// The top of its plan.
    pub plan: PlanNode,
}

/// One step of a plan with the steps that it takes its rows from.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct PlanNode {
    /// Kind of step, as EXPLAIN names it: `Index Scan`.
    pub node: String,
    /// What kind of it: operation, join, strategy, direction, parallel half. `Left`, `Hashed`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kinds: Vec<String>,
    /// Table that it reads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relation: Option<String>,
    /// Index that it uses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<String>,
    /// Conditions and keys, with their names and without their constants.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<PlanCondition>,
    /// Estimated cost of all rows, in the planner's units. Kept, and part of no comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total_cost: Option<f64>,
    /// Estimated number of rows. Kept, and part of no comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_rows: Option<f64>,
    /// Where its rows come from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<PlanNode>,
}

/// A condition or key of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanCondition {
    /// What EXPLAIN calls it: `Index Cond`.
    pub name: String,
    /// Its text, with `?` for each constant: `(id = ?)`. A parameter of a plan that is kept for all values is `$1`.
    pub text: String,
}

impl PlanNode {
    /// The shape as indented lines, without any estimate. Two plans are alike if their lines are.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        self.append_lines(0, &mut lines);
        lines
    }

    fn append_lines(&self, depth: usize, lines: &mut Vec<String>) {
        let indent = "  ".repeat(depth);
        lines.push(format!("{indent}{}", self.headline()));
        lines.extend(self.conditions.iter().map(|one| format!("{indent}    {}: {}", one.name, one.text)));
        for node in &self.below {
            node.append_lines(depth + 1, lines);
        }
    }

    /// `Index Scan (Backward) using sbtest1_pkey on sbtest1`
    fn headline(&self) -> String {
        let kinds = if self.kinds.is_empty() { String::new() } else { format!(" ({})", self.kinds.join(", ")) };
        let index = self.index.as_ref().map(|index| format!(" using {index}")).unwrap_or_default();
        let relation = self.relation.as_ref().map(|relation| format!(" on {relation}")).unwrap_or_default();
        format!("{}{kinds}{index}{relation}", self.node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_show_the_shape_and_no_estimate() {
        let scan = PlanNode {
            node: "Index Scan".to_owned(),
            kinds: vec!["Backward".to_owned()],
            relation: Some("sbtest1".to_owned()),
            index: Some("sbtest1_pkey".to_owned()),
            conditions: vec![PlanCondition { name: "Index Cond".to_owned(), text: "(id = $1)".to_owned() }],
            total_cost: Some(8.3),
            estimated_rows: Some(1.0),
            below: Vec::new(),
        };
        let plan = PlanNode { node: "Limit".to_owned(), below: vec![scan.clone()], ..PlanNode::default() };
        assert_eq!(
            plan.lines(),
            ["Limit", "  Index Scan (Backward) using sbtest1_pkey on sbtest1", "      Index Cond: (id = $1)"]
        );
        let dearer = PlanNode { total_cost: Some(99.0), ..scan.clone() };
        assert_eq!(scan.lines(), dearer.lines());
    }
}
