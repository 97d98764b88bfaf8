//! Sessions that begin and end, for people who watch them. Events wait in a list of the family until the vector is over, and then
//! in a ring, from which another thread takes them. An event that finds either full is counted as lost. While nobody watches,
//! nothing is noted.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use weir_base::clock::Time;
use weir_base::ring::Producer;
use weir_base::wake::Waker;
use weir_packet::wire::protocol;
use weir_table::classify::Fields;

use super::log::{Ends, ends};
use super::record::{Opener, Session};
use super::tuple::Tuple;
use crate::graph::counters::Ending;
use crate::root::family::Family;

/// Events of a family that wait for the end of the vector at most.
const WAITING: usize = 2048;
/// Events of a worker that wait to be read at most.
pub(crate) const RING: usize = 4096;

/// A session of a family that began or ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watched<K> {
    /// Why it ended; `None`: it began.
    ended: Option<Ending>,
    /// Nanoseconds between its beginning and the event.
    age: u64,
    packets: [u64; 2],
    octets: [u64; 2],
    tuple: Tuple<K>,
    opener: Opener,
    /// The tuple of the first packet as it left, if the session is a translation.
    out: Option<Tuple<K>>,
}

impl<K: Family> Watched<K> {
    fn new(session: &Session<K>, ended: Option<Ending>, now: Time) -> Watched<K> {
        Watched {
            ended,
            age: now.since(session.created),
            packets: session.packets,
            octets: session.octets,
            tuple: session.tuple,
            opener: session.opener,
            out: session.translation.map(|own| own.out()),
        }
    }

    /// The fields of the packet that opened the session.
    pub(crate) fn fields(&self) -> Fields<K> {
        self.opener.fields(&self.tuple)
    }

    fn shown(&self) -> SessionNews {
        let Watched { ended, age, packets, octets, tuple, opener, out } = self;
        SessionNews {
            ended: ended.map(Ending::name),
            protocol: tuple.protocol,
            has_ports: protocol::has_ports(tuple.protocol),
            is_request: tuple.request_type().is_some(),
            interface: opener.interface,
            before: ends(tuple),
            after: out.as_ref().map(ends),
            age: Duration::from_nanos(*age),
            packets: *packets,
            octets: *octets,
        }
    }
}

/// A session that began or ended.
#[derive(Debug, Clone, Copy)]
pub struct SessionEvent(pub(crate) OfEither);

/// It, by family.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OfEither {
    V4(Watched<u32>),
    V6(Watched<u128>),
}

/// A session that began or ended, for texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionNews {
    /// Why it ended; `None`: it began.
    pub ended: Option<&'static str>,
    /// The protocol of its packets.
    pub protocol: u8,
    /// The numbers beside addresses are ports.
    pub has_ports: bool,
    /// The number beside the source is the identifier of ICMP requests.
    pub is_request: bool,
    /// The number of the interface that the first packet came in by.
    pub interface: u32,
    /// The first packet, as it came in.
    pub before: Ends,
    /// The first packet, as it left, if the session is a translation.
    pub after: Option<Ends>,
    /// The time since the session began.
    pub age: Duration,
    /// Packets by direction.
    pub packets: [u64; 2],
    /// Octets from the IP header on, by direction.
    pub octets: [u64; 2],
}

impl SessionEvent {
    /// The event for texts.
    pub fn news(&self) -> SessionNews {
        match &self.0 {
            OfEither::V4(own) => own.shown(),
            OfEither::V6(own) => own.shown(),
        }
    }
}

/// Events of a family that wait for the end of the vector.
pub(super) struct Noted<K> {
    pub(super) is_on: bool,
    events: Vec<Watched<K>>,
    lost: u64,
}

impl<K: Family> Noted<K> {
    pub(super) fn new() -> Self {
        Noted { is_on: false, events: Vec::new(), lost: 0 }
    }

    /// Begins or ends to note sessions. Allocates memory, or frees it.
    fn switch(&mut self, is_on: bool) {
        self.is_on = is_on;
        self.events = Vec::with_capacity(if is_on { WAITING } else { 0 });
    }

    pub(super) fn push(&mut self, session: &Session<K>, ended: Option<Ending>, now: Time) {
        if self.events.len() < self.events.capacity() {
            self.events.push(Watched::new(session, ended, now));
        } else {
            self.lost += 1;
        }
    }

    fn is_empty(&self) -> bool {
        self.events.is_empty() && self.lost == 0
    }
}

/// A worker's end of the ring.
pub(crate) struct SessionWatch {
    /// `None`: nobody can watch, as in replays.
    ring: Option<Producer<SessionEvent>>,
    waker: Option<Waker>,
    is_watched: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
    has_new: bool,
}

impl SessionWatch {
    /// Of a worker whose sessions nobody can watch yet.
    pub(crate) fn unwatched() -> SessionWatch {
        SessionWatch { ring: None, waker: None, is_watched: Arc::default(), lost: Arc::default(), has_new: false }
    }

    /// Gives events by this ring from now on, while they are watched, and wakes its reader.
    pub(crate) fn connect(
        &mut self,
        ring: Producer<SessionEvent>,
        waker: Option<Waker>,
        (is_watched, lost): (Arc<AtomicBool>, Arc<AtomicU64>),
    ) {
        (self.ring, self.waker) = (Some(ring), waker);
        (self.is_watched, self.lost) = (is_watched, lost);
    }

    /// Follows the wish of watchers between two vectors.
    #[inline]
    pub(super) fn follow(&self, v4: &mut Noted<u32>, v6: &mut Noted<u128>) {
        let is_watched = self.is_watched.load(Ordering::Relaxed);
        if is_watched != v4.is_on {
            v4.switch(is_watched);
            v6.switch(is_watched);
        }
    }

    /// Takes over the events that wait.
    pub(super) fn take(&mut self, v4: &mut Noted<u32>, v6: &mut Noted<u128>) {
        if v4.is_empty() && v6.is_empty() {
            return;
        }
        let mut lost = std::mem::take(&mut v4.lost) + std::mem::take(&mut v6.lost);
        let v4 = v4.events.drain(..).map(OfEither::V4);
        for event in v4.chain(v6.events.drain(..).map(OfEither::V6)) {
            let Some(ring) = &mut self.ring else { continue };
            lost += u64::from(ring.push(SessionEvent(event)).is_err());
        }
        self.has_new = true;
        if lost > 0 {
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
