//! Values of routes, limits of tables, and why a route is refused.

use std::{fmt, io};

/// The answer of a lookup if no prefix contains the key. No route can have it as its value.
pub const NO_ROUTE: u32 = 0;

/// The value of a route, usually the index of a forwarding object: 1 to [`Value::MAX`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(pub(super) u32);

impl Value {
    /// The largest value: leaves keep the top bit for themselves.
    pub const MAX: Value = Value((1 << 31) - 1);

    /// A value; none if it is [`NO_ROUTE`] or above [`Value::MAX`].
    pub const fn new(value: u32) -> Option<Value> {
        if value != NO_ROUTE && value <= Value::MAX.0 { Some(Value(value)) } else { None }
    }

    /// The number, as lookups give it.
    pub const fn get(self) -> u32 {
        self.0
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

/// How large a table may become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Routes that the writer takes.
    pub max_routes: usize,
    /// Octets of memory that lookups touch, with what waits to be freed. Insertion stops here. A removal is never refused,
    /// and may go past the limit: for a while, and for good where routes side by side had one value, which take next to
    /// nothing until some of them go.
    pub max_bytes: usize,
}

/// The table is at one of its limits, and has stayed as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Full {
    /// The limit of routes, with its value.
    #[error("the table is full: {0} routes")]
    Routes(usize),
    /// The limit of octets, with its value.
    #[error("the table is full: {0} bytes")]
    Bytes(usize),
    /// The system refuses the address space for a new table, and so there is none.
    #[error("no room for a table: the system refuses {octets} bytes of address space ({reason})")]
    AddressSpace {
        /// The octets that the table needs.
        octets: usize,
        /// The error of the system.
        reason: io::ErrorKind,
    },
}

/// How full a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stats {
    /// Routes in the table.
    pub routes: usize,
    /// The limit of routes.
    pub max_routes: usize,
    /// Octets of memory that lookups touch, with what waits to be freed.
    pub bytes: usize,
    /// Octets among these that wait until readers have passed or older tables are dropped.
    pub waiting_bytes: usize,
    /// The limit of octets.
    pub max_bytes: usize,
    /// Octets that the writer needs besides, about: the routes themselves, and notes on the blocks.
    pub writer_bytes: usize,
}
