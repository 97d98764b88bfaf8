//! Packets by prefix of a table, for policies that count them so: tables number their prefixes.

use crate::root::counters::Counter;

/// By worker, and by number of the prefix.
#[derive(Debug)]
pub struct Hits(Box<[Box<[Counter]>]>);

impl Hits {
    /// For so many workers, and numbers below `numbers`: 8 octets for each, hit or not.
    pub fn new(workers: usize, numbers: usize) -> Hits {
        Hits((0..workers).map(|_| (0..numbers).map(|_| Counter::default()).collect()).collect())
    }

    /// Packets hit the prefix of a number; for the one worker.
    #[inline(always)]
    pub fn add(&self, worker: usize, number: u32, packets: u64) {
        if let Some(counter) = self.0.get(worker).and_then(|numbers| numbers.get(number as usize)) {
            counter.add(packets);
        }
    }

    /// Packets that hit the prefix of a number, over all workers.
    pub fn of(&self, number: u32) -> u64 {
        self.0.iter().filter_map(|numbers| numbers.get(number as usize)).map(Counter::value).sum()
    }

    /// The numbers of prefixes that packets hit, with how many did.
    pub fn iter(&self) -> impl Iterator<Item = (u32, u64)> {
        let numbers = self.0.first().map_or(0, |numbers| numbers.len()) as u32;
        (0..numbers).map(|number| (number, self.of(number))).filter(|(_, hits)| *hits > 0)
    }

    /// Octets of the counters, used or not.
    pub fn octets(&self) -> usize {
        self.0.iter().map(|numbers| numbers.len() * size_of::<Counter>()).sum()
    }
}
