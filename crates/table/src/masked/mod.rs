//! Exact match of masked octets: a table has one mask over the first octets of a header, and an entry is a value of the masked
//! octets with a number.
//!
//! # Layout
//! A mask covers up to eight *granules* of 16 octets. The granules in front of the first one that counts are skipped, and those
//! behind the last one are left out. The rest is the key.
//!
//! A *bucket* is a header of 16 octets and three keys behind it, in whole cache lines. With one granule a bucket is one line. The
//! header holds a number for each key, and a word that says which other buckets hold keys of this bucket. 32 buckets are a
//! *group*. The hash of a key names a group and, in it, the key's *home*. A key lies there or, if its home is full, in another
//! bucket of the group. So most lookups read one bucket, whatever the number of entries.
//!
//! # Room
//! A table has its memory from the start, for a number of entries that its owner bounds. Half of the keys' slots are then in use.
//! A group that is full refuses an entry ([`Full::Crowded`]). With a secret hash the fullest groups are seven standard deviations
//! away from that.
//!
//! # Readers and the writer
//! One [`Writer`] changes a table under readers. All words are atomic. A key is written before its number is published with
//! release, and a reader loads the number with acquire before it compares the key. The slot of a removed key is closed, and is
//! used again only when all readers of the [`Domain`](weir_base::reclaim::Domain) have passed. So a number that a reader sees
//! belongs to the key beside it as long as the reader is pinned.
//!
//! # Hash
//! Folded multiplication under a [`Secret`](crate::flow::Secret): without the secret, nobody can choose keys that meet.

mod bucket;
mod mask;
pub mod naive;
mod table;
mod writer;

pub use mask::{GRANULE, Key, MOST_GRANULES, MOST_OCTETS, MOST_WORDS, Mask, MaskError};
pub use table::{NO_ENTRY, Table, octets};
pub use writer::{Full, Writer};
