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
//!
//! A source that no prefix covers is [`Verdict::Unknown`]: whoever deploys step by step takes it for valid.
//!
//! # One engine
//! [`Merged`] compiles each meaning to the same: a longest-prefix match whose values are numbers of *rows*, and a row is the
//! set of interfaces that are valid for sources of which this prefix is the longest that covers them, as bits. A lookup
//! costs one match and one bit, whatever the number of interfaces and of nested prefixes. The price is paid by updates: an
//! entry that changes gives the prefixes inside of it other rows, unless their own entries make no difference.
//!
//! [`Cards`] keeps the same rules in a table for each line card and a global one, as the draft describes it.
//!
//! # How it is known to be right
//! [`naive`] is the specification. [`indexed`] is held against it, and everything else against [`indexed`].

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
pub mod soak;
#[cfg(test)]
mod tests;

pub use cards::{CardReading, Cards, Match, Order};
pub use meaning::{AnyCovering, Meaning, MostSpecific, Ordered, Rule};
pub use merged::{Limits, Merged, NoRoom, Reading};
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
