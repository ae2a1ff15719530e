//! Listings of source releases: a web server's or a saved index, a directory of archives, postgresql.org's
//! `versions.json`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::convert::Infallible;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use html5gum::{Token, Tokenizer};
use jiff::civil::Date;
use serde::Deserialize;
use walkdir::WalkDir;

use super::CatalogError;
use super::manifests::read;
use super::versions::Catalogue;
use crate::domain::{Major, Minor, Version, sha256_in};
use crate::http::{self, Http, Url};

/// Where a listing is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// On a web server.
    Url(String),
    /// A file or a directory.
    Path(PathBuf),
}

impl FromStr for Place {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_url = text.starts_with("http://") || text.starts_with("https://");
        Ok(if is_url { Self::Url(text.to_owned()) } else { Self::Path(text.into()) })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Url(url) => url.fmt(f),
            Self::Path(path) => path.display().fmt(f),
        }
    }
}

/// A hash, and who says so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Published {
    /// SHA-256 of the archive in lower-case hex.
    pub sha256: String,
    /// Address or path of the archive's `.sha256`, or of the archive itself.
    pub place: String,
}

/// What a listing says of a version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listed {
    /// The day of its announcement.
    pub date: Option<Date>,
    /// The hash of its archive.
    pub hash: Option<Published>,
}

/// What one or several listings say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Every version that is listed, also those of majors that the catalogue lacks.
    pub releases: BTreeMap<Version, Listed>,
    /// Whether every minor is listed, and not just the latest of each major.
    pub complete: bool,
    /// What the person should know about it.
    pub notes: Vec<String>,
}

impl Listing {
    /// Reads a listing. Hashes are read of those versions that the catalogue has or may get. `say` receives one-line
    /// notes about what takes time.
    pub fn read(place: &Place, catalogue: &Catalogue, say: &mut dyn FnMut(&str)) -> Result<Self, CatalogError> {
        let listing = match place {
            Place::Url(url) => from_server(url, catalogue, say)?,
            Place::Path(path) if path.is_dir() => from_directory(path, catalogue, say)?,
            Place::Path(path) => from_file(path, catalogue)?,
        };
        if listing.releases.is_empty() {
            return Err(CatalogError::NoListing { place: place.to_string() });
        }
        Ok(listing)
    }

    /// Adds what another listing says.
    pub fn merge(&mut self, other: Self) -> Result<(), CatalogError> {
        self.complete |= other.complete;
        self.notes.extend(other.notes);
        other.releases.into_iter().try_for_each(|(version, listed)| self.add(version, listed))
    }

    fn add(&mut self, version: Version, listed: Listed) -> Result<(), CatalogError> {
        let known = match self.releases.entry(version) {
            Entry::Vacant(entry) => {
                entry.insert(listed);
                return Ok(());
            }
            Entry::Occupied(entry) => entry.into_mut(),
        };
        known.date = known.date.or(listed.date);
        match (&known.hash, listed.hash) {
            (Some(one), Some(other)) if one.sha256 != other.sha256 => {
                let text = |hash: &Published| format!("{} ({})", hash.sha256, hash.place);
                Err(CatalogError::HashDiffers { version, one: text(one), other: text(&other) })
            }
            (Some(_), _) => Ok(()),
            (None, hash) => {
                known.hash = hash;
                Ok(())
            }
        }
    }
}

/// Whether a version is in the catalogue or may come into it: pre-releases of a major that has its release do not.
pub(super) fn concerns(catalogue: &Catalogue, version: Version) -> bool {
    let newer = catalogue.major(version.major).map(|major| major.newer);
    newer.is_ok_and(|newer| newer || !version.is_prerelease()) || catalogue.find(version).is_some()
}

/// The name of a version's official archive.
pub(super) fn archive(version: Version) -> String {
    format!("postgresql-{version}.tar.bz2")
}

