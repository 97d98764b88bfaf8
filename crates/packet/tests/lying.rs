//! Super-packets that say anything of themselves: segments lie within them, their counts hold, and merging gives back what the split
//! takes apart.

use weir_base::random::Random;
use weir_packet::buffer::{Cache, Pool, PoolSize};
use weir_packet::merge::{Kind, Merger, Wanted};
use weir_packet::offload::{Gso, VirtioHeader};
use weir_packet::packet::Packet;
use weir_packet::parse;
use weir_packet::segment::{self, Segmenter};
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::ethernet::ethertype;

/// Frames that are tried.
const FRAMES: u64 = 50_000;

/// The segments of a packet, with its link-layer header.
fn pieces(packet: &Packet) -> Option<Vec<Vec<u8>>> {
    let mut segmenter = Segmenter::new(packet).ok()?;
    let mut pieces = Vec::new();
    while let Some(length) = segmenter.next_length() {
        assert!(length <= packet.len());
        let mut piece = packet.data()[..packet.l3_offset()].to_vec();
        let l3 = piece.len();
        piece.resize(l3 + length, 0);
        assert_eq!(segmenter.next(&mut piece[l3..]), Some(length));
        pieces.push(piece);
    }
    Some(pieces)
}

fn parsed(cache: &mut Cache, frame: &[u8]) -> Option<Packet> {
    let l2 = parse::ethernet(frame).ok()?;
    let parsed = match l2.ethertype {
        ethertype::IPV4 => parse::ipv4(frame, usize::from(l2.l3)),
        ethertype::IPV6 => parse::ipv6(frame, usize::from(l2.l3)),
        _ => return None,
    };
    let mut packet = Packet::copy_of(cache, frame)?;
    match parsed {
        Ok(parsed) => packet.set_parsed(&parsed),
        Err(_) => {
            packet.recycle(cache);
            return None;
        }
    }
    Some(packet)
}

/// Merges pieces; returns the pieces into which the result is cut.
fn merged(cache: &mut Cache, merger: &mut Merger, all: &[Vec<u8>]) -> Option<Vec<Vec<u8>>> {
    let mut vector = Vector::new();
    for piece in all {
        vector.push(parsed(cache, piece)?).ok()?;
    }
    let (mut frame, mut left) = (Indices::new(), Indices::new());
    frame.fill(vector.len());
    let wanted = Wanted { tcp4: true, tcp6: true, udp: true, largest: 65_550, equal: false };
    merger.merge(&mut vector, &frame, &mut left, (cache, wanted), |_, _| Kind::Exact, |_, _| true);
    let cut = |&place: &u8| match vector[place].is_to_be_segmented() {
        true => pieces(&vector[place]).expect("its headers are what its state says"),
        false => vec![vector[place].data().to_vec()],
    };
    let result = left.places().iter().flat_map(cut).collect();
    vector.filled().iter_mut().for_each(|packet| packet.recycle(cache));
    Some(result)
}

/// Cuts a frame with this header; gives how many segments it has.
fn cut(cache: &mut Cache, merger: &mut Merger, header: &VirtioHeader, frame: &[u8]) -> usize {
    let Ok(state) = header.offload(frame.len()) else { return 0 };
    if state.gso == Gso::None {
        return 0;
    }
    let Some(mut packet) = parsed(cache, frame) else { return 0 };
    packet.set_offload(state);
    let (count, octets) = segment::on_wire(&packet);
    let all = pieces(&packet).unwrap_or_default();
    if let Some(last) = all.last().filter(|_| !segment::is_nested(&packet)) {
        assert_eq!((count as usize, octets as usize), (all.len(), all.iter().map(Vec::len).sum()));
        let mut segmenter = Segmenter::new(&packet).expect("it was cut a moment ago");
        segmenter.skip_to_last();
        let mut piece = vec![0; segmenter.next_length().expect("the last one")];
        segmenter.next(&mut piece);
        assert_eq!(piece, last[packet.l3_offset()..]);
        let keeps = all.len().div_ceil(2);
        segment::keep(&mut packet, keeps).expect("its headers are what its state says");
        match keeps {
            1 => assert!(!packet.is_to_be_segmented(), "one segment is a packet as any other"),
            _ => assert_eq!(pieces(&packet).expect("it is shorter").len(), keeps),
        }
        if all.len() == 1 {
            weir_packet::checksum::complete(&mut packet);
            assert_eq!(packet.data().len(), all[0].len());
            // The two zeros of a sum are equal, and only those may differ.
            let differ = packet.data().iter().zip(&all[0]).filter(|(one, other)| one != other);
            assert!(matches!(differ.collect::<Vec<_>>()[..], [] | [(0xff, 0), (0xff, 0)]));
        }
        if all.len() <= 64
            && let Some(again) = merged(cache, merger, &all)
        {
            assert_eq!(again, all);
        }
    }
    packet.recycle(cache);
    all.len()
}

