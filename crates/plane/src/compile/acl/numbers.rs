//! The numbers of rules, over all lists, with the counters and special effects of each rule.
//!
//! A released number goes to another rule once no reader can find it. The packets counted so far are then subtracted from the
//! count of the new rule. The number rests for long first: an operator who names it in a command means the rule that `show`
//! printed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_base::reclaim::{Domain, Stamp};

use crate::root::acl::{MOST_NUMBERS, PAGE, Page, Pages, Special};

/// Numbers that rest: so many others are released before a number is reused, as long as there are unused numbers. Each thousand
/// costs a page of counters.
const RESTING: usize = 4096;

/// The meaning of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    /// Nothing (any more).
    Nothing,
    /// The rule at a place of a list, by the list's number.
    Rule(u32, u64),
    /// The default of a list.
    Default(u32),
}

struct Slot {
    means: Means,
    /// Packets and octets that are not those of this rule, or were cleared.
    base: (u64, u64),
}

/// Numbers that stand for nothing.
#[derive(Default)]
struct Spare {
    /// Numbers that no reader can find, the one that was released first in front.
    free: VecDeque<u32>,
    /// No number from this one on was ever taken.
    next: u32,
}

/// The numbers that there are.
pub(super) struct Numbers {
    workers: usize,
    /// The numbers that were ever used.
    slots: Vec<Slot>,
    /// Numbers that can be allocated while others read the rest.
    spare: Mutex<Spare>,
    /// Numbers that readers may still find. Numbers without a stamp were released since the last check: the root without them may
    /// not be published yet.
    limbo: VecDeque<(Option<Stamp>, Vec<u32>)>,
    pages: Vec<Arc<Page>>,
    specials: BTreeMap<u32, Special>,
    /// How many of them have flows learned from their first packet on.
    hastening: usize,
    /// Rules that limit packets or offer them to a sampler.
    limiting: usize,
    /// Rules that limit bits.
    limiting_bits: usize,
    /// Pages whose specials are not those of `specials`.
    stale: BTreeSet<usize>,
    shown: Pages,
}

impl Numbers {
    pub(super) fn new(workers: usize) -> Numbers {
        Numbers {
            workers,
            slots: Vec::new(),
            spare: Mutex::default(),
            limbo: VecDeque::new(),
            pages: Vec::new(),
            specials: BTreeMap::new(),
            hastening: 0,
            limiting: 0,
            limiting_bits: 0,
            stale: BTreeSet::new(),
            shown: Pages::default(),
        }
    }

    /// A number that stands for nothing yet. There are more than there can be rules.
    pub(super) fn allocate(&self) -> u32 {
        let mut spare = self.spare();
        if (spare.free.len() > RESTING || spare.next == MOST_NUMBERS)
            && let Some(number) = spare.free.pop_front()
        {
            return number;
        }
        let number = spare.next;
        assert!(number < MOST_NUMBERS, "a rule for each number");
        spare.next += 1;
        number
    }

    /// Takes numbers back that have stood for nothing since they were allocated.
    pub(super) fn give_back(&self, numbers: impl IntoIterator<Item = u32>) {
        self.spare().free.extend(numbers);
    }

    fn spare(&self) -> MutexGuard<'_, Spare> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has room for what is kept by a number.
    fn reach(&mut self, number: u32) {
        while self.slots.len() <= number as usize {
            self.slots.push(Slot { means: Means::Nothing, base: (0, 0) });
        }
        while self.pages.len() * PAGE < self.slots.len() {
            self.pages.push(Arc::new(Page::new(self.workers)));
        }
    }

    /// Says what a number stands for. One that stood for nothing has matched nothing.
    pub(super) fn give(&mut self, number: u32, means: Means) {
        self.reach(number);
        let counted = self.counted(number);
        let slot = &mut self.slots[number as usize];
        if slot.means == Means::Nothing {
            slot.base = counted;
        }
        slot.means = means;
    }

    /// Returns the meaning of a number.
    pub(super) fn means(&self, number: u32) -> Means {
        self.slots.get(number as usize).map_or(Means::Nothing, |slot| slot.means)
    }

    /// Takes numbers back that no reader can find.
    fn take_back(&mut self, numbers: Vec<u32>) {
        for &number in &numbers {
            self.set_special(number, None);
        }
        self.give_back(numbers);
    }

