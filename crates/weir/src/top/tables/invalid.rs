//! Sources that source address validation finds invalid, whether they are dropped or not.

use super::super::pair::Pair;
use super::super::table::{Cell, Column, Table};
use crate::render::sav::dry_run::Source;
use crate::render::table::Align;

/// The columns.
pub(in super::super) const COLUMNS: &[Column] = &[
    ("Interface", Align::Left),
    ("Sources", Align::Left),
    ("Packet/s", Align::Right),
    ("Packets", Align::Right),
    ("Policy", Align::Left),
    ("Reason", Align::Left),
    ("Meaning", Align::Left),
];

/// The column of rates.
pub(in super::super) const RATE: usize = 2;

/// Makes the table.
pub(in super::super) fn table(pair: &Pair) -> Table {
    let before = pair.before.as_ref().and_then(|reading| reading.invalid.as_ref());
    let now = pair.now.invalid.as_ref();
    let row = |source: &Source| {
        let same = |then: &&Source| {
            (&then.interface, &then.prefix, &then.reason) == (&source.interface, &source.prefix, &source.reason)
        };
        // A source that was not among the first ones then may have been there with fewer packets.
        let complete = before.is_some_and(|before| before.more_sources == 0);
        let then = before.and_then(|before| before.sources.iter().find(same).map(|then| then.packets));
        vec![
            Cell::text(source.interface.clone()),
            Cell::text(source.seen.clone().unwrap_or_else(|| source.prefix.clone())),
            Cell::short(pair.rate(then.or(complete.then_some(0)), source.packets)),
            Cell::count(source.packets),
            Cell::text(source.policy.clone()),
            Cell::text(source.reason.clone()),
            Cell::text(source.why.clone()),
        ]
    };
    let rows: Vec<_> = now.iter().flat_map(|now| &now.sources).map(row).collect();
    let title = match now.map_or(0, |now| now.more_sources) {
        0 => format!("Invalid sources ({})", rows.len()),
        more => format!("Invalid sources ({} of {}, with the most packets)", rows.len(), rows.len() as u64 + more),
    };
    Table { title, columns: COLUMNS, rows, empty: "no invalid source" }
}
