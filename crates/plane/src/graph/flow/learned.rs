//! The decisions about flows without sessions.

use weir_base::clock::Time;
use weir_packet::vector::VECTOR;
use weir_table::flow::{Lines, Lookup, Place, Secret, Seen, Slot, Table};

use super::decision::Decision;
use crate::graph::counters::FlowCounters;
use crate::model::{FastPath, FlowTable};
use crate::root::Root;
use crate::root::family::{Both, BothMut, Family};

/// Steps in which a table grows between two vectors, at most.
const STEPS: usize = 16;
/// Nanoseconds between two visits.
const PAUSE: u64 = 100_000_000;
/// Nanoseconds in which all groups of the tables are visited.
const TURN: u64 = 4_000_000_000;
/// Groups visited at once, at most.
const GROUPS: usize = 4;

/// A decision, and when it was last taken: in units of 2^20 nanoseconds, about a millisecond.
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Kept {
    last: u32,
    pub(crate) decision: Decision,
}

// With a key of IPv4, an entry is one cache line; with one of IPv6, the first line has what a usual hit reads.
const _: () = assert!(size_of::<Kept>() == 48);

impl Kept {
    /// The decision, which is not idle.
    #[inline(always)]
    pub(crate) fn take(&mut self, now: u32) -> &mut Decision {
        self.last = now;
        &mut self.decision
    }
}

/// A time in the units of [`Kept::take`].
pub(crate) fn units(time: Time) -> u32 {
    // It wraps after 52 days: a flow idle for just that long keeps its decision a while longer.
    (time.0 >> 20) as u32
}

/// The decisions about flows of one family.
pub(crate) struct OfFamily<K: Family> {
    table: Table<K::FlowKey, Kept, Lines>,
    /// Packets of flows that are not learned yet.
    seen: Seen,
    /// The packet from which on a flow is learned.
    packets: u8,
    /// The time after its last packet at which a decision is forgotten, in the units of [`Kept`].
    idle: u32,
    /// The group that is visited next.
    next: usize,
}

impl<K: Family> OfFamily<K> {
    fn new(secret: Secret) -> Self {
        OfFamily { table: Table::new(0, secret), seen: Seen::new(), packets: 1, idle: 0, next: 0 }
    }

    /// Has flows learned from a packet on; there are so many flows at most.
    fn follow(&mut self, &FlowTable { packets, timeouts, .. }: &FlowTable, flows: usize) {
        self.packets = packets;
        // 30 days are less than 2^32 units.
        self.idle = (timeouts.decision.as_nanos() >> 20) as u32;
        self.seen.set_most(if packets > 1 { flows } else { 0 });
    }

    /// Finds the decisions of a vector's flows.
    #[inline]
    pub(crate) fn find_each(&self, keys: &[K::FlowKey], places: &mut [Place]) {
        self.table.find_each(keys, places);
    }

    /// The decision at a place.
    #[inline]
    pub(crate) fn at(&self, place: Place) -> Option<&Decision> {
        self.table.value(place).map(|kept| &kept.decision)
    }

    /// The same, to be changed.
    #[inline]
    pub(crate) fn at_mut(&mut self, place: Place) -> Option<&mut Decision> {
        self.table.value_mut(place).map(|kept| &mut kept.decision)
    }

    /// Begins a lookup of decisions; the packets of flows without one are counted beside it.
    #[inline(always)]
    pub(crate) fn lookup(&mut self) -> (Lookup<'_, K::FlowKey, Kept, Lines>, NotLearned<'_>) {
        (self.table.lookup(), NotLearned { seen: &mut self.seen, packets: self.packets })
    }

    /// Finds where the packets of flows without a decision are counted, and fetches memory for them.
    #[inline(never)]
    pub(crate) fn find_slots(&mut self, keys: &[K::FlowKey], found: &[Place], slots: &mut [Slot]) {
        for ((key, &found), slot) in keys.iter().zip(found).zip(slots) {
            if found == Place::NONE {
                *slot = self.find_slot(key);
            }
        }
    }

    /// Finds where the packets of a flow are counted, and fetches memory for it.
    #[inline]
    pub(crate) fn find_slot(&mut self, key: &K::FlowKey) -> Slot {
        NotLearned { seen: &mut self.seen, packets: self.packets }.find(self.table.hash(key))
    }

    /// Counts a packet of a flow without a decision; gives whether the flow is to be learned.
    #[inline]
    pub(crate) fn is_due(&mut self, slot: Slot) -> bool {
        NotLearned { seen: &mut self.seen, packets: self.packets }.is_due(slot)
    }

    /// Notes that the decision at a place is not idle.
    #[inline]
    pub(crate) fn touch(&mut self, place: Place, now: Time) {
        if let Some(kept) = self.table.value_mut(place) {
            kept.last = units(now);
        }
    }

    /// Learns a decision in the place of an older one, or in a new place; `false` if there is no room.
    pub(crate) fn learn(&mut self, place: Place, key: K::FlowKey, decision: Decision, now: Time) -> bool {
        let kept = Kept { decision, last: units(now) };
        // An earlier packet of the vector may have learned it.
        let place = if place == Place::NONE { self.table.find(&key).unwrap_or(place) } else { place };
        match self.table.value_mut(place) {
            Some(old) => {
                *old = kept;
                true
            }
            None => self.table.insert(key, kept).is_ok(),
        }
    }