fn from_server(url: &str, catalogue: &Catalogue, say: &mut dyn FnMut(&str)) -> Result<Listing, CatalogError> {
    say(&format!("reading {url}"));
    let http = Http::new()?;
    let page = http.page(&index_address(url))?;
    if is_json(&page.text) {
        return from_json(&page.text, url, catalogue);
    }
    let links = links(&page.text, &page.url).filter(|(_, link)| link.origin() == page.url.origin());
    let links: BTreeMap<Version, Url> = links.collect();
    let mut listing = Listing { complete: true, ..Listing::default() };
    listing.releases = links.keys().map(|version| (*version, Listed::default())).collect();

    let (versions, urls): (Vec<_>, Vec<_>) = links
        .into_iter()
        .filter(|(version, _)| concerns(catalogue, *version))
        .map(|(version, link)| (version, hash_address(version, link)))
        .unzip();
    say(&format!("reading {} hashes", urls.len()));
    for ((version, url), text) in versions.into_iter().zip(&urls).zip(http.texts(&urls)?) {
        if let Some(text) = text {
            listing.add(version, Listed { date: None, hash: Some(published(&text, url)?) })?;
        }
    }
    Ok(listing)
}

/// An index is a directory, which its links are relative to: its address ends with a slash unless it names a file.
fn index_address(url: &str) -> String {
    let Ok(mut address) = Url::parse(url) else { return url.to_owned() };
    let path = address.path().to_owned();
    if !path.rsplit('/').next().unwrap_or_default().contains('.') && !path.ends_with('/') {
        address.set_path(&format!("{path}/"));
    }
    address.to_string()
}

/// Where the hash is that belongs to a link: in the directory, or beside the archive.
fn hash_address(version: Version, mut link: Url) -> String {
    link.set_query(None);
    link.set_fragment(None);
    let archive = archive(version);
    let path = link.path().trim_end_matches('/');
    let path = if path.ends_with(&archive) { format!("{path}.sha256") } else { format!("{path}/{archive}.sha256") };
    link.set_path(&path);
    link.to_string()
}

fn from_file(path: &Path, catalogue: &Catalogue) -> Result<Listing, CatalogError> {
    let text = String::from_utf8_lossy(&fs::read(path).map_err(read(path))?).into_owned();
    let name = path.display().to_string();
    if is_json(&text) {
        return from_json(&text, &name, catalogue);
    }
    // Only the names of the links are of use: where the page was is not known.
    let nowhere = Url::parse("file:///").map_err(|_| CatalogError::NoListing { place: name.clone() })?;
    let releases = links(&text, &nowhere).map(|(version, _)| (version, Listed::default())).collect();
    let notes = vec![format!("{name} is a saved page: it tells versions and no hashes")];
    Ok(Listing { releases, complete: true, notes })
}

/// The versions that the links of an index page lead to, `v17.5/` or `postgresql-17.5.tar.bz2`, and where.
fn links(html: &str, base: &Url) -> impl Iterator<Item = (Version, Url)> {
    Tokenizer::new(html).filter_map(move |token| {
        let Ok(Token::StartTag(tag)) = token else { return None };
        let href = tag.attributes.get(b"href".as_slice()).filter(|_| **tag.name == *b"a")?;
        let link = base.join(&String::from_utf8_lossy(href)).ok()?;
        let name = link.path().trim_end_matches('/').rsplit('/').next()?.to_owned();
        Some((of_directory(&name).or_else(|| of_archive(&name))?, link))
    })
}

/// The version of `v17.5`.
fn of_directory(name: &str) -> Option<Version> {
    name.strip_prefix('v')?.parse().ok()
}

/// The version of `postgresql-17.5.tar.bz2`.
fn of_archive(name: &str) -> Option<Version> {
    name.strip_prefix("postgresql-")?.strip_suffix(".tar.bz2")?.parse().ok()
}

fn published(text: &str, place: &str) -> Result<Published, CatalogError> {
    let sha256 = sha256_in(text).ok_or_else(|| CatalogError::PublishedHash { place: place.to_owned() })?;
    Ok(Published { sha256, place: place.to_owned() })
}

/// A directory with archives or their hashes, flat or in directories `v17.5`.
fn from_directory(path: &Path, catalogue: &Catalogue, say: &mut dyn FnMut(&str)) -> Result<Listing, CatalogError> {
    let mut listing = Listing { complete: true, ..Listing::default() };
    for entry in WalkDir::new(path).min_depth(1).max_depth(2).follow_links(true).sort_by_file_name() {
        let entry = entry.map_err(|error| read(path)(error.into()))?;
        let (name, place) = (entry.file_name().to_string_lossy(), entry.path().display().to_string());
        if entry.file_type().is_dir() {
            if let Some(version) = of_directory(&name) {
                listing.add(version, Listed::default())?;
            }
            continue;
        }
        let Some(version) = of_archive(name.trim_end_matches(".sha256")) else { continue };
        let hash = if !concerns(catalogue, version) {
            None
        } else if name.ends_with(".sha256") {
            Some(published(&fs::read_to_string(entry.path()).map_err(read(entry.path()))?, &place)?)
        } else if entry.path().with_file_name(format!("{name}.sha256")).exists() {
            None
        } else {
            say(&format!("computing the hash of {place}"));
            Some(Published { sha256: http::sha256_file(entry.path())?, place })
        };
        listing.add(version, Listed { date: None, hash })?;
    }
    Ok(listing)
}

