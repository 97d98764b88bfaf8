//! The outcome of packets that a transmit queue sends after it took them.

use std::collections::VecDeque;

/// The outcome of packets that a transmit queue took one after the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// How many packets.
    pub packets: usize,
    /// They were sent; else they are lost.
    pub sent: bool,
}

/// Outcomes that nobody has read yet, in order.
#[derive(Debug, Default)]
pub(crate) struct Outcomes(VecDeque<Outcome>);

impl Outcomes {
    /// Room for this many changes between sent and lost packets.
    pub(crate) fn with_capacity(changes: usize) -> Outcomes {
        Outcomes(VecDeque::with_capacity(changes))
    }

    /// Adds the outcome of the next packets.
    pub(crate) fn add(&mut self, packets: usize, sent: bool) {
        match self.0.back_mut() {
            _ if packets == 0 => {}
            Some(last) if last.sent == sent => last.packets += packets,
            _ => self.0.push_back(Outcome { packets, sent }),
        }
    }

    /// Takes the oldest.
    pub(crate) fn take(&mut self) -> Option<Outcome> {
        self.0.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_come_back_in_order_and_merged() {
        let mut outcomes = Outcomes::with_capacity(2);
        for (packets, sent) in [(0, false), (3, true), (0, false), (2, true), (1, false), (1, false), (4, true)] {
            outcomes.add(packets, sent);
        }
        let all: Vec<_> =
            std::iter::from_fn(|| outcomes.take()).map(|outcome| (outcome.packets, outcome.sent)).collect();
        assert_eq!(all, [(5, true), (2, false), (4, true)]);
    }
}
