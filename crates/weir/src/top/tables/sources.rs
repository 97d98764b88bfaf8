//! Sources: the addresses that opened sessions, with the traffic of these in both directions.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::super::pair::Pair;
use super::super::table::{Cell, Column, Table, descending};
use super::flows::{Earlier, title};
use crate::render::table::Align;

/// The columns.
pub(in super::super) const COLUMNS: &[Column] = &[
    ("Source", Align::Left),
    ("Sessions", Align::Right),
    ("Packet/s", Align::Right),
    ("Sent bit/s", Align::Right),
    ("Received bit/s", Align::Right),
    ("Packets", Align::Right),
];

/// The column of rates.
pub(in super::super) const RATE: usize = 2;

/// The sessions of a source together.
#[derive(Debug, Default)]
struct Sum {
    sessions: u64,
    packets: u64,
    /// Packets, octets sent and octets received in a second; `None` while no session has a rate.
    rates: Option<[f64; 3]>,
}

/// Makes the table.
pub(in super::super) fn table(pair: &Pair) -> Table {
    let earlier = Earlier::of(pair);
    let mut sums: BTreeMap<IpAddr, Sum> = BTreeMap::new();
    for flow in pair.now.flows.iter().flat_map(|flows| &flows.sessions) {
        let sum = sums.entry(flow.source).or_default();
        sum.sessions += 1;
        sum.packets += flow.packets + flow.reply_packets;
        let packets = earlier.rate(flow, |flow| flow.packets + flow.reply_packets);
        let (sent, received) = (earlier.rate(flow, |flow| flow.bytes), earlier.rate(flow, |flow| flow.reply_bytes));
        if let (Some(packets), Some(sent), Some(received)) = (packets, sent, received) {
            let rates = sum.rates.get_or_insert_default();
            *rates = [rates[0] + packets, rates[1] + sent, rates[2] + received];
        }
    }
    let row = |(source, sum): (IpAddr, Sum)| {
        let rate = |of: usize, times: f64| Cell::short(sum.rates.map(|rates| times * rates[of]));
        vec![
            Cell::text(source.to_string()),
            Cell::count(sum.sessions),
            rate(0, 1.0),
            rate(1, 8.0),
            rate(2, 8.0),
            Cell::count(sum.packets),
        ]
    };
    let mut rows: Vec<_> = sums.into_iter().map(row).collect();
    rows.sort_by(|a, b| descending(&a[5], &b[5]));
    let title = format!("Sources ({}), {}", rows.len(), title("sessions", pair));
    Table { title, columns: COLUMNS, rows, empty: "no sessions" }
}