    /// Releases numbers that roots may have.
    pub(super) fn release(&mut self, numbers: Vec<u32>) {
        if numbers.is_empty() {
            return;
        }
        for &number in &numbers {
            self.reach(number);
            self.slots[number as usize].means = Means::Nothing;
        }
        match self.limbo.back_mut() {
            Some((None, waiting)) => waiting.extend(numbers),
            _ => self.limbo.push_back((None, numbers)),
        }
    }

    /// Frees what no reader can find any more. All roots that were made so far are out.
    pub(super) fn settle(&mut self, domain: &Domain) {
        if let Some((stamp @ None, _)) = self.limbo.back_mut() {
            *stamp = Some(domain.stamp());
        }
        while let Some((Some(stamp), _)) = self.limbo.front()
            && domain.passed(*stamp)
        {
            let (_, numbers) = self.limbo.pop_front().unwrap_or_default();
            self.take_back(numbers);
        }
    }

    /// Sets the special effects of a rule.
    pub(super) fn set_special(&mut self, number: u32, special: Option<Special>) {
        let there = self.specials.contains_key(&number);
        let before = self.specials.get(&number);
        let change = |count: &mut usize, is: fn(&Special) -> bool| {
            *count = *count + usize::from(special.as_ref().is_some_and(is)) - usize::from(before.is_some_and(is));
        };
        change(&mut self.hastening, |special| special.flow == Some(true));
        change(&mut self.limiting, Special::limits);
        change(&mut self.limiting_bits, Special::limits_bits);
        match special {
            Some(special) => {
                self.reach(number);
                self.specials.insert(number, special);
            }
            None if there => {
                self.specials.remove(&number);
            }
            None => return,
        }
        self.stale.insert(number as usize / PAGE);
    }

    /// Returns the special effects of a rule.
    pub(super) fn special(&self, number: u32) -> Option<&Special> {
        self.specials.get(&number)
    }

    /// Whether some rule has flows learned from their first packet on.
    pub(super) fn hasten(&self) -> bool {
        self.hastening > 0
    }

    /// Whether some rule limits packets, or offers them to a sampler.
    pub(super) fn limit(&self) -> bool {
        self.limiting > 0
    }

    /// Whether some rule limits bits.
    pub(super) fn limit_bits(&self) -> bool {
        self.limiting_bits > 0
    }

    /// Whether [`Numbers::pages`] would give what it gave last.
    pub(super) fn are_shown(&self) -> bool {
        self.stale.is_empty() && self.shown.0.len() == self.pages.len()
    }

    /// Returns the pages of the next root.
    pub(super) fn pages(&mut self) -> Pages {
        if !self.are_shown() {
            for page in std::mem::take(&mut self.stale) {
                let first = (page * PAGE) as u32;
                let specials = self.specials.range(first..first + PAGE as u32);
                let specials = specials.map(|(number, special)| ((number - first) as u16, special.clone())).collect();
                self.pages[page] = Arc::new(self.pages[page].with_specials(specials));
            }
            self.shown = Pages(self.pages.as_slice().into());
        }
        self.shown.clone()
    }

    /// Packets and octets that a rule has matched since it came, or since that was cleared.
    pub(super) fn matched(&self, number: u32) -> (u64, u64) {
        let (packets, octets) = self.counted(number);
        let base = self.slots.get(number as usize).map_or((0, 0), |slot| slot.base);
        (packets.wrapping_sub(base.0), octets.wrapping_sub(base.1))
    }

    /// Has all rules matched nothing.
    pub(super) fn clear(&mut self) {
        for number in 0..self.slots.len() {
            self.slots[number].base = self.counted(number as u32);
        }
        self.specials.values().filter_map(|special| special.meter.as_ref()).for_each(|meter| meter.clear());
    }

    /// Returns the packets and octets counted by a number.
    fn counted(&self, number: u32) -> (u64, u64) {
        self.pages.get(number as usize / PAGE).map_or((0, 0), |page| page.matched(number as usize % PAGE))
    }

