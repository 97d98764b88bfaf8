//! The graph: nodes, the workers that run them, the packets that they hold, and the records of what they did.

mod batch;
pub mod capture;
pub mod counters;
pub(crate) mod events;
mod flags;
pub(crate) mod flow;
pub(crate) mod fragments;
pub(crate) mod hold;
pub mod limiter;
pub(crate) mod made;
mod merges;
pub(crate) mod nesting;
mod nodes;
mod outlet;
pub(crate) mod peer;
pub(crate) mod policies;
pub(crate) mod reassembly;
pub mod record;
mod requeue;
pub mod sample;
pub(crate) mod session;
pub(crate) mod shares;
mod slots;
pub(crate) mod streams;
pub mod trace;
pub(crate) mod worker;
