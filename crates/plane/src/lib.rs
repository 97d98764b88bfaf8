//! The data plane: the graph and its nodes, the root they read, the workers that run them, and the engine that starts,
//! changes and stops it all.

#![forbid(unsafe_code)]

// The kit of the integration tests serves unit tests, too, and calls the crate by its name.
#[cfg(test)]
extern crate self as weir_plane;

pub mod acl;
mod adjacency;
pub mod alarm;
pub mod allow;
pub mod bench;
pub mod bindings;
mod collect;
pub mod compile;
pub mod counters;
pub mod ecmp;
pub mod engine;
mod events;
mod fragments;
pub mod harness;
mod hold;
pub mod keeper;
#[cfg(test)]
#[path = "../tests/kit/mod.rs"]
mod kit;
pub mod limiter;
pub mod model;
pub mod neighbor;
pub mod node;
mod nodes;
mod outlet;
mod peer;
mod pending;
pub mod reason;
mod reassembly;
pub mod record;
pub mod rib;
pub mod root;
pub mod sample;
pub mod sav;
mod show;
pub mod stats;
mod streams;
pub mod trace;
mod worker;