/// An entry of `versions.json`: a major with its latest minor.
#[derive(Debug, Deserialize)]
struct JsonEntry {
    major: Word,
    #[serde(rename = "latestMinor")]
    latest_minor: Word,
    /// Day of the latest minor.
    #[serde(rename = "relDate", default)]
    date: Option<Date>,
    #[serde(default)]
    current: bool,
}

/// A number, written as a text or as a number.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Word {
    Text(String),
    Number(serde_json::Number),
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => text.fmt(f),
            Self::Number(number) => number.fmt(f),
        }
    }
}

fn is_json(text: &str) -> bool {
    text.trim_start().starts_with(['[', '{'])
}

fn from_json(text: &str, place: &str, catalogue: &Catalogue) -> Result<Listing, CatalogError> {
    let entries: Vec<JsonEntry> = serde_json::from_str(text)
        .map_err(|source| CatalogError::VersionsJson { place: place.to_owned(), source: Box::new(source) })?;
    let mut listing = Listing::default();
    for entry in entries {
        let Ok(version) = format!("{}.{}", entry.major, entry.latest_minor).parse::<Version>() else { continue };
        // postgresql.org counts a beta or candidate as the latest minor of a major that has no release yet.
        if has_no_release(catalogue, version.major) && !entry.current {
            let text = "does not tell its pre-releases from releases; it is left out until it is the current major";
            listing.notes.push(format!("{}: {place} {text}", version.major));
            continue;
        }
        listing.add(version, Listed { date: entry.date, hash: None })?;
    }
    Ok(listing)
}

