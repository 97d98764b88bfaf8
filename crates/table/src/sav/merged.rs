//! One table of all rules: a longest-prefix match to rows.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::Arc;

use weir_base::reclaim::{Domain, Guard};

use crate::classify;
use crate::lpm::{self, AsKey, Budget, Fill, Folding, Key, Paint, Prefix, Table, Trie, Value};

use super::Verdict;
use super::forest::{Forest, Place};
use super::meaning::Meaning;
use super::numbers::Numbers;
use super::pool::Pool;
use super::rows::{self, Bit, Bits, Cell, Rows, UNKNOWN, width};

/// Limits of the size of a table, and its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Number of prefixes.
    pub prefixes: usize,
    /// Octets of the longest-prefix match.
    pub bytes: usize,
    /// Number of different sets of interfaces. Without effect if `distinct`.
    pub sets: u32,
    /// Limit of interface numbers, exclusive.
    pub interfaces: u32,
    /// Every prefix has a row of its own, to count its hits: see [`Reading::counter`].
    pub distinct: bool,
}

/// The table has reached a limit and is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NoRoom {
    /// The limit of prefixes or octets.
    #[error(transparent)]
    Prefixes(#[from] lpm::Full),
    /// The limit of different sets of interfaces.
    #[error("the table is full: {0} different sets of interfaces, including sets that wait for readers")]
    Sets(u32),
    /// The limit of entries of masked octets.
    #[error(transparent)]
    Masked(#[from] crate::masked::Full),
    /// A limit of rules on packets' fields.
    #[error(transparent)]
    Rules(#[from] classify::Error),
    /// The memory of a cache.
    #[error(transparent)]
    Cache(#[from] crate::recent::Refused),
    /// The limit of different sequences of access lists of interfaces.
    #[error("interfaces name more than {0} different sequences of access lists")]
    Sequences(usize),
    /// The system refused the address space for the sets of interfaces of a new table.
    #[error(
        "no room for a table: the system refuses {octets} bytes of address space for sets of interfaces ({reason})"
    )]
    AddressSpace {
        /// The requested octets.
        octets: usize,
        /// The error.
        reason: io::ErrorKind,
    },
}

/// The numbers of a prefix: its entry, its state, and the row of the state.
#[derive(Debug, Clone, Copy)]
struct Node {
    own: u32,
    state: u32,
    row: u32,
}

/// The verdicts of rows for an interface.
#[derive(Clone, Copy)]
pub struct Column<'r, C = Bit>(rows::Column<'r, C>);

impl<C: Cell> Column<'_, C> {
    /// Returns the verdict of a row, under the guard of its lookup.
    #[inline(always)]
    pub fn verdict(self, row: u32) -> Verdict {
        self.0.verdict(row)
    }
}

/// The control side of the table: holds the entries and changes the readers' table.
pub struct Merged<K: Key, M: Meaning> {
    domain: Domain,
    limits: Limits,
    nodes: Forest<K, Node>,
    entries: Pool<M::Entry>,
    states: Pool<M::State>,
    /// Row of each state, if prefixes share rows.
    state_rows: Vec<u32>,
    rows: Rows<Table<K>, M::Cell>,
    /// Numbers of prefixes, if each has its own row.
    counters: Numbers<Table<K>>,
    trie: Trie<K>,
}

/// The readers' view. Cloning is cheap.
#[derive(Clone)]
pub struct Reading<K: Key, C = Bit> {
    table: Arc<Table<K>>,
    bits: Arc<Bits<C>>,
}

impl<K: Key, C: Cell> Reading<K, C> {
    /// Returns the result of the rules for a source and an interface.
    pub fn check(&self, guard: &Guard<'_>, source: K, interface: u32) -> Verdict {
        self.verdict(self.table.lookup(guard, source), interface)
    }

    /// Finds the rows of many sources for [`Reading::verdict`]: `source` returns the source of each index of `rows`.
    /// Best with vectors of up to 256.
    ///
    /// # Panics
    /// If `guard` belongs to a reader of a domain other than the table's.
    #[inline]
    pub fn rows(&self, guard: &Guard<'_>, source: impl Fn(usize) -> K, rows: &mut [u32]) {
        self.table.lookup_each(guard, source, rows);
    }

