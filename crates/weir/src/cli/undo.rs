//! `weir undo` and `weir confirm`: changes of a running gateway that are taken back, or stay.

use clap::Args;

use super::connection::Connection;
use super::error::Error;
use super::output::print;
use crate::control::UndoRequest;
use crate::render::Report as _;
use crate::render::history::{Confirmed, History, Undone};

/// Takes back the last changes of a running gateway, all of them or none
#[derive(Debug, Args)]
pub struct Undo {
    #[command(flatten)]
    connection: Connection,
    /// How many changes, the last one first
    #[arg(default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    count: u32,
    /// List the changes that can be taken back
    #[arg(long, conflicts_with = "count")]
    list: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

impl Undo {
    pub(super) fn run(&self) -> Result<(), Error> {
        let client = self.connection.client();
        if self.list {
            let (history, json) = client.show::<History>("/v1/undo")?;
            return print(&if self.json { json } else { history.text() });
        }
        let json = client.post("/v1/undo", &UndoRequest { count: self.count as usize })?;
        let undone: Undone = client.read(&json)?;
        print(&if self.json { json } else { undone.text() })
    }
}

/// Confirms a reload that goes back by itself otherwise
#[derive(Debug, Args)]
pub struct Confirm {
    #[command(flatten)]
    connection: Connection,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

impl Confirm {
    pub(super) fn run(&self) -> Result<(), Error> {
        let client = self.connection.client();
        let json = client.post("/v1/confirm", &serde_json::json!({}))?;
        let confirmed: Confirmed = client.read(&json)?;
        print(&if self.json { json } else { confirmed.text() })
    }
}
