//! `weir sav learn`: a table of sources from captured traffic and routes, as a proposal.

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use clap::Args;

use super::super::configuration;
use super::super::connection::Connection;
use super::super::error::Error;
use super::super::output::print;
use super::super::query::target;
use super::super::replay::input;
use super::progress::Bar;
use crate::render::sav::dry_run::DryRun;
use crate::render::sav::learned::Learned;
use crate::render::{self, Report as _};
use crate::replay::Input;
use crate::rules::Format;
use crate::sav_preview::learn::Learn as Run;

/// Proposes rules for a table, from captured traffic and the configuration's routes; applies nothing
#[derive(Debug, Args)]
pub(super) struct Learn {
    /// The configuration, a TOML file: its interfaces and routes; what its policies say does not matter. Without one, rules
    /// are proposed for what a running gateway has found not valid
    #[arg(requires = "inputs")]
    config: Option<PathBuf>,
    /// A capture (pcap or pcapng) and the interface that its packets come in by; captures are merged by their timestamps
    #[arg(long = "in", value_name = "IF=FILE", value_parser = input, requires = "config", num_args = 1..)]
    inputs: Vec<Input>,
    /// Take unicast frames to any station for frames to the gateway, in captures that hold only what came in
    #[arg(long, requires = "config")]
    any_mac: bool,
    /// Write the rules to a file that is not there yet, instead of to standard output
    #[arg(long, value_name = "FILE.rules", value_parser = rules_file)]
    out: Option<PathBuf>,
    /// Leave out prefixes of which an interface got fewer packets
    #[arg(long, value_name = "N", default_value_t = 1)]
    min_packets: u64,
}

fn rules_file(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    match Format::of(&path) {
        Some(Format::Rules) => Ok(path),
        _ => Err("rules are written one a line: the name has to end in .rules".to_owned()),
    }
}

impl Learn {
    pub(super) fn run(&self, connection: &Connection, json: bool) -> Result<(), Error> {
        let Some(config) = &self.config else {
            let target = target("/v1/sav/learn", [("min-packets", Some(self.min_packets.to_string()))]);
            let client = connection.client();
            let (learned, _) = client.show(&target)?;
            // The counters say whether there was anything to learn from.
            let (counted, _) = client.show::<DryRun>("/v1/sav/dry-run?top=0")?;
            self.tell(&learned, json)?;
            return counted.nothing_judged().map_or(Ok(()), |nothing| Err(Error::Failed(nothing)));
        };
        // Before the work: it is done in vain where a file is in the way.
        if let Some(path) = self.out.as_deref().filter(|path| path.exists()) {
            return Err(is_there(path));
        }
        let mut run = Run::new(configuration::load(config, json)?, &self.inputs, self.any_mac)?;
        let mut bar = Bar::new(&self.inputs);
        let done = run.run(|progress| bar.tell(progress));
        drop(bar);
        let learned = run.propose(self.min_packets);
        self.tell(&learned, json)?;
        done?;
        match learned.captured.and_then(|captured| captured.nothing_judged()) {
            Some(nothing) => Err(Error::Failed(nothing)),
            None => Ok(()),
        }
    }

    /// Writes the file, unless there is no rule for it, and prints what is to be printed.
    fn tell(&self, learned: &Learned, json: bool) -> Result<(), Error> {
        let mut nothing = None;
        if let Some(path) = &self.out {
            if learned.rules.is_empty() {
                nothing = Some(Error::Failed(format!("{}: not written: no rule was learned", path.display())));
            } else {
                create(path)?
                    .write_all(learned.text().as_bytes())
                    .map_err(|error| Error::Failed(format!("{}: cannot be written: {error}", path.display())))?;
            }
            // A failure to write the report cannot be reported.
            let _ = std::io::stderr().write_all(learned.summary().as_bytes());
        }
        if json {
            print(&(render::json(learned) + "\n"))?;
        } else if self.out.is_none() {
            print(&learned.text())?;
        }
        nothing.map_or(Ok(()), Err)
    }
}

/// Creates a file; never overwrites one.
fn create(path: &Path) -> Result<File, Error> {
    weir_base::file::create_new(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => is_there(path),
        _ => Error::Failed(format!("{}: cannot be created: {error}", path.display())),
    })
}

fn is_there(path: &Path) -> Error {
    Error::Failed(format!("{}: is there already, and is not overwritten", path.display()))
}
