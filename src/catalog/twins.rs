//! The options that sysbench's twin of a shape takes for each microbenchmark of the built-in suite.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{CatalogError, suite};

/// The part of a suite that becomes options.
#[derive(Deserialize)]
struct Entries {
    #[serde(rename = "microbenchmark")]
    entries: Vec<Entry>,
}

#[derive(Deserialize)]
struct Entry {
    name: String,
    range: Option<u32>,
    #[serde(default)]
    with: BTreeMap<String, String>,
}

/// `range` and every entry of `with` as options of the twin, by microbenchmark. Only the built-in suite has twins
/// (`sysbench-lua/README.md`).
pub fn options() -> Result<BTreeMap<String, Vec<String>>, CatalogError> {
    let parsed = toml::from_str::<Entries>(&suite::text(None)?);
    let parsed = parsed
        .map_err(|source| CatalogError::Parse { file: "suites/sysbench.toml".to_owned(), source: Box::new(source) })?;
    let options = |entry: &Entry| {
        let with = entry.with.iter().map(|(key, value)| format!("--{key}={value}"));
        with.chain(entry.range.map(|range| format!("--range={range}"))).collect()
    };
    Ok(parsed.entries.iter().map(|entry| (entry.name.clone(), options(entry))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_microbenchmark_has_its_options() {
        let options = options().unwrap();
        assert!(suite::builtin().unwrap().microbenchmarks.iter().all(|entry| options.contains_key(&entry.name)));
        assert_eq!(options["update-zipf_range=100"], ["--id=zipfian(0.8)"]);
        assert_eq!(options["range-notcovered-si_range=100"], ["--columns=k, c", "--key=k", "--range=100"]);
        assert_eq!(options["scan_range=100"], [""; 0]);
    }
}
