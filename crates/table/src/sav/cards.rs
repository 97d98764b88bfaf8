//! The rules as a router with line cards keeps them (draft-li-savnet-dataplane-performance-00, 2.4): a local table for each
//! card, of what concerns its interfaces, and a global one of all prefixes (Figures 6 and 7).
//!
//! | | asks the local table | asks the global one |
//! |---|---|---|
//! | any covering | whether an entry that covers the source has the interface | whether any entry covers the source |
//! | most specific | which is the longest prefix that has an interface of this card, and whether that is this interface | whether there is a longer one |
//!
//! So for the most specific prefix a source is valid if and only if the local match has the interface and is as long as the
//! global one.

use std::sync::Arc;

use weir_base::reclaim::{Domain, Guard};

use crate::lpm::{self, Key, Prefix, Table, Value, Writer};

use super::meaning::MostSpecificHere;
use super::{AnyCovering, Limits, Merged, NoRoom, Reading, Set, Verdict};

/// How nested prefixes are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Match {
    /// As [`super::MostSpecific`].
    MostSpecific,
    /// As [`super::AnyCovering`].
    AnyCovering,
}

/// How the two tables are asked: the verdicts are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// The global table only about sources that the local one leaves open.
    Serial,
    /// Both about every source.
    Parallel,
}

/// Prefixes, and the entries that they get, or none.
type Changes<K> = Vec<(Prefix<K>, Option<Set>)>;

/// A card's table.
enum Local<K: Key> {
    MostSpecific(Merged<K, MostSpecificHere>),
    AnyCovering(Merged<K, AnyCovering>),
}

impl<K: Key> Local<K> {
    fn change(&mut self, entries: Changes<K>) -> Result<(), NoRoom> {
        match self {
            Local::MostSpecific(table) => table.change(entries),
            Local::AnyCovering(table) => table.change(entries),
        }
    }

    fn get(&self, prefix: &Prefix<K>) -> Option<&Set> {
        match self {
            Local::MostSpecific(table) => table.get(prefix),
            Local::AnyCovering(table) => table.get(prefix),
        }
    }

    fn reading(&self) -> Reading<K> {
        match self {
            Local::MostSpecific(table) => table.reading(),
            Local::AnyCovering(table) => table.reading(),
        }
    }
}

/// The control side of all these tables.
pub struct Cards<K: Key> {
    matching: Match,
    /// The interfaces of each card.
    cards: Vec<(Set, Local<K>)>,
    /// Values are the length of the prefix and one.
    global: Writer<K>,
}

/// What readers see of one card. Cloning is cheap.
#[derive(Clone)]
pub struct CardReading<K: Key> {
    matching: Match,
    local: Reading<K>,
    global: Arc<Table<K>>,
}

impl<K: Key> Cards<K> {
    /// Empty tables for cards with these interfaces: distinct ones, each below the limit.
    ///
    /// # Errors
    /// If the system refuses address space for them.
    pub fn new(
        domain: &Domain,
        matching: Match,
        cards: impl IntoIterator<Item = Set>,
        limits: Limits,
    ) -> Result<Cards<K>, NoRoom> {
        let local = |interfaces: Set| {
            let table = match matching {
                Match::MostSpecific => Local::MostSpecific(Merged::new(domain, limits)?),
                Match::AnyCovering => Local::AnyCovering(Merged::new(domain, limits)?),
            };
            Ok((interfaces, table))
        };
        let global = lpm::Limits { max_routes: limits.prefixes, max_bytes: limits.bytes };
        let cards = cards.into_iter().map(local).collect::<Result<_, NoRoom>>()?;
        Ok(Cards { matching, cards, global: Writer::new(domain, global).map_err(NoRoom::Prefixes)? })
    }

    /// What the readers of a card, by its place in the list, are to see: again after every change.
    pub fn reading(&self, card: usize) -> Option<CardReading<K>> {
        let (_, local) = self.cards.get(card)?;
        Some(CardReading { matching: self.matching, local: local.reading(), global: self.global.table() })
    }

