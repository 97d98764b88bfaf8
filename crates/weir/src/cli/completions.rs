//! `weir completions`: what shells need to complete commands.

use clap::{Args, Command};
use clap_complete::Shell;

use super::error::Error;
use super::output::print;

/// Prints the completions of a shell
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(super) fn run(&self, mut command: Command) -> Result<(), Error> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut command, "weir", &mut script);
        print(&String::from_utf8_lossy(&script))
    }
}
