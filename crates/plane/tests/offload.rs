//! Offloads of cards and the kernel: partial checksums and super-packets.

#[path = "offload/apart.rs"]
mod apart;
#[path = "offload/outer.rs"]
mod outer;

use std::sync::{Arc, Mutex};

use crate::kit::*;
use weir_base::clock::Time;
use weir_packet::buffer::{Cache, Pool, PoolSize};
use weir_packet::offload::{Checksum, Gso, Offload};
use weir_packet::packet::Packet;
use weir_packet::segment::Segmenter;
use weir_packet::vector::{Indices, Vector};
use weir_packet::{checksum, parse};
use weir_plane::harness::{Harness, Options, Verdict};
use weir_plane::model::Merge;
use weir_plane::reason::Reason;
use weir_port::{Segmentation, Transmitter};

type Sent = Arc<Mutex<Vec<(Vec<u8>, Offload)>>>;

/// Keeps what is sent, with its state, and takes these super-packets.
struct Keeping(Sent, Option<Segmentation>);

impl Transmitter for Keeping {
    fn transmit(&mut self, vector: &mut Vector, frame: &Indices, _: &mut Indices, _: &mut Cache, _: Time) -> usize {
        let packets = frame.places().iter().map(|&place| (vector[place].data().to_vec(), vector[place].offload()));
        self.0.lock().unwrap().extend(packets);
        frame.len()
    }

    fn segmentation(&self) -> Option<Segmentation> {
        self.1
    }
}

struct Offloading {
    harness: Harness,
    sent: Sent,
}

impl Offloading {
    fn new(build: Build) -> Offloading {
        Offloading::taking(build, None)
    }

    /// A gateway whose ports take these super-packets, and have the gateway cut others; `None`: they keep what they are given.
    fn taking(build: Build, takes: Option<Segmentation>) -> Offloading {
        let harness = Harness::new(build.0, Options { seed: 7, invent_neighbors: true }).unwrap();
        let mut rig = Offloading { harness, sent: Sent::default() };
        for index in 0..rig.harness.model().interfaces.len() as u32 {
            if rig.harness.port_of(index) == index {
                rig.harness.connect(index, Box::new(Keeping(Arc::clone(&rig.sent), takes)));
            }
        }
        rig
    }

    fn frame(&self, text: &str) -> Vec<u8> {
        frame(text, weir_packet::wire::MacAddress(self.harness.interface_mac(0).unwrap()))
    }

    fn put(&mut self, frame: &[u8], offload: Offload) -> (Verdict, Vec<(Vec<u8>, Offload)>) {
        assert!(self.harness.inject_offloaded(0, frame, offload, Time(1), 1));
        let outcomes = self.harness.run();
        assert_eq!(self.harness.conservation().imbalance(), 0);
        (outcomes[0].verdict, std::mem::take(&mut *self.sent.lock().unwrap()))
    }
}

/// Leaves the sum of the pseudo-header in the checksum of a frame's transport header; what it was is the second.
fn partial(whole: &[u8]) -> (Vec<u8>, Offload) {
    let parsed = if whole[14] >> 4 == 4 { parse::ipv4(whole, 14) } else { parse::ipv6(whole, 14) }.unwrap();
    let offset: u16 = match parsed.protocol {
        6 => 16,
        17 => 6,
        _ => 2,
    };
    let at = usize::from(parsed.l4 + offset);
    let mut frame = whole.to_vec();
    frame[at..at + 2].fill(0);
    // Whatever is added to the sum of the rest to give the right checksum is the pseudo-header's.
    let rest = checksum::Sum::new().bytes(&frame[usize::from(parsed.l4)..]).folded();
    let right = u16::from_be_bytes([whole[at], whole[at + 1]]);
    let pseudo = checksum::Sum::new().word(!right).word(!rest).folded();
    frame[at..at + 2].copy_from_slice(&pseudo.to_be_bytes());
    (frame, Offload { checksum: Checksum::Partial, start: parsed.l4, offset, ..Offload::default() })
}

#[test]
fn the_place_of_a_checksum_moves_with_the_headers_in_front_of_it() {
    let mut rig = Offloading::new(
        Build::new()
            .port("lan", &["10.0.0.1/24", "2001:db8:a::1/64"])
            .port("trunk", &[])
            .vlan("v", "trunk", &[7], &["10.7.0.1/24", "2001:db8:7::1/64"])
            .vlan("q", "trunk", &[100, 7], &["10.107.0.1/24", "2001:db8:107::1/64"])
            .port("plain", &["10.9.0.1/24", "2001:db8:9::1/64"]),
    );
    for (from, to, link) in [
        ("10.0.0.2", "10.7.0.2", 18),
        ("10.0.0.2", "10.107.0.2", 22),
        ("10.0.0.2", "10.9.0.2", 14),
        ("2001:db8:a::2", "2001:db8:7::2", 18),
        ("2001:db8:a::2", "2001:db8:107::2", 22),
        ("2001:db8:a::2", "2001:db8:9::2", 14),
    ] {
        for (protocol, length) in [("tcp", 1000), ("udp", 333)] {
            let whole = rig.frame(&format!("{protocol} from {from} port 1 to {to} port 2 length {length}"));
            let (frame, offload) = partial(&whole);
            let (verdict, sent) = rig.put(&frame, offload);
            let [(out, left)] = &sent[..] else { panic!("{} frames", sent.len()) };
            assert_eq!(verdict, Verdict::Forward);
            assert_eq!(*left, Offload { start: offload.start - 14 + link, ..offload });
            // Completing the checksum there gives the right one.
            let at = usize::from(left.start);
            let place = at + usize::from(left.offset);
            let sum = checksum::udp(checksum::of(&out[at..])).to_be_bytes();
            let original = place - usize::from(link) + 14;
            assert_eq!(sum, whole[original..original + 2]);
        }
    }
}

