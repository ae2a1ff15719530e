//! How everything is compiled on this machine, so that versions differ by their source alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sha2::{Digest, Sha256};

use crate::domain::{BuildSystem, Feature, Fixup, Major, TreeKind, Variant, VariantName, Version};
use crate::process;

use super::error::BuildError;
use super::fixups;
use super::programs::{self, COMPILERS};
use super::relevance::Scope;

/// What lets a current compiler take C of 2010. None of it changes code that compiled before.
const COMPATIBILITY_FLAGS: [&str; 6] = [
    "-std=gnu17",
    "-Wno-error=implicit-int",
    "-Wno-error=implicit-function-declaration",
    "-Wno-error=int-conversion",
    "-Wno-error=incompatible-pointer-types",
    "-Wno-error=incompatible-function-pointer-types",
];

/// What is made and installed where the version has it, in the order of PostgreSQL's own `src/Makefile`.
const PARTS: [&str; 19] = [
    "src/common",
    "src/port",
    "src/timezone",
    "src/backend",
    "src/backend/utils/mb/conversion_procs",
    "src/backend/snowball",
    "src/include",
    "src/interfaces/libpq",
    "src/fe_utils",
    "src/pl/plpgsql",
    "src/bin/initdb",
    "src/bin/pg_ctl",
    "src/bin/pg_config",
    "src/bin/psql",
    "src/bin/pgbench",
    "contrib/pgbench",
    "contrib/pg_prewarm",
    "contrib/pg_stat_statements",
    "contrib/pgstattuple",
];

/// The prefix that all builds are configured for. PostgreSQL's programs find their files relative to themselves, so
/// the tree can lie anywhere; one name for all keeps paths from being one more difference between builds, and objects
/// usable from one build to the next.
pub(super) const PREFIX: &str = "/nonexistent/regtrack";

/// Where programs and modules look for libpq, for the same reason. For make, which halves the dollar.
const LIBRARY_PATH: &str = "rpathdir=$$ORIGIN/../lib:$$ORIGIN/..";

/// Where Meson builds, below the top of the source.
pub(super) const MESON_DIRECTORY: &str = "meson-build";

const FIRST_WITH_MESON: Major = Major::new(16, 0);

const DEADLINE: Duration = Duration::from_secs(30);

/// A compiler and what it is called with whatever the variant.
#[derive(Debug)]
pub(super) struct Toolchain {
    compiler: String,
    /// The compiler's own words about its version and target.
    version: String,
    /// Those of the compatibility flags that it knows.
    flags: Vec<&'static str>,
    /// Whether ccache stands in front of it.
    ccache: bool,
}

impl Toolchain {
    /// Finds out about a compiler, or about the machine's own.
    fn detect(compiler: Option<&str>) -> Result<Self, BuildError> {
        programs::require("compiling PostgreSQL", &programs::missing_for_compiling(false, &programs::on_path))?;
        let own = || COMPILERS.into_iter().find(|name| programs::on_path(name)).unwrap_or(COMPILERS[0]);
        let compiler = compiler.unwrap_or_else(own);
        if !programs::on_path(compiler) {
            return Err(BuildError::NoCompiler { compiler: compiler.to_owned() });
        }
        let ask = |option| {
            process::run(clean(compiler).arg(option), DEADLINE, None)
                .map_err(|source| BuildError::Compiler { compiler: compiler.to_owned(), source: source.into() })
        };
        let words = ask("--version")?;
        let version = format!("{}, {}", words.lines().next().unwrap_or_default(), ask("-dumpmachine")?.trim());
        let knows = |flag: &&str| {
            let arguments = [flag, "-Werror", "-fsyntax-only", "-x", "c", "/dev/null"];
            process::run(clean(compiler).args(arguments), DEADLINE, None).is_ok()
        };
        let flags = COMPATIBILITY_FLAGS.into_iter().filter(knows).collect();
        Ok(Self { compiler: compiler.to_owned(), version, flags, ccache: ccache_is_in_force() })
    }

