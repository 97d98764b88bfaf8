//! `weir sav dry-run`: what would be dropped if every policy discarded what is not valid.

use std::path::PathBuf;

use clap::Args;

use super::super::configuration;
use super::super::connection::Connection;
use super::super::error::Error;
use super::super::output::print;
use super::super::query::target;
use super::super::replay::input;
use super::progress::Bar;
use crate::render::sav::dry_run::DryRun as Report;
use crate::render::{self, Report as _};
use crate::replay::Input;
use crate::sav_preview::dry_run::DryRun as Run;

/// Entries that people are shown unless they say how many.
const SHOWN: usize = 25;

/// Reports the packets that would be dropped if every policy discarded invalid packets
#[derive(Debug, Args)]
pub(super) struct DryRun {
    /// The configuration, a TOML file; without one, the running gateway reports what it has found
    #[arg(requires = "inputs")]
    config: Option<PathBuf>,
    /// A capture (pcap or pcapng) and the interface that its packets come in by; captures are merged by their timestamps
    #[arg(long = "in", value_name = "IF=FILE", value_parser = input, requires = "config", num_args = 1..)]
    inputs: Vec<Input>,
    /// Take unicast frames to any station for frames to the gateway, in captures that hold only what came in
    #[arg(long, requires = "config")]
    any_mac: bool,
    /// Write the sources as CSV
    #[arg(long, conflicts_with = "json")]
    csv: bool,
    /// Number of prefixes to list, by packets [default: 25, and all as JSON or CSV]
    #[arg(long, value_name = "N")]
    top: Option<usize>,
}

impl DryRun {
    pub(super) fn run(&self, connection: &Connection, json: bool) -> Result<(), Error> {
        let top = self.top.unwrap_or(if json || self.csv { usize::MAX } else { SHOWN });
        let Some(config) = &self.config else {
            let target = target("/v1/sav/dry-run", [("top", (top != usize::MAX).then(|| top.to_string()))]);
            let (report, _) = connection.client().show(&target)?;
            self.tell(&report, json)?;
            return report.nothing_judged().map_or(Ok(()), |nothing| Err(Error::Failed(nothing)));
        };
        let mut run = Run::new(configuration::load(config, json)?, &self.inputs, self.any_mac)?;
        let mut bar = Bar::new(&self.inputs);
        let done = run.run(|progress| bar.tell(progress));
        drop(bar);
        let report = run.report(top);
        self.tell(&report, json)?;
        done?;
        report.nothing_judged().map_or(Ok(()), |nothing| Err(Error::Failed(nothing)))
    }

    fn tell(&self, report: &Report, json: bool) -> Result<(), Error> {
        if json {
            print(&(render::json(report) + "\n"))
        } else if self.csv {
            print(&report.csv())
        } else {
            print(&report.text())
        }
    }
}
