//! A report as a static web site that works from `file://`: no network, no fonts, no script needed.
//!
//! The same report gives the same bytes: nothing here reads the clock. Statistics come with the
//! report; the site sorts and rounds them, and computes itself only quotients of groups' medians.

mod answers;
mod changes;
mod charts;
mod feed;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod fixture_history;
mod format;
mod heat;
#[cfg(test)]
mod history_tests;
mod multiples;
mod output;
mod pages;
mod past;
mod plans;
pub mod publish;
mod slug;
mod stamp;
mod timeline;
mod view;

use std::io;
use std::path::{Path, PathBuf};

use include_dir::{Dir, include_dir};
use jiff::Timestamp;
use rayon::iter::{IntoParallelRefIterator as _, ParallelIterator as _};
use serde::Serialize;
use tera::{Context, Tera};

use crate::domain::{History, MajorRelease, Pairs, Report};
use output::SiteFile;
pub use stamp::Stamp;
use view::{Link, Page, Site};

static TEMPLATES: Dir = include_dir!("$CARGO_MANIFEST_DIR/site/templates");
static ASSETS: Dir = include_dir!("$CARGO_MANIFEST_DIR/site/assets");

/// What a site is made of.
#[derive(Debug, Clone, Copy)]
pub struct Content<'a> {
    /// The sweep that the site is about.
    pub report: &'a Report,
    /// Its answers relative to every other base.
    pub pairs: &'a Pairs,
    /// The files that it offers.
    pub downloads: &'a [Download],
    /// The columns of these files.
    pub schemas: &'a [Schema],
    /// What is known about the releases: dates, and what changed in them.
    pub majors: &'a [MajorRelease],
    /// The sweeps of other weeks, where the site shows them.
    pub history: Option<&'a History>,
    /// Where the site will be, for the links in its feeds: `https://example.org/pg`.
    pub url: Option<&'a str>,
}

impl<'a> Content<'a> {
    /// A report and nothing beside it.
    #[must_use]
    pub const fn of(report: &'a Report, pairs: &'a Pairs) -> Self {
        Self { report, pairs, downloads: &[], schemas: &[], majors: &[], history: None, url: None }
    }
}

/// A file that the site offers for download.
#[derive(Debug, Clone)]
pub struct Download {
    /// Plain file name: `cells.csv`.
    pub file_name: String,
    /// What it is, in a few words.
    pub title: String,
    /// What is in it and what it is good for.
    pub description: String,
    /// The content.
    pub bytes: Vec<u8>,
}

/// The columns of a table that several files hold.
#[derive(Debug, Clone, Serialize)]
pub struct Schema {
    /// Name of the files without ending.
    pub table: String,
    /// What a row is, in a sentence.
    pub about: String,
    /// The columns, in order.
    pub columns: Vec<SchemaColumn>,
}

/// A column of a table.
#[derive(Debug, Clone, Serialize)]
pub struct SchemaColumn {
    /// Its name.
    pub name: String,
    /// Its type: `text`, `double`, `uint64`, `boolean`.
    pub kind: String,
    /// What a value means, with its unit.
    pub meaning: String,
}

