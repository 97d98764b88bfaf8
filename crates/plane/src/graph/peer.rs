//! Another worker, as seen by one that hands packets over to it.

use weir_base::ring::Producer;
use weir_base::wake::Waker;
use weir_packet::packet::Packet;
use weir_packet::vector::VECTOR;

use crate::reason::Reason;

/// The way to another worker.
pub(crate) struct Peer {
    ring: Producer<Packet>,
    waker: Waker,
    /// It was handed packets since it was last woken.
    given: bool,
}

impl Peer {
    pub(crate) fn new(ring: Producer<Packet>, waker: Waker) -> Peer {
        Peer { ring, waker, given: false }
    }

    /// Hands a packet over; returns it if the ring is full. The packet is visible after [`Peer::show`].
    #[inline]
    pub(crate) fn push(&mut self, packet: Packet) -> Result<(), Packet> {
        if self.is_gone() {
            return Err(packet);
        }
        self.ring.push(packet)?;
        self.given = true;
        Ok(())
    }

    /// Shows it what it was handed, in case that it is looking.
    #[inline]
    pub(crate) fn show(&mut self) {
        self.ring.flush();
    }

    /// Wakes it if it was handed packets and sleeps: not for nodes, as this may be a system call.
    #[inline]
    pub(crate) fn wake(&mut self) {
        if self.given {
            self.given = false;
            self.waker.wake();
        }
    }

    /// Returns whether the other worker is so far behind that a vector might not find room. A worker that has ended
    /// delays none.
    #[inline]
    pub(crate) fn is_behind(&mut self) -> bool {
        self.ring.room() < VECTOR && !self.is_gone()
    }

    /// It ended, and will take nothing any more.
    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        self.ring.is_abandoned()
    }

    /// Takes back up to `most` packets that it left behind when it ended, with the reason for dropping them.
    #[cold]
    pub(crate) fn take_back(&mut self, most: usize, mut take: impl FnMut(Packet)) {
        self.ring.reclaim(most, |mut packet| {
            packet.set_reason(Reason::WorkerGone.number());
            take(packet);
        });
    }
}
