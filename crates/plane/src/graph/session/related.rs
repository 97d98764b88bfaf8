//! ICMP errors: the packet that one quotes, and its session.

use weir_packet::checksum;
use weir_packet::offload::Checksum;
use weir_packet::packet::Packet;
use weir_packet::parse::{self, ParseFlags};
use weir_packet::wire::{icmpv4, icmpv6, ipv6, protocol};

use super::tuple::{Tuple, identifier, query};
use crate::root::family::Family;

/// The tuple of the packet that an ICMP error quotes. `None` if the packet is no such error (destination unreachable, packet too big, time exceeded, parameter problem), or quotes a packet that it does not identify:
/// the error is not for its source, one of the two headers' checksums is wrong, it is a later fragment, or its ports are cut off.
#[cold]
pub(crate) fn quoted<K: Family>(packet: &Packet, zone: u16) -> Option<Tuple<K>> {
    let frame = packet.data();
    let quoted = parse::quoted(&packet.parsed(), frame)?;
    let header = frame.get(usize::from(quoted.l3)..)?;
    let length = usize::from(quoted.l4.checked_sub(quoted.l3)?);
    let kind = *packet.parsed().transport(frame).first()?;
    let is_error = match K::IS_V4 {
        true => {
            matches!(kind, icmpv4::kind::UNREACHABLE | icmpv4::kind::TIME_EXCEEDED | icmpv4::kind::PARAMETER_PROBLEM)
        }
        false => (icmpv6::kind::UNREACHABLE..=icmpv6::kind::PARAMETER_PROBLEM).contains(&kind),
    };
    // ICMPv6 has no other guard against errors that were damaged on their way.
    if !is_error || !is_intact(packet) {
        return None;
    }
    if quoted.flags.contains(ParseFlags::LATER_FRAGMENT) || K::IS_V4 && checksum::of(header.get(..length)?) != 0 {
        return None;
    }
    let (source, destination) = K::endpoints(header)?;
    let (_, to) = K::endpoints(packet.l3())?;
    if source != to {
        return None;
    }
    let protocol = quoted.protocol;
    let (words, query) = match quoted.ports(frame) {
        Some((source, destination)) => ([source, destination], 0),
        None => query::<K>(protocol, || {
            let (kind, _) = quoted.icmp(frame)?;
            Some((kind, identifier(quoted.transport(frame))?))
        })?,
    };
    Some(Tuple { source, destination, words, protocol, query, zone })
}

/// The checksum of an ICMP message is right, or its sender leaves it to us.
pub(crate) fn is_intact(packet: &Packet) -> bool {
    if packet.offload().checksum != Checksum::Unknown {
        return true;
    }
    let parsed = packet.parsed();
    let message = parsed.transport(packet.data());
    let Ok(length) = u32::try_from(message.len()) else { return false };
    if packet.flags().contains(ParseFlags::IP4) {
        return checksum::is_valid(message);
    }
    let Ok(header) = ipv6::Header::new(packet.l3()) else { return false };
    checksum::pseudo_v6(header.source(), header.destination(), protocol::ICMPV6, length).bytes(message).is_valid()
}
