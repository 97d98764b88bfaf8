//! `tunnel-decap` and `tunnel-encap`: packets of tunnels become what they carry, and packets that leave by the interface of a tunnel
//! become packets between its outer addresses.

mod alike;
mod arrival;
mod decap;
mod encap;
mod path;
mod pieces;
mod report;
mod stop;

pub(super) use arrival::{Arrival, arrival, owner_hash, takes_segments};
pub(super) use decap::run as decap;
pub(super) use encap::run as encap;
pub(super) use path::shorten;
pub(super) use report::learn;
