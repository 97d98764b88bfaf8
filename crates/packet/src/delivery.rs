//! Delivery of IPv6 packets to the node that they are for: its walk over their extension headers (RFC 8200 section 4).
//!
//! [`ipv6::walk`] finds the transport header of any packet, for policies. A destination does more. It processes the
//! headers in their order, discards packets if a header requires it, and reports unrecognised headers. It walks over no
//! header that it does not implement, such as AH.

use crate::wire::icmpv6::parameter_problem;
use crate::wire::{be16, ipv6, protocol};

/// The payload of a packet whose extension headers have all been processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Payload {
    /// Its protocol: nothing that [`payload`] walks over.
    pub protocol: u8,
    /// Where it starts, in octets from the start of the IPv6 header.
    pub at: usize,
    /// Where the octet lies that names the protocol, from the start of the IPv6 header.
    pub named_at: usize,
}

/// Why the headers of a packet end its delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Undeliverable {
    /// Its source gets a parameter problem.
    #[error("parameter problem, code {code}, at octet {pointer}")]
    Problem {
        /// See [`parameter_problem`].
        code: u8,
        /// The octet at fault, from the start of the IPv6 header.
        pointer: u32,
    },
    /// It is discarded in silence: an option says so, a header is not whole, or it is a fragment.
    #[error("discarded in silence")]
    Silent,
}

fn problem(code: u8, pointer: usize) -> Undeliverable {
    // Below 2^17: a payload has at most 65,535 octets.
    Undeliverable::Problem { code, pointer: pointer as u32 }
}

/// Processes the extension headers of a packet that is for this node, and finds its payload. `packet` starts with the IPv6
/// header and has passed [`crate::parse::ipv6`].
///
/// - Hop-by-hop and destination options: `options`.
/// - Routing headers with segments left are refused, whatever their type (RFC 8200 section 4.4; RFC 5095 for type 0); others
///   are ignored.
/// - An atomic fragment is processed as if its fragment header were not there (RFC 6946).
///
/// # Errors
/// The first header that ends the delivery.
pub fn payload(packet: &[u8]) -> Result<Payload, Undeliverable> {
    let header = ipv6::Header::new(packet).map_err(|_| Undeliverable::Silent)?;
    let end = ipv6::LENGTH + usize::from(header.payload_length());
    let packet = packet.get(..end).ok_or(Undeliverable::Silent)?;
    let group = header.destination().is_multicast();
    let mut payload = Payload { protocol: header.next_header(), at: ipv6::LENGTH, named_at: ipv6::NEXT_HEADER };
    loop {
        let start = match payload.protocol {
            protocol::HOP_BY_HOP | protocol::DESTINATION_OPTIONS | protocol::ROUTING | protocol::FRAGMENT => {
                packet.get(payload.at..).and_then(<[u8]>::first_chunk::<8>).ok_or(Undeliverable::Silent)?
            }
            _ => return Ok(payload),
        };
        let length = match payload.protocol {
            protocol::FRAGMENT => ipv6::FRAGMENT_LENGTH,
            _ => (usize::from(start[1]) + 1) * 8,
        };
        let whole = packet.get(payload.at..payload.at + length).ok_or(Undeliverable::Silent)?;
        match payload.protocol {
            // The offset and the flag of more fragments: not atomic.
            protocol::FRAGMENT if be16(start, 2) & 0xfff9 != 0 => return Err(Undeliverable::Silent),
            protocol::FRAGMENT => {}
            // The type is followed by the segments left.
            protocol::ROUTING if start[3] != 0 => {
                return Err(problem(parameter_problem::ERRONEOUS_FIELD, payload.at + 2));
            }
            protocol::ROUTING => {}
            _ => options(whole, payload.at, group)?,
        }
        payload = Payload { protocol: start[0], at: payload.at + length, named_at: payload.at };
    }
}

