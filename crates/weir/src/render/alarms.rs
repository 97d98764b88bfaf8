//! `show alarms`: interfaces that are watched for packets that are not valid, and what happened.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use weir_plane::alarm;

use super::Report;
use super::table::{Align, Table};
use super::time::utc_seconds;

/// Every alarm, and the last events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarms {
    /// Each alarm, by interface and policy.
    pub alarms: Vec<Alarm>,
    /// What happened, the oldest first: the last 256.
    pub events: Vec<Event>,
}

/// An alarm.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Alarm {
    /// The interface that is watched.
    pub interface: String,
    /// The policy that it has.
    pub policy: String,
    /// Packets in a second above which it is raised.
    pub threshold: u64,
    /// Seconds that the rate is of.
    pub window: u32,
    /// Packets in a second that were not valid, over the window.
    pub rate: u64,
    /// Since when it is raised, in seconds of the Unix epoch; `null`: it is not.
    pub raised_since: Option<u64>,
    /// How often it was raised.
    pub raised: u64,
}

/// An alarm was raised or cleared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Event {
    /// When: seconds of the Unix epoch.
    pub time: u64,
    /// The interface.
    pub interface: String,
    /// The policy.
    pub policy: String,
    /// Packets in a second, over the window.
    pub rate: u64,
    /// Packets in a second above which it is raised.
    pub threshold: u64,
    /// It was raised; else it was cleared.
    pub raised: bool,
}

impl Alarms {
    /// Of a gateway's alarms.
    pub fn new(alarms: &alarm::Alarms) -> Self {
        let row = |row: alarm::Row| {
            let alarm::Row { interface, policy, threshold, window, rate, raised, count } = row;
            Alarm { interface, policy, threshold, window, rate, raised_since: raised, raised: count }
        };
        let event = |event: &alarm::Event| {
            let alarm::Event { time, interface, policy, rate, threshold, raised } = event.clone();
            Event { time, interface, policy, rate, threshold, raised }
        };
        Alarms { alarms: alarms.rows().into_iter().map(row).collect(), events: alarms.events().map(event).collect() }
    }
}

impl Report for Alarms {
    const SCHEMA: &'static str = "weir.show.alarms/1";

    fn text(&self) -> String {
        use Align::{Left, Right};
        let columns = [
            ("Interface", Left),
            ("Policy", Left),
            ("Rate", Right),
            ("Threshold", Right),
            ("Window", Right),
            ("Raised", Right),
            ("Since", Left),
        ];
        let mut table = Table::new(&columns);
        for Alarm { interface, policy, threshold, window, rate, raised_since, raised } in &self.alarms {
            let since = raised_since.map_or_else(String::new, utc_seconds);
            let (interface, policy) = (interface.clone(), policy.clone());
            let window = format!("{window} s");
            table.row([interface, policy, rate.to_string(), threshold.to_string(), window, raised.to_string(), since]);
        }
        let mut text = table.text();
        if !self.events.is_empty() {
            text.push('\n');
        }
        for Event { time, interface, policy, rate, threshold, raised } in &self.events {
            let what = if *raised { "raised" } else { "cleared" };
            let time = utc_seconds(*time);
            let _ = writeln!(text, "{time} {what}: {interface}, sav {policy}: {rate} packets/s, threshold {threshold}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn what_is_and_what_was() {
        let alarms = Alarms::new(&sample::alarms());
        assert_eq!(
            alarms.text(),
            "\
Interface  Policy  Rate  Threshold  Window  Raised  Since
lan        edge     200        100    10 s       1  2026-11-21T10:00:10Z
wan        edge       0        100    10 s       0  -

2026-11-21T10:00:10Z raised: lan, sav edge: 200 packets/s, threshold 100
"
        );
        assert_eq!(read::<Alarms>(&json(&alarms)).unwrap(), alarms);
    }
}