/// Why there is no site.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// A template of ours is broken.
    #[error("could not fill in the template of the page '{page}'")]
    Template {
        /// Path of the page in the site; a template's name when it does not even parse.
        page: String,
        /// What Tera says.
        #[source]
        source: tera::Error,
    },
    /// A chart could not be drawn.
    #[error("could not draw the chart of '{chart}'")]
    Chart {
        /// What it shows.
        chart: String,
        /// What the chart library says.
        #[source]
        source: charts_rs::Error,
    },
    /// A file that is not a page could not be made.
    #[error("could not make '{file}'")]
    Data {
        /// Path in the site.
        file: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A download whose name is not a plain file name, or is used twice.
    #[error("'{name}' cannot be the name of a download: it has to be a plain file name, used once")]
    DownloadName {
        /// The name.
        name: String,
    },
    /// The place is taken by something else.
    #[error("'{}' is not a directory: name a directory for the site", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// A directory with content that regtrack did not write.
    #[error(
        "the directory '{}' is not empty and was not made by regtrack; it was left as it is: name another directory for the site",
        path.display()
    )]
    ForeignDirectory {
        /// The directory.
        path: PathBuf,
    },
    /// A site of regtrack's to which someone has added a file.
    #[error(
        "the site in '{}' also holds '{file}', which regtrack did not write and would delete; it was left as it is: move that file away first",
        path.display()
    )]
    ForeignFile {
        /// The directory.
        path: PathBuf,
        /// The first such file.
        file: String,
    },
    /// The present content could not be looked at.
    #[error("could not read '{}'", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// A file or directory could not be written.
    #[error("could not write '{}'", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The new site could not take the place of the previous one.
    #[error("could not put the new site in place of '{}'", path.display())]
    Replace {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The previous site could not be deleted after it was replaced.
    #[error("could not delete '{}'", path.display())]
    Remove {
        /// The path.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// Writes a site into the directory `out` and returns the paths of its files,
/// `index.html` first. The directory is made if it does not exist; a site that regtrack wrote there
/// before is replaced as a whole and in one step; anything else makes it fail with nothing touched.
pub fn render(content: &Content, out: &Path) -> Result<Vec<PathBuf>, SiteError> {
    // Everything is rendered before the first byte is written.
    output::replace(out, &files(content)?)
}

/// Whether a site may be written into the directory `out`: fails for what [`render`] would refuse.
pub fn check(out: &Path) -> Result<(), SiteError> {
    output::refuse_foreign(out)
}

/// The whole site in memory.
fn files(content: &Content) -> Result<Vec<SiteFile>, SiteError> {
    let downloads = content.downloads;
    check_names(downloads)?;
    let tera = templates()?;
    let site = Site::new(*content);
    let stamp = Stamp::of(&site);
    let jobs: Vec<pages::Job<'_>> = pages::ALL.iter().flat_map(|pages| pages(&site)).collect();
    let made = jobs.par_iter().map(|make| fill(&tera, &site, &make()?, &stamp));
    let mut files = made.collect::<Result<Vec<SiteFile>, SiteError>>()?;
    files.extend(feed::files(&site).map_err(|source| SiteError::Data { file: "feed.xml", source })?);
    let bytes = serde_json::to_vec_pretty(&stamp)
        .map_err(|error| SiteError::Data { file: Stamp::FILE, source: error.into() })?;
    files.push(SiteFile { path: Stamp::FILE.to_owned(), bytes });
    files.extend(ASSETS.files().map(|asset| SiteFile {
        path: format!("assets/{}", asset.path().to_string_lossy()),
        bytes: asset.contents().to_vec(),
    }));
    files.extend(
        downloads
            .iter()
            .map(|download| SiteFile { path: download_path(&download.file_name), bytes: download.bytes.clone() }),
    );
    Ok(files)
}

fn download_path(file_name: &str) -> String {
    format!("downloads/{file_name}")
}

fn check_names(downloads: &[Download]) -> Result<(), SiteError> {
    let plain = |name: &str| {
        let safe = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        !name.is_empty() && !name.starts_with('.') && name.bytes().all(safe)
    };
    for (index, download) in downloads.iter().enumerate() {
        let name = &download.file_name;
        let used_before = downloads[..index].iter().any(|other| other.file_name.eq_ignore_ascii_case(name));
        if !plain(name) || used_before {
            return Err(SiteError::DownloadName { name: name.clone() });
        }
    }
    Ok(())
}

fn templates() -> Result<Tera, SiteError> {
    let mut tera = Tera::new();
    let texts = TEMPLATES
        .files()
        .map(|file| (file.path().to_string_lossy().into_owned(), file.contents_utf8().unwrap_or_default()));
    tera.add_raw_templates(texts).map_err(|source| SiteError::Template { page: "all".to_owned(), source })?;
    Ok(tera)
}

/// What the frame around every page needs.
#[derive(Serialize)]
struct Frame<'a> {
    title: &'a str,
    site_title: String,
    description: &'a str,
    /// Way up to the root of the site: empty or `../`.
    root: &'a str,
    path: &'a str,
    crumbs: &'a [Link],
    warnings: usize,
    /// Whether there are pages about other weeks.
    has_history: bool,
    /// The feed that follows what the page is about.
    feed: Option<&'a str>,
    footer: Footer<'a>,
}

#[derive(Serialize)]
struct Footer<'a> {
    regtrack: &'a str,
    sweep: &'a str,
    updated_at: String,
    /// When the newest data was measured, for programs.
    newest: String,
}

