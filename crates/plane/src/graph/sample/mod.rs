//! Samples of packets: a worker copies the first octets of some packets into a ring of its own, and a thread that is not
//! a worker does with them what it likes.
//!
//! No thread waits for that thread. Packets are selected at random, one by one (uniform probabilistic sampling: RFC
//! 5475, 5.2.2.1), so that no sender can time its packets to be passed over. All workers share a limit on samples per
//! second. A sample that finds a ring full is counted and dropped.

mod copy;
mod offer;

pub use copy::{Cause, Sample, Treatment};
pub(crate) use offer::{About, RING, Samples};

pub use crate::root::sampler::SNAP;
