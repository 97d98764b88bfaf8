//! Measurements and long tests of weir: what forwarding and each policy cost, in ticks of the time-stamp counter per packet
//! (`weir bench`, the program `figures`), and tables held against reference implementations while they change ([`soak`]).
//!
//! The crate generates configurations, traffic and tables itself. Figures are medians over many short windows (see
//! [`weir_plane::bench`]), with the 10th and 90th percentile; variants that are compared take turns.

#![forbid(unsafe_code)]

pub mod acl;
pub mod alike;
pub mod between;
pub mod bridge;
pub mod classify;
pub mod crypto;
mod error;
pub mod esp;
pub mod flow;
pub mod forward;
mod frames;
pub mod gso;
pub mod lpm;
mod machine;
mod model;
pub mod namespace;
pub mod nat;
mod pair;
pub mod peer;
pub mod prefixes;
pub mod report;
pub mod routes;
pub mod sav;
mod senders;
pub mod soak;
pub mod spd;
pub mod steer;
pub mod tunnels;
mod turns;

pub use error::Error;
