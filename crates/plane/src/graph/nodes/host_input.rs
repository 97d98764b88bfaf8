//! `host-input`: what the host sends by a punt device leaves by the interface that the device stands for. The kernel has
//! routed it and knows its neighbours: nothing is looked up, and nothing changed but for the tags of a VLAN interface.

use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::ethernet;

use super::Context;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::Root;

pub(super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    for &place in frame.places() {
        let packet = &mut vector[place];
        match ready(context.root, packet) {
            Ok(()) => context.next.push(Node::Output, place),
            Err(reason) => context.next.refuse(packet, place, reason),
        }
    }
}

fn ready(root: &Root, packet: &mut Packet) -> Result<(), Reason> {
    let interface = root.interfaces.get(packet.interface() as usize).ok_or(Reason::InterfaceGone)?;
    let adjacency = root.adjacencies.get(interface.on_link as usize).filter(|adjacency| adjacency.l2_len > 0);
    let adjacency = adjacency.ok_or(Reason::NoPort)?;
    if packet.len() < ethernet::LENGTH {
        return Err(Reason::TruncatedEthernet);
    }
    if packet.len() - ethernet::LENGTH > adjacency.mtu as usize
        && packet.offload().gso == weir_packet::offload::Gso::None
    {
        return Err(Reason::MtuExceeded);
    }
    // The tags stand between the addresses and the type.
    let tags = &adjacency.l2[ethernet::ETHERTYPE..usize::from(adjacency.l2_len) - 2];
    if !tags.is_empty() {
        let room = packet.push(tags.len()).map_err(|_| Reason::NoHeadroom)?.len();
        let data = packet.data_mut();
        data.copy_within(room..room + ethernet::ETHERTYPE, 0);
        data[ethernet::ETHERTYPE..][..room].copy_from_slice(tags);
    }
    packet.set_forwarding(interface.on_link);
    Ok(())
}
