//! `weir clear`: counters back to zero, and the end of sessions and translations.

use clap::Args;

use super::connection::Connection;
use super::error::Error;
use super::output::print;
use super::query;
use crate::control::{Clear as What, ClearRequest};
use crate::render::Report;
use crate::render::bridges::Forgotten;
use crate::render::flows::Cleared;

/// Clears the counters of a running gateway, or ends sessions or translations
#[derive(Debug, Args)]
pub struct Clear {
    /// Counters or entries to clear
    #[arg(value_enum)]
    what: What,
    /// For bridge, sa and tunnels: the name of one. For flows and nat: a rule of an access list without its action, to end only the sessions or translations that it
    /// matches
    #[arg(value_name = "FILTER")]
    filter: Vec<String>,
    /// Write JSON: how many sessions or translations ended, or stations were forgotten
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Clear {
    pub(super) fn run(&self) -> Result<(), Error> {
        let filter = match (self.what, &*self.filter) {
            (what, []) if what.takes_name() => None,
            (what, [name]) if what.takes_name() => Some(name.clone()),
            (what, _) if what.takes_name() => {
                return Err(Error::Usage("give one name, or none for all".to_owned()));
            }
            (_, words) => query::filter(words)?,
        };
        let client = self.connection.client();
        let answer = client.post("/v1/clear", &ClearRequest { what: self.what, filter })?;
        if self.json && !answer.is_empty() {
            return print(&answer);
        }
        match self.what {
            What::Flows => print(&client.read::<Cleared>(&answer)?.text()),
            What::Nat => print(&client.read::<Cleared>(&answer)?.named("translation")),
            What::Bridge => print(&client.read::<Forgotten>(&answer)?.text()),
            _ => Ok(()),
        }
    }
}
