//! Packet I/O behind one trait.
//!
//! A [`Port`] is where packets enter and leave: a generator, a capture file, nothing at all, an
//! interface of the kernel's.
//! The control thread opens it and gives its queues away: every worker owns the receive queues it polls and one
//! transmit queue per port, so that the data path takes no lock. Middleware ([`fault`], [`capture`]) is a queue that
//! wraps a queue.
//!
//! ```
//! use weir_base::clock::Time;
//! use weir_packet::buffer::{Pool, PoolSize};
//! use weir_packet::vector::Vector;
//! use weir_port::spec::*;
//! use weir_port::{Burst, Context, open};
//!
//! let template = TemplateSpec {
//!     source: ("10.0.0.1".parse()?, "10.0.255.254".parse()?),
//!     destination: ("192.0.2.1".parse()?, "192.0.2.1".parse()?),
//!     protocol: Transport::Udp,
//!     source_port: (1024, 65535),
//!     destination_port: (53, 53),
//!     size: SizeSpec::Imix,
//!     flows: 10_000,
//!     ttl: 64,
//!     dont_fragment: true,
//!     vlan: vec![],
//!     source_mac: None,
//!     destination_mac: None,
//!     seed: 1,
//! };
//! let stream = StreamSpec { source: StreamSource::Template(template), rate: Some(1_000_000), count: None };
//! let spec = PortSpec::Generator(GeneratorSpec { streams: vec![stream] });
//! let context = Context { name: "lan".into(), mac: [2, 0, 0, 0, 0, 1], max_frame: 1514 };
//! let mut port = open(&spec, &Middleware::default(), 1, &context)?;
//! let mut queue = port.receivers().remove(0);
//!
//! let mut cache = Pool::new(PoolSize { small: 512, large: 0 })?.cache();
//! let mut vector = Vector::new();
//! assert_eq!(queue.receive(&mut vector, &mut cache, Time(0)), Burst::Idle);
//! assert_eq!(vector.len(), 1, "the first packet is due at once");
//! assert_eq!(queue.receive(&mut vector, &mut cache, Time(50_000)), Burst::Idle);
//! assert_eq!(vector.len(), 51, "50 more in 50 µs");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![deny(unsafe_code)]

mod af_packet;
pub mod capture;
mod claim;
mod failure;
pub mod fault;
pub mod generator;
pub mod links;
pub mod live_frames;
mod null;
mod open;
mod outcome;
pub mod pcap;
pub mod spec;
mod sys;
mod tap;
mod virtio;
mod wrapped;

pub use af_packet::AfPacketError;
pub use claim::Holder;
pub use failure::Failure;
pub use open::{Context, OpenError, open};
pub use outcome::Outcome;
pub use tap::{Mode as TapMode, TapError};

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::vector::{Frame, Vector};

/// An open port, as the control thread holds it.
pub trait Port: Send {
    /// The kind, as the configuration names it.
    fn kind(&self) -> &'static str;

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

/// What ports count beside the packets that pass. Written by the queues, one or more per port; read by anyone.
#[derive(Debug, Default)]
pub struct PortCounters {
    /// Frames that were waiting but got no buffer.
    pub no_buffer: AtomicU64,
    /// Frames that the port's source could not deliver (longer than a buffer, malformed record).
    pub receive_errors: AtomicU64,
    /// Frames that the port's sink refused: none of them counts as transmitted.
    pub transmit_errors: AtomicU64,
    /// Frames that the kernel dropped before we saw them, its ring being full.
    pub kernel_drops: AtomicU64,
    /// Frames of which a capture holds only the beginning: delivered as they are.
    pub cut: AtomicU64,
    /// Packets that fault injection dropped, duplicated, held back, changed or cut.
    pub faults: FaultCounters,
}

/// What fault injection did, in packets.
#[derive(Debug, Default)]
pub struct FaultCounters {
    /// Vanished.
    pub dropped: AtomicU64,
    /// Arrived twice.
    pub duplicated: AtomicU64,
    /// Arrived after later ones.
    pub reordered: AtomicU64,
    /// Octets were changed.
    pub corrupted: AtomicU64,
    /// Were cut.
    pub truncated: AtomicU64,
}

/// Adds to a statistic that several threads may write.
#[inline]
pub fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}
