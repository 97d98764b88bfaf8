//! The traits of ports and their queues.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use ipnet::IpNet;
use weir_base::clock::Time;
use weir_packet::buffer::Cache;
use weir_packet::vector::{Indices, Vector};

use crate::capabilities::{Capabilities, Segmentation};
use crate::counters::PortCounters;
use crate::error::OpenError;
use crate::failure::Failure;
use crate::outcome::Outcome;
use crate::spec;

/// The properties of the kernel's side of a device that the host may change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostSide {
    /// Index of the device.
    pub index: u32,
    /// MTU, in octets.
    pub mtu: u32,
    /// Addresses with prefix lengths, those of the port's specification included.
    pub addresses: Vec<IpNet>,
}

/// An open port, held by the control thread.
pub trait Port: Send {
    /// Returns the kind, as the configuration names it.
    fn kind(&self) -> &'static str;

    /// Returns the work that the port takes over from the gateway, and its use of buffers.
    fn capabilities(&self) -> Capabilities;

    /// Returns the hardware address of its device, if it has one.
    fn mac(&self) -> Option<[u8; 6]> {
        None
    }

    /// Returns the octets of the longest frame, if the port has a limit.
    fn max_frame(&self) -> Option<usize> {
        None
    }

    /// Returns whether packets can pass now.
    fn link(&self) -> Link {
        Link::Up
    }

    /// Returns the name of its kernel device, if it has one. Changes of the device are reported through
    /// [`Port::refresh`].
    fn device(&self) -> Option<&str> {
        None
    }

    /// Updates the port after a change of [`Port::device`]. Attaches its queues again if the device was deleted and
    /// created, and updates [`Port::link`], [`Port::mac`] and [`Port::max_frame`]. Queues may get other descriptors, so
    /// the caller wakes the threads that wait for them.
    fn refresh(&mut self) {}

    /// Returns the creator of its device if the device is missing or not yet configured again.
    fn missing(&self) -> Option<Creator> {
        None
    }

    /// Creates the device again if it is missing, with its settings, and attaches the queues.
    ///
    /// # Errors
    /// As when the port was opened; the port stays as it is, and can be tried again.
    fn recreate(&mut self) -> Result<(), OpenError> {
        Ok(())
    }

    /// Returns what the kernel's side of its device had at the last look; `None`: it is missing, or the port has no such side.
    fn host_side(&self) -> Option<&HostSide> {
        None
    }

    /// Shows the kernel's side of its device whether the link that the device stands for is up. The device stays set up: packets
    /// that the gateway has for it still pass. Ports without such a side do nothing.
    fn set_carrier(&mut self, carrier: bool) {
        let _ = carrier;
    }

    /// Keeps resources open from now on that the kernel needs milliseconds to close. They close with the port on the
    /// control thread, so that no worker stalls when it drops its queues.
    fn keep_open(&mut self) {}

    /// Adjusts the port to a specification, if its queues can stay: addresses and the MTU of the kernel side can
    /// change. Returns `false`, with nothing changed, if the specification needs another port.
    ///
    /// # Errors
    /// If the kernel refuses; part of the changes may be in force.
    fn adjust(&mut self, spec: &spec::PortSpec) -> Result<bool, OpenError> {
        let _ = spec;
        Ok(false)
    }

    /// Returns the remote MAC, if the link leads to a single station that needs no resolution (tun).
    fn peer(&self) -> Option<[u8; 6]> {
        None
    }

    /// Returns the counters that it shares with its queues.
    fn counters(&self) -> Arc<PortCounters>;

    /// Returns the first failure that stopped a queue early. Queues note it; the control thread polls it.
    fn failure(&self) -> Option<Failure> {
        None
    }

    /// Returns the receive queues; none if nothing is ever received. A second call returns none. A kernel port receives
    /// from now on: earlier packets belong to the previous owner of the device.
    fn receivers(&mut self) -> Vec<Box<dyn Receiver>>;

    /// Returns one transmit queue for each of `workers`. Called once.
    fn transmitters(&mut self, workers: usize) -> Vec<Box<dyn Transmitter>>;
}

/// Creator of a kernel device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creator {
    /// The port: it can create the device again at any time.
    Port,
    /// Another program: it decides whether there is such a device.
    Other,
}

/// State of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// Packets can pass.
    Up,
    /// Packets cannot pass.
    Down,
}

/// State of a receive queue after a burst.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Burst {
    /// More packets may be ready.
    More,
    /// No packet is ready now.
    Idle,
    /// No packet will follow.
    Ended,
}

/// Time at which a worker must poll a receive queue again.
#[derive(Debug, Clone, Copy)]
pub enum Readiness<'a> {
    /// Now.
    Now,
    /// At this time of the gateway's clock.
    At(Time),
    /// When this descriptor is readable.
    When(BorrowedFd<'a>),
    /// Never.
    Never,
}

/// A receive queue, owned by one worker.
pub trait Receiver: Send {
    /// Returns when to poll again. Valid after [`Burst::Idle`] only.
    fn readiness(&self) -> Readiness<'_> {
        Readiness::Now
    }

    /// Appends packets to `vector`, at most `vector.room()`, each with its receive time and offload state. `now` is the
    /// gateway's clock. Packets without a free buffer wait if the source allows it, else count as `no_buffer`.
    fn receive(&mut self, vector: &mut Vector, cache: &mut Cache, now: Time) -> Burst;
}

/// A transmit queue, owned by one worker.
pub trait Transmitter: Send {
    /// Takes the packets at these indices, in order, while there is room. Returns their number: a prefix of `frame`.
    /// Adds the indices of packets that the port cannot send to `refused`; these packets stay in the vector. The port
    /// may leave other packets in the vector or take them out; the caller recycles the rest.
    ///
    /// All packets that it took and did not refuse are sent on return, unless [`Transmitter::sends_later`].
    fn transmit(
        &mut self,
        vector: &mut Vector,
        frame: &Indices,
        refused: &mut Indices,
        cache: &mut Cache,
        now: Time,
    ) -> usize;

    /// Returns the super-packets that somebody behind the port cuts or takes whole, if it sends on what it is given. `None`: packets
    /// end here, and are kept or discarded as they are.
    fn segmentation(&self) -> Option<Segmentation> {
        None
    }

    /// Returns whether [`Transmitter::kick`] and later calls send the packets. [`Transmitter::outcome`] then reports
    /// every packet that was taken and not refused. The result never changes.
    fn sends_later(&self) -> bool {
        false
    }

    /// Returns the outcome of the next packets, in the order in which they were taken, each once. `None`: no further
    /// outcome is known.
    fn outcome(&mut self) -> Option<Outcome> {
        None
    }

    /// Sends the packets of a round. Called outside the graph, once after each vector with packets for this queue. The
    /// place for the system call that wakes a kernel ring.
    fn kick(&mut self) {}

    /// Returns whether taken packets wait for room in the sink. Then the queue must be kicked again, even without
    /// further packets.
    fn is_pending(&self) -> bool {
        false
    }

    /// Writes out buffered packets. Called when a worker becomes idle or ends.
    ///
    /// # Errors
    /// If the sink refuses (a full disk).
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }

    /// Writes out buffered packets and drops packets that the sink has no room for. All outcomes are known afterwards.
    /// Called once, last.
    fn close(&mut self) {
        // Failures are counted and kept by the port.
        let _ = self.flush();
    }
}
