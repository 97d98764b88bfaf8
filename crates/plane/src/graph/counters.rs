//! Counters of a worker and of its nodes.

use crate::graph::record::Miss;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::counters::Counter;
use crate::root::sav::Sources;

/// Classes of vectors by their packets: 1, 2, 3 and 4, 5 to 8 and so on, and 129 to 256.
pub const VECTOR_CLASSES: usize = 9;

/// Classes of vectors by their ticks per packet: up to 4, up to 8 and so on, and the last for all others.
pub const TICK_CLASSES: usize = 16;

/// The greatest number of ticks per packet of the first class, as a power of two.
const FIRST_TICKS: u32 = 2;

/// The greatest number of packets of a class of vectors.
pub fn vector_bound(class: usize) -> u64 {
    1 << class
}

/// The greatest number of ticks per packet of a class; `None` for the last class, which has no bound.
pub fn tick_bound(class: usize) -> Option<u64> {
    (class + 1 < TICK_CLASSES).then(|| 1 << (class as u32 + FIRST_TICKS))
}

/// The power of two to which a number is rounded up.
#[inline]
fn power(number: u64) -> u32 {
    u64::BITS - number.saturating_sub(1).leading_zeros()
}

/// The counters of a node on one worker.
#[derive(Debug, Default)]
pub struct NodeCounters {
    /// Vectors.
    pub calls: Counter,
    /// Packets in them.
    pub packets: Counter,
    /// Ticks.
    pub ticks: Counter,
    /// Vectors by the number of their packets.
    pub by_packets: [Counter; VECTOR_CLASSES],
    /// Vectors by their ticks per packet.
    pub by_ticks: [Counter; TICK_CLASSES],
}

impl NodeCounters {
    /// Counts a vector. A call without packets counts in no class.
    #[inline]
    pub fn charge(&self, packets: usize, ticks: u64) {
        self.calls.add(1);
        self.packets.add(packets as u64);
        self.ticks.add(ticks);
        if packets > 0 {
            let packets = packets as u64;
            self.by_packets[(power(packets) as usize).min(VECTOR_CLASSES - 1)].add(1);
            let class = power(ticks / packets).saturating_sub(FIRST_TICKS) as usize;
            self.by_ticks[class.min(TICK_CLASSES - 1)].add(1);
        }
    }
}

/// Why a session ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Its time is over.
    Expired,
    /// It is half-open, and a newer session takes its room.
    Replaced,
    /// The rules permit it no longer.
    Revoked,
    /// It is a translation, which the rules give other addresses, or none.
    Untranslated,
    /// A new connection has its addresses and ports.
    Renewed,
    /// No packet of the vector that opened it has passed.
    Unconfirmed,
    /// A user ends it.
    Cleared,
}

impl Ending {
    /// Its name, as in the counts of sessions.
    pub const fn name(self) -> &'static str {
        match self {
            Ending::Expired => "expired",
            Ending::Replaced => "replaced",
            Ending::Revoked | Ending::Untranslated => "revoked",
            Ending::Renewed => "renewed",
            Ending::Unconfirmed => "unconfirmed",
            Ending::Cleared => "cleared",
        }
    }
}

/// How many causes there are.
pub const CAUSES: usize = Ending::Cleared as usize + 1;

/// Counters of a worker's sessions.
#[derive(Debug, Default)]
pub struct SessionCounters {
    /// Sessions that there are.
    pub sessions: Counter,
    /// Half-open ones among them.
    pub half_open: Counter,
    /// Octets of memory.
    pub octets: Counter,
    /// Sessions that were opened.
    pub opened: Counter,
    /// Sessions that ended, by cause.
    pub ended: [Counter; CAUSES],
}

impl SessionCounters {
    /// Shows how many there are.
    #[inline]
    pub fn show(&self, sessions: usize, half_open: usize, octets: usize) {
        for (counter, now) in [(&self.sessions, sessions), (&self.half_open, half_open), (&self.octets, octets)] {
            counter.add((now as u64).wrapping_sub(counter.value()));
        }
    }
}

/// Counters of a worker's learned decisions.
#[derive(Debug, Default)]
pub struct FlowCounters {
    /// Decisions that there are, but for those of sessions.
    pub learned: Counter,
    /// Octets of memory.
    pub octets: Counter,
    /// Packets that took a decision.
    pub hits: Counter,
    /// Packets that walked, by [`Miss`].
    pub misses: [Counter; Miss::COUNT],
    /// Packets about whose flows nothing was learned, as a rule says so: [`Miss::New`] counts them, too.
    pub no_flow: Counter,
    /// Packets that can take no decision.
    pub excluded: Counter,
    /// Decisions that were learned, for new flows or again.
    pub decided: Counter,
    /// Decisions for which there was no room.
    pub refused: Counter,
    /// Decisions that were forgotten for their age.
    pub expired: Counter,
}

