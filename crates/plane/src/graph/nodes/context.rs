//! The context of a node, beside its vector: the root, the state of its worker, and the lists of packets for other nodes.

use weir_base::clock::Time;
use weir_base::random::SecureRandom;
use weir_base::reclaim::Guard;
use weir_packet::buffer::Cache;
use weir_packet::packet::Packet;
use weir_packet::parse::Seed;
use weir_packet::vector::{Indices, Vector};

use crate::graph::capture::Taps;
use crate::graph::counters::WorkerCounters;
use crate::graph::events::Events;
use crate::graph::flow::{Learned, Notes};
use crate::graph::fragments::Fragments;
use crate::graph::hold::Hold;
use crate::graph::limiter::Limiter;
use crate::graph::merges::Merges;
use crate::graph::outlet::Outlet;
use crate::graph::peer::Peer;
use crate::graph::policies::PolicyCaches;
use crate::graph::reassembly::Reassembly;
use crate::graph::record::{Fate, Recorder, Subject};
use crate::graph::requeue::Requeue;
use crate::graph::sample::Samples;
use crate::graph::session::Sessions;
use crate::graph::shares::Shares;
use crate::model::{IcmpLimits, NeighborDiscovery};
use crate::node::Node;
use crate::reason::Reason;
use crate::root::Root;

/// Packets per second to the host, over all workers and devices.
const PUNT_RATE: u32 = 10_000;
/// Packets to the host at once.
const PUNT_BURST: u32 = 1000;

/// The parts that a node may use beside its vector.
pub(crate) struct Context<'a> {
    pub(crate) root: &'a Root,
    pub(crate) guard: &'a Guard<'a>,
    pub(crate) now: Time,
    pub(crate) seed: &'a Seed,
    pub(crate) worker: usize,
    pub(crate) counters: &'a WorkerCounters,
    pub(crate) cache: &'a mut Cache,
    pub(crate) next: &'a mut Next,
    pub(crate) limits: &'a mut Limits,
    pub(crate) hold: &'a mut Hold,
    pub(crate) reassembly: &'a mut Reassembly,
    pub(crate) fragments: &'a mut Fragments,
    pub(crate) requeue: &'a mut Requeue,
    pub(crate) sessions: &'a mut Sessions,
    pub(crate) flows: &'a mut Learned,
    pub(crate) policies: &'a mut PolicyCaches,
    pub(crate) notes: &'a mut Notes,
    /// The version of the access lists; see [`Access::version`](crate::root::acl::Access::version).
    pub(crate) rules: u64,
    pub(crate) random: &'a mut SecureRandom,
    pub(crate) events: &'a mut Events,
    pub(crate) samples: &'a mut Samples,
    pub(crate) taps: &'a mut Taps,
    pub(crate) peers: &'a mut [Option<Peer>],
    pub(crate) shares: &'a mut Shares,
    pub(crate) merges: &'a mut Merges,
    /// Segments on their way out; a node that uses it takes it and puts it back, empty.
    pub(crate) segments: &'a mut Option<Vector>,
    pub(crate) transmitters: &'a mut [Option<Outlet>],
    pub(crate) recorder: &'a mut Recorder,
}

/// Token buckets of what a worker originates, and of what it gives to the host.
pub(crate) struct Limits {
    pub(crate) error: Limiter,
    pub(crate) echo: Limiter,
    pub(crate) punt: Limiter,
    /// By number of the interface, modulo their number: a flood on one link takes nothing from another.
    links: Box<[LinkLimits; LINKS]>,
}

/// Links with limits of their own; where there are more, some share.
const LINKS: usize = 64;

/// The limits on work that stations of one link may cause.
#[derive(Clone)]
pub(crate) struct LinkLimits {
    /// Answers to solicitations for the gateway's hardware addresses. Each is reported to the control side, too.
    pub(crate) answer: Limiter,
    /// Other reports: more than the solicitations that are sent, and no more than the control side can handle.
    pub(crate) hear: Limiter,
    /// Reports of packets whose sources stations may not use yet.
    pub(crate) claim: Limiter,
}

