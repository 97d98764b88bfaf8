//! The sessions of both families.

use weir_base::clock::Time;
use weir_base::reclaim::Guard;
use weir_packet::packet::Packet;
use weir_packet::vector::VECTOR;
use weir_table::flow::Secret;

use super::bounds::Bounds;
use super::hand::Hand;
use super::log::NatLog;
use super::membership::{Carried, Membership, ZoneOf};
use super::nat::Here;
use super::of_family::OfFamily;
use super::watched::SessionWatch;
use crate::graph::counters::{Ending, SessionCounters};
use crate::model::FlowTable;
use crate::root::Root;
use crate::root::family::{Both, BothMut, Family};

/// The sessions of a worker.
pub(crate) struct Sessions {
    pub(super) v4: OfFamily<u32>,
    pub(super) v6: OfFamily<u128>,
    pub(super) bounds: Bounds,
    /// The version of the root that the bounds are of.
    generation: u64,
    /// Some rule of the root opens sessions.
    opens: bool,
    /// Some rule of the root limits the translations of inside addresses.
    limits: bool,
    /// Some rule of the root translates.
    translates: bool,
    /// Some rule of the root has mappings that do not depend on destinations.
    maps: bool,
    /// The zones of the interfaces: those of access lists, and of the translations there.
    pub(super) zones: Vec<[u16; 2]>,
    hand: Hand,
    /// The log of translations.
    pub(crate) log: NatLog,
    /// Beginnings and ends, for watchers.
    pub(crate) watch: SessionWatch,
}

impl Both for Sessions {
    type Part<K: Family> = OfFamily<K>;

    fn v4(&self) -> &OfFamily<u32> {
        &self.v4
    }

    fn v6(&self) -> &OfFamily<u128> {
        &self.v6
    }
}

impl BothMut for Sessions {
    fn v4_mut(&mut self) -> &mut OfFamily<u32> {
        &mut self.v4
    }

    fn v6_mut(&mut self) -> &mut OfFamily<u128> {
        &mut self.v6
    }
}

impl Sessions {
    /// No sessions. The random words are the secret of the hashes.
    pub(crate) fn new(here: Here, mut random: impl FnMut() -> u64) -> Sessions {
        let mut secret = || Secret::new(std::array::from_fn(|_| random()));
        Sessions {
            v4: OfFamily::new(secret(), here),
            v6: OfFamily::new(secret(), here),
            bounds: Bounds::new(FlowTable::default(), 0, 0),
            generation: 0,
            opens: false,
            limits: false,
            translates: false,
            maps: false,
            zones: Vec::new(),
            hand: Hand::default(),
            log: NatLog::unread(),
            watch: SessionWatch::unwatched(),
        }
    }

    /// Takes over the bounds of a version of the root.
    pub(crate) fn adopt(&mut self, root: &Root, workers: usize) {
        if self.generation == root.generation {
            return;
        }
        self.generation = root.generation;
        let settings = root.flow_table;
        // Sessions are not spread evenly, and bounds are no promise: each worker has its share, rounded up.
        let share = |all: u32| (all as usize).div_ceil(workers.max(1));
        // A packet may open two: where it comes in, and in the zone that it leaves by. The second ends no first one.
        let half_open = share(settings.half_open).max(2);
        self.bounds = Bounds::new(settings, share(settings.sessions), half_open);
        self.limits = root.nat.has_limits();
        self.maps = root.nat.has_mappings();
        self.translates = root.nat.is_active();
        self.opens = root.acl.reflecting.contains(&true) || root.nat.is_active();
        // Two entries each; the table bounds nothing that the sessions do not.
        let entries = 2 * (self.bounds.sessions + 1);
        self.zones.clear();
        self.zones.extend(root.interfaces.iter().filter(|own| own.present).map(|own| [own.zone, own.nat.zone]));
        self.zones.sort_unstable();
        self.zones.dedup();
        let zones = root.nat.domains.len();
        self.v4.adopt_limits(zones, &root.nat);
        self.v6.adopt_limits(zones, &root.nat);
        self.v4.set_most(entries);
        self.v6.set_most(entries);
        self.prepare();
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Begins a vector.
    #[inline]
    pub(crate) fn begin(&mut self, now: Time) {
        (self.v4.log.now, self.v6.log.now) = (now, now);
        self.watch.follow(&mut self.v4.noted, &mut self.v6.noted);
    }

    /// Allocates memory for the sessions that one vector may open.
    pub(crate) fn prepare(&mut self) {
        if self.translates {
            self.v4.log.prepare();
            self.v6.log.prepare();
        }
        if self.opens {
            let room = self.bounds.sessions.saturating_sub(self.len());
            self.v4.prepare(room);
            self.v6.prepare(room);
            if self.limits {
                self.v4.prepare_users();
                self.v6.prepare_users();
            }
            if self.maps {
                self.v4.prepare_mappings();
                self.v6.prepare_mappings();
            }
        }
    }

    /// Sessions of both families.
    pub(crate) fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Half-open ones among them.
    pub(crate) fn half_open(&self) -> usize {
        self.v4.half_open() + self.v6.half_open()
    }

    /// Octets of memory.
    pub(crate) fn octets(&self) -> usize {
        self.v4.octets() + self.v6.octets()
    }

    /// Whatever a vector's packets open, no half-open session has to end for it.
    #[inline]
    pub(crate) fn has_room_for_vector(&self) -> bool {
        self.half_open() + VECTOR <= self.bounds.half_open
    }

    /// There are sessions.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.len() > 0
    }