    /// Octets of counters and special effects.
    pub(super) fn octets(&self) -> usize {
        self.shown.octets() + self.slots.capacity() * size_of::<Slot>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Rejection;

    /// The numbers that are given up to the time when some are given again, and rest.
    fn rested() -> Numbers {
        let numbers = Numbers::new(1);
        let all: Vec<u32> = (0..=RESTING as u32).map(|_| numbers.allocate()).collect();
        assert_eq!(all.last(), Some(&(RESTING as u32)), "each another");
        numbers.give_back(all);
        numbers
    }

    #[test]
    fn a_number_that_is_given_up_is_given_again_last() {
        let numbers = rested();
        assert_eq!(numbers.allocate(), 0, "what rests longest");
        assert_eq!(numbers.allocate(), RESTING as u32 + 1, "nobody has had it");
        for round in 0..10 {
            let number = numbers.allocate();
            assert!(number > RESTING as u32, "round {round}: {number}");
            numbers.give_back([number]);
            assert_ne!(numbers.allocate(), number, "round {round}");
        }
    }

    fn special() -> Option<Special> {
        Some(Special { sample: None, meter: None, rejection: Rejection::Icmp, reflects: false, flow: None })
    }

    #[test]
    fn numbers_are_given_again_once_readers_have_passed() {
        let domain = Domain::new();
        let mut reader = domain.reader().unwrap();
        let mut numbers = Numbers::new(1);
        let own: Vec<u32> = (0..3).map(|_| numbers.allocate()).collect();
        own.iter().for_each(|&number| numbers.give(number, Means::Rule(0, u64::from(number))));
        numbers.set_special(own[1], special());
        let pages = numbers.pages();
        pages.counter(0, own[1]).unwrap().packets.add(7);
        pages.counter(0, own[1]).unwrap().octets.add(700);
        assert_eq!(numbers.matched(own[1]), (7, 700));
        let guard = reader.pin();
        numbers.release(vec![own[1]]);
        numbers.settle(&domain);
        assert_eq!(numbers.means(own[1]), Means::Nothing);
        assert!(numbers.spare().free.is_empty(), "the reader may still find it");
        // Who found the rule before goes on counting for it.
        pages.counter(0, own[1]).unwrap().packets.add(1);
        drop(guard);
        numbers.settle(&domain);
        assert_eq!(numbers.spare().free.pop_front(), Some(own[1]));
        assert!(numbers.special(own[1]).is_none());
        numbers.give(own[1], Means::Default(0));
        assert_eq!(numbers.matched(own[1]), (0, 0));
        pages.counter(0, own[1]).unwrap().packets.add(2);
        assert_eq!(numbers.matched(own[1]).0, 2);
        numbers.give(own[1], Means::Default(4));
        assert_eq!(numbers.matched(own[1]).0, 2, "it is the same rule");
        numbers.clear();
        assert_eq!(numbers.matched(own[1]), (0, 0));
    }

    #[test]
    fn what_is_given_up_before_its_root_is_out_waits_for_it() {
        let domain = Domain::new();
        let mut reader = domain.reader().unwrap();
        let mut numbers = Numbers::new(1);
        let number = numbers.allocate();
        let guard = reader.pin();
        numbers.release(vec![number]);
        drop(guard);
        let guard = reader.pin();
        // Readers came after it was given up, but the root was published only now.
        numbers.settle(&domain);
        assert!(numbers.spare().free.is_empty());
        drop(guard);
        numbers.settle(&domain);
        assert_eq!(numbers.spare().free, [number]);
    }

    #[test]
    fn pages_are_shared_by_versions() {
        let mut numbers = Numbers::new(2);
        let first: Vec<u32> = (0..=PAGE).map(|_| numbers.allocate()).collect();
        first.iter().for_each(|&number| numbers.give(number, Means::Rule(0, u64::from(number))));
        let pages = numbers.pages();
        assert!(numbers.are_shown() && pages.0.len() == 2);
        assert!(Arc::ptr_eq(&pages.0, &numbers.pages().0));
        numbers.set_special(first[PAGE], special());
        assert!(!numbers.are_shown());
        let next = numbers.pages();
        assert!(Arc::ptr_eq(&next.0[0], &pages.0[0]) && !Arc::ptr_eq(&next.0[1], &pages.0[1]));
        pages.counter(1, PAGE as u32).unwrap().packets.add(1);
        assert_eq!(next.matched(PAGE as u32).0, 1, "counters are the same");
        let found = |special| crate::root::acl::Found::new(PAGE as u32, crate::root::acl::Action::Reject, special);
        assert!(next.special(found(true)).is_some() && pages.special(found(true)).is_none());
        numbers.set_special(first[0], None);
        assert!(numbers.are_shown(), "nothing has changed");
        numbers.take_back(vec![first[PAGE]]);
        assert!(numbers.pages().special(found(true)).is_none());
    }
}
