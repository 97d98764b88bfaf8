//! `weir nat`: rules that translate, while the gateway runs. Each call is one batch: all of it happens, or nothing.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::acl::{Place, deletions};
use super::connection::Connection;
use super::error::Error;
use super::output::print;
use super::query::{escaped, target};
use super::teller::{Source, Teller, rules_of, source_name};
use super::text::Input;
use crate::control::acl::{BatchRequest, Change, Replace};
use crate::render::nat::NatRules;
use crate::render::nat_changed::Changed;

/// Changes the NAT rules of a running gateway
#[derive(Debug, Args)]
pub struct Nat {
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
    /// Prints the rules of a list, one a line, as they can be read again
    List {
        /// The list
        list: String,
    },
    /// Inserts rules into a list: behind all others, unless an option names the place
    Insert {
        /// The list
        list: String,
        /// Rules, each in quotes: `'source ip4 from 10.0.0.0/8 to any as interface'`; a single one may be several words
        #[arg(required = true, num_args = 1.., value_name = "RULE")]
        rules: Vec<String>,
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        source: Source,
    },
    /// Deletes rules of a list
    Delete {
        /// The list
        list: String,
        /// Their ids, as `weir show nat rules` shows them
        #[arg(required_unless_present = "at", num_args = 1.., value_name = "ID")]
        ids: Vec<u32>,
        /// The rule at this place, from 1; may be given several times
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        at: Vec<u32>,
        #[command(flatten)]
        source: Source,
    },
    /// Puts a rule in the place of another
    Change {
        /// The list
        list: String,
        /// The id of the rule to replace, as `weir show nat rules` shows it
        id: u32,
        /// Rules, each in quotes; a single one may be several words
        #[arg(required = true, num_args = 1.., value_name = "RULE")]
        rules: Vec<String>,
        #[command(flatten)]
        source: Source,
    },
    /// Replaces all rules of a list by those of a file; unchanged rules keep their counters
    Replace {
        /// The list
        list: String,
        /// Rules, one a line, each with a line end; `-`: those on standard input
        file: PathBuf,
        /// The file may have no rule: then the list loses all of its own
        #[arg(long)]
        allow_empty: bool,
        /// The source that the rules belong to [default: the file's name, or `api`]
        #[arg(long, value_name = "NAME", value_parser = source_name)]
        source: Option<String>,
    },
}

impl Nat {
    pub(super) fn run(&self) -> Result<(), Error> {
        let teller = Teller { client: self.connection.client(), json: self.json };
        match &self.what {
            What::List { list } => {
                let (rules, json) = teller.client.show::<NatRules>("/v1/show/nat/rules")?;
                match rules.lists.into_iter().find(|known| known.name == *list) {
                    Some(_) if self.json => print(&json),
                    Some(found) => print(&found.rules.iter().map(|own| own.rule.clone() + "\n").collect::<String>()),
                    None => Err(Error::Failed(format!("there is no list of NAT rules with the name `{list}`"))),
                }
            }
            What::Insert { list, rules, place, source } => {
                batch(&teller, list, source, vec![Change::Insert(place.insert(rules))])
            }
            What::Delete { list, ids, at, source } => batch(&teller, list, source, deletions(ids, at)),
            What::Change { list, id, rules, source } => {
                let rules = rules_of(rules).join("\n");
                batch(&teller, list, source, vec![Change::Replace(Replace { rules, id: Some(*id), at: None })])
            }
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
    format!("/v1/nat/{}", escaped(list))
}

fn batch(teller: &Teller, list: &str, source: &Source, changes: Vec<Change>) -> Result<(), Error> {
    let order = BatchRequest { source: source.name.clone(), changes };
    teller.tell::<Changed>(teller.client.post(&format!("{}/changes", path(list)), &order), None)
}