/// Processes the options of a header that starts at octet `at` of its packet. Only padding is recognised: the two highest
/// bits of any other type say what is due (RFC 8200 section 4.2). `group`: the packet is for a multicast address.
fn options(header: &[u8], at: usize, group: bool) -> Result<(), Undeliverable> {
    const PAD1: u8 = 0;
    const PADN: u8 = 1;
    let mut offset = 2;
    while let Some(&kind) = header.get(offset) {
        if kind == PAD1 {
            offset += 1;
            continue;
        }
        if kind != PADN {
            let unrecognized = problem(parameter_problem::UNRECOGNIZED_OPTION, at + offset);
            match kind >> 6 {
                0b00 => {}
                0b10 => return Err(unrecognized),
                0b11 if !group => return Err(unrecognized),
                _ => return Err(Undeliverable::Silent),
            }
        }
        let length = header.get(offset + 1).ok_or(Undeliverable::Silent)?;
        offset += 2 + usize::from(*length);
    }
    // The last option ends where its header does, or the lengths contradict each other.
    if offset == header.len() { Ok(()) } else { Err(Undeliverable::Silent) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A packet for a unicast address whose headers are these: numbers, each with the octets behind its next header.
    fn packet(headers: &[(u8, &[u8])], last: u8) -> Vec<u8> {
        let mut payload = Vec::new();
        for (index, (_, rest)) in headers.iter().enumerate() {
            payload.push(headers.get(index + 1).map_or(last, |next| next.0));
            payload.extend_from_slice(rest);
            assert!(payload.len().is_multiple_of(8));
        }
        payload.extend_from_slice(&[0xaa; 12]);
        let fields = ipv6::Fields {
            traffic_class: 0,
            flow_label: 0,
            payload_length: payload.len() as u16,
            next_header: headers.first().map_or(last, |first| first.0),
            hop_limit: 64,
            source: "2001:db8::1".parse().unwrap(),
            destination: "2001:db8::2".parse().unwrap(),
        };
        [&fields.emit()[..], &payload].concat()
    }

    const ICMPV6: u8 = protocol::ICMPV6;
    const HOP: u8 = protocol::HOP_BY_HOP;
    const DESTINATION: u8 = protocol::DESTINATION_OPTIONS;
    const ROUTING: u8 = protocol::ROUTING;
    const FRAGMENT: u8 = protocol::FRAGMENT;
    const PADDED: &[u8] = &[0, 1, 4, 0, 0, 0, 0];

    fn refused(headers: &[(u8, &[u8])]) -> Undeliverable {
        payload(&packet(headers, ICMPV6)).unwrap_err()
    }

    #[test]
    fn a_packet_without_extension_headers_is_its_payload() {
        for number in [protocol::TCP, protocol::UDP, ICMPV6, protocol::NO_NEXT_HEADER, protocol::ESP, 253] {
            let found = payload(&packet(&[], number));
            assert_eq!(found, Ok(Payload { protocol: number, at: 40, named_at: 6 }));
        }
    }

    #[test]
    fn headers_that_change_nothing_are_walked_over() {
        let atomic: &[u8] = &[0, 0, 0, 1, 2, 3, 4];
        let reserved_bits: &[u8] = &[9, 0, 6, 1, 2, 3, 4];
        for headers in [
            &[(HOP, PADDED)][..],
            &[(DESTINATION, PADDED)],
            &[(FRAGMENT, atomic)],
            &[(FRAGMENT, reserved_bits)],
            // Router alert, and tunnel encapsulation limit: to be skipped by who does not know them.
            &[(HOP, &[0, 5, 2, 0, 0, 0, 0])],
            &[(DESTINATION, &[0, 4, 1, 5, 1, 1, 0])],
            // No segments left, of a known type and of an unknown one.
            &[(ROUTING, &[0, 0, 0, 0, 0, 0, 0])],
            &[(ROUTING, &[0, 200, 0, 1, 2, 3, 4])],
            &[
                (HOP, PADDED),
                (DESTINATION, PADDED),
                (ROUTING, &[0, 4, 0, 0, 0, 0, 0]),
                (FRAGMENT, atomic),
                (DESTINATION, PADDED),
            ],
        ] {
            let found = payload(&packet(headers, ICMPV6)).unwrap();
            let at = 40 + 8 * headers.len();
            assert_eq!(found, Payload { protocol: ICMPV6, at, named_at: at - 8 }, "{headers:?}");
        }
    }

    #[test]
    fn routing_headers_with_segments_left_are_problems_of_their_type() {
        for kind in 0..=255 {
            let routing = [0, kind, 1, 0, 0, 0, 0];
            assert_eq!(refused(&[(ROUTING, &routing)]), Undeliverable::Problem { code: 0, pointer: 42 });
            // The first header that is at fault decides.
            assert_eq!(
                refused(&[(HOP, PADDED), (ROUTING, &routing), (DESTINATION, &[0, 0xc9, 0, 1, 2, 0, 0])]),
                Undeliverable::Problem { code: 0, pointer: 50 }
            );
        }
    }

    #[test]
    fn the_highest_bits_of_an_unknown_option_decide() {
        for number in [HOP, DESTINATION] {
            for kind in 2..=255u8 {
                // Behind an octet of padding.
                let mut bytes = packet(&[(number, &[0, 0, kind, 3, 1, 2, 3])], ICMPV6);
                let code = |pointer| Err(Undeliverable::Problem { code: 2, pointer });
                let (host, group) = match kind >> 6 {
                    0 => (Ok(48), Ok(48)),
                    1 => (Err(Undeliverable::Silent), Err(Undeliverable::Silent)),
                    2 => (code(43), code(43)),
                    _ => (code(43), Err(Undeliverable::Silent)),
                };
                assert_eq!(payload(&bytes).map(|found| found.at), host, "{kind:#x}");
                bytes[ipv6::DESTINATION] = 0xff;
                assert_eq!(payload(&bytes).map(|found| found.at), group, "{kind:#x} to a group");
            }
        }
    }

    #[test]
    fn what_is_not_whole_is_silent() {
        // An option longer than its header, one without a length, a header longer than the packet, and real fragments.
        for (number, rest) in [
            (DESTINATION, &[0, 1, 9, 0, 0, 0, 0]),
            (DESTINATION, &[0, 1, 3, 0, 0, 0, 5]),
            (DESTINATION, &[9, 1, 4, 0, 0, 0, 0]),
            (FRAGMENT, &[0, 0, 1, 1, 2, 3, 4]),
            (FRAGMENT, &[0, 0, 8, 1, 2, 3, 4]),
        ] {
            assert_eq!(refused(&[(number, rest)]), Undeliverable::Silent);
        }
        let whole = packet(&[(DESTINATION, PADDED)], ICMPV6);
        for length in 0..whole.len() {
            assert_eq!(payload(&whole[..length]), Err(Undeliverable::Silent));
        }
    }

    #[test]
    fn headers_that_are_not_implemented_are_payloads() {
        for number in [protocol::AH, protocol::MOBILITY, protocol::SCTP] {
            let found = payload(&packet(&[(DESTINATION, PADDED), (number, PADDED)], ICMPV6)).unwrap();
            assert_eq!((found.protocol, found.at, found.named_at), (number, 48, 40));
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..120), next in 0u8..61) {
            let mut bytes = bytes;
            if let Some(header) = bytes.get_mut(..8) {
                let octets = [0x60, 0, 0, 0, 0, 60, next, 64];
                header.copy_from_slice(&octets);
            }
            if let Ok(found) = payload(&bytes) {
                prop_assert!(found.at <= bytes.len() && found.named_at < found.at);
                prop_assert_eq!(bytes[found.named_at], found.protocol);
            }
        }
    }
}
