//! `show sav POLICY`: the entries of a policy.

use std::fmt::Write as _;
use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_plane::model::Scope;
use weir_plane::stats;

use super::super::Report;
use super::super::number::plural;
use super::super::table::{Align, Table};
use super::super::time::utc_seconds;

/// Entries: those of the configuration first, in its order, then the others by prefix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entries {
    /// The policy.
    pub policy: String,
    /// The number of requested entries; more than are listed if a limit was given.
    pub total: usize,
    /// Each entry.
    pub entries: Vec<Entry>,
}

/// An entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// The sources that it covers.
    pub prefix: String,
    /// The interfaces that it is about.
    pub interfaces: Vec<String>,
    /// Whose list of a table it stands in: that of its `prefix`, or that of its interfaces (`interface`).
    #[serde(default = "of_prefix")]
    pub scope: String,
    /// `permit` or `deny`.
    pub action: String,
    /// `file`, or who said it while the gateway ran.
    pub source: String,
    /// Where it was declared; empty where it was said.
    pub origin: String,
    /// When it was said, in seconds of the Unix epoch.
    pub time: Option<u64>,
    /// Packets whose source's most specific prefix this is, where they are counted.
    pub hits: Option<u64>,
}

fn of_prefix() -> String {
    scope(Scope::Prefix).to_owned()
}

fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::Prefix => "prefix",
        Scope::Interface => "interface",
    }
}

/// The filter of entries.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Filter {
    /// Only entries that cover this prefix or address, or lie in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Only so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

impl Filter {
    /// Returns the requested prefix; host bits are ignored.
    ///
    /// # Errors
    /// When it is neither a prefix nor an address: says so.
    pub fn net(&self) -> Result<Option<IpNet>, String> {
        let Some(text) = &self.prefix else { return Ok(None) };
        let net = text.parse::<IpNet>().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        net.map(|net| Some(net.trunc())).map_err(|_| format!("`{text}` is neither a prefix nor an address"))
    }
}

/// Whether one of two prefixes lies in the other.
pub fn overlap(a: IpNet, b: IpNet) -> bool {
    a.contains(&b) || b.contains(&a)
}

impl Entries {
    /// Of rows, and how many there are in all.
    pub fn new(policy: &str, rows: Vec<stats::SavEntryRow>, total: usize) -> Self {
        let entry = |row: stats::SavEntryRow| Entry {
            prefix: row.prefix.to_string(),
            interfaces: row.interfaces,
            scope: scope(row.scope).to_owned(),
            action: if row.permit { "permit" } else { "deny" }.to_owned(),
            source: row.source,
            origin: row.origin,
            time: row.time,
            hits: row.hits,
        };
        Entries { policy: policy.to_owned(), total, entries: rows.into_iter().map(entry).collect() }
    }
}

impl Report for Entries {
    const SCHEMA: &'static str = "weir.show.sav-entries/1";

    fn text(&self) -> String {
        let columns = ["Prefix", "List", "Action", "Interfaces", "Source", "Since", "Hits"];
        let align = |name| if name == "Hits" { Align::Right } else { Align::Left };
        let mut table = Table::new(&columns.map(|name| (name, align(name))));
        for Entry { prefix, interfaces, scope, action, source, origin, time, hits } in self.entries.clone() {
            let since = time.map_or(origin, utc_seconds);
            let hits = hits.map_or_else(String::new, |hits| hits.to_string());
            table.row([prefix, scope, action, interfaces.join(","), source, since, hits]);
        }
        let mut text = table.text();
        if self.entries.len() < self.total {
            let _ = writeln!(text, "{} of {}", self.entries.len(), plural(self.total as u64, "entry"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::{json, read, sample};
    use super::*;

    #[test]
    fn one_line_an_entry() {
        let entries = Entries::new("edge", sample::sav_entries(), 3);
        assert_eq!(
            entries.text(),
            "\
Prefix         List    Action  Interfaces  Source  Since                 Hits
192.0.2.0/24   prefix  permit  wan,lan     file    edge.toml:41            12
2001:db8::/32  prefix  deny    wan         file    customers.csv:7          0
192.0.2.64/26  prefix  permit  lan         api     2025-11-21T09:46:41Z     -
"
        );
        assert_eq!(read::<Entries>(&json(&entries)).unwrap(), entries);
        let some = Entries::new("edge", sample::sav_entries(), 9);
        assert!(some.text().ends_with("\n3 of 9 entries\n"), "{}", some.text());
    }

    #[test]
    fn prefixes_and_addresses_are_asked_for() {
        let net = |text: &str| Filter { prefix: Some(text.into()), limit: None }.net();
        assert_eq!(net("192.0.2.7/24").unwrap().unwrap().to_string(), "192.0.2.0/24");
        assert_eq!(net("2001:db8::1").unwrap().unwrap().to_string(), "2001:db8::1/128");
        assert_eq!(net("lan").unwrap_err(), "`lan` is neither a prefix nor an address");
        assert_eq!(Filter::default().net(), Ok(None));
        let overlap = |a: &str, b: &str| overlap(a.parse().unwrap(), b.parse().unwrap());
        assert!(overlap("10.0.0.0/8", "10.1.0.0/16") && overlap("10.1.0.0/16", "10.0.0.0/8"));
        assert!(!overlap("10.0.0.0/16", "10.1.0.0/16") && !overlap("0.0.0.0/0", "::/0"));
    }
}
