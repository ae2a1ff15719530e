//! Builds of a small make-believe PostgreSQL: a git repository with a `configure`, makefiles and a "server" that
//! knows its version. Everything else is real: git, make, the program, its cache, its signals.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

use crate::common::regtrack;

/// Notes how often it ran. The part that follows `PACKAGE_VERSION` is like that of the real one.
const CONFIGURE: &str = "#!/bin/sh
PACKAGE_VERSION='17.5'
echo run >>configure.runs
echo \"$@\" >config.status
";

/// Every object is a copy that notes when it was made; the one named slow takes its time.
const MAKEFILE: &str = "
P = $(DESTDIR)/nonexistent/regtrack
all: a.o b.o slow.o
%.o: %.c
\techo $< >>../../made
\tif [ $< = slow.c ] && [ -f ../../../../slow ]; then sleep 30; fi
\tcp $< $@
install: all
\tmkdir -p $(P)/bin $(P)/lib $(P)/share
\tprintf '#!/bin/sh\\necho \"postgres (PostgreSQL) 17.5\"\\n' >$(P)/bin/postgres
\tcat a.o >>$(P)/bin/postgres
\tcp $(P)/bin/postgres $(P)/bin/initdb
\tchmod 755 $(P)/bin/*
\ttouch $(P)/lib/plpgsql.so $(P)/lib/dict_snowball.so
\ttouch $(P)/share/postgres.bki $(P)/share/snowball_create.sql $(P)/share/postgresql.conf.sample
";

struct Bench {
    home: TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { home: tempfile::tempdir().unwrap() };
        fs::set_permissions(bench.home.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let backend = bench.repository().join("src/backend");
        fs::create_dir_all(&backend).unwrap();
        fs::create_dir_all(bench.repository().join("doc")).unwrap();
        fs::write(bench.repository().join("configure"), CONFIGURE).unwrap();
        fs::write(backend.join("Makefile"), MAKEFILE).unwrap();
        for name in ["a", "b", "slow"] {
            fs::write(backend.join(name).with_extension("c"), "# one\n").unwrap();
        }
        bench.sh("chmod +x configure; git init -q -b master .");
        bench.commit("true");
        bench
    }

    fn repository(&self) -> PathBuf {
        self.home.path().join("repo")
    }

    /// Runs shell commands in the repository.
    fn sh(&self, script: &str) -> String {
        let mut command = Command::new("sh");
        command.current_dir(self.repository()).args(["-ec", script]).env_remove("GIT_DIR");
        for name in ["GIT_AUTHOR", "GIT_COMMITTER"] {
            command.env(format!("{name}_NAME"), "t").env(format!("{name}_EMAIL"), "t@example.org");
        }
        let output = command.output().unwrap();
        assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Commits what a script changes and returns the commit.
    fn commit(&self, script: &str) -> String {
        self.sh(&format!("{script}; git add -A; git commit -q --allow-empty -m x; git rev-parse HEAD"))
    }

    fn command(&self, what: &str, arguments: &[&str]) -> Command {
        let mut command = regtrack();
        let source = format!("git={}", self.repository().display());
        command.current_dir(self.home.path()).env("CCACHE_DISABLE", "1");
        command.args(["build", what, "--source", &source, "--cache", "cache", "--no-proof"]).args(arguments);
        command
    }

    fn run(&self, what: &str, arguments: &[&str]) -> Output {
        self.command(what, arguments).output().unwrap()
    }

    /// Builds a commit and returns its line, with what the program said.
    fn build(&self, what: &str) -> (Value, String) {
        let output = self.run(what, &["--json"]);
        let said = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{said}");
        let lines: Value = serde_json::from_slice(&output.stdout).unwrap();
        (lines[0].clone(), said)
    }

    /// Objects that were made in a tree since this was asked last.
    fn made(&self) -> Vec<String> {
        let mut made = Vec::new();
        for tree in self.trees() {
            let file = tree.join("source/made");
            let text = fs::read_to_string(&file).unwrap_or_default();
            made.extend(text.lines().map(str::to_owned));
            let _ = fs::remove_file(file);
        }
        made.sort();
        made
    }

    fn trees(&self) -> Vec<PathBuf> {
        let trees = fs::read_dir(self.home.path().join("cache/trees"));
        trees.map(|trees| trees.map(|entry| entry.unwrap().path()).collect()).unwrap_or_default()
    }

    fn configure_runs(&self) -> usize {
        let runs = |tree: &PathBuf| fs::read_to_string(tree.join("source/configure.runs")).unwrap_or_default();
        self.trees().iter().map(|tree| runs(tree).lines().count()).sum()
    }
}

fn server(line: &Value) -> String {
    fs::read_to_string(Path::new(line["prefix"].as_str().unwrap()).join("bin/postgres")).unwrap()
}

#[test]
fn the_next_commit_compiles_what_changed_and_nothing_else() {
    let bench = Bench::new();
    let (first, said) = bench.build("master");
    assert!(said.contains("compiling 17.5 from") && server(&first).ends_with("# one\n"), "{said}");
    assert_eq!(bench.made(), ["a.c", "b.c", "slow.c"]);

    bench.commit("echo '# two' >src/backend/a.c");
    let (second, said) = bench.build("master");
    assert!(said.contains("what changed only"), "{said}");
    assert_eq!((bench.made(), bench.configure_runs()), (vec!["a.c".to_owned()], 1));
    assert!(server(&second).ends_with("# two\n") && server(&first).ends_with("# one\n"), "each has a build of its own");

    // Back again: the build is there.
    assert_eq!(bench.build("master~1").0["prefix"], first["prefix"]);
    assert!(bench.made().is_empty());
    // A makefile says how its directory is made: all of it is made anew.
    bench.commit("echo '# x' >>src/backend/Makefile");
    bench.build("master");
    assert_eq!((bench.made(), bench.configure_runs()), (["a.c", "b.c", "slow.c"].map(str::to_owned).to_vec(), 1));
    // So says configure for everything.
    bench.commit("echo '# x' >>configure");
    bench.build("master");
    assert_eq!((bench.made().len(), bench.configure_runs(), bench.trees().len()), (3, 1, 1));
}

#[test]
fn commits_that_cannot_differ_in_their_server_share_a_build() {
    let bench = Bench::new();
    let (first, _) = bench.build("master");
    let commit =
        bench.commit("echo words >doc/a; echo words >src/backend/README; mkdir -p src/test; echo 1 >src/test/t.c");
    let (second, said) = bench.build(&commit);
    assert_eq!(first["prefix"], second["prefix"]);
    assert!(said.contains("gives the same server as another commit"), "{said}");
    assert!(second["provenance"].as_str().unwrap().contains(&commit[..10]), "{second}");
}

#[test]
fn a_commit_that_does_not_compile_is_told_and_the_next_one_is_compiled_from_clean_source() {
    let bench = Bench::new();
    bench.build("master");
    bench.made();
    let makefile = MAKEFILE.replace("all: a.o b.o", "all: a.o broken.o")
        + "broken.o:\n\techo 'broken.c:7:1: error: no such thing' >&2; exit 1\n";
    fs::write(bench.repository().join("src/backend/Makefile"), makefile).unwrap();
    bench.commit("true");
    let output = bench.run("master", &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("17.5: make failed: broken.c:7:1: error: no such thing (full log: "), "{said}");
    assert!(said.contains("compiling from clean source"), "{said}");
    let log = said.split_once("(full log: ").and_then(|(_, rest)| rest.split(')').next()).unwrap();
    assert!(fs::read_to_string(log).unwrap().contains("no such thing"));
    assert!(bench.trees().is_empty(), "what failed is not built upon");
    bench.commit("git checkout -q HEAD~1 -- src/backend/Makefile; echo '# two' >src/backend/a.c");
    bench.build("master");
    assert_eq!(bench.made().len(), 3);
}

/// Waits until `done`, for as long as a busy machine may take.
fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !done() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_interrupted_compile_goes_on_where_it_was() {
    for signal in ["TERM", "KILL"] {
        let bench = Bench::new();
        bench.sh("git tag REL_17_5");
        fs::create_dir_all(bench.home.path().join("cache/trees")).unwrap();
        fs::write(bench.home.path().join("cache/trees/slow"), "").unwrap();
        let mut child = bench.command("17.5", &[]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let tree = || bench.trees().into_iter().find(|tree| tree.is_dir());
        let reached = || {
            tree().is_some_and(|tree| {
                fs::read_to_string(tree.join("source/made")).is_ok_and(|text| text.contains("slow"))
            })
        };
        wait("the compile begins", reached);
        let kill = Command::new("kill").args([format!("-{signal}"), child.id().to_string()]).status().unwrap();
        assert!(kill.success());
        child.wait().unwrap();
        fs::remove_file(bench.home.path().join("cache/trees/slow")).unwrap();
        assert!(fs::read_dir(bench.home.path().join("cache/builds")).unwrap().next().is_none(), "no half prefix");

        // What was made in the last seconds is not trusted; age what was made before.
        let source = tree().unwrap().join("source");
        let script =
            "touch -d '1 minute ago' src/backend/a.o src/backend/b.o; touch -d '2 minutes ago' src/backend/*.c";
        assert!(Command::new("sh").current_dir(&source).args(["-ec", script]).status().unwrap().success());
        let _ = fs::remove_file(source.join("made"));
        let (line, said) = bench.build("17.5");
        assert!(said.contains("going on where an earlier call was interrupted"), "{signal}: {said}");
        assert!(server(&line).ends_with("# one\n"));
        assert!(bench.trees().is_empty(), "the tree of a release goes when its build is there");
    }
}

#[test]
fn releases_are_compiled_side_by_side() {
    let bench = Bench::new();
    for version in ["16.3", "15.7"] {
        bench.sh(&format!(
            "git checkout -q -b v{version} master; sed -i 's/17[.]5/{version}/' configure src/backend/Makefile"
        ));
        bench.commit("true");
        bench.sh(&format!("git tag REL_{}", version.replace('.', "_")));
    }
    bench.sh("git tag REL_17_5 master");
    let output = bench.run("15.7,16.3,17.5", &["--json", "--jobs", "3"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let lines: Value = serde_json::from_slice(&output.stdout).unwrap();
    let versions: Vec<&str> = lines.as_array().unwrap().iter().map(|line| line["version"].as_str().unwrap()).collect();
    assert_eq!(versions, ["15.7", "16.3", "17.5"], "in the order of the range, whichever was done first");

    let table = bench.run("15.7,16.3", &["--jobs", "2"]);
    let text = String::from_utf8(table.stdout).unwrap();
    assert!(text.starts_with("15.7: compiled from ") && text.contains("\n16.3: compiled from "), "{text}");
}

#[test]
fn variants_are_builds_of_their_own() {
    let bench = Bench::new();
    let output = bench.run("master", &["--json", "--variant", "o2,o3,asserts"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    let lines: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines = lines.as_array().unwrap();
    let of =
        |name: &str| lines.iter().filter_map(|line| line[name].as_str()).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(of("variant").len(), 3);
    assert_eq!(of("prefix").len(), 3);
    let arguments: String =
        bench.trees().iter().map(|tree| fs::read_to_string(tree.join("source/config.status")).unwrap()).collect();
    assert!(arguments.contains("CFLAGS=-O3") && arguments.contains("--enable-cassert"), "{arguments}");

    let output = bench.run("master", &["--variant", "o2+lz4@no-such-compiler"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the compiler 'no-such-compiler' is not on this machine"), "{said}");
}

#[test]
fn a_sweep_compares_variants_of_one_release() {
    let bench = Bench::new();
    let plan = |source: &str, base: &str| {
        let arguments = ["sweep", "17.5", "--dry-run", "--variant", "o2,o3", "--base", base, "--source", source];
        let output = regtrack().current_dir(bench.home.path()).args(arguments).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let git = format!("git={}", bench.repository().display());
    let (text, _) = plan(&git, "17.5 o3");
    assert!(text.starts_with("plan: 2 servers × ") && text.contains("servers: git 17.5, git 17.5 o3\n"), "{text}");
    assert!(text.contains("base: 17.5 o3"), "{text}");
    let (_, said) = plan(&git, "17.5 o9");
    assert!(said.contains("the base 17.5 o9 is not one of the releases of this sweep (17.5, 17.5 o3)"), "{said}");
    let (_, said) = plan("prebuilt", "17");
    assert!(said.contains("the build variant o3 has to be compiled"), "{said}");
}

#[test]
fn what_is_neither_a_release_nor_a_commit_is_told() {
    let bench = Bench::new();
    let output = bench.run("no-such-branch", &[]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && said.contains("has no commit 'no-such-branch'"), "{said}");
    let output = regtrack().args(["build", "master"]).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("'master' is no release; a commit, tag or branch needs --source=git=REPO"), "{said}");
}

#[test]
fn one_table_shows_releases_and_sources() {
    let bench = Bench::new();
    bench.sh("git tag REL_17_5");
    let git = format!("git={}", bench.repository().display());
    let output = regtrack()
        .current_dir(bench.home.path())
        .args(["build", "16.3,17.5", "--matrix", &format!("{git},prefix=none"), "--cache", "cache", "--no-proof"])
        .output()
        .unwrap();
    let (text, said) = (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(text.contains("| 17 | 17.5 built | failed |\n") && text.contains("| 16 | – | failed |\n"), "{text}");
    assert!(text.contains("- 16.3 from `prefix=none`: ") && !text.contains("REL_16_3"), "{text}");
}
