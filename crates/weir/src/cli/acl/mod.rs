//! `weir acl`: access lists, while the gateway runs.

mod import;
mod lists;

use clap::{Args, Subcommand};

pub(super) use lists::{Place, deletions};

use super::edit::Live;
use super::error::Error;

/// Changes the access lists of a running gateway
#[derive(Debug, Args)]
pub struct Acl {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    live: Live,
}

#[derive(Debug, Subcommand)]
enum What {
    Import(import::Import),
    #[command(flatten)]
    Lists(lists::Lists),
}

impl Acl {
    pub(super) fn run(&self) -> Result<(), Error> {
        match &self.what {
            What::Import(import) => import.run(self.live.json),
            What::Lists(lists) => lists.run(&self.live),
        }
    }
}
