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

/// Makes the pages of one kind.
type Pages = fn(&Site) -> Result<Vec<Page>, SiteError>;

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
