//! The rules of a list in their order, each with a place of its own that its boxes have in classifiers.
//!
//! Places leave gaps, so that a rule that comes between two others finds one, and the others keep theirs. A new rule goes
//! into the middle of its gap; but one that comes next to the last one is apart from it by the root of the gap only, so that
//! a long row of rules, each behind or each before the last, finds places as well as rules that come anywhere.

use std::sync::Arc;

use crate::compile::patch::{Anchor, Spot};
use crate::model::{AclList, AclRule};

/// Places of a list are below this; the last of them is that of its default.
pub(super) const PLACES: u64 = 1 << 48;

/// The place of a list's default.
pub(super) const DEFAULT: u64 = PLACES - 1;

/// Rules of a chunk at most.
const CHUNK: usize = 512;

/// A rule in force.
#[derive(Clone, Debug)]
pub(super) enum Text {
    /// That of the declaration with this index.
    Declared(u32),
    /// Another.
    Own(Arc<Own>),
}

/// A rule that is not as it was declared.
#[derive(Clone, Debug)]
pub(super) struct Own {
    pub(super) rule: AclRule,
    /// The declared one whose groups have other members; `None`: it came while the gateway ran.
    pub(super) declared: Option<u32>,
    /// The source of a live rule.
    pub(super) said: Option<Said>,
    /// The place that the edit chose for it, by the declaration of its list.
    pub(super) anchor: Anchor,
}

impl Own {
    /// A declared rule whose groups have other members.
    pub(super) fn declared(rule: AclRule, index: u32) -> Own {
        Own { rule, declared: Some(index), said: None, anchor: Anchor::Nothing }
    }
}

/// The source of a live edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    /// Its name.
    pub source: Arc<str>,
    /// The time, in seconds of the Unix epoch.
    pub time: u64,
}

/// A rule in its list.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The place of its first box; the others follow.
    pub(super) place: u64,
    /// Places that it takes, 1 or more.
    pub(super) width: u32,
    pub(super) number: u32,
    pub(super) text: Text,
}

/// The rules of a list.
#[derive(Clone, Debug, Default)]
pub(super) struct Order {
    /// None is empty.
    chunks: Vec<Vec<Entry>>,
    len: usize,
    /// The places of the first and the last of the rules that came last.
    last: Option<(u64, u64)>,
}

impl Entry {
    /// The index of the declared rule that it is; `None`: it came while the gateway ran.
    pub(super) fn declared(&self) -> Option<u32> {
        match &self.text {
            Text::Declared(index) => Some(*index),
            Text::Own(own) => own.declared,
        }
    }

    /// The rule, by the declaration of its list.
    pub(super) fn rule<'r>(&'r self, declared: &'r AclList) -> &'r AclRule {
        match &self.text {
            Text::Declared(index) => &declared.rules[*index as usize],
            Text::Own(own) => &own.rule,
        }
    }

    /// Its place among the declared rules.
    pub(super) fn spot(&self) -> Spot {
        match &self.text {
            Text::Declared(index) => Spot::Declared(*index),
            Text::Own(own) => own.declared.map_or(Spot::Added(own.anchor), Spot::Declared),
        }
    }
}

impl Order {
    /// Rules whose places are spread over all that there are. There are fewer boxes of them than 2³⁴.
    pub(super) fn spread(mut entries: Vec<Entry>) -> Order {
        let taken: u64 = entries.iter().map(|entry| u64::from(entry.width)).sum();
        let gap = (DEFAULT - taken) / (entries.len() as u64 + 1);
        let mut next = 0;
        for entry in &mut entries {
            entry.place = next + gap;
            next = entry.place + u64::from(entry.width);
        }
        let len = entries.len();
        let mut entries = entries.into_iter();
        let chunk = || {
            let chunk: Vec<Entry> = entries.by_ref().take(CHUNK / 2).collect();
            (!chunk.is_empty()).then_some(chunk)
        };
        Order { chunks: std::iter::from_fn(chunk).collect(), len, last: None }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The rules in their order.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.chunks.iter().flatten()
    }

