//! Captures: workers copy packets that a filter matches, as they come in and as they leave.
//!
//! A worker waits for nobody. Buffers for copies are made before a capture begins, and go round between the worker and the reader. A
//! packet that finds no buffer is counted, and is missing in the capture.

use std::sync::Arc;

use weir_base::clock::Time;
use weir_base::ring::{Consumer, Producer};
use weir_packet::packet::Packet;
use weir_packet::parse::{self, L2, Parsed};
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::ethernet::ethertype;

use crate::graph::nodes::{interface_of, matches};
use crate::graph::trace::Filter;
use crate::node::Node;
use crate::root::counters::Counter;
use crate::root::sampler::Limit;
use crate::root::{NONE, Root, TUNNEL};

/// Captures at a time.
pub(crate) const MOST: usize = 4;

/// Copies of one worker that wait to be read, at most.
pub(crate) const RING: usize = 1024;

/// Octets of all buffers of one worker, at most, as long as that is a buffer for each of 16 packets.
pub(crate) const ROOM: usize = 4 << 20;

/// The packets that are wanted, and how much of them.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The packets; `None`: any.
    pub filter: Option<Filter>,
    /// The number of the interface by which they come in or leave; `None`: any.
    pub interface: Option<u32>,
    /// Packets that come in.
    pub input: bool,
    /// Packets that leave.
    pub output: bool,
    /// Octets of each packet that are copied at most.
    pub snap: usize,
}

/// A copy of a packet.
#[derive(Debug)]
pub struct Copied {
    /// When the packet came, or when it left.
    pub time: Time,
    /// The number of the interface.
    pub interface: u32,
    /// It was leaving.
    pub output: bool,
    /// It begins with its IP header, as packets in tunnels of IP do.
    pub bare: bool,
    /// Octets of the packet.
    pub length: usize,
    /// Its first octets.
    pub octets: Vec<u8>,
}

/// The counters of a worker for a capture.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct CaptureCounters {
    /// Packets that were wanted.
    pub matched: Counter,
    /// Packets that were not copied, as no buffer was free.
    pub no_room: Counter,
    /// Packets that were not copied because of the limit on packets per second.
    pub over_rate: Counter,
}

/// A worker's end of a capture.
pub(crate) struct Tap {
    pub(crate) wanted: Arc<Wanted>,
    pub(crate) limit: Limit,
    pub(crate) counters: Arc<[CaptureCounters]>,
    pub(crate) copies: Producer<Copied>,
    pub(crate) buffers: Consumer<Vec<u8>>,
}

/// The captures of a worker.
#[derive(Default)]
pub(crate) struct Taps {
    list: Vec<Tap>,
}

impl Taps {
    /// Begins a capture.
    pub(crate) fn begin(&mut self, tap: Tap) {
        self.list.push(tap);
    }

    /// Packets are wanted.
    #[inline(always)]
    pub(crate) fn is_active(&self) -> bool {
        !self.list.is_empty()
    }

    /// Shows what was copied to readers, and ends captures without a reader.
    #[inline]
    pub(crate) fn flush(&mut self) {
        if self.is_active() {
            self.list.iter_mut().for_each(|tap| tap.copies.flush());
            self.list.retain(|tap| !tap.copies.is_abandoned());
        }
    }

    /// Copies what is wanted of the packets on their way into a node.
    #[cold]
    pub(crate) fn enter(&mut self, at: At<'_>, node: Node, vector: &mut Vector, frame: &Indices) {
        let root = at.root;
        for &place in frame.places() {
            let packet = &mut vector[place];
            match node {
                // Before this node, the field names the port; what the host sends by it comes in by no interface.
                Node::EthernetInput => {
                    let Some(port) = root.ports.get(packet.interface() as usize) else { continue };
                    if port.host == NONE {
                        let number = interface_of(root, packet).map_or(port.untagged, |(number, _)| number);
                        self.copy(at, packet, Way { interface: number, output: false, bare: false });
                    }
                }
                _ => {
                    let interface = packet.interface();
                    self.copy(at, packet, Way { interface, output: false, bare: true });
                }
            }
        }
    }