#[test]
fn what_is_cut_answered_or_quoted_is_completed_before() {
    let mut build = two_ports();
    build.0.interfaces[0].mtu = 9000;
    let mut rig = Offloading::new(build);
    let data = |whole: &mut Vec<u8>| {
        // Not all zero, so that a checksum matters.
        whole[60..].iter_mut().enumerate().for_each(|(index, octet)| *octet = index as u8);
        whole[40..42].fill(0);
        let sum = checksum::pseudo_v4([10, 0, 0, 2].into(), [198, 51, 100, 9].into(), 17, (whole.len() - 34) as u16);
        let sum = checksum::udp(sum.bytes(&whole[34..]).checksum());
        whole[40..42].copy_from_slice(&sum.to_be_bytes());
    };
    // Cut.
    let mut whole = rig.frame("udp from 10.0.0.2 port 1 to 198.51.100.9 port 2 length 4000");
    data(&mut whole);
    let (frame, offload) = partial(&whole);
    assert_ne!(frame, whole);
    let (_, sent) = rig.put(&frame, offload);
    assert_eq!(sent.len(), 3);
    assert!(sent.iter().all(|(_, offload)| *offload == Offload::default()));
    let together: Vec<u8> = sent.iter().flat_map(|(frame, _)| frame[34..].to_vec()).collect();
    assert_eq!(together, whole[34..]);
    // Quoted.
    let mut whole = rig.frame("udp from 10.0.0.2 port 1 to 198.51.100.9 port 2 length 200 ttl 1");
    data(&mut whole);
    let (frame, offload) = partial(&whole);
    let (verdict, sent) = rig.put(&frame, offload);
    assert_eq!(verdict, Verdict::Drop(Reason::TtlExpired));
    assert_eq!((&sent[0].0[14 + 28..], sent[0].1), (&whole[14..], Offload::default()));
    // Answered, and nothing is left of what was known of the request.
    for text in ["icmp from 10.0.0.2 to 10.0.0.1 length 100", "icmp6 from 2001:db8:a::2 to 2001:db8:a::1 length 100"] {
        let whole = rig.frame(text);
        let (frame, offload) = partial(&whole);
        for (frame, offload) in
            [(&frame, offload), (&whole, Offload { checksum: Checksum::Valid, ..Offload::default() })]
        {
            let (verdict, sent) = rig.put(frame, offload);
            assert_eq!((verdict, sent.len()), (Verdict::Local, 1));
            assert_eq!(sent[0].1, Offload::default());
        }
    }
}

/// A packet of so many segments, each of `segment` octets of data.
fn super_packet(rig: &Offloading, text: &str, headers: usize, gso: Gso, segment: u16) -> (Vec<u8>, Offload) {
    let length = headers + 20 * usize::from(segment);
    let (frame, offload) = partial(&rig.frame(&format!("{text} length {length}")));
    (frame, Offload { gso, segment, ..offload })
}

#[test]
fn segments_count_against_the_mtu_not_the_packet() {
    let mut build = two_ports();
    build.0.interfaces[1].mtu = 1400;
    let mut rig = Offloading::new(build);
    let v4 = "from 10.0.0.2 port 1 to 198.51.100.9 port 2";
    let v6 = "from 2001:db8:a::2 port 1 to 2001:db8:ffff::9 port 2";
    for (text, headers, gso) in [
        (format!("tcp {v4} df"), 40, Gso::Tcp4),
        (format!("tcp {v6}"), 60, Gso::Tcp6),
        (format!("udp {v4} df"), 28, Gso::Udp),
        (format!("udp {v6}"), 48, Gso::Udp),
    ] {
        let fits = 1400 - headers as u16;
        let (frame, offload) = super_packet(&rig, &text, headers, gso, fits);
        let (verdict, sent) = rig.put(&frame, offload);
        assert_eq!((verdict, sent.len()), (Verdict::Forward, 1), "{text}");
        assert_eq!((sent[0].0.len(), sent[0].1), (frame.len(), offload));
        let (frame, offload) = super_packet(&rig, &text, headers, gso, fits + 1);
        let (verdict, sent) = rig.put(&frame, offload);
        assert_eq!((verdict, sent.len()), (Verdict::Drop(Reason::MtuExceeded), 1), "{text}");
        // The error contains the MTU of the link, and quotes the first segment.
        let (error, state) = &sent[0];
        let seen = Seen::new("lan", error);
        let first = &pieces(&frame, offload)[0];
        if headers == 40 || headers == 28 {
            seen.assert_icmp("10.0.0.1", 3, 4, 1400);
            assert_eq!((error.len(), &error[42..]), (14 + 576, &first[..548]));
        } else {
            seen.assert_icmp("2001:db8:a::1", 2, 0, 1400);
            assert_eq!((error.len(), &error[62..]), (14 + 1280, &first[..1232]));
        }
        assert_eq!(rig.harness.drops(Reason::MtuExceeded) % 20, 0, "each segment counts");
        assert_eq!(*state, Offload::default());
    }
}

#[test]
fn headers_between_count_as_well() {
    let mut build = two_ports();
    build.0.interfaces[1].mtu = 1400;
    let mut rig = Offloading::new(build);
    let plain = rig.frame("tcp from 2001:db8:a::2 port 1 to 2001:db8:ffff::9 port 2 length 20060");
    let frame = with_extensions(&plain, 60, &[6, 0, 1, 4, 0, 0, 0, 0]);
    let offload = |segment| Offload { checksum: Checksum::Partial, gso: Gso::Tcp6, segment, start: 62, offset: 16 };
    assert_eq!(rig.put(&frame, offload(1400 - 68)).0, Verdict::Forward);
    assert_eq!(rig.put(&frame, offload(1400 - 67)).0, Verdict::Drop(Reason::MtuExceeded));
}

