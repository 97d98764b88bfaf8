//! Super-packets with octets that are not what they should be, in tunnels and out of them: each is refused, or cut as it was counted.

use proptest::prelude::*;
use weir_packet::buffer::{Cache, Pool, PoolSize};
use weir_packet::offload::{Checksum, Gso, Offload};
use weir_packet::packet::Packet;
use weir_packet::parse;
use weir_packet::segment::{self, Segmenter};
use weir_packet::text::{Macs, PacketText};
use weir_packet::wire::MacAddress;

/// A frame of this text.
fn frame(text: &str) -> Vec<u8> {
    let macs = Macs { from: MacAddress([2, 0, 0, 0, 0, 1]), to: MacAddress([2, 0, 0, 0, 0, 2]) };
    text.parse::<PacketText>().unwrap_or_else(|error| panic!("{text}: {error}")).frame(macs)
}

/// A super-packet, and one in a tunnel: the frame, where the inner transport header is, and the kind.
fn wholes(payload: usize) -> Vec<(Vec<u8>, u16, Gso)> {
    let mut all = Vec::new();
    for (text, headers, l4, gso) in [
        ("tcp from 10.0.0.1 port 1 to 10.0.0.2 port 2 flags psh,ack", 40, 34, Gso::Tcp4),
        ("tcp from 2001:db8::1 port 1 to 2001:db8::2 port 2 flags ack", 60, 54, Gso::Tcp6),
        ("udp from 10.0.0.1 port 1 to 10.0.0.2 port 2", 28, 34, Gso::Udp),
    ] {
        let inner = frame(&format!("{text} length {}", headers + payload));
        for (outer, front, header) in [
            ("udp from 10.1.0.1 port 5 to 10.1.0.2 port 4789", 42, &[8, 0, 0, 0, 0, 0, 1, 0][..]),
            ("udp from 2001:db8:1::1 port 5 to 2001:db8:1::2 port 6081", 62, &[0, 0, 0x65, 0x58, 0, 0, 1, 0]),
        ] {
            let length = front - 14 + header.len() + inner.len();
            let mut whole = frame(&format!("{outer} length {length}"));
            whole[front..front + header.len()].copy_from_slice(header);
            whole[front + header.len()..].copy_from_slice(&inner);
            all.push((whole, (front + header.len() + l4) as u16, gso));
        }
        all.push((inner, l4 as u16, gso));
    }
    all
}

/// Cuts a packet, if it can be; checks the pieces against the count.
fn cut(cache: &mut Cache, octets: &[u8], offload: Offload) -> Option<usize> {
    let mut packet = Packet::copy_of(cache, octets)?;
    let parsed = match octets.get(14).map(|first| first >> 4) {
        Some(4) => parse::ipv4(octets, 14).ok(),
        _ => parse::ipv6(octets, 14).ok(),
    };
    let pieces = parsed.and_then(|parsed| {
        packet.set_parsed(&parsed);
        packet.truncate(usize::from(parsed.l3) + parsed.l3_length as usize);
        packet.set_offload(offload);
        let (packets, octets) = segment::on_wire(&packet);
        assert!(packets >= 1 && octets as usize >= packet.len());
        let longest = segment::longest(&packet);
        let mut segmenter = Segmenter::new(&packet).ok()?;
        assert_eq!(segmenter.count(), packets as usize);
        let (mut sum, mut pieces) = (0, 0);
        while let Some(length) = segmenter.next_length() {
            let mut piece = vec![0; length];
            assert_eq!(segmenter.next(&mut piece), Some(length));
            assert!(length <= longest);
            (sum, pieces) = (sum + 14 + length, pieces + 1);
        }
        assert_eq!(sum, octets as usize);
        Some(pieces)
    });
    packet.recycle(cache);
    pieces
}

#[test]
fn whole_ones_are_cut() {
    let mut cache = Pool::new(PoolSize { small: 8, large: 8 }).unwrap().cache();
    for (octets, start, gso) in wholes(5000) {
        let offset = if gso == Gso::Udp { 6 } else { 16 };
        let offload = Offload { checksum: Checksum::Partial, gso, segment: 1000, start, offset };
        assert_eq!(cut(&mut cache, &octets, offload), Some(5), "{gso:?} {start}");
    }
}

proptest! {
    #[test]
    fn what_lies_is_refused_or_cut_as_it_counts(
        which in 0usize..9,
        payload in 0usize..3000,
        changes in proptest::collection::vec((0usize..140, any::<u8>()), 0..4),
        segment in prop_oneof![Just(0u16), Just(1), Just(100), any::<u16>()],
        (moved, gso) in (prop_oneof![Just(0i16), -40i16..60], prop_oneof![Just(Gso::Tcp4), Just(Gso::Tcp6), Just(Gso::Udp)]),
        right in any::<bool>(),
        end in prop_oneof![Just(usize::MAX), 0usize..200],
    ) {
        let mut cache = Pool::new(PoolSize { small: 8, large: 8 }).unwrap().cache();
        let (mut octets, start, own) = wholes(payload).swap_remove(which);
        for (at, octet) in changes {
            if let Some(to) = octets.get_mut(at) {
                *to ^= octet;
            }
        }
        octets.truncate(end);
        let gso = if right { own } else { gso };
        let start = if right { start } else { start.wrapping_add_signed(moved) };
        let offset = if gso == Gso::Udp { 6 } else { 16 };
        let _ = cut(&mut cache, &octets, Offload { checksum: Checksum::Partial, gso, segment, start, offset });
    }
}
