//! `weir sav dry-run`: what would be dropped if every policy discarded what is not valid.

use std::path::PathBuf;

use clap::Args;

use super::super::configuration;
use super::super::error::Error;
use super::super::output::print;
use super::super::replay::input;
use super::progress::Bar;
use crate::foresight::dry_run::DryRun as Run;
use crate::render::{self, Report as _};
use crate::replay::Input;

/// Entries that people are shown unless they say how many.
const SHOWN: usize = 25;

/// What would be dropped if every policy discarded what is not valid
#[derive(Debug, Args)]
pub(super) struct DryRun {
    /// The configuration, a TOML file
    config: PathBuf,
    /// A capture (pcap or pcapng) and the interface that its packets come in by; captures are merged by their timestamps
    #[arg(long = "in", value_name = "IF=FILE", value_parser = input, required = true, num_args = 1..)]
    inputs: Vec<Input>,
    /// Write the sources as CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Name so many prefixes, those that sent most [default: 25, and all as JSON or CSV]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
}

impl DryRun {
    pub(super) fn run(&self, json: bool) -> Result<(), Error> {
        let gateway = configuration::load(&self.config, json)?;
        let mut run = Run::new(gateway, &self.inputs)?;
        let mut bar = Bar::new(&self.inputs);
        let done = run.run(|progress| bar.tell(progress));
        drop(bar);
        let report = run.report(self.top.unwrap_or(if json || self.csv { usize::MAX } else { SHOWN }));
        if json {
            print(&(render::json(&report) + "\n"))?;
        } else if self.csv {
            print(&report.csv())?;
        } else {
            print(&report.text())?;
        }
        Ok(done?)
    }
}
