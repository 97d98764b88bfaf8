//! Echo requests of any size, whole and in fragments, and fragments that make no datagram.

use crate::kit::*;
use weir_base::random::Random;
use weir_packet::fragment::{Fragmenter, SourceFragmenter};
use weir_packet::reassembly::{Datagram, Piece, Progress, ROOM};
use weir_packet::{checksum, parse};
use weir_plane::harness::Verdict;
use weir_plane::reason::Reason;

const SECOND: u64 = 1_000_000_000;

/// An echo request of so many octets of IP packet, with data that says where it is. The family is that of the source.
fn request(rig: &Rig, from: &str, to: &str, length: usize, identification: u16) -> Vec<u8> {
    let v4 = !from.contains(':');
    let text = format!("{} from {from} to {to} length {length}", if v4 { "icmp" } else { "icmp6" });
    let mut frame = rig.frame("lan", &text);
    let message = 14 + if v4 { 20 } else { 40 };
    for (index, octet) in frame.iter_mut().enumerate().skip(message + 8) {
        *octet = (index / 5) as u8 ^ (index >> 9) as u8;
    }
    if v4 {
        frame[18..20].copy_from_slice(&identification.to_be_bytes());
        mend(&mut frame);
    }
    frame[message + 2..message + 4].fill(0);
    let sum = message_sum(&frame[14..]);
    frame[message + 2..message + 4].copy_from_slice(&sum.to_be_bytes());
    frame
}

/// The checksum of the ICMP message of a packet whose field is zero; 0 of a packet whose field is right.
fn message_sum(packet: &[u8]) -> u16 {
    if packet[0] >> 4 == 4 {
        return checksum::of(&packet[20..]);
    }
    let header = weir_packet::wire::ipv6::Header::new(packet).unwrap();
    let length = (packet.len() - 40) as u32;
    checksum::pseudo_v6(header.source(), header.destination(), 58, length).bytes(&packet[40..]).checksum()
}

/// The fragments of a frame for a link of this MTU, as frames.
fn cut(frame: &[u8], mtu: u32, identification: u32) -> Vec<Vec<u8>> {
    let mut out = vec![0; 65_600];
    let mut fragments = Vec::new();
    let mut add = |packet: &[u8]| fragments.push([&frame[..14], packet].concat());
    if frame[14] >> 4 == 4 {
        let mut fragmenter = Fragmenter::new(&frame[14..], mtu).unwrap();
        while let Some(length) = fragmenter.next(&mut out) {
            add(&out[..length]);
        }
    } else {
        let mut fragmenter = SourceFragmenter::new(&frame[14..], mtu, identification).unwrap();
        while let Some(length) = fragmenter.next(&mut out) {
            add(&out[..length]);
        }
    }
    fragments
}

/// Reassembles the frames that left; returns the packet, the longest fragment and the number of fragments.
#[track_caller]
fn together(out: &[(String, Vec<u8>)]) -> (Vec<u8>, usize, usize) {
    let longest = out.iter().map(|(_, frame)| frame.len() - 14).max().unwrap();
    if let [(_, frame)] = out {
        return (frame[14..].to_vec(), longest, 1);
    }
    let mut room = vec![0; ROOM];
    let mut datagram = Datagram::new();
    for (number, (_, frame)) in out.iter().enumerate() {
        let parsed = if frame[14] >> 4 == 4 { parse::ipv4(frame, 14) } else { parse::ipv6(frame, 14) }.unwrap();
        let piece = Piece::new(&parsed, &frame[14..]).unwrap();
        let progress = datagram.add(&mut room, &piece, &frame[14..]);
        let last = number + 1 == out.len();
        assert_eq!(progress, if last { Progress::Complete } else { Progress::Added });
    }
    let at = datagram.finish(&mut room).unwrap();
    (room[at].to_vec(), longest, out.len())
}

/// The reply is the request with its addresses and its type changed, and its checksum is right.
#[track_caller]
fn assert_reply(reply: &[u8], request: &[u8]) {
    assert_eq!(reply.len(), request.len());
    let (at, size, message, kind) = if reply[0] >> 4 == 4 { (12, 4, 20, 0) } else { (8, 16, 40, 129) };
    assert_eq!(reply[at..at + size], request[at + size..at + 2 * size]);
    assert_eq!(reply[at + size..at + 2 * size], request[at..at + size]);
    assert_eq!(reply[message], kind);
    assert!(reply[message + 4..] == request[message + 4..], "the data is the same");
    assert_eq!(message_sum(reply), 0);
}

const PAIRS: [(&str, &str); 2] = [("10.0.0.2", "10.0.0.1"), ("2001:db8:a::2", "2001:db8:a::1")];

