//! `show steer`: lists of steer rules, and what they have matched.

use serde::{Deserialize, Serialize};
use weir_plane::stats;
use weir_port::Filters;

use super::Report;
use super::table::{Align, Table};
use crate::rules::steer::Rule as Written;

/// The lists, in the order of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steers {
    /// Each list.
    pub steer: Vec<Steer>,
}

/// A list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steer {
    /// Its name.
    pub name: String,
    /// The interfaces that name it.
    pub interfaces: Vec<Place>,
    /// Its rules, in the order in which they are matched.
    pub rules: Vec<Rule>,
    /// Where it was declared.
    pub origin: String,
}

/// An interface with a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Its name.
    pub name: String,
    /// The component that applies the rules: `software`.
    pub applied: String,
    /// Why the device of the port applies none; absent without a device.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub offload: Option<String>,
}

/// A rule, and what it has matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// Its id, for `weir steer`.
    pub id: u32,
    /// The rule.
    pub rule: String,
    /// Packets that matched.
    pub packets: u64,
    /// Their octets from the IP header on.
    pub bytes: u64,
    /// Where it was declared.
    pub origin: String,
}

impl Steers {
    /// Of the gateway's lists.
    pub fn new(lists: Vec<stats::SteerStats>) -> Steers {
        let rule = |row: stats::SteerRuleRow| Rule {
            id: row.id,
            rule: Written::of(&row.rule).to_string(),
            packets: row.matched.packets,
            bytes: row.matched.bytes,
            origin: row.origin,
        };
        let list = |list: stats::SteerStats| Steer {
            name: list.name,
            interfaces: list
                .interfaces
                .into_iter()
                .map(|own| Place { name: own.name, applied: "software".to_owned(), offload: offload(own.filters) })
                .collect(),
            rules: list.rules.into_iter().map(rule).collect(),
            origin: list.origin,
        };
        Steers { steer: lists.into_iter().map(list).collect() }
    }
}

/// Returns why a device applies no rules.
fn offload(filters: Filters) -> Option<String> {
    match filters {
        Filters::None => None,
        Filters::Refused(errno) => {
            let why = std::io::Error::from_raw_os_error(errno).to_string();
            let why = why.split(" (os error").next().unwrap_or_default().to_lowercase();
            Some(format!("the device refuses n-tuple filters: {why}"))
        }
        Filters::Taken(count) => Some(format!("the device takes n-tuple filters and has {count}, none of weir")),
    }
}

impl Report for Steers {
    const SCHEMA: &'static str = "weir.show.steer/1";

    fn text(&self) -> String {
        if self.steer.is_empty() {
            return "no steer rules\n".to_owned();
        }
        let mut text = String::new();
        for Steer { name, interfaces, rules, origin } in &self.steer {
            let place = |own: &Place| match &own.offload {
                None => format!("{} ({})", own.name, own.applied),
                Some(why) => format!("{} ({}; {why})", own.name, own.applied),
            };
            let at: Vec<String> = interfaces.iter().map(place).collect();
            let at = if at.is_empty() { "no interface".to_owned() } else { at.join(", ") };
            text.push_str(&format!("{name} at {at} ({origin})\n"));
            let columns = [
                ("Id", Align::Right),
                ("Packets", Align::Right),
                ("Bytes", Align::Right),
                ("Rule", Align::Left),
                ("Origin", Align::Left),
            ];
            let mut table = Table::new(&columns);
            for Rule { id, rule, packets, bytes, origin } in rules {
                table.row([id.to_string(), packets.to_string(), bytes.to_string(), rule.clone(), origin.clone()]);
            }
            text.push_str(&table.text());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn software_applies_rules_whatever_a_device_says() {
        let mut lists = sample::steer();
        lists[0].interfaces[1].filters = Filters::Taken(3);
        let steers = Steers::new(lists);
        let applied = |own: &Place| own.applied.clone();
        assert_eq!(steers.steer[0].interfaces.iter().map(applied).collect::<Vec<_>>(), ["software"; 2]);
        assert!(steers.text().contains("dmz (software; the device takes n-tuple filters and has 3, none of weir)"));
        assert!(json(&steers).contains("has 3, none of weir"), "{}", json(&steers));
    }

    #[test]
    fn tables_and_json() {
        let steers = Steers::new(sample::steer());
        assert_eq!(
            steers.text(),
            "\
edge at wan (software; the device refuses n-tuple filters: operation not supported), dmz (software) (edge.toml:9)
Id  Packets  Bytes  Rule                                                          Origin
 1       12   1200  mark 7 redirect interface dpi ip4 udp from 10.0.0.0/8 to any  edge.toml:10
 2        0      0  count ip from any to any comment \"the rest\"                   edge.toml:11
"
        );
        assert_eq!(read::<Steers>(&json(&steers)).unwrap(), steers);
        assert_eq!(Steers { steer: vec![] }.text(), "no steer rules\n");
    }
}
