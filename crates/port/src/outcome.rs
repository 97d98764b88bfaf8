//! Outcomes of packets that a transmit queue sends after it took them.

use std::collections::VecDeque;

/// The outcome of consecutive packets of a transmit queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Number of packets.
    pub packets: usize,
    /// The packets were sent; else they are lost.
    pub sent: bool,
}

/// Outcomes that the worker has not read yet, in order.
#[derive(Debug, Default)]
pub(crate) struct Outcomes(VecDeque<Outcome>);

impl Outcomes {
    /// Creates a list with room for this many changes between sent and lost packets.
    pub(crate) fn with_capacity(changes: usize) -> Outcomes {
        Outcomes(VecDeque::with_capacity(changes))
    }

    pub(crate) fn add(&mut self, packets: usize, sent: bool) {
        match self.0.back_mut() {
            _ if packets == 0 => {}
            Some(last) if last.sent == sent => last.packets += packets,
            _ => self.0.push_back(Outcome { packets, sent }),
        }
    }

    /// Removes and returns the oldest.
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