    /// Copies what is wanted of the frames that a node has taken out of tunnels, or given to the station of a bridge.
    #[cold]
    pub(crate) fn emerged(&mut self, at: At<'_>, node: Node, vector: &mut Vector, frame: &Indices) {
        for &place in frame.places() {
            let packet = &mut vector[place];
            let number = packet.interface();
            let is_new = match node {
                Node::TunnelDecap => {
                    let tunnel = at.root.tunnels.of(number);
                    packet.reason() == 0 && tunnel.is_some_and(|tunnel| tunnel.wanted.carrier.is_ethernet())
                }
                _ => at.root.interfaces.get(number as usize).is_some_and(|own| own.bridge.is_station()),
            };
            if is_new {
                self.copy(at, packet, Way { interface: number, output: false, bare: false });
            }
        }
    }

    /// Copies what is wanted of the packets that leave by their adjacencies.
    #[cold]
    pub(crate) fn leave(&mut self, at: At<'_>, vector: &mut Vector, frame: &Indices) {
        for &place in frame.places() {
            let packet = &mut vector[place];
            let Some(way) = at.root.adjacencies.get(packet.forwarding() as usize) else { continue };
            let ethernet = |number| at.root.tunnels.of(number).is_some_and(|own| own.wanted.carrier.is_ethernet());
            let bare = way.port == TUNNEL && !ethernet(way.interface);
            self.copy(at, packet, Way { interface: way.interface, output: true, bare });
        }
    }

    fn copy(&mut self, at: At<'_>, packet: &mut Packet, way: Way) {
        // Parts of a super-packet that were joined to it.
        if packet.is_empty() {
            return;
        }
        for tap in &mut self.list {
            let Wanted { filter, interface, input, output, .. } = &*tap.wanted;
            let wants = if way.output { *output } else { *input };
            if wants
                && interface.is_none_or(|own| own == way.interface)
                && filter.as_ref().is_none_or(|filter| is_match(filter, packet, way))
            {
                tap.take(at, packet, way);
            }
        }
    }
}

/// The moment at which packets are looked at.
#[derive(Clone, Copy)]
pub(crate) struct At<'a> {
    pub(crate) root: &'a Root,
    pub(crate) now: Time,
    pub(crate) worker: usize,
}

/// The way of a packet.
#[derive(Clone, Copy)]
struct Way {
    interface: u32,
    output: bool,
    bare: bool,
}

impl Tap {
    fn take(&mut self, at: At<'_>, packet: &Packet, way: Way) {
        let Some(counters) = self.counters.get(at.worker) else { return };
        counters.matched.add(1);
        if !self.limit.admit(at.now) {
            return counters.over_rate.add(1);
        }
        let mut free = None;
        self.buffers.pop(1, |buffer| free = Some(buffer));
        let Some(mut octets) = free else { return counters.no_room.add(1) };
        octets.clear();
        // The buffer has this room, so that nothing is allocated.
        let data = packet.data();
        octets.extend_from_slice(&data[..data.len().min(self.wanted.snap).min(octets.capacity())]);
        let Way { interface, output, bare } = way;
        let time = if output { at.now } else { packet.time().unwrap_or(at.now) };
        let copied = Copied { time, interface, output, bare, length: data.len(), octets };
        if self.copies.push(copied).is_err() {
            counters.no_room.add(1);
        }
    }
}

/// Returns whether a filter matches a packet as it stands. It is parsed for that, as its headers are others on its way out than they
/// were when it came; what is known of it for the graph stays.
fn is_match(filter: &Filter, packet: &mut Packet, way: Way) -> bool {
    let Some(parsed) = parsed(packet.data(), way.bare) else { return false };
    let (before, came_by) = (packet.parsed(), packet.interface());
    packet.set_parsed(&parsed);
    if !way.output {
        packet.set_interface(way.interface);
    }
    let is_match = matches(filter, packet);
    packet.set_parsed(&before);
    packet.set_interface(came_by);
    is_match
}

fn parsed(frame: &[u8], bare: bool) -> Option<Parsed> {
    let (l3, kind) = match bare {
        true => (0, if frame.first()? >> 4 == 4 { ethertype::IPV4 } else { ethertype::IPV6 }),
        false => {
            let L2 { l3, ethertype, .. } = parse::ethernet(frame).ok()?;
            (usize::from(l3), ethertype)
        }
    };
    match kind {
        ethertype::IPV4 => parse::ipv4(frame, l3).ok(),
        ethertype::IPV6 => parse::ipv6(frame, l3).ok(),
        _ => None,
    }
}
