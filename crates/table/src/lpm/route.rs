//! Values of routes, limits of tables, and errors.

use std::{fmt, io};

/// Result of a lookup without a matching prefix. No route has this value.
pub const NO_ROUTE: u32 = 0;

/// The value of a route, usually the index of a forwarding object: 1 to [`Value::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(pub(super) u32);

impl Value {
    /// The largest value: leaves reserve the top bit.
    pub const MAX: Value = Value((1 << 31) - 1);

    /// Returns a value; `None` for [`NO_ROUTE`] and numbers above [`Value::MAX`].
    pub const fn new(value: u32) -> Option<Value> {
        if value != NO_ROUTE && value <= Value::MAX.0 { Some(Value(value)) } else { None }
    }

    /// Returns the number, as lookups do.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// Limits of the size of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest number of routes.
    pub max_routes: usize,
    /// Largest size of the memory of lookups in octets, with blocks that wait to be freed. Insertions stop here.
    /// Removals never fail and may exceed it: for a while, or for good if adjacent routes shared a value and so took
    /// almost no memory.
    pub max_bytes: usize,
}

/// The table has reached a limit and is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Full {
    /// The limit of routes, with its value.
    #[error("the table is full: {0} routes")]
    Routes(usize),
    /// The limit of octets, with its value.
    #[error("the table is full: {0} bytes")]
    Bytes(usize),
    /// The system refused the address space; there is no table.
    #[error("no room for a table: the system refuses {octets} bytes of address space ({reason})")]
    AddressSpace {
        /// The octets that the table needs.
        octets: usize,
        /// The error of the system.
        reason: io::ErrorKind,
    },
}

/// Occupancy of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Routes in the table.
    pub routes: usize,
    /// The limit of routes.
    pub max_routes: usize,
    /// Octets of the memory of lookups, with blocks that wait to be freed.
    pub bytes: usize,
    /// Octets of it that wait until readers have passed or older tables are dropped.
    pub waiting_bytes: usize,
    /// The limit of octets.
    pub max_bytes: usize,
    /// Approximate octets that only the writer uses: routes, and notes on blocks.
    pub writer_bytes: usize,
}
