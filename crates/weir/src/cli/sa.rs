//! `weir sa`: pairs of SAs, while the gateway runs. The gateway reads keys from key files, and from nowhere else; `--key -` writes
//! these files first.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::edit::{Editor, Live, Source, path_of};
use super::error::Error;
use super::key_input::{KeySource, MadeKeys};
use super::query::target;
use super::text::Input;
use crate::control::client::ClientError;
use crate::control::ipsec::SaAction;
use crate::render::ipsec_changed::SaChanged;

/// Changes the pairs of SAs of a running gateway
#[derive(Debug, Args)]
pub struct Sa {
    #[command(subcommand)]
    what: What,
    #[command(flatten)]
    live: Live,
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
    /// Write new key files first, from the lines of standard input: the key of `out`, then that of `in`
    #[arg(long, value_name = "-")]
    key: Option<KeySource>,
    #[command(flatten)]
    source: Source,
}

impl Sa {
    pub(super) fn run(&self) -> Result<(), Error> {
        let editor = self.live.editor();
        let act = |name: &str, action: SaAction, source: &Source| {
            let action = match action {
                SaAction::Rekey => "rekey",
                SaAction::Switch => "switch",
                SaAction::Finish => "finish",
            };
            target(&format!("{}/{action}", path_of("sa", name)), [("source", Some(source.name.clone()))])
        };
        match &self.what {
            What::Add(own) => self.put(&editor, own, &whole(own, "new")),
            What::Update(own) => self.put(&editor, own, &whole(own, "existing")),
            What::Delete { sa, source } => {
                let path = target(&path_of("sa", sa), [("source", Some(source.name.clone()))]);
                editor.report::<SaChanged>(editor.client.delete(&path), None)
            }
            What::Rekey(own) => self.put(&editor, own, &act(&own.sa, SaAction::Rekey, &own.source)),
            What::Switch { sa, source } => {
                let path = act(sa, SaAction::Switch, source);
                editor.report::<SaChanged>(editor.client.put(&path, "text/plain", String::new()), None)
            }
            What::Finish { sa, source } => {
                let path = act(sa, SaAction::Finish, source);
                editor.report::<SaChanged>(editor.client.put(&path, "text/plain", String::new()), None)
            }
        }
    }

    /// Sends the declaration of a pair, after its key files were written if they come from standard input.
    fn put(&self, editor: &Editor, own: &Declared, path: &str) -> Result<(), Error> {
        if own.key.is_some() && own.file.as_os_str() == "-" {
            let message = "FILE and --key cannot both be standard input: write the declaration into a file";
            return Err(Error::Usage(message.to_owned()));
        }
        let text = Input::of(&own.file).read_whole(false)?;
        let keys = match own.key {
            Some(KeySource::Standard) => MadeKeys::read(&text, &self.live.connection.socket())?,
            None => MadeKeys::default(),
        };
        let answer = editor.client.put(path, "application/toml", text);
        if matches!(
            answer,
            Ok(_) | Err(ClientError::Late { .. } | ClientError::Answer { .. } | ClientError::Ended { .. })
        ) {
            keys.keep();
        }
        editor.report::<SaChanged>(answer, None)
    }
}

/// Returns the request that puts a pair.
fn whole(own: &Declared, expect: &str) -> String {
    let query = [("source", Some(own.source.name.clone())), ("expect", Some(expect.to_owned()))];
    target(&path_of("sa", &own.sa), query)
}
