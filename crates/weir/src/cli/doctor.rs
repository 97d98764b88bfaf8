//! `weir doctor`: what on this host is in the way of a gateway.

use std::path::PathBuf;

use clap::Args;

use super::Exit;
use super::configuration;
use super::error::{self, Error};
use super::output::print;
use crate::config;
use crate::doctor::{self, Level};
use crate::render::{self, Report as _};

/// Examines this host, and prints the command that mends each finding
///
/// Without a configuration: CPU and kernel. With one also its ports, devices, privileges and memory. Changes nothing.
/// The exit code is 1 if there is a problem; advice alone is 0.
#[derive(Debug, Args)]
pub struct Doctor {
    /// The configuration, a TOML file
    file: Option<PathBuf>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

impl Doctor {
    pub(super) fn run(&self) -> Exit {
        match self.examine() {
            Ok(0) => Exit::Done,
            Ok(_) => Exit::Failed,
            Err(error) => error::conclude(Err(error)),
        }
    }

    /// Prints the diagnosis. Returns the number of problems.
    fn examine(&self) -> Result<usize, Error> {
        let diagnosis = match &self.file {
            None => doctor::examine(None),
            Some(file) => {
                let loaded = config::load(file);
                let service = loaded.service.clone();
                let keys = loaded.key_files.clone();
                let gateway = configuration::valid(loaded, self.json)?;
                doctor::examine(Some((&gateway, &service, &keys)))
            }
        };
        print(&if self.json { render::json(&diagnosis) + "\n" } else { diagnosis.text() })?;
        Ok(diagnosis.count(Level::Problem))
    }
}
