//! regtrack finds the PostgreSQL release that made a statement slower, by how much, and how sure
//! that is.
//!
//! Imports go down only; modules of one layer never import each other, but all may use [`domain`]. A
//! test holds the line.
//!
//! | layer | modules | what it knows |
//! |---|---|---|
//! | 5 | [`cli`] | arguments, printing, exit codes |
//! | 4 | [`bisect`] | what to build and measure next between two ends, and what is known then |
//! | 3 | [`sweep`] | what to run next, and what to do when it fails |
//! | 2 | [`measure`] | one launch and its slices: joins `server`, `load` and `rival` |
//! | 1 | [`catalog`], [`build`], [`server`], [`load`], [`rival`], [`store`], [`analysis`], [`site`] | one stage each |
//! | 0 | [`domain`], [`process`], [`sql`], [`http`] | the nouns; a child program; an administrative connection; files of a web server |
//!
//! Data runs one way: catalog → build → server → load → measure → store → analysis → site.

pub mod analysis;
pub mod bisect;
pub mod build;
pub mod catalog;
pub mod cli;
pub mod domain;
pub mod http;
pub mod load;
pub mod measure;
pub mod process;
pub mod rival;
pub mod server;
pub mod site;
pub mod sql;
pub mod store;
pub mod sweep;
