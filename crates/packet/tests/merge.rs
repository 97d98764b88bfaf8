//! Merging against a naive twin, and against the split: what was merged is cut into the same packets, octet for octet.

use weir_base::random::Random;
use weir_packet::buffer::{Cache, Pool, PoolSize};
use weir_packet::checksum::{self, Sum};
use weir_packet::merge::{Kind, Merger, Wanted};
use weir_packet::offload::{Checksum, Gso, Offload};
use weir_packet::packet::Packet;
use weir_packet::parse::{self, ParseFlags};
use weir_packet::segment::Segmenter;
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::{protocol, tcp};

const ALL: Wanted = Wanted { tcp4: true, tcp6: true, udp: true, largest: 65_600, equal: false };
const LINK: [u8; 14] = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];

/// Streams to try: `WEIR_MERGE_STREAMS=10000000` for a long run.
fn streams() -> u64 {
    std::env::var("WEIR_MERGE_STREAMS").map_or(100_000, |text| text.parse().expect("a number of streams"))
}

/// A packet as it stands on the wire.
#[derive(Clone)]
struct Wire {
    v4: bool,
    tcp: bool,
    flow: u8,
    octets: Vec<u8>,
    checksum: Checksum,
}

impl Wire {
    fn l4(&self) -> usize {
        14 + if self.v4 { 20 } else { 40 }
    }

    fn headers(&self) -> usize {
        self.l4() + if self.tcp { usize::from(self.octets[self.l4() + tcp::DATA_OFFSET] >> 4) * 4 } else { 8 }
    }

    fn flags(&self) -> u8 {
        if self.tcp { self.octets[self.l4() + tcp::FLAGS] } else { 0 }
    }

    fn at(&self) -> usize {
        self.l4() + if self.tcp { 16 } else { 6 }
    }

    fn pseudo(&self) -> Sum {
        let addresses = if self.v4 { 26..34 } else { 22..54 };
        let own = if self.tcp { protocol::TCP } else { protocol::UDP };
        Sum::new().bytes(&self.octets[addresses]).word(own.into()).long((self.octets.len() - self.l4()) as u32)
    }

    fn is_parsed(&self) -> bool {
        if self.v4 { parse::ipv4(&self.octets, 14).is_ok() } else { parse::ipv6(&self.octets, 14).is_ok() }
    }

