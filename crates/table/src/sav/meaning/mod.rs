//! What nested entries mean together: how a prefix's row follows from its own entry and from those of the prefixes around.

use std::fmt::Debug;
use std::hash::Hash;

use super::Set;
use super::rows::{Bit, Cell, Row};

mod modes;

pub use modes::{Lists, Mode, Modes};

/// A meaning of entries.
pub trait Meaning {
    /// What stands at a prefix.
    type Entry: Clone + Eq + Hash + Debug + Send + Sync;
    /// What the entry at a prefix and those around it come to: all that the prefixes inside have to know.
    type State: Clone + Eq + Hash + Debug + Send + Sync;
    /// What rows keep of each interface.
    type Cell: Cell;

    /// Whether the state of a prefix depends on that of the one around it.
    const NESTS: bool;
    /// Whether it depends on the length of the prefix.
    const BY_LENGTH: bool = false;

    /// The state of a prefix of `len` bits, by that of the longest prefix around it.
    fn state(around: Option<&Self::State>, own: &Self::Entry, len: u8) -> Self::State;

    /// What is said of interfaces, for sources of which this prefix is the longest that covers them.
    fn row(state: &Self::State) -> Row;

    /// Octets that an entry refers to.
    fn entry_octets(entry: &Self::Entry) -> usize;

    /// Octets that a state refers to.
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

/// Any prefix that covers the source and has the interface is enough.
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

/// As [`MostSpecific`] of part of the entries: the row is marked with the length of its prefix and one, so that it can be
/// told whether a longer prefix is elsewhere.
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
    /// Its place in the list: no two have the same.
    pub place: u64,
    /// The interfaces that it is about.
    pub interfaces: Set,
    /// Whether they are valid.
    pub permit: bool,
}

impl Meaning for Ordered {
    /// Several entries may have the same prefix. Not empty: a prefix without entries has none.
    type Entry = Vec<Rule>;
    /// For each interface, by number, the place of the entry that decides, and what it says.
    type State = Vec<(u32, u64, bool)>;
    type Cell = Bit;

    const NESTS: bool = true;

    fn state(around: Option<&Self::State>, own: &Vec<Rule>, _: u8) -> Self::State {
        let of_own =
            own.iter().flat_map(|rule| rule.interfaces.iter().map(|interface| (interface, rule.place, rule.permit)));
        let mut all: Self::State = around.into_iter().flatten().copied().chain(of_own).collect();
        all.sort_unstable();
        // The first place of each interface comes first.
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
