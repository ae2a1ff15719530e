//! The directory of a bisect: the question, what was built, what was left out, and what happened when.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::BisectError;
use super::chain::{Chain, Level};
use crate::domain::{Measurement, TargetId};

/// Format of the files.
const FORMAT: u32 = 1;

const RECORD: &str = "bisect.json";
const LOG: &str = "log";
const RESULTS: &str = "results";

/// What is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Queries per second.
    Qps,
    /// Queries per second of CPU time of the server's backend: less noisy, and blind for everything that waits.
    Cpu,
}

impl Metric {
    /// The rate; `None` where it was not measured.
    #[must_use]
    pub fn rate(self, measurement: &Measurement) -> Option<f64> {
        let rate = match self {
            Self::Qps => measurement.qps(),
            Self::Cpu => measurement.queries as f64 / (measurement.backend_cpu_ns? as f64 / 1e9),
        };
        (rate.is_finite() && rate > 0.0).then_some(rate)
    }

    /// What it is called in sentences.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Qps => "QPS",
            Self::Cpu => "queries per second of CPU time",
        }
    }
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Question {
    /// The near end, as it was written.
    pub from: String,
    /// The far end.
    pub to: String,
    /// The microbenchmarks, as they were written. Of several the geometric mean is compared.
    pub bench: String,
    /// What is compared.
    pub metric: Metric,
    /// The repository, if commits are to be searched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<PathBuf>,
    /// Hash of the protocol: launches of another one do not belong together.
    pub protocol: String,
}

impl Question {
    /// `9.1..9.2, range-covered-pk, by QPS`
    #[must_use]
    pub fn words(&self) -> String {
        format!("{}..{}, {}, by {}", self.from, self.to, self.bench, self.metric.words())
    }
}

/// How a stage ended for good.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Closed {
    /// The step is one of these links.
    Found(Range<usize>),
    /// The ends do not differ.
    Alike,
}

/// One chain and what became of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// How finely it divides; names its file and its sweep.
    pub level: Level,
    /// Targets of the positions that were built.
    #[serde(default)]
    pub targets: BTreeMap<usize, TargetId>,
    /// Positions that could not be measured, with the reasons.
    #[serde(default)]
    pub skipped: BTreeMap<usize, String>,
    /// Seconds that each build took which was not in the cache.
    #[serde(default)]
    pub build_seconds: Vec<f64>,
    /// The answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub closed: Option<Closed>,
}

/// What is kept besides launches and chains.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Format of the files.
    pub format: u32,
    /// Version of the program.
    pub regtrack: String,
    /// When it began.
    pub created_at: Timestamp,
    /// The command line.
    pub command: String,
    /// What is asked.
    pub question: Question,
    /// Chains, each within one step of the one before.
    pub stages: Vec<Stage>,
}

/// A bisect's directory.
#[derive(Debug)]
pub struct Notebook {
    dir: PathBuf,
    /// Its content.
    pub record: Record,
}

/// What happened, line by line.
#[derive(Debug, Clone)]
pub struct Logbook {
    path: PathBuf,
}

impl Logbook {
    /// Adds a line with the time.
    pub fn add(&self, text: &str) -> Result<(), BisectError> {
        let line = format!("{:.0} {text}\n", Timestamp::now());
        let append = || fs::File::options().create(true).append(true).open(&self.path)?.write_all(line.as_bytes());
        append().map_err(file("write", &self.path))
    }
}

impl Notebook {
    /// The bisect in a directory.
    pub fn open(dir: &Path) -> Result<Self, BisectError> {
        let path = dir.join(RECORD);
        if !path.exists() {
            return Err(BisectError::NoBisect { dir: dir.to_owned() });
        }
        Ok(Self { dir: dir.to_owned(), record: read(&path)? })
    }

    /// The bisect of this question in a directory, or a new one there.
    pub fn create_or_open(dir: &Path, question: &Question, command: &str) -> Result<Self, BisectError> {
        if dir.join(RECORD).exists() {
            let notebook = Self::open(dir)?;
            if notebook.record.question != *question {
                let (there, asked) = (notebook.record.question.words(), question.words());
                let asked = if there == asked { format!("{asked}, measured in another way") } else { asked };
                return Err(BisectError::OtherQuestion { dir: dir.to_owned(), there, asked });
            }
            return Ok(notebook);
        }
        if fs::read_dir(dir).is_ok_and(|mut entries| entries.next().is_some()) {
            return Err(BisectError::Foreign { dir: dir.to_owned() });
        }
        fs::create_dir_all(dir).map_err(file("make", dir))?;
        let record = Record {
            format: FORMAT,
            regtrack: env!("CARGO_PKG_VERSION").to_owned(),
            created_at: Timestamp::now(),
            command: command.to_owned(),
            question: question.clone(),
            stages: Vec::new(),
        };
        let notebook = Self { dir: dir.to_owned(), record };
        notebook.save()?;
        notebook.log(&format!("begun: {}", question.words()))?;
        Ok(notebook)
    }

