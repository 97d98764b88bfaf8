//! `show tables`: everything that is bounded, how full it is, and what happens then.

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::Report;
use super::number::octets;
use super::table::{Align, Table};

/// Every bounded table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tables {
    /// Each table.
    pub tables: Vec<Bounded>,
}

/// A bounded table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Bounded {
    /// Its name.
    pub name: String,
    /// Entries in use.
    pub used: u64,
    /// Entries there may be.
    pub limit: u64,
    /// Octets of memory.
    pub bytes: u64,
    /// What happens when it is full.
    pub when_full: String,
}

impl Tables {
    /// Of a snapshot.
    pub fn new(snapshot: &stats::Snapshot) -> Self {
        let bounded = |table: &stats::TableStats| Bounded {
            name: table.name.clone(),
            used: table.used,
            limit: table.limit,
            bytes: table.bytes,
            when_full: table.when_full.to_owned(),
        };
        Tables { tables: snapshot.tables.iter().map(bounded).collect() }
    }
}

impl Report for Tables {
    const SCHEMA: &'static str = "weir.show.tables/1";

    fn text(&self) -> String {
        let mut table = Table::new(&[
            ("Table", Align::Left),
            ("Used", Align::Right),
            ("Limit", Align::Right),
            ("Memory", Align::Right),
            ("When full", Align::Left),
        ]);
        for Bounded { name, used, limit, bytes, when_full } in self.tables.clone() {
            table.row([name, used.to_string(), limit.to_string(), octets(bytes), when_full]);
        }
        table.text()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn one_line_a_table() {
        let tables = Tables::new(&sample::snapshot());
        assert_eq!(
            tables.text(),
            "\
Table         Used    Limit    Memory  When full
fib4 default    12  2000000  1.50 MiB  new routes are refused
"
        );
        assert_eq!(read::<Tables>(&json(&tables)).unwrap(), tables);
    }
}
