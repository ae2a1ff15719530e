//! `regtrack variants`

use clap::Args;
use serde_json::json;

use super::printer::Printer;
use super::{Failure, tables};
use crate::catalog::variants::{Entry, Variants};
use crate::domain::Feature;

/// Arguments of `variants`.
#[derive(Debug, Args)]
pub(super) struct VariantsArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &VariantsArgs, printer: Printer) -> Result<(), Failure> {
    let known = Variants::builtin()?;
    if args.json {
        let variants: Vec<_> = known.variants().iter().map(|entry| json!(entry)).collect();
        let features: Vec<_> = known.features().iter().map(|feature| json!(feature)).collect();
        printer.data(&format!("{:#}", json!({ "variants": variants, "features": features })))?;
        return Ok(());
    }
    let variant = |entry: &Entry| vec![entry.name.clone(), entry.cflags.join(" "), entry.about.clone()];
    let feature = |feature: &Feature| {
        let from = feature.from.map_or_else(|| "all".to_owned(), |major| major.to_string());
        let mut packages: Vec<&str> = feature.needs.iter().map(|need| need.package.as_str()).collect();
        packages.dedup();
        vec![format!("+{}", feature.name), from, packages.join(" "), feature.about.clone()]
    };
    let variants = tables::listing(&["variant", "flags", "what it is"], known.variants().iter().map(variant).collect());
    let header = ["feature", "from", "Debian's packages", "what it is"];
    let features = tables::listing(&header, known.features().iter().map(feature).collect());
    printer.data(&format!("{variants}\n{features}"))?;
    Ok(())
}