/// The counters of a worker.
#[derive(Debug)]
#[repr(align(128))]
pub struct WorkerCounters {
    /// By node.
    pub nodes: [NodeCounters; Node::COUNT],
    /// Drops by reason.
    pub drops: [Counter; Reason::COUNT],
    /// From ports.
    pub received: Counter,
    /// Made here.
    pub created: Counter,
    /// To ports.
    pub transmitted: Counter,
    /// Delivered to the gateway itself.
    pub local: Counter,
    /// Handed to other workers.
    pub handed_out: Counter,
    /// Taken over from other workers.
    pub handed_in: Counter,
    /// Gone into others.
    pub absorbed: Counter,
    /// Put into the queue of a neighbour.
    pub queued: Counter,
    /// Taken out of the queue of a neighbour.
    pub dequeued: Counter,
    /// Taken by ports that send later.
    pub entrusted: Counter,
    /// Held packets that were sent or lost.
    pub settled: Counter,
    /// Fragments that were held until the first of their datagram arrives.
    pub held_fragments: Counter,
    /// Held packets that were released or timed out.
    pub released: Counter,
    /// Packets put aside until an SA gives numbers for them.
    pub deferred: Counter,
    /// Of these, packets that went on.
    pub resumed: Counter,
    /// Datagrams whose fragments are remembered for rules.
    pub remembered: Counter,
    /// Datagrams of which a fragment for us has come.
    pub begun: Counter,
    /// Reassemblies that are complete or timed out.
    pub ended: Counter,
    /// Where packets come from that are not valid.
    pub spoofed: Sources,
    /// Where packets come from that pass although no rule knows their source.
    pub unknown: Sources,
    /// Sessions.
    pub sessions: SessionCounters,
    /// Learned decisions.
    pub flows: FlowCounters,
    /// Events that the control side had no room for.
    pub events_lost: Counter,
    /// Rounds of the main loop.
    pub loops: Counter,
    /// Rounds that found nothing.
    pub idle_loops: Counter,
    /// Times it went to sleep.
    pub sleeps: Counter,
}

impl Default for WorkerCounters {
    fn default() -> Self {
        WorkerCounters {
            nodes: std::array::from_fn(|_| NodeCounters::default()),
            drops: std::array::from_fn(|_| Counter::default()),
            received: Counter::default(),
            created: Counter::default(),
            transmitted: Counter::default(),
            local: Counter::default(),
            handed_out: Counter::default(),
            handed_in: Counter::default(),
            absorbed: Counter::default(),
            queued: Counter::default(),
            dequeued: Counter::default(),
            entrusted: Counter::default(),
            settled: Counter::default(),
            held_fragments: Counter::default(),
            released: Counter::default(),
            deferred: Counter::default(),
            resumed: Counter::default(),
            remembered: Counter::default(),
            begun: Counter::default(),
            ended: Counter::default(),
            spoofed: Sources::default(),
            unknown: Sources::default(),
            sessions: SessionCounters::default(),
            flows: FlowCounters::default(),
            events_lost: Counter::default(),
            loops: Counter::default(),
            idle_loops: Counter::default(),
            sleeps: Counter::default(),
        }
    }
}

impl WorkerCounters {
    /// Packets dropped for any reason.
    pub fn dropped(&self) -> u64 {
        self.drops.iter().map(Counter::value).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_count_in_the_class_whose_bound_is_the_next() {
        let counters = NodeCounters::default();
        for packets in 0..=256 {
            counters.charge(packets, 0);
        }
        let sizes: Vec<u64> = counters.by_packets.iter().map(Counter::value).collect();
        assert_eq!(sizes, [1, 1, 2, 4, 8, 16, 32, 64, 128], "a call without packets has no class");
        for (ticks, class) in [(0, 0), (4, 0), (5, 1), (8, 1), (9, 2), (65_536, 14), (65_537, 15), (u64::MAX, 15)] {
            let counters = NodeCounters::default();
            counters.charge(1, ticks);
            assert_eq!(counters.by_ticks[class].value(), 1, "{ticks}");
            assert!(tick_bound(class).is_none_or(|bound| ticks <= bound), "{ticks}");
        }
        assert_eq!((tick_bound(14), tick_bound(15), vector_bound(8)), (Some(65_536), None, 256));
    }
}