    /// Finds the rows of adjacent sources, as [`Reading::rows`] does: prefetches the octets of long ones.
    ///
    /// # Panics
    /// As for [`Reading::rows`], or if there is not one row for each source.
    #[inline]
    pub fn rows_batch<A: AsKey<K>>(&self, guard: &Guard<'_>, sources: &[A], rows: &mut [u32]) {
        self.table.lookup_batch(guard, sources, rows);
    }

    /// Finds rows as [`Reading::rows`] does, without the default prefix.
    ///
    /// # Panics
    /// As for [`Reading::rows`].
    #[inline]
    pub fn rows_without_default(&self, guard: &Guard<'_>, source: impl Fn(usize) -> K, rows: &mut [u32]) {
        self.table.lookup_each_without_default(guard, source, rows);
    }

    /// Returns whether both are views of one table, and always equal.
    pub fn is_same(&self, other: &Reading<K, C>) -> bool {
        Arc::ptr_eq(&self.table, &other.table)
    }

    /// Returns the mark of a row, under the guard of its lookup.
    #[inline(always)]
    pub(super) fn mark(&self, row: u32) -> u8 {
        self.bits.mark(row)
    }

    /// Returns the verdict of a row for an interface, under the guard of its lookup.
    #[inline(always)]
    pub fn verdict(&self, row: u32, interface: u32) -> Verdict {
        self.column(interface).verdict(row)
    }

    /// Returns the verdicts of rows for an interface: locates the interface once.
    #[inline(always)]
    pub fn column(&self, interface: u32) -> Column<'_, C> {
        Column(self.bits.column(interface))
    }

    /// Returns the number of the prefix of a row, under the guard of its lookup: the index of a counter from 1 to twice
    /// [`Limits::prefixes`]. A prefix keeps its number while it is in the table; another prefix gets it only after all
    /// readers have passed. 0: no prefix covers the source, or the table is not [`Limits::distinct`].
    #[inline(always)]
    pub fn counter(&self, row: u32) -> u32 {
        self.bits.owner(row)
    }
}

impl<K: Key, M: Meaning> Merged<K, M> {
    /// Creates an empty table for readers of `domain`.
    ///
    /// # Errors
    /// If the system refuses the address space.
    pub fn new(domain: &Domain, limits: Limits) -> Result<Merged<K, M>, NoRoom> {
        let prefixes = limits.prefixes.min(Value::MAX.get() as usize / 2) as u32;
        // If each prefix has its own row, one change may replace all rows while the old ones are in use.
        let sets = if limits.distinct { 2 * prefixes } else { limits.sets.min(Value::MAX.get()) };
        let refused = |error: io::Error| NoRoom::AddressSpace {
            octets: width::<M::Cell>(limits.interfaces) * 8 * sets as usize,
            reason: error.kind(),
        };
        Ok(Merged {
            domain: domain.clone(),
            limits,
            nodes: Forest::new(),
            entries: Pool::new(),
            states: Pool::new(),
            state_rows: Vec::new(),
            rows: Rows::new(domain, sets, limits.interfaces).map_err(refused)?,
            counters: Numbers::new(domain, 2 * prefixes),
            trie: Trie::new(domain, lpm::Limits { max_routes: limits.prefixes, max_bytes: limits.bytes })?,
        })
    }

    /// Returns the view for readers. To be called after every change.
    pub fn reading(&self) -> Reading<K, M::Cell> {
        Reading { table: Arc::clone(self.trie.table()), bits: Arc::clone(self.rows.bits()) }
    }

    /// Returns the entry of a prefix.
    pub fn get(&self, prefix: &Prefix<K>) -> Option<&M::Entry> {
        self.node(prefix).map(|node| self.entries.thing(node.own))
    }

