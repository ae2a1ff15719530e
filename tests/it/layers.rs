//! The house rules that no compiler checks: who may import whom, where polars and printing belong, how
//! long a file may get, and what no text of the project may name.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Longest source file, in lines.
const LONGEST_FILE: usize = 900;

/// What a module may import from the layer below, where that is not all of it.
const ONLY: [(&str, &[&str]); 1] = [("measure", &["server", "load", "rival"])];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Rust files below `src/`, with their paths relative to it.
fn sources() -> Vec<(PathBuf, String)> {
    let files = walkdir::WalkDir::new(root().join("src")).sort_by_file_name().into_iter().map(Result::unwrap);
    let rust = files.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "rs"));
    let read =
        |path: &Path| (path.strip_prefix(root().join("src")).unwrap().to_owned(), fs::read_to_string(path).unwrap());
    rust.map(|entry| read(entry.path())).collect()
}

/// The table in the documentation of `src/lib.rs`: layer by module.
fn layers() -> BTreeMap<String, u32> {
    let text = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let mut layers = BTreeMap::new();
    for line in text.lines().filter_map(|line| line.strip_prefix("//! | ")) {
        let mut columns = line.split('|').map(str::trim);
        let (Some(Ok(layer)), Some(modules)) = (columns.next().map(str::parse), columns.next()) else { continue };
        let names = modules.split('`').skip(1).step_by(2);
        layers.extend(names.map(|name| (name.to_owned(), layer)));
    }
    layers
}

/// The code of a file without its comments.
fn code(text: &str) -> String {
    text.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| line.to_owned() + "\n").collect()
}

/// The modules of the crate that code names after `path`, such as `crate::`: one name, or a list in
/// braces.
fn named_after<'a>(code: &'a str, path: &str) -> Vec<&'a str> {
    let identifier = |text: &'a str| text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or("");
    let mut names = Vec::new();
    for (at, _) in code.match_indices(path) {
        let is_whole = !code[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':' || c == '$');
        let rest = &code[at + path.len()..];
        match rest.strip_prefix('{') {
            _ if !is_whole => {}
            None => names.push(identifier(rest)),
            Some(list) => {
                let mut depth = 1;
                let mut start = 0;
                for (index, c) in list.char_indices() {
                    depth += i32::from(c == '{') - i32::from(c == '}');
                    if (c == ',' && depth == 1) || depth == 0 {
                        names.push(identifier(list[start..index].trim_start()));
                        start = index + 1;
                    }
                    if depth == 0 {
                        break;
                    }
                }
            }
        }
    }
    names
}

/// The module of the crate that a source file belongs to, and how deep the file lies in it.
fn module_of(path: &Path) -> (String, usize) {
    let parts: Vec<String> = path.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
    let depth = parts.len() - usize::from(parts.last().is_some_and(|last| last == "mod"));
    (parts[0].clone(), depth)
}

#[test]
fn names_after_a_path_are_found() {
    let code = "use crate::store::{Store, StoreError};\nuse crate::{build::{self, Choice}, load};\nmycrate::site::x(crate::sweep::plan())";
    assert_eq!(named_after(code, "crate::"), ["store", "build", "load", "sweep"]);
}

#[test]
fn every_module_is_in_the_table() {
    let text = fs::read_to_string(root().join("src/lib.rs")).unwrap();
    let modules: BTreeSet<String> =
        text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';')).map(str::to_owned).collect();
    assert_eq!(layers().into_keys().collect::<BTreeSet<_>>(), modules);
}

#[test]
fn imports_go_down_only_and_never_between_siblings() {
    let layers = layers();
    let mut violations = Vec::new();
    for (path, text) in sources() {
        let (module, depth) = module_of(&path);
        let Some(&layer) = layers.get(&module) else { continue };
        let code = code(&text);
        let mut used = named_after(&code, "crate::");
        // What leads out of a module by another way: `super::` at its top, `super::super::` below.
        used.extend(named_after(&code, &format!("\nuse {}", "super::".repeat(depth))));
        for used in used {
            let Some(&below) = layers.get(used) else { continue };
            let only = ONLY.iter().find(|(who, _)| *who == module).map(|(_, whom)| *whom);
            let below = below < layer && (below == 0 || only.is_none_or(|only| only.contains(&used)));
            let allowed = used == module || used == "domain" || below;
            if !allowed {
                violations.push(format!("{} imports {used}", path.display()));
            }
        }
    }
    assert!(violations.is_empty(), "{violations:#?}");
}

#[test]
fn polars_stays_in_two_places() {
    let others = sources().into_iter().filter(|(path, text)| {
        let allowed =
            path.starts_with("analysis") || path.starts_with("store/columns") || path.ends_with("store/columns.rs");
        !allowed && code(text).contains("polars")
    });
    assert_eq!(others.map(|(path, _)| path).collect::<Vec<_>>(), Vec::<PathBuf>::new());
}

#[test]
fn only_the_printer_prints() {
    for (path, text) in sources() {
        // Tests may say why they are not run.
        let text = code(text.split("#[cfg(test)]\nmod ").next().unwrap());
        for word in ["println!", "print!", "dbg!", "stdout()", "stderr()"] {
            let allowed = path.ends_with("cli/printer.rs");
            assert!(allowed || !text.contains(word), "{} has {word}", path.display());
        }
    }
}

#[test]
fn no_source_file_is_too_long() {
    for (path, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= LONGEST_FILE, "{} has {lines} lines", path.display());
    }
}

/// Text files of the project, without what is made by programs.
fn texts() -> Vec<(PathBuf, String)> {
    let is_own = |entry: &walkdir::DirEntry| {
        let name = entry.file_name().to_string_lossy();
        let made =
            ["target", "results", "public", "Cargo.lock"].contains(&&*name) && entry.path().parent() == Some(root());
        !made && name != ".git"
    };
    let entries = walkdir::WalkDir::new(root()).into_iter().filter_entry(is_own).map(Result::unwrap);
    let files = entries.filter(|entry| entry.file_type().is_file());
    files.filter_map(|entry| Some((entry.path().to_owned(), fs::read_to_string(entry.path()).ok()?))).collect()
}

#[test]
fn no_text_names_a_package_registry_or_a_place_on_one_machine() {
    // In pieces, so that this file does not name them either.
    let words = [
        ["registry.npm", "js.org"],
        ["npm", "js.com"],
        ["registry.yarn", "pkg.com"],
        ["py", "pi.org"],
        ["files.python", "hosted.org"],
        ["crates", ".io"],
        ["deb.deb", "ian.org"],
        ["/wo", "rk/"],
        ["/ro", "ot/."],
    ];
    let texts = texts();
    assert!(texts.len() > 100, "{} texts", texts.len());
    for (path, text) in texts {
        for word in words.map(|parts| parts.concat()) {
            assert!(!text.contains(&word), "{} names {word}", path.display());
        }
    }
}
