//! `weir sa`: pairs of SAs, while the gateway runs. Keys come from files that the gateway reads, and from nowhere else.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::connection::Connection;
use super::error::Error;
use super::query::{escaped, target};
use super::teller::{Source, Teller};
use super::text::Input;
use crate::control::ipsec::SaAction;
use crate::render::ipsec_changed::SaChanged;

/// Changes the pairs of SAs of a running gateway
#[derive(Debug, Args)]
pub struct Sa {
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
    /// Adds a pair
    Add(Declared),
    /// Gives a pair that was added other keys of the configuration
    Update(Declared),
    /// Deletes a pair that was added and that no rule names
    Delete {
        /// The pair
        #[arg(value_name = "NAME")]
        sa: String,
        #[command(flatten)]
        source: Source,
    },
    /// Puts a new pair in the place of one that was added, without a loss: at first both receive and the old one sends
    Rekey(Declared),
    /// Has the new pair of a rekey send now; else it does once the peer's first packet has come
    Switch {
        /// The pair
        #[arg(value_name = "NAME")]
        sa: String,
        #[command(flatten)]
        source: Source,
    },
    /// Ends a rekey now: the old pair goes; else it does 30 s after the new one began to send
    Finish {
        /// The pair
        #[arg(value_name = "NAME")]
        sa: String,
        #[command(flatten)]
        source: Source,
    },
}

/// A pair and its declaration.
#[derive(Debug, Args)]
struct Declared {
    /// The pair
    #[arg(value_name = "NAME")]
    sa: String,
    /// A file with the keys of `[sa.NAME]`, as the configuration has them; `-`: standard input
    file: PathBuf,
    #[command(flatten)]
    source: Source,
}

impl Sa {
    pub(super) fn run(&self) -> Result<(), Error> {
        let teller = Teller { client: self.connection.client(), json: self.json };
        let act = |name: &str, action: SaAction, source: &Source| {
            let action = match action {
                SaAction::Rekey => "rekey",
                SaAction::Switch => "switch",
                SaAction::Finish => "finish",
            };
            target(&format!("/v1/sa/{}/{action}", escaped(name)), [("source", Some(source.name.clone()))])
        };
        match &self.what {
            What::Add(own) => put(&teller, own, "new"),
            What::Update(own) => put(&teller, own, "existing"),
            What::Delete { sa, source } => {
                let path = target(&format!("/v1/sa/{}", escaped(sa)), [("source", Some(source.name.clone()))]);
                teller.tell::<SaChanged>(teller.client.delete(&path), None)
            }
            What::Rekey(own) => {
                let text = Input::of(&own.file).read_whole(false)?;
                let path = act(&own.sa, SaAction::Rekey, &own.source);
                teller.tell::<SaChanged>(teller.client.put(&path, "application/toml", text), None)
            }
            What::Switch { sa, source } => {
                let path = act(sa, SaAction::Switch, source);
                teller.tell::<SaChanged>(teller.client.put(&path, "text/plain", String::new()), None)
            }
            What::Finish { sa, source } => {
                let path = act(sa, SaAction::Finish, source);
                teller.tell::<SaChanged>(teller.client.put(&path, "text/plain", String::new()), None)
            }
        }
    }
}

fn put(teller: &Teller, own: &Declared, expect: &str) -> Result<(), Error> {
    let text = Input::of(&own.file).read_whole(false)?;
    let query = [("source", Some(own.source.name.clone())), ("expect", Some(expect.to_owned()))];
    let path = target(&format!("/v1/sa/{}", escaped(&own.sa)), query);
    teller.tell::<SaChanged>(teller.client.put(&path, "application/toml", text), None)
}
