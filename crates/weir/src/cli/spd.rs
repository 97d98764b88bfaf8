//! `weir spd`: rules of security policy databases, while the gateway runs. Each call is one batch: all of it happens, or nothing.

use clap::{Args, Subcommand};

use super::acl::deletions;
use super::edit::{Live, Source, Whole, path_of, rules_of};
use super::error::Error;
use super::output::print;
use super::query::target;
use crate::control::acl::{Change, Insert, Replace};
use crate::render::Report as _;
use crate::render::ipsec_changed::{SpdChanged, SpdRules};

/// The kind of object in paths of the control server.
const KIND: &str = "spd";

/// Changes the SPDs of a running gateway
#[derive(Debug, Args)]
pub struct Spd {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    live: Live,
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
        #[command(flatten)]
        whole: Whole,
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
        let editor = self.live.editor();
        let batch =
            |spd: &str, source: &Source, changes| editor.batch::<SpdChanged>(&path_of(KIND, spd), source, changes);
        match &self.what {
            What::List { spd } => {
                let (rules, json) = editor.client.show::<SpdRules>(&path_of(KIND, spd))?;
                if editor.json { print(&json) } else { print(&rules.text()) }
            }
            What::Insert { spd, rules, at, source } => {
                let rules = rules_of(rules).join("\n");
                let insert = Insert { rules, at: at.map(|at| at as usize), ..Insert::default() };
                batch(spd, source, vec![Change::Insert(insert)])
            }
            What::Delete { spd, places, source } => batch(spd, source, deletions(&[], places)),
            What::Change { spd, place, rules, source } => {
                let rules = rules_of(rules).join("\n");
                let change = Change::Replace(Replace { rules, id: None, at: Some(*place as usize) });
                batch(spd, source, vec![change])
            }
            What::Replace { spd, whole } => editor.replace::<SpdChanged>(&path_of(KIND, spd), whole),
            What::Reset { spd, source } => {
                let path = target(&path_of(KIND, spd), [("source", Some(source.name.clone()))]);
                editor.report::<SpdChanged>(editor.client.delete(&path), None)
            }
        }
    }
}
