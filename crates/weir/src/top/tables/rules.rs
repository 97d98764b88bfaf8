//! Rules of access lists, NAT, SPDs, steer rules and bindings, by what they match.

use std::collections::HashMap;

use super::super::pair::Pair;
use super::super::reading::{Counted, RULES};
use super::super::table::{Cell, Column, Table, descending};
use crate::render::table::Align;

/// The columns.
pub(in super::super) const COLUMNS: &[Column] = &[
    ("List", Align::Left),
    ("Id", Align::Right),
    ("Packet/s", Align::Right),
    ("Bit/s", Align::Right),
    ("Packets", Align::Right),
    ("Rule", Align::Left),
];

/// The column of rates.
pub(in super::super) const RATE: usize = 2;

/// Makes the table.
pub(in super::super) fn table(pair: &Pair) -> Table {
    let before = pair.before.as_ref().and_then(|reading| reading.rules.as_ref());
    let key = |rule: &super::super::reading::Rule| (rule.list.clone(), rule.id);
    let then: Option<HashMap<_, _>> =
        before.map(|before| before.rules.iter().map(|rule| (key(rule), (rule.packets, rule.bytes))).collect());
    let none = Counted::default();
    let now = pair.now.rules.as_ref().unwrap_or(&none);
    let mut rows = Vec::with_capacity(now.rules.len());
    for rule in &now.rules {
        // A new rule counts from 0.
        let then = then.as_ref().map(|then| then.get(&key(rule)).copied().unwrap_or_default());
        rows.push(vec![
            Cell::text(rule.list.clone()),
            Cell::count(rule.id),
            Cell::short(pair.rate(then.map(|then| then.0), rule.packets)),
            Cell::short(pair.rate(then.map(|then| then.1), rule.bytes).map(|octets| 8.0 * octets)),
            Cell::count(rule.packets),
            Cell::text(rule.rule.clone()),
        ]);
    }
    rows.sort_by(|a, b| descending(&a[4], &b[4]));
    let title = match now.left_out {
        0 => format!("Rules ({})", rows.len()),
        left_out => format!("Rules (the first {RULES} of {})", now.rules.len() + left_out),
    };
    Table { title, columns: COLUMNS, rows, empty: "no rules" }
}
