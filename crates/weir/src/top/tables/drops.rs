//! Drop reasons.

use super::super::pair::Pair;
use super::super::table::{Cell, Column, Table, descending};
use crate::render::table::Align;

/// The columns.
pub(in super::super) const COLUMNS: &[Column] = &[
    ("Drop reason", Align::Left),
    ("Node", Align::Left),
    ("Packet/s", Align::Right),
    ("Packets", Align::Right),
    ("Severity", Align::Left),
    ("Meaning", Align::Left),
];

/// The column of rates.
pub(in super::super) const RATE: usize = 2;

/// Makes the table.
pub(in super::super) fn table(pair: &Pair) -> Table {
    let before = pair.before.as_ref().map(|reading| &reading.errors.errors);
    let mut rows = Vec::new();
    for drop in &pair.now.errors.errors {
        // A reason that did not occur before is not in the reading.
        let same = |then: &&weir_plane::stats::DropStats| then.reason == drop.reason && then.node == drop.node;
        let then = before.map(|before| before.iter().find(same).map_or(0, |then| then.packets));
        rows.push(vec![
            Cell::text(drop.reason.as_ref()),
            Cell::text(drop.node.as_ref()),
            Cell::short(pair.rate(then, drop.packets)),
            Cell::count(drop.packets),
            Cell::text(drop.severity.as_ref()),
            Cell::text(drop.description.as_ref()),
        ]);
    }
    // Without rates, the most frequent first.
    rows.sort_by(|a, b| descending(&a[3], &b[3]));
    Table { title: format!("Drops ({})", rows.len()), columns: COLUMNS, rows, empty: "no packet was dropped" }
}
