//! All rules in one table: a longest-prefix match to rows.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::sync::Arc;

use weir_base::reclaim::{Domain, Guard};

use crate::lpm::{self, AsKey, Key, Prefix, Table, Transaction, Value, Writer};

use super::Verdict;
use super::meaning::Meaning;
use super::rows::{Bits, Row, Rows, UNKNOWN};

/// How large a table may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Prefixes.
    pub prefixes: usize,
    /// Octets of the longest-prefix match.
    pub bytes: usize,
    /// Different sets of interfaces.
    pub sets: u32,
    /// Interfaces: numbers below this.
    pub interfaces: u32,
}

/// The table is at one of its limits, and has stayed as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// Of prefixes or octets.
    Prefixes(lpm::Full),
    /// Of different sets of interfaces, with their limit.
    Sets(u32),
}

/// What stands at a prefix.
struct Node<M: Meaning> {
    own: M::Entry,
    state: M::State,
    /// What its row says.
    row: Row,
}

/// The control side of the table: it keeps the entries, and changes what readers see.
pub struct Merged<K: Key, M: Meaning> {
    /// In the order of addresses, and of lengths among equal ones: the prefixes inside of one follow it.
    nodes: BTreeMap<Prefix<K>, Node<M>>,
    writer: Writer<K>,
    rows: Rows<Table<K>>,
    limits: Limits,
}

/// What readers see. Cloning is cheap.
#[derive(Clone)]
pub struct Reading<K: Key> {
    table: Arc<Table<K>>,
    bits: Arc<Bits>,
}

impl<K: Key> Reading<K> {
    /// What the rules say of a source and an interface.
    pub fn check(&self, guard: &Guard<'_>, source: K, interface: u32) -> Verdict {
        self.verdict(self.table.lookup(guard, source), interface)
    }

    /// The rows of many sources, for [`Reading::verdict`]: `source` gives the source of each place of `rows`.
    #[inline]
    pub fn rows(&self, guard: &Guard<'_>, source: impl Fn(usize) -> K, rows: &mut [u32]) {
        self.table.lookup_each(guard, source, rows);
    }

    /// As [`Reading::rows`], of sources that lie side by side: the octets of long ones are fetched ahead.
    #[inline]
    pub fn rows_batch<A: AsKey<K>>(&self, guard: &Guard<'_>, sources: &[A], rows: &mut [u32]) {
        self.table.lookup_batch(guard, sources, rows);
    }

    /// As [`Reading::rows_batch`], but the prefix of no bits does not count.
    #[inline]
    pub fn rows_batch_without_default<A: AsKey<K>>(&self, guard: &Guard<'_>, sources: &[A], rows: &mut [u32]) {
        self.table.lookup_batch_without_default(guard, sources, rows);
    }

    /// The mark of a row: under the guard under which it was looked up.
    #[inline(always)]
    pub(super) fn mark(&self, row: u32) -> u8 {
        self.bits.mark(row)
    }

    /// What a row says of an interface: under the guard under which it was looked up.
    #[inline(always)]
    pub fn verdict(&self, row: u32, interface: u32) -> Verdict {
        match row {
            UNKNOWN => Verdict::Unknown,
            row if self.bits.has(row, interface) => Verdict::Valid,
            _ => Verdict::Invalid,
        }
    }
}

impl<K: Key, M: Meaning> Merged<K, M> {
    /// An empty table for readers of `domain`.
    ///
    /// # Errors
    /// If the system refuses address space for it.
    pub fn new(domain: &Domain, limits: Limits) -> Result<Merged<K, M>, NoRoom> {
        let lpm = lpm::Limits { max_routes: limits.prefixes, max_bytes: limits.bytes };
        Ok(Merged {
            nodes: BTreeMap::new(),
            writer: Writer::new(domain, lpm).map_err(NoRoom::Prefixes)?,
            rows: Rows::new(domain, limits.sets, limits.interfaces),
            limits,
        })
    }

    /// What readers are to see: again after every [`Merged::change`].
    pub fn reading(&self) -> Reading<K> {
        Reading { table: self.writer.table(), bits: self.rows.bits() }
    }

    /// The entry of a prefix.
    pub fn get(&self, prefix: &Prefix<K>) -> Option<&M::Entry> {
        self.nodes.get(prefix).map(|node| &node.own)
    }

