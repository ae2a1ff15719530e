//! What `sweep`, `report`, `compare` and `status` share: from a results directory to a report.

use std::path::Path;

use anyhow::Context as _;

use super::{Global, exports};
use crate::analysis::{self, Catalogue};
use crate::catalog::suite;
use crate::domain::{
    Group, History, MajorRelease, Microbenchmark, Report, SliceRecord, SweepManifest, TargetId, Version,
};
use crate::site::{self, Content};
use crate::store::Store;

/// What a site has beside its sweep.
#[derive(Debug, Clone, Copy)]
pub(super) struct SiteOptions<'a> {
    /// Other weeks.
    pub(super) history: Option<&'a History>,
    /// Where it will be.
    pub(super) url: Option<&'a str>,
}

/// One sweep with everything that its analysis needs.
pub(super) struct Results {
    pub(super) store: Store,
    pub(super) manifest: SweepManifest,
    pub(super) slices: Vec<SliceRecord>,
    microbenchmarks: Vec<Microbenchmark>,
    groups: Vec<Group>,
    newest: Vec<Version>,
    majors: Vec<MajorRelease>,
}

impl Results {
    /// Reads the sweep named `sweep`, or the current one.
    pub(super) fn read(global: &Global, sweep: Option<&str>) -> anyhow::Result<Self> {
        let directory = &global.results;
        let store = Store::open(directory)?;
        let manifest = match sweep {
            None => store.current()?,
            Some(id) => store.manifest(id)?.with_context(|| {
                let ids: Vec<String> = store.sweeps().unwrap_or_default().into_iter().map(|sweep| sweep.id).collect();
                format!("there is no sweep '{id}' in '{}'; there are {}", directory.display(), ids.join(", "))
            })?,
        };
        let slices = store.slices(&manifest.id)?;
        Self::of(store, manifest, slices, global.catalogue()?.majors().to_vec())
    }

    /// A sweep without histograms, rates by second and plans: enough for its ratios.
    pub(super) fn flat(store: Store, manifest: SweepManifest, majors: &[MajorRelease]) -> anyhow::Result<Self> {
        let slices = store.flat_slices(&manifest.id)?;
        Self::of(store, manifest, slices, majors.to_vec())
    }

    fn of(
        store: Store,
        manifest: SweepManifest,
        slices: Vec<SliceRecord>,
        majors: Vec<MajorRelease>,
    ) -> anyhow::Result<Self> {
        let suite = match store.suite(&manifest.id)? {
            Some(text) => suite::parse(&text, &format!("the suite of {}", manifest.id))?,
            None => suite::builtin()?,
        };
        let newest = majors.iter().filter_map(newest).collect();
        let (microbenchmarks, groups) = (suite.microbenchmarks, suite.groups);
        Ok(Self { store, manifest, slices, microbenchmarks, groups, newest, majors })
    }

    /// The catalogue's part of an analysis.
    pub(super) fn catalogue(&self) -> Catalogue<'_> {
        Catalogue { microbenchmarks: &self.microbenchmarks, groups: &self.groups, newest: &self.newest }
    }

    /// The report relative to `base` (a label, version, major or id), or to the sweep's own base.
    pub(super) fn report(&self, base: Option<&str>) -> anyhow::Result<Report> {
        let base: &TargetId = match base {
            None => &self.manifest.base,
            Some(name) => &analysis::find_target(&self.manifest, name)?.id,
        };
        Ok(analysis::report(&self.manifest, &self.slices, &self.catalogue(), base)?)
    }

    /// Writes the site and returns its first page.
    pub(super) fn write_site(
        &self,
        report: &Report,
        directory: &Path,
        options: SiteOptions<'_>,
    ) -> anyhow::Result<std::path::PathBuf> {
        let parquet = tempfile::NamedTempFile::new().context("could not make a temporary file")?;
        self.store.export_parquet(&self.manifest.id, parquet.path())?;
        let parquet = std::fs::read(parquet.path()).context("could not read the exported Parquet file")?;
        let (downloads, schemas) = exports::downloads(report, options.history, &self.manifest, &self.slices, parquet)?;
        let pairs = analysis::pairs(&self.manifest, &self.slices, &self.catalogue())?;
        let SiteOptions { history, url } = options;
        let content = Content {
            report,
            pairs: &pairs,
            downloads: &downloads,
            schemas: &schemas,
            majors: &self.majors,
            history,
            url,
        };
        let files = site::render(&content, directory)?;
        Ok(files.into_iter().next().unwrap_or_else(|| directory.to_owned()))
    }
}

fn newest(major: &MajorRelease) -> Option<Version> {
    major.releases.iter().map(|release| release.version).rfind(|version| !version.is_prerelease())
}