    /// The rules in their order, to be changed; places stay.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Entry> {
        self.chunks.iter_mut().flatten()
    }

    /// The rule with an index.
    pub(super) fn get(&self, index: usize) -> Option<&Entry> {
        let (chunk, at) = self.find(index);
        self.chunks.get(chunk)?.get(at)
    }

    /// The index of the rule at a place.
    pub(super) fn index(&self, place: u64) -> Option<usize> {
        let behind = self.chunks.partition_point(|chunk| chunk[0].place <= place);
        let chunk = behind.checked_sub(1)?;
        let at = self.chunks[chunk].binary_search_by_key(&place, |entry| entry.place).ok()?;
        Some(self.chunks[..chunk].iter().map(Vec::len).sum::<usize>() + at)
    }

    /// The place of a rule that takes so many and comes before that with an index; `None`: the gap is used up.
    pub(super) fn gap(&self, index: usize, width: u32) -> Option<u64> {
        let before = index.checked_sub(1).and_then(|index| self.get(index));
        let low = before.map_or(0, |entry| entry.place + u64::from(entry.width));
        let after = self.get(index);
        let free = (after.map_or(DEFAULT, |entry| entry.place) - low).checked_sub(u64::from(width))?;
        let (first, last) = self.last.unzip();
        let is = |entry: Option<&Entry>, place| entry.is_some_and(|entry| Some(entry.place) == place);
        let near = free.isqrt().min(free / 2);
        Some(match (is(before, last), is(after, first)) {
            (true, _) => low + near,
            (_, true) => low + free - near,
            _ => low + free / 2,
        })
    }

    /// Puts a rule before that with an index. Its place is between those of its neighbours.
    pub(super) fn insert(&mut self, index: usize, entry: Entry) {
        self.len += 1;
        self.last = Some((entry.place, entry.place));
        let Some(last) = self.chunks.len().checked_sub(1) else {
            self.chunks.push(vec![entry]);
            return;
        };
        let (chunk, at) = self.find(index);
        // Behind all of them: into the last chunk.
        let (chunk, at) = if chunk > last { (last, self.chunks[last].len()) } else { (chunk, at) };
        self.chunks[chunk].insert(at, entry);
        if self.chunks[chunk].len() > CHUNK {
            let half = self.chunks[chunk].split_off(CHUNK / 2);
            self.chunks.insert(chunk + 1, half);
        }
    }

    /// Puts rules before that with an index, side by side; gives them back where the gap is too small.
    pub(super) fn put(&mut self, index: usize, entries: Vec<Entry>) -> Result<(), Vec<Entry>> {
        let width = entries.iter().fold(0_u32, |sum, entry| sum.saturating_add(entry.width));
        let Some(mut place) = self.gap(index, width) else { return Err(entries) };
        let first = place;
        for (index, mut entry) in (index..).zip(entries) {
            entry.place = place;
            place += u64::from(entry.width);
            self.insert(index, entry);
        }
        self.last = self.last.map(|(_, last)| (first, last));
        Ok(())
    }

    /// Takes a rule out.
    pub(super) fn remove(&mut self, index: usize) -> Option<Entry> {
        let (chunk, at) = self.find(index);
        let entries = self.chunks.get_mut(chunk).filter(|entries| at < entries.len())?;
        let entry = entries.remove(at);
        if entries.is_empty() {
            self.chunks.remove(chunk);
        }
        self.len -= 1;
        Some(entry)
    }

    /// Octets of memory.
    pub(super) fn octets(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.capacity() * size_of::<Entry>()).sum()
    }

    /// The chunk of an index, and its index there.
    fn find(&self, mut index: usize) -> (usize, usize) {
        for (number, chunk) in self.chunks.iter().enumerate() {
            if index < chunk.len() {
                return (number, index);
            }
            index -= chunk.len();
        }
        (self.chunks.len(), index)
    }
}

#[cfg(test)]
mod tests {
    use weir_base::random::Random;

    use super::*;

    fn entry(number: u32, width: u32) -> Entry {
        Entry { place: 0, width, number, text: Text::Declared(number) }
    }

    fn check(order: &Order, numbers: &[u32]) {
        assert_eq!(order.iter().map(|entry| entry.number).collect::<Vec<_>>(), numbers);
        assert_eq!(order.len(), numbers.len());
        let mut free = 0;
        for (index, entry) in order.iter().enumerate() {
            assert!(entry.place >= free, "{entry:?} overlaps the one before");
            free = entry.place + u64::from(entry.width);
            assert_eq!(order.index(entry.place), Some(index));
            assert_eq!(order.get(index).unwrap().number, entry.number);
        }
        assert!(free <= DEFAULT);
        assert!(order.get(numbers.len()).is_none());
    }

    #[test]
    fn rules_come_and_go_anywhere() {
        let mut random = Random::from_seed(1);
        let mut order = Order::spread((0..1500).map(|number| entry(number, 1 + number % 3)).collect());
        let mut numbers: Vec<u32> = (0..1500).collect();
        check(&order, &numbers);
        for number in 1500..6000 {
            if random.next().is_multiple_of(3) {
                let index = random.next() as usize % numbers.len();
                assert_eq!(order.remove(index).unwrap().number, numbers.remove(index));
            } else {
                let index = random.next() as usize % (numbers.len() + 1);
                let width = 1 + number % 4;
                let place = order.gap(index, width).expect("wide gaps");
                order.insert(index, Entry { place, ..entry(number, width) });
                numbers.insert(index, number);
            }
            if number % 500 == 0 {
                check(&order, &numbers);
            }
        }
        check(&order, &numbers);
        while !numbers.is_empty() {
            assert_eq!(order.remove(0).unwrap().number, numbers.remove(0));
        }
        assert!(order.remove(0).is_none());
        check(&order, &[]);
    }

    /// Rules that are put in one behind the other, or each before the last one, find places for long.
    #[test]
    fn rows_of_rules_find_places() {
        for (begin, step) in [(0, 0), (500, 0), (1000, 0), (0, 1), (500, 1), (1000, 1)] {
            let mut order = Order::spread((0..1000).map(|number| entry(number, 1)).collect());
            let mut index = begin;
            for number in 1000..30_000 {
                let place = order.gap(index, 1).unwrap_or_else(|| panic!("no place for rule {number}"));
                order.insert(index, Entry { place, ..entry(number, 1) });
                index += step;
            }
        }
    }

    #[test]
    fn gaps_are_used_up() {
        let mut order = Order::spread(vec![entry(0, 1)]);
        order.insert(0, Entry { place: 5, ..entry(1, 2) });
        order.insert(1, Entry { place: 9, ..entry(2, 1) });
        check(&order, &[1, 2, 0]);
        assert_eq!(order.gap(1, 3), None);
        assert_eq!(order.gap(1, 2), Some(7));
        assert_eq!(order.gap(0, 6), None);
        assert_eq!(order.gap(0, 5), Some(0));
    }
}