    /// Makes changes that readers see together, by the readings from then on.
    ///
    /// # Errors
    /// If there is no room for all. Then nothing has changed.
    pub fn change(&mut self, entries: impl IntoIterator<Item = (Prefix<K>, Option<Set>)>) -> Result<(), NoRoom> {
        let entries: Vec<_> = entries.into_iter().collect();
        let mut draft = self.global.transaction();
        for (prefix, set) in &entries {
            match set {
                Some(_) => {
                    let value = Value::new(u32::from(prefix.len()) + 1).expect("a length is small");
                    draft.insert(*prefix, value).map_err(NoRoom::Prefixes)?;
                }
                None => drop(draft.remove(prefix)),
            }
        }
        let mut undo: Vec<(usize, Changes<K>)> = Vec::new();
        for (number, (interfaces, local)) in self.cards.iter_mut().enumerate() {
            let here = |set: &Set| -> Option<Set> {
                let own: Set = set.iter().filter(|interface| interfaces.contains(*interface)).collect();
                (!own.is_empty()).then_some(own)
            };
            let own: Vec<_> = entries.iter().map(|(prefix, set)| (*prefix, set.as_ref().and_then(here))).collect();
            let before = own.iter().map(|(prefix, _)| (*prefix, local.get(prefix).cloned())).collect();
            match local.change(own) {
                Ok(()) => undo.push((number, before)),
                Err(error) => {
                    for (number, before) in undo {
                        // It had room for this a moment ago.
                        let _ = self.cards[number].1.change(before);
                    }
                    return Err(error);
                }
            }
        }
        draft.commit();
        Ok(())
    }
}

impl<K: Key> CardReading<K> {
    /// What the rules say of a source and an interface of this card.
    pub fn check(&self, guard: &Guard<'_>, source: K, interface: u32) -> Verdict {
        let (mut rows, mut lengths) = ([0], [0]);
        let mut verdicts = [Verdict::Unknown];
        self.check_each(guard, Order::Serial, |_| source, |_| interface, &mut rows, &mut lengths, &mut verdicts);
        verdicts[0]
    }

    /// The same of many sources and interfaces, by place. `rows` and `lengths` are room to work in, as long as
    /// `verdicts`.
    #[expect(clippy::too_many_arguments, reason = "room to work in is the caller's: nothing is allocated here")]
    pub fn check_each(
        &self,
        guard: &Guard<'_>,
        order: Order,
        source: impl Fn(usize) -> K,
        interface: impl Fn(usize) -> u32,
        rows: &mut [u32],
        lengths: &mut [u32],
        verdicts: &mut [Verdict],
    ) {
        self.local.rows(guard, &source, rows);
        if order == Order::Parallel {
            self.global.lookup_each(guard, &source, lengths);
            for (place, ((verdict, &row), &length)) in verdicts.iter_mut().zip(&*rows).zip(&*lengths).enumerate() {
                *verdict = self.combine(self.local.verdict(row, interface(place)), row, length);
            }
            return;
        }
        // Those that are left open, by place; in the beginning of `lengths`, which has room for all.
        let mut open = 0;
        for (place, (verdict, &row)) in verdicts.iter_mut().zip(&*rows).enumerate() {
            *verdict = self.local.verdict(row, interface(place));
            let settled = match self.matching {
                Match::MostSpecific => *verdict == Verdict::Invalid,
                Match::AnyCovering => *verdict != Verdict::Unknown,
            };
            if !settled {
                lengths[open] = place as u32;
                open += 1;
            }
        }
        for &place in &lengths[..open] {
            let place = place as usize;
            let length = self.global.lookup(guard, source(place));
            verdicts[place] = self.combine(verdicts[place], rows[place], length);
        }
    }

    /// What the two tables say together: the local verdict and row, and the global value.
    #[inline(always)]
    fn combine(&self, local: Verdict, row: u32, length: u32) -> Verdict {
        match (local, self.matching) {
            (Verdict::Valid, Match::AnyCovering) => Verdict::Valid,
            (Verdict::Valid, Match::MostSpecific) if u32::from(self.local.mark(row)) == length => Verdict::Valid,
            (Verdict::Unknown, _) if length == lpm::NO_ROUTE => Verdict::Unknown,
            _ => Verdict::Invalid,
        }
    }
}