    /// Returns the row of a prefix. Any change may replace it.
    pub fn row_of(&self, prefix: &Prefix<K>) -> Option<u32> {
        self.node(prefix).map(|node| node.row)
    }

    /// Returns the number of a prefix, as [`Reading::counter`] does.
    pub fn counter_of(&self, prefix: &Prefix<K>) -> Option<u32> {
        self.row_of(prefix).map(|row| self.rows.bits().owner(row)).filter(|&number| number != 0)
    }

    fn node(&self, prefix: &Prefix<K>) -> Option<&Node> {
        self.nodes.find(prefix).ok().map(|place| self.nodes.value(place))
    }

    /// Returns all prefixes with their entries and rows, in order of addresses, wider ones first.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix<K>, &M::Entry, u32)> {
        self.nodes.iter().map(|(prefix, node)| (prefix, self.entries.thing(node.own), node.row))
    }

    /// Returns the prefixes that cover a source with their entries, the longest first.
    pub fn covering(&self, source: K) -> Vec<(Prefix<K>, &M::Entry)> {
        let mut prefix = Prefix::new(source, K::BITS).expect("an address has this length");
        let mut found = self.nodes.find(&prefix);
        let mut covering = Vec::new();
        let mut next = found.ok().or_else(|| self.nodes.around(&prefix, found));
        while let Some(place) = next {
            (prefix, found) = (self.nodes.prefix(place), Ok(place));
            covering.push((prefix, self.entries.thing(self.nodes.value(place).own)));
            next = self.nodes.around(&prefix, found);
        }
        covering
    }

    /// Sets or removes the entry of a prefix. If no prefix inside is affected, readers see it at once, in all views
    /// since the last other change. Else [`Merged::reading`] returns a new view, which has the whole change.
    ///
    /// Waits for readers if room is short: the calling thread must not be pinned.
    ///
    /// # Errors
    /// If there is no room; nothing has changed then.
    pub fn set(&mut self, prefix: Prefix<K>, own: Option<M::Entry>) -> Result<(), NoRoom> {
        let inside = self.nodes.after(self.nodes.find(&prefix));
        let alone = !inside.is_some_and(|place| prefix.contains(self.nodes.prefix(place).address()));
        if M::NESTS && !alone {
            return self.change([(prefix, own)]);
        }
        let mut work = Work::new();
        let done = self.update(prefix, own, &mut work).and_then(|()| self.paint(&mut work));
        match done {
            Ok(()) => self.complete(work),
            Err(_) => self.undo(work),
        }
        done
    }

    /// Makes many changes that readers see together, in views of [`Merged::reading`] from then on. The last of several
    /// for a prefix counts. Cheapest in the order of prefixes.
    ///
    /// Waits for readers if room is short: the calling thread must not be pinned.
    ///
    /// # Errors
    /// If there is no room for all; nothing has changed then.
    pub fn change(&mut self, entries: impl IntoIterator<Item = (Prefix<K>, Option<M::Entry>)>) -> Result<(), NoRoom> {
        let staged = self.stage(entries)?;
        self.commit(staged);
        Ok(())
    }

    /// Makes changes in a draft that readers do not see. The draft must be committed or cancelled before any other
    /// change.
    pub(super) fn stage(
        &mut self,
        entries: impl IntoIterator<Item = (Prefix<K>, Option<M::Entry>)>,
    ) -> Result<Staged<K>, NoRoom> {
        let mut entries: Vec<_> = entries.into_iter().collect();
        // Covering prefixes come first, so that each state is computed once.
        if !entries.is_sorted_by_key(|(prefix, _)| *prefix) {
            entries.sort_by_key(|(prefix, _)| *prefix);
        }
        let mut work = Work::new();
        let mut done = entries.into_iter().try_for_each(|(prefix, own)| self.update(prefix, own, &mut work));
        let painted = done.is_ok() && !work.paints.is_empty();
        if painted {
            self.trie.begin();
            done = self.paint(&mut work);
        }
        let staged = Staged { work, painted };
        match done {
            Ok(()) => Ok(staged),
            Err(error) => {
                self.cancel(staged);
                Err(error)
            }
        }
    }

    pub(super) fn commit(&mut self, Staged { work, painted }: Staged<K>) {
        if painted {
            let table = Arc::clone(self.trie.table());
            self.trie.commit();
            self.rows.supersede(&table);
            self.counters.supersede(&table);
        }
        self.complete(work);
    }

    pub(super) fn cancel(&mut self, Staged { work, painted }: Staged<K>) {
        if painted {
            self.trie.roll_back();
        }
        self.undo(work);
    }

    /// Replaces all entries by a rebuilt table, in views of [`Merged::reading`] from then on. Faster than a change of
    /// as many, and needs the memory of both tables while readers have the older one. Prefixes get other numbers (see
    /// [`Reading::counter`]). Cheapest in the order of prefixes.
    ///
    /// # Errors
    /// If there is no room for all; nothing has changed then.
    pub fn replace_all(&mut self, entries: impl IntoIterator<Item = (Prefix<K>, M::Entry)>) -> Result<(), NoRoom> {
        let mut fresh = Merged::<K, M>::new(&self.domain, self.limits)?;
        let mut entries: Vec<_> = entries.into_iter().collect();
        if !entries.is_sorted_by_key(|(prefix, _)| *prefix) {
            entries.sort_by_key(|(prefix, _)| *prefix);
        }
        let mut work = Work::new();
        for (prefix, own) in entries {
            fresh.update(prefix, Some(own), &mut work)?;
        }
        fresh.paint(&mut work)?;
        fresh.complete(work);
        *self = fresh;
        Ok(())
    }

    /// Paints all changes or none.
    fn paint(&mut self, work: &mut Work<K>) -> Result<(), NoRoom> {
        // Prefixes inside a changed one follow it, perhaps before others. Sorts by prefix, wider ones first; of one
        // prefix, the last counts.
        let paints = &mut work.paints;
        if !paints.is_sorted_by_key(|paint| paint.prefix) {
            paints.sort_by_key(|paint| paint.prefix);
        }
        // Removals need no room.
        let budget = if paints.iter().all(Paint::uncovers) { Budget::Whatever } else { Budget::Limited };
        self.trie.paint_all(paints, budget).map_err(|_| lpm::Full::Bytes(self.limits.bytes).into())
    }

    /// Changes the entry of one prefix, and the prefixes inside of it.
    fn update(&mut self, prefix: Prefix<K>, own: Option<M::Entry>, work: &mut Work<K>) -> Result<(), NoRoom> {
        let found = self.nodes.find(&prefix);
        let present = found.ok().map(|place| *self.nodes.value(place));
        let (place, before, after) = match (own, present) {
            (None, None) => return Ok(()),
            (None, Some(node)) => {
                let around = self.nodes.around(&prefix, found);
                let around = around.map(|place| (self.nodes.prefix(place).len(), *self.nodes.value(place)));
                let fill = match around {
                    // The default prefix has no leaves.
                    None | Some((0, _)) => Fill::NOTHING,
                    Some((len, node)) => Fill { leaf: node.row, len },
                };
                work.paints.push(Paint { prefix, fill });
                let Ok(at) = found else { unreachable!("it is present") };
                self.nodes.remove(at);
                work.before.push(Before { prefix, node: Some(node), gone: true });
                (Err(at), Some(node.state), around.map(|(_, around)| around.state))
            }
            (Some(own), _) => {
                let own = self.entries.take(own);
                if present.is_some_and(|node| node.own == own) {
                    self.entries.give(own);
                    return Ok(());
                }
                let around = if M::NESTS { self.nodes.around(&prefix, found) } else { None };
                let around = around.map(|place| self.nodes.value(place).state);
                let state = match self.state(around, own, prefix.len(), work) {
                    Ok(state) => state,
                    Err(error) => {
                        self.entries.give(own);
                        return Err(error);
                    }
                };
                let place = self.assign(prefix, found, own, state, work)?;
                (Ok(place), present.map(|node| node.state).or(around), Some(state))
            }
        };
        if M::NESTS && before != after { self.inside(prefix, place, after, work) } else { Ok(()) }
    }

    /// Updates the states of the prefixes inside one whose state has changed.
    fn inside(
        &mut self,
        prefix: Prefix<K>,
        place: Result<Place, Place>,
        state: Option<u32>,
        work: &mut Work<K>,
    ) -> Result<(), NoRoom> {
        // Covering prefixes of the next prefix, from the widest on: their ends and states.
        let mut around = vec![(prefix.last(), state)];
        let mut next = self.nodes.after(place);
        while let Some(place) = next {
            let inner = self.nodes.prefix(place);
            if inner.address() > prefix.last() {
                break;
            }
            while around.last().is_some_and(|(last, _)| *last < inner.address()) {
                around.pop();
            }
            let node = *self.nodes.value(place);
            let outer = around.last().and_then(|(_, state)| *state);
            let state = self.state(outer, node.own, inner.len(), work)?;
            next = if state == node.state {
                // Neither the prefix nor those inside change.
                self.release(state);
                self.nodes.beyond(inner.last())
            } else {
                self.entries.share(node.own);
                self.assign(inner, Ok(place), node.own, state, work)?;
                around.push((inner.last(), Some(state)));
                self.nodes.after(Ok(place))
            };
        }
        Ok(())
    }

    /// Returns the number of the state of an entry and the covering state, with one more user.
    fn state(&mut self, around: Option<u32>, own: u32, len: u8, work: &mut Work<K>) -> Result<u32, NoRoom> {
        let around_next = around.map_or(0, |state| u128::from(state) + 1);
        let by = around_next << 40 | u128::from(own) << 8 | u128::from(if M::BY_LENGTH { len } else { 0 });
        if let Some(&state) = work.known.get(&by) {
            self.states.share(state);
            return Ok(state);
        }
        let state = M::state(around.map(|state| self.states.thing(state)), self.entries.thing(own), len);
        let number = match self.states.find(&state) {
            Some(number) => number,
            None => {
                let row = if self.limits.distinct {
                    UNKNOWN
                } else {
                    self.rows.take(&M::row(&state)).ok_or(NoRoom::Sets(self.rows.occupancy().1 as u32))?
                };
                let number = self.states.add(state);
                if self.state_rows.len() <= number as usize {
                    self.state_rows.resize(number as usize + 1, UNKNOWN);
                }
                self.state_rows[number as usize] = row;
                number
            }
        };
        work.known.insert(by, number);
        Ok(number)
    }

    /// Removes a user of a state.
    fn release(&mut self, state: u32) {
        if let Some(state) = self.states.give(state)
            && !self.limits.distinct
        {
            self.rows.give(&M::row(&state));
        }
    }

    /// Sets the entry, the state (both with counted users) and the row of a prefix.
    fn assign(
        &mut self,
        prefix: Prefix<K>,
        found: Result<Place, Place>,
        own: u32,
        state: u32,
        work: &mut Work<K>,
    ) -> Result<Place, NoRoom> {
        let before = found.ok().map(|place| *self.nodes.value(place));
        let row = match self.row_for(before.map(|node| node.row), state) {
            Ok(row) => row,
            Err(error) => {
                self.entries.give(own);
                self.release(state);
                return Err(error);
            }
        };
        let node = Node { own, state, row };
        if before.is_none_or(|before| before.row != row) {
            work.paints.push(Paint { prefix, fill: Fill { leaf: row, len: prefix.len() } });
        }
        work.before.push(Before { prefix, node: before, gone: false });
        Ok(match found {
            Ok(place) => {
                *self.nodes.value_mut(place) = node;
                place
            }
            Err(place) => self.nodes.insert(prefix, place, node),
        })
    }

    /// Returns the row for a prefix with the row `before`, or for a new prefix.
    fn row_for(&mut self, before: Option<u32>, state: u32) -> Result<u32, NoRoom> {
        if before.is_none() && self.nodes.len() >= self.limits.prefixes {
            return Err(lpm::Full::Routes(self.limits.prefixes).into());
        }
        if !self.limits.distinct {
            return Ok(self.state_rows[state as usize]);
        }
        let full = NoRoom::Sets(self.rows.occupancy().1 as u32);
        let counter = match before {
            Some(row) => self.rows.bits().owner(row),
            None => self.counters.take().ok_or(full)?,
        };
        let row = self.rows.take_alone(&M::row(self.states.thing(state)), counter);
        if row.is_none() && before.is_none() {
            self.counters.give(counter);
        }
        row.ok_or(full)
    }

    /// Releases the entry, state and row of a node, and the number of a prefix that is no longer in the table.
    fn discard(&mut self, node: Node, for_good: bool) {
        self.entries.give(node.own);
        self.release(node.state);
        if self.limits.distinct {
            if for_good {
                self.counters.give(self.rows.bits().owner(node.row));
            }
            self.rows.give_alone(node.row);
        }
    }

    /// Completes a visible change: releases parts of the older version.
    fn complete(&mut self, work: Work<K>) {
        for Before { node, gone, .. } in work.before {
            if let Some(node) = node {
                self.discard(node, gone);
            }
        }
        self.rows.collect();
        self.counters.collect();
    }

    /// Restores the state before a change that the trie does not have.
    fn undo(&mut self, work: Work<K>) {
        for Before { prefix, node, .. } in work.before.into_iter().rev() {
            match (node, self.nodes.find(&prefix)) {
                (Some(before), Ok(place)) => {
                    let after = std::mem::replace(self.nodes.value_mut(place), before);
                    self.discard(after, false);
                }
                (Some(before), Err(place)) => drop(self.nodes.insert(prefix, place, before)),
                (None, Ok(place)) => {
                    let after = self.nodes.remove(place);
                    self.discard(after, true);
                }
                (None, Err(_)) => unreachable!("what was put there is there"),
            }
        }
        self.rows.collect();
        self.counters.collect();
    }

    /// Returns the number of different sets of interfaces and its limit; with rows of their own: of these rows.
    pub fn sets(&self) -> (usize, usize) {
        self.rows.occupancy()
    }

    /// Returns the octets of lookups.
    pub fn octets(&self) -> usize {
        self.trie.octets().0 + self.rows.octets()
    }

    /// Returns the approximate octets that only the control side uses.
    pub fn control_octets(&self) -> usize {
        self.nodes.octets()
            + self.entries.octets(M::entry_octets)
            + self.states.octets(M::state_octets)
            + self.state_rows.capacity() * 4
            + self.rows.side_octets()
            + self.counters.octets()
            + self.trie.side_octets()
    }

    /// Returns the number of prefixes, and its limit.
    pub fn occupancy(&self) -> (usize, usize) {
        (self.nodes.len(), self.limits.prefixes)
    }
}

/// The state of a prefix before a change.
struct Before<K> {
    prefix: Prefix<K>,
    node: Option<Node>,
    /// The change removed the prefix.
    gone: bool,
}

/// Changes that readers do not see yet.
pub(super) struct Staged<K: Key> {
    work: Work<K>,
    /// The trie has a draft.
    painted: bool,
}

/// State of a change.
struct Work<K: Key> {
    /// Previous state of the changed prefixes, in the order of changes.
    before: Vec<Before<K>>,
    paints: Vec<Paint<K>>,
    /// Known states, by covering state, entry, and length if it matters: numbers keep their meanings until the end of
    /// the change.
    known: HashMap<u128, u32, Folding>,
}

impl<K: Key> Work<K> {
    fn new() -> Work<K> {
        Work { before: Vec::new(), paints: Vec::new(), known: HashMap::with_hasher(Folding::random()) }
    }
}

impl<K: Key, M: Meaning> fmt::Debug for Merged<K, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merged").field("prefixes", &self.nodes.len()).finish_non_exhaustive()
    }
}

impl<K: Key, C> fmt::Debug for Reading<K, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reading").field("table", &self.table).finish_non_exhaustive()
    }
}
