//! `show captures`: captures that run, and the last that ended.

use serde::{Deserialize, Serialize};

use super::Report;
use super::table::{Align, Table};

/// The captures, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captures {
    /// Each capture.
    pub captures: Vec<Row>,
}

/// A capture.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Row {
    /// Its number.
    pub number: u64,
    /// It runs, or has ended.
    pub state: State,
    /// The packets that are wanted; `None`: any.
    #[serde(rename = "match")]
    pub filter: Option<String>,
    /// The interface; `None`: any.
    pub interface: Option<String>,
    /// The direction; `None`: both.
    pub direction: Option<Direction>,
    /// Packets that the client got.
    pub packets: u64,
    /// Packets that were wanted.
    pub matched: u64,
    /// Of these, packets that were not copied, as no buffer was free.
    pub no_room: u64,
    /// Of these, packets that were not copied because of the limit on packets per second.
    pub over_rate: u64,
}

/// Whether a capture runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// It runs.
    Running,
    /// It has ended.
    Ended,
}

/// Directions of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// Packets that come in
    In,
    /// Packets that leave
    Out,
}

impl Report for Captures {
    const SCHEMA: &'static str = "weir.show.captures/1";

    fn text(&self) -> String {
        if self.captures.is_empty() {
            return "no captures\n".to_owned();
        }
        let mut table = Table::new(&[
            ("Capture", Align::Right),
            ("State", Align::Left),
            ("Interface", Align::Left),
            ("Packets", Align::Right),
            ("Matched", Align::Right),
            ("No room", Align::Right),
            ("Over rate", Align::Right),
            ("Match", Align::Left),
        ]);
        for row in &self.captures {
            let state = match row.state {
                State::Running => "running",
                State::Ended => "ended",
            };
            let interface = row.interface.as_deref().unwrap_or("any");
            let interface = match row.direction {
                None => interface.to_owned(),
                Some(Direction::In) => format!("{interface}, in"),
                Some(Direction::Out) => format!("{interface}, out"),
            };
            table.row([
                row.number.to_string(),
                state.to_owned(),
                interface,
                row.packets.to_string(),
                row.matched.to_string(),
                row.no_room.to_string(),
                row.over_rate.to_string(),
                row.filter.clone().unwrap_or_else(|| "any".to_owned()),
            ]);
        }
        table.text()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read};
    use super::*;

    #[test]
    fn table_and_json() {
        let row = |number, state, filter: Option<&str>, direction| Row {
            number,
            state,
            filter: filter.map(str::to_owned),
            interface: filter.map(|_| "lan".to_owned()),
            direction,
            packets: 100 * number,
            matched: 100 * number + 5,
            no_room: 2,
            over_rate: 3,
        };
        let captures = Captures {
            captures: vec![
                row(1, State::Ended, None, None),
                row(2, State::Running, Some("tcp to any port 443"), Some(Direction::In)),
            ],
        };
        assert_eq!(
            captures.text(),
            "\
Capture  State    Interface  Packets  Matched  No room  Over rate  Match
      1  ended    any            100      105        2          3  any
      2  running  lan, in        200      205        2          3  tcp to any port 443
"
        );
        assert_eq!(read::<Captures>(&json(&captures)).unwrap(), captures);
        assert_eq!(Captures { captures: vec![] }.text(), "no captures\n");
    }
}
