//! Commands that change an ordered list of rules while the gateway runs. Each call is one batch: all of it happens, or nothing.

use clap::{Args, Subcommand};

use super::acl::{Place, deletions};
use super::edit::{self, Live, Source, Whole, path_of, rules_of};
use super::error::Error;
use super::output::print;
use crate::control::acl::{Change, Replace};
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
    live: Live,
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
        /// The rules at these places, from 1, as they are before any of them goes: `--at 1 3`
        #[arg(long, num_args = 1.., value_delimiter = ',', conflicts_with = "ids", value_name = "N",
            value_parser = clap::value_parser!(u32).range(1..))]
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
        #[command(flatten)]
        whole: Whole,
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
            let (all, json) = client.show::<Steers>(&path_of("show/steer", list))?;
            Ok((all.steer.into_iter().flat_map(|own| own.rules).map(|own| own.rule).collect(), json))
        })
    }
}

impl List {
    /// Runs the command for a kind of list, the name of its path. `rules` returns the rules of a list, and the report that has
    /// them as JSON.
    fn run<R: edit::Changed>(
        &self,
        kind: &str,
        rules: impl Fn(&Client, &str) -> Result<(Vec<String>, String), Error>,
    ) -> Result<(), Error> {
        let editor = self.live.editor();
        let path = |list: &str| path_of(kind, list);
        let batch = |list: &str, source: &Source, changes| editor.batch::<R>(&path(list), source, changes);
        match &self.what {
            What::List { list } => {
                let (rules, json) = rules(&editor.client, list)?;
                if editor.json {
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
            What::Replace { list, whole } => editor.replace::<R>(&path(list), whole),
        }
    }
}
