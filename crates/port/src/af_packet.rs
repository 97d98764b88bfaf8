//! Ports over kernel interfaces, by packet sockets (packet(7)).
//!
//! **Rings.** Frames pass through rings that kernel and process share (TPACKET version 2), with a slot of 2 KiB for
//! each frame. Version 3 fills blocks: it delivers a frame when its block is full or after a millisecond, which is too
//! late. Version 2 delivers at once and costs a few ticks more (ARCHITECTURE.md, "Kernel ports").
//!
//! **Long frames**, such as super-packets, do not fit a slot. The kernel also puts a received long frame into the
//! socket's buffer, from which it is read. Long frames are sent through a second socket, because a socket with a ring
//! sends nothing else. Each direction costs a system call and one copy, which is cheaper than larger slots.
//!
//! **Offloads.** Every frame begins with a `virtio_net_hdr` with partial checksum and segmentation. Without `offload`
//! the port completes checksums in both directions, and refuses and counts super-packets.
//!
//! **Tags.** The kernel moves the outermost VLAN tag from a frame to its slot header. The port restores it.
//!
//! **Queues.** A receive queue is a socket. Several sockets share the interface's frames by a hash of the flow. Each
//! worker sends through sockets of its own, which receive nothing.
//!
//! **One gateway.** The port claims its device ([`crate::claim`]), because a second gateway would duplicate every
//! packet.
//!
//! **Deleted devices.** A socket of a fanout group cannot be attached to another device. When the device was deleted
//! and created, [`crate::Port::refresh`] opens new sockets. The queues take them over when the old ones are empty.

mod error;
mod receive;
mod transmit;

use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use ipnet::IpNet;
use rustix::io::Errno;
use weir_packet::buffer::{MAX_FRAME, Pool};
use weir_packet::offload::VirtioHeader;
use weir_packet::wire::{ethernet, vlan};

pub use error::AfPacketError;

use crate::claim::{Claim, Unclaimed};
use crate::links::{Device, Layer};
use crate::spec::AfPacketSpec;
use crate::sys::packet_ring::{ReceiveRing, SLOT, TransmitRing};
use crate::sys::packet_socket::{PacketSocket, Receives, SocketBuffer};
use crate::{
    Capabilities, Checksums, Context, Failure, Filters, Link, Offloads, Port, PortCounters, Receiver, Segmentation,
    Transmitter, count, kernel,
};
use receive::{Doorstep, Source};

/// Slots of a receive ring: 8 MiB, 4 ms at a million packets per second.
const RECEIVE_SLOTS: usize = 4096;
/// Octets of the receive buffer for frames that are longer than a slot.
const RECEIVE_BUFFER: u32 = 16 << 20;
/// Octets of the send buffer: more than all slots, so that the ring is the limit.
const SEND_BUFFER: u32 = 16 << 20;

pub(crate) struct AfPacketPort {
    spec: AfPacketSpec,
    capabilities: Capabilities,
    _claim: Claim,
    mac: [u8; 6],
    /// Octets of the longest frame that the device sends, without a tag; shared with the transmit queues.
    longest: Arc<AtomicUsize>,
    link: Link,
    /// For each receive queue: its socket, and the slot for its next one. Only the queue keeps them: a dropped queue
    /// leaves its group, and the others get its share.
    inputs: Vec<(Weak<PacketSocket>, Weak<Doorstep>)>,
    /// The sockets of the receive queues, while the port closes.
    closing: Vec<Arc<PacketSocket>>,
    outputs: Vec<Arc<PacketSocket>>,
    /// Receive queues, until they are taken.
    receivers: Vec<Box<dyn Receiver>>,
    /// The receive queues were taken: sockets receive.
    listening: bool,
    transmitters: Vec<Box<dyn Transmitter>>,
    counters: Arc<PortCounters>,
    failure: Option<Failure>,
}