fn has_no_release(catalogue: &Catalogue, major: Major) -> bool {
    let is_release = |version: Version| matches!(version.minor, Minor::Release(_));
    catalogue.major(major).is_ok_and(|major| !major.releases.iter().any(|release| is_release(release.version)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::server::{Answer, Question, serve};

    const HASH: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    /// An index as Apache makes it, with a link that sorts, one that is a comment, one that leads elsewhere, and other files.
    const APACHE: &str = r#"<!DOCTYPE HTML PUBLIC "-//W3C//DTD HTML 3.2 Final//EN"><html><head><title>Index of /pub/source</title></head>
<body><h1>Index of /pub/source</h1><pre><img src="/icons/blank.gif" alt="Icon "> <a href="?C=N;O=D">Name</a> <hr>
<img src="/icons/back.gif" alt="[DIR]"> <a href="/pub/">Parent Directory</a>    -
<!-- <a href="v18.99/">v18.99/</a> --><a href="README">README</a> <a href="vnext/">vnext/</a>
<img src="/icons/folder.gif" alt="[DIR]"> <a href="v17.13/">v17.13/</a>  2026-11-09 22:10    -
<img src="/icons/folder.gif" alt="[DIR]"> <a href="v18.7/">v18.7/</a>  2026-11-09 22:10    -
<a href="https://elsewhere.example/v18.8/">v18.8/</a><hr></pre></body></html>"#;

    /// One of nginx, with other ways to write a link.
    const NGINX: &str = "<html>\r\n<head><title>Index of /</title></head>\r\n<body>\r\n<h1>Index of /</h1><hr><pre>\
        <a href=\"../\">../</a>\r\n<a href=\"./v18.7/\">v18.7/</a>   09-Nov-2026 22:10    -\r\n\
        <A CLASS=x HREF='/pub/source/v17.13'>v17.13/</A>\r\n<a href=v19beta1/?a&amp;b#c>v19beta1/</a>\r\n\
        <a href=\"postgresql-16.16.tar.bz2\">postgresql-16.16.tar.bz2</a> <a href=\"postgresql-16.16.tar.gz\">gz</a>\r\n\
        <a href=\"v8.4.22/\">v8.4.22/</a><a>no link</a><a href=\"http://[\">broken</a></pre></body></html>";

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    fn read(place: &str) -> Result<Listing, CatalogError> {
        Listing::read(&place.parse().unwrap(), &Catalogue::builtin().unwrap(), &mut |_| {})
    }

    /// `17.13 18.7=ba78`: the versions, with the beginning of their hash or with their date.
    fn told(listing: &Listing) -> String {
        let one = |(version, listed): (&Version, &Listed)| {
            let hash = listed.hash.as_ref().map(|hash| format!("={}", &hash.sha256[..4]));
            let date = listed.date.map(|date| format!("@{date}"));
            format!("{version}{}{}", hash.unwrap_or_default(), date.unwrap_or_default())
        };
        listing.releases.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn links_are_found_however_they_are_written() {
        let base = Url::parse("http://localhost/pub/source/").unwrap();
        let found = |html| links(html, &base).map(|(version, url)| format!("{version} {url}")).collect::<Vec<_>>();
        assert_eq!(
            found(NGINX),
            [
                "18.7 http://localhost/pub/source/v18.7/",
                "17.13 http://localhost/pub/source/v17.13",
                "19beta1 http://localhost/pub/source/v19beta1/?a&b#c",
                "16.16 http://localhost/pub/source/postgresql-16.16.tar.bz2",
                "8.4.22 http://localhost/pub/source/v8.4.22/",
            ]
        );
        assert_eq!(
            found(APACHE),
            [
                "17.13 http://localhost/pub/source/v17.13/",
                "18.7 http://localhost/pub/source/v18.7/",
                "18.8 https://elsewhere.example/v18.8/",
            ]
        );
        for (url, address) in
            [("http://a.b", "http://a.b/"), ("http://a/b.c/d", "http://a/b.c/d/"), ("http://a/b.c", "http://a/b.c")]
        {
            assert_eq!(index_address(url), address);
        }
        let address = |version: &str, link: &str| hash_address(self::version(version), Url::parse(link).unwrap());
        assert_eq!(address("18.7", "http://a/b/v18.7?x#y"), "http://a/b/v18.7/postgresql-18.7.tar.bz2.sha256");
        assert_eq!(address("18.7", "http://a/postgresql-18.7.tar.bz2"), "http://a/postgresql-18.7.tar.bz2.sha256");
    }

    /// A server with an index below `/pub/source/`, and a hash of the releases from 17 on.
    fn server(index: &'static str) -> (String, crate::http::server::Questions) {
        let (base, asked) = serve(move |number, path| {
            Some(match path {
                // The first request meets a server that is busy.
                _ if number == 0 => Answer::new("503 Busy", ""),
                "/pub/source/" => Answer::ok(index),
                _ if path.contains("16.16") => Answer::new("404 Not Found", "no such file"),
                _ => Answer::ok(format!("{}  {}\n", HASH.to_uppercase(), path.rsplit('/').next().unwrap())),
            })
        });
        (format!("{base}/pub/source"), asked)
    }

    #[test]
    fn an_index_on_a_server_gives_versions_and_hashes() {
        let (base, asked) = server(NGINX);
        let listing = read(&base).unwrap();
        assert_eq!(told(&listing), "8.4.22 16.16 17.13=ba78 18.7=ba78 19beta1=ba78");
        assert!(listing.complete && listing.notes.is_empty());
        let hash = listing.releases[&version("18.7")].hash.as_ref().unwrap();
        assert_eq!(hash.place, format!("{base}/v18.7/postgresql-18.7.tar.bz2.sha256"));
        let asked = asked.lock().unwrap();
        assert!(!asked.iter().any(|question: &Question| question.path.contains("8.4.22")), "{asked:?}");

        assert_eq!(told(&read(&server(APACHE).0).unwrap()), "17.13=ba78 18.7=ba78", "never from another host");
    }

    #[test]
    fn a_page_instead_of_a_hash_and_a_server_that_is_away_are_errors() {
        let (base, _) = serve(|number, _| Some(Answer::ok(if number == 0 { APACHE } else { "<html>soft</html>" })));
        let message = read(&base).unwrap_err().to_string();
        assert_eq!(message, format!("{base}/v17.13/postgresql-17.13.tar.bz2.sha256 holds no SHA-256 hash"));

        let (base, asked) = serve(|_, _| Some(Answer::new("503 Busy", "")));
        assert_eq!(read(&base).unwrap_err().to_string(), format!("could not download {base}/"));
        assert_eq!(asked.lock().unwrap().len(), 3);
    }

    #[test]
    fn a_saved_page_gives_versions_only_and_says_so() {
        let home = tempfile::tempdir().unwrap();
        let page = home.path().join("index.html");
        fs::write(&page, NGINX).unwrap();
        let listing = read(page.to_str().unwrap()).unwrap();
        assert_eq!(told(&listing), "8.4.22 16.16 17.13 18.7 19beta1");
        assert!(listing.complete && listing.notes[0].ends_with(" is a saved page: it tells versions and no hashes"));

        fs::write(&page, b"BZh9\0\xff<a href=\"x\">").unwrap();
        let message = read(page.to_str().unwrap()).unwrap_err().to_string();
        assert!(message.contains(" lists no PostgreSQL release; name an index"), "{message}");
        let message = read("nowhere").unwrap_err().to_string();
        assert_eq!(message, "could not read nowhere");
    }

    #[test]
    fn a_directory_gives_hashes_of_archives_too() {
        let home = tempfile::tempdir().unwrap();
        let file = |name: &str, content: &str| {
            let path = home.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        let other = HASH.replace('b', "c");
        file("v18.7/postgresql-18.7.tar.bz2.sha256", &format!("{other}  postgresql-18.7.tar.bz2\n"));
        file("v18.7/postgresql-18.7.tar.bz2", "not read, since its hash is beside it");
        file("v18.7/postgresql-18.7.tar.gz", "");
        file("v17.13/postgresql-17.13.tar.bz2", "abc");
        file("postgresql-16.16.tar.bz2", "abc");
        file("v16beta1/postgresql-16beta1.tar.bz2", "of no concern");
        file("v15.20/README", "");
        file("deep/below/postgresql-14.30.tar.bz2", "");
        let read = || read(home.path().to_str().unwrap());
        assert_eq!(told(&read().unwrap()), "15.20 16beta1 16.16=ba78 17.13=ba78 18.7=ca78");

        file("postgresql-18.7.tar.bz2.sha256", HASH);
        let message = read().unwrap_err().to_string();
        assert!(message.contains(&other) && message.contains(HASH) && message.contains("of 18.7"), "{message}");
    }

    #[test]
    fn versions_json_gives_the_latest_minors_with_dates() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("versions.json");
        let read = |text: &str| {
            fs::write(&file, text).unwrap();
            read(file.to_str().unwrap())
        };
        let listing = read(
            r#"[{"major": "19", "latestMinor": "4", "relDate": "2026-10-01", "current": false, "supported": true},
            {"current": true, "eolDate": "2030-11-14", "latestMinor": "7", "major": "18", "relDate": "2026-11-12", "supported": true},
            {"major": 17, "latestMinor": 13, "relDate": null}, {"major": "9.6", "latestMinor": "24"}, {"major": "6", "latestMinor": ""}]"#,
        );
        let listing = listing.unwrap();
        assert_eq!(told(&listing), "9.6.24 17.13 18.7@2026-11-12");
        assert!(!listing.complete && listing.notes[0].starts_with("19: "), "{:?}", listing.notes);
        let current = r#"[{"major": "19", "latestMinor": "0", "relDate": "2026-10-01", "current": true}]"#;
        assert_eq!(told(&read(current).unwrap()), "19.0@2026-10-01");
        for text in ["{}", "[1]", r#"[{"major": "18"}]"#, r#"[{"major": "18", "latestMinor": "7", "relDate": "soon"}]"#]
        {
            assert!(matches!(read(text), Err(CatalogError::VersionsJson { .. })), "{text}");
        }
        assert!(matches!(read("[]"), Err(CatalogError::NoListing { .. })));
    }

    #[test]
    fn several_listings_are_taken_together() {
        let listing = |sha256: Option<&str>, date: Option<&str>, complete| {
            let hash = sha256.map(|sha256| Published { sha256: sha256.to_owned(), place: "p".to_owned() });
            let listed = Listed { date: date.map(|date| date.parse().unwrap()), hash };
            Listing { releases: [(version("18.7"), listed)].into(), complete, notes: vec![] }
        };
        let mut both = listing(None, Some("2026-11-12"), false);
        both.merge(listing(Some(HASH), None, true)).unwrap();
        assert_eq!((told(&both).as_str(), both.complete), ("18.7=ba78@2026-11-12", true));
        both.merge(listing(Some(HASH), None, true)).unwrap();
        assert!(both.merge(listing(Some("0"), None, true)).is_err());
    }
}
