//! `regtrack publish`, and the options of the commands that publish as well.

use std::path::{Path, PathBuf};

use clap::Args;

use super::Failure;
use super::printer::Printer;
use crate::site::publish::{self, Destination, Published};

/// Options about where a site is published.
#[derive(Debug, Default, Args)]
pub(super) struct PublishArgs {
    /// Publish the site: to a directory, rsync:HOST:PATH, git:BRANCH (of the repository here) or git:REPO#BRANCH; may be
    /// repeated
    #[arg(long, value_name = "WHERE")]
    publish: Vec<Destination>,
    /// Publish also a site that lacks more than a tenth of the cells of the last one, or has older data
    #[arg(long)]
    publish_anyway: bool,
}

/// Arguments of `publish`.
#[derive(Debug, Args)]
pub(super) struct PublishCommandArgs {
    /// A directory, rsync:HOST:PATH, git:BRANCH (of the repository here) or git:REPO#BRANCH
    #[arg(required = true, value_name = "WHERE")]
    destinations: Vec<Destination>,
    /// Directory of the site
    #[arg(long, value_name = "DIR", env = "REGTRACK_SITE", default_value = "public")]
    site: PathBuf,
    /// Publish also a site that lacks more than a tenth of the cells of the last one, or has older data
    #[arg(long)]
    publish_anyway: bool,
}

pub(super) fn run(args: PublishCommandArgs, printer: Printer) -> Result<(), Failure> {
    PublishArgs { publish: args.destinations, publish_anyway: args.publish_anyway }.run(&args.site, printer)
}

impl PublishArgs {
    /// Whether any place is named.
    pub(super) const fn is_asked_for(&self) -> bool {
        !self.publish.is_empty()
    }

    /// These options, or those of an earlier call.
    pub(super) fn over(self, previous: Self) -> Self {
        Self {
            publish: if self.publish.is_empty() { previous.publish } else { self.publish },
            // A site that is worse is looked at each time.
            publish_anyway: self.publish_anyway,
        }
    }

    /// Whether the site can be published there, as far as that is known now.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.publish.iter().try_for_each(publish::check)?;
        Ok(())
    }

    /// Publishes a site everywhere. What one place refuses does not keep it from the others.
    pub(super) fn run(&self, site: &Path, printer: Printer) -> Result<(), Failure> {
        let mut first = None;
        for to in &self.publish {
            match publish::publish(site, to, self.publish_anyway) {
                Ok(Published::Done) => printer.say(&format!("published to {to}")),
                Ok(Published::Commit(commit)) => printer.say(&format!("published to {to}: commit {commit}")),
                Ok(Published::Unchanged) => printer.say(&format!("{to} has this site already")),
                Err(error) if first.is_none() => first = Some(error),
                Err(error) => printer.warn("not published", &error.into()),
            }
        }
        first.map_or(Ok(()), |error| Err(error.into()))
    }
}
