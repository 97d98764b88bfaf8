//! Parsing: whatever the bytes, no panic, and what a parse says is present is present.

use weir_packet::checksum;
use weir_packet::parse::{self, Malformed, ParseFlags, Parsed, Seed, flow_hash, symmetric_hash};
use weir_packet::text::summary;
use weir_packet::wire::{arp, icmpv4, ipv4, ipv6, tcp, udp};

/// The target.
pub(crate) fn fuzz(frame: &[u8]) {
    assert!(!summary(frame).to_string().is_empty());
    let _ = arp::Fields::parse(frame);
    let starts = match parse::ethernet(frame) {
        Ok(l2) => {
            assert!(usize::from(l2.l3) <= frame.len());
            assert!(l2.tags.outer.is_some() || l2.tags.inner.is_none());
            [0, usize::from(l2.l3)]
        }
        Err(_) => [0, 0],
    };
    for l3 in starts {
        for parsed in [parse::ipv4(frame, l3), parse::ipv6(frame, l3)].into_iter().flatten() {
            check(frame, l3, &parsed);
        }
        let mut mended = frame.to_vec();
        if mend(&mut mended[l3..]).is_some() {
            assert_ne!(parse::ipv4(&mended, l3), Err(Malformed::BadChecksum));
            if let Ok(parsed) = parse::ipv4(&mended, l3) {
                check(&mended, l3, &parsed);
            }
        }
    }
}

/// Makes the checksum of an IPv4 header right, which fuzzing would hardly find.
fn mend(packet: &mut [u8]) -> Option<()> {
    let length = usize::from(packet.first()? & 0xf) * 4;
    let header = packet.get_mut(..length.max(20))?;
    header[10..12].fill(0);
    let checksum = checksum::of(header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    Some(())
}

fn check(frame: &[u8], l3: usize, parsed: &Parsed) {
    let has = |flag| parsed.flags.contains(flag);
    let packet = parsed.packet(frame);
    assert_eq!((usize::from(parsed.l3), packet.len()), (l3, parsed.l3_length as usize));
    let end = l3 + packet.len();
    assert!(parsed.l4 == 0 || (l3 + 20..=end).contains(&usize::from(parsed.l4)));
    assert!(has(ParseFlags::IP4) != has(ParseFlags::IP6));
    assert!(!has(ParseFlags::LATER_FRAGMENT) || (has(ParseFlags::FRAGMENT) && parsed.l4 == 0));

    let transport = parsed.transport(frame);
    assert_eq!(parsed.ports(frame).is_some() || parsed.icmp(frame).is_some(), has(ParseFlags::L4));
    if has(ParseFlags::L4_HEADER) {
        assert!(has(ParseFlags::L4));
        match parsed.protocol {
            6 => assert_eq!(Some(tcp::Header::new(transport).unwrap().flags()), parsed.tcp_flags(frame)),
            17 => assert!(udp::Header::new(transport).is_ok()),
            1 | 58 => assert!(icmpv4::Header::new(transport).is_ok()),
            _ => {}
        }
    }

    if has(ParseFlags::IP4) {
        let header = ipv4::Header::new(packet).unwrap();
        assert_eq!(header.is_fragment(), has(ParseFlags::FRAGMENT));
        let mut at = 20;
        for option in ipv4::options(&packet[..header.header_length()]) {
            let Ok(option) = option else { break };
            assert_eq!(usize::from(option.pointer), at);
            at += option.bytes.len();
        }
        assert!(at <= header.header_length());
    } else {
        let walk = ipv6::walk(packet).unwrap();
        assert_eq!(walk.protocol, parsed.protocol);
        assert!(walk.l4.is_none_or(|at| at + l3 == usize::from(parsed.l4)));
        assert_eq!(packet[walk.pointer], walk.protocol);
    }

    // The other direction has the same symmetric hash, unless an SPI distinguishes the directions.
    let seed = Seed::new([1, 2]);
    flow_hash(parsed, frame, &seed);
    let (at, length) = if has(ParseFlags::IP4) { (l3 + 12, 4) } else { (l3 + 8, 16) };
    let mut back = frame.to_vec();
    back[at..at + 2 * length].rotate_left(length);
    if parsed.ports(frame).is_some() {
        back[usize::from(parsed.l4)..][..4].rotate_left(2);
    }
    if parsed.protocol != 50 {
        assert_eq!(symmetric_hash(parsed, frame, &seed), symmetric_hash(parsed, &back, &seed));
    }
}