impl AfPacketPort {
    /// Attaches `queues` receive queues to the interface.
    pub(crate) fn open(spec: &AfPacketSpec, queues: u16, context: &Context) -> Result<AfPacketPort, AfPacketError> {
        let name = || spec.interface.clone();
        let Some(device) = Device::named(&spec.interface)? else {
            return Err(AfPacketError::NoDevice { name: name() });
        };
        let Some(mac) = device.mac.filter(|_| device.layer == Layer::Ethernet) else {
            return Err(AfPacketError::NotEthernet { name: name(), layer: device.layer });
        };
        let addresses: Vec<IpNet> = device.addresses.iter().copied().filter(is_host).collect();
        if !spec.shared && !addresses.is_empty() {
            return Err(AfPacketError::HasAddresses { name: name(), addresses });
        }
        // Subtracts the link layer and two tags that were added to the interface's MTU.
        let mtu = context.max_frame.saturating_sub(22);
        if mtu > device.mtu as usize {
            return Err(AfPacketError::Mtu { name: name(), mtu, most: device.mtu });
        }
        let claim = Claim::device(&device.name).map_err(|unclaimed| match unclaimed {
            Unclaimed::Held(holder) => AfPacketError::Claimed { name: name(), holder },
            Unclaimed::System(error) => AfPacketError::System { name: name(), what: "claiming the device", error },
        })?;
        let mut port = AfPacketPort {
            spec: spec.clone(),
            capabilities: Capabilities { filters: Filters::of(&device.name), ..capabilities(spec, &context.pool) },
            _claim: claim,
            mac,
            longest: Arc::new(longest(&device).into()),
            link: link(&device),
            inputs: Vec::new(),
            closing: Vec::new(),
            outputs: Vec::new(),
            receivers: Vec::new(),
            listening: false,
            transmitters: Vec::new(),
            counters: Arc::default(),
            failure: None,
        };
        for source in port.sources(device.index, usize::from(queues.max(1)))? {
            let doorstep = Arc::<Doorstep>::default();
            port.inputs.push((Arc::downgrade(&source.socket()), Arc::downgrade(&doorstep)));
            let queue = receive::Queue::new(source, doorstep, port.capabilities.receive, Arc::clone(&port.counters));
            port.receivers.push(Box::new(queue));
        }
        // Opens one transmit queue now, to report errors early. The number of workers is not known yet.
        let output = port.output(Some(device.index))?;
        port.transmitters.push(output);
        Ok(port)
    }

    /// Opens sockets and rings for all receive queues. They receive only when the queues are taken: until then another
    /// port may receive the same frames, and a socket outside the group would receive frames of others.
    fn sources(&self, device: u32, queues: usize) -> Result<Vec<Source>, AfPacketError> {
        let mut sources = Vec::new();
        let mut group = None;
        for _ in 0..queues {
            let socket = self.socket()?;
            self.done("receive settings", socket.deafen())?;
            self.done("receive settings", socket.ignore_outgoing())?;
            self.done("receive settings", socket.keep_long_frames())?;
            self.done("receive buffer", socket.set_buffer(SocketBuffer::Receive, RECEIVE_BUFFER))?;
            let ring = self.ring(RECEIVE_SLOTS, ReceiveRing::map(&socket, RECEIVE_SLOTS))?;
            self.done("attaching", socket.bind(device, Receives::All))?;
            if queues > 1 {
                group = Some(socket.join(group).map_err(|error| self.no_group(queues, error))?);
            }
            if self.spec.promiscuous && sources.is_empty() {
                self.done("promiscuous mode", socket.be_promiscuous(device))?;
            }
            sources.push(Source::new(socket, ring));
        }
        if self.listening {
            for source in &sources {
                self.done("receive settings", source.socket().listen())?;
            }
        }
        Ok(sources)
    }

    fn socket(&self) -> Result<PacketSocket, AfPacketError> {
        self.done("opening a packet socket", PacketSocket::open())
    }

