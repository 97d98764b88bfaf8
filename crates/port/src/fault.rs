//! Middleware that applies faults to received packets.
//!
//! Packets are dropped, changed, truncated, duplicated and delayed, each with a probability of its own. The seed and
//! the packet's number in its queue decide.

use std::collections::VecDeque;
use std::sync::Arc;

use weir_base::clock::Time;
use weir_base::random::Random;
use weir_packet::buffer::Cache;
use weir_packet::offload::{Checksum, Offload};
use weir_packet::packet::Packet;
use weir_packet::vector::Vector;

use crate::spec::FaultSpec;
use crate::wrapped::{Layer, Wrapped};
use crate::{Burst, Port, PortCounters, Readiness, Receiver, count};

/// A delayed packet arrives after 1 to this many later packets.
const LATEST: u64 = 16;

/// Wraps a port and applies faults to its received packets. The port's counters count them.
pub fn faulty(port: Box<dyn Port>, spec: FaultSpec) -> impl Port + use<> {
    Wrapped::new(port, spec)
}

impl Layer for FaultSpec {
    fn receiver(&self, index: usize, source: Box<dyn Receiver>, counters: &Arc<PortCounters>) -> Box<dyn Receiver> {
        Box::new(Queue {
            source,
            state: Burst::More,
            spec: *self,
            random: Random::from_seed(self.seed.wrapping_add(index as u64)),
            incoming: Vector::new(),
            held: Vec::with_capacity(LATEST as usize + 1),
            ready: VecDeque::new(),
            passed: 0,
            counters: Arc::clone(counters),
        })
    }
}

struct Held {
    packet: Packet,
    /// Packets that still overtake it.
    wait: u64,
    /// Packets passed when it was delayed.
    passed: u64,
}

struct Queue {
    source: Box<dyn Receiver>,
    /// State of the source after its last burst.
    state: Burst,
    spec: FaultSpec,
    random: Random,
    incoming: Vector,
    /// At most [`LATEST`] packets.
    held: Vec<Held>,
    /// Packets to deliver; at most two vectors and the delayed packets.
    ready: VecDeque<Packet>,
    /// Packets made ready so far.
    passed: u64,
    counters: Arc<PortCounters>,
}

impl Receiver for Queue {
    fn readiness(&self) -> Readiness<'_> {
        // An idle source leaves no packet delayed.
        if self.ready.is_empty() { self.source.readiness() } else { Readiness::Now }
    }

    fn receive(&mut self, vector: &mut Vector, cache: &mut Cache, now: Time) -> Burst {
        if self.ready.is_empty() && self.state != Burst::Ended {
            self.state = self.source.receive(&mut self.incoming, cache, now);
            let count = self.incoming.len();
            for place in 0..count {
                let packet = self.incoming.packets()[place].take();
                self.arrive(packet, cache);
            }
            self.incoming.clear();
            // No further packet can overtake the delayed ones: the source has ended, is idle, or lacks buffers.
            if self.state != Burst::More || count == 0 {
                while !self.held.is_empty() {
                    self.release(0);
                }
            }
        }
        while let Some(packet) = self.ready.pop_front() {
            if let Err(packet) = vector.push(packet) {
                self.ready.push_front(packet);
                return Burst::More;
            }
        }
        self.state
    }
}

impl Queue {
    /// Decides the faults of a packet. Every packet takes the same number of random decisions, so a change of one
    /// probability hardly changes the packets that the others select.
    fn arrive(&mut self, mut packet: Packet, cache: &mut Cache) {
        let FaultSpec { drop, duplicate, reorder, corrupt, truncate, .. } = self.spec;
        let [drop, corrupt, truncate, duplicate, reorder] =
            [drop, corrupt, truncate, duplicate, reorder].map(|probability| self.random.chance(probability));
        let faults = &self.counters.faults;
        let mut late = None;
        if drop {
            count(&faults.dropped, 1);
            packet.recycle(cache);
        } else {
            if corrupt && !packet.data().is_empty() {
                count(&faults.corrupted, 1);
                change(packet.data_mut(), &mut self.random);
                forget(&mut packet);
            }
            if truncate && !packet.data().is_empty() {
                count(&faults.truncated, 1);
                packet.truncate(self.random.below(packet.len() as u64) as usize);
                forget(&mut packet);
            }
            // Without a free buffer the packet is not duplicated.
            let copy = if duplicate { Packet::copy_of(cache, packet.data()) } else { None };
            if let Some(mut copy) = copy {
                count(&faults.duplicated, 1);
                copy.inherit(&packet);
                copy.set_offload(packet.offload());
                self.pass(copy);
            }
            if reorder {
                late = Some(packet);
            } else {
                self.pass(packet);
            }
        }
        let mut index = 0;
        while index < self.held.len() {
            self.held[index].wait -= 1;
            if self.held[index].wait == 0 {
                self.release(index);
            } else {
                index += 1;
            }
        }
        if let Some(packet) = late {
            self.held.push(Held { packet, wait: 1 + self.random.below(LATEST), passed: self.passed });
        }
    }

    fn pass(&mut self, packet: Packet) {
        self.passed += 1;
        self.ready.push_back(packet);
    }

    fn release(&mut self, index: usize) {
        let held = self.held.remove(index);
        if self.passed > held.passed {
            count(&self.counters.faults.reordered, 1);
        }
        self.pass(held.packet);
    }
}

impl Drop for Queue {
    /// Counts packets that were taken from the source and not delivered as dropped.
    fn drop(&mut self) {
        count(&self.counters.faults.dropped, (self.held.len() + self.ready.len()) as u64);
    }
}

/// Marks the checksum of a changed packet as not verified.
fn forget(packet: &mut Packet) {
    let offload = packet.offload();
    if offload.checksum == Checksum::Valid {
        packet.set_offload(Offload { checksum: Checksum::Unknown, ..offload });
    }
}

/// Changes one to four different octets.
fn change(octets: &mut [u8], random: &mut Random) {
    let mut changed = [usize::MAX; 4];
    for index in 0..1 + random.below(4) as usize {
        let (at, by) = (random.below(octets.len() as u64) as usize, 1 + random.below(255) as u8);
        if !changed.contains(&at) {
            octets[at] ^= by;
            changed[index] = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_packet::buffer::{Pool, PoolSize};

    use super::*;

    #[test]
    fn a_checksum_that_was_verified_is_not_any_more() {
        let mut cache = Pool::new(PoolSize { small: 1, large: 0 }).unwrap().cache();
        let mut packet = Packet::copy_of(&mut cache, &[0; 60]).unwrap();
        let partial = Offload { checksum: Checksum::Partial, start: 34, offset: 16, ..Offload::default() };
        for (before, after) in [
            (Offload { checksum: Checksum::Valid, ..Offload::default() }, Offload::default()),
            (Offload::default(), Offload::default()),
            (partial, partial),
        ] {
            packet.set_offload(before);
            forget(&mut packet);
            assert_eq!(packet.offload(), after);
        }
    }
}
