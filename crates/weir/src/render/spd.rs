//! `show spd`: security policy databases, and what their rules have matched.

use serde::{Deserialize, Serialize};
use weir_plane::model::IpFamily;
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
    /// Its caches.
    pub caches: Vec<Cache>,
    /// Where it was declared.
    pub origin: String,
}

/// The caches of a direction and family, of all workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cache {
    /// `out` or `in`.
    pub direction: String,
    /// `ip4` or `ip6`.
    pub family: String,
    /// Places for entries.
    pub places: u64,
    /// Entries.
    pub entries: u64,
    /// Packets whose flow was there.
    pub hits: u64,
    /// Packets whose flow was not there.
    pub misses: u64,
    /// Packets whose flow was there, and was decided again as a change of the SPD concerned it.
    pub stale: u64,
    /// Entries that were overwritten by those of other flows.
    pub overwritten: u64,
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

impl Cache {
    fn new(row: stats::SpdCacheRow) -> Cache {
        Cache {
            direction: if row.output { "out" } else { "in" }.to_owned(),
            family: if row.family == IpFamily::V4 { "ip4" } else { "ip6" }.to_owned(),
            places: row.places,
            entries: row.entries,
            hits: row.hits,
            misses: row.misses,
            stale: row.stale,
            overwritten: row.overwritten,
        }
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
            caches: spd.caches.into_iter().map(Cache::new).collect(),
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
        for Spd { name, interfaces, rules, caches, origin } in &self.spds {
            let at = if interfaces.is_empty() { "no interface".to_owned() } else { interfaces.join(", ") };
            text.push_str(&format!("{name} at {at} ({origin})\n"));
            let mut table = Table::new(&[
                ("Out", Align::Right),
                ("Out bytes", Align::Right),
                ("In", Align::Right),
                ("In bytes", Align::Right),
                ("Rule", Align::Left),
                ("Origin", Align::Left),
            ]);
            for Rule { rule, out, input, origin } in rules {
                let counts = [out.packets, out.bytes, input.packets, input.bytes].map(|count| count.to_string());
                let [out, out_bytes, input, input_bytes] = counts;
                table.row([out, out_bytes, input, input_bytes, rule.clone(), origin.clone()]);
            }
            text.push_str(&table.text());
            if !caches.is_empty() {
                text.push_str(&caches_text(caches));
            }
        }
        text
    }
}

fn caches_text(caches: &[Cache]) -> String {
    let mut table = Table::new(&[
        ("Cache", Align::Left),
        ("Places", Align::Right),
        ("Entries", Align::Right),
        ("Hits", Align::Right),
        ("Misses", Align::Right),
        ("Stale", Align::Right),
        ("Overwritten", Align::Right),
    ]);
    for Cache { direction, family, places, entries, hits, misses, stale, overwritten } in caches {
        let [places, entries, hits, misses, stale, overwritten] =
            [places, entries, hits, misses, stale, overwritten].map(u64::to_string);
        table.row([format!("{direction} {family}"), places, entries, hits, misses, stale, overwritten]);
    }
    table.text()
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
Out  Out bytes  In  In bytes  Rule                                                   Origin
 12       1200   3       240  bypass ip4 from 10.0.0.0/8 to any priority 5           edge.toml:11
  0          0   0         0  protect ip from any to any sa east comment \"the rest\"  edge.toml:10
Cache    Places  Entries  Hits  Misses  Stale  Overwritten
out ip4    4096        5     6       7      8            9
"
        );
        assert_eq!(read::<Spds>(&json(&spds)).unwrap(), spds);
        assert_eq!(Spds { spds: vec![] }.text(), "no SPDs\n");
    }
}