#[test]
fn a_packet_that_is_not_what_its_state_says_is_dropped_and_nobody_told() {
    let mut build = two_ports();
    build.0.interfaces[1].mtu = 1400;
    let mut rig = Offloading::new(build);
    // Whether it would fit or not, and whatever is said of its checksum.
    for length in [1000, 3000] {
        for (text, gso, start) in [
            ("udp from 10.0.0.2 port 1 to 198.51.100.9 port 2 df", Gso::Tcp4, 34),
            ("tcp from 10.0.0.2 port 1 to 198.51.100.9 port 2 df", Gso::Tcp6, 34),
            ("tcp from 10.0.0.2 port 1 to 198.51.100.9 port 2 df", Gso::Udp, 34),
            ("tcp from 2001:db8:a::2 port 1 to 2001:db8:ffff::9 port 2", Gso::Tcp4, 54),
            ("icmp from 10.0.0.2 to 198.51.100.9 df", Gso::Udp, 34),
            ("tcp from 10.0.0.2 to 198.51.100.9 df fragment 800", Gso::Tcp4, 34),
            ("udp from 2001:db8:a::2 to 2001:db8:ffff::9 fragment 800", Gso::Udp, 62),
            // VXLAN around UDP, TCP: the state is that of what is inside.
            ("udp from 10.0.0.2 port 1 to 198.51.100.9 port 4789", Gso::Udp, 34 + 16 + 34),
            ("udp from 10.0.0.2 port 1 to 198.51.100.9 port 4789", Gso::Tcp4, 34 + 16 + 34),
            ("udp from 2001:db8:a::2 port 1 to 2001:db8:ffff::9 port 4789", Gso::Udp, 54 + 16 + 54),
            ("udp from 10.0.0.2 port 1 to 198.51.100.9 port 8472", Gso::Tcp4, 34 + 16 + 34),
            // Another TCP within TCP is nothing that a kernel makes.
            ("tcp from 10.0.0.2 port 1 to 198.51.100.9 port 2", Gso::Tcp4, 34 + 20 + 20),
        ] {
            let mut frame = rig.frame(&format!("{text} length {length}"));
            let offset = if gso == Gso::Udp { 6 } else { 16 };
            let state = Offload { checksum: Checksum::Partial, gso, segment: 100, start, offset };
            let expected = (Verdict::Drop(Reason::OffloadMismatch), vec![]);
            assert_eq!(rig.put(&frame, state), expected, "{text}");
            if frame[12..14] == [8, 0] {
                // GRE, IP and IPv6 in IPv4.
                for protocol in [47, 4, 41] {
                    frame[23] = protocol;
                    mend(&mut frame);
                    assert_eq!(rig.put(&frame, state), expected, "{protocol}");
                }
            }
        }
    }
    // A card that puts segments together says that their sums were right, and not where they start.
    let frame = rig.frame("tcp from 10.0.0.2 port 1 to 198.51.100.9 port 2 df length 3000");
    let state = Offload { checksum: Checksum::Valid, gso: Gso::Tcp4, segment: 1000, ..Offload::default() };
    assert_eq!(rig.put(&frame, state).0, Verdict::Forward);
}

