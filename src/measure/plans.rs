//! EXPLAIN's JSON, reduced to the shape of a plan.
//!
//! What depends on the values that happened to be drawn, or on the taste of a release in writing them, would make equal
//! plans look different; constants are therefore replaced, and keys that only newer releases print are left out.

use serde_json::Value;

use crate::domain::{PlanCondition, PlanNode, StatementPlan};

/// Keys that tell kinds of one node apart. `Simple`, `Forward` and `Plain` are what is meant when nothing is said.
const KINDS: [&str; 6] = ["Operation", "Join Type", "Strategy", "Partial Mode", "Command", "Scan Direction"];
const UNMARKED: [&str; 4] = ["Simple", "Forward", "NoMovement", "Plain"];

/// Conditions and keys. `Group Key` is no part of them: only 9.4 and later print it, and the statement says it.
const CONDITIONS: [&str; 13] = [
    "Subplan Name",
    "Index Cond",
    "Recheck Cond",
    "TID Cond",
    "Order By",
    "Hash Cond",
    "Merge Cond",
    "Join Filter",
    "One-Time Filter",
    "Filter",
    "Sort Key",
    "Presorted Key",
    "Workers Planned",
];

/// Longest text of a condition that is kept, in characters.
const LONGEST: usize = 300;

/// The shapes of what a session's statements were explained as. Text that is no plan is left out.
pub(super) fn shapes(explained: &[String]) -> Vec<StatementPlan> {
    let shape = |(statement, json): (usize, &String)| Some(StatementPlan { statement, plan: shape(json)? });
    explained.iter().enumerate().filter_map(shape).collect()
}

fn shape(json: &str) -> Option<PlanNode> {
    let explained: Value = serde_json::from_str(json).ok()?;
    node(explained.get(0)?.get("Plan")?)
}

fn node(json: &Value) -> Option<PlanNode> {
    let text = |key: &str| json.get(key).and_then(Value::as_str).map(str::to_owned);
    let name = text("Node Type")?;
    let kinds = KINDS.iter().filter_map(|key| text(key)).filter(|kind| !UNMARKED.contains(&kind.as_str()));
    let parallel = json.get("Parallel Aware").and_then(Value::as_bool).unwrap_or(false);
    let below = json.get("Plans").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    Some(PlanNode {
        kinds: kinds.chain(parallel.then(|| "Parallel".to_owned())).collect(),
        // The one table that a change goes to is in the statement, and 9.0 does not repeat it.
        relation: text("Relation Name").filter(|_| name != "ModifyTable"),
        index: text("Index Name"),
        conditions: CONDITIONS.iter().filter_map(|key| condition(key, json.get(*key)?)).collect(),
        total_cost: json.get("Total Cost").and_then(Value::as_f64),
        estimated_rows: json.get("Plan Rows").and_then(Value::as_f64),
        below: below.iter().filter_map(node).collect(),
        node: name,
    })
}

fn condition(name: &str, value: &Value) -> Option<PlanCondition> {
    let text = match value {
        Value::String(text) => text.clone(),
        Value::Number(number) => return Some(PlanCondition { name: name.to_owned(), text: number.to_string() }),
        Value::Array(keys) => keys.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "),
        _ => return None,
    };
    let mut text = without_runs(&without_constants(&text));
    if let Some((end, _)) = text.char_indices().nth(LONGEST) {
        text.truncate(end);
        text.push('…');
    }
    Some(PlanCondition { name: name.to_owned(), text })
}

/// Puts `?` in the place of each number and each quoted text, with the cast that some releases write behind it.
fn without_constants(condition: &str) -> String {
    let mut text = String::with_capacity(condition.len());
    let mut rest = condition;
    while let Some(next) = rest.chars().next() {
        let inside_a_word = text.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '"'));
        let constant = match next {
            '\'' => quoted_length(rest),
            '0'..='9' if !inside_a_word => rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len()),
            _ => 0,
        };
        if constant == 0 {
            text.push(next);
            rest = &rest[next.len_utf8()..];
        } else {
            text.push('?');
            rest = without_cast(&rest[constant..]);
        }
    }
    text
}

/// Writes a long list of parameters as its ends: `[$1, $2, …, $100]`.
fn without_runs(condition: &str) -> String {
    const LONGEST_RUN: usize = 4;
    let parts: Vec<&str> = condition.split(", ").collect();
    // The first and the last of a list stand beside a parenthesis and are not counted here.
    let is_value = |part: &&&str| part.chars().all(|c| c.is_ascii_digit() || matches!(c, '$' | '?'));
    let mut short = Vec::new();
    let mut at = 0;
    while at < parts.len() {
        let run = parts[at..].iter().take_while(is_value).count();
        if run > LONGEST_RUN {
            short.extend([parts[at], "…"]);
        } else {
            short.extend(&parts[at..at + run.max(1)]);
        }
        at += run.max(1);
    }
    short.join(", ")
}

/// Length of the quoted text at the start, a doubled quote being part of it.
fn quoted_length(text: &str) -> usize {
    let mut end = 1;
    while let Some(at) = text[end..].find('\'') {
        end += at + 1;
        if !text[end..].starts_with('\'') {
            return end;
        }
        end += 1;
    }
    text.len()
}