    /// Hash of the macros that the compiler defines under these flags: tells what `-march=native` means here.
    fn macros(&self, cflags: &[String]) -> Result<String, BuildError> {
        let mut command = clean(&self.compiler);
        command.args(cflags).args(["-dM", "-E", "-x", "c", "/dev/null"]);
        let text = process::run(&mut command, DEADLINE, None)
            .map_err(|source| BuildError::Compiler { compiler: self.compiler.clone(), source: source.into() })?;
        Ok(format!("{:x}", Sha256::digest(text)))
    }
}

/// Whether ccache is here and not switched off by its own variable.
fn ccache_is_in_force() -> bool {
    std::env::var_os("CCACHE_DISABLE").is_none() && programs::on_path("ccache")
}

/// The compilers that were looked at, each once.
#[derive(Debug, Default)]
pub(super) struct Toolchains(Mutex<BTreeMap<Option<String>, Arc<Toolchain>>>);

impl Toolchains {
    pub(super) fn get(&self, compiler: Option<&str>) -> Result<Arc<Toolchain>, BuildError> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(toolchain) = known.get(&compiler.map(str::to_owned)) {
            return Ok(Arc::clone(toolchain));
        }
        let toolchain = Arc::new(Toolchain::detect(compiler)?);
        known.insert(compiler.map(str::to_owned), Arc::clone(&toolchain));
        Ok(toolchain)
    }
}

/// One variant with one compiler, and what the releases in question need besides.
#[derive(Debug)]
pub(super) struct Recipe {
    toolchain: Arc<Toolchain>,
    variant: Variant,
    /// Those that the source may need.
    fixups: Vec<Fixup>,
    macros: String,
}

impl Recipe {
    pub(super) fn new(toolchains: &Toolchains, variant: &Variant, fixups: Vec<Fixup>) -> Result<Self, BuildError> {
        let toolchain = toolchains.get(variant.name.compiler.as_deref())?;
        let macros = toolchain.macros(&variant.cflags)?;
        Ok(Self { toolchain, variant: variant.clone(), fixups, macros })
    }

    /// Everything about the recipe that shapes the result: what is done, and not how it is called.
    pub(super) fn identity(&self) -> String {
        let Variant { name: _, system, cflags, configure, on, off } = &self.variant;
        let Toolchain { compiler, version, flags, ccache: _ } = &*self.toolchain;
        let named = |features: &[Feature]| -> String {
            let line =
                |feature: &Feature| format!("{}{:?}{:?}{:?} ", feature.name, feature.on, feature.off, feature.parts);
            features.iter().map(line).collect()
        };
        let parts = PARTS.join(" ");
        format!(
            "{}{compiler}: {version}\n{cflags:?} {flags:?} {}\n{configure:?} +{} -{}\n{PREFIX} {parts}\n{}",
            if *system == BuildSystem::Meson { "meson " } else { "" },
            self.macros,
            named(on),
            named(off),
            fixups::identity(&self.fixups)
        )
    }

    /// How the variant was named.
    pub(super) fn variant(&self) -> &VariantName {
        &self.variant.name
    }

    /// What in a source can change the result.
    pub(super) fn scope(&self) -> Scope {
        Scope { jit: self.variant.on.iter().any(|feature| feature.name == "llvm"), meson: self.is_meson() }
    }

    /// Whether Meson builds it.
    pub(super) fn is_meson(&self) -> bool {
        self.variant.system == BuildSystem::Meson
    }

    /// Whether compiles go through ccache.
    pub(super) fn ccache(&self) -> bool {
        self.toolchain.ccache
    }

    /// The fix-ups that a tree of this kind of a version needs.
    pub(super) fn fixups(&self, version: Version, kind: TreeKind) -> Vec<&Fixup> {
        self.fixups.iter().filter(|fixup| fixup.applies(version, kind)).collect()
    }

