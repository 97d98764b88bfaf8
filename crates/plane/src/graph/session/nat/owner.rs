//! The worker that has a translation. Both directions of it have to come to this worker, though they differ in the
//! addresses of one end.
//!
//! One end stays as it is: the remote one. So the packets of a routing domain with translation go to a worker by the remote
//! address: that of the source if they come in from outside, that of the destination if their route leads outside. Packets
//! from inside to an outside address of the gateway all go to one worker, as do their answers: those to an outside address, and
//! all packets between inside hosts one of which rules send such packets on to. Other packets have two inside ends, and go to a worker
//! by both addresses, so that fragments come to the worker of their packet.

use weir_base::reclaim::Guard;
use weir_packet::parse::Seed;
use weir_packet::wire::protocol;

use crate::graph::session::tuple::Tuple;
use crate::root::family::Family;
use crate::root::{Forwarding, Root};

/// How a packet comes in.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Arrival<K> {
    /// The number of the interface.
    pub(crate) interface: u32,
    pub(crate) source: K,
    pub(crate) destination: K,
}

/// A worker among others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Here {
    pub(crate) seed: Seed,
    pub(crate) worker: usize,
    pub(crate) workers: usize,
}

impl Here {
    /// Whether packets of a tuple that come in by an interface come to this worker.
    pub(crate) fn has<K: Family>(&self, (root, guard): (&Root, &Guard<'_>), tuple: &Tuple<K>, interface: u32) -> bool {
        if self.workers < 2 {
            return true;
        }
        let arrival = Arrival { interface, source: tuple.source, destination: tuple.destination };
        let hash = owner(root, guard, &self.seed, arrival).unwrap_or_else(|| {
            let words = hashed_words(tuple);
            K::owner_hash(&self.seed, tuple.protocol, (tuple.source, words[0]), (tuple.destination, words[1]))
        });
        worker(hash, self.workers) == self.worker
    }
}

/// The hash that names the worker of a packet. `None`: it is that of its flow.
pub(crate) fn owner<K: Family>(root: &Root, guard: &Guard<'_>, seed: &Seed, arrival: Arrival<K>) -> Option<u32> {
    let ingress = root.interfaces.get(arrival.interface as usize)?;
    let spread = root.nat.spread.get(usize::from(ingress.vrf))?.as_ref()?;
    let hash = |address: K| Some(K::owner_hash(seed, 0, (address, 0), (address, 0)));
    if spread.is_single {
        // The same for both families: one worker counts all translations of the routing domain.
        return Some(u32::owner_hash(seed, 0, (0, 0), (0, 0)));
    }
    if ingress.nat.is_outside() {
        return hash(arrival.source);
    }
    if spread.own.hold(arrival.destination) {
        return hash(K::from(0));
    }
    let value = K::of(root.vrfs.get(usize::from(ingress.vrf))?).lookup(guard, arrival.destination);
    let adjacency = root.adjacencies.get(Forwarding(value).resolve(|| 0, &root.buckets) as usize)?;
    let egress = root.interfaces.get(adjacency.interface as usize)?;
    if egress.nat.is_outside() {
        return hash(arrival.destination);
    }
    // The reply to a packet from inside that was for an outside address, as long as its source is not translated.
    if [arrival.source, arrival.destination].into_iter().any(|own| spread.inside.hold(own)) {
        return hash(K::from(0));
    }
    Some(K::owner_hash(seed, 0, (arrival.source, 0), (arrival.destination, 0)))
}

/// The words of a tuple that the hash of its flow reads: ports, changed by a translation or not, and the identifier of an
/// echo, which is the first query of each family.
fn hashed_words<K: Family>(tuple: &Tuple<K>) -> [u16; 2] {
    let is_hashed = protocol::has_ports(tuple.protocol) || tuple.query / 2 == 1;
    if is_hashed { tuple.words } else { [0; 2] }
}

/// The worker that a hash names, of so many.
fn worker(hash: u32, workers: usize) -> usize {
    // The upper bits of the product: unbiased enough for a handful of workers, and no division.
    ((u64::from(hash) * workers as u64) >> 32) as usize
}
