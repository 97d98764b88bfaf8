//! Ways of frames out by an interface.

use weir_packet::packet::Packet;
use weir_packet::parse;
use weir_packet::segment;
use weir_packet::wire::ethernet;

use super::super::{Context, stage};
use super::frame::open_port;
use super::tags;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::bridge::Port;
use crate::root::sav::Meters;
use crate::root::{Interface, NONE, Root, acl, classify};

/// A limit lets so many frames of so many octets pass, which are one super-packet if they are several: all of them, or none.
#[cold]
pub(super) fn may(limit: &Meters, context: &Context<'_>, (frames, octets): (u64, u64)) -> bool {
    let lengths = std::iter::repeat_n(octets / frames.max(1), frames as usize);
    let mut passes = frames > 0;
    limit.take(0, limit.clock(context.now), lengths, |_, own| passes &= own);
    passes
}

/// Has a frame leave by an interface: returns the node that it goes to.
#[inline(never)]
pub(in super::super) fn leave(root: &Root, packet: &mut Packet, interface: &Interface) -> Result<Node, Reason> {
    let adjacency = root.adjacencies.get(interface.on_link as usize).ok_or(Reason::NoPort)?;
    if is_too_long(packet, interface) {
        return Err(Reason::MtuExceeded);
    }
    tags::put_on(packet, adjacency)?;
    packet.set_forwarding(interface.on_link);
    Ok(stage::bridged(interface, packet))
}

/// The interface that frames leave by, looked up once for each run of frames to it.
pub(super) struct Egresses<'r> {
    root: &'r Root,
    number: u32,
    found: Option<Egress<'r>>,
}

/// An interface that frames leave by.
#[derive(Clone, Copy)]
pub(super) struct Egress<'r> {
    interface: &'r Interface,
    /// Its frames have no tags, and pass no lists and no tables on their way out.
    is_plain: bool,
}

impl<'r> Egresses<'r> {
    pub(super) fn new(root: &'r Root) -> Self {
        Egresses { root, number: NONE, found: None }
    }

    /// The interface of a port, if frames may leave by it.
    #[inline(always)]
    pub(super) fn of(&mut self, port: &Port) -> Option<Egress<'r>> {
        if port.interface != self.number {
            self.number = port.interface;
            self.found = open_port(self.root, port).map(|interface| Egress::of(self.root, interface));
        }
        self.found
    }
}

impl<'r> Egress<'r> {
    #[inline]
    fn of(root: &Root, interface: &'r Interface) -> Self {
        let untagged = root.adjacencies.get(interface.on_link as usize).is_some_and(|own| tags::octets(own) == 0);
        let lists = [interface.acl_out.v4, interface.acl_out.v6].iter().any(|&own| own != acl::NONE);
        Egress { interface, is_plain: untagged && !lists && interface.classify_out == classify::NONE }
    }

    /// Has a frame leave by the interface: returns the node that it goes to.
    #[inline(always)]
    pub(super) fn leave(&self, root: &Root, packet: &mut Packet) -> Result<Node, Reason> {
        if !self.is_plain || is_too_long(packet, self.interface) {
            return leave(root, packet, self.interface);
        }
        packet.set_forwarding(self.interface.on_link);
        Ok(Node::Output)
    }
}

/// A frame carries more than the MTU of an interface.
#[inline(always)]
pub(super) fn is_too_long(packet: &Packet, interface: &Interface) -> bool {
    packet.len() > interface.mtu as usize + ethernet::LENGTH && exceeds(packet, interface)
}

/// The same of a frame that is longer than a packet of that MTU: tags of the customer and segments count not as they seem.
#[cold]
fn exceeds(packet: &Packet, interface: &Interface) -> bool {
    let l3 = parse::ethernet(packet.data()).map_or(ethernet::LENGTH, |l2| usize::from(l2.l3));
    segment::longest(packet) + packet.l3_offset() > l3 + interface.mtu as usize
}
