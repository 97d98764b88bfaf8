//! The refusal of a model for which a table has no room, and how large tables may be.

use weir_table::sav::NoRoom;

use crate::model::Origin;

/// Octets of forwarding table that a route may take on average before the table counts as full, and the least a table
/// may take: sparse IPv6 routes need a few cache lines each, real tables far less (ARCHITECTURE.md).
const BYTES_PER_ROUTE: usize = 512;
const LEAST_BYTES: usize = 16 << 20;

/// Octets that a table of so many routes or source prefixes may take.
pub(super) fn most_bytes(routes: usize) -> usize {
    routes.saturating_mul(BYTES_PER_ROUTE).clamp(LEAST_BYTES, 4 << 30)
}

/// A table has no room for the routes of a model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{table}: {}{full}", of_prefix(.prefix))]
pub struct TableFull {
    /// Which table: `vrf default`, `sav edge`.
    pub table: String,
    /// The route that did not fit; empty where many did not.
    pub prefix: String,
    /// Where it was declared.
    pub origin: Origin,
    /// Which limit was met.
    pub full: NoRoom,
}

fn of_prefix(prefix: &str) -> String {
    if prefix.is_empty() { String::new() } else { format!("route {prefix}: ") }
}