    /// Makes room for a session: `false` if there is none. The oldest half-open session ends if there are too many.
    pub(crate) fn make_room(&mut self, at: (&Root, &Guard<'_>), version: u64, now: Time) -> bool {
        if self.half_open() >= self.bounds.half_open {
            let (v4, v6) = (self.v4.oldest_half_open(), self.v6.oldest_half_open());
            match (v4, v6) {
                (Some((number, created)), other) if other.is_none_or(|(_, other)| created <= other) => {
                    self.v4.end(number, Ending::Replaced);
                }
                (_, Some((number, _))) => self.v6.end(number, Ending::Replaced),
                _ => {}
            }
        }
        // The time of some may be over that the hand has not come to yet.
        if self.len() >= self.bounds.sessions {
            self.age(at, version, now);
        }
        if self.len() >= self.bounds.sessions {
            return false;
        }
        true
    }

    /// Ends a session whose time is over, or whose place a new connection takes.
    #[cold]
    pub(crate) fn end_other<K: Family>(&mut self, number: u32, now: Time) {
        let is_over = K::of(self).get(number).is_some_and(|session| session.left(&self.bounds, now) == 0);
        K::of_mut(self).end(number, if is_over { Ending::Expired } else { Ending::Renewed });
    }

    /// A packet has left, was delivered or is held: its sessions of these zones go on.
    #[inline]
    pub(crate) fn pass<K: Family>(&mut self, packet: &Packet, zones: &[ZoneOf], now: Time) {
        for zone in zones {
            if let Carried::Session(member) = Carried::of(packet, *zone) {
                K::of_mut(self).pass(packet, member, now);
            }
        }
    }

    /// A packet of a translation has left, was delivered or is held.
    pub(crate) fn pass_translated<K: Family>(&mut self, packet: &Packet, member: Membership, now: Time) {
        K::of_mut(self).pass(packet, member, now);
    }

    /// Shows events to their readers, and wakes these: not for nodes, as this may be a system call.
    #[inline]
    pub(crate) fn flush(&mut self) {
        self.log.flush();
        self.watch.flush();
    }

    /// The packets of a vector have gone: sessions that none of them confirmed end.
    pub(crate) fn end_vector(&mut self, root: &Root, counters: &SessionCounters) {
        self.v4.end_vector(root);
        self.v6.end_vector(root);
        self.log.take(&mut self.v4.log);
        self.log.take(&mut self.v6.log);
        self.watch.take(&mut self.v4.noted, &mut self.v6.noted);
        self.v4.endings.count(counters);
        self.v6.endings.count(counters);
        counters.show(self.len(), self.half_open(), self.octets());
    }

    /// When the hand moves; `None`: there is nothing to visit.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.is_active().then_some(self.hand.due)
    }

    /// Visits the sessions that are due, 256 at most, and ends those whose time is over or that the lists permit no longer;
    /// gives how many were visited. What a packet finds does not depend on it.
    pub(crate) fn age(&mut self, at: (&Root, &Guard<'_>), version: u64, now: Time) -> usize {
        let (v4, v6) = (self.v4.extent(), self.v6.extent());
        let due = self.hand.advance(v4 + v6, now);
        for number in due.clone() {
            if number < v4 {
                visit(&mut self.v4, &self.bounds, at, version, number, now);
            } else {
                visit(&mut self.v6, &self.bounds, at, version, number - v4, now);
            }
        }
        due.len()
    }
}

fn visit<K: Family>(
    own: &mut OfFamily<K>,
    bounds: &Bounds,
    at: (&Root, &Guard<'_>),
    version: u64,
    number: u32,
    now: Time,
) {
    let Some(session) = own.get(number) else { return };
    if session.left(bounds, now) == 0 {
        own.end(number, Ending::Expired);
    } else if session.translation.is_some() {
        if !own.is_current(at, number) {
            own.end(number, Ending::Untranslated);
        }
    } else if session.version != version && !own.match_again(at, version, bounds, number) {
        own.end(number, Ending::Revoked);
    }
}
