//! `weir clear`: counters back to zero.

use clap::Args;

use super::connection::Connection;
use super::error::Error;
use crate::control::{Clear as What, ClearRequest};

/// Clears the counters of a running gateway
#[derive(Debug, Args)]
pub struct Clear {
    /// What to clear
    #[arg(value_enum)]
    what: What,
    #[command(flatten)]
    connection: Connection,
}

impl Clear {
    pub(super) fn run(&self) -> Result<(), Error> {
        self.connection.client().post("/v1/clear", &ClearRequest { what: self.what })?;
        Ok(())
    }
}
