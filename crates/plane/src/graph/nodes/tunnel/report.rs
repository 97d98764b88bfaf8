//! ICMP errors about packets of tunnels. One that says that a packet was too long lowers the path MTU of its tunnel, if what it quotes
//! is a packet of the tunnel, identifier included: who does not see the packets cannot forge that.

use weir_packet::packet::Packet;
use weir_packet::parse::{self, ParseFlags};
use weir_packet::wire::{icmpv4, icmpv6};

use super::super::Context;
use super::arrival::sent;
use super::path;
use crate::graph::record::Fate;

/// The code of ICMP "fragmentation needed" (RFC 1191, 4).
const FRAGMENTATION_NEEDED: u8 = 4;

/// Takes in an ICMP error for the gateway that says that a packet of a tunnel was too long; false for any other packet.
#[cold]
pub(in super::super) fn learn(context: &mut Context<'_>, packet: &Packet) -> bool {
    let Some((kind, code)) = packet.parsed().icmp(packet.data()) else { return false };
    let v4 = packet.flags().contains(ParseFlags::IP4);
    let is_too_long = match v4 {
        true => (kind, code) == (icmpv4::kind::UNREACHABLE, FRAGMENTATION_NEEDED),
        false => kind == icmpv6::kind::PACKET_TOO_BIG,
    };
    if !is_too_long || !is_valid(packet) {
        return false;
    }
    let Some(quoted) = parse::quoted(&packet.parsed(), packet.data()) else { return false };
    let Some(tunnel) = sent(context.root, packet, &quoted) else { return false };
    let Some(&[_, _, _, _, a, b, c, d]) = packet.l4_header::<8>() else { return false };
    let mtu = if v4 { u32::from(u16::from_be_bytes([c, d])) } else { u32::from_be_bytes([a, b, c, d]) };
    // Routers of before RFC 1191 give no MTU: their errors lower nothing.
    if mtu != 0 {
        path::lower(context, tunnel, mtu as usize);
    }
    context.counters.local.add(1);
    context.record(packet, Fate::Local);
    true
}

/// The checksum of an ICMP message is right.
fn is_valid(packet: &Packet) -> bool {
    use weir_packet::checksum;
    use weir_packet::wire::{ipv6, protocol};
    let message = packet.parsed();
    let message = message.transport(packet.data());
    if packet.flags().contains(ParseFlags::IP4) {
        return checksum::is_valid(message);
    }
    let Ok(header) = ipv6::Header::new(packet.l3()) else { return false };
    let (source, destination) = (header.source(), header.destination());
    checksum::pseudo_v6(source, destination, protocol::ICMPV6, message.len() as u32).bytes(message).is_valid()
}
