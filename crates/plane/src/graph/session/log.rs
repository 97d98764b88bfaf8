//! The log of translations: which began and ended, and packets that found no port. Events wait in a list of the worker until the
//! vector is over, and then in a ring, from which another thread takes them. An event that finds either full is counted as lost.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_base::clock::Time;
use weir_base::ring::Producer;
use weir_base::wake::Waker;

use super::record::Session;
use super::tuple::Tuple;
use crate::root::family::Family;
use crate::root::nat::{LogTo, RuleId};

/// Events of a family that wait for the end of the vector at most.
const WAITING: usize = 2048;
/// Events of a worker that wait to be read at most.
pub(crate) const RING: usize = 4096;

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A translation began: its first packet left, or is held.
    Created,
    /// A translation ended.
    Ended,
    /// A packet found no free port or address.
    Exhausted,
    /// A packet's source had as many translations as it may have.
    Limited,
    /// A packet's list had as many translations as it may have.
    ListLimited,
    /// A packet's routing domain had as many translations as it may have.
    VrfLimited,
}

/// The endpoints of a packet: source and destination, each with its port or identifier.
pub type Ends = [(IpAddr, u16); 2];

/// An event of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NatEvent {
    /// When, by the gateway's clock.
    pub time: Time,
    /// Its kind.
    pub kind: Kind,
    /// The protocol of its packets.
    pub protocol: u8,
    /// The zone of the first packet's tuple: the number of its routing domain's translations.
    pub zone: u16,
    /// The first packet, as it came in.
    pub before: Ends,
    /// The first packet, as it left; for packets that found no port, as it came in.
    pub after: Ends,
    /// The rule: that of a translation is the one that gave it when it began.
    pub rule: RuleId,
    /// The rule that gave its source, if that is another one.
    pub source_rule: Option<RuleId>,
    /// The limit that a packet is beyond.
    pub limit: Option<u32>,
    /// Where it goes.
    pub to: LogTo,
}

/// The endpoints of a tuple's packets.
pub(super) fn ends<K: Family>(tuple: &Tuple<K>) -> Ends {
    [(tuple.source.address(), tuple.words[0]), (tuple.destination.address(), tuple.words[1])]
}

impl NatEvent {
    /// An event of a translation.
    pub(super) fn of<K: Family>(session: &Session<K>, kind: Kind, time: Time) -> Option<NatEvent> {
        let translation = session.translation?;
        let logged = translation.logged?;
        let (to, [rule, source_rule]) = (logged.to(), logged.rules());
        let (before, after) = (ends(&session.tuple), ends(&translation.out()));
        let (protocol, zone) = (session.protocol, session.tuple.zone);
        Some(NatEvent { time, kind, protocol, zone, before, after, rule: rule?, source_rule, limit: None, to })
    }

    /// A packet that a rule refuses.
    pub(crate) fn refused<K: Family>(tuple: &Tuple<K>, to: LogTo, kind: Kind, time: Time, rule: RuleId) -> NatEvent {
        let before = ends(tuple);
        let (protocol, zone) = (tuple.protocol, tuple.zone);
        NatEvent { time, kind, protocol, zone, before, after: before, rule, source_rule: None, limit: None, to }
    }
}

/// Events that wait for the end of the vector.
pub(super) struct Waiting {
    events: Vec<NatEvent>,
    lost: u64,
    /// The time of the vector.
    pub(super) now: Time,
}

impl Waiting {
    pub(super) fn new() -> Waiting {
        Waiting { events: Vec::new(), lost: 0, now: Time(0) }
    }

    /// Allocates memory.
    pub(super) fn prepare(&mut self) {
        self.events.reserve_exact(WAITING.saturating_sub(self.events.len()));
    }

    pub(super) fn push(&mut self, event: NatEvent) {
        if self.events.len() < self.events.capacity() {
            self.events.push(event);
        } else {
            self.lost += 1;
        }
    }
}

/// A worker's end of the ring.
pub(crate) struct NatLog {
    /// `None`: nobody reads, as in replays.
    ring: Option<Producer<NatEvent>>,
    waker: Option<Waker>,
    lost: Arc<AtomicU64>,
    has_new: bool,
}

impl NatLog {
    /// Of a worker whose events nobody reads yet.
    pub(crate) fn unread() -> NatLog {
        NatLog { ring: None, waker: None, lost: Arc::default(), has_new: false }
    }

    /// Gives events by this ring from now on, and wakes its reader.
    pub(crate) fn connect(&mut self, ring: Producer<NatEvent>, waker: Option<Waker>, lost: Arc<AtomicU64>) {
        (self.ring, self.waker, self.lost) = (Some(ring), waker, lost);
    }

    /// Takes over the events that wait.
    pub(super) fn take(&mut self, waiting: &mut Waiting) {
        if waiting.events.is_empty() && waiting.lost == 0 {
            return;
        }
        let mut lost = std::mem::take(&mut waiting.lost);
        for event in waiting.events.drain(..) {
            let Some(ring) = &mut self.ring else { continue };
            self.has_new = true;
            lost += u64::from(ring.push(event).is_err());
        }
        if lost > 0 && self.ring.is_some() {
            self.has_new = true;
            self.lost.fetch_add(lost, Ordering::Relaxed);
        }
    }

    /// Shows the reader the events, and wakes it: not for nodes, as this may be a system call.
    #[inline]
    pub(crate) fn flush(&mut self) {
        if std::mem::take(&mut self.has_new)
            && let Some(ring) = &mut self.ring
        {
            ring.flush();
            if let Some(waker) = &self.waker {
                waker.wake();
            }
        }
    }
}
