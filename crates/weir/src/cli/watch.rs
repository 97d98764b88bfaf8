//! `weir watch`: events of a running gateway, as they come.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Args, Command, ValueEnum as _};

use super::connection::Connection;
use super::error::Error;
use super::output::print;
use super::query::{filter, target};
use crate::events::Kind;
use crate::render::event::Event;
use crate::render::{self, Report as _};

/// Prints the events of a running gateway as they come, until it ends or Ctrl-C
#[derive(Debug, Args)]
pub struct Watch {
    #[command(flatten)]
    connection: Connection,
    /// Only events of these kinds. Behind `session` stands a filter, such as `tcp from 10.0.0.0/8 to any port 443`
    #[arg(value_name = "KIND", value_parser = Words)]
    words: Vec<String>,
    /// Write each event as a line of JSON
    #[arg(long)]
    json: bool,
}

/// Kinds, and the words of a filter behind them.
#[derive(Clone)]
struct Words;

impl TypedValueParser for Words {
    type Value = String;

    fn parse_ref(&self, command: &Command, argument: Option<&Arg>, value: &OsStr) -> Result<String, clap::Error> {
        clap::builder::StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(Kind::value_variants().iter().filter_map(Kind::to_possible_value)))
    }
}

/// Reads kinds, and the filter of sessions behind them.
///
/// # Errors
/// When a word is no kind and does not begin a filter, or the filter is not understood.
fn wanted(words: &[String]) -> Result<(Vec<Kind>, Option<String>), Error> {
    let kinds: Vec<Kind> = words.iter().map_while(|word| Kind::from_str(word, false).ok()).collect();
    let rest = &words[kinds.len()..];
    match rest.first() {
        Some(word) if kinds.last() != Some(&Kind::Session) => {
            let names: Vec<&str> = Kind::value_variants().iter().map(|kind| kind.name()).collect();
            let names = names.join(", ");
            Err(Error::Usage(format!(
                "there is no kind of event `{word}`: there are {names}; a filter stands behind `session`"
            )))
        }
        _ => Ok((kinds, filter(rest)?)),
    }
}

impl Watch {
    pub(super) fn run(&self) -> Result<(), Error> {
        let (kinds, sessions) = wanted(&self.words)?;
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        let kinds = (!kinds.is_empty()).then(|| kinds.join(","));
        let client = self.connection.client();
        client.follow(&target("/v1/watch", [("kinds", kinds), ("sessions", sessions)]), |line| {
            if self.json {
                return print(&format!("{line}\n"));
            }
            let event: Event = render::read(line).map_err(|error| Error::Failed(error.to_string()))?;
            print(&event.text())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_before_the_filter_of_sessions() {
        let wanted = |line: &str| wanted(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(wanted("").unwrap(), (vec![], None));
        assert_eq!(wanted("link session").unwrap(), (vec![Kind::Link, Kind::Session], None));
        let (kinds, filter) = wanted("link session tcp to any port 443").unwrap();
        assert_eq!((kinds, filter.as_deref()), (vec![Kind::Link, Kind::Session], Some("tcp to any port 443")));
        for (line, message) in [
            ("session link tcp", "there is no kind of event `tcp`: there are link, "),
            ("links", "there is no kind of event `links`"),
            ("session tcp from nowhere", "the filter is not understood"),
        ] {
            let refused = wanted(line).expect_err(line).to_string();
            assert!(refused.contains(message), "{refused}");
        }
    }
}