#[test]
fn pings_of_every_size() {
    let mut rig = two_ports().rig();
    // A header, to 65,507 octets of data behind it: what `ping -s` takes at most.
    let sizes = (0..64).chain(1440..1560).chain((1500..65_507).step_by(3333)).chain(65_500..=65_507);
    for (from, to) in PAIRS {
        let headers = if from.contains(':') { 48 } else { 28 };
        for (number, size) in sizes.clone().enumerate() {
            let length = size + headers;
            let request = request(&rig, from, to, length, number as u16);
            let fragments = cut(&request, 1500, number as u32);
            let (outcomes, out) = rig.put_all("lan", &fragments);
            assert!(outcomes.iter().all(|outcome| outcome.verdict == Verdict::Local));
            let (reply, longest, count) = together(&out);
            assert_reply(&reply, &request[14..]);
            // What came whole goes whole; what came in fragments goes in such as every path takes.
            let most = if headers == 48 && fragments.len() > 1 { 1280 } else { 1500 };
            assert!(longest <= most && (count > 1) == (fragments.len() > 1), "{size}: {count} of {longest}");
        }
    }
    let conservation = rig.conservation();
    assert_eq!((conservation.held, conservation.dropped), (0, 0));
    let datagrams = 2 * sizes.count() as u64;
    assert_eq!(conservation.local, datagrams);
}

#[test]
fn fragments_in_any_order_over_many_vectors() {
    for (from, to) in PAIRS {
        let mut rig = two_ports().rig();
        let requests: Vec<_> =
            (0..3u16).map(|number| request(&rig, from, to, 20_000 + usize::from(number), number)).collect();
        let mut fragments: Vec<Vec<u8>> = Vec::new();
        for (number, request) in requests.iter().enumerate() {
            fragments.extend(cut(request, 1400, number as u32));
        }
        let mut random = Random::from_seed(11);
        for index in (1..fragments.len()).rev() {
            fragments.swap(index, random.below(index as u64 + 1) as usize);
        }
        // Duplicates change nothing.
        let fragments: Vec<_> = fragments.into_iter().flat_map(|one| [one.clone(), one]).collect();
        let mut replied = Vec::new();
        for both in fragments.chunks(2) {
            rig.advance(SECOND / 10);
            let first = rig.put("lan", &both[0]);
            if first.out.is_empty() {
                assert!(rig.put("lan", &both[1]).out.is_empty());
                continue;
            }
            let (reply, _, _) = together(&first.out);
            assert_reply(&reply, &requests[reply.len() - 20_000][14..]);
            replied.push(reply.len());
        }
        replied.sort();
        assert_eq!(replied, [20_000, 20_001, 20_002]);
        let conservation = rig.conservation();
        assert_eq!((conservation.held, conservation.dropped, conservation.local), (0, 0, 3));
    }
}

#[test]
fn the_source_is_told_of_what_did_not_become_whole() {
    for ((from, to), seconds) in PAIRS.into_iter().zip([30, 60]) {
        let mut rig = two_ports().rig();
        let fragments = cut(&request(&rig, from, to, 4000, 7), 1500, 7);
        rig.put("lan", &fragments[1]);
        rig.put("lan", &fragments[0]);
        assert_eq!(rig.conservation().held, 1);
        rig.advance(seconds * SECOND - 1);
        assert_eq!(rig.idle().1.len(), 0);
        rig.advance(1);
        let (outcomes, out) = rig.idle();
        assert_eq!(outcomes[0].verdict, Verdict::Drop(Reason::ReassemblyTimeout));
        let seen = Seen::new(&out[0].0, &out[0].1);
        seen.assert_icmp(to, if from.contains(':') { 3 } else { 11 }, 1, 0);
        // About the first fragment, as it came.
        seen.assert_error_about(&fragments[0]);
        assert_eq!((out.len(), rig.harness.drops(Reason::ReassemblyTimeout), rig.conservation().held), (1, 1, 0));
        // The rest comes too late, and is the beginning of nothing.
        rig.put_all("lan", &fragments[2..]);
        rig.advance(seconds * SECOND);
        assert!(rig.idle().1.is_empty(), "without the first fragment, no error is sent");
        assert_eq!((rig.harness.drops(Reason::ReassemblyTimeout), rig.conservation().held), (2, 0));
    }
}

