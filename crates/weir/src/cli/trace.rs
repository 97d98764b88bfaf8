//! `weir trace`: which packets to follow through the graph.

use clap::{Args, Subcommand};

use super::connection::Connection;
use super::error::Error;
use crate::control::TraceRequest;

/// Traces packets through the graph of a running gateway
#[derive(Debug, Args)]
pub struct Trace {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    connection: Connection,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Traces the next packets that reach a node, and ends an earlier trace; `weir show trace` shows them
    Add {
        /// The node, as `weir show runtime --all` names it
        node: String,
        /// How many packets
        #[arg(value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        count: u32,
        /// Only packets that this filter matches: a rule of an access list without its action, such as `tcp to any port 443`
        #[arg(long = "match", value_name = "FILTER")]
        filter: Option<String>,
    },
}

impl Trace {
    pub(super) fn run(self) -> Result<(), Error> {
        let What::Add { node, count, filter } = self.what;
        if let Some(filter) = &filter {
            crate::control::parse_filter(filter).map_err(Error::Usage)?;
        }
        self.connection.client().post("/v1/trace", &TraceRequest { node, count, filter })?;
        Ok(())
    }
}