    /// Refuses a version that lacks Meson or a feature, and a machine that lacks what these need.
    pub(super) fn check_features(&self, version: Version) -> Result<(), BuildError> {
        if self.is_meson() {
            if version.major < FIRST_WITH_MESON {
                let feature = "Meson build".to_owned();
                return Err(BuildError::NoFeature { version, feature, from: FIRST_WITH_MESON });
            }
            let missing: Vec<&str> = ["meson", "ninja"].into_iter().filter(|name| !programs::on_path(name)).collect();
            programs::require("building by Meson", &missing)?;
        }
        for feature in &self.variant.on {
            if !feature.is_in(version.major) {
                let from = feature.from.unwrap_or(version.major);
                return Err(BuildError::NoFeature { version, feature: feature.name.clone(), from });
            }
            for need in &feature.needs {
                let missing = match (&need.program, &need.library) {
                    (Some(program), _) if !programs::on_path(program) => format!("the program {program}"),
                    (_, Some(library)) if !has_library(library)? => format!("the library {library}"),
                    _ => continue,
                };
                let (feature, package) = (feature.name.clone(), need.package.clone());
                return Err(BuildError::MissingLibrary { feature, missing, package });
            }
        }
        Ok(())
    }

    /// The compiler as makefiles call it.
    fn cc(&self) -> String {
        format!("{}{}", if self.toolchain.ccache { "ccache " } else { "" }, self.toolchain.compiler)
    }

    fn cflags(&self, fixups: &[&Fixup]) -> String {
        let flags = self.variant.cflags.iter().map(String::as_str).chain(self.toolchain.flags.iter().copied());
        let flags = flags.chain(fixups.iter().flat_map(|fixup| fixup.cflags.iter().map(String::as_str)));
        flags.collect::<Vec<_>>().join(" ")
    }

    /// What `configure` or Meson is told. With `dependencies`, make knows which objects depend on a header, as Ninja
    /// always does.
    pub(super) fn arguments(&self, version: Version, kind: TreeKind, dependencies: bool) -> Vec<String> {
        if self.is_meson() { self.meson_setup(version, kind) } else { self.configure(version, kind, dependencies) }
    }

    fn meson_setup(&self, version: Version, kind: TreeKind) -> Vec<String> {
        let mut arguments = vec![
            "setup".to_owned(),
            MESON_DIRECTORY.to_owned(),
            format!("--prefix={PREFIX}"),
            "--libdir=lib".to_owned(),
            "--auto-features=disabled".to_owned(),
            // All optimisation comes from the flags of the variant.
            "--buildtype=plain".to_owned(),
            "-Drpath=false".to_owned(),
            "-Dc_link_args=-Wl,-rpath,$ORIGIN/../lib".to_owned(),
            format!("-Dc_args={}", self.cflags(&self.fixups(version, kind))),
        ];
        arguments.extend(self.variant.on.iter().map(|feature| format!("-D{}=enabled", feature.meson)));
        arguments.extend(self.variant.configure.iter().cloned());
        arguments
    }

    /// Meson, which learns the compiler from its environment.
    pub(super) fn meson(&self) -> Command {
        let mut command = build_tool("meson");
        command.env("CC", self.cc());
        command
    }

    fn configure(&self, version: Version, kind: TreeKind, dependencies: bool) -> Vec<String> {
        let Variant { configure, on, off, .. } = &self.variant;
        let fixups = self.fixups(version, kind);
        let mut arguments = vec![format!("--prefix={PREFIX}")];
        arguments.extend(off.iter().flat_map(|feature| feature.declined(version.major).iter().cloned()));
        arguments.extend(on.iter().flat_map(|feature| feature.on.iter().cloned()));
        arguments.extend(configure.iter().cloned());
        if dependencies {
            arguments.push("--enable-depend".to_owned());
        }
        arguments.push(format!("CC={}", self.cc()));
        arguments.push(format!("CFLAGS={}", self.cflags(&fixups)));
        arguments.extend(fixups.iter().flat_map(|fixup| fixup.configure.clone()));
        arguments
    }

