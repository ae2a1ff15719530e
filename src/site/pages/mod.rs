//! The pages, one file each. To add one: a file here, a template, a line in [`ALL`].

mod bench;
mod compare;
mod downloads;
mod history;
mod index;
mod method;
mod release;
mod upgrade;
mod week;

use super::SiteError;
use super::view::{Page, Site};

/// Makes one page. Pages do not depend on each other and are made side by side.
pub(super) type Job<'a> = Box<dyn Fn() -> Result<Page, SiteError> + Send + Sync + 'a>;

/// Says which pages of one kind there are.
type Pages = for<'a> fn(&'a Site<'_>) -> Vec<Job<'a>>;

/// Every kind of page, in the order in which their files are listed.
pub(super) const ALL: [Pages; 9] = [
    index::pages,
    compare::pages,
    upgrade::pages,
    bench::pages,
    release::pages,
    history::pages,
    week::pages,
    method::pages,
    downloads::pages,
];
