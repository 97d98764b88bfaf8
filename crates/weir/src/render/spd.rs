//! `show spd`: security policy databases, and what their rules have matched.

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::Report;
use super::table::{Align, Table};
use crate::rules::spd::Rule as Written;

/// The SPDs, in the order of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spds {
    /// Each SPD.
    pub spds: Vec<Spd>,
}

/// An SPD.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spd {
    /// Its name.
    pub name: String,
    /// The interfaces that name it.
    pub interfaces: Vec<String>,
    /// Its rules, in the order in which they are matched.
    pub rules: Vec<Rule>,
    /// Where it was declared.
    pub origin: String,
}

/// A rule, and what it has matched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The rule.
    pub rule: String,
    /// Packets that left.
    pub out: Traffic,
    /// Packets that came in.
    #[serde(rename = "in")]
    pub input: Traffic,
    /// Where it was declared.
    pub origin: String,
}

/// Packets that matched, and their octets from the IP header on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Octets.
    pub bytes: u64,
}

impl Traffic {
    fn new(stats::Traffic { packets, bytes }: stats::Traffic) -> Traffic {
        Traffic { packets, bytes }
    }
}

impl Spds {
    /// Of the gateway's SPDs.
    pub fn new(spds: Vec<stats::SpdStats>) -> Spds {
        let rule = |row: stats::SpdRuleRow| Rule {
            rule: Written::of(&row.rule, |_| row.sa.clone().unwrap_or_default()).to_string(),
            out: Traffic::new(row.output),
            input: Traffic::new(row.input),
            origin: row.origin,
        };
        let spd = |spd: stats::SpdStats| Spd {
            name: spd.name,
            interfaces: spd.interfaces,
            rules: spd.rules.into_iter().map(rule).collect(),
            origin: spd.origin,
        };
        Spds { spds: spds.into_iter().map(spd).collect() }
    }
}

impl Report for Spds {
    const SCHEMA: &'static str = "weir.show.spd/1";

    fn text(&self) -> String {
        if self.spds.is_empty() {
            return "no SPDs\n".to_owned();
        }
        let mut text = String::new();
        for Spd { name, interfaces, rules, origin } in &self.spds {
            let at = if interfaces.is_empty() { "no interface".to_owned() } else { interfaces.join(", ") };
            text.push_str(&format!("{name} at {at} ({origin})\n"));
            let mut table = Table::new(&[
                ("Out", Align::Right),
                ("Bytes", Align::Right),
                ("In", Align::Right),
                ("Bytes", Align::Right),
                ("Rule", Align::Left),
                ("Origin", Align::Left),
            ]);
            for Rule { rule, out, input, origin } in rules {
                let counts = [out.packets, out.bytes, input.packets, input.bytes].map(|count| count.to_string());
                let [out, out_bytes, input, input_bytes] = counts;
                table.row([out, out_bytes, input, input_bytes, rule.clone(), origin.clone()]);
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
    fn tables_and_json() {
        let spds = Spds::new(sample::spds());
        assert_eq!(
            spds.text(),
            "\
edge at wan, dmz (edge.toml:9)
Out  Bytes  In  Bytes  Rule                                                   Origin
 12   1200   3    240  bypass ip4 from 10.0.0.0/8 to any priority 5           edge.toml:11
  0      0   0      0  protect ip from any to any sa east comment \"the rest\"  edge.toml:10
"
        );
        assert_eq!(read::<Spds>(&json(&spds)).unwrap(), spds);
        assert_eq!(Spds { spds: vec![] }.text(), "no SPDs\n");
    }
}
