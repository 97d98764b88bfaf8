//! `show tables`: everything that is bounded, how full it is, and what happens then.

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::Report;
use super::number::octets;
use super::routes::Source;
use super::table::{Align, Table};

/// Every bounded table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tables {
    /// Each table.
    pub tables: Vec<stats::TableStats>,
}

impl Tables {
    /// Takes the tables of a snapshot, and the sources of routes.
    pub fn new(snapshot: &stats::Snapshot, sources: &[Source]) -> Self {
        let of_source = |source: &Source| stats::TableStats {
            name: format!("routes {}", source.source),
            used: source.routes as u64,
            limit: source.limit,
            bytes: source.bytes,
            when_full: "further routes are refused".into(),
        };
        Tables { tables: snapshot.tables.iter().cloned().chain(sources.iter().map(of_source)).collect() }
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
        let kernel = Source {
            source: "kernel".into(),
            state: "following".into(),
            routes: 1000,
            nexthops: 3,
            refused: 0,
            lists: 1,
            overflows: 0,
            limit: 2_000_000,
            bytes: 131_072,
        };
        let tables = Tables::new(&sample::snapshot(), &[kernel]);
        assert_eq!(
            tables.text(),
            "\
Table          Used    Limit      Memory  When full
fib4 default     12  2000000    1.50 MiB  new routes are refused
routes kernel  1000  2000000  128.00 KiB  further routes are refused
"
        );
        assert_eq!(read::<Tables>(&json(&tables)).unwrap(), tables);
    }
}
