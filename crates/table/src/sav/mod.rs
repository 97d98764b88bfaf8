//! Source address validation: may a packet with this source come in by this interface?
//!
//! The rules are entries of a prefix and a set of interfaces ([`Set`]). What they mean together, when prefixes are nested,
//! is a [`Meaning`]:
//!
//! | meaning | valid is |
//! |---|---|
//! | [`MostSpecific`] | who comes in by an interface of the longest prefix that covers the source |
//! | [`AnyCovering`] | who comes in by an interface of any prefix that covers it (draft-li-savnet-dataplane-performance-00, 2.4) |
//! | [`Ordered`] | who is permitted by the first entry, in the order of the list, that covers the source and has the interface (2.1) |
//! | [`Modes`] | who passes the allowlists and blocklists of interfaces and of prefixes ([`Mode`]; draft-ietf-savnet-general-sav-capabilities), nested prefixes taken as in either of the first two |
//!
//! A source that no prefix covers is [`Verdict::Unknown`]: whoever deploys step by step takes it for valid.
//!
//! # One engine
//! [`Merged`] compiles each meaning to the same: a longest-prefix match whose values are numbers of *rows*, and a row is the
//! set of interfaces that are valid for sources of which this prefix is the longest that covers them, as bits. A lookup
//! costs one match and one bit, whatever the number of interfaces and of nested prefixes. The price is paid by updates: an
//! entry that changes gives the prefixes inside of it other rows, unless their own entries make no difference.
//!
//! Of [`Modes`], a row has two bits for each interface, side by side in one word: a source may be unknown to one interface
//! and not to another, and valid on all interfaces but some ([`Row`]). So lists of four kinds cost a lookup what one does:
//! it is the same match, and the same one word, of rows that are twice as wide. What a prefix has to know of the whole table
//! is which interfaces have allowlists; the prefix of no bits has that in its entry, and the states of all others inherit it
//! ([`Lists::with_allowlisted`]). An interface that gets its first allowlist, or loses its last, changes every state, and the
//! rows of those that said something else of it.
//!
//! [`Cards`] keeps the rules of the first two in a table for each line card and a global one, as the draft describes it.
//!
//! ```text
//! source ──→ longest-prefix match ──→ row ──→ bit of the interface ──→ Valid | Invalid
//!                    │                                                    (row 0: Unknown)
//!            Trie, crate::lpm            Rows: words, marks, owners         what readers see
//! ─────────────────────────────────────────────────────────────────────────────────────────────
//!  Forest: prefix → (entry, state, row)  Pool: entries   Pool: states       the control side
//! ```
//!
//! # The control side
//! What stands at a prefix is three numbers: of its *entry* (what the rules say there), of its *state* (what that and the
//! entries around come to, by [`Meaning::state`]), and of its row. Equal entries and equal states are kept once, in pools,
//! and equal states have one row; so a million prefixes of a few thousand customers cost a few thousand sets. The prefixes
//! themselves lie in a *forest*: in order, by the hundred, each with the length of the prefix around it. There, what lies
//! inside of a prefix is what follows it, and what is around a prefix is found from the one before it.
//!
//! A change goes through three steps: find the states that follow, from the widest prefix inwards (a state that stays as it
//! was ends the walk into what lies inside of it); note what is to be painted; and paint all of it into the trie in one walk,
//! which looks at each block once. If anything finds no room, the forest goes back to what it was, and the trie never
//! started.
//!
//! # Readers, and concurrency
//! There is one writer. Readers never wait: they pin the [`Domain`](weir_base::reclaim::Domain), look up, and look at bits.
//!
//! - [`Merged::set`], where no prefix inside is concerned, stores into the table that readers have: they see the old row or
//!   the new one. The bits of a row are stored before the first value that names it (release, and acquire when a lookup
//!   loads the value), and stay as they are for as long as anybody can come by its number.
//! - [`Merged::change`] makes a new table beside the old one, which shares what did not change; [`Merged::reading`] gives
//!   it from then on. Whoever has the older reading goes on seeing the older rules, whole.
//! - [`Merged::replace_all`] builds all anew.
//!
//! The number of a row that no prefix has any more waits for two things, as blocks of the trie do: that all readers have
//! passed, and that the older tables that may name it are gone. Then it is given to another set.
//!
//! Where hits of prefixes are counted ([`Limits::distinct`]), each prefix has a row of its own, and beside the bits of the
//! row stands the number of the prefix. Rows come and go with changes, so that these stay atomic; the number stays with
//! the prefix, and is where its counter is ([`Reading::counter`]).
//!
//! # What it costs
//! A prefix takes the octets of the match: 27 for each of a million IPv6 prefixes of real lengths, a fifth of them nested, and
//! 14 for IPv4. A row takes a word for each 64 interfaces. The control side takes 60 octets a prefix for IPv6 and 34 for
//! IPv4, with the writer's notes on the trie, and what the sets themselves take. A lookup takes what one in the match
//! does, and a load that is mostly in the first cache. Prefixes that are nested as deeply as they can be (chains of every
//! length) cost a lookup 1.5 to 2.2 times as much as as many ordinary ones, for IPv6, as there are more frames to pass; and
//! no more for IPv4.
//! `sav-figures` measures all this.
//!
//! An update costs a search in the forest, one look into each of three maps, and its share of the painting, which is
//! smaller the more prefixes of a batch lie in one block. `AnyCovering`, `Ordered` and `Modes` have to visit what lies inside, too:
//! at worst a change of the default prefix visits all.
//!
//! # How it is known to be right
//! [`naive`] is the specification. [`indexed`] is held against it, and everything else against [`indexed`], for as long as
//! one likes and during changes (`soak` of the crate weir-bench).

mod cards;
mod forest;
pub mod indexed;
mod meaning;
mod merged;
pub mod naive;
mod numbers;
mod pool;
mod rows;
mod set;
#[cfg(test)]
mod tests;

pub use cards::{CardReading, Cards, Match, Order};
pub use meaning::{AnyCovering, Lists, Meaning, Mode, Modes, MostSpecific, Ordered, Rule};
pub use merged::{Column, Limits, Merged, NoRoom, Reading};
pub use rows::{Bit, Cell, Pair, Row};
pub use set::Set;

/// What the rules say of a source and an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The source may come in by this interface.
    Valid,
    /// It may not.
    Invalid,
    /// No rule covers the source.
    Unknown,
}
