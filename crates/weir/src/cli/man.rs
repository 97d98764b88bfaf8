//! `weir man`: the manual, made from the commands themselves.

use std::path::PathBuf;

use clap::{Args, Command};

use super::error::Error;
use super::output::print;

/// Prints the manual page, or writes one page for each command
#[derive(Debug, Args)]
pub struct Man {
    /// Write every page into this folder instead of printing the first
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(super) fn run(&self, command: Command) -> Result<(), Error> {
        let failed = |error: std::io::Error| Error::Failed(format!("cannot write the manual: {error}"));
        match &self.dir {
            Some(dir) => clap_mangen::generate_to(command, dir)
                .map_err(|error| Error::Failed(format!("cannot write the manual to {}: {error}", dir.display()))),
            None => {
                let mut page = Vec::new();
                clap_mangen::Man::new(command).render(&mut page).map_err(failed)?;
                print(&String::from_utf8_lossy(&page))
            }
        }
    }
}
