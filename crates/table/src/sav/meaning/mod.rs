//! Meanings of nested entries: the row of a prefix as a function of its entry and those of the covering prefixes.

use std::fmt::Debug;
use std::hash::Hash;

use super::Set;
use super::rows::{Bit, Cell, Row};

mod modes;

pub use modes::{Lists, Mode, Modes};

/// A meaning of entries.
pub trait Meaning {
    /// Entry of a prefix.
    type Entry: Clone + Eq + Hash + Debug + Send + Sync;
    /// The entry of a prefix combined with those of the covering prefixes: all that the prefixes inside need.
    type State: Clone + Eq + Hash + Debug + Send + Sync;
    /// Code of an interface in rows.
    type Cell: Cell;

    /// The state of a prefix depends on that of the covering one.
    const NESTS: bool;
    /// The state depends on the length of the prefix.
    const BY_LENGTH: bool = false;

    /// Returns the state of a prefix of `len` bits from that of the longest covering prefix.
    fn state(around: Option<&Self::State>, own: &Self::Entry, len: u8) -> Self::State;

    /// Returns the verdicts for sources whose longest covering prefix this is.
    fn row(state: &Self::State) -> Row;

    /// Returns the octets that an entry refers to.
    fn entry_octets(entry: &Self::Entry) -> usize;

    /// Returns the octets that a state refers to.
    fn state_octets(state: &Self::State) -> usize;
}

/// The longest prefix that covers the source decides.
#[derive(Debug, Clone, Copy)]
pub struct MostSpecific;

impl Meaning for MostSpecific {
    type Entry = Set;
    type State = Set;
    type Cell = Bit;

    const NESTS: bool = false;

    fn state(_: Option<&Set>, own: &Set, _: u8) -> Set {
        own.clone()
    }

    fn row(state: &Set) -> Row {
        Row::of(state.clone())
    }

    fn entry_octets(entry: &Set) -> usize {
        entry.octets()
    }

    fn state_octets(state: &Set) -> usize {
        state.octets()
    }
}

/// A source is valid if any covering prefix has the interface.
#[derive(Debug, Clone, Copy)]
pub struct AnyCovering;

impl Meaning for AnyCovering {
    type Entry = Set;
    type State = Set;
    type Cell = Bit;

    const NESTS: bool = true;

    fn state(around: Option<&Set>, own: &Set, _: u8) -> Set {
        around.map_or_else(|| own.clone(), |around| around.union(own))
    }

    fn row(state: &Set) -> Row {
        Row::of(state.clone())
    }

    fn entry_octets(entry: &Set) -> usize {
        entry.octets()
    }

    fn state_octets(state: &Set) -> usize {
        state.octets()
    }
}

/// The most specific prefix of a part of the entries: the row is marked with the length of its prefix plus 1, which
/// shows whether a longer prefix exists elsewhere.
#[derive(Debug, Clone, Copy)]
pub(super) struct MostSpecificHere;

impl Meaning for MostSpecificHere {
    type Entry = Set;
    type State = (Set, u8);
    type Cell = Bit;

    const NESTS: bool = false;
    const BY_LENGTH: bool = true;

    fn state(_: Option<&Self::State>, own: &Set, len: u8) -> Self::State {
        (own.clone(), len + 1)
    }

    fn row((set, mark): &Self::State) -> Row {
        Row { mark: *mark, ..Row::of(set.clone()) }
    }

    fn entry_octets(entry: &Set) -> usize {
        entry.octets()
    }

    fn state_octets(state: &Self::State) -> usize {
        state.0.octets()
    }
}

/// The first entry of a list that covers the source and has the interface decides.
#[derive(Debug, Clone, Copy)]
pub struct Ordered;

/// An entry of an ordered list, as it stands at its prefix.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Place in the list: unique.
    pub place: u64,
    /// Interfaces of the entry.
    pub interfaces: Set,
    /// Whether the interfaces are valid.
    pub permit: bool,
}

impl Meaning for Ordered {
    /// A prefix may have several entries. Not empty.
    type Entry = Vec<Rule>;
    /// For each interface, by number: place and result of the deciding entry.
    type State = Vec<(u32, u64, bool)>;
    type Cell = Bit;

    const NESTS: bool = true;

    fn state(around: Option<&Self::State>, own: &Vec<Rule>, _: u8) -> Self::State {
        let of_own =
            own.iter().flat_map(|rule| rule.interfaces.iter().map(|interface| (interface, rule.place, rule.permit)));
        let mut all: Self::State = around.into_iter().flatten().copied().chain(of_own).collect();
        all.sort_unstable();
        // The first place of each interface is first.
        all.dedup_by_key(|decided| decided.0);
        all
    }

    fn row(state: &Self::State) -> Row {
        Row::of(state.iter().filter(|(_, _, permit)| *permit).map(|(interface, ..)| *interface).collect())
    }

    fn entry_octets(entry: &Vec<Rule>) -> usize {
        entry.capacity() * size_of::<Rule>() + entry.iter().map(|rule| rule.interfaces.octets()).sum::<usize>()
    }

    fn state_octets(state: &Self::State) -> usize {
        state.capacity() * size_of::<(u32, u64, bool)>()
    }
}
