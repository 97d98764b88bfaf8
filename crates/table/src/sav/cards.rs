//! The rules in a router with line cards (draft-li-savnet-dataplane-performance-00, 2.4): a local table for each line
//! card with the rules of its interfaces, and a global table of all prefixes (Figures 6 and 7).
//!
//! | | lookup in the local table | lookup in the global table |
//! |---|---|---|
//! | any covering | whether an entry that covers the source has the interface | whether any entry covers the source |
//! | most specific | which is the longest prefix that has an interface of this card, and whether that is this interface | whether there is a longer one |
//!
//! So for the most specific prefix, a source is valid if and only if the local match has the interface and is as long
//! as the global match.

use std::sync::Arc;

use weir_base::reclaim::{Domain, Guard};

use crate::lpm::{self, Key, Prefix, Table, Value, Writer};

use super::meaning::MostSpecificHere;
use super::merged::Staged;
use super::{AnyCovering, Limits, Merged, NoRoom, Reading, Set, Verdict};

/// Meaning of nested prefixes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Match {
    /// As [`super::MostSpecific`].
    MostSpecific,
    /// As [`super::AnyCovering`].
    AnyCovering,
}

/// Order of the lookups in both tables; the verdicts are the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Order {
    /// The global table only for sources that the local table leaves open.
    Serial,
    /// Both tables for every source.
    Parallel,
}

/// Prefixes with their new entries; `None` removes one.
type Changes<K> = Vec<(Prefix<K>, Option<Set>)>;

/// The table of a line card.
enum Local<K: Key> {
    MostSpecific(Merged<K, MostSpecificHere>),
    AnyCovering(Merged<K, AnyCovering>),
}

impl<K: Key> Local<K> {
    fn stage(&mut self, entries: Changes<K>) -> Result<Staged<K>, NoRoom> {
        match self {
            Local::MostSpecific(table) => table.stage(entries),
            Local::AnyCovering(table) => table.stage(entries),
        }
    }

    fn commit(&mut self, staged: Staged<K>) {
        match self {
            Local::MostSpecific(table) => table.commit(staged),
            Local::AnyCovering(table) => table.commit(staged),
        }
    }

    fn cancel(&mut self, staged: Staged<K>) {
        match self {
            Local::MostSpecific(table) => table.cancel(staged),
            Local::AnyCovering(table) => table.cancel(staged),
        }
    }

    fn get(&self, prefix: &Prefix<K>) -> Option<&Set> {
        match self {
            Local::MostSpecific(table) => table.get(prefix),
            Local::AnyCovering(table) => table.get(prefix),
        }
    }

    fn replace_all(&mut self, entries: Vec<(Prefix<K>, Set)>) -> Result<(), NoRoom> {
        match self {
            Local::MostSpecific(table) => table.replace_all(entries),
            Local::AnyCovering(table) => table.replace_all(entries),
        }
    }

    fn reading(&self) -> Reading<K> {
        match self {
            Local::MostSpecific(table) => table.reading(),
            Local::AnyCovering(table) => table.reading(),
        }
    }

    fn sets(&self) -> (usize, usize) {
        match self {
            Local::MostSpecific(table) => table.sets(),
            Local::AnyCovering(table) => table.sets(),
        }
    }

    /// Returns the octets of lookups and of the control side.
    fn octets(&self) -> (usize, usize) {
        match self {
            Local::MostSpecific(table) => (table.octets(), table.control_octets()),
            Local::AnyCovering(table) => (table.octets(), table.control_octets()),
        }
    }
}

/// Sources per lookup in the global table.
const VECTOR: usize = 256;

/// The control side of all tables.
pub struct Cards<K: Key> {
    domain: Domain,
    matching: Match,
    limits: Limits,
    /// Interfaces of each line card.
    cards: Vec<(Set, Local<K>)>,
    /// Values are the length of the prefix plus 1.
    global: Writer<K>,
}

/// The readers' view of a line card. Cloning is cheap.
#[derive(Clone)]
pub struct CardReading<K: Key> {
    matching: Match,
    local: Reading<K>,
    global: Arc<Table<K>>,
}

impl<K: Key> Cards<K> {
    /// Creates empty tables for line cards with these interfaces, which are disjoint and below the limit. Each table
    /// has the limits for itself, and rows are shared whatever [`Limits::distinct`] says.
    ///
    /// # Errors
    /// If the system refuses the address space.
    pub fn new(
        domain: &Domain,
        matching: Match,
        cards: impl IntoIterator<Item = Set>,
        limits: Limits,
    ) -> Result<Cards<K>, NoRoom> {
        // A row of the most specific prefix also holds its length.
        let lengths = if matching == Match::MostSpecific { u32::from(K::BITS) + 1 } else { 1 };
        let limits = Limits { sets: limits.sets.saturating_mul(lengths), distinct: false, ..limits };
        Cards::of(domain, matching, cards, limits)
    }

    fn of(
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
        Ok(Cards { domain: domain.clone(), matching, limits, cards, global: Writer::new(domain, global)? })
    }

    /// Returns the entry of a prefix, reduced to interfaces of line cards.
    pub fn get(&self, prefix: &Prefix<K>) -> Option<Set> {
        self.global.get(prefix)?;
        let own = |(_, local): &(Set, Local<K>)| local.get(prefix).cloned();
        Some(self.cards.iter().filter_map(own).fold(Set::default(), |all, own| all.union(&own)))
    }

