//! The packets that captures want: as they come in, in front of the parser, and as they leave, in front of the ports.

use weir_packet::packet::Packet;
use weir_packet::parse::{self, L2, Parsed};
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::ethernet::ethertype;

use super::Context;
use super::ethernet_input::interface_of;
use super::fields::matches;
use crate::graph::capture::{Wanted, Way};
use crate::graph::trace::Filter;
use crate::node::Node;
use crate::root::{BRIDGE, NONE, TUNNEL};

/// Copies what is wanted of the packets on their way into a node.
#[cold]
pub(crate) fn enter(context: &mut Context<'_>, node: Node, vector: &mut Vector, frame: &Indices) {
    let root = context.root;
    for &place in frame.places() {
        let packet = &mut vector[place];
        if node != Node::EthernetInput {
            let interface = packet.interface();
            copy(context, packet, Way { interface, output: false, portless: false, bare: true });
            continue;
        }
        // Before this node, the field names the port; what the host sends by it comes in by no interface.
        let Some(port) = root.ports.get(packet.interface() as usize) else { continue };
        if port.host == NONE {
            let number = interface_of(root, packet).map_or(port.untagged, |(number, _)| number);
            copy(context, packet, Way { interface: number, output: false, portless: false, bare: false });
        }
    }
}

/// Copies what is wanted of the frames that a node has taken out of tunnels, or given to the station of a bridge.
#[cold]
pub(crate) fn emerged(context: &mut Context<'_>, node: Node, vector: &mut Vector, frame: &Indices) {
    let root = context.root;
    for &place in frame.places() {
        let packet = &mut vector[place];
        let number = packet.interface();
        let is_new = match node {
            Node::TunnelDecap => {
                let tunnel = root.tunnels.of(number);
                packet.reason() == 0 && tunnel.is_some_and(|tunnel| tunnel.wanted.carrier.is_ethernet())
            }
            _ => root.interfaces.get(number as usize).is_some_and(|own| own.bridge.is_station()),
        };
        if is_new {
            copy(context, packet, Way { interface: number, output: false, portless: false, bare: false });
        }
    }
}

/// Copies what is wanted of the packets that leave by their adjacencies.
#[cold]
pub(super) fn leave(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let root = context.root;
    for &place in frame.places() {
        let packet = &mut vector[place];
        let Some(way) = root.adjacencies.get(packet.forwarding() as usize) else { continue };
        let ethernet = |number| root.tunnels.of(number).is_some_and(|own| own.wanted.carrier.is_ethernet());
        let bare = way.port == TUNNEL && !ethernet(way.interface);
        let portless = matches!(way.port, TUNNEL | BRIDGE);
        copy(context, packet, Way { interface: way.interface, output: true, portless, bare });
    }
}

fn copy(context: &mut Context<'_>, packet: &mut Packet, way: Way) {
    // Parts of a super-packet that were joined to it.
    if packet.is_empty() {
        return;
    }
    let moment = (context.worker, context.now);
    for tap in context.taps.each() {
        let Wanted { filter, interface, input, output, portless, .. } = &*tap.wanted;
        let wants = if way.output { *output && (way.portless || !*portless) } else { *input };
        if wants
            && interface.is_none_or(|own| own == way.interface)
            && filter.as_ref().is_none_or(|filter| is_match(filter, packet, way))
        {
            tap.take(moment, packet, way);
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
