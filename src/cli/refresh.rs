//! `regtrack versions refresh`: takes new releases into the catalogue.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow};
use clap::Args;
use serde::Serialize;

use super::printer::Printer;
use super::{Failure, Global};
use crate::build;
use crate::catalog::CatalogError;
use crate::catalog::listing::{Listing, Place};
use crate::catalog::manifests::Manifests;
use crate::catalog::refresh::{Addition, Refresh, refresh};
use crate::catalog::versions::Catalogue;

/// Where a checkout of regtrack has its manifests.
const CHECKOUT: &str = "versions";

/// Digits of a hash that are shown.
const HASH_DIGITS: usize = 8;

/// Arguments of `versions refresh`.
#[derive(Debug, Args)]
#[command(
    after_help = "Writes to the directory of --versions, which gets the built-in manifests first if it is new or empty. \
                  Without --versions, writes to ./versions if that holds manifests, as in a checkout of regtrack."
)]
pub(super) struct RefreshArgs {
    /// Listing of source releases: an index on a web server or saved, a directory with archives or their .sha256, or
    /// postgresql.org's versions.json; several are taken together
    #[arg(long, value_name = "URL|FILE|DIR", default_value = build::ARCHIVE_URL)]
    from: Vec<Place>,
    /// Show what would be added and write nothing
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What was done. Field names are part of the JSON output.
#[derive(Debug, Serialize)]
struct Outcome<'a> {
    /// Of the manifests.
    directory: &'a Path,
    dry_run: bool,
    /// Whether the directory was new or empty, and gets the built-in manifests.
    filled: bool,
    /// Files with additions.
    changed: &'a [String],
    added: &'a [Addition],
    notes: &'a [String],
}

pub(super) fn run(args: &RefreshArgs, global: &Global, printer: Printer) -> Result<(), Failure> {
    let target = Target::choose(global.versions.as_deref())?;
    let manifests = target.manifests()?;
    let catalogue = manifests.catalogue()?;
    let mut listing = Listing::default();
    for place in &args.from {
        listing.merge(Listing::read(place, &catalogue, &mut |note| printer.say(note))?)?;
    }
    let refresh = refresh(&manifests, &listing)?;
    refresh.notes.iter().for_each(|note| printer.say(&format!("note: {note}")));
    if !args.dry_run {
        target.write(&refresh, printer)?;
    }
    let outcome = Outcome {
        directory: &target.directory,
        dry_run: args.dry_run,
        filled: target.fill,
        changed: &refresh.changed,
        added: &refresh.additions,
        notes: &refresh.notes,
    };
    printer.data(&if args.json { serde_json::to_string_pretty(&outcome)? } else { text(&refresh.additions) })?;
    Ok(())
}

/// The releases that this call knows, with those of the listings, and what is new among them. With `--versions DIR` the
/// manifests there get them as well, unless it is a `dry_run`. Listings that cannot be read are warned of.
pub(super) fn fresh_catalogue(
    from: &[Place],
    dry_run: bool,
    global: &Global,
    printer: Printer,
) -> Result<(Catalogue, Vec<Addition>), Failure> {
    let target = global.versions.as_deref().map(|directory| Target::choose(Some(directory))).transpose()?;
    let manifests = target.as_ref().map_or_else(|| Ok(Manifests::builtin()), Target::manifests)?;
    let catalogue = manifests.catalogue()?;
    let mut listing = Listing::default();
    for place in from {
        let read = Listing::read(place, &catalogue, &mut |note| printer.say(note));
        if let Err(error) = read.and_then(|read| listing.merge(read)) {
            printer.warn("no news about releases", &error.into());
        }
    }
    let refresh = refresh(&manifests, &listing)?;
    refresh.notes.iter().for_each(|note| printer.say(&format!("note: {note}")));
    if let Some(target) = target.filter(|target| !dry_run && (target.fill || !refresh.changed.is_empty())) {
        target.write(&refresh, printer)?;
    }
    Ok((refresh.manifests.catalogue()?, refresh.additions))
}

/// The directory whose manifests are refreshed.
#[derive(Debug)]
struct Target {
    directory: PathBuf,
    /// Whether it is still to be filled with the built-in manifests.
    fill: bool,
    /// Whether nobody named it.
    is_checkout: bool,
}

impl Target {
    /// The named directory, or else the checkout's.
    fn choose(named: Option<&Path>) -> anyhow::Result<Self> {
        if let Some(directory) = named {
            let fill = match directory.read_dir() {
                Ok(mut entries) => entries.next().is_none(),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
                Err(error) => return Err(error).with_context(|| format!("could not read {}", directory.display())),
            };
            return Ok(Self { directory: directory.to_owned(), fill, is_checkout: false });
        }
        let directory = PathBuf::from(CHECKOUT);
        if Manifests::read(&directory).is_ok_and(|manifests| !manifests.is_empty()) {
            return Ok(Self { directory, fill: false, is_checkout: true });
        }
        Err(anyhow!(
            "there are no manifests in ./{CHECKOUT} to add releases to; name a directory with --versions DIR, and it \
             gets the built-in ones first"
        ))
    }

    fn manifests(&self) -> Result<Manifests, CatalogError> {
        if self.fill { Ok(Manifests::builtin()) } else { Manifests::read(&self.directory) }
    }

    fn write(&self, refresh: &Refresh, printer: Printer) -> Result<(), CatalogError> {
        let directory = self.directory.display();
        if self.fill {
            refresh.manifests.fill(&self.directory)?;
            printer.say(&format!("filled {directory} with the built-in manifests"));
        } else {
            refresh.manifests.replace(refresh.changed.iter().map(String::as_str))?;
        }
        if !refresh.changed.is_empty() {
            printer.say(&format!("changed in {directory}: {}", refresh.changed.join(", ")));
            if self.is_checkout {
                printer.say("regtrack knows them when it is built again, or with --versions versions");
            }
        }
        Ok(())
    }
}

/// One line per addition.
fn text(additions: &[Addition]) -> String {
    if additions.is_empty() {
        return "nothing new".to_owned();
    }
    let lines: Vec<String> = additions.iter().map(line).collect();
    lines.join("\n")
}

/// `18.7: released 2026-11-12, hash 3fa9c1d2…`
pub(super) fn line(addition: &Addition) -> String {
    let date = addition.date.map(|date| format!("released {date}"));
    let hash = addition.sha256.as_ref().map(|hash| format!("hash {}…", hash.get(..HASH_DIGITS).unwrap_or(hash)));
    if addition.new {
        let unknown = |what: &str| format!("{what} not known");
        let (date, hash) = (date.unwrap_or_else(|| unknown("date")), hash.unwrap_or_else(|| unknown("hash")));
        return format!("{}: {date}, {hash}", addition.version);
    }
    let known: Vec<String> = date.into_iter().chain(hash).collect();
    format!("{}: {} (was missing)", addition.version, known.join(", "))
}
