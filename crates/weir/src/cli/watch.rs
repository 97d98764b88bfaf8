//! `weir watch`: events of a running gateway, as they come.

use clap::Args;

use super::connection::Connection;
use super::error::Error;
use super::output::print;
use super::query::target;
use crate::events::Kind;
use crate::render::event::Event;
use crate::render::{self, Report as _};

/// Prints the events of a running gateway as they come, until it ends or Ctrl-C
#[derive(Debug, Args)]
pub struct Watch {
    #[command(flatten)]
    connection: Connection,
    /// Only events of these kinds
    #[arg(value_enum, value_name = "KIND")]
    kinds: Vec<Kind>,
    /// Write each event as a line of JSON
    #[arg(long)]
    json: bool,
}

impl Watch {
    pub(super) fn run(&self) -> Result<(), Error> {
        let kinds: Vec<&str> = self.kinds.iter().map(|kind| kind.name()).collect();
        let kinds = (!kinds.is_empty()).then(|| kinds.join(","));
        let client = self.connection.client();
        client.follow(&target("/v1/watch", [("kinds", kinds)]), |line| {
            if self.json {
                return print(&format!("{line}\n"));
            }
            let event: Event = render::read(line).map_err(|error| Error::Failed(error.to_string()))?;
            print(&event.text())
        })
    }
}
