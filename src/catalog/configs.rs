//! Server settings: named sets of one template per major, in `configs/<name>/`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use include_dir::{Dir, include_dir};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tera::{Context, Tera};

use super::CatalogError;
use crate::domain::Major;

static BUILTIN: Dir = include_dir!("$CARGO_MANIFEST_DIR/configs");

/// Hex digits of a set's hash.
const HASH_LENGTH: usize = 16;

/// What describes a set, beside its templates.
const DESCRIPTION: &str = "set.toml";

/// Settings that whoever starts the server decides.
const RESERVED: [&str; 10] = [
    "config_file",
    "data_directory",
    "external_pid_file",
    "hba_file",
    "ident_file",
    "listen_addresses",
    "logging_collector",
    "port",
    "unix_socket_directories",
    "unix_socket_directory",
];

/// What is wrong with the configuration file of one major.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigProblem {
    /// A line that is neither a comment nor a setting.
    #[error("'{line}' is not of the form name = value")]
    Line {
        /// The line.
        line: String,
    },
    /// A setting given twice.
    #[error("'{name}' is set twice")]
    Duplicate {
        /// The setting.
        name: String,
    },
    /// A setting that is not the set's to give.
    #[error("'{name}' is chosen when the server is started and cannot be part of a set")]
    Reserved {
        /// The setting.
        name: String,
    },
}

/// A named set of server settings, with the initdb options that belong to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigSet {
    /// Its name: that of its directory.
    pub name: String,
    /// A few words for people.
    pub title: String,
    /// A few sentences for people.
    pub description: String,
    /// Whether data checksums are on where the release has them (9.3 and later). Otherwise they are
    /// off, also from 18 on, where that must be asked for.
    pub data_checksums: bool,
    /// `--locale` of initdb.
    pub locale: String,
    /// `--encoding` of initdb.
    pub encoding: String,
    /// Templates by major.
    templates: BTreeMap<Major, String>,
}

/// The content of `set.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSet {
    title: String,
    description: String,
    data_checksums: Switch,
    locale: String,
    encoding: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Switch {
    On,
    Off,
}

/// The names of the sets that come with the program.
#[must_use]
pub fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = BUILTIN.dirs().filter_map(|dir| dir.path().to_str()).collect();
    names.sort_unstable();
    names
}

/// A set that comes with the program, or one in a directory of the user's: what has a `/` in it is a
/// directory.
pub fn load(name_or_dir: &str) -> Result<ConfigSet, CatalogError> {
    if name_or_dir.contains('/') {
        return load_dir(Path::new(name_or_dir));
    }
    let Some(dir) = BUILTIN.get_dir(name_or_dir) else {
        return Err(CatalogError::UnknownConfig { name: name_or_dir.to_owned(), known: names() });
    };
    let files = dir.files().filter_map(|file| {
        let name = file.path().file_name()?.to_str()?;
        Some((name.to_owned(), file.contents_utf8()?.to_owned()))
    });
    ConfigSet::from_files(name_or_dir, &format!("configs/{name_or_dir}"), files.collect())
}

fn load_dir(dir: &Path) -> Result<ConfigSet, CatalogError> {
    let read = |path: &Path| {
        let path = path.to_owned();
        move |source| CatalogError::Read { path, source }
    };
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).map_err(read(dir))? {
        let path = entry.map_err(read(dir))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name == DESCRIPTION || name.strip_suffix(".conf").is_some() {
            let text = fs::read_to_string(&path).map_err(read(&path))?;
            files.insert(name, text);
        }
    }
    let name = dir.file_name().unwrap_or(dir.as_os_str()).to_string_lossy().into_owned();
    ConfigSet::from_files(&name, &dir.display().to_string(), files)
}

