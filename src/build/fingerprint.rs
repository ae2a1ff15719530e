//! What a server program says about itself: version, compiler, flags, `configure` line.
//!
//! The executable is asked first: every PostgreSQL holds the text of `version()`, and from 9.6 on the
//! values of the `pg_config` view too. `bin/pg_config` fills in for older ones. What is not there stays
//! unknown.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::domain::{BuildFingerprint, Major, Minor, Version};
use crate::process;

use super::error::{BuildError, io};

/// Time for a program to print its version.
const DEADLINE: Duration = Duration::from_secs(30);

/// Shorter texts in the executable are of no interest.
const SHORTEST_TEXT: usize = 6;

/// Version and fingerprint of the install tree at `prefix`.
pub(super) fn read(prefix: &Path) -> Result<(Version, BuildFingerprint), BuildError> {
    let program = prefix.join("bin/postgres");
    let text = process::run(Command::new(&program).arg("--version"), DEADLINE, None)
        .map_err(|source| BuildError::Program { program: program.clone(), source: source.into() })?;
    let version_text = text.trim().to_owned();
    let version = version(&version_text)
        .ok_or_else(|| BuildError::VersionText { place: program.display().to_string(), text: version_text.clone() })?;

    let bytes = fs::read(&program).map_err(io("read", &program))?;
    let recorded = Recorded::find(&bytes);
    let fingerprint = BuildFingerprint {
        version_text,
        compiler: recorded.compiler,
        cflags: recorded.cflags.or_else(|| pg_config(prefix, "--cflags")),
        configure: recorded.configure.or_else(|| pg_config(prefix, "--configure")),
        postgres_sha256: format!("{:x}", Sha256::digest(&bytes)),
    };
    Ok((version, fingerprint))
}

/// The version in a `--version` line or in a `PACKAGE_VERSION`.
///
/// A development version (`19devel`) has no number of its own: it counts as the zeroth alpha, which is
/// where it stands in the order.
pub(super) fn version(text: &str) -> Option<Version> {
    let word = text.split_once("(PostgreSQL)").map_or(text, |(_, rest)| rest).split_whitespace().next()?;
    if let Some(major) = word.strip_suffix("devel") {
        return major.parse::<Major>().ok().map(|major| Version { major, minor: Minor::Alpha(0) });
    }
    word.parse().ok()
}

/// One value of `pg_config`, if the tree has that program and it knows.
fn pg_config(prefix: &Path, option: &str) -> Option<String> {
    let program = prefix.join("bin/pg_config");
    let text = process::run(Command::new(program).arg(option), DEADLINE, None).ok()?;
    let value = text.trim();
    (!value.is_empty() && value != "not recorded").then(|| value.to_owned())
}

/// What the executable holds in readable form.
#[derive(Debug, Default, PartialEq)]
struct Recorded {
    compiler: Option<String>,
    cflags: Option<String>,
    configure: Option<String>,
}

impl Recorded {
    fn find(executable: &[u8]) -> Self {
        let mut found = Self::default();
        let mut comment = None;
        for text in texts(executable) {
            let trimmed = text.trim();
            if let (None, Some((before, by))) = (&found.compiler, text.split_once(" compiled by ")) {
                found.compiler = before.contains("PostgreSQL ").then(|| compiler(by)).flatten();
            } else if found.configure.is_none() && (trimmed.starts_with("'--") || trimmed.contains("'--prefix=")) {
                found.configure = Some(trimmed.to_owned());
            } else if found.cflags.is_none() && trimmed.starts_with("-Wall ") {
                found.cflags = Some(trimmed.to_owned());
            } else if let (None, Some(rest)) = (&comment, text.strip_prefix("GCC: ")) {
                comment = compiler(&format!("gcc {rest}"));
            }
        }
        found.compiler = found.compiler.or(comment);
        found
    }
}

/// Runs of printable ASCII in a file.
fn texts(bytes: &[u8]) -> impl Iterator<Item = &str> {
    bytes
        .split(|byte| !(b' '..=b'~').contains(byte))
        .filter(|run| run.len() >= SHORTEST_TEXT)
        .filter_map(|run| std::str::from_utf8(run).ok())
}

