//! Suites with several connections: a copy of each microbenchmark for each number of them.

use toml::{Table, Value};

use super::{CatalogError, SuiteProblem};
use crate::domain::{Group, Microbenchmark, Suite};

/// Most connections of one microbenchmark. PostgreSQL lets a hundred in by default, and keeps three for itself.
pub const MOST: u32 = 90;

/// A definition with these numbers of connections instead of its own. Comments are lost.
pub fn set(text: &str, file: &str, connections: &[u32]) -> Result<String, CatalogError> {
    let error = |source| CatalogError::Parse { file: file.to_owned(), source: Box::new(source) };
    let mut table: Table = toml::from_str(text).map_err(error)?;
    if let Some(Value::Table(header)) = table.get_mut("suite") {
        let numbers = connections.iter().map(|number| Value::Integer(i64::from(*number))).collect();
        header.insert("connections".to_owned(), Value::Array(numbers));
    }
    // What is missing beside it, parsing the text will tell.
    Ok(table.to_string())
}

/// At least one number, each once and within bounds.
pub(super) fn check(connections: &[u32]) -> Result<(), SuiteProblem> {
    let is_first = |(index, number): (usize, &u32)| !connections[..index].contains(number);
    let fits = connections.iter().all(|number| (1..=MOST).contains(number));
    let is_good = !connections.is_empty() && fits && connections.iter().enumerate().all(is_first);
    if is_good { Ok(()) } else { Err(SuiteProblem::Connections { most: MOST }) }
}

/// Replaces each microbenchmark by one for each number of connections, in that order and at the same step, and each
/// group by one for each number, those of one number together. One connection keeps the names.
pub(super) fn expand(mut suite: Suite, connections: &[u32]) -> Suite {
    let copies = |one: &Microbenchmark| connections.iter().map(|number| microbenchmark(one, *number)).collect();
    suite.microbenchmarks = suite.microbenchmarks.iter().flat_map::<Vec<_>, _>(copies).collect();
    let all = |number: &u32| suite.groups.iter().map(|one| group(one, *number)).collect::<Vec<_>>();
    suite.groups = connections.iter().flat_map(all).collect();
    suite
}

fn microbenchmark(one: &Microbenchmark, connections: u32) -> Microbenchmark {
    Microbenchmark {
        name: named(&one.name, connections),
        group: named(&one.group, connections),
        connections,
        ..one.clone()
    }
}

/// Members are where published rows look their group up, and those have one connection.
fn group(one: &Group, connections: u32) -> Group {
    if connections == 1 {
        return one.clone();
    }
    let title = format!("{}, {connections} connections", one.title);
    Group { name: named(&one.name, connections), title, members: Vec::new() }
}

fn named(name: &str, connections: u32) -> String {
    if connections == 1 { name.to_owned() } else { format!("{name}@c{connections}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::suite;

    fn expanded(connections: &[u32]) -> Result<Suite, CatalogError> {
        let text = suite::text(None).unwrap();
        suite::parse(&set(&text, "test", connections).unwrap(), "test")
    }

    #[test]
    fn each_microbenchmark_is_followed_by_its_copies() {
        let (plain, suite) = (suite::builtin().unwrap(), expanded(&[1, 4, 16]).unwrap());
        assert_eq!(suite.microbenchmarks.len(), 3 * plain.microbenchmarks.len());
        for (one, copies) in plain.microbenchmarks.iter().zip(suite.microbenchmarks.chunks(3)) {
            assert_eq!(copies[0], *one);
            assert_eq!(copies[1].name, format!("{}@c4", one.name));
            assert_eq!((&copies[2].statements, copies[2].step, copies[2].connections), (&one.statements, one.step, 16));
            let group = suite.groups.iter().find(|group| group.name == copies[1].group).unwrap();
            assert!(group.title.ends_with(", 4 connections"), "{}", group.title);
        }
        assert_eq!(suite.groups.len(), 3 * plain.groups.len());
        assert_eq!(suite.groups[5].name, "point-1@c4");
    }

    #[test]
    fn globs_find_the_copies_too() {
        let suite = expanded(&[1, 4]).unwrap();
        let select = |glob: &str| suite::select(&suite, &[glob.to_owned()]).unwrap();
        assert_eq!(select("scan"), ["scan_range=100", "scan_range=100@c4"]);
        assert_eq!(select("point-query*@c4").len(), 2);
        assert_eq!(suite::group_of_row(&suite, "point-query_range=100"), Some("point-1"));
    }

    #[test]
    fn one_connection_is_the_suite_as_it_was_and_others_are_another_one() {
        let plain = suite::builtin().unwrap();
        assert_eq!(suite::hash(&expanded(&[1]).unwrap()), suite::hash(&plain));
        assert_ne!(suite::hash(&expanded(&[4]).unwrap()), suite::hash(&plain));
        assert!(expanded(&[4]).unwrap().microbenchmarks.iter().all(|one| one.connections == 4));
    }

    #[test]
    fn numbers_that_cannot_be_are_refused() {
        for numbers in [&[][..], &[0], &[1, 1], &[MOST + 1]] {
            let error = expanded(numbers).unwrap_err().to_string();
            assert!(error.contains("connections") && error.contains("from 1 to"), "{numbers:?}: {error}");
        }
    }
}
