//! `weir allow`: the prefixes of allowlists, while the gateway runs. Each call is one batch: all of it happens, or nothing.

use clap::{Args, Subcommand};

use super::edit::{Live, Source, Whole, path_of};
use super::error::Error;
use super::output::print;
use crate::control::lists::SetRequest;
use crate::render::Report as _;
use crate::render::allowlist_changed::{Changed, Prefixes};

/// The kind of object in paths of the control server.
const KIND: &str = "allow";

/// Changes the allowlists of a running gateway
#[derive(Debug, Args)]
pub struct Allow {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    live: Live,
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
    /// Replaces all prefixes of a list by those of a file. Interfaces that use an empty list drop all packets
    Replace {
        /// The list
        list: String,
        #[command(flatten)]
        whole: Whole,
    },
}

impl Allow {
    pub(super) fn run(&self) -> Result<(), Error> {
        let editor = self.live.editor();
        let change = |list: &str, source: &Source, insert: &[String], delete: &[String]| {
            let (insert, delete) = (insert.join("\n"), delete.join("\n"));
            let request = SetRequest { source: source.name.clone(), insert, delete };
            let path = format!("{}/changes", path_of(KIND, list));
            editor.report::<Changed>(editor.client.post(&path, &request), None)
        };
        match &self.what {
            What::List { list } => {
                let (prefixes, json) = editor.client.show::<Prefixes>(&path_of(KIND, list))?;
                if editor.json { print(&json) } else { print(&prefixes.text()) }
            }
            What::Insert { list, prefixes, source } => change(list, source, prefixes, &[]),
            What::Delete { list, prefixes, source } => change(list, source, &[], prefixes),
            What::Replace { list, whole } => editor.replace::<Changed>(&path_of(KIND, list), whole),
        }
    }
}