impl ConfigSet {
    /// A set from the texts of its files; `place` is how errors call its directory.
    fn from_files(name: &str, place: &str, mut files: BTreeMap<String, String>) -> Result<Self, CatalogError> {
        let description = files.remove(DESCRIPTION);
        let description = description.ok_or_else(|| CatalogError::NoDescription { dir: place.to_owned() })?;
        let raw: RawSet = toml::from_str(&description).map_err(|source| CatalogError::Parse {
            file: format!("{place}/{DESCRIPTION}"),
            source: Box::new(source),
        })?;
        let mut templates = BTreeMap::new();
        for (file, text) in files {
            if let Some(stem) = file.strip_suffix(".conf") {
                let major = stem
                    .parse()
                    .map_err(|source| CatalogError::ConfigName { file: format!("{place}/{file}"), source })?;
                templates.insert(major, text);
            }
        }
        Ok(Self {
            name: name.to_owned(),
            title: raw.title,
            description: raw.description,
            data_checksums: raw.data_checksums == Switch::On,
            locale: raw.locale,
            encoding: raw.encoding,
            templates,
        })
    }

    /// The majors that the set has a file for, oldest first.
    pub fn majors(&self) -> impl Iterator<Item = Major> {
        self.templates.keys().copied()
    }

    /// The settings for a major on a machine with `memory_mib` MiB of memory, as lines for the end
    /// of a postgresql.conf.
    pub fn render(&self, major: Major, memory_mib: u64) -> Result<String, CatalogError> {
        let Some(template) = self.templates.get(&major) else {
            return Err(CatalogError::NoConfig { set: self.name.clone(), major });
        };
        let mut context = Context::new();
        context.insert("memory_mib", &memory_mib);
        // Named, so that an error points into the file.
        let file = format!("{}/{major}.conf", self.name);
        let mut tera = Tera::new();
        let rendered = tera.add_raw_template(&file, template).and_then(|()| tera.render(&file, &context));
        let text = rendered.map_err(|source| CatalogError::ConfigTemplate {
            set: self.name.clone(),
            major,
            source: Box::new(source),
        })?;
        settings(&text).map_err(|problem| CatalogError::Config { set: self.name.clone(), major, problem })?;
        Ok(text)
    }

    /// [`ConfigSet::render`] for a build from the development of `major`, which has not all of its settings yet, and some
    /// of the major before it still: `known` are those that the build has. What it lacks is left out, what only the
    /// major before had is taken from there. A major that the set does not know yet gets the settings of the newest.
    pub fn render_development(
        &self,
        major: Major,
        memory_mib: u64,
        known: &BTreeSet<String>,
    ) -> Result<String, CatalogError> {
        let major = major.min(self.majors().last().unwrap_or(major));
        let before = self.majors().take_while(|one| *one < major).last();
        let own = self.render(major, memory_mib)?;
        let older = before.map(|before| self.render(before, memory_mib)).transpose()?.unwrap_or_default();
        // Both have been checked by `render`.
        let (own, older) = (settings(&own).unwrap_or_default(), settings(&older).unwrap_or_default());
        let is_new = |name: &str| own.iter().all(|(own, _)| *own != name);
        let is_number = |value: &str| value.trim_start_matches(['\'', '-']).starts_with(|c: char| c.is_ascii_digit());
        let value = |(name, value): (&str, &str)| {
            let before = older.iter().find(|(older, value)| *older == name && !is_number(value));
            format!("{name} = {}\n", before.map_or(value, |(_, before)| before))
        };
        let lines = own.iter().chain(older.iter().filter(|(name, _)| is_new(name)));
        Ok(lines.filter(|(name, _)| known.contains(*name)).map(|line| value(*line)).collect())
    }

    /// Identifies what the set makes of every release on a machine with `memory_mib` MiB of memory:
    /// the same hash means the same settings and initdb options. Comments and texts for people do
    /// not count.
    pub fn hash(&self, memory_mib: u64) -> Result<String, CatalogError> {
        let mut hasher = Sha256::new();
        hasher.update(format!("{}\n{}\n{}\n", self.data_checksums, self.locale, self.encoding));
        for &major in self.templates.keys() {
            hasher.update(format!("[{major}]\n"));
            let text = self.render(major, memory_mib)?;
            for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
                hasher.update(format!("{line}\n"));
            }
        }
        let mut hex = format!("{:x}", hasher.finalize());
        hex.truncate(HASH_LENGTH);
        Ok(hex)
    }
}

