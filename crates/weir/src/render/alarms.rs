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
    pub alarms: Vec<alarm::Row>,
    /// The last 256 events, the oldest first.
    pub events: Vec<alarm::Event>,
}

impl Alarms {
    /// Takes a gateway's alarms.
    pub fn new(alarms: &alarm::Alarms) -> Self {
        Alarms { alarms: alarms.rows(), events: alarms.events().cloned().collect() }
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
        for alarm::Row { interface, policy, threshold, window, rate, raised, count } in &self.alarms {
            let since = raised.map_or_else(String::new, utc_seconds);
            let (interface, policy) = (interface.clone(), policy.clone());
            let window = format!("{window} s");
            table.row([interface, policy, rate.to_string(), threshold.to_string(), window, count.to_string(), since]);
        }
        let mut text = table.text();
        if !self.events.is_empty() {
            text.push('\n');
        }
        for alarm::Event { time, interface, policy, rate, threshold, raised } in &self.events {
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
