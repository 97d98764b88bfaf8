//! How a worker under load paces itself: it pauses between two receive calls, so that each of them brings a vector.
//!
//! A worker that polls without pause takes packets one or two at a time, unless more arrive than it can move. Each call then
//! costs many times what its packets cost, and takes a CPU that senders and receivers may need. So a worker begins a
//! receive call no earlier than a time `bound` after the one before, and sleeps in between: interrupt moderation, for a
//! thread that polls. No packet waits longer than `bound` for it, apart from the time that the system takes to wake a thread.
//!
//! - *Full load.* The time between two calls counts from begin to begin. A worker that moves packets for as long as `bound`
//!   does not pause at all, and neither does one whose queues have more: pauses cost no throughput.
//! - *Little load.* A worker that slept for want of packets pauses only after load has gone on for [`PROOF`] bounds. A packet
//!   that ends a silence, and an answer to it, meet no pause.
//! - *Pauses in vain.* Where a sender waits for an answer to each packet, pauses make no vectors. After one that brought fewer
//!   than [`WORTH`] packets, no further pause is tried for [`PROOF`] bounds, and for twice as long each time, up to
//!   [`LONGEST`] times that.
//!
//! A state machine on ticks: the caller reads the clock and sleeps.

use std::time::Duration;

/// For how many bounds there must be load before the first pause.
const PROOF: u64 = 20;
/// Packets that a pause has to bring to be tried again at once.
const WORTH: usize = 4;
/// The longest time without a pause after pauses in vain, in times of the shortest.
const LONGEST: u64 = 32;
/// The shortest pause, in parts of the bound: less costs more to sleep through than it brings.
const LEAST: u64 = 5;

/// When to pause. Times are in ticks of any clock that goes on.
#[derive(Debug)]
pub(super) struct Pace {
    /// The most that a packet may wait for the end of a pause; 0: there are none.
    bound: u64,
    /// When the last receive call that brought something began.
    began: u64,
    /// No pause before.
    not_before: Option<u64>,
    /// For how long there is no pause after the next one that is in vain.
    penalty: u64,
    /// The call that follows is the first after a whole pause.
    paused: bool,
}

impl Pace {
    pub(super) fn new(bound: Duration, frequency: f64) -> Pace {
        let bound = (bound.as_secs_f64() * frequency) as u64;
        Pace { bound, began: 0, not_before: None, penalty: PROOF * bound, paused: false }
    }

    /// The worker waits for packets: load has to show again.
    pub(super) fn rest(&mut self) {
        self.not_before = None;
        self.paused = false;
    }

    /// A receive call, begun at `began`, brought this many packets; `more`: and there are more. Returns how long to pause
    /// from `now` on, if at all.
    pub(super) fn pause(&mut self, began: u64, packets: usize, more: bool, now: u64) -> Option<u64> {
        if self.bound == 0 {
            return None;
        }
        self.began = began;
        if std::mem::take(&mut self.paused) {
            if packets >= WORTH {
                self.penalty = PROOF * self.bound;
            } else {
                self.not_before = Some(now + self.penalty);
                self.penalty = (2 * self.penalty).min(LONGEST * PROOF * self.bound);
            }
        }
        let not_before = *self.not_before.get_or_insert(now + PROOF * self.bound);
        if more || now < not_before {
            return None;
        }
        let left = (self.began + self.bound).saturating_sub(now);
        (left * LEAST >= self.bound).then_some(left)
    }

    /// The pause was not cut short: the next call shows whether it was worth it.
    pub(super) fn paused(&mut self) {
        self.paused = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With a bound of 50 ticks.
    fn pace() -> Pace {
        Pace::new(Duration::from_micros(50), 1e6)
    }

    /// Under load from `start` on: calls every 10 ticks, of one packet each. Returns when the first pause begins.
    fn first_pause(pace: &mut Pace, start: u64) -> u64 {
        (0..).map(|call| start + 10 * call).find(|&now| pace.pause(now, 1, false, now).is_some()).unwrap()
    }

    #[test]
    fn load_has_to_go_on_before_the_first_pause() {
        let mut pace = pace();
        assert_eq!(first_pause(&mut pace, 5000), 6000);
        // After a rest, again.
        pace.rest();
        assert_eq!(first_pause(&mut pace, 9000), 10_000);
    }

    #[test]
    fn a_pause_ends_a_bound_after_the_call_began() {
        let mut pace = pace();
        let start = first_pause(&mut pace, 0);
        for (busy, pause) in [(0, Some(50)), (30, Some(20)), (40, Some(10)), (41, None), (50, None), (9000, None)] {
            assert_eq!(pace.pause(start, 9, false, start + busy), pause, "after {busy}");
        }
        // Neither while more is there.
        assert_eq!(pace.pause(start, 256, true, start), None);
    }

    #[test]
    fn pauses_in_vain_become_rare_until_one_is_worth_it() {
        let mut pace = pace();
        let mut now = first_pause(&mut pace, 0);
        for without in [1000, 2000, 4000, 8000, 16_000, 32_000, 32_000] {
            pace.paused();
            now += 50;
            let next = first_pause(&mut pace, now);
            assert_eq!(next - now, without);
            now = next;
        }
        for _ in 0..3 {
            pace.paused();
            now += 50;
            assert_eq!(pace.pause(now, WORTH, false, now), Some(50), "it goes on");
        }
        pace.paused();
        assert_eq!(first_pause(&mut pace, now) - now, 1000, "the shortest again");
    }

    #[test]
    fn a_bound_of_nothing_means_no_pauses() {
        let mut pace = Pace::new(Duration::ZERO, 1e9);
        assert!((0..100_000).all(|call| pace.pause(call * 1000, 1, false, call * 1000).is_none()));
    }
}
