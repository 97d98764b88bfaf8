//! The states of a session (RFC 7857, 2; RFC 9293 for the flags of TCP), and how long each lasts.
//!
//! Flags are believed, sequence numbers are not read: so a FIN or a RST begins a shorter time and ends nothing.

use weir_packet::wire::protocol;
use weir_packet::wire::tcp::Flags;

use crate::model::{SessionState, Timeouts};

/// The direction of a packet of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Way {
    /// That of the first packet.
    Original,
    /// The other one.
    Reply,
}

impl Way {
    /// The other one.
    #[must_use]
    pub(crate) fn other(self) -> Way {
        match self {
            Way::Original => Way::Reply,
            Way::Reply => Way::Original,
        }
    }
}

/// The progress of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Progress {
    state: SessionState,
    /// The state that a packet after a RST returns to.
    before: SessionState,
    /// Bits of directions in which a SYN has passed, and in which a FIN has passed.
    syn: u8,
    fin: u8,
    /// Bits of directions in which an ACK without SYN has passed, in `syn-sent`.
    ack: u8,
    /// Bits of directions in which a SYN has passed that is no packet of the session.
    asked: u8,
    half_open: bool,
}

/// A packet of TCP cannot open a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoOpener {
    /// It ends one, or its flags make no sense: it passes.
    Ends,
    /// It is in mid-stream, and sessions are not to begin there.
    MidStream,
}

const fn bit(way: Way) -> u8 {
    match way {
        Way::Original => 1,
        Way::Reply => 2,
    }
}

const BOTH: u8 = 3;

const FIN: u8 = Flags::FIN.0;
const SYN: u8 = Flags::SYN.0;
const RST: u8 = Flags::RST.0;
const ACK: u8 = Flags::ACK.0;

/// The packet opens a connection: SYN without ACK.
#[inline]
fn is_request(flags: u8) -> bool {
    flags & (SYN | ACK | FIN | RST) == SYN
}

/// The packet begins and ends a connection: no host sends that. It changes nothing.
#[inline]
fn is_nonsense(flags: u8) -> bool {
    flags & SYN != 0 && flags & (FIN | RST) != 0
}

impl Progress {
    /// That of a session that a packet with these flags opens; `None`: it is not TCP.
    pub(crate) fn open(flags: Option<u8>, pickup: bool) -> Result<Progress, NoOpener> {
        let Some(flags) = flags else {
            return Ok(Progress::begin(SessionState::New));
        };
        if flags & RST != 0 || is_nonsense(flags) {
            return Err(NoOpener::Ends);
        }
        if is_request(flags) {
            return Ok(Progress { syn: bit(Way::Original), ..Progress::begin(SessionState::SynSent) });
        }
        if !pickup {
            return Err(NoOpener::MidStream);
        }
        let mut progress = Progress::begin(SessionState::Unreplied);
        progress.advance(Way::Original, Some(flags));
        Ok(progress)
    }

    pub(super) const fn begin(state: SessionState) -> Progress {
        Progress { state, before: state, syn: 0, fin: 0, ack: 0, asked: 0, half_open: true }
    }

    pub(crate) fn state(&self) -> SessionState {
        self.state
    }

    pub(crate) fn is_half_open(&self) -> bool {
        self.half_open
    }

    /// Whether a packet with the tuple of the session belongs to it: a new connection does not belong to one that ends, nor
    /// does one from the side of which nothing was seen yet.
    #[inline]
    pub(crate) fn has(&self, way: Way, flags: Option<u8>) -> bool {
        if !flags.is_some_and(is_request) {
            return true;
        }
        match self.state {
            SessionState::FinWait | SessionState::TimeWait | SessionState::Close => false,
            SessionState::Unreplied | SessionState::Refused => way == Way::Original,
            _ => true,
        }
    }