    fn ring<T>(&self, slots: usize, result: io::Result<T>) -> Result<T, AfPacketError> {
        result.map_err(|error| match error.kind() {
            io::ErrorKind::OutOfMemory => {
                AfPacketError::NoMemory { name: self.spec.interface.clone(), slots, octets: slots * SLOT }
            }
            _ => self.refused("ring", error),
        })
    }

    fn done<T>(&self, what: &'static str, result: io::Result<T>) -> Result<T, AfPacketError> {
        result.map_err(|error| self.refused(what, error))
    }

    /// Returns the reason why a socket could not join a group. Before Linux 6.13 a device must be up for that.
    fn no_group(&self, queues: usize, error: io::Error) -> AfPacketError {
        let name = self.spec.interface.clone();
        let up = || Device::named(&name).is_ok_and(|device| device.is_some_and(|device| device.up));
        if Errno::from_io_error(&error) == Some(Errno::INVAL) && !up() {
            return AfPacketError::Down { name, queues };
        }
        self.refused("fanout group", error)
    }

    fn refused(&self, what: &'static str, error: io::Error) -> AfPacketError {
        let name = self.spec.interface.clone();
        match Errno::from_io_error(&error) {
            Some(Errno::PERM | Errno::ACCESS) => AfPacketError::NoPrivilege { name },
            Some(Errno::NODEV | Errno::NXIO) => AfPacketError::NoDevice { name },
            _ => AfPacketError::System { name, what, error },
        }
    }

    fn output(&mut self, device: Option<u32>) -> Result<Box<dyn Transmitter>, AfPacketError> {
        let (ringed, plain) = (self.socket()?, self.socket()?);
        for socket in [&ringed, &plain] {
            self.done("send buffer", socket.set_buffer(SocketBuffer::Send, SEND_BUFFER))?;
        }
        let ring = self.ring(transmit::SLOTS, TransmitRing::map(&ringed, transmit::SLOTS))?;
        let (ringed, plain) = (Arc::new(ringed), Arc::new(plain));
        for socket in [&ringed, &plain] {
            if let Some(device) = device {
                self.done("attaching", socket.bind(device, Receives::Nothing))?;
            }
            self.outputs.push(Arc::clone(socket));
        }
        let counters = Arc::clone(&self.counters);
        let longest = Arc::clone(&self.longest);
        Ok(Box::new(transmit::Queue::new(ring, ringed, plain, self.capabilities.transmit, longest, counters)))
    }

    /// Attaches the queues to the current device of the name and returns its link state.
    fn look(&mut self) -> Result<Link, AfPacketError> {
        let Some(device) = Device::named(&self.spec.interface)? else { return Ok(Link::Down) };
        if device.layer != Layer::Ethernet {
            return Ok(Link::Down);
        }
        self.inputs.retain(|(_, doorstep)| doorstep.strong_count() > 0);
        if self.sockets().any(|socket| socket.device() != Some(device.index)) {
            self.count_drops();
            let sources = self.sources(device.index, self.inputs.len())?;
            for (source, (socket, doorstep)) in sources.into_iter().zip(&mut self.inputs) {
                *socket = Arc::downgrade(&source.socket());
                // A queue that was dropped meanwhile needs none.
                if let Some(doorstep) = doorstep.upgrade() {
                    doorstep.leave(source);
                }
            }
        }
        for socket in &self.outputs {
            if socket.device() != Some(device.index) {
                self.done("attaching", socket.bind(device.index, Receives::Nothing))?;
            }
        }
        // The new device may differ.
        self.mac = device.mac.unwrap_or(self.mac);
        self.longest.store(longest(&device), Ordering::Relaxed);
        Ok(link(&device))
    }

    /// Returns the sockets of the existing receive queues.
    fn sockets(&self) -> impl Iterator<Item = Arc<PacketSocket>> {
        self.inputs.iter().filter_map(|(socket, _)| socket.upgrade())
    }