/// The settings in a configuration file, in order: names and values as written.
fn settings(text: &str) -> Result<Vec<(&str, &str)>, ConfigProblem> {
    let mut settings = Vec::new();
    let mut names = BTreeSet::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let parts = line.split_once('=').map(|(name, value)| (name.trim(), value.trim()));
        let plain =
            |name: &str| !name.is_empty() && name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_' || b == b'.');
        let Some((name, value)) = parts.filter(|(name, value)| plain(name) && !value.is_empty()) else {
            return Err(ConfigProblem::Line { line: line.to_owned() });
        };
        if RESERVED.contains(&name) {
            return Err(ConfigProblem::Reserved { name: name.to_owned() });
        }
        if !names.insert(name) {
            return Err(ConfigProblem::Duplicate { name: name.to_owned() });
        }
        settings.push((name, value));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::versions::Catalogue;

    const GIB: u64 = 1024;

    fn major(text: &str) -> Major {
        text.parse().unwrap()
    }

    /// The settings of one major of a set, by name.
    fn of(set: &str, release: &str, gib: u64) -> BTreeMap<String, String> {
        let text = load(set).unwrap().render(major(release), gib * GIB).unwrap();
        settings(&text).unwrap().into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    #[test]
    fn every_set_renders_for_every_major_and_any_machine() {
        assert_eq!(names(), ["callaghan", "default"]);
        for name in names() {
            let set = load(name).unwrap();
            let majors: Vec<Major> = Catalogue::builtin().unwrap().majors().iter().map(|major| major.major).collect();
            assert_eq!(set.majors().collect::<Vec<_>>(), majors, "{name}");
            for major in majors {
                for gib in [8, 16, 24, 64] {
                    let text = set.render(major, gib * GIB).unwrap();
                    assert!(!text.contains(['{', '}']), "{name} {major}: {text}");
                    assert!(settings(&text).unwrap().len() > 15, "{name} {major}");
                }
            }
        }
    }

    /// First and last major of settings that some major lacks: an unknown name stops a server.
    const LIMITS: [(&str, &str, &str); 21] = [
        ("autovacuum_vacuum_insert_scale_factor", "13", "19"),
        ("autovacuum_vacuum_insert_threshold", "13", "19"),
        ("autovacuum_work_mem", "9.4", "19"),
        ("checkpoint_segments", "9.0", "9.4"),
        ("compute_query_id", "14", "19"),
        ("hash_mem_multiplier", "13", "19"),
        ("huge_pages", "9.4", "19"),
        ("io_method", "18", "19"),
        ("jit", "11", "19"),
        ("max_parallel_maintenance_workers", "11", "19"),
        ("max_parallel_workers", "10", "19"),
        ("max_parallel_workers_per_gather", "9.6", "19"),
        ("max_replication_slots", "9.4", "19"),
        ("max_wal_size", "9.5", "19"),
        ("min_wal_size", "9.5", "19"),
        ("track_io_timing", "9.2", "19"),
        ("track_wal_io_timing", "14", "19"),
        ("vacuum_buffer_usage_limit", "16", "19"),
        ("wal_compression", "9.5", "19"),
        ("wal_init_zero", "12", "19"),
        ("wal_keep_size", "13", "19"),
    ];

    #[test]
    fn a_commit_of_a_cycle_gets_the_settings_that_it_has() {
        let set = load("default").unwrap();
        let known = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        // Before max_wal_size came, late in the cycle of 9.5.
        let early = known(&["shared_buffers", "checkpoint_segments", "synchronous_commit"]);
        let text = set.render_development("9.5".parse().unwrap(), 8192, &early).unwrap();
        assert!(text.contains("checkpoint_segments = ") && text.contains("synchronous_commit = off"), "{text}");
        assert!(!text.contains("max_wal_size") && !text.contains("wal_compression"), "{text}");
        let late = known(&["shared_buffers", "max_wal_size", "synchronous_commit"]);
        let text = set.render_development("9.5".parse().unwrap(), 8192, &late).unwrap();
        assert!(text.contains("max_wal_size = ") && !text.contains("checkpoint_segments"), "{text}");
        // Words that came late in a cycle.
        let text = set.render_development("9.6".parse().unwrap(), 8192, &known(&["wal_level"])).unwrap();
        assert_eq!(text, "wal_level = hot_standby\n");
        // No file knows this major yet.
        assert!(set.render_development("25".parse().unwrap(), 8192, &late).unwrap().contains("max_wal_size = "));
    }

    #[test]
    fn settings_are_given_only_to_majors_that_have_them() {
        for name in names() {
            for release in load(name).unwrap().majors() {
                let settings = of(name, &release.to_string(), 16);
                for (setting, first, last) in LIMITS {
                    let exists = major(first) <= release && release <= major(last);
                    assert!(exists || !settings.contains_key(setting), "{name} {release} sets {setting}");
                }
            }
        }
    }

    #[test]
    fn the_published_set_is_the_published_table() {
        let value = |release: &str, setting: &str| of("callaghan", release, 16).get(setting).cloned();
        let some = |text: &str| Some(text.to_owned());
        for release in ["9.0", "9.6", "10", "16", "18"] {
            assert_eq!(value(release, "shared_buffers"), some("10GB"), "{release}");
            assert_eq!(value(release, "autovacuum_vacuum_cost_limit"), some("4000"), "{release}");
            assert_eq!(value(release, "synchronous_commit"), some("off"), "{release}");
        }
        assert_eq!(value("9.4", "max_wal_size"), None);
        assert_eq!(value("9.4", "checkpoint_segments"), None);
        assert_eq!(value("9.5", "max_wal_size"), some("40GB"));
        assert_eq!((value("9.5", "wal_level"), value("9.6", "wal_level")), (some("hot_standby"), some("replica")));
        assert_eq!((value("9.6", "bgwriter_delay"), value("10", "bgwriter_delay")), (some("50ms"), some("100ms")));
        assert_eq!(value("9.6", "bgwriter_lru_maxpages"), some("1000"));
        assert_eq!((value("9.1", "track_io_timing"), value("9.2", "track_io_timing")), (None, some("on")));
        assert_eq!(value("12", "autovacuum_vacuum_insert_scale_factor"), None);
        assert_eq!(value("13", "autovacuum_vacuum_insert_scale_factor"), some("0.05"));
        assert_eq!((value("16", "jit"), value("17", "jit")), (None, some("off")));
        assert_eq!(value("17", "autovacuum_vacuum_cost_delay"), some("1ms"));
        assert_eq!((value("17", "io_method"), value("18", "io_method")), (None, some("sync")));
        assert_eq!(of("callaghan", "10", 16), of("callaghan", "12", 16));
        assert_eq!(of("callaghan", "14", 16), of("callaghan", "16", 16));
        // The rows that the table has for the newest and for the oldest column.
        assert_eq!(of("callaghan", "16", 16).len(), 25);
        assert_eq!(of("callaghan", "9.0", 16).len(), 16);
    }

    #[test]
    fn the_default_set_is_alike_in_every_major() {
        let set = load("default").unwrap();
        let oldest = of("default", "9.0", 24);
        for release in set.majors() {
            let settings = of("default", &release.to_string(), 24);
            for (name, value) in &oldest {
                let renamed = matches!(name.as_str(), "checkpoint_segments" | "wal_level");
                let gone = name == "standard_conforming_strings";
                assert!(renamed || gone || settings.get(name) == Some(value), "{name} in {release}");
            }
            // Each spelling of it comes to a checkpoint after 640 segments of 16 MB.
            let gigabytes = |name: &str| settings.get(name)?.strip_suffix("GB")?.parse::<u32>().ok();
            let segments = match (settings.get("checkpoint_segments"), gigabytes("max_wal_size")) {
                (Some(segments), None) => segments.parse().unwrap(),
                (None, Some(size)) if release < major("11") => size * 64 * 10 / 29,
                (None, Some(size)) => size * 64 * 10 / 19,
                _ => panic!("{release} has no or two limits for WAL"),
            };
            assert_eq!(segments, 640, "{release}");
        }
        assert!(!set.data_checksums && load("callaghan").unwrap().data_checksums);
    }

    #[test]
    fn sizes_follow_the_machine_in_whole_megabytes() {
        let buffers = |set: &str, gib| of(set, "17", gib)["shared_buffers"].clone();
        assert_eq!([8, 13, 14, 64].map(|gib| buffers("callaghan", gib)), ["4915MB", "7987MB", "10GB", "10GB"]);
        assert_eq!([8, 24, 64].map(|gib| buffers("default", gib)), ["3276MB", "9830MB", "16384MB"]);
        assert_eq!(of("default", "9.0", 24)["effective_cache_size"], "18432MB");
    }

    #[test]
    fn the_hash_follows_settings_and_not_comments() {
        let set = load("default").unwrap();
        let hash = |set: &ConfigSet, gib| set.hash(gib * GIB).unwrap();
        assert_eq!(hash(&set, 24).len(), HASH_LENGTH);
        assert_ne!(hash(&set, 24), hash(&set, 16), "sizes differ");
        assert_eq!(hash(&set, 64), hash(&ConfigSet { title: String::new(), ..set.clone() }, 64));
        assert_ne!(hash(&set, 64), hash(&ConfigSet { data_checksums: true, ..set.clone() }, 64));
        let mut other = set.clone();
        let template = other.templates.get_mut(&major("17")).unwrap();
        template.push_str("# a remark\n");
        assert_eq!(hash(&set, 64), hash(&other, 64));
        other.templates.get_mut(&major("17")).unwrap().push_str("commit_delay = 10\n");
        assert_ne!(hash(&set, 64), hash(&other, 64));
    }

    #[test]
    fn a_directory_is_read_like_a_builtin_set() {
        let dir = format!("{}/configs/default", env!("CARGO_MANIFEST_DIR"));
        assert_eq!(load(&dir).unwrap(), load("default").unwrap());
        assert_eq!(load(&format!("{dir}/")).unwrap().name, "default");
    }

    #[test]
    fn what_is_wrong_is_said_with_set_and_major() {
        let error = |name: &str| load(name).unwrap_err().to_string();
        assert_eq!(
            error("defualt"),
            "there is no configuration set 'defualt'; there are callaghan, default (write ./defualt for a directory)"
        );
        assert_eq!(error("no/such"), "could not read no/such");

        let dir = tempfile::tempdir().unwrap();
        let path = format!("{}/", dir.path().display());
        assert!(error(&path).ends_with("is no configuration set: it has no set.toml"), "{}", error(&path));
        let description = "title = 't'\ndescription = 'd'\ndata_checksums = 'off'\nlocale = 'C'\nencoding = 'UTF8'\n";
        fs::write(dir.path().join(DESCRIPTION), description).unwrap();
        let name = dir.path().file_name().unwrap().to_str().unwrap().to_owned();
        let render = |text: &str| {
            fs::write(dir.path().join("17.conf"), text).unwrap();
            load(&path).unwrap().render(major("17"), 1024).unwrap_err()
        };
        let cases = [
            ("port = 5432", "'port' is chosen when the server is started and cannot be part of a set"),
            ("work_mem 4MB", "'work_mem 4MB' is not of the form name = value"),
            ("work_mem =", "'work_mem =' is not of the form name = value"),
            ("jit = off\njit = on", "'jit' is set twice"),
            ("work_mem = {{ memory }}MB", "the template does not render"),
            ("work_mem = {{ memory_mib", "the template does not render"),
        ];
        for (text, expected) in cases {
            assert_eq!(render(text).to_string(), format!("configuration set '{name}', 17.conf: {expected}"));
        }
        let missing = load(&path).unwrap().render(major("16"), 1024).unwrap_err().to_string();
        assert_eq!(missing, format!("the configuration set '{name}' has no 16.conf for PostgreSQL 16"));
        fs::write(dir.path().join("seventeen.conf"), "").unwrap();
        assert!(error(&path).ends_with("seventeen.conf is not named after a major"), "{}", error(&path));
    }
}