#[test]
fn one_contradiction_ends_a_datagram_for_good() {
    for (from, to) in PAIRS {
        let mut rig = two_ports().rig();
        let fragments = cut(&request(&rig, from, to, 5000, 7), 1500, 7);
        let mut other = fragments[1].clone();
        *other.last_mut().unwrap() ^= 1;
        rig.put_all("lan", &fragments[..2]);
        let spoilt = rig.put("lan", &other);
        assert_eq!((spoilt.outcome.verdict, spoilt.out.len()), (Verdict::Drop(Reason::ReassemblyOverlap), 0));
        assert_eq!(rig.harness.drops(Reason::ReassemblyOverlap), 2, "the datagram goes with it");
        for fragment in &fragments {
            rig.advance(SECOND);
            rig.drops_frame("lan", fragment, Reason::ReassemblyOverlap);
        }
        assert_eq!(rig.conservation().held, 0);
        // When its time is over, the name is free again.
        rig.advance(60 * SECOND);
        assert!(rig.idle().1.is_empty());
        assert!(!rig.put_all("lan", &fragments).1.is_empty());
    }
}

#[test]
fn the_oldest_makes_room() {
    // Of 16 large buffers, four hold datagrams of a family.
    for (from, to) in PAIRS {
        let mut rig = two_ports().rig();
        let all: Vec<_> =
            (1..=5).map(|number| cut(&request(&rig, from, to, 3000, number), 1500, number.into())).collect();
        for fragments in &all {
            rig.advance(1);
            let (_, out) = rig.put_all("lan", &fragments[..2]);
            assert!(out.is_empty(), "no error is sent");
        }
        assert_eq!((rig.harness.drops(Reason::ReassemblyFull), rig.conservation().held), (1, 4));
        for fragments in &all[1..] {
            assert!(!rig.put_all("lan", &fragments[2..]).1.is_empty());
        }
        assert_eq!(rig.conservation().held, 0);
        // The other family has its own.
        let other = if from.contains(':') { PAIRS[0] } else { PAIRS[1] };
        let whole = cut(&request(&rig, other.0, other.1, 3000, 9), 1500, 9);
        assert!(!rig.put_all("lan", &whole).1.is_empty());
    }
    // Without large buffers, nothing is put together.
    let mut rig = two_ports().buffers(2048, 1).rig();
    let frame = request(&rig, "10.0.0.2", "10.0.0.1", 3000, 1);
    rig.drops_frame("lan", &cut(&frame, 1500, 1)[0], Reason::ReassemblyFull);
}

#[test]
fn fragments_that_cannot_be() {
    let mut rig = two_ports().rig();
    let v4 = cut(&request(&rig, "10.0.0.2", "10.0.0.1", 3000, 1), 1500, 1);
    let v6 = cut(&request(&rig, "2001:db8:a::2", "2001:db8:a::1", 3000, 1), 1500, 1);
    // An octet less than whole units.
    let mut odd = v4[0].clone();
    odd.pop();
    odd[16..18].copy_from_slice(&1495u16.to_be_bytes());
    mend(&mut odd);
    rig.drops_frame("lan", &odd, Reason::BadFragment);
    let mut odd = v6[0].clone();
    odd.pop();
    let payload = (odd.len() - 54) as u16;
    odd[18..20].copy_from_slice(&payload.to_be_bytes());
    rig.told_frame("lan", &odd, Reason::BadFragment).assert_icmp("2001:db8:a::1", 4, 0, 4);
    // Beyond the end of any datagram.
    let mut far = v4[0].clone();
    far[20..22].copy_from_slice(&0x1ff0u16.to_be_bytes());
    mend(&mut far);
    rig.drops_frame("lan", &far, Reason::BadFragment);
    let mut far = v6[2].clone();
    far[14 + 42..14 + 44].copy_from_slice(&0xfff8u16.to_be_bytes());
    rig.drops_frame("lan", &far, Reason::BadFragment); // a later one of ICMPv6 may be part of an error
    far[14 + 40] = 17;
    rig.told_frame("lan", &far, Reason::BadFragment).assert_icmp("2001:db8:a::1", 4, 0, 42); // the fragment offset
    // A first one without the whole header of the message (RFC 7112).
    let mut short = v6[0].clone();
    short[14 + 40] = 60;
    short[14 + 48..14 + 56].copy_from_slice(&[58, 0, 1, 4, 0, 0, 0, 0]);
    short.truncate(14 + 56);
    short[18..20].copy_from_slice(&16u16.to_be_bytes());
    rig.drops_frame("lan", &short, Reason::BadFragment); // what is missing may be the type of an error
    short[14 + 48] = 6;
    rig.told_frame("lan", &short, Reason::BadFragment).assert_icmp("2001:db8:a::1", 4, 3, 0);
    assert_eq!(rig.conservation().held, 0);
}