#[test]
fn a_super_packet_inside_of_a_tunnel_is_cut_with_the_headers_of_both() {
    let mut rig = Offloading::taking(two_ports().buffers(4096, 64), ALL);
    let vxlan = [8, 0, 0, 0, 0, 0, 100, 0];
    let geneve = [0, 0, 0x65, 0x58, 0, 0, 100, 0];
    let cases: [(&str, &[u8], &[u8], usize); 9] = [
        ("udp from 10.0.0.2 port 4000 to 198.51.100.9 port 4789", &vxlan, &[], 28),
        ("udp from 2001:db8:a::2 port 4000 to 2001:db8:ffff::9 port 4789", &vxlan, &[], 48),
        ("udp from 10.0.0.2 port 4000 to 198.51.100.9 port 6081", &geneve, &[], 28),
        ("47 from 10.0.0.2 to 198.51.100.9", &[0, 0, 8, 0], &[0, 0, 0x86, 0xdd], 20),
        (
            "47 from 2001:db8:a::2 to 2001:db8:ffff::9",
            &[0x20, 0, 8, 0, 0, 0, 0, 7],
            &[0x20, 0, 0x86, 0xdd, 0, 0, 0, 7],
            40,
        ),
        ("udp from 10.0.0.2 port 4000 to 198.51.100.9 port 6080", &[0, 4, 0, 0], &[0, 41, 0, 0], 28),
        // Whatever the port: that of Linux for VXLAN, and others.
        ("udp from 10.0.0.2 port 4000 to 198.51.100.9 port 8472", &vxlan, &[], 28),
        ("udp from 10.0.0.2 port 4000 to 198.51.100.9 port 4789", &geneve, &[], 28),
        ("udp from 10.0.0.2 port 4000 to 198.51.100.9 port 9", &[0, 4, 0, 0], &[0, 41, 0, 0], 28),
    ];
    for (text, header, of_v6, outer) in cases {
        for (inner_text, headers, gso) in [
            ("tcp from 10.9.0.2 port 1 to 10.8.0.2 port 2 flags ack", 40, Gso::Tcp4),
            ("tcp from 2001:db8:9::2 port 1 to 2001:db8:8::2 port 2 flags psh,ack", 60, Gso::Tcp6),
            ("udp from 10.9.0.2 port 1 to 10.8.0.2 port 2", 28, Gso::Udp),
        ] {
            let (inner, offload) = super_packet(&rig, inner_text, headers, gso, 700);
            let before = pieces(&inner, offload);
            // Without its Ethernet header, where the tunnel has none.
            let (link, header) = match of_v6 {
                [] => (0, header),
                of_v6 => (14, if inner_text.contains("2001") { of_v6 } else { header }),
            };
            let front = 14 + outer + header.len();
            let mut frame = rig.frame(&format!("{text} length {}", outer + header.len() + inner.len() - link));
            frame[14 + outer..front].copy_from_slice(header);
            frame[front..].copy_from_slice(&inner[link..]);
            let with_sum = !text.starts_with("udp") || text.contains("2001");
            if text.starts_with("udp") {
                frame[front - header.len() - 2..front - header.len()].fill(u8::from(with_sum));
            }
            let state = Offload { start: offload.start + (front - link) as u16, ..offload };
            let (verdict, sent) = rig.put(&frame, state);
            assert_eq!((verdict, sent.len()), (Verdict::Forward, 20), "{text}, {inner_text}");
            for (index, ((left, state), piece)) in sent.iter().zip(&before).enumerate() {
                assert_eq!(*state, Offload::default());
                assert!(left[front + 14 - link..] == *piece && left[14 + outer..front] == *header, "{text} {index}");
                assert!(left[front..front + 14 - link] == inner[link..14]);
                // Another reader finds the lengths and checksums of the outer packet right.
                let parsed = if left[14] >> 4 == 4 { parse::ipv4(left, 14) } else { parse::ipv6(left, 14) }.unwrap();
                assert_eq!(parsed.l3_length as usize, left.len() - 14);
                let l4 = usize::from(parsed.l4);
                if text.starts_with("udp") {
                    assert_eq!(usize::from(u16::from_be_bytes([left[l4 + 4], left[l4 + 5]])), left.len() - l4);
                    let is_v4 = left[14] >> 4 == 4;
                    let addresses = if is_v4 { 26..34 } else { 22..54 };
                    let sum = checksum::Sum::new().bytes(&left[addresses]).word(17).long((left.len() - l4) as u32);
                    assert!(!with_sum && left[l4 + 6..l4 + 8] == [0, 0] || sum.bytes(&left[l4..]).is_valid(), "{text}");
                }
                if left[14] >> 4 == 4 {
                    assert!(checksum::is_valid(&left[14..34]));
                    let of = |frame: &[u8]| u16::from_be_bytes([frame[18], frame[19]]);
                    assert_eq!(of(left), of(&frame).wrapping_add(index as u16));
                }
            }
        }
    }
    // Nobody can write these for each segment.
    let (inner, offload) =
        super_packet(&rig, "tcp from 10.9.0.2 port 1 to 10.8.0.2 port 2 flags ack", 40, Gso::Tcp4, 700);
    for header in [[0x80, 0, 8, 0, 0, 0, 0, 0], [0x10, 0, 8, 0, 0, 0, 0, 0]] {
        let mut frame = rig.frame(&format!("47 from 10.0.0.2 to 198.51.100.9 length {}", 20 + 8 + inner.len() - 14));
        frame[34..42].copy_from_slice(&header);
        frame[42..].copy_from_slice(&inner[14..]);
        let state = Offload { start: offload.start + 28, ..offload };
        assert_eq!(rig.put(&frame, state).0, Verdict::Drop(Reason::OffloadMismatch));
    }
}

#[test]
fn segments_that_are_too_long_and_may_be_fragmented_are() {
    let mut build = two_ports().buffers(1024, 64);
    build.0.interfaces[1].mtu = 1400;
    let mut rig = Offloading::new(build);
    for (text, headers, gso) in [
        ("tcp from 10.0.0.2 port 1 to 198.51.100.9 port 2", 40, Gso::Tcp4),
        ("udp from 10.0.0.2 port 1 to 198.51.100.9 port 2", 28, Gso::Udp),
    ] {
        let (frame, offload) = super_packet(&rig, text, headers, gso, 1401 - headers as u16);
        let (verdict, sent) = rig.put(&frame, offload);
        assert_eq!(verdict, Verdict::Forward);
        // The same as if the segments had come.
        let mut expected = Vec::new();
        for segment in pieces(&frame, offload) {
            expected.extend(rig.put(&[&frame[..14], &segment].concat(), Offload::default()).1);
        }
        assert_eq!((sent.len(), &sent), (40, &expected), "{text}");
    }
}

