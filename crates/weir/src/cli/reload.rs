//! `weir reload`: the running gateway reads its configuration again.

use std::io::{IsTerminal as _, Write as _};

use clap::Args;

use super::connection::Connection;
use super::error::Error;
use super::output::{colour, print};
use crate::control::ReloadRequest;
use crate::render::Report as _;
use crate::render::reloaded::Reloaded;

/// Reloads the configuration of the running gateway, all of it or nothing
#[derive(Debug, Args)]
pub struct Reload {
    #[command(flatten)]
    connection: Connection,
    /// End the live edits that do not apply to the configuration, though more packets may pass without them
    #[arg(long)]
    drop_changes: bool,
    /// Write what changed, or the findings, as JSON
    #[arg(long)]
    json: bool,
}

impl Reload {
    pub(super) fn run(&self) -> Result<(), Error> {
        let client = self.connection.client();
        let colour = colour(std::io::stderr().is_terminal());
        let answer = client.post("/v1/reload", &ReloadRequest { colour, drop_changes: self.drop_changes });
        if let Some(refusal) = answer.as_ref().err().and_then(|error| error.invalid_configuration()) {
            // As `weir check` does.
            match &refusal.check {
                Some(check) if self.json => print(&format!("{check}\n"))?,
                _ => {
                    let _ = std::io::stderr().write_all(refusal.findings.as_bytes());
                }
            }
        }
        if let Some(refusal) = answer.as_ref().err().and_then(|error| error.edits_lost()) {
            for problem in &refusal.problems {
                let _ = writeln!(std::io::stderr(), "! {problem}");
            }
        }
        let json = answer?;
        if self.json {
            return print(&json);
        }
        let reloaded: Reloaded = client.read(&json)?;
        if let Some(warnings) = &reloaded.warnings {
            let _ = std::io::stderr().write_all(warnings.text.as_bytes());
        }
        print(&reloaded.text())
    }
}