impl Limits {
    /// The share of a worker, by its number, in what all of them may do: together they may do no more.
    pub(crate) fn new(worker: usize, workers: usize, icmp: &IcmpLimits, neighbors: &NeighborDiscovery) -> Limits {
        let limiter = |rate, burst| Limiter::new(share(rate, worker, workers), share(burst, worker, workers));
        Limits {
            error: limiter(icmp.error_rate, icmp.error_burst),
            echo: limiter(icmp.echo_rate, icmp.echo_burst),
            punt: limiter(PUNT_RATE, PUNT_BURST),
            links: Box::new(std::array::from_fn(|_| LinkLimits {
                answer: limiter(neighbors.rate, neighbors.rate.div_ceil(10)),
                hear: limiter(neighbors.rate.saturating_mul(4), neighbors.rate),
                claim: limiter(neighbors.rate, neighbors.rate.div_ceil(10)),
            })),
        }
    }

    /// Returns the limits of a link, by the number of its interface.
    pub(crate) fn link(&mut self, interface: u32) -> &mut LinkLimits {
        &mut self.links[interface as usize % LINKS]
    }
}

/// Returns the share of one of several workers: shares are equal but for one, and their sum is `all`.
fn share(all: u32, worker: usize, workers: usize) -> u32 {
    let workers = workers.max(1) as u32;
    all / workers + u32::from((worker as u32) < all % workers)
}

/// The result of a packet for the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// No answer: the contents of the packet were reported.
    Noted,
    /// The answer, ready to leave.
    Reply,
    /// The host's business.
    Punt,
}

/// The next nodes of packets: indices per node, and per port for packets that leave.
pub(crate) struct Next {
    frames: [Indices; Node::COUNT],
    /// By port number.
    pub(crate) ports: Vec<Indices>,
}

impl Next {
    pub(crate) fn new() -> Self {
        Next { frames: std::array::from_fn(|_| Indices::new()), ports: Vec::new() }
    }

    #[inline(always)]
    pub(crate) fn push(&mut self, node: Node, place: u8) {
        self.frames[node as usize].push(place);
    }

    /// Adds a whole list: nodes gather the usual case in a list of their own, whose length stays in a register.
    #[inline(always)]
    pub(crate) fn extend(&mut self, node: Node, places: &Indices) {
        self.frames[node as usize].extend(places);
    }

    /// Adds a part of a list.
    #[inline]
    pub(crate) fn extend_places(&mut self, node: Node, places: &[u8]) {
        self.frames[node as usize].append(places);
    }

    /// The packet is dropped.
    #[inline]
    pub(crate) fn refuse(&mut self, packet: &mut Packet, place: u8, reason: Reason) {
        packet.set_reason(reason.number());
        self.push(Node::Drop, place);
    }

    /// Rejects the packet: it is dropped, and an ICMP error goes to its source if permitted.
    #[cold]
    pub(crate) fn refuse_aloud(&mut self, packet: &mut Packet, place: u8, reason: Reason) {
        packet.set_reason(reason.number());
        self.push(Node::IcmpError, place);
    }

    /// The first node, in the order of the graph, that packets wait for.
    #[inline]
    pub(crate) fn pending(&self) -> Option<Node> {
        let index = self.frames.iter().position(|frame| !frame.is_empty())?;
        Some(Node::ALL[index])
    }

    /// Exchanges a node's places for an empty list.
    #[inline]
    pub(crate) fn take(&mut self, node: Node, empty: &mut Indices) {
        empty.clear();
        std::mem::swap(&mut self.frames[node as usize], empty);
    }
}

impl Context<'_> {
    /// Records a fate of a packet, if fates are recorded.
    #[inline]
    pub(crate) fn record(&mut self, packet: &Packet, fate: Fate) {
        if self.recorder.is_on() {
            self.recorder.add(Subject::of(packet), fate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_add_up() {
        for (all, workers) in [(1000, 1), (1000, 3), (1, 4), (0, 2), (7, 8), (u32::MAX, 16)] {
            let shares: Vec<u32> = (0..workers).map(|worker| share(all, worker, workers)).collect();
            assert_eq!(shares.iter().map(|&share| u64::from(share)).sum::<u64>(), u64::from(all));
            assert!(shares.iter().max().unwrap() - shares.iter().min().unwrap() <= 1);
        }
    }
}