    /// The parts of a tree that are made, in the order of their installation.
    pub(super) fn parts(&self, tree: &Path) -> Vec<String> {
        let more = self.variant.on.iter().flat_map(|feature| feature.parts.iter().map(String::as_str));
        let parts = PARTS.into_iter().chain(more).filter(|part| tree.join(part).join("Makefile").is_file());
        parts.map(str::to_owned).collect()
    }
}

/// A makefile that makes these parts side by side, in an order in which no two of them make the same file.
///
/// With `headers`, the backend has a rule for the headers that its parts need. Releases without that rule make them in
/// passing, so their parts come one after the other; the backend, which is most of the work, uses all CPUs anyway.
pub(super) fn makefile(parts: &[String], headers: bool) -> String {
    let mut text = format!("all: {}\n.PHONY: all headers {0}\n", parts.join(" "));
    let mut rule = |part: &str, after: &[&str], directory: &str, target: &str| {
        let after: Vec<&str> =
            after.iter().copied().filter(|name| *name == "headers" || parts.iter().any(|part| part == name)).collect();
        let _ = writeln!(text, "{part}: {}\n\t@$(MAKE) -C {directory} {target}", after.join(" "));
    };
    if headers {
        rule("headers", &[], "src/backend", "generated-headers");
        for part in parts {
            let after: &[&str] = match part.as_str() {
                "src/common" | "src/port" => &["headers"],
                "src/backend" | "src/interfaces/libpq" => &["src/common", "src/port"],
                "src/fe_utils" => &["src/interfaces/libpq"],
                _ => &["src/backend", "src/fe_utils", "src/interfaces/libpq"],
            };
            rule(part, after, part, "all");
        }
    } else {
        let mut before: &[&str] = &[];
        let names: Vec<&str> = parts.iter().map(String::as_str).collect();
        for (index, part) in names.iter().enumerate() {
            rule(part, before, part, "all");
            before = &names[index..=index];
        }
    }
    text
}

/// make for a tree that was configured by a recipe.
pub(super) fn make() -> Command {
    let mut command = build_tool("make");
    // Silent, so that the log holds what compilers say and not what they were called with.
    command.args(["--silent", "--no-print-directory", LIBRARY_PATH]);
    command
}

/// `configure`, make: a program that ends with regtrack, however that ends, and takes its children along.
pub(super) fn build_tool(program: &str) -> Command {
    if !programs::on_path("setpriv") {
        return clean(program);
    }
    let mut command = clean("setpriv");
    command.args(["--pdeathsig", "TERM", program]);
    command
}

/// A program in an environment without the caller's build variables, server variables and language.
pub(super) fn clean(program: &str) -> Command {
    let mut command = Command::new(program);
    let kept = std::env::vars_os().filter(|(name, _)| {
        name.to_str().is_some_and(|name| matches!(name, "PATH" | "HOME" | "TMPDIR") || name.starts_with("CCACHE_"))
    });
    // Objects may be shared between the directories of two builds.
    command.env_clear().env("CCACHE_NOHASHDIR", "1").envs(kept).env("LC_ALL", "C");
    command
}

