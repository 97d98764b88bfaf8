//! The bounds of a worker's sessions.

use crate::model::FlowTable;

/// The bounds of a worker's sessions, and their time-outs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) settings: FlowTable,
    /// The worker's share of sessions and of half-open ones.
    pub(crate) sessions: usize,
    pub(crate) half_open: usize,
}
