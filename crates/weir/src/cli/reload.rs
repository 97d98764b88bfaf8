//! `weir reload`: the running gateway reads its configuration again.

use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use clap::Args;

use super::connection::Connection;
use super::error::Error;
use super::output::{colour, print};
use crate::control::ReloadRequest;
use crate::control::server::LONGEST_CONFIRM;
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
    /// Go back to the configuration in force after this time, such as `5m`, unless `weir confirm` comes before
    #[arg(long, value_name = "TIME", value_parser = time)]
    confirm: Option<Duration>,
    /// Write what changed, or the findings, as JSON
    #[arg(long)]
    json: bool,
}

/// A time of whole seconds that a reload may wait.
fn time(text: &str) -> Result<Duration, String> {
    let time = humantime::parse_duration(text).map_err(|error| format!("{error}: write a time such as `5m`"))?;
    match time.as_secs() {
        1..=LONGEST_CONFIRM => Ok(Duration::from_secs(time.as_secs())),
        _ => Err("a reload waits for 1 second to 7 days".to_owned()),
    }
}

impl Reload {
    fn request(&self, colour: bool) -> ReloadRequest {
        ReloadRequest { colour, drop_changes: self.drop_changes, confirm: self.confirm.map(|time| time.as_secs()) }
    }

    pub(super) fn run(&self) -> Result<(), Error> {
        let client = self.connection.client();
        let colour = colour(std::io::stderr().is_terminal());
        let answer = client.post("/v1/reload", &self.request(colour));
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
