//! Samples of packets: a worker copies the first octets of some packets into a ring of its own, and a thread that is not
//! a worker does with them what it likes.
//!
//! Nobody waits for that thread. Which packets are taken is left to chance, packet by packet (uniform probabilistic
//! sampling: RFC 5475, 5.2.2.1), so that no sender can time his packets to be passed over. A limit that all workers share
//! says how many are taken in a second, and what finds a ring full is counted and forgotten.

mod copy;
mod offer;

pub use copy::{Cause, Sample, Treatment};
pub(crate) use offer::{About, RING, Samples};

pub use crate::root::sampler::SNAP;
