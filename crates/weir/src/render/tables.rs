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
    pub tables: Vec<stats::TableStats>,
}

impl Tables {
    /// Takes the tables of a snapshot.
    pub fn new(snapshot: &stats::Snapshot) -> Self {
        Tables { tables: snapshot.tables.clone() }
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
        for stats::TableStats { name, used, limit, bytes, when_full } in self.tables.clone() {
            table.row([name, used.to_string(), limit.to_string(), octets(bytes), when_full.into_owned()]);
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