    /// Both sides have ended the connection, or one has reset it: a new one may take its place.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.state, SessionState::TimeWait | SessionState::Close | SessionState::Refused)
    }

    /// Whether a packet of the session restarts its time. A SYN without ACK is easily forged, and proves nothing once the
    /// connection is there.
    #[inline]
    pub(crate) fn restarts(&self, flags: Option<u8>) -> bool {
        let is_there = matches!(self.state, SessionState::Established | SessionState::SynReceived);
        !flags.is_some_and(|flags| is_nonsense(flags) || is_there && is_request(flags))
    }

    /// A packet of a direction changes nothing here that has neither SYN, FIN nor RST: neither side has ended, and both have
    /// sent, or the other one has not.
    pub(crate) fn is_steady(&self, way: Way) -> bool {
        let is_there = match self.state {
            SessionState::Established | SessionState::Stream => !self.half_open,
            SessionState::New | SessionState::Unreplied => way == Way::Original,
            _ => false,
        };
        is_there && self.fin == 0
    }

    /// A SYN has passed that is no packet of the session: if it is answered, the session begins anew.
    #[cold]
    pub(crate) fn note_request(&mut self, way: Way) {
        self.asked |= bit(way);
    }

    /// A packet has passed; `flags` if it is of TCP.
    #[inline]
    pub(crate) fn advance(&mut self, way: Way, flags: Option<u8>) {
        match flags {
            Some(flags) => self.advance_tcp(way, flags),
            None if way == Way::Reply && self.half_open => {
                self.state = SessionState::Stream;
                self.half_open = false;
            }
            None => {}
        }
    }

    fn advance_tcp(&mut self, way: Way, flags: u8) {
        if is_nonsense(flags) {
            return;
        }
        if flags & RST != 0 {
            let to = match self.state {
                SessionState::Close | SessionState::Refused => return,
                SessionState::SynSent | SessionState::SynReceived => SessionState::Refused,
                _ => SessionState::Close,
            };
            self.before = std::mem::replace(&mut self.state, to);
            return;
        }
        if flags & (SYN | ACK) == SYN | ACK && self.asked & bit(way.other()) != 0 {
            let half_open = self.half_open;
            *self = Progress { syn: BOTH, half_open, ..Progress::begin(SessionState::SynReceived) };
            return;
        }
        match self.state {
            // The side that was refused tries again.
            SessionState::Refused if is_request(flags) => {
                *self = Progress { half_open: self.half_open, ..Progress::begin(SessionState::SynSent) };
            }
            SessionState::Close | SessionState::Refused => self.state = self.before,
            _ => {}
        }
        if flags & SYN != 0 {
            self.syn |= bit(way);
        }
        if self.state == SessionState::SynSent && self.syn == BOTH {
            self.state = SessionState::SynReceived;
        }
        if self.state == SessionState::SynSent && flags & (SYN | ACK) == ACK {
            self.ack |= bit(way);
        }
        let established = match self.state {
            // The SYN of the other direction took another way.
            SessionState::SynSent => self.ack == BOTH,
            SessionState::SynReceived => flags & (SYN | ACK) == ACK,
            SessionState::Unreplied => way == Way::Reply,
            _ => false,
        };
        if established {
            self.state = SessionState::Established;
        }
        if established || self.state == SessionState::FinWait && way == Way::Reply {
            self.half_open = false;
        }
        if flags & FIN != 0 {
            self.fin |= bit(way);
        }
        if self.fin == BOTH {
            self.state = SessionState::TimeWait;
            self.half_open = false;
        } else if self.fin != 0 {
            self.state = SessionState::FinWait;
        }
    }

    /// Nanoseconds that the session lasts after its last packet.
    pub(crate) fn timeout(&self, protocol: u8, timeouts: &Timeouts) -> u64 {
        let time = match (self.state, protocol) {
            (SessionState::SynSent, _) => timeouts.tcp_syn_sent,
            (SessionState::SynReceived, _) => timeouts.tcp_syn_received,
            (SessionState::Established, _) => timeouts.tcp_established,
            (SessionState::Unreplied, _) => timeouts.tcp_unreplied,
            (SessionState::FinWait, _) => timeouts.tcp_fin_wait,
            (SessionState::TimeWait, _) => timeouts.tcp_time_wait,
            (SessionState::Close, _) => timeouts.tcp_close,
            (SessionState::Refused, _) => timeouts.tcp_refused,
            (SessionState::New, protocol::UDP | protocol::UDP_LITE) => timeouts.udp,
            (SessionState::Stream, protocol::UDP | protocol::UDP_LITE) => timeouts.udp_stream,
            (_, protocol::ICMP | protocol::ICMPV6) => timeouts.icmp,
            _ => timeouts.generic,
        };
        time.as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The state after packets, of which the first opens the session.
    fn after(packets: &[(Way, u8)]) -> (SessionState, bool) {
        let mut progress = Progress::open(Some(packets[0].1), true).unwrap();
        for &(way, flags) in &packets[1..] {
            match progress.has(way, Some(flags)) {
                true => progress.advance(way, Some(flags)),
                false => progress.note_request(way),
            }
        }
        (progress.state(), progress.is_half_open())
    }

    #[test]
    fn flags_lead_from_state_to_state() {
        use SessionState::{Close, Established, FinWait, Refused, SynReceived, SynSent, TimeWait, Unreplied};
        use Way::{Original as O, Reply as R};
        for (packets, state, half_open) in [
            (&[(O, SYN)][..], SynSent, true),
            (&[(O, SYN), (O, SYN)], SynSent, true),
            (&[(O, SYN), (R, SYN | ACK)], SynReceived, true),
            (&[(O, SYN), (R, SYN)], SynReceived, true),
            (&[(O, SYN), (R, SYN), (O, SYN | ACK)], SynReceived, true),
            (&[(O, SYN), (R, SYN | ACK), (O, ACK)], Established, false),
            (&[(O, SYN), (R, ACK)], SynSent, true),
            (&[(O, SYN), (R, ACK), (O, ACK)], Established, false),
            (&[(O, ACK)], Unreplied, true),
            (&[(O, SYN | ACK)], Unreplied, true),
            (&[(O, ACK), (O, ACK)], Unreplied, true),
            (&[(O, ACK), (R, ACK)], Established, false),
            (&[(O, FIN | ACK)], FinWait, true),
            (&[(O, FIN | ACK), (R, ACK)], FinWait, false),
            (&[(O, SYN), (R, SYN | ACK), (O, FIN | ACK)], FinWait, false),
            (&[(O, ACK), (R, ACK), (R, FIN | ACK), (O, ACK)], FinWait, false),
            (&[(O, ACK), (R, ACK), (R, FIN | ACK), (O, FIN | ACK)], TimeWait, false),
            (&[(O, ACK), (R, ACK), (R, FIN | ACK), (O, FIN | ACK), (R, ACK)], TimeWait, false),
            (&[(O, ACK), (R, ACK), (R, RST)], Close, false),
            (&[(O, ACK), (R, ACK), (R, RST), (O, RST)], Close, false),
            (&[(O, ACK), (R, ACK), (R, RST), (O, ACK)], Established, false),
            (&[(O, ACK), (R, ACK), (R, FIN | ACK), (R, RST), (O, ACK)], FinWait, false),
            (&[(O, SYN), (R, RST | ACK)], Refused, true),
            (&[(O, SYN), (R, RST | ACK), (R, RST)], Refused, true),
            (&[(O, SYN), (R, SYN | ACK), (O, RST)], Refused, true),
            (&[(O, SYN), (R, RST | ACK), (O, SYN)], SynSent, true),
            (&[(O, SYN), (R, SYN | ACK), (O, RST), (O, SYN)], SynSent, true),
            (&[(O, SYN), (R, RST | ACK), (R, SYN)], Refused, true),
            (&[(O, SYN), (R, RST | ACK), (R, SYN | ACK)], SynReceived, true),
            (&[(O, SYN), (R, RST | ACK), (O, SYN), (R, SYN | ACK)], SynReceived, true),
            (&[(O, ACK), (R, ACK), (R, RST), (O, SYN)], Close, false),
            (&[(O, ACK), (R, ACK), (R, RST), (O, SYN), (R, ACK)], Established, false),
            (&[(O, ACK), (R, ACK), (R, FIN), (R, SYN), (O, SYN | ACK)], SynReceived, false),
            (&[(O, ACK), (R, SYN)], Unreplied, true),
            (&[(O, ACK), (R, ACK), (R, SYN | FIN), (O, SYN | RST)], Established, false),
            (&[(O, SYN), (R, SYN | ACK), (R, SYN | ACK | FIN)], SynReceived, true),
            (&[(O, ACK), (R, ACK), (R, FIN | ACK), (R, SYN | FIN | ACK), (O, SYN | FIN)], FinWait, false),
            (&[(O, SYN), (R, SYN | RST)], SynSent, true),
        ] {
            assert_eq!(after(packets), (state, half_open), "{packets:?}");
        }
    }

    #[test]
    fn packets_without_syn_fin_and_rst_change_nothing_in_a_steady_session() {
        use Way::{Original as O, Reply as R};
        let mut steady = 0;
        // All sequences of five packets.
        let all = [SYN, SYN | ACK, ACK, FIN | ACK, RST].map(Some).into_iter().chain([None]);
        let all: Vec<(Way, Option<u8>)> = all.flat_map(|flags| [(O, flags), (R, flags)]).collect();
        for number in 0..all.len().pow(4) {
            let packets = [1, 12, 144, 1728].map(|unit| all[number / unit % 12]);
            let is_tcp = packets[0].1.is_some();
            if packets.iter().any(|(_, flags)| flags.is_some() != is_tcp) {
                continue;
            }
            let Ok(mut progress) = Progress::open(packets[0].1, true) else { continue };
            for (way, flags) in packets {
                if progress.has(way, flags) { progress.advance(way, flags) } else { progress.note_request(way) }
            }
            for way in [O, R].into_iter().filter(|&way| progress.is_steady(way)) {
                steady += 1;
                let flags = is_tcp.then_some(ACK);
                let mut next = progress;
                next.advance(way, flags);
                assert!(next == progress && progress.has(way, flags) && progress.restarts(flags), "{packets:?}");
            }
        }
        assert!(steady > 300, "{steady}");
    }

    /// A forged packet restarts no time, so that no shorter one is over at once.
    #[test]
    fn nonsense_restarts_no_time() {
        let mut progress = Progress::open(Some(ACK), true).unwrap();
        progress.advance(Way::Reply, Some(ACK));
        for flags in [SYN | FIN, SYN | RST, SYN | FIN | ACK, SYN | FIN | RST] {
            assert!(!progress.restarts(Some(flags)) && progress.has(Way::Reply, Some(flags)), "{flags:#x}");
        }
        assert!(progress.restarts(Some(FIN)) && progress.restarts(Some(RST)));
    }

    #[test]
    fn some_packets_open_nothing() {
        assert_eq!(Progress::open(Some(RST), true), Err(NoOpener::Ends));
        assert_eq!(Progress::open(Some(SYN | FIN), true), Err(NoOpener::Ends));
        assert_eq!(Progress::open(Some(ACK), false), Err(NoOpener::MidStream));
        assert_eq!(Progress::open(Some(SYN | ACK), false), Err(NoOpener::MidStream));
        assert!(Progress::open(Some(SYN), false).is_ok());
    }
}
