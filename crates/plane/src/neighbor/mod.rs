//! Neighbours: who is on a link, and at which hardware address (RFC 826, RFC 4861).
//!
//! Workers answer questions about our own addresses and hold packets whose next hop is not resolved; they tell what they
//! saw as [`Event`]s. The table of neighbours belongs to the control side, which answers with [`Action`]s: frames to send,
//! and changes of adjacencies, which reach the workers with the next root.

mod action;
pub mod control;
mod entry;
mod eviction;
mod link;
mod own;
mod router;
mod state;
mod table;
mod timers;

#[cfg(test)]
mod tests;

pub use action::Action;
pub use link::Link;
pub use state::{Known, State};
pub use table::Table;

pub use crate::graph::events::Event;
