//! ICMP errors: the packet that one quotes, and its session.

use weir_packet::checksum;
use weir_packet::packet::Packet;
use weir_packet::parse::{self, ParseFlags};

use super::tuple::{Tuple, identifier, query};
use crate::root::family::Family;

/// The tuple of the packet that an ICMP error quotes. `None` if the packet is no error, or quotes a packet that it does not identify:
/// the error is not for its source, its IPv4 header is not intact, it is a fragment, or its ports are cut off.
#[cold]
pub(crate) fn quoted<K: Family>(packet: &Packet, zone: u16) -> Option<Tuple<K>> {
    let frame = packet.data();
    let quoted = parse::quoted(&packet.parsed(), frame)?;
    let header = frame.get(usize::from(quoted.l3)..)?;
    let length = usize::from(quoted.l4.checked_sub(quoted.l3)?);
    if quoted.flags.contains(ParseFlags::FRAGMENT) || K::IS_V4 && checksum::of(header.get(..length)?) != 0 {
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
