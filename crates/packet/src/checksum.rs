//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).
//!
//! A checksum is the complement of the one's-complement sum of 16-bit words. Such a sum has two zeros, 0x0000 and
//! 0xffff; over bytes that are not all zero it comes out as 0xffff, never as 0x0000, so that the checksum of a real
//! header is 0x0000 ..= 0xfffe. Updates here keep to that form, so that an updated checksum equals a recomputed one,
//! bit for bit. Values are in host order: store them with `to_be_bytes`.

mod complete;
mod header;
mod sum;
mod wide;

pub use complete::complete;
pub use header::{decrement_hop_limit, decrement_ttl, is_valid_ipv4};
pub use sum::{Delta, Sum, is_valid, of, pseudo_v4, pseudo_v6, udp, update_u16, update_u32};

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use std::net::Ipv4Addr;

    use super::sum::add;
    use super::*;
    use crate::buffer::{Pool, PoolSize};
    use crate::offload::{Checksum, Gso, Offload};
    use crate::packet::Packet;
    use crate::parse;
    use crate::text::{Macs, PacketText};
    use crate::wire::{MacAddress, protocol};
    use crate::wire::{ipv4, ipv6};

    /// RFC 1071 to the letter: 16-bit words, one after the other, in network order.
    fn naive(bytes: &[u8]) -> u16 {
        bytes.chunks(2).fold(0, |sum, word| add(sum, u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)])))
    }

    #[test]
    fn a_sum_beside_a_copy_is_the_sum_and_a_copy() {
        let bytes: Vec<u8> = (0..200u32).map(|octet| ((octet * 7919) >> 3) as u8).collect();
        for (start, length) in (0..3).flat_map(|start| (0..150).map(move |length| (start, length))) {
            let mut copy = vec![0xaa; length];
            let from = &bytes[start..start + length];
            assert_eq!(Sum::new().word(7).copied(from, &mut copy).folded(), Sum::new().word(7).bytes(from).folded());
            assert_eq!(copy, from);
        }
    }

    /// Words with a preference for those where one's complement is odd.
    fn words() -> impl Strategy<Value = u16> {
        prop_oneof![Just(0), Just(1), Just(0xfffe), Just(0xffff), Just(0x0100), Just(0xfeff), any::<u16>()]
    }

    #[test]
    fn the_example_of_rfc_1071() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::new().bytes(&bytes).folded(), 0xddf2);
        assert_eq!(of(&bytes), !0xddf2);
        assert_eq!(of(&[]), 0xffff);
        assert_eq!(Sum::new().bytes(&[0xff; 65_535]).folded(), naive(&[0xff; 65_535]));
    }

    /// A frame whose transport checksum is left to be completed, as the kernel gives them, and what it is to become.
    fn partial(text: &str) -> (Packet, Vec<u8>) {
        let macs = Macs { from: MacAddress([2; 6]), to: MacAddress([4; 6]) };
        let whole = text.parse::<PacketText>().unwrap().frame(macs);
        let parsed = if whole[14] >> 4 == 4 { parse::ipv4(&whole, 14) } else { parse::ipv6(&whole, 14) }.unwrap();
        let (l4, packet) = (usize::from(parsed.l4), parsed.packet(&whole));
        let offset = if parsed.protocol == protocol::TCP { 16 } else { 6 };
        let length = (whole.len() - l4) as u16;
        let pseudo = match ipv4::Header::new(packet).unwrap() {
            ip if ip.version() == 4 => pseudo_v4(ip.source(), ip.destination(), parsed.protocol, length),
            _ => {
                let ip = ipv6::Header::new(packet).unwrap();
                pseudo_v6(ip.source(), ip.destination(), parsed.protocol, length.into())
            }
        };
        let mut cache = Pool::new(PoolSize { small: 1, large: 1 }).unwrap().cache();
        let mut packet = Packet::copy_of(&mut cache, &whole).unwrap();
        packet.data_mut()[l4 + offset..l4 + offset + 2].copy_from_slice(&pseudo.folded().to_be_bytes());
        let offload =
            Offload { checksum: Checksum::Partial, start: parsed.l4, offset: offset as u16, ..Offload::default() };
        packet.set_offload(offload);
        (packet, whole)
    }

    #[test]
    fn what_was_left_undone_is_completed() {
        for text in [
            "udp from 10.0.0.1 port 1 to 10.0.0.2 port 2 length 101",
            "tcp from 10.0.0.1 port 1 to 10.0.0.2 port 2 length 9000",
            "udp from 2001:db8::1 port 1 to 2001:db8::2 port 2 length 1001",
            "tcp from 2001:db8::1 port 1 to 2001:db8::2 port 2",
        ] {
            let (mut packet, whole) = partial(text);
            assert_ne!(packet.data(), whole);
            // Wherever the frame starts.
            packet.push(8).unwrap();
            complete(&mut packet);
            assert_eq!(packet.data()[8..], whole, "{text}");
            assert_eq!(packet.offload(), Offload::default());
            // Once is enough.
            complete(&mut packet);
            assert_eq!(packet.data()[8..], whole);
        }
        // A sum of zero says "none" in UDP: it goes as the other zero.
        let (mut packet, _) = partial("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2");
        let sum = Sum::new().bytes(&packet.data()[34..]).folded();
        let last = packet.len() - 6;
        let port = u16::from_be_bytes([packet.data()[last], packet.data()[last + 1]]);
        packet.data_mut()[last..last + 2].copy_from_slice(&add(port, !sum).to_be_bytes());
        complete(&mut packet);
        assert_eq!(packet.data()[40..42], [0xff, 0xff]);
    }

    #[test]
    fn sctp_has_a_checksum_of_another_kind() {
        let mut cache = Pool::new(PoolSize { small: 1, large: 1 }).unwrap().cache();
        // RFC 3720, B.4: 32 octets of zeros have the CRC 8a9136aa.
        for (length, field) in [(34 + 32, [0xaa, 0x36, 0x91, 0x8a]), (34 + 11, [0; 4])] {
            let mut packet = Packet::copy_of(&mut cache, &vec![0; length]).unwrap();
            // What was in the field before does not count.
            packet.data_mut()[34 + 8..][..2].fill(0x55);
            let offload = Offload { checksum: Checksum::Partial, start: 34, offset: 8, ..Offload::default() };
            packet.set_offload(offload);
            assert!(offload.is_crc());
            complete(&mut packet);
            assert_eq!(packet.offload(), Offload::default());
            if length == 34 + 32 {
                assert_eq!(packet.data()[34 + 8..][..4], field);
                assert!(packet.data()[34 + 12..].iter().all(|&octet| octet == 0));
            } else {
                assert_eq!(packet.data()[34 + 8..], [0x55, 0x55, 0], "cut inside the field: left");
            }
            assert!(packet.data()[..34 + 8].iter().all(|&octet| octet == 0));
            packet.recycle(&mut cache);
        }
    }

    #[test]
    fn what_can_not_be_completed_is_left() {
        let (mut packet, _) = partial("tcp from 10.0.0.1 port 1 to 10.0.0.2 port 2");
        let before = packet.data().to_vec();
        let offload = packet.offload();
        // Each segment gets its own.
        let gso = Offload { gso: Gso::Tcp4, segment: 1448, ..offload };
        packet.set_offload(gso);
        complete(&mut packet);
        assert_eq!((packet.data(), packet.offload()), (&before[..], gso));
        for (start, offset) in [(53, 0), (54, 0), (34, 19), (u16::MAX, 0), (0, u16::MAX)] {
            packet.set_offload(Offload { start, offset, ..offload });
            complete(&mut packet);
            assert_eq!((packet.data(), packet.offload()), (&before[..], Offload::default()), "{start} {offset}");
        }
    }

    #[test]
    fn the_ttl_counts_down_under_every_checksum() {
        // The identification runs through all values, and with it the checksum; 0x0000 comes up, 0xffff never does.
        let mut seen_zero = false;
        for ttl in [1, 2, 64, 128, 255] {
            for identification in 0..=u16::MAX {
                let fields = ipv4::Fields {
                    tos: 0,
                    total_length: 20,
                    identification,
                    dont_fragment: false,
                    more_fragments: false,
                    fragment_offset: 0,
                    ttl,
                    protocol: 6,
                    source: Ipv4Addr::new(10, 0, 0, 1),
                    destination: Ipv4Addr::new(192, 0, 2, 9),
                };
                let mut header = fields.emit();
                seen_zero |= header[10..12] == [0, 0];
                assert_eq!(decrement_ttl(&mut header), Some(ttl - 1));
                assert_eq!(header, ipv4::Fields { ttl: ttl - 1, ..fields }.emit());
            }
        }
        assert!(seen_zero);
    }

    #[test]
    fn zeros_are_not_right() {
        assert!(!is_valid_ipv4(&[0; 20]) && !is_valid(&[0; 20]) && is_valid_ipv4(&[0xff; 20]));
    }

    #[test]
    fn the_other_zero_is_mended() {
        // A peer may send 0xffff where 0x0000 is meant; it is right, and stays right.
        let mut header = [0u8; 20];
        header[0] = 0x45;
        header[8] = 9;
        let rest = !of(&header);
        header[4..6].copy_from_slice(&(!rest).to_be_bytes());
        header[10..12].copy_from_slice(&[0xff, 0xff]);
        assert!(is_valid(&header));
        assert_eq!(decrement_ttl(&mut header), Some(8));
        assert!(is_valid(&header));
    }

    #[test]
    fn nothing_to_count_down() {
        let mut header = [0x45; 20];
        header[ipv4::TTL] = 0;
        assert_eq!(decrement_ttl(&mut header), None);
        assert_eq!(decrement_ttl(&mut header[..19]), None);
        let mut header = [0; 40];
        assert_eq!(decrement_hop_limit(&mut header), None);
        header[ipv6::HOP_LIMIT] = 2;
        assert_eq!(decrement_hop_limit(&mut header), Some(1));
        assert_eq!(header[ipv6::HOP_LIMIT], 1);
        assert_eq!(decrement_hop_limit(&mut header[..39]), None);
    }

    #[test]
    fn udp_has_a_way_to_say_none() {
        assert_eq!((udp(0), udp(1), udp(0xffff)), (0xffff, 1, 0xffff));
        assert_eq!(Delta::word(1, 2).apply_udp(0), 0);
        assert_eq!(Delta::word(0x1234, 0x1235).apply_udp(1), 0xffff);
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_parts(bytes in proptest::collection::vec(any::<u8>(), 0..300), cuts in any::<[u8; 2]>()) {
            let whole = Sum::new().bytes(&bytes);
            prop_assert_eq!(whole.folded(), naive(&bytes));
            let first = (usize::from(cuts[0]) & !1).min(bytes.len() & !1);
            let second = (first + (usize::from(cuts[1]) & !1)).min(bytes.len() & !1);
            let parts = Sum::new().bytes(&bytes[..first]).bytes(&bytes[first..second]).bytes(&bytes[second..]);
            prop_assert_eq!(parts.folded(), whole.folded());
        }

        #[test]
        fn words_are_bytes(a in words(), b in words(), c in any::<u32>()) {
            let mut bytes = [a.to_be_bytes(), b.to_be_bytes()].concat();
            bytes.extend_from_slice(&c.to_be_bytes());
            prop_assert_eq!(Sum::new().word(a).word(b).long(c).folded(), naive(&bytes));
        }

        #[test]
        fn an_update_equals_recomputation(
            mut message in proptest::collection::vec(words(), 20),
            new in proptest::collection::vec(words(), 8),
            at in 0usize..12,
        ) {
            let bytes = |message: &[u16]| message.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>();
            // What an IP header or pseudo-header guarantees: not all zero, before and after.
            message[0] |= 0x4000;
            let at = at + 1;
            let wide = |words: &[u16]| words[..8].iter().fold(0u128, |value, word| value << 16 | u128::from(*word));
            let old = message.clone();
            let checksum = of(&bytes(&old));

            message[at] = new[0];
            prop_assert_eq!(update_u16(checksum, old[at], new[0]), of(&bytes(&message)));
            message[at + 1] = new[1];
            let long = |words: &[u16]| u32::from(words[0]) << 16 | u32::from(words[1]);
            prop_assert_eq!(update_u32(checksum, long(&old[at..]), long(&new)), of(&bytes(&message)));
            message[at..at + 8].copy_from_slice(&new);
            let delta = Delta::wide(wide(&old[at..]), wide(&new));
            prop_assert_eq!(delta.apply(checksum), of(&bytes(&message)));
            prop_assert_eq!(delta.and(Delta::NONE).apply(checksum), delta.apply(checksum));
        }

        #[test]
        fn a_header_is_right_or_wrong(mut header in any::<[u8; 20]>(), bit in 0usize..160) {
            header[0] = 0x45;
            header[10..12].fill(0);
            let checksum = of(&header);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            prop_assert!(is_valid_ipv4(&header) && is_valid(&header));
            header[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(!is_valid_ipv4(&header) && !is_valid(&header));
        }

        #[test]
        fn both_ways_to_verify_agree(words in proptest::collection::vec(words(), 10)) {
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            let header: &[u8; 20] = bytes.first_chunk().unwrap();
            prop_assert_eq!(is_valid_ipv4(header), is_valid(header));
            prop_assert_eq!(is_valid(header), naive(header) == 0xffff);
        }

        #[test]
        fn pseudo_headers(
            source in any::<u128>(),
            destination in any::<u128>(),
            payload in proptest::collection::vec(any::<u8>(), 0..64),
        ) {
            let length = 8 + payload.len();
            let (source_port, destination_port, checksum) = (1, 2, 0);
            let udp_header =
                etherparse::UdpHeader { source_port, destination_port, length: length as u16, checksum };
            let message = [udp_header.to_bytes().to_vec(), payload.clone()].concat();
            let (from, to) = ((source as u32).to_be_bytes(), (destination as u32).to_be_bytes());
            let ours = pseudo_v4(from.into(), to.into(), 17, length as u16).bytes(&message).checksum();
            prop_assert_eq!(udp(ours), udp_header.calc_checksum_ipv4_raw(from, to, &payload).unwrap());
            let (from, to) = (source.to_be_bytes(), destination.to_be_bytes());
            let ours = pseudo_v6(from.into(), to.into(), 17, length as u32).bytes(&message).checksum();
            prop_assert_eq!(udp(ours), udp_header.calc_checksum_ipv6_raw(from, to, &payload).unwrap());
        }
    }
}
