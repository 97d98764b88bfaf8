//! Interfaces: packets and bits in both directions, drops and losses.

use super::super::pair::Pair;
use super::super::table::{Cell, Column, Table};
use crate::render::interfaces::Counters;
use crate::render::table::Align;

/// The columns.
pub(in super::super) const COLUMNS: &[Column] = &[
    ("Interface", Align::Left),
    ("State", Align::Left),
    ("RX packet/s", Align::Right),
    ("RX bit/s", Align::Right),
    ("TX packet/s", Align::Right),
    ("TX bit/s", Align::Right),
    ("Drops/s", Align::Right),
    ("Lost/s", Align::Right),
];

/// Makes the table.
pub(in super::super) fn table(pair: &Pair) -> Table {
    let before = pair.before.as_ref().map(|reading| &reading.interfaces.interfaces);
    let row = |interface: &crate::render::interfaces::Interface| {
        let then = before.map(|before| before.iter().find(|then| then.name == interface.name));
        // An interface that a reload has added counts from 0.
        let then = |of: fn(&Counters) -> u64| then.map(|then| then.map_or(0, |then| of(&then.counters)));
        let rate = |of: fn(&Counters) -> u64| pair.rate(then(of), of(&interface.counters));
        let bits = |of: fn(&Counters) -> u64| Cell::short(rate(of).map(|octets| 8.0 * octets));
        vec![
            Cell::text(interface.name.clone()),
            Cell::text(interface.state.clone()),
            Cell::short(rate(|c| c.rx_packets)),
            bits(|c| c.rx_bytes),
            Cell::short(rate(|c| c.tx_packets)),
            bits(|c| c.tx_bytes),
            Cell::short(rate(|c| c.dropped_packets)),
            Cell::short(rate(lost)),
        ]
    };
    let rows: Vec<_> = pair.now.interfaces.interfaces.iter().map(row).collect();
    Table { title: format!("Interfaces ({})", rows.len()), columns: COLUMNS, rows, empty: "no interfaces" }
}

/// Returns the frames that did not become packets or did not leave.
fn lost(counters: &Counters) -> u64 {
    counters.no_buffer + counters.kernel_drops + counters.receive_errors + counters.transmit_errors
}
