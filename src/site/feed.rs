//! What is new as Atom feeds (RFC 4287): of everything, of each release and major, and of each microbenchmark.
//!
//! An entry is named after its sweep and its cell, so that it stays the same entry when the cell is measured further;
//! its `updated` then moves, and its text says what was corrected. All times are those of the data.

use std::fmt::Write as _;

use jiff::Timestamp;
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};

use super::output::SiteFile;
use super::past::{self, CellEvents, What};
use super::view::Site;
use crate::domain::{History, HistoryWeek, WeekTarget};

/// Entries of one feed; older ones are on the pages of their weeks.
const MOST_ENTRIES: usize = 200;

/// Start of all ids (RFC 4151).
const TAG: &str = "tag:regtrack,2026:";

/// An entry.
#[derive(Debug, Clone)]
struct Entry {
    id: String,
    title: String,
    published: Timestamp,
    updated: Timestamp,
    /// Path in the site of the page with more.
    page: String,
    text: String,
    /// Whose feeds it belongs to; none for that of a whole week.
    cell: Option<(String, WeekTarget)>,
}

/// All feeds; none without a history.
pub(super) fn files(site: &Site) -> std::io::Result<Vec<SiteFile>> {
    let Some(history) = site.history else { return Ok(Vec::new()) };
    let entries = entries(history);
    let mut files = Vec::new();
    let mut add = |path: String, subject: &str, page: String, filter: &dyn Fn(&Entry) -> bool| {
        let chosen: Vec<&Entry> = entries.iter().filter(|entry| filter(entry)).take(MOST_ENTRIES).collect();
        let bytes = Feed { site, path: &path, subject, page: &page, newest: newest(history) }.write(&chosen)?;
        files.push(SiteFile { path, bytes });
        std::io::Result::Ok(())
    };
    add("feed.xml".to_owned(), "all that is new", "history.html".to_owned(), &|_| true)?;
    for (label, _) in site.names.releases() {
        let is_of = |entry: &Entry| {
            let target = entry.cell.as_ref().map(|(_, target)| target);
            target.is_some_and(|target| target.label == label || target.version.major.to_string() == label)
        };
        let path = site.names.release_feed(label).unwrap_or_default();
        add(path, &format!("PostgreSQL {label}"), "history.html".to_owned(), &is_of)?;
    }
    for (name, _) in site.names.benches() {
        let is_of = |entry: &Entry| entry.cell.as_ref().is_some_and(|(microbenchmark, _)| microbenchmark == name);
        let (path, page) = (site.names.bench_feed(name), site.names.bench_path(name));
        add(path.unwrap_or_default(), name, page.unwrap_or_default(), &is_of)?;
    }
    Ok(files)
}

/// When the newest week was measured.
fn newest(history: &History) -> Timestamp {
    let weeks = history.series.iter().flat_map(|series| &series.weeks);
    weeks.map(|week| week.updated_at).max().unwrap_or_default()
}

/// All entries, newest first.
fn entries(history: &History) -> Vec<Entry> {
    let mut entries = Vec::new();
    for series in &history.series {
        for (index, week) in series.weeks.iter().enumerate() {
            let cells = past::events(series, index);
            entries.push(of_week(week, &cells, series.base()));
            entries.extend(cells.iter().map(|cell| of_cell(week, cell)));
        }
    }
    // The week stands before its cells when they are of one time.
    entries.sort_by(|a, b| (b.updated, b.published, &a.id).cmp(&(a.updated, a.published, &b.id)));
    entries
}