    /// Returns the view for the readers of a line card, by its index. To be called after every change.
    pub fn reading(&self, card: usize) -> Option<CardReading<K>> {
        let (_, local) = self.cards.get(card)?;
        Some(CardReading { matching: self.matching, local: local.reading(), global: self.global.table() })
    }

    /// Makes changes that readers see together, in views from then on.
    ///
    /// # Errors
    /// If there is no room for all; nothing has changed then.
    pub fn change(&mut self, entries: impl IntoIterator<Item = (Prefix<K>, Option<Set>)>) -> Result<(), NoRoom> {
        let entries: Vec<_> = entries.into_iter().collect();
        let mut draft = self.global.transaction();
        for (prefix, set) in &entries {
            match set {
                Some(_) => drop(draft.insert(*prefix, length(prefix))?),
                None => drop(draft.remove(prefix)),
            }
        }
        let mut staged = Vec::with_capacity(self.cards.len());
        for (interfaces, local) in &mut self.cards {
            let own = |set: &Option<Set>| set.as_ref().and_then(|set| part(set, interfaces));
            match local.stage(entries.iter().map(|(prefix, set)| (*prefix, own(set))).collect()) {
                Ok(change) => staged.push(change),
                Err(error) => {
                    self.cards.iter_mut().zip(staged).for_each(|((_, local), change)| local.cancel(change));
                    return Err(error);
                }
            }
        }
        self.cards.iter_mut().zip(staged).for_each(|((_, local), change)| local.commit(change));
        draft.commit();
        Ok(())
    }

    /// Replaces all entries, as [`Merged::replace_all`] does.
    ///
    /// # Errors
    /// If there is no room for all; nothing has changed then.
    pub fn replace_all(&mut self, entries: impl IntoIterator<Item = (Prefix<K>, Set)>) -> Result<(), NoRoom> {
        let entries: Vec<_> = entries.into_iter().collect();
        let interfaces = self.cards.iter().map(|(interfaces, _)| interfaces.clone());
        let mut fresh = Cards::of(&self.domain, self.matching, interfaces, self.limits)?;
        for (interfaces, local) in &mut fresh.cards {
            let own = entries.iter().filter_map(|(prefix, set)| Some((*prefix, part(set, interfaces)?)));
            local.replace_all(own.collect())?;
        }
        for (prefix, _) in &entries {
            fresh.global.insert(*prefix, length(prefix))?;
        }
        *self = fresh;
        Ok(())
    }

    /// Returns the number of rows of all local tables, and its limit.
    pub fn sets(&self) -> (usize, usize) {
        self.cards.iter().map(|(_, local)| local.sets()).fold((0, 0), |all, own| (all.0 + own.0, all.1 + own.1))
    }

    /// Returns the octets of lookups, in all tables.
    pub fn octets(&self) -> usize {
        self.cards.iter().map(|(_, local)| local.octets().0).sum::<usize>() + self.global.stats().bytes
    }

    /// Returns the approximate octets that only the control side uses.
    pub fn control_octets(&self) -> usize {
        self.cards.iter().map(|(_, local)| local.octets().1).sum::<usize>() + self.global.stats().writer_bytes
    }

    /// Returns the number of prefixes, and its limit.
    pub fn occupancy(&self) -> (usize, usize) {
        (self.global.len(), self.limits.prefixes)
    }
}

/// Returns the value of a prefix in the global table.
fn length<K: Key>(prefix: &Prefix<K>) -> Value {
    Value::new(u32::from(prefix.len()) + 1).expect("a length is small")
}

/// Returns the interfaces of a set on a line card; `None` if there is none.
fn part(set: &Set, interfaces: &Set) -> Option<Set> {
    let own: Set = set.iter().filter(|interface| interfaces.contains(*interface)).collect();
    (!own.is_empty()).then_some(own)
}

impl<K: Key> std::fmt::Debug for Cards<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cards").field("cards", &self.cards.len()).field("prefixes", &self.global.len()).finish()
    }
}

impl<K: Key> CardReading<K> {
    /// Returns whether both are views of the same tables, and always equal.
    pub fn is_same(&self, other: &CardReading<K>) -> bool {
        self.matching == other.matching && self.local.is_same(&other.local) && Arc::ptr_eq(&self.global, &other.global)
    }

    /// Returns the result of the rules for a source and an interface of this line card.
    pub fn check(&self, guard: &Guard<'_>, source: K, interface: u32) -> Verdict {
        let (mut rows, mut lengths) = ([0], [0]);
        let mut verdicts = [Verdict::Unknown];
        self.check_each(guard, Order::Serial, |_| source, |_| interface, &mut rows, &mut lengths, &mut verdicts);
        verdicts[0]
    }

    /// Checks many sources and interfaces, by index. `rows` and `lengths` are buffers as long as `verdicts`.
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
        // Indices of open sources, at the start of `lengths`, which has room for all.
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
        for places in lengths[..open].chunks(VECTOR) {
            let mut answers = [0; VECTOR];
            let answers = &mut answers[..places.len()];
            self.global.lookup_each(guard, |index| source(places[index] as usize), answers);
            for (&place, &length) in places.iter().zip(&*answers) {
                let place = place as usize;
                verdicts[place] = self.combine(verdicts[place], rows[place], length);
            }
        }
    }

    /// Combines the local verdict and row with the global value.
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
