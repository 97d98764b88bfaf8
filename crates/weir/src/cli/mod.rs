//! The command line: one file for each subcommand.

mod check;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// A software gateway that validates, filters and secures packets.
#[derive(Debug, Parser)]
#[command(name = "weir", version)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Says everything that is wrong with a configuration
    Check(check::Check),
}

/// How a command ended. What clap refuses ends with 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done.
    Done = 0,
    /// Failed at run time.
    Failed = 1,
    /// The configuration is invalid.
    InvalidConfig = 3,
    /// There is no gateway to talk to.
    NoGateway = 4,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    match cli.command {
        Command::Check(check) => check.run(),
    }
    .into()
}