#[test]
fn a_wrong_checksum_is_seen_when_the_datagram_is_whole() {
    for (from, to) in PAIRS {
        let mut rig = two_ports().rig();
        let mut frame = request(&rig, from, to, 5000, 7);
        *frame.last_mut().unwrap() ^= 0x40;
        let fragments = cut(&frame, 1500, 7);
        let (outcomes, out) = rig.put_all("lan", &fragments);
        assert_eq!(outcomes.last().unwrap().verdict, Verdict::Drop(Reason::LocalBadChecksum));
        assert!(out.is_empty());
    }
}

#[test]
fn an_answer_that_is_too_long_for_its_way_is_cut() {
    // The request enters by `lan`, the answer leaves by `wan`, whose MTU is smaller.
    for (from, to, mtu) in [("198.51.100.9", "10.0.0.1", 576), ("2001:db8:ffff::9", "2001:db8:a::1", 1280)] {
        let mut build = two_ports();
        build.0.interfaces[0].mtu = 9000;
        build.0.interfaces[1].mtu = mtu;
        let mut rig = build.rig();
        let mut names = Vec::new();
        for length in [1400, 8999] {
            let mut frame = request(&rig, from, to, length, 0);
            if mtu < 1280 {
                frame[20] = 0x40; // don't fragment: that was said of the request
                mend(&mut frame);
            }
            let result = rig.put("lan", &frame);
            assert_eq!(result.outcome.verdict, Verdict::Local);
            let (reply, longest, count) = together(&result.out);
            assert!(longest <= mtu as usize && count > 1);
            assert_reply(&reply, &frame[14..]);
            let first = &result.out[0].1[14..];
            names.push(if mtu < 1280 { first[4..6].to_vec() } else { first[44..48].to_vec() });
        }
        assert_ne!(names[0], names[1], "identifications are random");
    }
}

#[test]
fn domains_and_links_do_not_mix() {
    let mut build = two_ports().port("red", &["10.0.0.1/24"]).in_vrf("red").neighbor("red", "10.0.0.2", mac(3));
    build =
        build.port("third", &["fe80::1/64"]).neighbor("third", "fe80::9", mac(4)).neighbor("lan", "fe80::9", mac(4));
    let mut rig = build.rig();
    for (from, to, other) in [("10.0.0.2", "10.0.0.1", "red"), ("fe80::9", "fe80::1", "third")] {
        let frame = request(&rig, from, to, 2500, 7);
        let mut elsewhere = frame.clone();
        elsewhere[..6].copy_from_slice(&rig.harness.interface_mac(rig.index(other)).unwrap());
        let (here, there) = (cut(&frame, 1500, 7), cut(&elsewhere, 1500, 7));
        assert!(rig.put("lan", &here[0]).out.is_empty());
        assert!(rig.put(other, &there[1]).out.is_empty());
        assert_eq!(rig.conservation().held, 2);
        for (interface, rest) in [("lan", &here[1]), (other, &there[0])] {
            let result = rig.put(interface, rest);
            assert!(result.out.iter().all(|(port, _)| port == interface));
            assert_reply(&together(&result.out).0, &frame[14..]);
        }
    }
}

#[test]
fn the_host_gets_what_is_not_ours_in_pieces_that_its_device_takes() {
    let mut build = Build::new().port("lan", &["10.0.0.1/24", "2001:db8:a::1/64"]);
    build = build.punt();
    let mut rig = build.rig();
    for (from, to) in PAIRS {
        let mut frame = request(&rig, from, to, 6000, 7);
        // An echo reply, to a request of the host's.
        let message = if from.contains(':') { 54 } else { 34 };
        frame[message] = if from.contains(':') { 129 } else { 0 };
        frame[message + 2..message + 4].fill(0);
        let sum = message_sum(&frame[14..]);
        frame[message + 2..message + 4].copy_from_slice(&sum.to_be_bytes());
        let fragments = cut(&frame, 1400, 7);
        let before = rig.conservation();
        let (outcomes, out) = rig.put_all("lan", &fragments);
        assert!(outcomes.iter().all(|outcome| outcome.verdict == Verdict::Local));
        assert!(out.iter().all(|(port, _)| port == "punt lan"), "{:?}", out.iter().map(|o| &o.0).collect::<Vec<_>>());
        let (whole, longest, count) = together(&out);
        assert!(whole == frame[14..] && longest <= 1400 && count == fragments.len());
        let after = rig.conservation();
        assert_eq!((after.local - before.local, after.held), (count as u64, 0));
        // What we never answer is not even put together.
        let udp = rig.frame("lan", &format!("udp from {from} port 1 to {to} port 2 length 3000"));
        let fragments = cut(&udp, 1400, 8);
        let (_, out) = rig.put_all("lan", &fragments);
        assert_eq!(out.into_iter().map(|(_, frame)| frame).collect::<Vec<_>>(), fragments);
    }
}
