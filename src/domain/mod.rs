//! The nouns: plain data that every layer exchanges. No I/O, no clock, no tokio, no polars.

mod brake;
mod build;
mod commit;
mod endpoint;
mod finding;
mod fixup;
mod history;
mod parity;
mod plan;
mod range;
mod release;
mod report;
mod slice;
mod suite;
mod sweep;
mod table;
mod variant;
mod version;

pub use brake::Brake;
pub use build::{Build, BuildFingerprint, Provenance, Source};
pub use commit::{Commit, Lineage};
pub use endpoint::{Endpoint, Transport};
pub use finding::{Finding, FindingStatus};
pub use fixup::{Edit, Fixup, TreeKind};
pub use history::{
    Answer, CellNews, ChangePoint, Correction, History, HistoryWeek, Line, News, ParseWeekError, Series, SeriesKey,
    SlowDrift, Track, TrackPoint, Week, WeekCell, WeekSummary, WeekTarget,
};
pub use parity::{ClientRun, CountedRun, ParityRecord, ParityRound, Placement};
pub use plan::{PlanCondition, PlanNode, StatementPlan};
pub use range::{Bound, ParseRangeError, ReleaseRange, Term};
pub use release::{Change, MajorRelease, Release, sha256_in};
pub use report::{
    Blind, Cell, Certainty, Course, GroupSummary, LaunchesWanted, Metric, Pairs, RelativeCost, RelativeInstructions,
    RelativeQps, Report, ReportRow, TargetSummary, Verdict,
};
pub use slice::{HostFingerprint, Measurement, Outcome, SliceRecord};
pub use suite::{
    Clock, Dataset, Group, Microbenchmark, Param, Protocol as WireProtocol, RateUnit, Statement, Suite, base_name,
};
pub use sweep::{ImportedTarget, Origin, Protocol, Stopping, SweepManifest, Target, TargetId};
pub use table::{Table, TableColumn, Values};
pub use variant::{BuildSystem, Feature, Need, Variant, VariantName};
pub use version::{Major, Minor, ParseVersionError, Version};