#[test]
fn packets_to_be_segmented_are_cut_before_they_are_encrypted() {
    use crate::kit::esp::{east, sa, west};
    for (outer, texts) in [
        (
            ("198.51.100.1", "198.51.100.2"),
            ["from 10.1.0.2 port 1 to 10.2.0.2 port 2 df", "from 2001:db8:1::2 port 1 to 2001:db8:2::2 port 2"],
        ),
        (
            ("2001:db8:ff::1", "2001:db8:ff::2"),
            ["from 10.1.0.2 port 1 to 10.2.0.2 port 2 df", "from 2001:db8:1::2 port 1 to 2001:db8:2::2 port 2"],
        ),
    ] {
        let own = sa("aes128gcm16", outer.0, outer.1);
        let sas = std::slice::from_ref(&own);
        let rules = ["protect 0 any"];
        let mut rig = Offloading::new(west(sas).spd(&["wan"], Default::default(), &rules).buffers(8192, 256));
        let mut peer = east(sas).rig();
        for (v4, text) in [(true, texts[0]), (false, texts[1])] {
            let l4 = if v4 { 20 } else { 40 };
            for (protocol, headers) in [("tcp", l4 + 20), ("udp", l4 + 8)] {
                let gso = match (protocol, v4) {
                    ("udp", _) => Gso::Udp,
                    (_, true) => Gso::Tcp4,
                    (_, false) => Gso::Tcp6,
                };
                let (frame, offload) = super_packet(&rig, &format!("{protocol} {text}"), headers, gso, 1300);
                let (_, sent) = rig.put(&frame, offload);
                assert_eq!(sent.len(), 20, "{protocol} {text}");
                let frames: Vec<&[u8]> = sent.iter().map(|(frame, _)| &frame[..]).collect();
                let (_, inner) = peer.put_all("wan", &frames);
                assert_eq!(inner.len(), 20, "every segment is authentic and new");
                let data: Vec<u8> = inner.iter().flat_map(|(_, frame)| frame[14 + headers..].to_vec()).collect();
                assert_eq!(data, frame[14 + headers..], "in their order");
                // Another reader verifies each checksum.
                inner.iter().for_each(|(port, frame)| drop(Seen::new(port, frame)));
            }
        }
        // What does not fit once it is encrypted is reported to its source, segment by segment.
        let (frame, offload) =
            super_packet(&rig, "tcp from 10.1.0.2 port 1 to 10.2.0.2 port 2 df", 40, Gso::Tcp4, 1460);
        let (_, sent) = rig.put(&frame, offload);
        let mtu = if outer.0.contains(':') { 1426 } else { 1446 };
        Seen::new("lan", &sent[0].0).assert_icmp("10.1.0.1", 3, 4, mtu);
        // More than the queue has room for: all leave, in their order.
        let (frame, offload) =
            super_packet(&rig, "tcp from 10.1.0.2 port 1 to 10.2.0.2 port 2 df", 40, Gso::Tcp4, 1300);
        let index = |text: &[u8]| u32::from_be_bytes([text[0], text[1], text[2], text[3]]);
        for number in 0..200u32 {
            let mut frame = frame.clone();
            frame[14 + 20 + 4..14 + 20 + 8].copy_from_slice(&(number * 26_000).to_be_bytes());
            assert!(rig.harness.inject_offloaded(0, &frame, offload, Time(1), number + 1));
        }
        rig.harness.run();
        let sent = std::mem::take(&mut *rig.sent.lock().unwrap());
        assert_eq!((sent.len(), rig.harness.conservation().imbalance()), (4000, 0));
        let mut peer = east(sas).rig();
        let frames: Vec<&[u8]> = sent.iter().map(|(frame, _)| &frame[..]).collect();
        let inner: Vec<_> = frames.chunks(200).flat_map(|frames| peer.put_all("wan", frames).1).collect();
        let sequences: Vec<u32> = inner.iter().map(|(_, frame)| index(&frame[14 + 20 + 4..])).collect();
        assert_eq!(sequences, (0..4000).map(|number| number * 1300).collect::<Vec<_>>());
    }
}

const ALL: Option<Segmentation> = Some(Segmentation { tcp4: true, tcp6: true, udp: true, largest: 65_597 });

/// The packets that a frame stands for, without their link-layer header.
fn pieces(frame: &[u8], offload: Offload) -> Vec<Vec<u8>> {
    let mut cache = Pool::new(PoolSize { small: 1, large: 1 }).unwrap().cache();
    let mut packet = Packet::copy_of(&mut cache, frame).unwrap();
    let parsed = if frame[12] == 8 { parse::ipv4(frame, 14) } else { parse::ipv6(frame, 14) };
    packet.set_parsed(&parsed.unwrap());
    packet.set_offload(offload);
    let mut segmenter = Segmenter::new(&packet).unwrap();
    let mut pieces = Vec::new();
    while let Some(length) = segmenter.next_length() {
        let mut piece = vec![0; length];
        segmenter.next(&mut piece);
        pieces.push(piece);
    }
    packet.recycle(&mut cache);
    pieces
}

/// A frame without its link-layer header, one router further on.
fn onward(frame: &[u8]) -> Vec<u8> {
    let mut packet = frame[14..].to_vec();
    if packet[0] >> 4 == 4 {
        checksum::decrement_ttl(&mut packet).unwrap();
    } else {
        packet[7] -= 1;
    }
    packet
}

/// The flows of the tests: protocol, text, octets of headers and kind.
const FLOWS: [(&str, &str, usize, Gso); 4] = [
    ("tcp", "from 10.1.0.2 port 1 to 10.2.0.2 port 2 flags ack df", 40, Gso::Tcp4),
    ("tcp", "from 2001:db8:1::2 port 1 to 2001:db8:2::2 port 2 flags ack", 60, Gso::Tcp6),
    ("udp", "from 10.1.0.2 port 1 to 10.2.0.2 port 2 df", 28, Gso::Udp),
    ("udp", "from 2001:db8:1::2 port 1 to 2001:db8:2::2 port 2", 48, Gso::Udp),
];