    /// Sets the entry of a prefix, or takes it out. Readers see a single change at once; where it gives prefixes inside
    /// other rows, [`Merged::reading`] is another one then, and shows all of it together.
    ///
    /// # Errors
    /// If there is no room. Then nothing has changed.
    pub fn set(&mut self, prefix: Prefix<K>, own: Option<M::Entry>) -> Result<(), NoRoom> {
        self.rows.collect();
        let mut work = Work::default();
        let changes = plan(&self.nodes, prefix, own);
        let live = changes.len() <= 1;
        let done = if live {
            changes
                .into_iter()
                .try_for_each(|change| work.apply(&mut self.nodes, &mut self.rows, &mut self.writer, change))
        } else {
            let table = self.writer.table();
            let mut draft = self.writer.transaction();
            let done = changes
                .into_iter()
                .try_for_each(|change| work.apply(&mut self.nodes, &mut self.rows, &mut draft, change));
            match done {
                Ok(()) => {
                    draft.commit();
                    self.rows.supersede(&table);
                }
                Err(_) => drop(draft),
            }
            done
        };
        self.conclude(work, done)
    }

    /// Makes many changes that readers see together, by the [`Merged::reading`] from then on.
    ///
    /// # Errors
    /// If there is no room for all. Then nothing has changed.
    pub fn change(&mut self, entries: impl IntoIterator<Item = (Prefix<K>, Option<M::Entry>)>) -> Result<(), NoRoom> {
        self.rows.collect();
        let mut entries: Vec<_> = entries.into_iter().collect();
        // Whoever is around others comes first, and they are planned once; of equal ones the last counts.
        entries.sort_by_key(|(prefix, _)| *prefix);
        let mut work = Work::default();
        let table = self.writer.table();
        let mut draft = self.writer.transaction();
        let mut done = Ok(());
        for (prefix, own) in entries {
            let changes = plan(&self.nodes, prefix, own);
            done = changes
                .into_iter()
                .try_for_each(|change| work.apply(&mut self.nodes, &mut self.rows, &mut draft, change));
            if done.is_err() {
                break;
            }
        }
        match done {
            Ok(()) => {
                draft.commit();
                self.rows.supersede(&table);
            }
            Err(_) => drop(draft),
        }
        drop(table);
        self.conclude(work, done)
    }

    fn conclude(&mut self, work: Work<K, M>, done: Result<(), NoRoom>) -> Result<(), NoRoom> {
        match done {
            Ok(()) => work.given.iter().for_each(|set| self.rows.give(set)),
            Err(_) => {
                for (prefix, node) in work.before.into_iter().rev() {
                    match node {
                        Some(node) => self.nodes.insert(prefix, node),
                        None => self.nodes.remove(&prefix),
                    };
                }
                work.taken.iter().for_each(|set| self.rows.give(set));
            }
        }
        self.rows.collect();
        done
    }

    /// Different sets of interfaces, and how many there may be.
    pub fn sets(&self) -> (usize, usize) {
        self.rows.occupancy()
    }

    /// Octets that lookups touch.
    pub fn octets(&self) -> usize {
        self.writer.stats().bytes + self.rows.octets()
    }

    /// Prefixes, and how many there may be.
    pub fn occupancy(&self) -> (usize, usize) {
        (self.nodes.len(), self.limits.prefixes)
    }
}

type Nodes<K, M> = BTreeMap<Prefix<K>, Node<M>>;

/// What a prefix has from now on: an entry and a state, or nothing.
type Change<K, M> = (Prefix<K>, Option<(<M as Meaning>::Entry, <M as Meaning>::State)>);

/// All that changes when a prefix gets another entry, or none.
fn plan<K: Key, M: Meaning>(nodes: &Nodes<K, M>, prefix: Prefix<K>, own: Option<M::Entry>) -> Vec<Change<K, M>> {
    let present = nodes.get(&prefix);
    if present.map(|node| &node.own) == own.as_ref() {
        return Vec::new();
    }
    let around = around(nodes, &prefix).map(|node| &node.state);
    let mut changes = Vec::new();
    let state = match own {
        Some(own) => {
            let state = M::state(around, &own, prefix.len());
            changes.push((prefix, Some((own, state.clone()))));
            Some(state)
        }
        None => {
            changes.push((prefix, None));
            around.cloned()
        }
    };
    if present.map(|node| &node.state).or(around) != state.as_ref() {
        inside(nodes, prefix, state, &mut changes);
    }
    changes
}

