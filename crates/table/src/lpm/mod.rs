//! Longest-prefix match for IPv4 and IPv6: which of a million prefixes is the longest that contains an address?
//!
//! A [`Writer`] owns the routes and changes a [`Table`], which any number of workers read at the same time. One trie
//! serves both families; they differ in the sizes of its blocks, and in how a node finds the run of a key.
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
//! indexed by the next bits, or a **node**, which has a leaf per *run* of equal slots. Values are pushed down to the
//! leaves, so that the first value on the way is the answer. The module `node` has the layouts.
//!
//! ```text
//!               directory    arrays                                nodes
//! IPv4 (u32)    bits 0..10   10..18, 18..24, 24..30, 30..32        18..24, 24..30, 30..32
//! IPv6 (u128)   bits 0..16   16..24, 24..32, 32..40, 40..48, …     from where an array could be to 48, 80, 112, 128
//! ```
//!
//! IPv4 addresses are used up, and routes lie side by side: below the directory there are arrays, then nodes of 6 bits,
//! which are what one population count can rank. A lookup touches one cache line of a node, as of an array.
//!
//! IPv6 routes are few in a wide space. There, a node takes the place of several levels: it resolves all bits up to the
//! end of a **frame** of 32 bits, with up to 8 runs in a cache line and up to 120 in lines below a line; one comparison
//! of vectors finds the run. Where there are more runs, an array of 8 bits goes first, so that dense places cost a load
//! for each 8 bits. The frames end at /48, the longest prefix of nearly all routes, and then every 32 bits. Longer
//! prefixes lie below a slot of the frame before.
//!
//! The default route is no leaf: "no route" is replaced by it at the end. To set it costs one store instead of a new
//! leaf in every block.
//!
//! # The lookup
//! A vector of keys goes down together, one level per pass: the loads of a pass do not depend on each other, and the
//! CPU overlaps them. After each pass the keys are sorted by the kind of block they are at, with AVX-512, AVX2 or
//! neither, and those that have arrived are left out. Large tables are asked for cache lines ahead of the passes. The
//! module `arch` has the bodies.
//!
//! `docs/design/lpm.md` lists what was tried instead, with figures.
//!
//! # The memory
//! Blocks lie in an arena that is mapped once and never moves, and are named by number, so that a reference to one fits
//! into a leaf. A buddy allocator gives out powers of two: naturally aligned, and merged again when freed, so that a
//! table that has emptied can take routes of another shape. A table is bounded by [`Limits`], shows its occupancy as
//! [`Stats`], and refuses with [`Full`].
//!
//! # The update
//! The writer plans a change aside, and carries it out by storing single leaves: a lookup sees the old state or the new
//! one. A node that gets other runs is written anew. Which prefix a leaf comes from is kept beside the arena, for the
//! writer alone: inserting overwrites what comes from shorter prefixes, and removing overwrites what comes from the
//! removed one, so that both stay local. Blocks that drop out are used again when all readers have passed
//! ([`weir_base::reclaim`]).
//!
//! A [`Transaction`] edits a draft: a copy of the directory that shares all blocks. A block that an older table can
//! reach is copied before it is changed; every block carries the generation it was born in, which decides that.
//! Committing makes the draft the current table; the older one stays as it was, and what only it uses is freed when it
//! is dropped.
//!
//! # How it is known to be right
//! [`naive`] is the specification. [`indexed`] is held against it, and everything else against [`indexed`], for as long
//! as one likes (`soak` of the crate weir-bench). Readers that look up during changes must get answers that were right at some time during
//! the lookup.

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