fn of_week(week: &HistoryWeek, cells: &[CellEvents<'_>], base: &str) -> Entry {
    let labels =
        |targets: &[WeekTarget]| -> Vec<String> { targets.iter().map(|target| target.label.clone()).collect() };
    let mut text = format!("Measured relative to {base}: {}.", labels(&week.targets).join(", "));
    if !week.news.targets.is_empty() {
        let _ = write!(text, " New: {}.", labels(&week.news.targets).join(", "));
    }
    let updated = cells.iter().map(|cell| cell.updated(week)).max().unwrap_or(week.told_at);
    Entry {
        id: format!("{TAG}{}", escaped(&week.sweep)),
        title: format!("{}: {}", week.week, summary(week)),
        published: week.told_at,
        updated,
        page: past::week_path(week.week),
        text,
        cell: None,
    }
}

/// `2 changes confirmed, 1 withdrawn`
fn summary(week: &HistoryWeek) -> String {
    let news = &week.news;
    let counts = [
        (news.targets.len(), "new releases"),
        (news.confirmed.len(), "confirmed"),
        (news.withdrawn.len(), "withdrawn"),
        (news.changes.len(), "change points"),
        (news.corrections.len(), "corrected"),
    ];
    let parts: Vec<String> =
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
    if parts.is_empty() { "nothing new".to_owned() } else { parts.join(", ") }
}

fn of_cell(week: &HistoryWeek, cell: &CellEvents<'_>) -> Entry {
    let sentences: Vec<&str> = cell.events.iter().map(What::sentence).collect();
    let corrected = cell.events.iter().any(|event| matches!(event, What::Corrected(..)));
    let note = if corrected { " (corrected)" } else { "" };
    Entry {
        id: format!("{TAG}{}/{}/{}", escaped(&week.sweep), escaped(cell.microbenchmark), escaped(&cell.target.id.0)),
        title: format!("{} on {}, {}{note}", cell.microbenchmark, cell.target.label, week.week),
        published: week.told_at,
        updated: cell.updated(week),
        page: past::week_path(week.week),
        text: sentences.join("\n"),
        cell: Some((cell.microbenchmark.to_owned(), cell.target.clone())),
    }
}

/// A name or a path as part of a URI.
fn escaped(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~=@/".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
    }
    text
}

/// A feed in the making.
struct Feed<'a> {
    site: &'a Site<'a>,
    path: &'a str,
    subject: &'a str,
    /// Path of the page that it follows.
    page: &'a str,
    newest: Timestamp,
}

/// Writes into memory.
type Xml = Writer<Vec<u8>>;

impl Feed<'_> {
    fn write(&self, entries: &[&Entry]) -> std::io::Result<Vec<u8>> {
        let mut xml = Writer::new_with_indent(Vec::new(), b' ', 1);
        xml.write_event(Event::Decl(BytesDecl::new("1.0", Some("utf-8"), None)))?;
        let root = BytesStart::new("feed").with_attributes([("xmlns", "http://www.w3.org/2005/Atom")]);
        xml.write_event(Event::Start(root))?;
        // Named after its file: that is the same for all time.
        text(&mut xml, "id", &format!("{TAG}{}", escaped(self.path)))?;
        text(&mut xml, "title", &format!("{}: {}", self.site.title(), self.subject))?;
        let updated = entries.iter().map(|entry| entry.updated).max().unwrap_or(self.newest);
        text(&mut xml, "updated", &time(updated))?;
        xml.create_element("author").write_inner_content(|xml| text(xml, "name", "regtrack"))?;
        link(&mut xml, "self", &self.reference(self.path))?;
        link(&mut xml, "alternate", &self.reference(self.page))?;
        entries.iter().try_for_each(|entry| self.entry(&mut xml, entry))?;
        xml.write_event(Event::End(BytesEnd::new("feed")))?;
        let mut bytes = xml.into_inner();
        bytes.push(b'\n');
        Ok(bytes)
    }

    fn entry(&self, xml: &mut Xml, entry: &Entry) -> std::io::Result<()> {
        xml.create_element("entry").write_inner_content(|xml| {
            text(xml, "id", &entry.id)?;
            text(xml, "title", &entry.title)?;
            text(xml, "published", &time(entry.published))?;
            text(xml, "updated", &time(entry.updated))?;
            link(xml, "alternate", &self.reference(&entry.page))?;
            text(xml, "content", &entry.text)
        })?;
        Ok(())
    }

    /// A path of the site as a link: absolute where the site's address is known, else relative to this feed.
    fn reference(&self, path: &str) -> String {
        match self.site.url {
            Some(url) => format!("{}/{path}", url.trim_end_matches('/')),
            None if self.path.contains('/') => format!("../{path}"),
            None => path.to_owned(),
        }
    }
}

fn text(xml: &mut Xml, name: &str, content: &str) -> std::io::Result<()> {
    // XML has no other control characters, not even escaped ones.
    let content: String = content.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect();
    xml.create_element(name).write_text_content(BytesText::new(&content)).map(drop)
}

fn link(xml: &mut Xml, relation: &str, href: &str) -> std::io::Result<()> {
    let attributes = [("rel", relation), ("href", href)];
    xml.create_element("link").with_attributes(attributes).write_empty().map(drop)
}

/// RFC 3339, to the second.
fn time(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}
