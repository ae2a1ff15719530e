//! Which programs this machine has, and which Debian packages have the ones that it lacks.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::error::BuildError;

/// C compilers in the order of preference; `configure` has the same.
pub(super) const COMPILERS: [&str; 3] = ["gcc", "cc", "clang"];

/// What turns the grammar and the catalogue data of a tree without generated files into C.
pub(super) const GENERATORS: [&str; 3] = ["bison", "flex", "perl"];

/// Whether an executable of this name is on `PATH`, or at this path.
pub(super) fn on_path(name: &str) -> bool {
    let runs = |path: &Path| path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0);
    if name.contains('/') {
        return runs(Path::new(name));
    }
    let Some(path) = std::env::var_os("PATH") else { return false };
    std::env::split_paths(&path).any(|directory| runs(&directory.join(name)))
}

/// The programs that compiling needs and `here` denies, by the name a person would look for.
pub(super) fn missing_for_compiling(generators: bool, here: &dyn Fn(&str) -> bool) -> Vec<&'static str> {
    let mut missing = Vec::new();
    if !COMPILERS.iter().any(|name| here(name)) {
        missing.push("cc");
    }
    let others = if generators { &GENERATORS[..] } else { &[] };
    missing.extend(["make"].iter().chain(others).filter(|name| !here(name)));
    missing
}

/// An error that names these programs and their packages, unless there are none.
pub(super) fn require(work: &str, missing: &[&str]) -> Result<(), BuildError> {
    if missing.is_empty() {
        return Ok(());
    }
    let mut packages: Vec<&str> = missing
        .iter()
        .map(|name| match *name {
            "cc" | "make" => "build-essential",
            "ninja" => "ninja-build",
            other => other,
        })
        .collect();
    packages.dedup();
    Err(BuildError::MissingPrograms {
        work: work.to_owned(),
        programs: missing.join(", "),
        packages: packages.join(" "),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_programs_are_named_with_their_packages() {
        let missing = missing_for_compiling(true, &|name| name == "perl");
        assert_eq!(missing, ["cc", "make", "bison", "flex"]);
        let error = require("compiling 17.10", &missing).unwrap_err().to_string();
        assert!(error.contains("cc, make, bison, flex"), "{error}");
        assert!(error.contains("install build-essential bison flex "), "{error}");
    }

    #[test]
    fn any_compiler_will_do() {
        assert!(missing_for_compiling(false, &|name| name == "clang" || name == "make").is_empty());
    }

    #[test]
    fn programs_are_found_on_the_path() {
        assert!(on_path("sh"));
        assert!(!on_path("regtrack-no-such-program"));
    }
}
