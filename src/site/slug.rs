//! File names for microbenchmarks and releases.

use std::collections::BTreeSet;

/// One file name stem per name, in order: unsafe characters become `-`, and names that would then
/// be the same (also on file systems that ignore case) are numbered.
pub(super) fn unique<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    names
        .into_iter()
        .map(|name| {
            let stem = safe(name);
            let mut candidate = stem.clone();
            let mut number = 1;
            while !taken.insert(candidate.to_ascii_lowercase()) {
                number += 1;
                candidate = format!("{stem}-{number}");
            }
            candidate
        })
        .collect()
}

fn safe(name: &str) -> String {
    let keep = |(index, letter): (usize, char)| {
        // A leading dot would hide the file.
        let safe = letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-') || (letter == '.' && index > 0);
        if safe { letter } else { '-' }
    };
    let slug: String = name.chars().enumerate().map(keep).collect();
    if slug.is_empty() { "-".to_owned() } else { slug }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_safe_and_unique() {
        let names = ["point-query.pre_range=100", "a=b", "a/b", "A-b", "../x", "", "<i>"];
        let slugs = unique(names);
        assert_eq!(slugs, ["point-query.pre_range-100", "a-b", "a-b-2", "A-b-3", "-.-x", "-", "-i-"]);
    }
}
