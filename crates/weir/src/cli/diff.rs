//! `weir diff`: the running configuration against its file.

use std::io::{IsTerminal as _, Write as _};

use clap::Args;

use super::connection::Connection;
use super::error::Error;
use super::output::{colour, print};
use super::query::target;
use crate::render::Report as _;
use crate::render::diff::Diff as Report;

/// Compares the running configuration with its file: `+` only the gateway has, `-` only the file
#[derive(Debug, Args)]
#[command(after_help = "Exits with 1 if there are differences.")]
pub struct Diff {
    #[command(flatten)]
    connection: Connection,
    /// Compare with the file as it was loaded, instead of as it is now
    #[arg(long)]
    loaded: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

impl Diff {
    pub(super) fn run(&self) -> Result<(), Error> {
        let client = self.connection.client();
        let target = target("/v1/diff", [("loaded", self.loaded.then(|| "true".to_owned()))]);
        let answer = client.show::<Report>(&target);
        if let Some(refusal) = answer.as_ref().err().and_then(|error| error.invalid_configuration()) {
            let _ = std::io::stderr().write_all(refusal.findings.as_bytes());
        }
        let (report, json) = answer?;
        if self.json {
            print(&json)?;
        } else {
            print(&coloured(&report.text(), colour(std::io::stdout().is_terminal())))?;
        }
        if report.is_empty() { Ok(()) } else { Err(Error::Differs) }
    }
}

/// Colours lines by their signs.
fn coloured(text: &str, colour: bool) -> String {
    if !colour {
        return text.to_owned();
    }
    let line = |line: &str| match line.as_bytes().first() {
        Some(b'+') => format!("\u{1b}[32m{line}\u{1b}[0m\n"),
        Some(b'-') => format!("\u{1b}[31m{line}\u{1b}[0m\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}