#[test]
fn decrypted_packets_of_a_vector_leave_as_super_packets() {
    use crate::kit::esp::{east, sa, west};
    let own = sa("aes128gcm16", "198.51.100.1", "198.51.100.2");
    let sas = std::slice::from_ref(&own);
    let mut near = Offloading::new(west(sas).spd(&["wan"], Default::default(), &["protect 0 any"]).buffers(8192, 256));
    let udp_off = ALL.map(|all| Segmentation { udp: false, ..all });
    for (takes, merge) in [(ALL, Merge::Tunnelled), (ALL, Merge::Off), (udp_off, Merge::Tunnelled), (None, Merge::All)]
    {
        let mut build = east(sas).buffers(8192, 256);
        build.0.interfaces[0].merge = merge;
        let mut far = Offloading::taking(build, takes);
        for (protocol, text, headers, gso) in FLOWS {
            let (frame, offload) = super_packet(&near, &format!("{protocol} {text}"), headers, gso, 1300);
            let (_, sent) = near.put(&frame, offload);
            let before = pieces(&frame, offload);
            assert_eq!((sent.len(), before.len()), (20, 20));
            for (number, (frame, _)) in sent.iter().enumerate() {
                assert!(far.harness.inject_offloaded(1, frame, Offload::default(), Time(1), number as u32 + 1));
            }
            let outcomes = far.harness.run();
            assert!(
                outcomes.iter().all(|outcome| outcome.verdict == Verdict::Forward),
                "each packet has its own verdict"
            );
            assert_eq!(far.harness.conservation().imbalance(), 0);
            let left = std::mem::take(&mut *far.sent.lock().unwrap());
            let merges = merge == Merge::Tunnelled && takes.is_some_and(|takes| takes.includes(gso, 26_100));
            assert_eq!(left.len(), if merges { 1 } else { 20 }, "{protocol} {text} {takes:?} {merge:?}");
            let after: Vec<Vec<u8>> = match merges {
                true => pieces(&left[0].0, left[0].1),
                false => left.iter().map(|(frame, _)| frame[14..].to_vec()).collect(),
            };
            // Two gateways took one TTL each.
            let expected: Vec<Vec<u8>> = before
                .iter()
                .map(|packet| onward(&[&[0; 14][..], &onward(&[&[0; 14][..], packet].concat())].concat()))
                .collect();
            assert!(after == expected, "{protocol} {text} {takes:?} {merge:?}");
        }
        let row = far.harness.interface_stats(0).unwrap();
        let (wholes, octets) = match (takes, merge) {
            (Some(takes), Merge::Tunnelled) if takes.udp => (4, 80),
            (Some(_), Merge::Tunnelled) => (2, 40),
            _ => (0, 0),
        };
        assert_eq!((row.merged, row.tx.packets), ((wholes, octets), 80), "a super-packet counts as its segments");
    }
}

#[test]
fn packets_that_came_in_clear_are_merged_only_if_that_is_wanted() {
    for (merge, left) in [(Merge::Tunnelled, 10), (Merge::All, 1)] {
        let mut build = two_ports().buffers(1024, 16);
        build.0.interfaces[1].merge = merge;
        let mut rig = Offloading::taking(build, ALL);
        let (frame, offload) =
            super_packet(&rig, "tcp from 10.0.0.2 port 1 to 198.51.100.9 port 2 flags ack df", 40, Gso::Tcp4, 700);
        let before: Vec<Vec<u8>> = pieces(&frame, offload)[..10].to_vec();
        for (number, packet) in before.iter().enumerate() {
            let frame = [&frame[..14], packet].concat();
            assert!(rig.harness.inject_offloaded(0, &frame, Offload::default(), Time(1), number as u32 + 1));
        }
        rig.harness.run();
        assert_eq!(rig.harness.conservation().imbalance(), 0);
        assert_eq!(rig.sent.lock().unwrap().len(), left, "{merge:?}");
    }
}

#[test]
fn packets_that_hit_one_entry_are_merged_if_the_flow_table_says_so() {
    let none = Some(Segmentation::default());
    for (merges, takes, merge, count) in [
        (true, ALL, Merge::Tunnelled, 2),
        (false, ALL, Merge::Tunnelled, 20),
        (true, none, Merge::Tunnelled, 20),
        (true, ALL, Merge::Off, 20),
    ] {
        let mut build = two_ports().buffers(1024, 16).acl("in", &["permit any"]).acl_in("lan", &["in"]);
        build.0.flow_table.merges = merges;
        build.0.interfaces[1].merge = merge;
        let mut rig = Offloading::taking(build, takes);
        rig.harness.set_recording(false);
        let mut expected = Vec::new();
        for round in 0..2 {
            // Two flows in turns.
            let flows = ["1", "3"].map(|port| {
                let text = format!("tcp from 10.0.0.2 port {port} to 198.51.100.9 port 2 flags ack df");
                let (frame, offload) = super_packet(&rig, &text, 40, Gso::Tcp4, 700);
                (frame[..14].to_vec(), pieces(&frame, offload))
            });
            for number in 0..10 {
                for (link, pieces) in &flows {
                    let frame = [&link[..], &pieces[number]].concat();
                    assert!(rig.harness.inject_offloaded(0, &frame, Offload::default(), Time(1), number as u32 + 1));
                }
            }
            rig.harness.run();
            assert_eq!(rig.harness.conservation().imbalance(), 0);
            let sent = std::mem::take(&mut *rig.sent.lock().unwrap());
            assert_eq!(sent.len(), if round == 0 { 20 } else { count }, "{round}: {merges} {takes:?} {merge:?}");
            let mut left: Vec<Vec<u8>> = sent
                .iter()
                .flat_map(|(frame, offload)| match offload.gso {
                    Gso::None => vec![frame[14..].to_vec()],
                    _ => pieces(frame, *offload),
                })
                .collect();
            // The first octet of the source port, so that each flow has its order.
            left.sort_by_key(|packet| packet[21]);
            if round == 0 {
                expected = left;
            } else {
                assert!(left == expected, "the split gives back what leaves without a merge");
            }
        }
        let rule = &rig.harness.acl_rules("in")[0];
        assert_eq!((rule.matched.packets, rig.harness.fast_path().hits), (40, 20), "all segments count");
        let merged = rig.harness.interface_stats(0).unwrap().merged;
        assert_eq!(merged, if count == 2 { (2, 20) } else { (0, 0) });
    }
}

