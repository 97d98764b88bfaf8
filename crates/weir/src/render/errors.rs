//! `show errors`: why packets were dropped, and where all of them went.

use serde::{Deserialize, Serialize};
use weir_plane::stats::{self, DropStats};

use super::Report;
use super::sum::Sum;
use super::table::{Align, Table};

/// The drop reasons that occurred.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Errors {
    /// Each reason, in the order of the graph.
    pub errors: Vec<DropStats>,
    /// Where all packets went.
    pub conservation: Sum,
}

impl Errors {
    /// Of a snapshot; reasons that did not occur are left out unless `all`.
    pub fn new(snapshot: &stats::Snapshot, all: bool) -> Self {
        let errors = snapshot.drops.iter().filter(|drop| all || drop.packets > 0).cloned().collect();
        Errors { errors, conservation: Sum::new(&snapshot.conservation) }
    }
}

/// Drop reasons as a table.
pub fn table(drops: &[DropStats]) -> String {
    let mut table = Table::new(&[
        ("Count", Align::Right),
        ("Node", Align::Left),
        ("Reason", Align::Left),
        ("Severity", Align::Left),
        ("Description", Align::Left),
    ]);
    for drop in drops {
        let DropStats { node, reason, severity, packets, description } = drop.clone();
        table.row([packets.to_string(), node.into(), reason.into(), severity.into(), description.into()]);
    }
    table.text()
}

impl Report for Errors {
    const SCHEMA: &'static str = "weir.show.errors/1";

    fn text(&self) -> String {
        let errors = if self.errors.is_empty() { "no packet was dropped\n".to_owned() } else { table(&self.errors) };
        errors + "\n" + &self.conservation.text()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn reasons_that_occurred_then_where_all_packets_went() {
        let errors = Errors::new(&sample::snapshot(), false);
        assert_eq!(
            errors.text(),
            "\
Count  Node       Reason     Severity  Description
   40  ip-lookup  no-route   warning   No route covers the destination.
   60  ip-lookup  blackhole  info      A blackhole route covers the destination.

received 2000 + created 0 = transmitted 1900 + local 0 + held 0 + dropped 100 + absorbed 0
every packet is accounted for
"
        );
        assert_eq!(read::<Errors>(&json(&errors)).unwrap(), errors);
        assert_eq!(Errors::new(&sample::snapshot(), true).errors.len(), 3);
        let none = Errors::new(&stats::Snapshot::default(), false);
        assert!(none.text().starts_with("no packet was dropped\n\nreceived 0 "));
    }
}
