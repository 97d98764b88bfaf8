//! The Internet checksum (RFC 1071) and its incremental update (RFC 1624).
//!
//! A checksum is the complement of the one's-complement sum of 16-bit words. Such a sum has two zeros, 0x0000 and
//! 0xffff; over bytes that are not all zero it comes out as 0xffff, never as 0x0000, so that the checksum of a real
//! header is 0x0000 ..= 0xfffe. Updates here keep to that form, so that an updated checksum equals a recomputed one,
//! bit for bit. Values are in host order: store them with `to_be_bytes`.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::offload::{Checksum, Gso, Offload};
use crate::packet::Packet;
use crate::wire::{ipv4, ipv6};

/// A one's-complement sum on its way.
///
/// The words are added in the machine's own byte order and turned at the end: the sum does not care (RFC 1071 section
/// 2(B)), and no load has to be swapped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    #[inline]
    pub const fn new() -> Sum {
        Sum(0)
    }

    /// Adds bytes; an odd last byte counts as padded with a zero, so only the last part of a message may be odd.
    #[inline]
    pub fn bytes(self, bytes: &[u8]) -> Sum {
        // Folded after every part, `self.0` stays below 2^17 and the sum of 2^31 words of 32 bits below 2^63 + 2^17.
        // Slices of more than 8 GiB would wrap (without a panic); a packet has 64 KiB.
        let (blocks, rest) = bytes.as_chunks::<32>();
        let mut lanes = [0u64; 8];
        for block in blocks {
            let (words, _) = block.as_chunks::<4>();
            for (lane, word) in lanes.iter_mut().zip(words) {
                *lane = lane.wrapping_add(u64::from(u32::from_ne_bytes(*word)));
            }
        }
        let mut sum = lanes.iter().fold(self.0, |sum, lane| sum.wrapping_add(*lane));
        let (words, rest) = rest.as_chunks::<4>();
        for word in words {
            sum = sum.wrapping_add(u64::from(u32::from_ne_bytes(*word)));
        }
        let mut last = [0; 4];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        sum = sum.wrapping_add(u64::from(u32::from_ne_bytes(last)));
        Sum((sum & 0xffff_ffff) + (sum >> 32)).shorter()
    }

    /// Adds a 16-bit word.
    #[inline]
    pub const fn word(self, value: u16) -> Sum {
        Sum(self.0 + value.to_be() as u64).shorter()
    }

    /// Adds a 32-bit word.
    #[inline]
    pub const fn long(self, value: u32) -> Sum {
        Sum(self.0 + value.to_be() as u64).shorter()
    }

    /// The same sum below 2^17.
    #[inline(always)]
    const fn shorter(self) -> Sum {
        let sum = (self.0 & 0xffff) + (self.0 >> 16);
        Sum((sum & 0xffff) + (sum >> 16))
    }

    /// The sum itself, folded to 16 bits: 0xffff over a message whose checksum is right.
    #[inline]
    pub const fn folded(self) -> u16 {
        let sum = (self.0 & 0xffff) + (self.0 >> 16);
        u16::from_be(((sum & 0xffff) + (sum >> 16)) as u16)
    }

    /// The checksum to store: the complement of the sum.
    #[inline]
    pub const fn checksum(self) -> u16 {
        !self.folded()
    }

    /// Whether the bytes that were added hold their checksum, and it is right.
    #[inline]
    pub const fn is_valid(self) -> bool {
        self.folded() == 0xffff
    }
}

/// The checksum of bytes whose checksum field holds zero.
#[inline]
pub fn of(bytes: &[u8]) -> u16 {
    Sum::new().bytes(bytes).checksum()
}

/// Whether bytes that hold their checksum, and no pseudo-header, are right.
#[inline]
pub fn is_valid(bytes: &[u8]) -> bool {
    Sum::new().bytes(bytes).is_valid()
}

