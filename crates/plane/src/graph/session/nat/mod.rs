//! Translation of addresses and ports: what rules make of tuples. No packets.
//!
//! A translation has two tuples: that of the first packet as it came in, and that of its replies as they come in. The
//! destination of a packet is translated before its route is looked up, its source after that.

mod again;
mod draw;
mod owner;
mod target;

pub(crate) use again::{again, through};
pub(crate) use draw::{Draw, PORTS, draw};
pub(crate) use owner::{Arrival, Here, owner};
pub(crate) use target::{destination, look_up, look_up_each};
