//! Which files of a PostgreSQL tree can change the server that is compiled from it.
//!
//! Commits that differ in other files only (documentation, tests, translations, client programs) share one build. What is
//! not named here counts: an unknown file costs a compile, a forgotten one a wrong result.

use std::path::Path;

/// Directories that nothing of the server is compiled from. libpq is among them: the server's own part of the protocol
/// is not there, and what replication loads of it takes no part in a benchmark.
const DIRECTORIES: [&str; 23] = [
    ".github/",
    "doc/",
    "src/DEVELOPERS/",
    "src/backend/po/",
    "src/bin/pgevent/",
    "src/interfaces/ecpg/",
    "src/interfaces/libpq/",
    "src/pl/plperl/",
    "src/pl/plpython/",
    "src/pl/tcl/",
    "src/test/",
    "src/tools/backend/",
    "src/tools/ci/",
    "src/tools/editors/",
    "src/tools/findoidjoins/",
    "src/tools/ifaddrs/",
    "src/tools/msvc/",
    "src/tools/perlcheck/",
    "src/tools/pg_bsd_indent/",
    "src/tools/pginclude/",
    "src/tools/pgindent/",
    "src/tutorial/",
    "src/win32/",
];

/// Directories of tests and translations inside of modules and programs.
const INNER_DIRECTORIES: [&str; 5] = ["/po/", "/t/", "/sql/", "/expected/", "/specs/"];

/// Parents of such directories. Elsewhere a directory of that name may hold anything.
const MODULES: [&str; 3] = ["contrib/", "src/bin/", "src/pl/plpgsql/"];

/// Directories of which only some children are part of the server, or make it what it is.
const SELECTIVE: [(&str, &[&str]); 2] =
    [("contrib/", &["pg_prewarm", "pg_stat_statements", "pgstattuple"]), ("src/bin/", &["initdb", "pg_ctl"])];

/// Files of Meson.
const MESON: [&str; 2] = ["meson.build", "meson_options.txt"];

/// Files that nothing is compiled from, wherever they are.
const NAMES: [&str; 12] = [
    ".cirrus.star",
    ".cirrus.tasks.yml",
    ".cirrus.yml",
    ".dir-locals.el",
    ".editorconfig",
    ".git-blame-ignore-revs",
    ".gitattributes",
    ".gitignore",
    ".mailmap",
    "COPYRIGHT",
    "HISTORY",
    "LINGUAS",
];

/// Where the code for just-in-time compilation is.
const JIT: &str = "src/backend/jit/llvm/";

/// What counts depends on how the server is compiled.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scope {
    /// Whether LLVM is built in.
    pub(super) jit: bool,
    /// Whether Meson builds it, and not make.
    pub(super) meson: bool,
}

/// Whether a change of this file can change the server.
pub(super) fn counts(path: &str, scope: Scope) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let is_translation = has_extension(path, "po") || name == "nls.mk";
    let is_tool = DIRECTORIES.iter().any(|directory| path.starts_with(directory));
    let is_test = MODULES.iter().any(|module| path.starts_with(module))
        && INNER_DIRECTORIES.iter().any(|directory| path.contains(directory));
    let is_unmade = SELECTIVE.iter().any(|(directory, made)| {
        path.strip_prefix(directory).is_some_and(|rest| {
            let child = rest.split('/').next().unwrap_or_default();
            rest.contains('/') && !made.contains(&child)
        })
    });
    let is_note = NAMES.contains(&name) || name.starts_with("README");
    let is_jit = !scope.jit && path.starts_with(JIT);
    let is_meson = !scope.meson && (MESON.contains(&name) || has_extension(name, "meson"));
    !(is_translation || is_tool || is_test || is_unmade || is_note || is_jit || is_meson)
}

/// Whether a change of this file can change how everything else is compiled, so that nothing made before can stay.
pub(super) fn governs_all(path: &str) -> bool {
    const FILES: [&str; 6] = [
        "GNUmakefile.in",
        "configure",
        "contrib/contrib-global.mk",
        "src/Makefile.global.in",
        "src/Makefile.shlib",
        "src/backend/common.mk",
    ];
    const BEGINNINGS: [&str; 4] = ["config/", "src/include/pg_config", "src/makefiles/", "src/template/"];
    FILES.contains(&path) || BEGINNINGS.iter().any(|beginning| path.starts_with(beginning))
}

/// Whether this is a makefile, which says how the files beside it are made.
pub(super) fn is_makefile(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    matches!(name, "Makefile" | "GNUmakefile") || name.starts_with("Makefile.") || has_extension(name, "mk")
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|found| found == extension)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_compiled_counts() {
        for path in [
            "configure",
            "contrib/contrib-global.mk",
            "contrib/pg_prewarm/pg_prewarm--1.1.sql",
            "src/Makefile.global.in",
            "src/backend/access/heap/heapam.c",
            "src/backend/catalog/information_schema.sql",
            "src/backend/snowball/stopwords/english.stop",
            "src/backend/utils/errcodes.txt",
            "src/bin/Makefile",
            "src/bin/initdb/initdb.c",
            "src/fe_utils/string_utils.c",
            "src/include/catalog/pg_proc.dat",
            "src/pl/plpgsql/src/pl_exec.c",
            "src/timezone/data/europe",
            "src/tools/gen_keywordlist.pl",
            "src/something/new.c",
        ] {
            assert!(counts(path, Scope::default()), "{path}");
        }
    }

    #[test]
    fn documents_tests_translations_and_other_programs_do_not() {
        for path in [
            ".gitignore",
            "README",
            "contrib/hstore/hstore_io.c",
            "contrib/pg_stat_statements/expected/dml.out",
            "doc/src/sgml/release-18.sgml",
            "src/backend/access/nbtree/README",
            "src/backend/meson.build",
            "src/backend/po/de.po",
            "src/bin/pg_rewind/pg_rewind.c",
            "src/bin/psql/help.c",
            "src/bin/initdb/t/001_initdb.pl",
            "src/interfaces/libpq/fe-exec.c",
            "src/bin/psql/nls.mk",
            "src/pl/plperl/plperl.c",
            "src/test/regress/sql/join.sql",
            "src/tools/pgindent/typedefs.list",
        ] {
            assert!(!counts(path, Scope::default()), "{path}");
        }
    }

    #[test]
    fn llvm_counts_only_where_it_is_built_in() {
        let path = "src/backend/jit/llvm/llvmjit.c";
        assert!(counts(path, Scope { jit: true, meson: false }) && !counts(path, Scope::default()));
        assert!(counts("src/backend/jit/jit.c", Scope::default()));
        let path = "src/backend/meson.build";
        assert!(counts(path, Scope { jit: false, meson: true }) && !counts(path, Scope::default()));
    }

    #[test]
    fn what_governs_a_directory_and_what_governs_all() {
        assert!(governs_all("configure") && governs_all("src/include/pg_config.h.in"));
        assert!(!governs_all("src/backend/Makefile") && !governs_all("src/include/postgres.h"));
        assert!(is_makefile("src/backend/access/Makefile") && is_makefile("src/backend/common.mk"));
        assert!(!is_makefile("src/backend/access/heap/heapam.c"));
    }
}