/// What follows a cast at the start: `::character varying)` becomes `)`.
fn without_cast(text: &str) -> &str {
    let Some(name) = text.strip_prefix("::") else { return text };
    let end = name.find(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | '[' | ']' | ' ')).unwrap_or(name.len());
    // A blank that ends the name belongs to what comes after it, and so does a word that is none of a type's.
    let words = ["character varying", "double precision"];
    let length = words.iter().find(|word| name.starts_with(*word)).map(|word| word.len());
    let length = length.unwrap_or_else(|| name[..end].find(' ').unwrap_or(end));
    name[length..].strip_prefix("[]").unwrap_or(&name[length..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_look_alike_however_a_release_writes_them() {
        for (condition, text) in [
            ("(id = 4711)", "(id = ?)"),
            ("(id = 4711::bigint)", "(id = ?)"),
            ("(id = '4711'::bigint)", "(id = ?)"),
            ("(id = $1)", "(id = $1)"),
            ("(id = ANY ('{1,2,3}'::bigint[]))", "(id = ANY (?))"),
            ("(id = ANY (ARRAY[$1, $2]))", "(id = ANY (ARRAY[$1, $2]))"),
            ("((id >= 5::bigint) AND (id <= 104::bigint))", "((id >= ?) AND (id <= ?))"),
            ("(c = 'it''s 5'::character varying)", "(c = ?)"),
            ("(length(c) < 0)", "(length(c) < ?)"),
            ("(sbtest1.k1 = 1.5)", "(sbtest1.k1 = ?)"),
            ("(id = 5::bigint AND k > 3)", "(id = ? AND k > ?)"),
        ] {
            assert_eq!(without_constants(condition), text);
        }
    }

    #[test]
    fn long_lists_are_shortened() {
        let list = |count: usize| (1..=count).map(|n| format!("${n}")).collect::<Vec<_>>().join(", ");
        assert_eq!(without_runs(&format!("(id = ANY (ARRAY[{}]))", list(100))), "(id = ANY (ARRAY[$1, $2, …, $100]))");
        assert_eq!(without_runs("(id = ANY (ARRAY[$1, $2, $3]))"), "(id = ANY (ARRAY[$1, $2, $3]))");
    }

    #[test]
    fn old_and_new_words_for_the_same_plan_have_the_same_shape() {
        let old = r#"[{"Plan": {"Node Type": "Aggregate", "Strategy": "Plain", "Startup Cost": 8.3, "Total Cost": 8.31,
            "Plan Rows": 1, "Plan Width": 4, "Plans": [{"Node Type": "Index Scan", "Parent Relationship": "Outer",
            "Scan Direction": "Forward", "Index Name": "sbtest1_pkey", "Relation Name": "sbtest1", "Alias": "sbtest1",
            "Startup Cost": 0.0, "Total Cost": 8.28, "Plan Rows": 1, "Plan Width": 4,
            "Index Cond": "(id = 7::bigint)"}]}}]"#;
        let new = r#"[{"Plan": {"Node Type": "Aggregate", "Strategy": "Plain", "Partial Mode": "Simple",
            "Parallel Aware": false, "Async Capable": false, "Disabled": false, "Startup Cost": 4.4, "Total Cost": 4.41,
            "Plan Rows": 1, "Plan Width": 8, "Plans": [{"Node Type": "Index Scan", "Parent Relationship": "Outer",
            "Parallel Aware": false, "Scan Direction": "Forward", "Index Name": "sbtest1_pkey",
            "Relation Name": "sbtest1", "Alias": "sbtest1", "Startup Cost": 0.29, "Total Cost": 4.31, "Plan Rows": 1,
            "Plan Width": 4, "Index Cond": "(id = '99'::bigint)"}]}}]"#;
        let (old, new) = (shape(old).unwrap(), shape(new).unwrap());
        assert_eq!(old.lines(), new.lines());
        assert_eq!(old.lines()[1], "  Index Scan using sbtest1_pkey on sbtest1");
        assert_ne!(old.total_cost, new.total_cost);
    }

    #[test]
    fn kinds_and_keys_are_told() {
        let json = r#"[{"Plan": {"Node Type": "ModifyTable", "Operation": "Update", "Relation Name": "sbtest1", "Plans": [
            {"Node Type": "Sort", "Sort Key": ["k", "(id + 1)"], "Plans": [
            {"Node Type": "Seq Scan", "Parallel Aware": true, "Relation Name": "sbtest1", "Filter": "(k < 5)"}]}]}}]"#;
        assert_eq!(
            shape(json).unwrap().lines(),
            [
                "ModifyTable (Update)",
                "  Sort",
                "      Sort Key: k, (id + ?)",
                "    Seq Scan (Parallel) on sbtest1",
                "        Filter: (k < ?)"
            ]
        );
    }

    #[test]
    fn what_is_no_plan_is_left_out_and_long_conditions_are_cut() {
        let long = format!(r#"[{{"Plan": {{"Node Type": "Result", "Filter": "{}"}}}}]"#, "ü".repeat(LONGEST + 9));
        let plans = shapes(&["ERROR".to_owned(), "[]".to_owned(), long]);
        assert_eq!((plans.len(), plans[0].statement), (1, 2));
        assert_eq!(plans[0].plan.conditions[0].text.chars().count(), LONGEST + 1);
    }
}
