//! Sessions, both directions together.

use std::collections::HashMap;

use weir_plane::engine::endpoint;

use super::super::pair::Pair;
use super::super::table::{Cell, Column, Table};
use crate::render::flows::Flow;
use crate::render::table::Align;

/// The columns.
pub(in super::super) const COLUMNS: &[Column] = &[
    ("Protocol", Align::Left),
    ("From", Align::Left),
    ("To", Align::Left),
    ("Packet/s", Align::Right),
    ("Bit/s", Align::Right),
    ("Packets", Align::Right),
    ("Age s", Align::Right),
    ("State", Align::Left),
];

/// The column of rates.
pub(in super::super) const RATE: usize = 3;

/// The fields that identify a session.
type Key<'f> = (&'f str, u16, (std::net::IpAddr, Option<u16>), (std::net::IpAddr, Option<u16>), Option<u16>);

fn key(flow: &Flow) -> Key<'_> {
    let ends = ((flow.source, flow.source_port), (flow.destination, flow.destination_port));
    (&flow.protocol, flow.zone_number, ends.0, ends.1, flow.icmp_identifier)
}

/// The sessions of the earlier reading, by their fields.
pub(super) struct Earlier<'p> {
    flows: Option<HashMap<Key<'p>, &'p Flow>>,
    pair: &'p Pair,
}

impl<'p> Earlier<'p> {
    pub(super) fn of(pair: &'p Pair) -> Self {
        let flows = pair.before.as_ref().and_then(|reading| reading.flows.as_ref());
        let flows = flows.map(|flows| flows.sessions.iter().map(|flow| (key(flow), flow)).collect());
        Earlier { flows, pair }
    }

    /// Returns the rate of a counter of a session. A session that is younger than the earlier reading counts from 0; an older
    /// one that was not among the first sessions then has no rate.
    pub(super) fn rate(&self, flow: &Flow, of: impl Fn(&Flow) -> u64) -> Option<f64> {
        let (flows, seconds) = (self.flows.as_ref()?, self.pair.seconds()?);
        let then = if flow.age < seconds { Some(0) } else { flows.get(&key(flow)).map(|then| of(then)) };
        self.pair.rate(then, of(flow))
    }
}

/// Returns the title of tables of sessions: how many there are, and how many of these are in the reading.
pub(super) fn title(name: &str, pair: &Pair) -> String {
    match &pair.now.flows {
        None => name.to_owned(),
        Some(flows) if flows.total as usize > flows.sessions.len() => {
            format!("{name} ({} of {}, with the most packets)", flows.sessions.len(), flows.total)
        }
        Some(flows) => format!("{name} ({})", flows.total),
    }
}

/// Makes the table.
pub(in super::super) fn table(pair: &Pair) -> Table {
    let earlier = Earlier::of(pair);
    let now = pair.now.flows.iter().flat_map(|flows| &flows.sessions);
    let row = |flow: &Flow| {
        let bits = earlier.rate(flow, |flow| flow.bytes + flow.reply_bytes).map(|octets| 8.0 * octets);
        vec![
            Cell::text(flow.protocol.clone()),
            Cell::text(endpoint(flow.source, flow.source_port)),
            Cell::text(endpoint(flow.destination, flow.destination_port)),
            Cell::short(earlier.rate(flow, |flow| flow.packets + flow.reply_packets)),
            Cell::short(bits),
            Cell::count(flow.packets + flow.reply_packets),
            Cell::Number { value: flow.age, text: format!("{:.0}", flow.age) },
            Cell::text(flow.state.clone()),
        ]
    };
    Table { title: title("Sessions", pair), columns: COLUMNS, rows: now.map(row).collect(), empty: "no sessions" }
}