#[test]
fn a_super_packet_is_cut_at_the_way_out_where_the_port_takes_none() {
    let mut rig = Offloading::taking(two_ports().buffers(4096, 300), Some(Segmentation::default()));
    let text = "tcp from 10.0.0.2 port 1 to 198.51.100.9 port 2 df";
    let small = rig.frame(&format!("{text} length 100"));
    let (frame, offload) = super_packet(&rig, text, 40, Gso::Tcp4, 100);
    // More segments than a vector holds, in front of packets and behind others.
    let long = [&frame[..], &vec![7; 60_000 - frame.len()]].concat();
    let mut long = long;
    let octets = long.len() as u16 - 14;
    long[16..18].copy_from_slice(&octets.to_be_bytes());
    mend(&mut long);
    let (long, partial) = self::partial(&long);
    let long_offload = Offload { gso: Gso::Tcp4, segment: 100, ..partial };
    let frames = [(&small, Offload::default()), (&long, long_offload), (&small, Offload::default()), (&frame, offload)];
    for (number, (frame, offload)) in frames.iter().enumerate() {
        assert!(rig.harness.inject_offloaded(0, frame, *offload, Time(1), number as u32 + 1));
    }
    rig.harness.run();
    assert_eq!(rig.harness.conservation().imbalance(), 0);
    let sent = std::mem::take(&mut *rig.sent.lock().unwrap());
    let mut expected = vec![onward(&small)];
    let cut = |frame: &[u8], offload| {
        let all = pieces(frame, offload);
        all.iter().map(|packet| onward(&[&[0; 14][..], packet].concat())).collect::<Vec<_>>()
    };
    expected.extend(cut(&long, long_offload));
    expected.push(onward(&small));
    expected.extend(cut(&frame, offload));
    let left: Vec<Vec<u8>> = sent.iter().map(|(frame, _)| frame[14..].to_vec()).collect();
    assert!(left == expected, "{} of {}", left.len(), expected.len());
    assert!(sent.iter().all(|(_, offload)| *offload == Offload::default()));
    let row = rig.harness.interface_stats(1).unwrap();
    assert_eq!((row.cut.0, row.cut.1 + 2, row.tx.packets), (2, sent.len() as u64, sent.len() as u64));
}

#[test]
fn a_super_packet_of_the_host_leaves_whole_or_in_segments() {
    for takes in [ALL, Some(Segmentation::default())] {
        for (what, tags) in [("tcp from 10.0.0.1 port 179", 0), ("tcp from 2001:db8:a::1 port 179", 4)] {
            let lan = ["10.0.0.1/24", "2001:db8:a::1/64"];
            let mut rig = Offloading::taking(Build::new().port("lan", &lan).punt().buffers(4096, 300), takes);
            let (to, headers, gso) = match tags {
                0 => ("10.0.0.2", 40, Gso::Tcp4),
                _ => ("2001:db8:a::2", 60, Gso::Tcp6),
            };
            let text = format!("{what} to {to} port 40000 flags ack");
            let (plain, offload) = super_packet(&rig, &text, headers, gso, 700);
            // A tag that the host put on itself.
            let frame = [&plain[..12], &[0x81, 0, 0, 9][..tags], &plain[12..]].concat();
            let own = Offload { start: offload.start + tags as u16, ..offload };
            let port = rig.harness.punt_port(0);
            assert!(rig.harness.inject_offloaded(port, &frame, own, Time(1), 1));
            rig.harness.run();
            assert_eq!(rig.harness.conservation().imbalance(), 0);
            let sent = std::mem::take(&mut *rig.sent.lock().unwrap());
            if takes == ALL {
                assert_eq!(sent, [(frame, own)], "{what}");
                continue;
            }
            let left: Vec<Vec<u8>> = sent.iter().map(|(frame, _)| frame[14 + tags..].to_vec()).collect();
            assert!(left.len() == 20 && left == pieces(&plain, offload), "{what}: {} pieces", left.len());
            assert!(sent.iter().all(|(frame, state)| frame[..12] == plain[..12] && *state == Offload::default()));
        }
    }
}

#[test]
fn segments_of_one_octet_leave_in_order_and_take_no_more_than_a_vector_of_buffers() {
    let mut rig = Offloading::taking(two_ports().buffers(768, 8), Some(Segmentation::default()));
    for (text, headers, gso) in [
        ("tcp from 10.0.0.2 port 1 to 198.51.100.9 port 2 flags ack,psh,fin df", 40, Gso::Tcp4),
        ("udp from 2001:db8:a::2 port 1 to 2001:db8:ffff::9 port 2", 48, Gso::Udp),
    ] {
        let frame = rig.frame(&format!("{text} length {}", headers + 3000));
        let (frame, partial) = self::partial(&frame);
        let offload = Offload { gso, segment: 1, ..partial };
        let (verdict, sent) = rig.put(&frame, offload);
        assert_eq!((verdict, sent.len()), (Verdict::Forward, 3000), "{text}");
        let expected = pieces(&frame, offload);
        assert!(
            sent.iter().zip(&expected).all(|((left, _), piece)| left[14..] == onward(&[&[0; 14][..], piece].concat()))
        );
        assert_eq!(rig.harness.drops(Reason::NoBuffer), 0);
    }
}

