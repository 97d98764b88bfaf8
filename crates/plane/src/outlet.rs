//! A worker's way out by a port.

use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::vector::{Frame, Vector};
use weir_port::Transmitter;

/// A transmit queue, and whether it is to be kicked.
pub(crate) struct Outlet {
    queue: Box<dyn Transmitter>,
    /// It was given packets in the vector under way, or some of before still wait in it.
    due: bool,
}

impl Outlet {
    pub(crate) fn new(queue: Box<dyn Transmitter>) -> Outlet {
        Outlet { queue, due: false }
    }

    /// As [`Transmitter::transmit`].
    #[inline]
    pub(crate) fn transmit(&mut self, vector: &mut Vector, frame: &Frame, cache: &mut Cache, now: Time) -> usize {
        // What it takes none of is what most needs a kick.
        self.due |= !frame.is_empty();
        self.queue.transmit(vector, frame, cache, now)
    }

    /// Lets go what it was given, if there is anything: not for nodes, as this may be a system call.
    #[inline]
    pub(crate) fn kick(&mut self) {
        if self.due {
            self.queue.kick();
            self.due = self.queue.is_pending();
        }
    }

    /// Pushes out what is buffered. Failures are counted by the port.
    pub(crate) fn flush(&mut self) {
        let _ = self.queue.flush();
        self.due = self.queue.is_pending();
    }

    /// Something waits in it for another kick.
    pub(crate) fn is_pending(&self) -> bool {
        self.due
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use weir_packet::buffer::{Pool, PoolSize};

    use super::*;

    /// Refuses everything, and counts its kicks.
    struct Full(Arc<AtomicUsize>);

    impl Transmitter for Full {
        fn transmit(&mut self, _: &mut Vector, _: &Frame, _: &mut Cache, _: Time) -> usize {
            0
        }

        fn kick(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_queue_that_took_nothing_is_kicked_as_well() {
        let kicks = Arc::<AtomicUsize>::default();
        let mut outlet = Outlet::new(Box::new(Full(Arc::clone(&kicks))));
        let mut cache = Pool::new(PoolSize { small: 1, large: 0 }).unwrap().cache();
        let (mut vector, mut frame) = (Vector::new(), Frame::new());
        for (packets, expected) in [(0, 0), (1, 1), (0, 1)] {
            frame.clear();
            frame.fill(packets);
            assert_eq!(outlet.transmit(&mut vector, &frame, &mut cache, Time(0)), 0);
            outlet.kick();
            assert_eq!(kicks.load(Ordering::Relaxed), expected);
        }
    }
}
