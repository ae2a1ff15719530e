//! The files behind the pages.

use serde::Serialize;

use super::Job;
use crate::site::view::{Link, Page, Site};
use crate::site::{Schema, SiteError, download_path, format};

#[derive(Serialize)]
struct View {
    files: Vec<FileView>,
}

#[derive(Serialize)]
struct Columns<'a> {
    schemas: &'a [Schema],
}

#[derive(Serialize)]
struct FileView {
    href: String,
    file_name: String,
    title: String,
    description: String,
    size: String,
}

/// `downloads.html` and `schema.html`.
pub(super) fn pages<'a>(site: &'a Site) -> Vec<Job<'a>> {
    vec![Box::new(move || files(site)), Box::new(move || columns(site))]
}

fn files(site: &Site) -> Result<Page, SiteError> {
    let file = |download: &crate::site::Download| FileView {
        href: download_path(&download.file_name),
        file_name: download.file_name.clone(),
        title: download.title.clone(),
        description: download.description.clone(),
        size: format::bytes(download.bytes.len()),
    };
    let view = View { files: site.downloads.iter().map(file).collect() };
    let title = "Downloads".to_owned();
    let description = "The data behind these pages as files.".to_owned();
    Page::new("downloads.html", "downloads.html", title, description, &view)
}

fn columns(site: &Site) -> Result<Page, SiteError> {
    let view = Columns { schemas: site.schemas };
    let (title, description) = ("Columns".to_owned(), "The columns of the files, with units and meaning.".to_owned());
    let mut schema = Page::new("schema.html", "schema.html", title, description, &view)?;
    schema.crumbs = vec![Link::new("downloads.html", "Downloads")];
    Ok(schema)
}
