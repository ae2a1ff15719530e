//! `regtrack cache list` and `regtrack cache prune`

use std::path::PathBuf;

use clap::{Args, Subcommand};
use jiff::Timestamp;
use serde_json::json;

use super::printer::Printer;
use super::servers::default_cache;
use super::{Failure, tables};
use crate::build::{self, BuildError, CachedBuild, CachedTree, Inventory};
use crate::server::Account;

/// Arguments of `cache`.
#[derive(Debug, Args)]
pub(super) struct CacheArgs {
    #[command(subcommand)]
    command: CacheCommand,
    /// Directory of the builds [default: the user's cache directory; for root /var/cache/regtrack]
    #[arg(long, value_name = "DIR", env = "REGTRACK_CACHE", global = true)]
    cache: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
enum CacheCommand {
    /// List builds, archives and trees, those used last first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove trees, then builds, that were used least recently, until the rest fits
    Prune {
        /// Room for the rest, such as 20G, 500M or 0
        #[arg(long, value_name = "SIZE", value_parser = parse_size)]
        keep: u64,
        /// Say what would go, and stop
        #[arg(long)]
        dry_run: bool,
    },
}

pub(super) fn run(args: &CacheArgs, printer: Printer) -> Result<(), Failure> {
    let directory = match &args.cache {
        Some(directory) => directory.clone(),
        None => default_cache(&Account::choose(None)?)?,
    };
    let inventory = Inventory::read(&directory)?;
    match args.command {
        CacheCommand::List { json: true } => printer.data(&format!("{:#}", json!(inventory)))?,
        CacheCommand::List { json: false } => printer.data(&list(&inventory))?,
        CacheCommand::Prune { keep, dry_run } => prune(&inventory, keep, dry_run, printer)?,
    }
    Ok(())
}

fn list(inventory: &Inventory) -> String {
    let Inventory { directory, builds, archives, trees } = inventory;
    let mut text = format!(
        "{}: {} in builds ({}), {} in archives ({}), {} in trees ({})\n",
        directory.display(),
        size(inventory.build_bytes()),
        builds.len(),
        size(inventory.archive_bytes()),
        archives.len(),
        size(inventory.tree_bytes()),
        trees.len()
    );
    if !builds.is_empty() {
        let row = |build: &CachedBuild| {
            let used = if build.in_use { "now".to_owned() } else { minute(build.last_used) };
            let key = build.key.chars().take(8).collect();
            vec![build.version.to_string(), key, used, size(build.bytes), build.provenance.to_string()]
        };
        text.push('\n');
        let header = ["version", "build", "last used (UTC)", "size", "provenance"];
        text += &tables::listing(&header, builds.iter().map(row).collect());
    }
    if !archives.is_empty() {
        text.push('\n');
        let rows = archives.iter().map(|archive| vec![archive.name.clone(), size(archive.bytes)]);
        text += &tables::listing(&["archive", "size"], rows.collect());
    }
    if !trees.is_empty() {
        text.push('\n');
        let row = |tree: &CachedTree| {
            let used = if tree.in_use { "now".to_owned() } else { minute(tree.last_used) };
            let state = if tree.unfinished { "interrupted" } else { "for the next commit" };
            vec![tree.name.chars().take(8).collect(), used, size(tree.bytes), state.to_owned()]
        };
        text += &tables::listing(&["tree", "last used (UTC)", "size", "kept"], trees.iter().map(row).collect());
    }
    text
}

fn prune(inventory: &Inventory, keep: u64, dry_run: bool, printer: Printer) -> Result<(), Failure> {
    let Inventory { directory, .. } = inventory;
    let mut rest = inventory.build_bytes() + inventory.tree_bytes();
    let mut remove = |name: &str, bytes: u64, gone: &dyn Fn() -> Result<bool, BuildError>| -> Result<(), Failure> {
        if dry_run {
            printer.data(&format!("would remove {name}: {}", size(bytes)))?;
        } else if gone()? {
            printer.data(&format!("removed {name}: {}", size(bytes)))?;
        } else {
            printer.say(&format!("note: {name} is in use and stays"));
            return Ok(());
        }
        rest -= bytes;
        Ok(())
    };
    for tree in inventory.superfluous_trees(keep) {
        let name = format!("tree {}", tree.name.chars().take(8).collect::<String>());
        remove(&name, tree.bytes, &|| build::prune_tree(directory, tree))?;
    }
    for build in inventory.superfluous(keep) {
        let name = format!("{} {}", build.version, build.key.chars().take(8).collect::<String>());
        remove(&name, build.bytes, &|| build::prune(directory, build))?;
    }
    printer.say(&format!("{} in builds and trees {}", size(rest), if dry_run { "would stay" } else { "stay" }));
    if rest > keep {
        printer.say("note: the rest is in use by other processes and stays");
    }
    Ok(())
}

fn minute(time: Timestamp) -> String {
    time.strftime("%F %H:%M").to_string()
}

fn size(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// `20G`, `1.5G`, `500M`, `0`: powers of 1024.
fn parse_size(text: &str) -> Result<u64, String> {
    const UNITS: [(char, u64); 4] = [('K', 1 << 10), ('M', 1 << 20), ('G', 1 << 30), ('T', 1 << 40)];
    let refusal = || "write a size such as 20G, 1.5G, 500M or 0".to_owned();
    if text == "0" {
        return Ok(0);
    }
    let parts = UNITS.iter().find_map(|(letter, bytes)| Some((text.strip_suffix(*letter)?, *bytes)));
    let (number, bytes) = parts.ok_or_else(refusal)?;
    let number: f64 = number.parse().map_err(|_| refusal())?;
    if !(0.0..1e6).contains(&number) {
        return Err(refusal());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
    Ok((number * bytes as f64) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_powers_of_1024() {
        for (text, bytes) in [("0", 0), ("20G", 20 << 30), ("1.5G", 3 << 29), ("500M", 500 << 20), ("0.5T", 1 << 39)] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        for text in ["", "G", "20", "20GB", "-1G", "nanG", "infG", "20GG", "1e9T"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
