//! `weir classify`: sessions of classifier tables, while the gateway runs. Each call is one batch: all of it happens, or nothing.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::edit::{Editor, Live, SOURCE, rules_of, source_name};
use super::error::Error;
use super::output::print;
use super::query::{escaped, target};
use super::text::Input;
use crate::render::classify::Classify as Tables;
use crate::render::classify_changed::Changed;

/// Changes the sessions of classifier tables of a running gateway
#[derive(Debug, Args)]
pub struct Classify {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    live: Live,
}

#[derive(Debug, Subcommand)]
enum What {
    /// Prints the sessions of a table, one a line, as they can be read again
    List {
        /// The table
        table: String,
    },
    /// Adds sessions; one with the value of another takes its place
    Add {
        /// The table
        table: String,
        #[command(flatten)]
        sessions: Sessions,
    },
    /// Deletes sessions by their values
    Delete {
        /// The table
        table: String,
        #[command(flatten)]
        sessions: Sessions,
    },
}

#[derive(Debug, Args)]
struct Sessions {
    /// Sessions, each in quotes: `'src 10.7.1.0 proto udp permit'`; a single one may be several words
    #[arg(required_unless_present = "file", num_args = 1.., value_name = "SESSION")]
    sessions: Vec<String>,
    /// Sessions of a file, one a line; `-`: those on standard input
    #[arg(long, value_name = "FILE", conflicts_with = "sessions")]
    file: Option<PathBuf>,
    /// The source that the sessions belong to [default: the file's name, or `api`]
    #[arg(long, value_name = "NAME", value_parser = source_name)]
    source: Option<String>,
}

impl Classify {
    pub(super) fn run(&self) -> Result<(), Error> {
        let editor = self.live.editor();
        match &self.what {
            What::List { table } => {
                let path = format!("/v1/show/classify/{}", escaped(table));
                let all = target(&path, [("limit", Some(usize::MAX.to_string()))]);
                let (shown, json) = editor.client.show::<Tables>(&all)?;
                if editor.json {
                    return print(&json);
                }
                let rows = shown.tables.into_iter().flat_map(|table| table.rows.unwrap_or_default());
                print(&rows.map(|row| row.session + "\n").collect::<String>())
            }
            What::Add { table, sessions } => sessions.send(&editor, table, "sessions"),
            What::Delete { table, sessions } => sessions.send(&editor, table, "delete"),
        }
    }
}

impl Sessions {
    fn send(&self, editor: &Editor, table: &str, what: &str) -> Result<(), Error> {
        let input = self.file.as_deref().map(Input::of);
        let (text, source) = match input {
            Some(input) => (input.read_whole(true)?, self.source.clone().map_or_else(|| input.source(), Ok)?),
            None => {
                let source = self.source.clone().unwrap_or_else(|| SOURCE.to_owned());
                (rules_of(&self.sessions).join("\n") + "\n", source)
            }
        };
        let path = format!("/v1/classify/{}/{what}", escaped(table));
        let answer = editor.client.put(&target(&path, [("source", Some(source))]), "text/plain", text);
        editor.report::<Changed>(answer, input)
    }
}
