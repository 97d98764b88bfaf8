//! `weir allow`: the prefixes of allowlists, while the gateway runs. Each call is one batch: all of it happens, or nothing.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::connection::Connection;
use super::error::Error;
use super::output::print;
use super::query::{escaped, target};
use super::teller::{Source, Teller, source_name};
use super::text::Input;
use crate::control::lists::SetRequest;
use crate::render::Report as _;
use crate::render::allowlist_changed::{Changed, Prefixes};

/// Changes the allowlists of a running gateway
#[derive(Debug, Args)]
pub struct Allow {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    connection: Connection,
    /// Write JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Prints the prefixes of a list, one a line, as they can be read again
    List {
        /// The list
        list: String,
    },
    /// Inserts prefixes into a list
    Insert {
        /// The list
        list: String,
        /// The prefixes
        #[arg(required = true, num_args = 1.., value_name = "PREFIX")]
        prefixes: Vec<String>,
        #[command(flatten)]
        source: Source,
    },
    /// Deletes prefixes of a list
    Delete {
        /// The list
        list: String,
        /// The prefixes
        #[arg(required = true, num_args = 1.., value_name = "PREFIX")]
        prefixes: Vec<String>,
        #[command(flatten)]
        source: Source,
    },
    /// Replaces all prefixes of a list by those of a file
    Replace {
        /// The list
        list: String,
        /// Prefixes, one a line, each with a line end; `-`: those on standard input
        file: PathBuf,
        /// The file may have no prefix: then interfaces that use the list drop all packets
        #[arg(long)]
        allow_empty: bool,
        /// The source that the prefixes belong to [default: the file's name, or `api`]
        #[arg(long, value_name = "NAME", value_parser = source_name)]
        source: Option<String>,
    },
}

impl Allow {
    pub(super) fn run(&self) -> Result<(), Error> {
        let teller = Teller { client: self.connection.client(), json: self.json };
        let change = |list: &str, source: &Source, insert: &[String], delete: &[String]| {
            let (insert, delete) = (insert.join("\n"), delete.join("\n"));
            let request = SetRequest { source: source.name.clone(), insert, delete };
            teller.tell::<Changed>(teller.client.post(&format!("{}/changes", path(list)), &request), None)
        };
        match &self.what {
            What::List { list } => {
                let (prefixes, json) = teller.client.show::<Prefixes>(&path(list))?;
                if self.json { print(&json) } else { print(&prefixes.text()) }
            }
            What::Insert { list, prefixes, source } => change(list, source, prefixes, &[]),
            What::Delete { list, prefixes, source } => change(list, source, &[], prefixes),
            What::Replace { list, file, allow_empty, source } => {
                let input = Input::of(file);
                let source = source.clone().map_or_else(|| input.source(), Ok)?;
                let text = input.read_whole(true)?;
                let query = [("source", Some(source)), ("allow-empty", allow_empty.then(|| "true".to_owned()))];
                let answer = teller.client.put(&target(&path(list), query), "text/plain", text);
                teller.tell::<Changed>(answer, Some(input))
            }
        }
    }
}

fn path(list: &str) -> String {
    format!("/v1/allow/{}", escaped(list))
}
