//! The files behind the pages.

use serde::Serialize;

use crate::site::view::{Page, Site};
use crate::site::{SiteError, download_path, format};

#[derive(Serialize)]
struct View {
    files: Vec<FileView>,
}

#[derive(Serialize)]
struct FileView {
    href: String,
    file_name: String,
    title: String,
    description: String,
    size: String,
}

/// `downloads.html`.
pub(super) fn pages(site: &Site) -> Result<Vec<Page>, SiteError> {
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
    let page = Page::new("downloads.html", "downloads.html", title, description, &view)?;
    Ok(vec![page])
}
