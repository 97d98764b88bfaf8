//! Commands that change an ordered list of rules while the gateway runs. Each call is one batch: all of it happens, or nothing.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::acl::{Place, deletions};
use super::connection::Connection;
use super::error::Error;
use super::output::print;
use super::query::{escaped, target};
use super::teller::{self, Source, Teller, rules_of, source_name};
use super::text::Input;
use crate::control::acl::{BatchRequest, Change, Replace};
use crate::control::client::Client;
use crate::render::binding_changed;
use crate::render::bindings::Bindings;
use crate::render::nat::NatRules;
use crate::render::nat_changed::Changed;
use crate::render::steer::Steers;
use crate::render::steer_changed;

/// Changes the NAT rules of a running gateway
#[derive(Debug, Args)]
pub struct Nat {
    #[command(flatten)]
    list: List,
}

/// Changes the bindings of hardware addresses of a running gateway
#[derive(Debug, Args)]
pub struct Binding {
    #[command(flatten)]
    list: List,
}

/// Changes the steer rules of a running gateway
#[derive(Debug, Args)]
pub struct Steer {
    #[command(flatten)]
    list: List,
}

#[derive(Debug, Args)]
struct List {
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
        /// Rules, each in quotes; a single one may be several words
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
        /// Their ids, as `weir show nat rules`, `weir show bindings` and `weir show steer` show them
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
        /// The id of the rule to replace, as `weir show nat rules`, `weir show bindings` and `weir show steer` show it
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
        self.list.run::<Changed>("nat", |client, list| {
            let (rules, json) = client.show::<NatRules>("/v1/show/nat/rules")?;
            let found = rules.lists.into_iter().find(|known| known.name == list);
            let missing = || Error::Failed(format!("there is no list of NAT rules with the name `{list}`"));
            Ok((found.ok_or_else(missing)?.rules.into_iter().map(|own| own.rule).collect(), json))
        })
    }
}

impl Binding {
    pub(super) fn run(&self) -> Result<(), Error> {
        self.list.run::<binding_changed::Changed>("binding", |client, list| {
            let (all, json) = client.show::<Bindings>("/v1/show/bindings")?;
            let found = all.bindings.into_iter().find(|known| known.name == list);
            let missing = || Error::Failed(format!("there is no list of bindings with the name `{list}`"));
            Ok((found.ok_or_else(missing)?.rules.into_iter().map(|own| own.rule).collect(), json))
        })
    }
}

impl Steer {
    pub(super) fn run(&self) -> Result<(), Error> {
        self.list.run::<steer_changed::Changed>("steer", |client, list| {
            let (all, json) = client.show::<Steers>(&format!("/v1/show/steer/{}", escaped(list)))?;
            Ok((all.steer.into_iter().flat_map(|own| own.rules).map(|own| own.rule).collect(), json))
        })
    }
}

impl List {
    /// Runs the command for a kind of list, the name of its path. `rules` returns the rules of a list, and the report that has
    /// them as JSON.
    fn run<R: teller::Changed>(
        &self,
        kind: &str,
        rules: impl Fn(&Client, &str) -> Result<(Vec<String>, String), Error>,
    ) -> Result<(), Error> {
        let teller = Teller { client: self.connection.client(), json: self.json };
        let path = |list: &str| format!("/v1/{kind}/{}", escaped(list));
        let batch = |list: &str, source: &Source, changes: Vec<Change>| {
            let order = BatchRequest { source: source.name.clone(), changes };
            teller.tell::<R>(teller.client.post(&format!("{}/changes", path(list)), &order), None)
        };
        match &self.what {
            What::List { list } => {
                let (rules, json) = rules(&teller.client, list)?;
                if self.json {
                    return print(&json);
                }
                print(&rules.into_iter().map(|rule| rule + "\n").collect::<String>())
            }
            What::Insert { list, rules, place, source } => {
                batch(list, source, vec![Change::Insert(place.insert(rules))])
            }
            What::Delete { list, ids, at, source } => batch(list, source, deletions(ids, at)),
            What::Change { list, id, rules, source } => {
                let rules = rules_of(rules).join("\n");
                batch(list, source, vec![Change::Replace(Replace { rules, id: Some(*id), at: None })])
            }
            What::Replace { list, file, allow_empty, source } => {
                let input = Input::of(file);
                let source = source.clone().map_or_else(|| input.source(), Ok)?;
                let text = input.read_whole(true)?;
                let query = [("source", Some(source)), ("allow-empty", allow_empty.then(|| "true".to_owned()))];
                let answer = teller.client.put(&target(&path(list), query), "text/plain", text);
                teller.tell::<R>(answer, Some(input))
            }
        }
    }
}