impl<'a> Footer<'a> {
    fn new(site: &Site<'a>, newest: Timestamp) -> Self {
        let manifest = &site.report.manifest;
        Self {
            regtrack: &manifest.regtrack,
            sweep: &manifest.id,
            updated_at: format::time(newest),
            newest: newest.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }
    }
}

fn fill(tera: &Tera, site: &Site, page: &Page, stamp: &Stamp) -> Result<SiteFile, SiteError> {
    let frame = Frame {
        title: &page.title,
        site_title: site.title(),
        description: &page.description,
        root: if page.path.contains('/') { "../" } else { "" },
        path: &page.path,
        crumbs: &page.crumbs,
        warnings: site.report.warnings.len(),
        has_history: site.history.is_some(),
        feed: page.feed.as_deref(),
        footer: Footer::new(site, stamp.newest),
    };
    let error = |source| SiteError::Template { page: page.path.clone(), source };
    let mut context = Context::from_serialize(&frame).map_err(error)?;
    context.insert_value("page", page.view.clone());
    let html = tera.render(page.template, &context).map_err(error)?;
    Ok(SiteFile { path: page.path.clone(), bytes: html.into_bytes() })
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::sync::LazyLock;

    use super::*;
    use crate::domain::Course;

    fn downloads() -> Vec<Download> {
        let download = |file_name: &str, bytes: usize| Download {
            file_name: file_name.to_owned(),
            title: "Cells".to_owned(),
            description: "One line per microbenchmark & release.".to_owned(),
            bytes: vec![b'x'; bytes],
        };
        vec![download("cells.csv", 12_345), download("report.json", 200), download("slices.parquet", 300)]
    }

    static SCHEMAS: LazyLock<Vec<Schema>> = LazyLock::new(|| {
        let column = |name: &str| SchemaColumn {
            name: name.to_owned(),
            kind: "double".to_owned(),
            meaning: "rate, queries per second; <unknown> & absent for a failure".to_owned(),
        };
        let columns = vec![column("qps"), column("relative_qps")];
        vec![Schema { table: "cells".to_owned(), about: "One cell.".to_owned(), columns }]
    });

    fn content<'a>(report: &'a Report, pairs: &'a Pairs, downloads: &'a [Download]) -> Content<'a> {
        Content { downloads, schemas: &SCHEMAS, ..Content::of(report, pairs) }
    }

    fn with_history(report: &Report) -> BTreeMap<String, Vec<u8>> {
        let (pairs, downloads, history) = (fixture::pairs(report), downloads(), fixture_history::history());
        let content = Content { history: Some(&history), ..content(report, &pairs, &downloads) };
        files(&content).unwrap().into_iter().map(|file| (file.path, file.bytes)).collect()
    }

    /// Every report as a site, and one with a history.
    fn every_site() -> Vec<(&'static str, BTreeMap<String, Vec<u8>>)> {
        let mut sites: Vec<_> = every_report().into_iter().map(|(name, report)| (name, site(&report))).collect();
        sites.push(("with history", with_history(&fixture::measured())));
        sites
    }

    fn site(report: &Report) -> BTreeMap<String, Vec<u8>> {
        let (majors, pairs, downloads) = (fixture::majors(), fixture::pairs(report), downloads());
        let files = files(&Content { majors: &majors, ..content(report, &pairs, &downloads) }).unwrap();
        files.into_iter().map(|file| (file.path, file.bytes)).collect()
    }

    pub(super) fn html_pages(site: &BTreeMap<String, Vec<u8>>) -> impl Iterator<Item = (&str, &str)> {
        let html =
            site.iter().filter(|(path, _)| Path::new(path).extension().is_some_and(|extension| extension == "html"));
        html.map(|(path, bytes)| (path.as_str(), std::str::from_utf8(bytes).unwrap()))
    }

    fn every_report() -> [(&'static str, Report); 3] {
        [
            ("measured", fixture::measured()),
            ("single launch", fixture::single_launch()),
            ("imported", fixture::imported()),
        ]
    }

    /// Values of an attribute; the templates write all of them in double quotes.
    pub(super) fn attributes<'a>(html: &'a str, name: &str) -> Vec<&'a str> {
        let pattern = format!(" {name}=\"");
        html.split(&pattern).skip(1).map(|rest| rest.split_once('"').unwrap().0).collect()
    }

    /// The path in the site that a relative reference on a page leads to, and the fragment.
    fn target(page: &str, reference: &str) -> (String, String) {
        let (path, fragment) = reference.split_once('#').unwrap_or((reference, ""));
        if path.is_empty() {
            return (page.to_owned(), fragment.to_owned());
        }
        let mut parts: Vec<&str> = page.split('/').collect();
        parts.pop();
        for part in path.split('/') {
            match part {
                ".." => drop(parts.pop().expect("a reference leaves the site")),
                part => parts.push(part),
            }
        }
        (parts.join("/"), fragment.to_owned())
    }

    #[test]
    fn every_reference_resolves_and_every_page_is_reached_from_the_overview() {
        for (name, site) in every_site() {
            let mut links: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
            for (page, html) in html_pages(&site) {
                let references = attributes(html, "href").into_iter().chain(attributes(html, "src"));
                for reference in references {
                    let (path, fragment) = target(page, reference);
                    let linked = site.get(&path).unwrap_or_else(|| panic!("{name}: {page} refers to {reference}"));
                    // Warnings are linked to only where there are any.
                    let anchored = fragment.is_empty()
                        || attributes(std::str::from_utf8(linked).unwrap(), "id").contains(&fragment.as_str());
                    assert!(anchored || fragment == "main", "{name}: {page} refers to {reference}");
                    links.entry(page).or_default().insert(path);
                }
            }
            let mut reached = BTreeSet::from(["index.html".to_owned()]);
            let mut open = vec!["index.html".to_owned()];
            while let Some(page) = open.pop() {
                for path in links.get(page.as_str()).into_iter().flatten() {
                    if reached.insert(path.clone()) {
                        open.push(path.clone());
                    }
                }
            }
            let all: BTreeSet<String> = site.keys().cloned().collect();
            assert_eq!(reached, all, "{name}");
        }
        for (name, report) in every_report() {
            let pages = 6 + report.rows.len() + report.manifest.targets.len();
            assert_eq!(html_pages(&site(&report)).count(), pages, "{name}");
        }
    }

    #[test]
    fn nothing_is_fetched_from_elsewhere() {
        for (path, bytes) in with_history(&fixture::measured()) {
            let text = String::from_utf8_lossy(&bytes).replace("http://www.w3.org/2000/svg", "");
            let text = text.replace("http://www.w3.org/2005/Atom", "");
            for scheme in ["http://", "https://", "url(", "@import", "src=\"//", "href=\"//"] {
                assert!(!text.contains(scheme), "{path} contains {scheme}");
            }
        }
    }

    #[test]
    fn text_from_outside_is_escaped() {
        let site = with_history(&fixture::measured());
        for (path, html) in html_pages(&site) {
            for raw in ["<script>alert", "<img src=x", "<left>", "<b>shared", "<unknown>", "<b>old", "<i>fast"] {
                assert!(!html.contains(raw), "{path} contains {raw}");
            }
        }
        let index = std::str::from_utf8(&site["index.html"]).unwrap();
        assert!(index.contains("&lt;script&gt;alert(1)"), "the label is shown, escaped");
        assert!(site.keys().all(|path| path.bytes().all(|b| b.is_ascii_alphanumeric() || b"/._-".contains(&b))));
    }

    #[test]
    fn the_same_report_gives_the_same_bytes() {
        assert_eq!(site(&fixture::measured()), site(&fixture::measured()));
        assert_eq!(with_history(&fixture::measured()), with_history(&fixture::measured()));
    }

    #[test]
    fn ids_are_unique_and_tables_are_labelled() {
        for (name, site) in every_site() {
            for (path, html) in html_pages(&site) {
                let ids = attributes(html, "id");
                let unique: BTreeSet<&str> = ids.iter().copied().collect();
                assert_eq!(ids.len(), unique.len(), "{name}: {path}: {ids:?}");
                for labelled in attributes(html, "aria-labelledby") {
                    assert!(unique.contains(labelled), "{name}: {path}: {labelled}");
                }
                assert_eq!(html.matches("<table").count(), html.matches("<caption").count(), "{name}: {path}");
                assert!(!html.contains("<th>") && !html.contains("<th class"), "{name}: {path}: a head without scope");
                assert_eq!(html.matches("<h1").count(), 1, "{name}: {path}");
                assert!(html.contains("<html lang=\"en\">") && html.contains("<meta name=\"description\""));
            }
        }
    }

    #[test]
    fn every_table_row_has_the_width_of_its_head() {
        let width = |row: &str| -> usize {
            let cells = row.split(['<']).filter(|tag| {
                tag.strip_prefix("td").or(tag.strip_prefix("th")).is_some_and(|rest| rest.starts_with([' ', '>']))
            });
            cells.map(|tag| attributes(tag, "colspan").first().map_or(1, |span| span.parse().unwrap())).sum()
        };
        for (name, site) in every_site() {
            for (path, html) in html_pages(&site) {
                for table in html.split("<table").skip(1) {
                    let rows: Vec<&str> = table.split("</table>").next().unwrap().split("<tr").skip(1).collect();
                    for row in &rows {
                        assert_eq!(width(row), width(rows[0]), "{name}: {path}: {row}");
                    }
                }
            }
        }
    }

    #[test]
    fn gaps_show_their_reason_and_ratios_two_decimals() {
        let report = fixture::measured();
        let site = site(&report);
        let index = std::str::from_utf8(&site["index.html"]).unwrap();
        assert!(index.contains("title=\"failed: the server ended with signal 11\">×<"));
        assert!(index.contains("title=\"not measured\">–<"));
        let cell = &report.rows[0].cells[4];
        let ratio = format::fixed(cell.relative.unwrap().ratio, 2);
        let release =
            std::str::from_utf8(&site[&Site::new(content(&report, &Pairs::default(), &[])).release_path(4)]).unwrap();
        assert!(release.contains(&format!(">{ratio}</td>")), "{ratio}");
    }

    #[test]
    fn the_condition_of_the_machine_is_told() {
        let mut report = fixture::measured();
        let method = |report: &Report| String::from_utf8(site(report)["method.html"].clone()).unwrap();
        let text = method(&report);
        assert!(text.contains("2 things were checked"), "{text}");
        assert!(text.contains("<th scope=\"row\">other processes</th><td>warn</td><td>61 % of one CPU: "), "{text}");
        assert!(!text.contains(">cpu governor<"), "only what is not well");
        report.manifest.doctor.truncate(1);
        assert!(method(&report).contains("All were as they should be."));
        report.manifest.doctor.clear();
        assert!(!method(&report).contains("Condition of the machine"));
    }

    /// The page of the first microbenchmark that has the name, as text.
    fn bench_page(report: &Report, name: &str) -> String {
        let row = report.rows.iter().position(|row| row.name == name).unwrap();
        let path = Site::new(content(report, &fixture::pairs(report), &[])).bench_path(row);
        String::from_utf8(site(report)[&path].clone()).unwrap()
    }

    #[test]
    fn a_microbenchmark_shows_rates_costs_latencies_seconds_and_plans() {
        let page = bench_page(&fixture::measured(), "point-query.pre_range=100");
        for heading in ["Relative rate", "Rate", "WAL per query", "Buffers per query", "Latency"] {
            assert!(page.contains(&format!("<b>{heading}</b>")), "{heading}");
        }
        for head in ["p50 latency µs", "p99 latency µs", "max latency µs"] {
            assert!(page.contains(head), "{head}");
        }
        assert_eq!(page.matches("class=\"course\"").count(), 9);
        assert!(page.contains("<small>1 checkpoint in block 2</small>"));
        assert!(page.contains("../downloads/slices.parquet"));
        assert!(page.contains("<del>−   Sort</del>") && page.contains("<ins>+   Incremental Sort</ins>"), "{page}");
        assert!(page.contains("No plan known of: 10.23."));
        assert!(page.contains("16.11: another plan than the one shown in block 2."));
        let command = "regtrack sweep 9.0.23,18.4 --base 9.0.23 --bench point-query.pre_range=100 --profile standard \
                       --rows 1000000 --seconds 10 --write-seconds 15 --warmup 1.5 --stretch 0 --config default \
                       --data-checksums off --transport unix --launches 3 --precision off";
        assert!(page.contains(command), "{page}");
        assert_eq!(page.matches("<svg").count(), page.matches("<title>").count() - 1, "every picture has a title");
    }

    #[test]
    fn an_imported_microbenchmark_shows_what_there_is() {
        let page = bench_page(&fixture::imported(), "point-query.pre_range=100");
        assert!(page.contains("<b>Rate</b>"));
        for absent in ["What a query costs", "Second by second", "Plans", "Measure it again", "Latencies</h2>"] {
            assert!(!page.contains(absent), "{absent}");
        }
    }

    #[test]
    fn a_page_of_many_releases_and_launches_stays_small() {
        let mut report = fixture::measured();
        let mut target = report.manifest.targets[7].clone();
        while report.manifest.targets.len() < 20 {
            target.id.0.push('x');
            report.manifest.targets.push(target.clone());
            report.summaries.push(report.summaries[7].clone());
            report.rows.iter_mut().for_each(|row| row.cells.push(row.cells[7].clone()));
        }
        for cell in report.rows.iter_mut().flat_map(|row| &mut row.cells) {
            let course = Course {
                queries_by_second: (0..30).map(|second| 20_000 + 97 * second % 1000).collect(),
                ..Course::default()
            };
            cell.courses = vec![course; 6];
            cell.launch_rates.resize(6, 20_000.0);
        }
        let length = bench_page(&report, "point-query.pre_range=100").len();
        assert!(length < 200_000, "{length} bytes");
    }

    #[test]
    fn a_release_is_compared_with_its_predecessors_and_its_changes_are_set_beside_what_was_measured() {
        let report = fixture::measured();
        let site = site(&report);
        let release = |index| {
            std::str::from_utf8(&site[&Site::new(content(&report, &fixture::pairs(&report), &[])).release_path(index)])
                .unwrap()
        };
        assert!(release(6).contains("vs 9.0.23 (base)") && release(6).contains("vs 14.20 (previous major)"));
        assert!(!release(1).contains("(previous major)"), "the base has its column");
        assert!(release(6).contains("Measured vs 14.20"));
        assert!(release(6).contains("Change in 15 ") && release(6).contains("Change in 16 "), "all since 14");
        assert!(release(6).contains("point-2 (median)") && release(6).contains(">update-one_range=100</a>"));
        assert!(release(1).contains("2021-11-11: past when this sweep was measured (2026-03-04)"));
        assert!(release(6).contains(">2028-11-09<"));
        assert!(release(8).contains("Settings whose value differs") && release(8).contains("<code>worker</code>"));
        assert!(release(6).contains("No setting differs from 9.0.23 (base), 14.20 (previous major)."));
    }

    #[test]
    fn one_launch_is_called_one_launch() {
        let site = site(&fixture::single_launch());
        let index = std::str::from_utf8(&site["index.html"]).unwrap();
        assert!(index.contains("difference seen in one launch"));
        assert!(!index.contains("95 % interval ["));
        let published = self::site(&fixture::imported());
        let index = std::str::from_utf8(&published["index.html"]).unwrap();
        assert!(index.contains("as published"));
        assert!(!index.contains("one launch"));
    }

    #[test]
    fn a_report_of_one_release_or_of_none_has_a_site() {
        let mut report = fixture::measured();
        report.manifest.targets.truncate(1);
        report.summaries.truncate(1);
        for row in &mut report.rows {
            row.cells.truncate(1);
        }
        assert!(site(&report).contains_key("index.html"));
        report.rows.clear();
        assert!(site(&report).contains_key("method.html"));
    }

    #[test]
    fn download_names_that_lead_elsewhere_are_refused() {
        for name in ["../x.csv", "a/b", "", ".hidden", "a b"] {
            let mut downloads = downloads();
            downloads[1].file_name = name.to_owned();
            let error = files(&content(&fixture::imported(), &Pairs::default(), &downloads));
            assert!(matches!(error, Err(SiteError::DownloadName { .. })), "{name}");
        }
        let twice = [downloads(), downloads()].concat();
        assert!(matches!(
            files(&content(&fixture::imported(), &Pairs::default(), &twice)),
            Err(SiteError::DownloadName { .. })
        ));
    }

    #[test]
    fn the_files_are_written_where_they_are_said_to_be() {
        let root = tempfile::tempdir().unwrap();
        let out = root.path().join("site");
        let report = fixture::measured();
        let written = render(&content(&report, &fixture::pairs(&report), &downloads()), &out).unwrap();
        assert_eq!(written[0], out.join("index.html"));
        assert!(written.iter().all(|path| path.is_file()));
        assert_eq!(std::fs::read(out.join("downloads/cells.csv")).unwrap().len(), 12_345);
    }
}
