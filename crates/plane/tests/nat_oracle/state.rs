//! States and time-outs of a session, by docs/sessions.md.

use weir_plane::model::Timeouts;

use crate::packet::{ACK, FIN, ICMP, RST, SYN, TCP, UDP, UDP_LITE};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    SynSent,
    SynReceived,
    Established,
    Unreplied,
    FinWait,
    TimeWait,
    Close,
    Refused,
    Udp,
    UdpStream,
    Icmp,
    Generic,
}

/// The state of a session. Directions are 0, as its first packet, and 1.
#[derive(Debug, Clone)]
pub struct States {
    pub now: State,
    /// That before `close` or `refused`.
    before: State,
    /// Directions that have sent a SYN, a FIN, an ACK without SYN.
    syns: [bool; 2],
    fins: [bool; 2],
    acks: [bool; 2],
    /// A connection was established, or both sides have sent while it ended: it is not half-open.
    pub was_there: bool,
    /// The direction of a SYN that would begin the session anew.
    pub reopens: Option<usize>,
}

impl States {
    /// The state of a session that a packet opens.
    pub fn new(protocol: u8, flags: u8) -> States {
        let now = match protocol {
            UDP | UDP_LITE => State::Udp,
            ICMP => State::Icmp,
            TCP if flags & FIN != 0 => State::FinWait,
            TCP if flags & (SYN | ACK) == SYN => State::SynSent,
            TCP => State::Unreplied,
            _ => State::Generic,
        };
        let syns = [flags & SYN != 0, false];
        let acks = [flags & (SYN | ACK) == ACK, false];
        States { now, before: now, syns, fins: [flags & FIN != 0, false], acks, was_there: false, reopens: None }
    }

    /// Whether a SYN from the other side than the opener's is no packet of the session.
    pub fn refuses_requests(&self) -> bool {
        matches!(self.now, State::FinWait | State::TimeWait | State::Close | State::Refused | State::Unreplied)
    }

    /// Changes the state by a packet; returns whether the time restarts.
    pub fn packet(&mut self, protocol: u8, way: usize, flags: u8) -> bool {
        match protocol {
            UDP | UDP_LITE if way == 1 => self.now = State::UdpStream,
            TCP => return self.tcp(way, flags),
            _ => {}
        }
        true
    }

    fn tcp(&mut self, way: usize, flags: u8) -> bool {
        let closing = matches!(self.now, State::FinWait | State::TimeWait | State::Close);
        if flags & RST != 0 {
            if !matches!(self.now, State::Close | State::Refused) {
                self.before = self.now;
                let is_refused = matches!(self.now, State::SynSent | State::SynReceived);
                self.now = if is_refused { State::Refused } else { State::Close };
            }
            return true;
        }
        if flags & (SYN | ACK) == SYN {
            if closing || self.now == State::Refused && way == 1 {
                self.reopens = Some(way);
                return false;
            }
            if self.now == State::Refused {
                let (was_there, before) = (self.was_there, self.before);
                *self = States { was_there, before, ..States::new(TCP, SYN) };
                return true;
            }
            self.syns[way] = true;
            if self.now == State::SynSent && self.syns == [true; 2] {
                self.now = State::SynReceived;
                return true;
            }
            return self.now == State::SynSent;
        }
        if flags & SYN != 0 {
            if self.reopens == Some(1 - way) {
                (self.syns, self.fins, self.acks, self.reopens) = ([true; 2], [false; 2], [false; 2], None);
                self.now = State::SynReceived;
                return true;
            }
            self.reset_is_past();
            if self.now == State::SynSent {
                self.syns[way] = true;
                if self.syns == [true; 2] {
                    self.now = State::SynReceived;
                }
            }
            return true;
        }
        self.reset_is_past();
        self.was_there |= self.now == State::FinWait && way == 1;
        self.acks[way] |= flags & ACK != 0;
        self.now = match self.now {
            State::SynReceived if flags & ACK != 0 => State::Established,
            State::SynSent if self.acks == [true; 2] => State::Established,
            State::Unreplied if way == 1 => State::Established,
            other => other,
        };
        self.was_there |= self.now == State::Established;
        if flags & FIN != 0 {
            self.fins[way] = true;
            self.was_there |= self.fins == [true; 2];
            self.now = if self.fins == [true; 2] { State::TimeWait } else { State::FinWait };
        }
        true
    }

    /// A packet without RST passes: the session is in the state before the RST.
    fn reset_is_past(&mut self) {
        if matches!(self.now, State::Close | State::Refused) {
            self.now = self.before;
        }
    }

    /// Nanoseconds that the session lasts after its last packet.
    pub fn timeout(&self, of: &Timeouts) -> u64 {
        let time = match self.now {
            State::SynSent => of.tcp_syn_sent,
            State::SynReceived => of.tcp_syn_received,
            State::Established => of.tcp_established,
            State::Unreplied => of.tcp_unreplied,
            State::FinWait => of.tcp_fin_wait,
            State::TimeWait => of.tcp_time_wait,
            State::Close => of.tcp_close,
            State::Refused => of.tcp_refused,
            State::Udp => of.udp,
            State::UdpStream => of.udp_stream,
            State::Icmp => of.icmp,
            State::Generic => of.generic,
        };
        time.as_nanos() as u64
    }
}
