//! Neighbours: who is on a link, and at which hardware address (RFC 826, RFC 4861).
//!
//! Workers answer solicitations for the gateway's addresses and hold packets whose next hop is not resolved; they
//! report to the table by [`Event`]s. The neighbour table belongs to the control side, which answers with [`Action`]s:
//! frames to send, and changes of adjacencies, which reach the workers with the next root.

mod action;
mod change;
pub mod control;
mod entry;
mod eviction;
pub(crate) mod learned;
mod link;
mod own;
mod router;
mod state;
mod table;
mod timers;

#[cfg(test)]
mod tests;

pub use action::Action;
pub use change::NeighborChange;
pub use link::Link;
pub use state::{Known, State};
pub use table::Table;

pub use crate::graph::events::Event;