/// Adds what follows for the prefixes inside of one that has another state now.
fn inside<K: Key, M: Meaning>(
    nodes: &Nodes<K, M>,
    prefix: Prefix<K>,
    state: Option<M::State>,
    changes: &mut Vec<Change<K, M>>,
) {
    // Those around the next prefix, from the widest on.
    let mut around: Vec<(Prefix<K>, Option<M::State>)> = vec![(prefix, state)];
    let mut from = prefix;
    while let Some((&next, node)) = nodes.range((Excluded(from), Unbounded)).next()
        && prefix.contains(next.address())
    {
        while around.last().is_some_and(|(outer, _)| !outer.contains(next.address())) {
            around.pop();
        }
        let outer = around.last().and_then(|(_, state)| state.as_ref());
        let state = M::state(outer, &node.own, next.len());
        if state == node.state {
            // Nothing changes there, nor inside.
            from = Prefix::new(next.last(), K::BITS).unwrap_or(next);
        } else {
            changes.push((next, Some((node.own.clone(), state.clone()))));
            around.push((next, Some(state)));
            from = next;
        }
    }
}

/// What stands at the longest prefix around another.
fn around<'n, K: Key, M: Meaning>(nodes: &'n Nodes<K, M>, prefix: &Prefix<K>) -> Option<&'n Node<M>> {
    let mut end = Excluded(*prefix);
    loop {
        let (found, node) = nodes.range((Unbounded, end)).next_back()?;
        if found.contains(prefix.address()) {
            return Some(node);
        }
        // Whatever is around the prefix comes before this one, and so is around both: it has no more bits than they share.
        let most = found.len().min(prefix.len());
        let common = (0..most).rev().find(|&len| found.address().truncate(len) == prefix.address().truncate(len))?;
        end = Included(prefix.shorten(common));
    }
}

/// Where values are written: the current table or a draft.
trait Sink<K: Key> {
    fn put(&mut self, prefix: Prefix<K>, value: Value) -> Result<(), lpm::Full>;
    fn take_out(&mut self, prefix: &Prefix<K>);
}

impl<K: Key> Sink<K> for Writer<K> {
    fn put(&mut self, prefix: Prefix<K>, value: Value) -> Result<(), lpm::Full> {
        self.insert(prefix, value).map(drop)
    }

    fn take_out(&mut self, prefix: &Prefix<K>) {
        self.remove(prefix);
    }
}

impl<K: Key> Sink<K> for Transaction<'_, K> {
    fn put(&mut self, prefix: Prefix<K>, value: Value) -> Result<(), lpm::Full> {
        self.insert(prefix, value).map(drop)
    }

    fn take_out(&mut self, prefix: &Prefix<K>) {
        self.remove(prefix);
    }
}

/// What was done, so that it can be undone.
struct Work<K: Key, M: Meaning> {
    before: Vec<(Prefix<K>, Option<Node<M>>)>,
    /// Rows that have one user more.
    taken: Vec<Row>,
    /// Rows that have one user less once all is done.
    given: Vec<Row>,
}

impl<K: Key, M: Meaning> Default for Work<K, M> {
    fn default() -> Self {
        Work { before: Vec::new(), taken: Vec::new(), given: Vec::new() }
    }
}

impl<K: Key, M: Meaning> Work<K, M> {
    fn apply(
        &mut self,
        nodes: &mut Nodes<K, M>,
        rows: &mut Rows<Table<K>>,
        sink: &mut impl Sink<K>,
        (prefix, new): Change<K, M>,
    ) -> Result<(), NoRoom> {
        let before = match new {
            None => {
                sink.take_out(&prefix);
                nodes.remove(&prefix)
            }
            Some((own, state)) => {
                let row = M::row(&state);
                let number = rows.take(&row).ok_or(NoRoom::Sets(rows.occupancy().1 as u32))?;
                self.taken.push(row.clone());
                let value = Value::new(number).ok_or(NoRoom::Sets(rows.occupancy().1 as u32))?;
                sink.put(prefix, value).map_err(NoRoom::Prefixes)?;
                nodes.insert(prefix, Node { own, state, row })
            }
        };
        self.given.extend(before.as_ref().map(|node| node.row.clone()));
        self.before.push((prefix, before));
        Ok(())
    }
}

impl<K: Key, M: Meaning> fmt::Debug for Merged<K, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Merged").field("prefixes", &self.nodes.len()).finish_non_exhaustive()
    }
}