/// Whether the checksum of an IPv4 header without options is right: five loads, and one multiplication in place of the
/// folds. To fold is to take the remainder by 0xffff, and a right sum folds to 0xffff: it is a multiple, other than
/// zero.
#[inline]
pub fn is_valid_ipv4(header: &[u8; ipv4::LENGTH]) -> bool {
    let (words, _) = header.as_chunks::<4>();
    let sum: u64 = words.iter().map(|word| u64::from(u32::from_ne_bytes(*word))).sum();
    sum.is_multiple_of(0xffff) && sum != 0
}

/// The pseudo-header of TCP, UDP and the like over IPv4 (RFC 9293 section 3.1). `length` is that of the transport
/// header and its payload in octets.
#[inline]
pub fn pseudo_v4(source: Ipv4Addr, destination: Ipv4Addr, protocol: u8, length: u16) -> Sum {
    Sum::new().long(source.to_bits()).long(destination.to_bits()).word(u16::from(protocol)).word(length)
}

/// The pseudo-header of an upper layer over IPv6 (RFC 8200 section 8.1). `length` is that of the upper-layer header
/// and its payload in octets.
#[inline]
pub fn pseudo_v6(source: Ipv6Addr, destination: Ipv6Addr, protocol: u8, length: u32) -> Sum {
    Sum::new().bytes(&source.octets()).bytes(&destination.octets()).long(length).word(u16::from(protocol))
}

/// What a UDP sender stores for a checksum: zero says that there is none, so a sum of zero goes as 0xffff (RFC 768).
#[inline]
pub const fn udp(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

/// A change of fields under a checksum (RFC 1624 equation 3). One value serves every checksum that covers the
/// changed fields: NAT applies the same to the IP header and, with the ports added, to the transport header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Delta(u16);

impl Delta {
    /// No change.
    pub const NONE: Delta = Delta(0);

    /// A 16-bit field at an even place changes.
    #[inline]
    pub const fn word(old: u16, new: u16) -> Delta {
        Delta(add(!old, new))
    }

    /// A 32-bit field at an even place changes.
    #[inline]
    pub const fn long(old: u32, new: u32) -> Delta {
        Delta::word((old >> 16) as u16, (new >> 16) as u16).and(Delta::word(old as u16, new as u16))
    }

    /// A 128-bit field at an even place changes.
    #[inline]
    pub const fn wide(old: u128, new: u128) -> Delta {
        Delta::long((old >> 96) as u32, (new >> 96) as u32)
            .and(Delta::long((old >> 64) as u32, (new >> 64) as u32))
            .and(Delta::long((old >> 32) as u32, (new >> 32) as u32))
            .and(Delta::long(old as u32, new as u32))
    }

    /// Both changes.
    #[inline]
    pub const fn and(self, other: Delta) -> Delta {
        Delta(add(self.0, other.0))
    }

    /// The checksum after the change. Equal to a recomputed one as long as the bytes under it are not all zero, which
    /// an IP header or a pseudo-header rules out.
    #[inline]
    pub const fn apply(self, checksum: u16) -> u16 {
        let sum = add(!checksum, self.0);
        // A zero sum stands for 0xffff (see the top of this file): reached only from a checksum of 0xffff.
        if sum == 0 { 0 } else { !sum }
    }

    /// The UDP checksum after the change: absent stays absent, and what comes out as zero goes as 0xffff.
    #[inline]
    pub const fn apply_udp(self, checksum: u16) -> u16 {
        if checksum == 0 { 0 } else { udp(self.apply(checksum)) }
    }
}

/// One's-complement addition.
#[inline(always)]
const fn add(a: u16, b: u16) -> u16 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u16
}

/// The checksum after a 16-bit field at an even place changed from `old` to `new`.
#[inline]
pub const fn update_u16(checksum: u16, old: u16, new: u16) -> u16 {
    Delta::word(old, new).apply(checksum)
}

/// The checksum after a 32-bit field at an even place changed from `old` to `new`.
#[inline]
pub const fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    Delta::long(old, new).apply(checksum)
}

