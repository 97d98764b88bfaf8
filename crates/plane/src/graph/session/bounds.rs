//! The bounds of a worker's sessions.

use weir_packet::wire::protocol;

use super::pace::{self, Pace};
use super::state::Progress;
use crate::model::{FlowTable, SessionState};

/// The bounds of a worker's sessions, and their time-outs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) settings: FlowTable,
    /// The worker's share of sessions and of half-open ones.
    pub(crate) sessions: usize,
    pub(crate) half_open: usize,
    /// Nanoseconds that a session lasts after its last packet, by its state and the class of its protocol: see [`Pace::lasting`].
    lasting: [u64; pace::LASTING],
}

/// The states, in their order.
const STATES: [SessionState; 10] = [
    SessionState::SynSent,
    SessionState::SynReceived,
    SessionState::Established,
    SessionState::Unreplied,
    SessionState::FinWait,
    SessionState::TimeWait,
    SessionState::Close,
    SessionState::Refused,
    SessionState::New,
    SessionState::Stream,
];

/// A protocol of each class with time-outs of its own.
const CLASSES: [u8; 3] = [protocol::GRE, protocol::UDP, protocol::ICMP];

impl Bounds {
    pub(super) fn new(settings: FlowTable, sessions: usize, half_open: usize) -> Bounds {
        let mut lasting = [0; pace::LASTING];
        for (state, protocol) in STATES.into_iter().flat_map(|state| CLASSES.map(|protocol| (state, protocol))) {
            let progress = Progress::begin(state);
            lasting[Pace::of(&progress, protocol, false).lasting()] = progress.timeout(protocol, &settings.timeouts);
        }
        Bounds { settings, sessions, half_open, lasting }
    }

    /// Nanoseconds that a session lasts after its last packet.
    #[inline(always)]
    pub(super) fn lasting(&self, pace: Pace) -> u64 {
        self.lasting[pace.lasting()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_outs_are_those_of_the_settings() {
        let settings = FlowTable::default();
        let bounds = Bounds::new(settings, 1, 1);
        for (place, state) in STATES.into_iter().enumerate() {
            assert_eq!(state as usize, place);
            for protocol in 0..=u8::MAX {
                let progress = Progress::begin(state);
                let own = progress.timeout(protocol, &settings.timeouts);
                assert_eq!(bounds.lasting(Pace::of(&progress, protocol, true)), own, "{state:?} {protocol}");
            }
        }
    }
}
