//! A worker's way out by a port.

use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::vector::{Frame, Vector};
use weir_port::Transmitter;

/// A transmit queue, and whether it was given packets in the vector under way.
pub(crate) struct Outlet {
    queue: Box<dyn Transmitter>,
    given: bool,
}

impl Outlet {
    pub(crate) fn new(queue: Box<dyn Transmitter>) -> Outlet {
        Outlet { queue, given: false }
    }

    /// As [`Transmitter::transmit`].
    #[inline]
    pub(crate) fn transmit(&mut self, vector: &mut Vector, frame: &Frame, cache: &mut Cache, now: Time) -> usize {
        let sent = self.queue.transmit(vector, frame, cache, now);
        self.given |= sent > 0;
        sent
    }

    /// Lets go what it was given since the last call: not for nodes, as this may be a system call.
    #[inline]
    pub(crate) fn kick(&mut self) {
        if self.given {
            self.given = false;
            self.queue.kick();
        }
    }

    /// Pushes out what is buffered. Failures are counted by the port.
    pub(crate) fn flush(&mut self) {
        let _ = self.queue.flush();
    }
}
