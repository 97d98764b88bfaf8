//! `host-input`: what the host sends by a punt device leaves by the interface that the device stands for. The kernel has
//! routed it and knows its neighbours: nothing is looked up, and nothing changed but for the tags of a VLAN interface.
//!
//! If the interface has an SPD, packets of IP match it as all packets that leave do (RFC 4301, 5.1).

use weir_packet::packet::Packet;
use weir_packet::parse;
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::ethernet::{self, ethertype};

use super::ip_input::set_parsed;
use super::spd::Sent;
use super::{Context, esp, icmp_error, punt, snoop};
use crate::graph::flags::ORIGINATED;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::{Root, spd};

/// `pieces` is empty before and after.
pub(super) fn run(context: &mut Context<'_>, pieces: &mut Vector, vector: &mut Vector, frame: &Indices) {
    for &place in frame.places() {
        let packet = &mut vector[place];
        snoop::sent(context, packet);
        let sent = secure(context, packet, place).and_then(|sent| match sent {
            Sent::Clear => ready(context.root, packet).map(|()| Some(Node::Output)),
            Sent::Protected(sa) => {
                if let Some(mtu) = esp::exceeded_by_host(context, packet, sa) {
                    packet.set_mtu(mtu);
                    tell(context, pieces, packet);
                    return Err(Reason::MtuExceeded);
                }
                packet.set_forwarding(sa);
                packet.add_state(ORIGINATED);
                Ok(Some(Node::EspEncrypt))
            }
            Sent::Gone => Ok(None),
        });
        match sent {
            Ok(Some(node)) => context.next.push(node, place),
            Ok(None) => {}
            Err(reason) => context.next.refuse(packet, place, reason),
        }
    }
    punt::send_copies(context, pieces);
}

/// Reports to the host the MTU for a packet that does not fit with ESP around it (RFC 4301, 8.2.1).
#[cold]
fn tell(context: &mut Context<'_>, errors: &mut Vector, packet: &Packet) {
    let Some(mut error) = icmp_error::for_host(context, packet) else { return };
    error.inherit(packet);
    context.counters.created.add(1);
    // Each packet of a vector makes one at most.
    let _ = errors.push(error);
}

/// Matches a packet against the SPD of the interface, if there is one.
fn secure(context: &mut Context<'_>, packet: &mut Packet, place: u8) -> Result<Sent, Reason> {
    let interface = context.root.interfaces.get(packet.interface() as usize);
    if interface.is_none_or(|interface| interface.spd == spd::NONE) {
        return Ok(Sent::Clear);
    }
    let ethertype = packet.data().get(ethernet::ETHERTYPE..ethernet::LENGTH).unwrap_or_default();
    let parsed = match *ethertype {
        [0x08, 0x00] => parse::ipv4(packet.data(), ethernet::LENGTH),
        [0x86, 0xdd] => parse::ipv6(packet.data(), ethernet::LENGTH),
        // Tags would hide a packet of IP.
        [0x81, 0x00] | [0x88, 0xa8] | [0x91, 0x00] => return Err(Reason::SpdNoMatch),
        // ARP, and whatever else is not of IP.
        _ => return Ok(Sent::Clear),
    };
    // A packet that no policy can be held against does not leave.
    let parsed = parsed.map_err(|_| Reason::SpdNoMatch)?;
    set_parsed(packet, &parsed);
    super::spd::send(context, packet, place)
}

/// Finds the headers of a super-packet, by which it leaves as it is or in segments. Of a packet without them it would seem that its
/// state is about a packet inside.
#[cold]
fn parse_super(packet: &mut Packet) {
    let Ok(l2) = parse::ethernet(packet.data()) else { return };
    let parsed = match l2.ethertype {
        ethertype::IPV4 => parse::ipv4(packet.data(), l2.l3.into()),
        ethertype::IPV6 => parse::ipv6(packet.data(), l2.l3.into()),
        _ => return,
    };
    // Others are dropped where they are to be cut.
    if let Ok(parsed) = parsed {
        packet.set_parsed(&parsed);
    }
}

fn ready(root: &Root, packet: &mut Packet) -> Result<(), Reason> {
    let interface = root.interfaces.get(packet.interface() as usize).ok_or(Reason::InterfaceGone)?;
    let adjacency = root.adjacencies.get(interface.on_link as usize).filter(|adjacency| adjacency.l2_len > 0);
    let adjacency = adjacency.ok_or(Reason::NoPort)?;
    if packet.len() < ethernet::LENGTH {
        return Err(Reason::TruncatedEthernet);
    }
    if packet.is_to_be_segmented() {
        parse_super(packet);
    } else if packet.len() - ethernet::LENGTH > adjacency.mtu as usize {
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