    fn octets(&self) -> usize {
        self.table.octets() + self.seen.octets()
    }

    fn prepare(&mut self, room: usize) {
        (0..STEPS).any(|_| self.table.prepare(room.min(VECTOR)));
    }

    /// Forgets the idle decisions of the next group; gives how many.
    fn age(&mut self, now: Time) -> usize {
        let now = units(now);
        let before = self.table.len();
        self.table.retain_in(self.next, |_, kept| now.wrapping_sub(kept.last) < self.idle);
        self.next = if self.next + 1 < self.table.groups() { self.next + 1 } else { 0 };
        before - self.table.len()
    }
}

/// Flows without a decision.
pub(crate) struct NotLearned<'s> {
    seen: &'s mut Seen,
    packets: u8,
}

impl NotLearned<'_> {
    /// Finds the slot that counts packets of a flow, by the hash of its key in the table, and fetches it.
    #[inline]
    pub(crate) fn find(&self, hash: u64) -> Slot {
        if self.packets > 1 { self.seen.slot(hash) } else { Slot::default() }
    }

    /// Counts a packet; gives whether its flow is to be learned.
    #[inline]
    pub(crate) fn is_due(&mut self, slot: Slot) -> bool {
        self.packets <= 1 || self.seen.count(slot) >= self.packets
    }
}

/// The decisions of a worker about flows without sessions.
pub(crate) struct Learned {
    v4: OfFamily<u32>,
    v6: OfFamily<u128>,
    most: usize,
    /// The version of the root that the bound is of.
    generation: u64,
    /// The next visit.
    due: Time,
}

impl Both for Learned {
    type Part<K: Family> = OfFamily<K>;

    #[inline(always)]
    fn v4(&self) -> &OfFamily<u32> {
        &self.v4
    }

    #[inline(always)]
    fn v6(&self) -> &OfFamily<u128> {
        &self.v6
    }
}

impl BothMut for Learned {
    #[inline(always)]
    fn v4_mut(&mut self) -> &mut OfFamily<u32> {
        &mut self.v4
    }

    #[inline(always)]
    fn v6_mut(&mut self) -> &mut OfFamily<u128> {
        &mut self.v6
    }
}

impl Learned {
    /// Nothing is learned yet. The random words are the secret of the hashes.
    pub(crate) fn new(mut random: impl FnMut() -> u64) -> Learned {
        let mut secret = || Secret::new(std::array::from_fn(|_| random()));
        let (v4, v6) = (OfFamily::new(secret()), OfFamily::new(secret()));
        Learned { v4, v6, most: 0, generation: 0, due: Time(0) }
    }

    /// Takes over the bound of a version of the root.
    pub(crate) fn adopt(&mut self, root: &Root, workers: usize) {
        if self.generation == root.generation {
            return;
        }
        self.generation = root.generation;
        self.most = (root.flow_table.flows as usize).div_ceil(workers.max(1));
        let flows = if root.flow_table.enabled == FastPath::Off { 0 } else { self.most };
        self.v4.follow(&root.flow_table, flows);
        self.v6.follow(&root.flow_table, flows);
        if flows > 0 {
            self.prepare();
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.v4.table.len() + self.v6.table.len()
    }

    /// Octets of memory.
    pub(crate) fn octets(&self) -> usize {
        self.v4.octets() + self.v6.octets()
    }

    /// Allocates memory for the flows that one vector may add, as far as the bound allows.
    pub(crate) fn prepare(&mut self) {
        let (v4, v6) = (self.v4.table.len(), self.v6.table.len());
        self.v4.table.set_most(self.most.saturating_sub(v6));
        self.v6.table.set_most(self.most.saturating_sub(v4));
        let room = self.most.saturating_sub(v4 + v6);
        self.v4.prepare(room);
        self.v6.prepare(room);
    }

    /// When idle decisions are looked for; `None`: there are none.
    pub(crate) fn deadline(&self) -> Option<Time> {
        (self.len() > 0).then_some(self.due)
    }

    /// Forgets idle decisions of some groups; gives how many groups were visited.
    pub(crate) fn age(&mut self, counters: &FlowCounters, now: Time) -> usize {
        let all = self.v4.table.groups() + self.v6.table.groups();
        let each = (all as u64 * PAUSE).div_ceil(TURN).max(1);
        let (mut visited, mut forgotten) = (0, 0);
        while visited < GROUPS.min(all) && (visited as u64) < each {
            forgotten += self.v4.age(now) + self.v6.age(now);
            visited += 1;
        }
        // A large table is visited more often, not in larger steps.
        let pause = (PAUSE * GROUPS as u64 / each).min(PAUSE);
        self.due = Time(now.0.saturating_add(pause));
        counters.expired.add(forgotten as u64);
        visited
    }

    /// Shows how many decisions there are.
    pub(crate) fn show(&self, counters: &FlowCounters) {
        for (counter, now) in [(&counters.learned, self.len()), (&counters.octets, self.octets())] {
            counter.add((now as u64).wrapping_sub(counter.value()));
        }
    }
}