/// Takes one from the TTL of an IPv4 header and mends its checksum. Returns the TTL that is left; `None`, with nothing
/// changed, if the TTL was zero already or `header` is shorter than a header.
#[inline]
pub fn decrement_ttl(header: &mut [u8]) -> Option<u8> {
    let header = header.first_chunk_mut::<{ ipv4::LENGTH }>()?;
    let ttl = header[ipv4::TTL].checked_sub(1)?;
    header[ipv4::TTL] = ttl;
    // TTL is the upper octet of its word, which goes down by 0x100, so the checksum goes up by it, end-around. A sum of
    // 0xffff wraps as well: that is the zero that checksums do not use.
    let [a, b] = [header[ipv4::CHECKSUM], header[ipv4::CHECKSUM + 1]];
    let sum = u32::from(u16::from_be_bytes([a, b])) + 0x100;
    let checksum = (sum + u32::from(sum >= 0xffff)) as u16;
    header[ipv4::CHECKSUM..][..2].copy_from_slice(&checksum.to_be_bytes());
    Some(ttl)
}

/// Takes one from the hop limit of an IPv6 header. Returns the hop limit that is left; `None`, with nothing changed, if
/// it was zero already or `header` is shorter than a header.
#[inline]
pub fn decrement_hop_limit(header: &mut [u8]) -> Option<u8> {
    let header = header.first_chunk_mut::<{ ipv6::LENGTH }>()?;
    header[ipv6::HOP_LIMIT] = header[ipv6::HOP_LIMIT].checked_sub(1)?;
    Some(header[ipv6::HOP_LIMIT])
}

/// Completes the transport checksum that a network card or the kernel left undone ([`Checksum::Partial`]): the field
/// holds the pseudo-header's sum, and what is from [`Offload::start`] to the end of the frame is added to it. The state is
/// then [`Checksum::Unknown`]: whoever receives the packet verifies it as any other. A sum of zero goes as 0xffff, which
/// UDP needs and which is the same to all others. SCTP's is a CRC32c, which no pseudo-header goes into
/// ([`Offload::is_crc`]).
///
/// Packets in any other state stay as they are, and so do those that are still to be segmented: each segment gets a
/// checksum of its own when it is cut. A field that is not in the frame is one that nobody can complete: such a packet
/// only changes its state.
pub fn complete(packet: &mut Packet) {
    let offload = packet.offload();
    if offload.checksum != Checksum::Partial || offload.gso != Gso::None {
        return;
    }
    let (start, offset) = (usize::from(offload.start), usize::from(offload.offset));
    if let Some(covered) = packet.data_mut().get_mut(start..) {
        if offload.is_crc() {
            complete_crc(covered, offset);
        } else if covered.len() >= offset + 2 {
            let checksum = udp(of(covered));
            covered[offset..offset + 2].copy_from_slice(&checksum.to_be_bytes());
        }
    }
    packet.set_offload(Offload { checksum: Checksum::Unknown, start: 0, offset: 0, ..offload });
}

/// RFC 9260, 6.8 and appendix A: over the packet with zeros in the field, least octet first.
#[cold]
fn complete_crc(packet: &mut [u8], offset: usize) {
    if let Some(field) = packet.get_mut(offset..offset + 4) {
        field.fill(0);
        let crc = crc32c::crc32c(packet);
        packet[offset..offset + 4].copy_from_slice(&crc.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::buffer::{Pool, PoolSize};
    use crate::parse;
    use crate::text::{Macs, PacketText};
    use crate::wire::{MacAddress, protocol};

    /// RFC 1071 to the letter: 16-bit words, one after the other, in network order.
    fn naive(bytes: &[u8]) -> u16 {
        bytes.chunks(2).fold(0, |sum, word| add(sum, u16::from_be_bytes([word[0], word.get(1).copied().unwrap_or(0)])))
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
