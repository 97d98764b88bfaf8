//! Checksums of packets that were in ESP in UDP in transport mode (RFC 3948, 3.1.2). A NAT on the way translates the outer addresses,
//! and the pseudo-header inside has them. Nobody says here which ones the sender had, so the checksum is written anew: the ICV has
//! shown that the octets are the sender's.

use weir_packet::checksum;
use weir_packet::wire::{ipv4, ipv6, protocol, tcp, udp};

/// Writes the checksum of TCP or UDP at `l4` for the addresses that a packet has now. A datagram without one stays without.
#[cold]
pub(super) fn recompute(packet: &mut [u8], l4: usize, number: u8) {
    let Some((headers, rest)) = packet.split_at_mut_checked(l4) else { return };
    let (at, octets) = match number {
        protocol::TCP => (tcp::CHECKSUM, rest.len()),
        protocol::UDP => match rest.first_chunk::<{ udp::LENGTH }>() {
            Some(header) if header[udp::CHECKSUM..][..2] != [0, 0] => {
                // Padding may follow.
                (udp::CHECKSUM, usize::from(u16::from_be_bytes([header[4], header[5]])))
            }
            _ => return,
        },
        _ => return,
    };
    let Some(covered) = rest.get_mut(..octets).filter(|covered| covered.len() >= at + 2) else { return };
    let pseudo = match headers.first().map(|first| first >> 4) {
        // A packet of IPv4 is not longer.
        Some(4) => ipv4::Header::new(headers)
            .map(|header| checksum::pseudo_v4(header.source(), header.destination(), number, octets as u16))
            .ok(),
        _ => ipv6::Header::new(headers)
            .map(|header| checksum::pseudo_v6(header.source(), header.destination(), number, octets as u32))
            .ok(),
    };
    let Some(pseudo) = pseudo else { return };
    covered[at..at + 2].fill(0);
    let sum = pseudo.bytes(covered).checksum();
    let sum = if number == protocol::UDP { checksum::udp(sum) } else { sum };
    covered[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}
