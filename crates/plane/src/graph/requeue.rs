//! Packets that go round again: fragments that a node made and that have to pass other nodes, and the packets behind them, so
//! that no flow is reordered. They are run as vectors of their own, before anything newer.

use std::collections::VecDeque;

use weir_packet::packet::Packet;

use super::nesting;

/// Packets in the queue, at most.
const MOST: usize = 2048;

/// Numbers of layers that are kept apart.
const LEVELS: usize = 8;

/// The packets of a worker that go round again. Between two rounds, all queues are empty but that of deferred packets.
pub(crate) struct Requeue {
    waiting: VecDeque<Packet>,
    /// Packets that the vector under way added: they go before the waiting ones.
    added: VecDeque<Packet>,
    /// By layers of tunnels around added packets or off them: bits of the stages at which these go on.
    stages: [u32; LEVELS],
    /// Packets that the vector under way put behind all packets that it has now: they go behind the added ones.
    behind: VecDeque<Packet>,
    /// Packets for SAs of which a worker gets no number now: they go first in the next round.
    deferred: VecDeque<Packet>,
}

impl Requeue {
    pub(crate) fn new() -> Requeue {
        let queue = || VecDeque::with_capacity(MOST);
        Requeue { waiting: queue(), added: queue(), stages: [0; LEVELS], behind: queue(), deferred: queue() }
    }

    /// Nothing is in it.
    #[inline(always)]
    pub(crate) fn is_empty(&self) -> bool {
        self.added.is_empty() && self.behind.is_empty() && self.waiting.is_empty()
    }

    /// The vector under way has added packets that go on at this stage, with as many layers of tunnels as this one: packets of their flows
    /// must not overtake them there. Packets that go on elsewhere may be later ones of a flow, as packets that wait for their encryption, or
    /// for the tunnel inside, are.
    #[inline(always)]
    pub(crate) fn has_added(&self, stage: u8, packet: &Packet) -> bool {
        !self.added.is_empty() && self.stages[level(packet)] & bit(stage) != 0
    }

    /// Packets that there is room for.
    #[inline]
    pub(crate) fn room(&self) -> usize {
        MOST.saturating_sub(self.added.len() + self.behind.len() + self.waiting.len())
    }

    /// Adds a packet behind the packets that the vector under way has added; gives it back if there is no room.
    pub(crate) fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.room() == 0 {
            return Err(packet);
        }
        self.stages[level(&packet)] |= bit(packet.resume());
        self.added.push_back(packet);
        Ok(())
    }

    /// The vector under way has put packets behind all others.
    #[inline(always)]
    pub(crate) fn has_behind(&self) -> bool {
        !self.behind.is_empty()
    }

    /// Adds a packet behind all packets of the vector under way, whatever these add; gives it back if there is no room.
    pub(crate) fn push_behind(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.room() == 0 {
            return Err(packet);
        }
        self.behind.push_back(packet);
        Ok(())
    }

    /// Ends the vector under way: what it added comes next.
    pub(crate) fn end_vector(&mut self) {
        self.stages = [0; LEVELS];
        while let Some(packet) = self.behind.pop_back() {
            self.waiting.push_front(packet);
        }
        while let Some(packet) = self.added.pop_back() {
            self.waiting.push_front(packet);
        }
    }

    /// Some packets go round again in the next round.
    #[inline(always)]
    pub(crate) fn is_deferred(&self) -> bool {
        !self.deferred.is_empty()
    }

    /// Keeps a packet for the next round; gives it back if there is no room.
    pub(crate) fn defer(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.deferred.len() >= MOST {
            return Err(packet);
        }
        self.deferred.push_back(packet);
        Ok(())
    }

    /// Begins a round: packets of the last one come first. Returns how many there are.
    pub(crate) fn take_up(&mut self) -> usize {
        // All others have gone round, so this is a swap of two queues.
        std::mem::swap(&mut self.deferred, &mut self.waiting);
        self.waiting.len()
    }

    /// The next packet.
    pub(crate) fn pop(&mut self) -> Option<Packet> {
        self.waiting.pop_front()
    }
}

#[inline(always)]
fn level(packet: &Packet) -> usize {
    nesting::layers(packet).min(LEVELS - 1)
}

/// The bit of a stage, by the number that the packet's field of resumption has.
#[inline(always)]
fn bit(stage: u8) -> u32 {
    1 << (stage & 31)
}

#[cfg(test)]
mod tests {
    use weir_packet::buffer::{Cache, Pool, PoolSize};

    use super::*;

    fn packet(cache: &mut Cache, number: u32) -> Packet {
        let mut packet = Packet::new(cache, 60).unwrap();
        packet.set_forwarding(number);
        packet
    }

    const ENCRYPT: u8 = 13;
    const OUTPUT: u8 = 16;

    #[test]
    fn what_a_vector_adds_goes_before_what_waits() {
        let mut cache = Pool::new(PoolSize { small: 64, large: 0 }).unwrap().cache();
        let mut queue = Requeue::new();
        for number in 1..=4 {
            queue.push(packet(&mut cache, number)).unwrap();
        }
        queue.end_vector();
        assert_eq!(queue.pop().unwrap().forwarding(), 1);
        queue.push_behind(packet(&mut cache, 12)).unwrap();
        assert!(queue.has_behind() && !queue.has_added(ENCRYPT, &packet(&mut cache, 0)));
        for number in 10..=11 {
            let mut packet = packet(&mut cache, number);
            packet.set_resume(ENCRYPT);
            queue.push(packet).unwrap();
        }
        let mut other = packet(&mut cache, 0);
        assert!(queue.has_added(ENCRYPT, &other) && !queue.has_added(OUTPUT, &other));
        other.set_nesting(0x10);
        assert!(!queue.has_added(ENCRYPT, &other));
        queue.end_vector();
        let order: Vec<u32> = std::iter::from_fn(|| queue.pop()).map(|packet| packet.forwarding()).collect();
        assert_eq!(order, [10, 11, 12, 2, 3, 4]);
        other.set_nesting(0);
        assert!(queue.is_empty() && !queue.has_added(ENCRYPT, &other));
    }
}
