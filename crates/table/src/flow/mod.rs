//! The flow table: keys of flows, and a small value for each, looked up by the vector. One thread owns it.
//!
//! # Layout
//! A *bucket* is a cache line of 31 tags, 16 bits of each key's hash, beside 31 entries of key and value. 16 buckets are a
//! *group*. The hash of a key names a group and, in it, the key's *home* bucket; an entry lies there, or, if that is full, in
//! another bucket of the group, and a bit of the home says in which. So a lookup reads a line of tags and one entry, seldom
//! more, and no index in between.
//!
//! Groups lie one behind another in regions of up to 2 MiB, in huge pages if the kernel has them. A thread of its own makes the
//! next region ready while one fills, so that growth does not wait for memory.
//!
//! # Growth
//! The table grows by a group at a time (linear hashing: W. Litwin, 1980): the group that is next in turn is split in two, by
//! one more bit of the hashes. No step touches more than the 496 entries of a group, and none copies the table. Memory is
//! taken by [`Table::prepare`] only. Groups that have not been split yet are twice as full as the others, so groups
//! hold 190 of 496 entries on average: a group that is full refuses an entry ([`Full::Crowded`]), and with keys that
//! nobody chose by their hashes, 380 expected in the fullest groups, this is six standard deviations away.
//!
//! # Hash
//! Folded multiplication under a [`Secret`] (as the hash of workers): without the secret, nobody can choose keys that meet.

mod batch;
mod bucket;
mod group;
mod key;
mod memory;
pub mod naive;
mod seen;
mod slab;
mod table;
#[cfg(test)]
mod tests;

pub use batch::Lookup;
pub use key::{Key, Secret};
pub use seen::{Seen, Slot};
pub use slab::Slab;
pub use table::{BATCH, Full, HALF, Lines, Packed, Place, Table, Target, VECTOR};