/// A frame of TCP or UDP over either family, with anything in it, and a header that says anything of it.
fn draw(random: &mut Random) -> ([u8; 10], Vec<u8>) {
    let (v4, tcp) = (random.chance(0.5), random.chance(0.6));
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let (own, transport) = if tcp { (6, 20) } else { (17, 8) };
    let payload = random.below(600) as usize;
    let behind = transport + payload;
    let l4 = if v4 { 34 } else { 54 };
    if v4 {
        frame.extend([8, 0, 0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, own, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        frame[16..18].copy_from_slice(&((20 + behind) as u16).to_be_bytes());
    } else {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, (behind >> 8) as u8, behind as u8, own, 64]);
        frame.extend((0..32u8).map(|octet| octet / 16));
    }
    frame.extend((0..behind).map(|_| random.next() as u8));
    if tcp {
        frame[l4 + 12] = 0x50;
        frame[l4 + 13] = 0x10;
    } else {
        frame[l4 + 4..l4 + 6].copy_from_slice(&(behind as u16).to_be_bytes());
    }
    let kind = if tcp { if v4 { 1 } else { 4 } } else { 5 };
    let segment: u16 = match random.below(4) {
        0 => 1,
        1 => random.next() as u16,
        _ => 1 + random.below(400) as u16,
    };
    let mut header = [0u8; 10];
    (header[0], header[1]) = (1, kind);
    header[2..4].copy_from_slice(&((l4 + transport) as u16).to_le_bytes());
    header[4..6].copy_from_slice(&segment.to_le_bytes());
    header[6..8].copy_from_slice(&(l4 as u16).to_le_bytes());
    header[8..10].copy_from_slice(&(if tcp { 16u16 } else { 6 }).to_le_bytes());
    // Some octets of either lie.
    for _ in 0..random.below(3) {
        let at = random.below(10) as usize;
        header[at] = random.next() as u8;
    }
    for _ in 0..random.below(3) {
        let at = random.below(80.min(frame.len() as u64)) as usize;
        frame[at] = random.next() as u8;
    }
    if random.chance(0.1) {
        let length = random.below(frame.len() as u64) as usize;
        frame.truncate(length);
    }
    if v4 && frame.len() >= 34 && random.chance(0.9) {
        frame[24..26].fill(0);
        let length = (usize::from(frame[14] & 15) * 4).clamp(20, frame.len() - 14);
        let sum = weir_packet::checksum::of(&frame[14..14 + length]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    (header, frame)
}

#[test]
fn whatever_a_super_packet_says_of_itself_its_segments_lie_within_it() {
    let mut cache = Pool::new(PoolSize { small: 1024, large: 80 }).unwrap().cache();
    let mut merger = Merger::new();
    let (mut cuts, mut segments) = (0, 0);
    for seed in 0..FRAMES {
        let mut random = Random::from_seed(seed);
        let (header, frame) = draw(&mut random);
        let count = cut(&mut cache, &mut merger, &VirtioHeader::parse(&header), &frame);
        cuts += u64::from(count > 0);
        segments += count;
    }
    assert!(cuts * 3 > FRAMES && segments as u64 > 2 * cuts, "{cuts} of {FRAMES} were cut, into {segments}");
}

/// The headers of VXLAN and Geneve, in front of a frame.
const TUNNELS: [[u8; 8]; 2] = [[8, 0, 0, 0, 0, 0, 5, 0], [0, 0, 0x65, 0x58, 0, 0, 5, 0]];

/// Puts a frame into a tunnel at any port; the header says where its transport header is now, if it does not lie about that.
fn wrap(random: &mut Random, header: &mut [u8; 10], inner: &[u8]) -> Vec<u8> {
    let port = [4789u16, 6081, 8472, 9][random.below(4) as usize].to_be_bytes();
    let mut tunnel = TUNNELS[random.below(2) as usize];
    if random.chance(0.1) {
        tunnel[random.below(8) as usize] = random.next() as u8;
    }
    let length = (28 + tunnel.len() + inner.len()) as u16;
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame[16..18].copy_from_slice(&length.to_be_bytes());
    let sum = weir_packet::checksum::of(&frame[14..34]);
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    frame.extend([0x30, 0x39, port[0], port[1], 0, 0, 0, 0]);
    frame[38..40].copy_from_slice(&(length - 20).to_be_bytes());
    frame.extend(tunnel);
    let lie = if random.chance(0.1) { random.below(40) as u16 } else { 0 };
    let start = u16::from_le_bytes([header[6], header[7]]).wrapping_add(frame.len() as u16).wrapping_sub(lie);
    header[6..8].copy_from_slice(&start.to_le_bytes());
    frame.extend(inner);
    frame
}

#[test]
fn a_super_packet_of_a_tunnel_is_cut_only_where_its_headers_lead() {
    let mut cache = Pool::new(PoolSize { small: 1024, large: 80 }).unwrap().cache();
    let (mut cuts, mut others) = (0, 0);
    for seed in 0..FRAMES {
        let mut random = Random::from_seed(seed);
        let (mut header, inner) = draw(&mut random);
        let frame = wrap(&mut random, &mut header, &inner);
        let Ok(state) = VirtioHeader::parse(&header).offload(frame.len()) else { continue };
        let Some(mut packet) = parsed(&mut cache, &frame) else { continue };
        packet.set_offload(state);
        if segment::is_nested(&packet) {
            match pieces(&packet) {
                Some(all) => {
                    // Ethernet, IPv4, UDP, the tunnel, Ethernet.
                    let l3 = 14 + 28 + 8 + 14;
                    let is_v4 = frame[l3] >> 4 == 4;
                    let (length, named, octets) = match is_v4 {
                        true => (20, frame[l3 + 9], u16::from_be_bytes([frame[l3 + 2], frame[l3 + 3]])),
                        false => (40, frame[l3 + 6], u16::from_be_bytes([frame[l3 + 4], frame[l3 + 5]]) + 40),
                    };
                    assert_eq!(usize::from(state.start), l3 + length);
                    assert_eq!(
                        (named, usize::from(octets)),
                        (if state.gso == Gso::Udp { 17 } else { 6 }, frame.len() - l3)
                    );
                    assert!(
                        all.iter().all(|piece| piece[42..50] == frame[42..50]),
                        "each has the header of the tunnel"
                    );
                    cuts += 1;
                }
                None => others += 1,
            }
        }
        packet.recycle(&mut cache);
    }
    assert!(cuts * 4 > FRAMES && others * 20 > FRAMES, "{cuts} of {FRAMES} were cut, and {others} refused");
}
