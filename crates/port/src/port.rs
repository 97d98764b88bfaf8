//! The trait of ports, and those of their queues.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::vector::{Frame, Vector};

use crate::capabilities::Capabilities;
use crate::counters::PortCounters;
use crate::error::OpenError;
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::spec;

/// An open port, as the control thread holds it.
pub trait Port: Send {
    /// The kind, as the configuration names it.
    fn kind(&self) -> &'static str;

    /// Returns the work that the port takes over from the gateway, and its use of buffers.
    fn capabilities(&self) -> Capabilities;

    /// The hardware address it came with, if any.
    fn mac(&self) -> Option<[u8; 6]> {
        None
    }

    /// The largest frame it carries, in octets, if it has a limit of its own.
    fn max_frame(&self) -> Option<usize> {
        None
    }

    /// Whether packets can pass now.
    fn link(&self) -> Link {
        Link::Up
    }

    /// The kernel device behind it, if there is one whose changes are to be told by [`Port::refresh`].
    fn device(&self) -> Option<&str> {
        None
    }

    /// Called after the kernel told of a change of [`Port::device`]: attaches its queues again when the device had gone
    /// and came back, and finds out what [`Port::link`] answers from now on, and [`Port::mac`] and [`Port::max_frame`].
    /// The caller then wakes whoever waits for packets of the port: its queues may have other descriptors.
    fn refresh(&mut self) {}

    /// Called before workers drop the queues of a port that closes: from now on the port keeps open what takes the kernel
    /// milliseconds to close. It closes with the port, on the control thread, and no worker stalls.
    fn keep_open(&mut self) {}

    /// Becomes what this specification says, if that takes no other queues than it has: all addresses and the MTU of a
    /// device's kernel side can change so. False when it is another port that is wanted; then nothing has changed.
    ///
    /// # Errors
    /// When the kernel refuses; part of it may have been done.
    fn adjust(&mut self, spec: &spec::PortSpec) -> Result<bool, OpenError> {
        let _ = spec;
        Ok(false)
    }

    /// The hardware address to send to where there is one station at the other end and nobody to ask for it (tun).
    fn peer(&self) -> Option<[u8; 6]> {
        None
    }

    /// What it counts beside the packets that pass: shared with its queues.
    fn counters(&self) -> Arc<PortCounters>;

    /// Why it stopped delivering or accepting packets before its time, if it did: the first such failure. Queues note
    /// it when it happens; the control thread asks.
    fn failure(&self) -> Option<Failure> {
        None
    }

    /// Gives away the receive queues: none when nothing is ever received. A second call gives none. A port of the kernel
    /// receives from now on: what comes before is not its own, but of whoever has the device until then.
    fn receivers(&mut self) -> Vec<Box<dyn Receiver>>;

    /// Gives away one transmit queue for each of `workers`. Called once.
    fn transmitters(&mut self, workers: usize) -> Vec<Box<dyn Transmitter>>;
}

/// Whether packets can pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// They can.
    Up,
    /// They can not.
    Down,
}

/// What a receiver has to say after a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Burst {
    /// There may be more at once.
    More,
    /// Nothing further at this time.
    Idle,
    /// Nothing further, ever.
    Ended,
}

/// When a receive queue is worth asking again, as a worker wants to know before it sleeps.
#[derive(Debug, Clone, Copy)]
pub enum Readiness<'a> {
    /// At once: it has to be polled.
    Now,
    /// At this time of the gateway's clock, not before.
    At(Time),
    /// When this descriptor is readable.
    When(BorrowedFd<'a>),
    /// Never again.
    Never,
}

/// A receive queue, owned by one worker.
pub trait Receiver: Send {
    /// When it is worth asking again; asked after [`Burst::Idle`] only.
    fn readiness(&self) -> Readiness<'_> {
        Readiness::Now
    }

    /// Appends packets to `vector`, at most `vector.room()`, each with its receive time and offload state set. `now` is
    /// the gateway's clock. Packets for which no buffer is left are not lost but left waiting where the source
    /// allows it, else counted as `no_buffer`.
    fn receive(&mut self, vector: &mut Vector, cache: &mut Cache, now: Time) -> Burst;
}

/// A transmit queue, owned by one worker.
pub trait Transmitter: Send {
    /// Takes the packets at these places, in order, as far as there is room; returns how many (a prefix of `frame`).
    /// Adds to `refused` the places of the packets among them that the port cannot send: these stay in their places. The
    /// port may take any other packet out of its place or leave it there; the caller recycles what is left.
    ///
    /// All packets that were taken and not refused have been sent when this returns, unless [`Transmitter::sends_later`].
    fn transmit(
        &mut self,
        vector: &mut Vector,
        frame: &Frame,
        refused: &mut Frame,
        cache: &mut Cache,
        now: Time,
    ) -> usize;

    /// Packets are sent by [`Transmitter::kick`] and later calls. Then [`Transmitter::outcome`] reports each packet that was
    /// taken and not refused. The answer never changes.
    fn sends_later(&self) -> bool {
        false
    }

    /// Returns the next packets whose outcome is known, each once, in the order in which they were taken. `None`: nothing
    /// more is known yet.
    fn outcome(&mut self) -> Option<Outcome> {
        None
    }

    /// Lets the packets of this round go: called once after each vector that brought some here, outside of the graph.
    /// This is the place for the system call that wakes a kernel ring.
    fn kick(&mut self) {}

    /// Packets that were taken still wait here until the sink has room for them: it is to be kicked again after a while,
    /// even if it is given nothing more.
    fn is_pending(&self) -> bool {
        false
    }

    /// Pushes out what is buffered: called when a worker goes idle or ends.
    ///
    /// # Errors
    /// When the sink refuses (a full disk).
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    /// Pushes out what is buffered, and gives up the packets that the sink has no room for: the outcome of every packet is
    /// known afterwards. Called once, at last.
    fn close(&mut self) {
        // Failures are counted, and kept by the port.
        let _ = self.flush();
    }
}
