//! Profiles: named sets of numbers for a sweep, every one of which can be overridden.

use crate::domain::Placement;

/// The numbers of a profile.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Profile {
    /// Its name.
    pub name: &'static str,
    /// What it is for, in one line.
    pub about: &'static str,
    /// Rows loaded.
    pub rows: u64,
    /// Seconds per read slice.
    pub read_seconds: f64,
    /// Seconds per write slice.
    pub write_seconds: f64,
    /// Seconds of warm-up before each slice.
    pub slice_warmup_seconds: f64,
    /// Seconds of the point-query warm-up after the load.
    pub load_warmup_seconds: f64,
    /// Whether `scan` is executed exactly once.
    pub scan_once: bool,
    /// Length in seconds of the turns in which launches are measured together; 0 for one after the other.
    pub stretch_seconds: f64,
    /// Which CPUs client and servers use; `None` finds out which placement is the least noisy.
    pub placement: Option<Placement>,
    /// How long a postwrite lasts at least.
    pub postwrite: PostwriteRest,
    /// Launches per target, at most.
    pub launches: u32,
    /// How well ratios are to be known, as a share: a microbenchmark whose ratios are gets no more launches. `None` makes
    /// all launches.
    pub precision: Option<f64>,
    /// Whether the base is measured twice, for a look at what a difference of nothing comes to.
    pub blind: bool,
    /// Configuration set.
    pub config: &'static str,
}

/// Shortest duration of a postwrite, in seconds: `base + per_million × rows / 10⁶`, at most `cap`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PostwriteRest {
    /// Constant part.
    pub base: f64,
    /// Part per million rows.
    pub per_million: f64,
    /// Upper end.
    pub cap: f64,
}

impl PostwriteRest {
    /// The duration for a table of `rows` rows.
    #[must_use]
    pub fn seconds(self, rows: u64) -> f64 {
        (self.base + self.per_million * rows as f64 / 1e6).min(self.cap)
    }
}

/// All profiles, shortest first.
pub const PROFILES: [Profile; 4] = [
    Profile {
        name: "smoke",
        about: "proves that everything works; its numbers are noise",
        rows: 20_000,
        read_seconds: 0.25,
        write_seconds: 0.25,
        slice_warmup_seconds: 0.05,
        load_warmup_seconds: 0.25,
        scan_once: false,
        stretch_seconds: 0.05,
        placement: Some(Placement::Free),
        postwrite: PostwriteRest { base: 0.0, per_million: 0.0, cap: 0.0 },
        launches: 1,
        precision: None,
        blind: false,
        config: "default",
    },
    Profile {
        name: "quick",
        about: "a first look: three releases in a quarter of an hour; shows differences of 10 % and more",
        rows: 500_000,
        read_seconds: 4.0,
        write_seconds: 4.0,
        slice_warmup_seconds: 0.5,
        load_warmup_seconds: 5.0,
        scan_once: false,
        stretch_seconds: 0.25,
        placement: None,
        postwrite: PostwriteRest { base: 2.0, per_million: 1.0, cap: 60.0 },
        launches: 1,
        precision: None,
        blind: true,
        config: "default",
    },
    Profile {
        name: "standard",
        about: "for conclusions: launches of 10 s until each ratio is known to 1 %, at most 40 of them",
        rows: 10_000_000,
        read_seconds: 10.0,
        write_seconds: 10.0,
        slice_warmup_seconds: 1.0,
        load_warmup_seconds: 20.0,
        scan_once: false,
        stretch_seconds: 0.25,
        placement: None,
        postwrite: PostwriteRest { base: 10.0, per_million: 1.0, cap: 60.0 },
        launches: 40,
        precision: Some(0.01),
        blind: true,
        config: "default",
    },
    Profile {
        name: "paper",
        about: "the article's protocol: 30 M rows, 1200 s per microbenchmark, one launch, its configuration",
        rows: 30_000_000,
        read_seconds: 1200.0,
        write_seconds: 1200.0,
        slice_warmup_seconds: 5.0,
        load_warmup_seconds: 1200.0,
        scan_once: true,
        stretch_seconds: 0.0,
        placement: Some(Placement::Free),
        postwrite: PostwriteRest { base: 60.0, per_million: 1.0, cap: 1200.0 },
        launches: 1,
        precision: None,
        blind: true,
        config: "callaghan",
    },
];

/// Looks a profile up by name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Profile> {
    PROFILES.iter().find(|profile| profile.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_paper_profile_is_the_articles_protocol() {
        let paper = find("paper").unwrap();
        assert_eq!((paper.rows, paper.launches), (30_000_000, 1));
        // 60 s plus one per million rows: 90 s for 30 M (specification, postwrite).
        assert!((paper.postwrite.seconds(paper.rows) - 90.0).abs() < 1e-9);
        assert!((paper.postwrite.seconds(5_000_000_000) - 1200.0).abs() < 1e-9);
    }
}
