//! Classifier tables.

use crate::model::ClassifyTable;

/// A classifier table and what it counted.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassifyStats {
    /// The table.
    pub table: ClassifyTable,
    /// Interfaces whose packets that come in it is the first table of, in the order of the configuration.
    pub input: Vec<String>,
    /// The same of packets that leave.
    pub output: Vec<String>,
    /// The name of its next table.
    pub next: Option<String>,
    /// Its counters.
    pub counted: ClassifyCounted,
    /// The time of the clock that idle times count to, in nanoseconds.
    pub now: u64,
    /// Where it was declared.
    pub origin: String,
}

/// The counters of a classifier table.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassifyCounted {
    /// Of each session, in the order of the model.
    pub sessions: Vec<ClassifyCount>,
    /// Packets that matched no session, where there is no next table.
    pub missed: u64,
    /// Octets of memory.
    pub octets: usize,
}

/// The counters of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClassifyCount {
    /// Packets.
    pub packets: u64,
    /// Octets from the header of IP on.
    pub octets: u64,
    /// When the last packet came, in nanoseconds of the clock; `None`: none came.
    pub last: Option<u64>,
}