    /// Writes lengths and checksums.
    fn mend(&mut self) {
        let length = self.octets.len() - 14;
        if self.v4 {
            self.octets[16..18].copy_from_slice(&(length as u16).to_be_bytes());
            self.octets[24..26].fill(0);
            let sum = checksum::of(&self.octets[14..34]);
            self.octets[24..26].copy_from_slice(&sum.to_be_bytes());
        } else {
            self.octets[18..20].copy_from_slice(&((length - 40) as u16).to_be_bytes());
        }
        let (l4, at) = (self.l4(), self.at());
        if !self.tcp {
            let own = (self.octets.len() - l4) as u16;
            self.octets[l4 + 4..l4 + 6].copy_from_slice(&own.to_be_bytes());
        }
        self.octets[at..at + 2].fill(0);
        let sum = self.pseudo().bytes(&self.octets[l4..]).checksum();
        let sum = if self.tcp { sum } else { checksum::udp(sum) };
        self.octets[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }

    fn packet(&self, cache: &mut Cache) -> Packet {
        let mut packet = Packet::copy_of(cache, &self.octets).unwrap();
        let parsed = if self.v4 { parse::ipv4(&self.octets, 14) } else { parse::ipv6(&self.octets, 14) };
        if let Ok(parsed) = parsed {
            packet.set_parsed(&parsed);
        }
        let (start, offset) = (self.l4() as u16, (self.at() - self.l4()) as u16);
        let partial = self.checksum == Checksum::Partial;
        let (start, offset) = if partial { (start, offset) } else { (0, 0) };
        packet.set_offload(Offload { checksum: self.checksum, start, offset, ..Offload::default() });
        packet
    }
}

/// Cuts a packet as the gateway does, with its link-layer header in front of each piece.
fn cut(packet: &Packet) -> Vec<Vec<u8>> {
    let mut segmenter = Segmenter::new(packet).unwrap();
    let mut pieces = Vec::new();
    while let Some(length) = segmenter.next_length() {
        let mut piece = packet.data()[..packet.l3_offset()].to_vec();
        piece.resize(14 + length, 0);
        segmenter.next(&mut piece[14..]);
        pieces.push(piece);
    }
    pieces
}

/// The naive super-packet of these packets.
fn whole(run: &[&Wire], cache: &mut Cache) -> Packet {
    let first = run[0];
    let mut whole = first.clone();
    for other in &run[1..] {
        whole.octets.extend_from_slice(&other.octets[other.headers()..]);
        if whole.tcp {
            let flags = whole.l4() + tcp::FLAGS;
            whole.octets[flags] |= other.flags() & 9;
        }
    }
    whole.mend();
    let (at, sum) = (whole.at(), whole.pseudo().folded());
    whole.octets[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    whole.checksum = Checksum::Partial;
    let mut packet = whole.packet(cache);
    let gso = match (whole.tcp, whole.v4) {
        (true, true) => Gso::Tcp4,
        (true, false) => Gso::Tcp6,
        (false, _) => Gso::Udp,
    };
    let segment = (first.octets.len() - first.headers()) as u16;
    packet.set_offload(Offload { gso, segment, ..packet.offload() });
    packet
}

/// The packet may be a part of a super-packet.
fn may(wire: &Wire) -> bool {
    let plain = wire.octets.len() > wire.headers() && wire.octets[14] == if wire.v4 { 0x45 } else { wire.octets[14] };
    // Of TCP only data that is acknowledged and neither begins nor resets.
    let known = !wire.tcp || wire.flags() & 0x10 != 0 && wire.flags() & 0x26 == 0;
    plain && known && (wire.tcp || wire.octets[wire.at()..wire.at() + 2] != [0, 0])
}

/// The octets of a packet on the wire, with a checksum that nobody has to complete.
fn complete(wire: &Wire) -> Vec<u8> {
    let mut complete = wire.clone();
    if wire.checksum == Checksum::Partial {
        complete.mend();
    }
    complete.octets
}

/// Merges as the definition says: a packet joins the last run of its flow if the split makes the same packets of both.
fn naive(stream: &[Wire], cache: &mut Cache) -> Vec<Vec<usize>> {
    let mut runs: Vec<Vec<usize>> = Vec::new();
    let mut last: [Option<usize>; 256] = [None; 256];
    for (index, wire) in stream.iter().enumerate() {
        let joined = last[usize::from(wire.flow)].filter(|&run| {
            let mut members: Vec<&Wire> = runs[run].iter().map(|&member| &stream[member]).collect();
            let ended = |wire: &Wire| wire.flags() & 9 != 0;
            let segment = members[0].octets.len() - members[0].headers();
            let tail = *members.last().unwrap();
            let short = tail.octets.len() - tail.headers() < segment;
            if ended(tail) || short || !may(members[0]) || !may(wire) || !wire.tcp && members.len() == 64 {
                return false;
            }
            members.push(wire);
            let same =
                |member: &&Wire| (member.v4, member.tcp, member.headers()) == (wire.v4, wire.tcp, wire.headers());
            let before: Vec<Vec<u8>> = members.iter().map(|member| complete(member)).collect();
            members.iter().all(same) && {
                let mut packet = whole(&members, cache);
                let same = cut(&packet) == before;
                packet.recycle(cache);
                same
            }
        });
        match joined {
            Some(run) => runs[run].push(index),
            None => {
                last[usize::from(wire.flow)] = Some(runs.len());
                runs.push(vec![index]);
            }
        }
    }
    runs
}

/// A flow of the generator.
#[derive(Clone)]
struct Flow {
    next: Wire,
    segment: usize,
}

fn flow(random: &mut Random, number: u8) -> Flow {
    let (v4, tcp) = (random.below(2) == 0, random.below(3) > 0);
    let mut octets = LINK.to_vec();
    let own = if tcp { protocol::TCP } else { protocol::UDP };
    if v4 {
        octets.extend_from_slice(&[0x45, random.below(4) as u8, 0, 0, 0, 0, 0x40, 0, 64, own, 0, 0]);
        octets.extend_from_slice(&[10, 0, 0, 1, 10, 0, 0, number]);
        let identification = if random.below(2) == 0 { 0xffff } else { random.next() as u16 };
        octets[18..20].copy_from_slice(&identification.to_be_bytes());
    } else {
        octets[12..14].copy_from_slice(&[0x86, 0xdd]);
        octets.extend_from_slice(&[0x60, 0, 0, number, 0, 0, own, 64]);
        octets.extend_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        octets.extend_from_slice(&[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, number]);
    }
    octets.extend_from_slice(&[4, 210, 0, 80]);
    if tcp {
        octets.extend_from_slice(&(random.next() as u32).to_be_bytes());
        let options = random.below(3) as u8 * 3;
        octets.extend_from_slice(&[0, 0, 0, 1, (5 + options) << 4, 0x10, 1, 0, 0, 0, 0, 0]);
        octets.resize(octets.len() + usize::from(options) * 4, 1);
    } else {
        octets.extend_from_slice(&[0; 4]);
    }
    let next = Wire { v4, tcp, flow: number, octets, checksum: Checksum::Unknown };
    Flow { next, segment: 1 + random.below(60) as usize }
}

/// The next packet of a flow, mostly one that joins those before it.
fn next(random: &mut Random, flow: &mut Flow) -> Wire {
    let mut wire = flow.next.clone();
    let l4 = wire.l4();
    let payload = match random.below(12) {
        0 => random.below(2 * flow.segment as u64 + 1) as usize,
        _ => flow.segment,
    };
    // Sums of 0 and of 0xffff come with octets that are all alike.
    match random.below(4) {
        0 => wire.octets.resize(wire.octets.len() + payload, 0),
        1 => wire.octets.resize(wire.octets.len() + payload, 0xff),
        _ => (0..payload).for_each(|_| wire.octets.push(random.next() as u8)),
    }
    if wire.tcp {
        wire.octets[l4 + tcp::FLAGS] |= match random.below(24) {
            0 => 1 << random.below(8),
            1 => 8,
            _ => 0,
        };
    }
    wire.mend();
    if random.below(16) == 0 {
        // Anything in the headers, with a right checksum or a wrong one.
        let place = 15 + random.below(wire.headers() as u64 - 15) as usize;
        let lengths = if wire.v4 { 16..18 } else { 18..20 };
        let own = lengths.contains(&place)
            || place == 20 && !wire.v4
            || wire.v4 && (20..22).contains(&place)
            || place == 23 && wire.v4
            || place >= if wire.v4 { 26 } else { 22 } && place < l4 + 4
            || wire.tcp && place == l4 + tcp::DATA_OFFSET;
        if !own {
            wire.octets[place] ^= 1 << random.below(8);
            if random.below(4) > 0 {
                wire.mend();
            }
        }
    }
    let at = wire.at();
    match random.below(20) {
        0 => wire.checksum = Checksum::Valid,
        1 => {
            wire.checksum = Checksum::Partial;
            wire.mend();
            let sum = wire.pseudo().folded();
            wire.octets[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        2 if !wire.tcp => wire.octets[at..at + 2].fill(0),
        3 if wire.octets[at..at + 2] == [0, 0] => wire.octets[at..at + 2].fill(0xff),
        _ => {}
    }
    if wire.checksum == Checksum::Valid {
        wire.mend();
    }
    // What the sender sends next.
    if flow.next.v4 && random.below(20) > 0 {
        let id = u16::from_be_bytes([flow.next.octets[18], flow.next.octets[19]]).wrapping_add(1);
        flow.next.octets[18..20].copy_from_slice(&id.to_be_bytes());
    }
    if flow.next.tcp && random.below(20) > 0 {
        let field = &mut flow.next.octets[l4 + 4..l4 + 8];
        let sequence = u32::from_be_bytes([field[0], field[1], field[2], field[3]]).wrapping_add(payload as u32);
        field.copy_from_slice(&sequence.to_be_bytes());
    }
    wire
}

fn stream(random: &mut Random) -> Vec<Wire> {
    let mut flows: Vec<Flow> = (0..1 + random.below(4)).map(|number| flow(random, number as u8 + 1)).collect();
    let packets = 1 + random.below(20);
    let turn = random.below(3) == 0;
    (0..packets)
        .map(|_| {
            let number = if turn { random.below(flows.len() as u64) } else { 0 };
            next(random, &mut flows[number as usize])
        })
        // Malformed packets end before.
        .filter(Wire::is_parsed)
        .collect()
}

struct Rig {
    merger: Merger,
    cache: Cache,
    vector: Vector,
}

impl Rig {
    fn new() -> Rig {
        let cache = Pool::new(PoolSize { small: 1024, large: 80 }).unwrap().cache();
        Rig { merger: Merger::new(), cache, vector: Vector::new() }
    }

    /// Merges a stream; gives the places that are left, and how many packets went into super-packets.
    fn merge(&mut self, stream: &[Wire], wanted: Wanted) -> (Indices, u64) {
        for wire in stream {
            self.vector.push(wire.packet(&mut self.cache)).unwrap();
        }
        let (mut frame, mut out) = (Indices::new(), Indices::new());
        frame.fill(stream.len());
        let merged = self.merger.merge(
            &mut self.vector,
            &frame,
            &mut out,
            (&mut self.cache, wanted),
            |_, _| Kind::Exact,
            |_, _| true,
        );
        assert_eq!(out.len() as u64, stream.len() as u64 + merged.wholes - merged.packets);
        (out, merged.packets)
    }

    fn clear(&mut self) {
        self.vector.filled().iter_mut().for_each(|packet| packet.recycle(&mut self.cache));
        self.vector.clear();
    }
}

#[test]
fn the_split_gives_back_what_was_merged_and_the_twin_merges_the_same() {
    let mut rig = Rig::new();
    let (mut joined, mut all, mut fewer) = (0, 0, 0);
    for seed in 0..streams() {
        let mut random = Random::from_seed(seed);
        let stream = stream(&mut random);
        let (out, packets) = rig.merge(&stream, ALL);
        check_order(&rig, &stream, &out, seed);
        let runs = naive(&stream, &mut rig.cache);
        let heads: Vec<u8> = runs.iter().map(|run| run[0] as u8).collect();
        if out.places() == heads {
            check_twins(&mut rig, &stream, &runs, seed);
        } else {
            // Two flows with one place end each other's runs.
            let several = stream.iter().any(|wire| wire.flow != stream[0].flow);
            assert!(several, "seed {seed}: {:?} and not {heads:?}", out.places());
            fewer += 1;
        }
        rig.clear();
        (joined, all) = (joined + packets, all + stream.len() as u64);
    }
    assert!(joined * 3 > all, "{joined} of {all} packets joined others: too few to show anything");
    assert!(fewer * 20 < streams(), "{fewer} streams with other runs");
}

/// Each flow leaves as it came, octet for octet and in its order, once super-packets are cut.
fn check_order(rig: &Rig, stream: &[Wire], out: &Indices, seed: u64) {
    let mut left: [Vec<Vec<u8>>; 5] = Default::default();
    for &place in out.places() {
        let packet = &rig.vector[place];
        let flow = &mut left[usize::from(stream[usize::from(place)].flow)];
        match packet.offload().gso {
            Gso::None => flow.push(complete(&stream[usize::from(place)])),
            _ => flow.append(&mut cut(packet)),
        }
    }
    for (flow, left) in (0..).zip(&left) {
        let came: Vec<Vec<u8>> = stream.iter().filter(|wire| wire.flow == flow).map(complete).collect();
        assert!(*left == came, "seed {seed}: flow {flow}");
    }
}

/// The super-packets are those of the twin.
fn check_twins(rig: &mut Rig, stream: &[Wire], runs: &[Vec<usize>], seed: u64) {
    for run in runs {
        let packet = &rig.vector[run[0] as u8];
        if run.len() == 1 {
            let wire = &stream[run[0]];
            assert_eq!((packet.data(), packet.offload().gso), (&wire.octets[..], Gso::None), "seed {seed}");
            continue;
        }
        let members: Vec<&Wire> = run.iter().map(|&index| &stream[index]).collect();
        let mut twin = whole(&members, &mut rig.cache);
        assert_eq!((packet.data(), packet.offload()), (twin.data(), twin.offload()), "seed {seed}");
        assert_eq!(packet.parsed(), twin.parsed(), "seed {seed}");
        twin.recycle(&mut rig.cache);
    }
}

/// Segments of one connection.
fn segments(count: usize, payload: usize) -> Vec<Wire> {
    let mut random = Random::from_seed(3);
    let mut flow = loop {
        let flow = flow(&mut random, 1);
        if flow.next.v4 && flow.next.tcp {
            break flow;
        }
    };
    (0..count)
        .map(|_| {
            let mut wire = flow.next.clone();
            wire.octets.resize(wire.octets.len() + payload, 7);
            wire.mend();
            let l4 = wire.l4();
            let id = u16::from_be_bytes([flow.next.octets[18], flow.next.octets[19]]).wrapping_add(1);
            flow.next.octets[18..20].copy_from_slice(&id.to_be_bytes());
            let field = &mut flow.next.octets[l4 + 4..l4 + 8];
            let sequence = u32::from_be_bytes([field[0], field[1], field[2], field[3]]).wrapping_add(payload as u32);
            field.copy_from_slice(&sequence.to_be_bytes());
            wire
        })
        .collect()
}

#[test]
fn no_super_packet_is_longer_than_ip_and_the_port_allow() {
    let mut rig = Rig::new();
    let stream = segments(200, 1400);
    let headers = stream[0].headers();
    for (largest, most) in [(65_600, 65_535 + 14), (20_000, 20_000)] {
        let (out, packets) = rig.merge(&stream, Wanted { largest, ..ALL });
        let each = (most - headers) / 1400;
        assert_eq!((out.len(), packets), (200usize.div_ceil(each), 200));
        let lengths: Vec<usize> = out.places().iter().map(|&place| rig.vector[place].len()).collect();
        assert!(lengths[..lengths.len() - 1].iter().all(|&length| length == headers + each * 1400));
        rig.clear();
    }
}

#[test]
fn what_is_not_wanted_or_has_no_buffer_stays_as_it_is() {
    let stream = segments(20, 1000);
    let mut rig = Rig::new();
    let (out, packets) = rig.merge(&stream, Wanted { tcp4: false, ..ALL });
    assert_eq!((out.len(), packets), (20, 0));
    rig.clear();
    let mut rig = Rig::new();
    rig.cache = Pool::new(PoolSize { small: 64, large: 0 }).unwrap().cache();
    let (out, packets) = rig.merge(&stream, ALL);
    assert_eq!((out.len(), packets), (20, 0));
    assert!(stream.iter().zip(out.places()).all(|(wire, &place)| rig.vector[place].data() == wire.octets));
    rig.clear();
}

#[test]
fn a_fragment_and_a_packet_that_cannot_join_end_the_run_of_their_flow() {
    let mut rig = Rig::new();
    for between in ["nothing", "acknowledgment", "fragment"] {
        let mut stream = segments(5, 500);
        let mut other = stream[0].clone();
        match between {
            "nothing" => drop(stream.remove(2)),
            "acknowledgment" => {
                other.octets.truncate(other.headers());
                other.mend();
                stream[2] = other;
            }
            _ => {
                other.octets[20] = 0x20;
                other.mend();
                stream[2] = other;
            }
        }
        // What is missing is made up for: the sequence goes on behind it.
        let shift = |wire: &mut Wire, by: u32| {
            let l4 = wire.l4();
            let field = &mut wire.octets[l4 + 4..l4 + 8];
            let sequence = u32::from_be_bytes([field[0], field[1], field[2], field[3]]).wrapping_sub(by);
            field.copy_from_slice(&sequence.to_be_bytes());
            let id = u16::from_be_bytes([wire.octets[18], wire.octets[19]]).wrapping_sub(1);
            wire.octets[18..20].copy_from_slice(&id.to_be_bytes());
            wire.mend();
        };
        let from = if between == "nothing" { 2 } else { 3 };
        stream[from..].iter_mut().for_each(|wire| shift(wire, 500));
        let (out, _) = rig.merge(&stream, ALL);
        let expected: &[u8] = if between == "nothing" { &[0] } else { &[0, 2, 3] };
        assert_eq!(out.places(), expected, "{between}");
        let is_fragment = rig.vector[2].flags().contains(ParseFlags::FRAGMENT);
        assert_eq!(is_fragment, between == "fragment");
        rig.clear();
    }
}
