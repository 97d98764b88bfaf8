//! Source address validation: decides whether a packet with this source may enter by this interface.
//!
//! The rules are entries of a prefix and a set of interfaces ([`Set`]). A [`Meaning`] defines the effect of nested
//! prefixes:
//!
//! | meaning | valid is |
//! |---|---|
//! | [`MostSpecific`] | who comes in by an interface of the longest prefix that covers the source |
//! | [`AnyCovering`] | who comes in by an interface of any prefix that covers it (draft-li-savnet-dataplane-performance-00, 2.4) |
//! | [`Ordered`] | who is permitted by the first entry, in the order of the list, that covers the source and has the interface (2.1) |
//! | [`Modes`] | who passes the allowlists and blocklists of interfaces and of prefixes ([`Mode`]; draft-ietf-savnet-general-sav-capabilities), nested prefixes taken as in either of the first two |
//!
//! A source that no prefix covers is [`Verdict::Unknown`], which incremental deployment treats as valid.
//!
//! # One engine
//! [`Merged`] compiles each meaning to a longest-prefix match whose values are numbers of *rows*. A row is the set of
//! interfaces, as bits, that are valid for the sources whose longest covering prefix has it. A lookup costs one match
//! and one bit, whatever the number of interfaces and of nested prefixes. Updates pay for it: a changed entry changes
//! the rows of the prefixes inside, unless their own entries decide.
//!
//! A row of [`Modes`] has two bits for each interface, adjacent in one word: a source may be unknown to one interface
//! and not to another, and valid on all interfaces except some ([`Row`]). So lists of four kinds cost a lookup the same
//! as one: one match and one word, in rows twice as wide. A prefix needs to know only which interfaces of the whole
//! table have allowlists. The entry of the default prefix holds that set, and all states inherit it
//! ([`Lists::with_allowlisted`]). The first allowlist of an interface, and the removal of its last, change every state,
//! and the rows that differ by it.
//!
//! [`Cards`] keeps the rules of the first two meanings in a local table for each line card and a global one, as the
//! draft describes.
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
//! A prefix has three numbers: of its *entry* (its rules), of its *state* (its entry combined with those of the
//! covering prefixes, by [`Meaning::state`]), and of its row. Pools share equal entries and equal states, and equal
//! states share a row: a million prefixes of a few thousand customers need a few thousand sets. The prefixes lie in a
//! *forest*: in order, in chunks of about a hundred, each with the length of the prefix that covers it. The prefixes
//! inside another follow it, and the covering prefix follows from the previous one.
//!
//! A change has three steps: compute the new states, from the widest prefix inwards (an unchanged state ends the walk
//! into the prefixes inside); collect the paintings; paint all into the trie in one walk, which visits each block once.
//! Without room for some part, the forest is restored and the trie is unchanged.
//!
//! # Readers, and concurrency
//! There is one writer. Readers never wait: they pin the [`Domain`](weir_base::reclaim::Domain), look up, and read
//! bits.
//!
//! - [`Merged::set`] stores into the readers' table if no prefix inside is affected: they see the old row or the new
//!   one. The bits of a row are stored before the first value that names it (release; lookups load values with
//!   acquire). They stay as they are while a reader can have the number.
//! - [`Merged::change`] creates a new table, which shares unchanged parts with the old one; [`Merged::reading`] returns
//!   it from then on. An older reading keeps the older rules, complete.
//! - [`Merged::replace_all`] rebuilds everything.
//!
//! The number of an unused row waits, as blocks of the trie do, until all readers have passed and the older tables that
//! may name it are dropped. Then another set gets it.
//!
//! If hits of prefixes are counted ([`Limits::distinct`]), each prefix has a row of its own, and the row holds the
//! number of the prefix. Rows change with updates, which keeps updates atomic; the number stays with the prefix and is
//! the index of its counter ([`Reading::counter`]).
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
//! An update costs a search in the forest, an access to each of three maps, and its share of the painting, which falls
//! with the number of prefixes of a batch in one block. `AnyCovering`, `Ordered` and `Modes` also visit the prefixes
//! inside: a change of the default prefix visits all.
//!
//! # How it is known to be right
//! [`naive`] is the reference implementation. Tests compare [`indexed`] with it, and everything else with [`indexed`],
//! for any time and during changes (`soak` of the crate weir-bench).

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

/// The result of the rules for a source and an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The source may enter by this interface.
    Valid,
    /// The source may not enter by this interface.
    Invalid,
    /// No rule covers the source.
    Unknown,
}
