//! Longest-prefix match for IPv4 and IPv6: finds the longest of a million prefixes that contains an address.
//!
//! A [`Writer`] owns the routes and changes a [`Table`], which workers read concurrently. One trie serves both
//! families. They differ in the sizes of its blocks and in the search of a node for the run of a key.
//!
//! ```
//! use weir_base::reclaim::Domain;
//! use weir_table::lpm::{Limits, NO_ROUTE, Value, Writer};
//!
//! let domain = Domain::new();
//! let mut writer = Writer::<u32>::new(&domain, Limits { max_routes: 1000, max_bytes: 1 << 20 }).unwrap();
//! writer.insert("10.0.0.0/8".parse().unwrap(), Value::new(7).unwrap()).unwrap();
//!
//! let table = writer.table();
//! let mut reader = domain.reader().unwrap();
//! let mut answers = [0; 2];
//! table.lookup_batch(&reader.pin(), &[[10, 1, 2, 3], [11, 1, 2, 3]], &mut answers);
//! assert_eq!(answers, [7, NO_ROUTE]);
//! ```
//!
//! # The trie
//! A **directory**, indexed by the first bits of the address, refers to blocks. A block is an **array** of leaves,
//! indexed by the next bits, or a **node** with a leaf per *run* of equal slots. Values are pushed down to the leaves,
//! so the first value on the path is the answer. The module `node` has the layouts.
//!
//! ```text
//!               directory    arrays                                nodes
//! IPv4 (u32)    bits 0..10   10..18, 18..24, 24..30, 30..32        18..24, 24..30, 30..32
//! IPv6 (u128)   bits 0..16   16..24, 24..32, 32..40, 40..48, …     from where an array could be to 48, 80, 112, 128
//! ```
//!
//! IPv4 routes are adjacent. Below the directory lie arrays, then nodes of 6 bits, as many as one population count can
//! rank. A lookup touches one cache line of a node or array.
//!
//! IPv6 routes are few in a large space, so a node replaces several levels. It resolves all bits up to the end of a
//! **frame** of 32 bits, with up to 8 runs in a cache line and up to 120 in lines below a line; one vector comparison
//! finds the run. More runs begin with an array of 8 bits, so dense places cost a load for each 8 bits. Frames end at
//! /48, the longest prefix of nearly all routes, and then every 32 bits. Longer prefixes lie below a slot of the
//! previous frame.
//!
//! The default route is not a leaf: it replaces "no route" at the end. Setting it costs one store, not a new leaf in
//! every block.
//!
//! # The lookup
//! A vector of keys descends together, one level per pass: the loads of a pass are independent, and the CPU overlaps
//! them. After each pass, finished keys are removed and the others sorted by the kind of their block, with AVX-512,
//! AVX2 or neither. Large tables prefetch cache lines. The module `arch` has the bodies.
//!
//! `docs/design/lpm.md` lists what was tried instead, with figures.
//!
//! # The memory
//! Blocks lie in an arena that is mapped once and never moves. They have numbers, so that a reference fits into a leaf.
//! A buddy allocator hands out naturally aligned powers of two and merges freed blocks, so that an emptied table can
//! take routes of another shape. A table is bounded by [`Limits`], reports its occupancy as [`Stats`], and refuses with
//! [`Full`].
//!
//! # The update
//! The writer plans a change, then stores single leaves: a lookup sees the old or the new state. A node with changed
//! runs is rebuilt. The writer keeps the prefix of each leaf outside the arena. Insertion overwrites leaves of shorter
//! prefixes, removal those of the removed prefix, so both stay local. Removed blocks are reused when all readers have
//! passed ([`weir_base::reclaim`]).
//!
//! A [`Transaction`] edits a draft: a copy of the directory that shares all blocks. A block that an older table can
//! reach is copied before it is changed; the generation of each block decides that. A commit makes the draft the
//! current table. The older table stays unchanged, and its own blocks are freed when it is dropped.
//!
//! # How it is known to be right
//! [`naive`] is the reference implementation. Tests compare [`indexed`] with it, and everything else with [`indexed`],
//! for any time (`soak` of the crate weir-bench). Readers during changes must get answers that were valid at some time
//! during the lookup.

mod arch;
pub(crate) mod arena;
pub(crate) mod buddy;
mod hash;
pub mod indexed;
mod key;
pub(crate) mod limbo;
pub mod naive;
mod node;
mod rib;
mod route;
pub mod sample;
mod table;
mod transaction;
mod trie;
mod view;
mod writer;

pub use hash::Folding;
pub(crate) use node::Fill;
pub(crate) use trie::{Budget, Paint, Trie};

pub use key::{AsKey, Key, NotAPrefix, Prefix};
pub use route::{Full, Limits, NO_ROUTE, Stats, Value};
pub use table::Table;
pub use transaction::Transaction;
pub use writer::Writer;
