//! Explicit congestion notification through a tunnel (RFC 6040).

use crate::checksum;
use crate::wire::{be16, ipv4};

/// Not ECN-capable transport.
pub const NOT_ECT: u8 = 0;
/// ECN-capable transport, ECT(1).
pub const ECT_1: u8 = 1;
/// ECN-capable transport, ECT(0).
pub const ECT_0: u8 = 2;
/// Congestion experienced.
pub const CE: u8 = 3;

/// Returns the field of the packet inside, 0 to 3, after its outer header with this field was taken off (RFC 6040, figure 4);
/// `None`: the packet is dropped, as its sender does not know of congestion marks.
#[inline]
#[must_use]
pub const fn decapsulate(inner: u8, outer: u8) -> Option<u8> {
    match (inner, outer) {
        (NOT_ECT, CE) => None,
        (NOT_ECT, _) | (CE, _) => Some(inner),
        (_, CE) => Some(CE),
        (ECT_0, ECT_1) => Some(ECT_1),
        _ => Some(inner),
    }
}

/// Writes the field into the header at the start of an IP packet, whose checksum follows.
pub fn write(packet: &mut [u8], ecn: u8) {
    match packet.first().map(|first| first >> 4) {
        Some(4) => {
            let Some(header) = packet.first_chunk_mut::<{ ipv4::LENGTH }>() else { return };
            let before = be16(header, ipv4::VERSION_IHL);
            header[ipv4::TOS] = header[ipv4::TOS] & !3 | ecn & 3;
            let (after, sum) = (be16(header, ipv4::VERSION_IHL), be16(header, ipv4::CHECKSUM));
            let sum = checksum::update_u16(sum, before, after);
            header[ipv4::CHECKSUM..][..2].copy_from_slice(&sum.to_be_bytes());
        }
        Some(6) => {
            if let Some(class) = packet.get_mut(1) {
                *class = *class & !0x30 | (ecn & 3) << 4;
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ipv6;

    #[test]
    fn the_table_of_rfc_6040() {
        let rows = [
            (NOT_ECT, [Some(NOT_ECT), Some(NOT_ECT), Some(NOT_ECT), None]),
            (ECT_0, [Some(ECT_0), Some(ECT_0), Some(ECT_1), Some(CE)]),
            (ECT_1, [Some(ECT_1), Some(ECT_1), Some(ECT_1), Some(CE)]),
            (CE, [Some(CE), Some(CE), Some(CE), Some(CE)]),
        ];
        for (inner, out) in rows {
            let columns = [NOT_ECT, ECT_0, ECT_1, CE].map(|outer| decapsulate(inner, outer));
            assert_eq!(columns, out, "{inner}");
        }
    }

    #[test]
    fn the_field_is_written_and_nothing_else() {
        for from in 0..4 {
            for to in 0..4 {
                let fields = ipv4::Fields {
                    tos: 0xb8 | from,
                    total_length: 20,
                    identification: 7,
                    dont_fragment: true,
                    more_fragments: false,
                    fragment_offset: 0,
                    ttl: 9,
                    protocol: 50,
                    source: [10, 0, 0, 1].into(),
                    destination: [10, 0, 0, 2].into(),
                };
                let mut header = fields.emit();
                write(&mut header, to);
                assert_eq!(header, ipv4::Fields { tos: 0xb8 | to, ..fields }.emit());
                let fields = ipv6::Fields {
                    traffic_class: 0xb8 | from,
                    flow_label: 0x12345,
                    payload_length: 0,
                    next_header: 50,
                    hop_limit: 9,
                    source: [1; 16].into(),
                    destination: [2; 16].into(),
                };
                let mut header = fields.emit();
                write(&mut header, to);
                assert_eq!(header, ipv6::Fields { traffic_class: 0xb8 | to, ..fields }.emit());
            }
        }
        write(&mut [], 1);
        write(&mut [0x45], 1);
    }
}
