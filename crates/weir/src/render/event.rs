//! `weir watch`: an event of the log.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Report;
use super::number::plural;
use crate::events::Kind;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Milliseconds of the Unix epoch.
    pub time: u64,
    /// `error`, `warning`, `info`, `debug` or `trace`.
    pub level: String,
    /// Its kind.
    pub kind: Kind,
    /// The line of the log.
    pub message: String,
    /// Further fields of the log.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub fields: BTreeMap<String, Value>,
    /// Events that were lost before this one was read, as the queue was full.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub lost: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Default for Event {
    fn default() -> Event {
        let (level, message) = ("info".to_owned(), String::new());
        Event { time: 0, level, kind: Kind::Gateway, message, fields: BTreeMap::new(), lost: 0 }
    }
}

impl Report for Event {
    const SCHEMA: &'static str = "weir.event/1";

    fn text(&self) -> String {
        let time = humantime::format_rfc3339_millis(SystemTime::UNIX_EPOCH + Duration::from_millis(self.time));
        let lost = match self.lost {
            0 => String::new(),
            lost => format!("! {} lost: the reader was too slow\n", plural(lost, "event")),
        };
        format!("{lost}{time} {:7} {:8} {}\n", self.level, self.kind.name(), self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read};
    use super::*;

    #[test]
    fn a_line_an_event() {
        let event = Event { kind: Kind::Link, message: "interface wan: link down".into(), lost: 2, ..Event::default() };
        let text = "! 2 events lost: the reader was too slow\n\
                    1970-01-01T00:00:00.000Z info    link     interface wan: link down\n";
        assert_eq!(event.text(), text);
        assert_eq!(read::<Event>(&json(&event)).unwrap(), event);
    }
}
