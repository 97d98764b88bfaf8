//! Longest-prefix match for IPv4 and IPv6: which of a million prefixes is the longest that contains an address?
//!
//! A [`Writer`] owns the routes and changes a [`Table`], which any number of workers read at the same time. One trie
//! serves both families; only the sizes of its first two levels differ.
//!
//! ```
//! use weir_base::reclaim::Domain;
//! use weir_table::lpm::{Limits, NO_ROUTE, Value, Writer};
//!
//! let domain = Domain::new();
//! let mut writer = Writer::<u32>::new(&domain, Limits { max_routes: 1000, max_bytes: 1 << 20 });
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
//! A **directory**, indexed by the first bits of the address, refers to **chunks**, indexed by the next ones: together 18
//! bits for IPv4 and 28 for IPv6. From there on, a block resolves 6 bits. Values are pushed down to the leaves, so that
//! the first value on the way is the answer.
//!
//! ```text
//!               directory        chunk         blocks
//! IPv4 (u32)    bits 0..10       10..18        18..24, 24..30, 30..32
//! IPv6 (u128)   bits 0..14       14..28        28..34, 34..40, 40..46, 46..52 … 124..128
//! ```
//!
//! Six bits are what one population count can rank. A block with few *runs* of equal slots is a **node**: a word of 64 bits
//! that marks where runs begin, and a leaf per run; up to 14 of them fill a cache line, and a lookup touches no other. A
//! block with more runs is an **array** of 64 leaves, of which a lookup touches one line as well, with fewer instructions.
//! The module `node` has the layout.
//!
//! The default route is no leaf: "no route" is replaced by it at the end. To set it costs one store instead of a new leaf
//! in every block.
//!
//! # The lookup
//! A vector of keys goes down together, one level per pass: the loads of a pass do not depend on each other, and the CPU
//! overlaps them. After each pass the keys are sorted into those at an array, those at a node, and those that have arrived,
//! with AVX-512 or without. The module `arch` has the bodies.
//!
//! # The memory
//! Blocks lie in an arena that is mapped once and never moves, and are named by number, so that a reference to one fits
//! into a leaf. A buddy allocator gives out powers of two: naturally aligned, and merged again when freed, so that a table
//! that has emptied can take routes of another shape. A table is bounded by [`Limits`], shows its occupancy as [`Stats`],
//! and refuses with [`Full`].
//!
//! # The update
//! The writer plans a change aside, and carries it out by storing single leaves: a lookup sees the old state or the new one.
//! Which prefix a leaf comes from is kept beside the arena, for the writer alone: inserting overwrites what comes from
//! shorter prefixes, and removing overwrites what comes from the removed one, so that both stay local. Blocks that drop out
//! are used again when all readers have passed ([`weir_base::reclaim`]).
//!
//! A [`Transaction`] edits a draft: a copy of the directory that shares all blocks. A block that an older table can reach
//! is copied before it is changed; every block carries the generation it was born in, which decides that. Committing makes
//! the draft the current table; the older one stays as it was, and what only it uses is freed when it is dropped.
//!
//! # How it is known to be right
//! [`naive`] is the specification. [`indexed`] is held against it, and everything else against [`indexed`], for as long as
//! one likes ([`soak`]). Readers that look up during changes must get answers that were right at some time during the
//! lookup.

mod arch;
mod arena;
mod buddy;
mod hash;
pub mod indexed;
mod key;
mod limbo;
pub mod naive;
mod node;
mod rib;
pub mod sample;
pub mod soak;
mod table;
mod transaction;
mod trie;
mod writer;

pub use key::{AsKey, Key, NotAPrefix, Prefix};
pub use table::Table;
pub use transaction::Transaction;
pub use writer::{Full, Limits, NO_ROUTE, Stats, Value, Writer};
