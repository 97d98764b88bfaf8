//! The packets of a stream that a queue delivers.
//!
//! The packets of a stream are numbered 0, 1, 2, … over all queues. A stream repeats its *slots* (flows of a template,
//! frames of a capture), so packet `n` has slot `n` mod slots. Each slot belongs to one queue. A queue knows the
//! numbers of its packets without the other queues, and counts and rates over all queues are exact.

/// The slots of a stream that belong to one queue.
#[derive(Debug, Clone)]
pub(super) struct Share {
    /// Slots of the stream, at least 1.
    places: u64,
    own: Own,
}

#[derive(Debug, Clone)]
enum Own {
    /// `count` slots: `first`, `first + step`, ….
    Every { first: u64, step: u64, count: u64 },
    /// Listed slots, in ascending order.
    Listed(Box<[u32]>),
}

impl Share {
    /// Returns every `queues`-th of `places` slots, for queue number `queue`.
    pub(super) fn every(places: u64, queue: u64, queues: u64) -> Share {
        let count = places.saturating_sub(queue).div_ceil(queues);
        Share { places, own: Own::Every { first: queue, step: queues, count } }
    }

    /// Returns the listed ones of `places` slots, in ascending order.
    pub(super) fn listed(places: u64, own: Vec<u32>) -> Share {
        Share { places, own: Own::Listed(own.into()) }
    }

    /// Returns the number of slots of the queue.
    pub(super) fn len(&self) -> u64 {
        match &self.own {
            Own::Every { count, .. } => *count,
            Own::Listed(own) => own.len() as u64,
        }
    }

    /// Returns the queue's slot number `index`.
    #[inline(always)]
    pub(super) fn place(&self, index: u64) -> u64 {
        match &self.own {
            Own::Every { first, step, .. } => first + index * step,
            Own::Listed(own) => u64::from(own[index as usize]),
        }
    }

    /// Returns how many of the stream's packets below number `limit` belong to the queue.
    pub(super) fn below(&self, limit: u64) -> u64 {
        let (rounds, rest) = (limit / self.places, limit % self.places);
        let last = match &self.own {
            Own::Every { first, step, .. } => rest.saturating_sub(*first).div_ceil(*step),
            Own::Listed(own) => own.partition_point(|&place| u64::from(place) < rest) as u64,
        };
        rounds * self.len() + last
    }
}

/// Position of a queue in its share of a stream.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Cursor {
    /// Number of the round's first packet.
    round: u64,
    /// Index of the queue's next slot.
    index: u64,
    /// Packets delivered.
    pub(super) delivered: u64,
}

impl Cursor {
    /// Returns the index of the queue's next slot.
    #[inline(always)]
    pub(super) fn index(&self) -> usize {
        self.index as usize
    }

    /// Returns the number of the next packet in the stream.
    #[inline(always)]
    pub(super) fn number(&self, share: &Share) -> u64 {
        self.round.wrapping_add(share.place(self.index))
    }

    /// Advances by one packet.
    #[inline(always)]
    pub(super) fn advance(&mut self, share: &Share) {
        self.delivered += 1;
        self.index += 1;
        if self.index == share.len() {
            self.index = 0;
            self.round = self.round.wrapping_add(share.places);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn queues_share_every_packet_exactly_once(places in 1u64..50, queues in 1u64..8, limit in 0u64..500) {
            let mut numbers = Vec::new();
            for queue in 0..queues {
                let share = Share::every(places, queue, queues);
                let mut cursor = Cursor::default();
                for _ in 0..share.below(limit) {
                    numbers.push(cursor.number(&share));
                    prop_assert_eq!(numbers.last().unwrap() % places % queues, queue);
                    cursor.advance(&share);
                }
            }
            numbers.sort_unstable();
            prop_assert_eq!(numbers, (0..limit).collect::<Vec<_>>());
        }

        #[test]
        fn a_list_counts_as_its_places_do(own: [bool; 20], limit in 0u64..500) {
            let places = own.len() as u64;
            let list = (0..places as u32).filter(|&place| own[place as usize]).collect();
            let share = Share::listed(places, list);
            let expected = (0..limit).filter(|number| own[(number % places) as usize]).count() as u64;
            prop_assert_eq!(share.below(limit), expected);
        }
    }
}