/// Name and version of a compiler, from its own description of itself:
/// `gcc (Debian 12.2.0-14) 12.2.0, 64-bit` is gcc 12.2.0.
fn compiler(description: &str) -> Option<String> {
    let description =
        description.rsplit_once(", ").filter(|(_, bits)| bits.ends_with("-bit")).map_or(description, |cut| cut.0);
    // 9.0 and 9.1 put the family before the program's own words.
    let description = description.strip_prefix("GCC ").unwrap_or(description);
    let plain = without_parentheses(description);
    let words: Vec<&str> = plain.split_whitespace().collect();
    let number = |word: &str| word.starts_with(|first: char| first.is_ascii_digit());
    if let Some(index) = words.iter().position(|word| number(word)) {
        let name = words[..index].iter().rev().find(|word| **word != "version")?;
        return Some(format!("{name} {}", words[index]));
    }
    // Meson joins the two: gcc-12.2.0.
    let (name, version) = words.first()?.rsplit_once('-')?;
    number(version).then(|| format!("{name} {version}"))
}

fn without_parentheses(text: &str) -> String {
    let mut depth = 0_usize;
    let mut plain = String::new();
    for character in text.chars() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            other if depth == 0 => plain.push(other),
            _ => {}
        }
    }
    plain
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A program for tests that prints one line. A child writes it: while this process had it open for
    /// writing, a child of another test could inherit that and keep the program from running.
    pub(in super::super) fn program(path: &Path, line: &str) {
        let script = r#"mkdir -p "${1%/*}" && printf '#!/bin/sh\necho "%s"\n' "$2" >"$1" && chmod 700 "$1""#;
        process::run(Command::new("sh").args(["-c", script, "sh"]).arg(path).arg(line), DEADLINE, None).unwrap();
    }

    #[test]
    fn version_lines_of_all_kinds() {
        for (text, expected) in [
            ("postgres (PostgreSQL) 17.10", "17.10"),
            ("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)", "15.18"),
            ("postgres (PostgreSQL) 9.0.23", "9.0.23"),
            ("postgres (PostgreSQL) 19beta3", "19beta3"),
            ("postgres (PostgreSQL) 19devel", "19alpha0"),
            ("14.0", "14.0"),
        ] {
            assert_eq!(version(text).map(|version| version.to_string()).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(version("postgres (SomethingElse)"), None);
        let (devel, beta) = (version("19devel").unwrap(), version("19beta1").unwrap());
        assert!(devel < beta);
    }

    #[test]
    fn compilers_by_name_and_version() {
        for (text, expected) in [
            ("gcc (Debian 12.2.0-14+deb12u1) 12.2.0, 64-bit", "gcc 12.2.0"),
            ("gcc (GCC) 4.4.7 20120313 (Red Hat 4.4.7-23), 64-bit", "gcc 4.4.7"),
            ("GCC gcc (Debian 12.2.0-14) 12.2.0, 64-bit", "gcc 12.2.0"),
            ("x86_64-linux-gnu-gcc-14 (Debian 14.2.0-19) 14.2.0, 64-bit", "x86_64-linux-gnu-gcc-14 14.2.0"),
            ("Debian clang version 14.0.6, 64-bit", "clang 14.0.6"),
            ("clang version 17.0.6 (https://example.org/x 6009708b), 64-bit", "clang 17.0.6"),
            ("gcc-13.2.0, 64-bit", "gcc 13.2.0"),
        ] {
            assert_eq!(compiler(text).as_deref(), Some(expected), "{text}");
        }
        assert_eq!(compiler("something else"), None);
    }

    #[test]
    fn an_executable_is_searched_for_what_it_records() {
        let bytes = b"\x7fELF\0\x01?PostgreSQL 17.10 on x86_64-pc-linux-gnu, compiled by gcc (Ubuntu 7.5.0-3) 7.5.0, 64-bit\0\
            -Wall -Wmissing-prototypes -Os\0 'CFLAGS=-Os' '--prefix=/usr/local/pg' '--with-icu'\0GCC: (Ubuntu 7.5.0-3) 7.5.0\0";
        let expected = Recorded {
            compiler: Some("gcc 7.5.0".into()),
            cflags: Some("-Wall -Wmissing-prototypes -Os".into()),
            configure: Some("'CFLAGS=-Os' '--prefix=/usr/local/pg' '--with-icu'".into()),
        };
        assert_eq!(Recorded::find(bytes), expected);
    }

    #[test]
    fn the_object_comment_is_the_last_resort_and_absence_stays_absence() {
        let bytes = b"\0GCC: (GNU) 4.4.7 20120313 (Red Hat 4.4.7-23)\0";
        let expected = Recorded { compiler: Some("gcc 4.4.7".into()), ..Recorded::default() };
        assert_eq!(Recorded::find(bytes), expected);
        assert_eq!(Recorded::find(b"nothing to see here"), Recorded::default());
    }
}
