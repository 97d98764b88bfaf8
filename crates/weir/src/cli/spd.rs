//! `weir spd`: rules of security policy databases, while the gateway runs. Each call is one batch: all of it happens, or nothing.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::connection::Connection;
use super::error::Error;
use super::output::print;
use super::query::{escaped, target};
use super::teller::{Source, Teller, rules_of, source_name};
use super::text::Input;
use crate::control::acl::{BatchRequest, Change, Insert, Replace, Which};
use crate::render::Report as _;
use crate::render::ipsec_changed::{SpdChanged, SpdRules};

/// Changes the SPDs of a running gateway
#[derive(Debug, Args)]
pub struct Spd {
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
    /// Prints the rules of an SPD in the order of their places, one a line, as they can be read again
    List {
        /// The SPD
        spd: String,
    },
    /// Inserts rules into an SPD: behind all others, unless an option names the place
    Insert {
        /// The SPD
        spd: String,
        /// Rules, each in quotes: `'protect ip4 from 10.1.0.0/24 to 10.2.0.0/24 sa b'`; a single one may be several words
        #[arg(required = true, num_args = 1.., value_name = "RULE")]
        rules: Vec<String>,
        /// So that the first of them has the place N
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        at: Option<u32>,
        #[command(flatten)]
        source: Source,
    },
    /// Deletes rules of an SPD
    Delete {
        /// The SPD
        spd: String,
        /// Their places, from 1, as `weir spd list` prints them
        #[arg(required = true, num_args = 1.., value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        places: Vec<u32>,
        #[command(flatten)]
        source: Source,
    },
    /// Puts rules in the place of another
    Change {
        /// The SPD
        spd: String,
        /// The place of the rule to replace, from 1
        #[arg(value_parser = clap::value_parser!(u32).range(1..))]
        place: u32,
        /// Rules, each in quotes; a single one may be several words
        #[arg(required = true, num_args = 1.., value_name = "RULE")]
        rules: Vec<String>,
        #[command(flatten)]
        source: Source,
    },
    /// Replaces all rules of an SPD by those of a file; unchanged rules keep their counters
    Replace {
        /// The SPD
        spd: String,
        /// Rules, one a line, each with a line end; `-`: those on standard input
        file: PathBuf,
        /// The file may have no rule: then the SPD loses all of its own
        #[arg(long)]
        allow_empty: bool,
        /// The source that the rules belong to [default: the file's name, or `api`]
        #[arg(long, value_name = "NAME", value_parser = source_name)]
        source: Option<String>,
    },
    /// Takes all changes back: the rules are those of the configuration again
    Reset {
        /// The SPD
        spd: String,
        #[command(flatten)]
        source: Source,
    },
}

impl Spd {
    pub(super) fn run(&self) -> Result<(), Error> {
        let teller = Teller { client: self.connection.client(), json: self.json };
        match &self.what {
            What::List { spd } => {
                let (rules, json) = teller.client.show::<SpdRules>(&path(spd))?;
                if self.json { print(&json) } else { print(&rules.text()) }
            }
            What::Insert { spd, rules, at, source } => {
                let rules = rules_of(rules).join("\n");
                let insert = Insert { rules, at: at.map(|at| at as usize), ..Insert::default() };
                batch(&teller, spd, source, vec![Change::Insert(insert)])
            }
            What::Delete { spd, places, source } => {
                let mut places = places.clone();
                // From behind, so that each place is still that of its rule.
                places.sort_unstable_by(|one, other| other.cmp(one));
                places.dedup();
                let delete = |place: u32| Change::Delete(Which { id: None, at: Some(place as usize) });
                batch(&teller, spd, source, places.into_iter().map(delete).collect())
            }
            What::Change { spd, place, rules, source } => {
                let rules = rules_of(rules).join("\n");
                let change = Change::Replace(Replace { rules, id: None, at: Some(*place as usize) });
                batch(&teller, spd, source, vec![change])
            }
            What::Replace { spd, file, allow_empty, source } => {
                let input = Input::of(file);
                let source = source.clone().map_or_else(|| input.source(), Ok)?;
                let text = input.read_whole(true)?;
                let query = [("source", Some(source)), ("allow-empty", allow_empty.then(|| "true".to_owned()))];
                let answer = teller.client.put(&target(&path(spd), query), "text/plain", text);
                teller.tell::<SpdChanged>(answer, Some(input))
            }
            What::Reset { spd, source } => {
                let path = target(&path(spd), [("source", Some(source.name.clone()))]);
                teller.tell::<SpdChanged>(teller.client.delete(&path), None)
            }
        }
    }
}

fn path(spd: &str) -> String {
    format!("/v1/spd/{}", escaped(spd))
}

fn batch(teller: &Teller, spd: &str, source: &Source, changes: Vec<Change>) -> Result<(), Error> {
    let order = BatchRequest { source: source.name.clone(), changes };
    teller.tell::<SpdChanged>(teller.client.post(&format!("{}/changes", path(spd)), &order), None)
}
