//! The hand: it visits all sessions in turn, each at least once a second.

use std::ops::Range;

use weir_base::clock::Time;

/// Nanoseconds between two looks, by which a visit may be late.
const PAUSE: u64 = 100_000_000;
/// Nanoseconds of a turn.
const TURN: u64 = 1_000_000_000 - PAUSE;
/// Places visited at once.
const MOST: u32 = 256;

/// The position of the hand.
#[derive(Default)]
pub(super) struct Hand {
    /// The place that is visited next.
    next: u32,
    /// When the turn began.
    begun: Time,
    /// When the hand may move again.
    pub(super) due: Time,
}

impl Hand {
    /// Moves over the places that are due, of so many.
    pub(super) fn advance(&mut self, all: u32, now: Time) -> Range<u32> {
        let elapsed = now.0.saturating_sub(self.begun.0);
        let target = (u128::from(all) * u128::from(elapsed.min(TURN)) / u128::from(TURN)) as u32;
        let first = self.next.min(all);
        let last = target.clamp(first, first.saturating_add(MOST));
        self.next = last;
        let is_over = last >= all && elapsed >= TURN;
        let pause = if target > last || is_over { 0 } else { PAUSE };
        self.due = Time(now.0.saturating_add(pause));
        if is_over {
            // A turn begins when the one before was over, not at the look behind: else turns would become longer.
            let begun = self.begun.0.saturating_add(TURN).max(now.0.saturating_sub(PAUSE));
            (self.next, self.begun) = (0, Time(begun));
        }
        first..last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_base::random::Random;

    #[test]
    fn each_place_is_visited_once_a_turn_and_few_at_once() {
        let mut hand = Hand::default();
        let mut visits = vec![0; 1000];
        let mut now = Time(0);
        for _ in 0..2000 {
            let range = hand.advance(1000, now);
            assert!(range.len() <= MOST as usize);
            range.for_each(|place| visits[place as usize] += 1);
            now = Time(hand.due.0.max(now.0 + 1));
        }
        let turns = now.0 / TURN;
        assert!(turns > 50);
        assert!(visits.iter().all(|&visits| (turns - turns / 5..=turns + 1).contains(&visits)), "{turns}: {visits:?}");
    }

    #[test]
    fn no_place_waits_longer_than_a_second() {
        let mut random = Random::from_seed(1);
        let (mut hand, mut last, mut now) = (Hand::default(), [Time(0); 200], Time(0));
        let mut longest = 0;
        for _ in 0..20_000 {
            for place in hand.advance(200, now) {
                longest = longest.max(now.0 - last[place as usize].0);
                last[place as usize] = now;
            }
            // A worker with packets looks more often, one without waits until the hand is due.
            let earliest = now.0 + 1 + random.below(PAUSE / 20);
            now = if random.chance(0.5) { Time(hand.due.0.max(now.0 + 1)) } else { Time(earliest) };
        }
        assert!((800_000_000..=1_000_000_001).contains(&longest), "{longest}");
    }
}