#[test]
fn esp_in_udp_leaves_and_arrives_as_one_super_packet() {
    use crate::kit::esp::{east, sa, udp, west};
    let own = weir_plane::model::Sa { encapsulation: udp(), ..sa("aes128gcm16", "198.51.100.1", "198.51.100.2") };
    let sas = std::slice::from_ref(&own);
    let rules = ["protect 0 any"];
    let mut build = west(sas).spd(&["wan"], Default::default(), &rules).buffers(8192, 256);
    build.0.interfaces[1].merge = Merge::All;
    let mut near = Offloading::taking(build, ALL);
    let mut far = Offloading::taking(east(sas).buffers(8192, 256), ALL);
    for (protocol, text, headers, gso) in FLOWS {
        let (frame, offload) = super_packet(&near, &format!("{protocol} {text}"), headers, gso, 1300);
        let before: Vec<Vec<u8>> = pieces(&frame, offload)
            .iter()
            .map(|packet| onward(&[&[0; 14][..], &onward(&[&[0; 14][..], packet].concat())].concat()))
            .collect();
        let (_, sent) = near.put(&frame, offload);
        assert_eq!((sent.len(), sent[0].1.gso), (1, Gso::Udp), "{protocol} {text}");
        assert_eq!(pieces(&sent[0].0, sent[0].1).len(), 20);
        // A packet of ESP behind the super-packet does not overtake its datagrams.
        let (single, state) = super_packet(&near, &format!("{protocol} {text}"), headers, gso, 1300);
        let single = [&single[..14], &pieces(&single, state)[0]].concat();
        let (_, last) = near.put(&single, Offload::default());
        for (number, (frame, offload)) in sent.iter().chain(&last).enumerate() {
            assert!(far.harness.inject_offloaded(1, frame, *offload, Time(1), number as u32 + 1));
        }
        far.harness.run();
        assert_eq!(far.harness.conservation().imbalance(), 0);
        let left = std::mem::take(&mut *far.sent.lock().unwrap());
        let after: Vec<Vec<u8>> = left
            .iter()
            .flat_map(|(frame, offload)| match offload.gso {
                Gso::None => vec![frame[14..].to_vec()],
                _ => pieces(frame, *offload),
            })
            .collect();
        // Datagrams over IPv6 have no numbers: the single one joins the others.
        let alone = usize::from((protocol, gso) != ("udp", Gso::Udp) || text.contains("10."));
        assert_eq!(left.len(), 1 + alone, "the packets of a round are merged");
        assert!(after[..20] == before && after[20] == before[0], "{protocol} {text}");
    }
}

/// Sends 150 packets of one stream of TCP, with 1,200 octets of data or 20 segments of these, and their sequence numbers in order. Returns
/// what leaves, and the octets of data.
fn put_stream(rig: &mut Offloading, is_large: impl Fn(u32) -> bool) -> (Vec<(Vec<u8>, Offload)>, u32) {
    let text = "tcp from 10.1.0.2 port 1 to 10.2.0.2 port 2";
    let (large, offload) = super_packet(rig, text, 40, Gso::Tcp4, 1200);
    let small = rig.frame(&format!("{text} length 1240"));
    let mut next = 0u32;
    for number in 1..=150 {
        let is_large = is_large(number);
        let (mut frame, offload) =
            if is_large { (large.clone(), offload) } else { (small.clone(), Offload::default()) };
        frame[14 + 24..14 + 28].copy_from_slice(&next.to_be_bytes());
        if !is_large {
            mend(&mut frame);
        }
        next += if is_large { 24_000 } else { 1200 };
        assert!(rig.harness.inject_offloaded(0, &frame, offload, Time(1), number));
    }
    rig.harness.run();
    let sent = std::mem::take(&mut *rig.sent.lock().unwrap());
    (sent, next)
}

/// Packets that are encrypted already do not wait, on their way into a tunnel, for those behind them that are still to be.
#[test]
fn esp_leaves_into_a_tunnel_in_the_order_of_its_numbers() {
    use crate::kit::esp::sa;
    use crate::kit::tunnel::{V4, east, tunnel, west};
    use weir_packet::tunnel::Carrier;
    for (carrier, headers) in [(Carrier::Gre, 24), (Carrier::Ip, 20), (Carrier::Gue, 32)] {
        let sas = [sa("aes128gcm16", "172.16.0.1", "172.16.0.2")];
        let protecting = |build: Build| build.spd(&["tun"], Default::default(), &["protect 0 any"]);
        let own = tunnel(carrier, V4);
        let mut rig = Offloading::new(protecting(west(own, &sas)).buffers(8192, 256));
        let mut peer = protecting(east(own, &sas)).rig();
        let sent = put_stream(&mut rig, |number| number % 5 == 0).0;
        assert_eq!((sent.len(), rig.harness.conservation().imbalance()), (120 + 30 * 20, 0));
        let numbers: Vec<&[u8]> = sent.iter().map(|(frame, _)| &frame[14 + headers + 20 + 4..][..4]).collect();
        assert!(numbers.is_sorted(), "{carrier:?}");
        let frames: Vec<&[u8]> = sent.iter().map(|(frame, _)| &frame[..]).collect();
        let inner: Vec<_> = frames.chunks(200).flat_map(|frames| peer.put_all("wan", frames).1).collect();
        let sequences: Vec<&[u8]> = inner.iter().map(|(_, frame)| &frame[14 + 24..14 + 28]).collect();
        assert!(sequences.len() == sent.len() && sequences.is_sorted(), "{carrier:?}: {}", sequences.len());
    }
}

#[test]
fn segments_leave_a_tunnel_inside_of_a_tunnel_in_order() {
    use crate::kit::tunnel::{V4, tunnel, west};
    use weir_packet::tunnel::Carrier;
    let inner = tunnel(Carrier::Gre, ("172.17.0.1", "172.17.0.2"));
    let build = west(inner, &[]).tunnel("outer", tunnel(Carrier::Gre, V4), &["172.17.0.1/24"]);
    let mut rig = Offloading::new(build.buffers(8192, 256));
    let (sent, octets) = put_stream(&mut rig, |number| number % 5 == 0 || number > 100);
    assert_eq!((sent.len() as u32, rig.harness.conservation().imbalance()), (octets / 1200, 0));
    let numbers: Vec<&[u8]> = sent.iter().map(|(frame, _)| &frame[14 + 2 * 24 + 24..][..4]).collect();
    assert!(numbers.is_sorted());
}