fn has_library(library: &str) -> Result<bool, BuildError> {
    programs::require("looking for libraries", if programs::on_path("pkg-config") { &[] } else { &["pkg-config"] })?;
    Ok(process::run(clean("pkg-config").args(["--exists", library]), DEADLINE, None).is_ok())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A variant with these features on, and ICU off.
    pub(in super::super) fn variant(name: &str, features: &[&str]) -> Variant {
        let feature = |text: &str| toml::from_str::<Feature>(&format!("about = ''\nmeson = ''\n{text}")).unwrap();
        let icu = "name = 'icu'\non = ['--with-icu']\noff = ['--without-icu']\noff_from = '16'";
        Variant {
            name: name.parse().unwrap(),
            system: BuildSystem::Make,
            cflags: vec!["-O2".to_owned(), "-g".to_owned()],
            configure: vec!["--without-readline".to_owned()],
            on: features.iter().map(|text| feature(text)).collect(),
            off: vec![feature(icu)],
        }
    }

    const LZ4: &str = "name = 'lz4'\nfrom = '14'\non = ['--with-lz4']\nneed = [{ library = 'regtrack-none', package = 'liblz4-dev' }]";

    fn recipe_of(variant: &Variant) -> Recipe {
        Recipe::new(&Toolchains::default(), variant, Vec::new()).unwrap()
    }

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn a_release_is_told_what_it_would_have_on_by_itself() {
        let arguments = |text: &str| recipe_of(&variant("o2", &[])).configure(version(text), TreeKind::Archive, false);
        let old = arguments("9.6.24");
        assert_eq!(old[..2], ["--prefix=/nonexistent/regtrack", "--without-readline"]);
        assert!(old.iter().any(|word| word.starts_with("CFLAGS=-O2 -g")), "{old:?}");
        assert!(!old.contains(&"--without-icu".to_owned()) && arguments("16.1").contains(&"--without-icu".to_owned()));
        assert!(!old.contains(&"--enable-depend".to_owned()));
    }

    #[test]
    fn recipes_differ_by_what_they_do_and_not_by_their_name() {
        let plain = variant("o2", &[]);
        let native = Variant { cflags: vec!["-O2".to_owned(), "-march=native".to_owned()], ..plain.clone() };
        let asserts = Variant { configure: vec!["--enable-cassert".to_owned()], ..plain.clone() };
        let lz4 = variant("o2", &[LZ4]);
        let identity = |variant: &Variant| recipe_of(variant).identity();
        let identities = [&plain, &native, &asserts, &lz4].map(identity);
        for (index, one) in identities.iter().enumerate() {
            assert!(!identities[..index].contains(one), "{one}");
        }
        assert_eq!(identity(&Variant { name: "other".parse().unwrap(), ..plain }), identities[0]);
    }

    #[test]
    fn a_release_without_the_feature_is_refused() {
        let error = recipe_of(&variant("o2", &[LZ4])).check_features(version("9.6.24")).unwrap_err().to_string();
        assert_eq!(error, "9.6.24 has no lz4: it came with 14");
    }

    #[test]
    fn what_a_feature_lacks_is_named_with_its_package() {
        let error = recipe_of(&variant("o2", &[LZ4])).check_features(version("17.5")).unwrap_err().to_string();
        let expected = if programs::on_path("pkg-config") {
            "lz4 needs the library regtrack-none, which is not here; install liblz4-dev (Debian's name)"
        } else {
            "looking for libraries needs pkg-config, not found on PATH; install pkg-config (Debian's names)"
        };
        assert_eq!(error, expected);
        let jit = "name = 'llvm'\non = []\nneed = [{ program = 'regtrack-none', package = 'llvm-dev' }]";
        let error = recipe_of(&variant("jit", &[jit])).check_features(version("17.5")).unwrap_err().to_string();
        assert!(error.contains("needs the program regtrack-none") && error.contains("llvm-dev"), "{error}");
    }

    #[test]
    fn a_compiler_that_is_not_here_is_named() {
        let named = variant("o2@regtrack-no-such-cc", &[]);
        let error = Recipe::new(&Toolchains::default(), &named, Vec::new()).unwrap_err().to_string();
        assert!(error.contains("regtrack-no-such-cc"), "{error}");
    }

    #[test]
    fn parts_wait_for_those_whose_files_they_use() {
        let parts: Vec<String> = ["src/port", "src/backend", "src/bin/psql"].map(str::to_owned).to_vec();
        let text = makefile(&parts, true);
        assert!(text.contains("src/backend: src/port\n"), "{text}");
        assert!(text.contains("src/bin/psql: src/backend\n"), "{text}");
        let text = makefile(&parts, false);
        assert!(text.contains("src/backend: src/port\n") && !text.contains("generated-headers"), "{text}");
    }
}
