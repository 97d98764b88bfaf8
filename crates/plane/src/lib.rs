//! The data plane: the graph and its nodes, the root they read, the workers that run them, and the engine that starts,
//! changes and stops it all.
//!
//! Folders and files import from left to right only; `tests/imports.rs` checks this:
//!
//! `model` → `changed`, `node`, `reason`, `stats` → `root` → `graph` → `compile` → `neighbor` → `engine`
//!
//! - [`model`]: the wanted configuration, as values.
//! - [`node`], [`reason`], [`stats`]: names of nodes, drop reasons, and rows of statistics.
//! - [`root`]: the configuration in force, as nodes read it.
//! - [`graph`]: nodes, workers, held packets, traces and the record of fates.
//! - [`compile`]: turns a model into a root, and applies changes to it.
//! - [`neighbor`]: the neighbour table and its control loop.
//! - [`engine`]: threads, ports, counters; the harness and the bench run the same graph without threads.

#![forbid(unsafe_code)]

// The kit of the integration tests serves unit tests, too, and calls the crate by its name.
#[cfg(test)]
extern crate self as weir_plane;

pub mod changed;
pub mod compile;
pub mod engine;
pub mod graph;
#[cfg(test)]
#[path = "../tests/kit/mod.rs"]
mod kit;
pub mod model;
pub mod neighbor;
pub mod node;
pub mod reason;
pub mod root;
pub mod stats;

pub use compile::rib;
pub use engine::{alarm, bench, harness};
pub use graph::{capture, record, sample, trace};

pub mod translation_log {
    //! Events of translations, for a log.

    pub use crate::graph::session::{Ends, NatEvent, NatEventKind};
    pub use crate::root::nat::{LogTo, RuleId};
}

pub mod session_watch {
    //! Sessions that begin and end, for watchers.

    pub use crate::graph::session::{SessionEvent, SessionNews};
}
pub use root::{acl, allow, bindings, ecmp, family, ipsec, sav};
