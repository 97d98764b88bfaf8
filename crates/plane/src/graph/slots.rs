//! Held packets: slots that are allocated once, and chains of them, first in, first out. The queues of neighbours and of
//! fragments are such chains.

use weir_packet::packet::Packet;

use crate::reason::Reason;

/// No slot.
const NONE: u32 = u32::MAX;

struct Slot {
    packet: Packet,
    /// The next slot of the chain.
    next: u32,
}

/// A queue of packets in slots.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chain {
    head: u32,
    tail: u32,
    len: u32,
}

impl Chain {
    pub(crate) const EMPTY: Chain = Chain { head: NONE, tail: NONE, len: 0 };

    /// Packets in the queue.
    #[inline]
    pub(crate) fn len(&self) -> u32 {
        self.len
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

/// Slots for packets, each free or in one chain.
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Chain,
}

impl Slots {
    pub(crate) fn new(count: usize) -> Slots {
        let mut slots = Slots { slots: Vec::new(), free: Chain::EMPTY };
        slots.grow(count);
        slots
    }

    /// Has so many slots from now on, or more.
    pub(crate) fn grow(&mut self, count: usize) {
        while self.slots.len() < count {
            let number = self.slots.len() as u32;
            self.slots.push(Slot { packet: Packet::EMPTY, next: NONE });
            self.append(number);
        }
    }

    /// Octets of memory of so many slots, without the packets' buffers.
    pub(crate) const fn octets(count: usize) -> usize {
        count * size_of::<Slot>()
    }

    /// Puts a packet at the end of a chain. Gives it back if no slot is free.
    pub(crate) fn push(&mut self, chain: &mut Chain, packet: Packet) -> Result<(), Packet> {
        let number = self.free.head;
        let Some(slot) = self.slots.get_mut(number as usize) else { return Err(packet) };
        slot.packet = packet;
        self.free.head = std::mem::replace(&mut slot.next, NONE);
        self.free.len -= 1;
        if self.free.is_empty() {
            self.free = Chain::EMPTY;
        }
        self.join(chain, Chain { head: number, tail: number, len: 1 });
        Ok(())
    }

    /// Takes the first packet of a chain.
    pub(crate) fn pop(&mut self, chain: &mut Chain) -> Option<Packet> {
        let number = chain.head;
        let slot = self.slots.get_mut(number as usize)?;
        let packet = slot.packet.take();
        chain.head = std::mem::replace(&mut slot.next, NONE);
        chain.len -= 1;
        if chain.is_empty() {
            *chain = Chain::EMPTY;
        }
        self.append(number);
        Some(packet)
    }

    /// The first packet of a chain.
    pub(crate) fn first(&self, chain: Chain) -> Option<&Packet> {
        self.slots.get(chain.head as usize).map(|slot| &slot.packet)
    }

    /// The first packet of a chain, to be exchanged.
    pub(crate) fn first_mut(&mut self, chain: Chain) -> Option<&mut Packet> {
        self.slots.get_mut(chain.head as usize).map(|slot| &mut slot.packet)
    }

    /// Gives each packet of a chain the reason for which it is dropped.
    pub(crate) fn refuse(&mut self, chain: Chain, reason: Reason) {
        let mut number = chain.head;
        while let Some(slot) = self.slots.get_mut(number as usize) {
            slot.packet.set_reason(reason.number());
            number = slot.next;
        }
    }

    /// Adds a chain at the end of another.
    pub(crate) fn join(&mut self, to: &mut Chain, chain: Chain) {
        if chain.is_empty() {
            return;
        }
        match self.slots.get_mut(to.tail as usize) {
            Some(last) => last.next = chain.head,
            None => to.head = chain.head,
        }
        to.tail = chain.tail;
        to.len += chain.len;
    }

    /// Adds a slot to the free ones.
    fn append(&mut self, number: u32) {
        let mut free = self.free;
        self.join(&mut free, Chain { head: number, tail: number, len: 1 });
        self.free = free;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;
    use weir_packet::buffer::{Pool, PoolSize};

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Push(usize),
        Pop(usize),
        Join(usize, usize),
        Refuse(usize),
        Grow,
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        prop::collection::vec(
            prop_oneof![
                4 => (0..3usize).prop_map(Step::Push),
                3 => (0..3usize).prop_map(Step::Pop),
                1 => (0..3usize, 0..3usize).prop_map(|(to, from)| Step::Join(to, from)),
                1 => (0..3usize).prop_map(Step::Refuse),
                1 => Just(Step::Grow),
            ],
            0..200,
        )
    }

    proptest! {
        #[test]
        fn chains_are_queues_over_bounded_slots(steps in steps()) {
            let pool = Pool::new(PoolSize { small: 256, large: 0 }).unwrap();
            let mut cache = pool.cache();
            let (mut slots, mut room) = (Slots::new(8), 8);
            let mut chains = [Chain::EMPTY; 3];
            let mut queues: [VecDeque<(u32, u8)>; 3] = Default::default();
            for (number, step) in (1u32..).zip(steps) {
                match step {
                    Step::Push(chain) => {
                        let mut packet = Packet::new(&mut cache, 60).unwrap();
                        packet.set_ordinal(number);
                        let full = queues.iter().map(VecDeque::len).sum::<usize>() == room;
                        match slots.push(&mut chains[chain], packet) {
                            Ok(()) => queues[chain].push_back((number, 0)),
                            Err(mut packet) => {
                                prop_assert_eq!(packet.ordinal(), number);
                                packet.recycle(&mut cache);
                            }
                        }
                        prop_assert_eq!(full, queues[chain].back().is_none_or(|&(last, _)| last != number));
                    }
                    Step::Pop(chain) => {
                        let popped = slots.pop(&mut chains[chain]).map(|mut packet| {
                            let seen = (packet.ordinal(), packet.reason());
                            packet.recycle(&mut cache);
                            seen
                        });
                        prop_assert_eq!(popped, queues[chain].pop_front());
                    }
                    Step::Join(to, from) if to != from => {
                        let chain = std::mem::replace(&mut chains[from], Chain::EMPTY);
                        slots.join(&mut chains[to], chain);
                        let moved = std::mem::take(&mut queues[from]);
                        queues[to].extend(moved);
                    }
                    Step::Join(..) => {}
                    Step::Refuse(chain) => {
                        slots.refuse(chains[chain], Reason::NoNeighbor);
                        let reason = Reason::NoNeighbor.number();
                        queues[chain].iter_mut().for_each(|packet| packet.1 = reason);
                    }
                    Step::Grow => {
                        room += 1;
                        slots.grow(room);
                    }
                }
                for (chain, queue) in chains.iter().zip(&queues) {
                    prop_assert_eq!(chain.len() as usize, queue.len());
                    let first = slots.first(*chain).map(|packet| (packet.ordinal(), packet.reason()));
                    prop_assert_eq!(first, queue.front().copied());
                }
            }
        }
    }
}