    /// Adds the kernel's drops since the last call.
    fn count_drops(&self) {
        let drops = self.sockets().map(|socket| socket.drops()).sum();
        if drops > 0 {
            count(&self.counters.kernel_drops, drops);
        }
    }
}

/// Returns whether an address is a host address. Devices that are up have an IPv6 link-local address by default; the
/// kernel answers for that one only.
fn is_host(address: &IpNet) -> bool {
    !matches!(address.addr(), IpAddr::V6(address) if address.is_unicast_link_local())
}

/// Returns the capabilities of a port: with `offload`, those of the kernel, which segments for devices that cannot.
fn capabilities(spec: &AfPacketSpec, pool: &Pool) -> Capabilities {
    let offloads = |largest, crc32c| Offloads {
        segmentation: Segmentation { tcp4: true, tcp6: true, udp: kernel::segments_udp(), largest },
        checksums: Checksums { internet: true, crc32c },
    };
    let none = Offloads::default();
    Capabilities {
        transmit: if spec.offload { offloads(MAX_FRAME, false) } else { none },
        receive: if spec.offload { offloads(pool.longest_frame(), true) } else { none },
        verified: true,
        headroom: VirtioHeader::LEN,
        ..Capabilities::default()
    }
}

/// Returns the octets of the longest frame without a tag.
fn longest(device: &Device) -> usize {
    device.mtu as usize + ethernet::LENGTH
}

fn link(device: &Device) -> Link {
    if device.up && device.running { Link::Up } else { Link::Down }
}

impl Port for AfPacketPort {
    fn kind(&self) -> &'static str {
        "af-packet"
    }

    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }

    fn mac(&self) -> Option<[u8; 6]> {
        Some(self.mac)
    }

    fn max_frame(&self) -> Option<usize> {
        // The MTU excludes the Ethernet header and one tag; it includes further tags.
        Some(self.longest.load(Ordering::Relaxed) + vlan::LENGTH)
    }

    fn link(&self) -> Link {
        self.link
    }

    fn device(&self) -> Option<&str> {
        Some(&self.spec.interface)
    }

    fn keep_open(&mut self) {
        self.closing = self.sockets().collect();
    }

    fn refresh(&mut self) {
        let looked = self.look();
        self.link = *looked.as_ref().unwrap_or(&Link::Down);
        self.failure = match looked {
            // A vanished device is reported again, and a down device when it comes up.
            Ok(_) | Err(AfPacketError::NoDevice { .. } | AfPacketError::Down { .. }) => None,
            Err(error) => Some(Failure::Device(Arc::new(error))),
        };
    }

    fn counters(&self) -> Arc<PortCounters> {
        // The caller is about to read the counters.
        self.count_drops();
        Arc::clone(&self.counters)
    }

    fn failure(&self) -> Option<Failure> {
        self.failure.clone()
    }

    fn receivers(&mut self) -> Vec<Box<dyn Receiver>> {
        if !self.listening {
            self.listening = true;
            let listen = |socket: Arc<PacketSocket>| self.done("receive settings", socket.listen()).err();
            let error = self.sockets().find_map(listen);
            self.failure = error.map(|error| Failure::Device(Arc::new(error))).or(self.failure.take());
        }
        std::mem::take(&mut self.receivers)
    }

    fn transmitters(&mut self, workers: usize) -> Vec<Box<dyn Transmitter>> {
        let device = self.outputs.first().and_then(|socket| socket.device());
        let mut transmitters = std::mem::take(&mut self.transmitters);
        while transmitters.len() < workers {
            transmitters.push(self.output(device).unwrap_or_else(|error| {
                self.failure = Some(Failure::Device(Arc::new(error)));
                Box::new(transmit::Closed(Arc::clone(&self.counters)))
            }));
        }
        transmitters.truncate(workers);
        transmitters
    }
}
