//! `weir sav`: source address validation, in a running gateway and before one runs.

mod diff;
mod dry_run;
mod entries;
mod learn;
mod progress;
mod stage;

use clap::{Args, Subcommand};

use super::edit::Live;
use super::error::Error;

/// Previews source address validation, and changes its entries in a running gateway
#[derive(Debug, Args)]
pub struct Sav {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    live: Live,
}

#[derive(Debug, Subcommand)]
enum What {
    DryRun(dry_run::DryRun),
    Learn(learn::Learn),
    Diff(diff::Diff),
    Stage(stage::Stage),
    #[command(flatten)]
    Entries(entries::Entries),
}

impl Sav {
    pub(super) fn run(&self) -> Result<(), Error> {
        let Live { connection, json } = &self.live;
        match &self.what {
            What::DryRun(run) => run.run(connection, *json),
            What::Learn(learn) => learn.run(connection, *json),
            What::Diff(diff) => diff.run(*json),
            What::Stage(stage) => stage.run(connection, *json),
            What::Entries(entries) => entries.run(&self.live),
        }
    }
}
