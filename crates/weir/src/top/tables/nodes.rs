//! Nodes of all workers: packets, vectors, and the time that they take.

use super::super::pair::Pair;
use super::super::table::{Cell, Column, Table};
use crate::render::runtime::Runtime;
use crate::render::table::Align;

/// The columns.
pub(in super::super) const COLUMNS: &[Column] = &[
    ("Node", Align::Left),
    ("Packet/s", Align::Right),
    ("Vector/s", Align::Right),
    ("Packets/vector", Align::Right),
    ("Ticks/packet", Align::Right),
    ("Ticks %", Align::Right),
];

/// Counters of a node, of all workers together.
#[derive(Debug, Clone, Default)]
struct Sum {
    name: String,
    vectors: u64,
    packets: u64,
    ticks: u64,
}

/// Adds up the workers' counters by node, in the order of the graph.
fn sums(runtime: &Runtime) -> Vec<Sum> {
    let mut sums: Vec<Sum> = Vec::new();
    for node in runtime.workers.iter().flat_map(|worker| &worker.nodes) {
        let place = sums.iter().position(|sum| sum.name == node.name).unwrap_or_else(|| {
            sums.push(Sum { name: node.name.clone(), ..Sum::default() });
            sums.len() - 1
        });
        sums[place].vectors += node.calls;
        sums[place].packets += node.vectors;
        sums[place].ticks += node.ticks;
    }
    sums
}

/// Makes the table.
pub(in super::super) fn table(pair: &Pair) -> Table {
    let now = sums(&pair.now.runtime);
    let before = pair.before.as_ref().map(|reading| sums(&reading.runtime));
    let none = Sum::default();
    let then = |name: &str| before.as_ref().map(|sums| sums.iter().find(|sum| sum.name == name).unwrap_or(&none));
    let rate = |sum: &Sum, of: fn(&Sum) -> u64| pair.rate(then(&sum.name).map(of), of(sum));
    let all: f64 = now.iter().filter_map(|sum| rate(sum, |sum| sum.ticks)).sum();
    let quotient = |part: Option<f64>, whole: Option<f64>| Some(part?).zip(whole.filter(|whole| *whole > 0.0));
    let row = |sum: &Sum| {
        let (packets, vectors, ticks) =
            (rate(sum, |sum| sum.packets), rate(sum, |sum| sum.vectors), rate(sum, |sum| sum.ticks));
        vec![
            Cell::text(sum.name.clone()),
            Cell::short(packets),
            Cell::short(vectors),
            Cell::tenths(quotient(packets, vectors).map(|(packets, vectors)| packets / vectors)),
            Cell::tenths(quotient(ticks, packets).map(|(ticks, packets)| ticks / packets)),
            Cell::tenths(quotient(ticks, Some(all)).map(|(ticks, all)| 100.0 * ticks / all)),
        ]
    };
    let rows: Vec<_> = now.iter().map(row).collect();
    let workers = pair.now.runtime.workers.len();
    let title = format!("Nodes ({}), {}", rows.len(), crate::render::number::plural(workers as u64, "worker"));
    Table { title, columns: COLUMNS, rows, empty: "no node has run" }
}