    /// Where it is.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The results directory with the launches.
    #[must_use]
    pub fn results(&self) -> PathBuf {
        self.dir.join(RESULTS)
    }

    /// Writes the record.
    pub fn save(&self) -> Result<(), BisectError> {
        write(&self.dir.join(RECORD), &self.record)
    }

    /// Begins a stage with its chain, unless there is one at this level already.
    pub fn begin(&mut self, chain: &Chain) -> Result<usize, BisectError> {
        if let Some(index) = self.record.stages.iter().position(|stage| stage.level == chain.level) {
            return Ok(index);
        }
        write(&self.chain_file(chain.level), chain)?;
        self.record.stages.push(Stage {
            level: chain.level,
            targets: BTreeMap::new(),
            skipped: BTreeMap::new(),
            build_seconds: Vec::new(),
            closed: None,
        });
        self.save()?;
        let (places, candidates) = (chain.places.len(), chain.candidates());
        self.log(&format!("{}: {places} places, {candidates} steps that can be it", chain.level))?;
        Ok(self.record.stages.len() - 1)
    }

    /// The chain of a level.
    pub fn chain(&self, level: Level) -> Result<Chain, BisectError> {
        read(&self.chain_file(level))
    }

    fn chain_file(&self, level: Level) -> PathBuf {
        self.dir.join(format!("{level}.json"))
    }

    /// Adds a line to the log.
    pub fn log(&self, text: &str) -> Result<(), BisectError> {
        self.logbook().add(text)
    }

    /// The log alone, for whoever tells what happens while the notebook is in use.
    #[must_use]
    pub fn logbook(&self) -> Logbook {
        Logbook { path: self.dir.join(LOG) }
    }

    /// What happened, a line each.
    pub fn read_log(&self) -> Result<String, BisectError> {
        let path = self.dir.join(LOG);
        fs::read_to_string(&path).map_err(file("read", &path))
    }
}

fn file(doing: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> BisectError {
    let path = path.to_owned();
    move |source| BisectError::File { doing, path, source }
}

fn read<T: DeserializeOwned>(path: &Path) -> Result<T, BisectError> {
    let text = fs::read(path).map_err(file("read", path))?;
    serde_json::from_slice(&text).map_err(|error| file("read", path)(error.into()))
}

/// Replaces a file as a whole, so that a kill leaves the old or the new one.
fn write(path: &Path, value: &impl Serialize) -> Result<(), BisectError> {
    let temporary = path.with_extension("json.tmp");
    let write = || {
        let mut out = fs::File::create(&temporary)?;
        out.write_all(&serde_json::to_vec_pretty(value)?)?;
        out.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(file("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(bench: &str) -> Question {
        let (from, to) = ("9.1".to_owned(), "9.2".to_owned());
        Question { from, to, bench: bench.into(), metric: Metric::Qps, repository: None, protocol: "p".into() }
    }

    #[test]
    fn what_is_written_is_there_again_and_other_questions_are_refused() {
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("b");
        let mut notebook = Notebook::create_or_open(&dir, &question("scan"), "regtrack bisect").unwrap();
        let chain = Chain::of_majors(&[("9.1.24".parse().unwrap(), false), ("9.2.24".parse().unwrap(), true)]);
        let at = notebook.begin(&chain).unwrap();
        notebook.record.stages[at].skipped.insert(1, "does not compile".into());
        notebook.save().unwrap();
        let again = Notebook::create_or_open(&dir, &question("scan"), "regtrack bisect").unwrap();
        assert_eq!(again.record, notebook.record);
        assert_eq!(again.chain(Level::Majors).unwrap(), chain);
        assert_eq!(again.read_log().unwrap().lines().count(), 2);
        let error = Notebook::create_or_open(&dir, &question("insert"), "").unwrap_err().to_string();
        assert!(error.contains("9.1..9.2, scan") && error.contains("9.1..9.2, insert"), "{error}");
    }

    #[test]
    fn directories_of_others_stay_as_they_are() {
        let home = tempfile::tempdir().unwrap();
        assert!(matches!(Notebook::open(home.path()), Err(BisectError::NoBisect { .. })));
        std::fs::write(home.path().join("mine"), "x").unwrap();
        let refused = Notebook::create_or_open(home.path(), &question("scan"), "");
        assert!(matches!(refused, Err(BisectError::Foreign { .. })));
    }

    #[test]
    fn rates_above_one_are_faster_by_either_metric() {
        let one =
            Measurement { queries: 1000, seconds: 2.0, backend_cpu_ns: Some(500_000_000), ..Measurement::default() };
        assert_eq!(Metric::Qps.rate(&one), Some(500.0));
        assert_eq!(Metric::Cpu.rate(&one), Some(2000.0));
        assert_eq!(Metric::Cpu.rate(&Measurement { backend_cpu_ns: None, ..one }), None);
    }
}
