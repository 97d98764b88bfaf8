//! `weir sav`: source address validation, in a running gateway and before one runs.

mod diff;
mod dry_run;
mod entries;
mod learn;
mod progress;
mod stage;

use clap::{Args, Subcommand};

use super::connection::Connection;
use super::error::Error;

/// Previews source address validation, and changes its entries in a running gateway
#[derive(Debug, Args)]
pub struct Sav {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    connection: Connection,
    /// Write JSON
    #[arg(long, global = true)]
    json: bool,
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
        match &self.what {
            What::DryRun(run) => run.run(&self.connection, self.json),
            What::Learn(learn) => learn.run(&self.connection, self.json),
            What::Diff(diff) => diff.run(self.json),
            What::Stage(stage) => stage.run(&self.connection, self.json),
            What::Entries(entries) => entries.run(&self.connection, self.json),
        }
    }
}
