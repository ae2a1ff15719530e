//! What an upgrade would do to a mix of statements. The prediction is computed in the browser, from weights that stay
//! there.

use serde::Serialize;

use super::Job;
use crate::site::view::{self, Page, Site};
use crate::site::{SiteError, answers};

#[derive(Serialize)]
struct View {
    groups: Vec<Group>,
    data: String,
}

#[derive(Serialize)]
struct Group {
    name: String,
    title: String,
    count: usize,
}

/// `upgrade.html`.
pub(super) fn pages<'a>(site: &'a Site) -> Vec<Job<'a>> {
    vec![Box::new(move || page(site))]
}

fn page(site: &Site) -> Result<Page, SiteError> {
    let group = |(name, title, rows): (String, String, Vec<usize>)| Group { name, title, count: rows.len() };
    let view =
        View { groups: view::by_group(site.report).into_iter().map(group).collect(), data: answers::json(site, false) };
    let description = format!("What an upgrade of {} would do to a mix of statements of your own.", site.title());
    Page::new("upgrade.html", "upgrade.html", "What an upgrade would do".to_owned(), description, &view)
}
