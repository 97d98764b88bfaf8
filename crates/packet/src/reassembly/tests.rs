use std::net::{Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use weir_base::clock::Time;

use super::*;
use crate::fragment::{Fragmenter, SourceFragmenter};
use crate::parse::{self, ParseFlags, Parsed};
use crate::wire::{ipv4, ipv6, protocol};

const HOP: u8 = protocol::HOP_BY_HOP;
const OPTIONS: u8 = protocol::DESTINATION_OPTIONS;

/// An IPv4 fragment. Options are whole words.
fn v4(options: &[u8], ecn: u8, offset: usize, more: bool, data: &[u8]) -> Vec<u8> {
    let fields = ipv4::Fields {
        tos: 0x28 | ecn,
        total_length: (20 + options.len() + data.len()) as u16,
        identification: 0xbeef,
        dont_fragment: false,
        more_fragments: more,
        fragment_offset: offset as u16,
        ttl: 63,
        protocol: protocol::ICMP,
        source: Ipv4Addr::new(10, 0, 0, 1),
        destination: Ipv4Addr::new(192, 0, 2, 9),
    };
    let mut packet = [&fields.emit()[..], options, data].concat();
    packet[0] = 0x45 + (options.len() / 4) as u8;
    packet[10..12].fill(0);
    let sum = crate::checksum::of(&packet[..20 + options.len()]);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet
}

/// An IPv6 fragment with extension headers of 8 octets in front of its fragment header.
fn v6(extensions: &[u8], ecn: u8, offset: usize, more: bool, data: &[u8]) -> Vec<u8> {
    let chain = [extensions, &[protocol::FRAGMENT]].concat();
    let mut payload = Vec::new();
    for next in &chain[1..] {
        payload.extend_from_slice(&[*next, 0, 1, 4, 0, 0, 0, 0]);
    }
    let header = ipv6::Fragment { at: 0, named_at: 0, offset: offset as u16, more, identification: 0x0102_0304 };
    payload.extend_from_slice(&header.emit(protocol::ICMPV6));
    payload.extend_from_slice(data);
    let fields = ipv6::Fields {
        traffic_class: 0x28 | ecn,
        flow_label: 5,
        payload_length: payload.len() as u16,
        next_header: chain[0],
        hop_limit: 63,
        source: Ipv6Addr::from([0x20; 16]),
        destination: Ipv6Addr::from([0x21; 16]),
    };
    [&fields.emit()[..], &payload].concat()
}

fn parsed(packet: &[u8]) -> Parsed {
    if packet[0] >> 4 == 4 { parse::ipv4(packet, 0) } else { parse::ipv6(packet, 0) }.unwrap()
}

fn piece(packet: &[u8]) -> Result<Piece, Bad> {
    Piece::new(&parsed(packet), packet)
}

/// The specification, as plainly as it can be put: every fragment in a list.
#[derive(Default)]
struct Naive {
    fragments: Vec<Listed>,
}

/// Headers, offset, data, whether more follow, congestion notification.
type Listed = (Vec<u8>, usize, Vec<u8>, bool, u8);

impl Naive {
    fn add(&mut self, packet: &[u8]) -> Progress {
        let piece = piece(packet).unwrap();
        let (headers, data) = packet.split_at(piece.headers.into());
        let (start, end) = (usize::from(piece.offset), piece.end());
        for (_, offset, other, more, _) in &self.fragments {
            if (*offset, &other[..], *more) == (start, data, piece.more) {
                return Progress::Repeated;
            }
            // Two that share no octet may still share a unit, if one of them is a last one.
            let touches = *offset < end.next_multiple_of(8) && start < (offset + other.len()).next_multiple_of(8);
            let two_ends = !more && !piece.more;
            let beyond = !more && end > offset + other.len() || !piece.more && offset + other.len() > end;
            if touches || two_ends || beyond {
                return Progress::Spoilt;
            }
        }
        self.fragments.push((headers.to_vec(), start, data.to_vec(), piece.more, piece.ecn));
        match self.packet() {
            None => Progress::Added,
            Some(None) => Progress::Spoilt,
            Some(Some(_)) => Progress::Complete,
        }
    }

    /// Nothing before everything is there; then the packet, if it may be.
    fn packet(&self) -> Option<Option<Vec<u8>>> {
        let mut sorted = self.fragments.clone();
        sorted.sort_by_key(|fragment| fragment.1);
        let mut data = Vec::new();
        for (_, offset, octets, _, _) in &sorted {
            if *offset != data.len() {
                return None;
            }
            data.extend_from_slice(octets);
        }
        if sorted.last()?.3 {
            return None;
        }
        let mut header = sorted[0].0.clone();
        let has = |codepoint: u8| sorted.iter().any(|fragment| fragment.4 == codepoint);
        if has(0) && has(3) {
            return Some(None);
        }
        if header[0] >> 4 == 4 {
            let total = header.len() + data.len();
            if total > 65_535 {
                return Some(None);
            }
            header[1] |= if has(3) { 3 } else { 0 };
            header[2..4].copy_from_slice(&(total as u16).to_be_bytes());
            header[6..8].fill(0);
            header[10..12].fill(0);
            let sum = crate::checksum::of(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        } else {
            let fragment = ipv6::walk(&[&header[..], &[0; 64]].concat()).unwrap().fragment.unwrap();
            header[fragment.named_at] = header[fragment.at];
            header.truncate(fragment.at);
            let payload = header.len() - 40 + data.len();
            if payload > 65_535 {
                return Some(None);
            }
            header[1] |= if has(3) { 0x30 } else { 0 };
            header[4..6].copy_from_slice(&(payload as u16).to_be_bytes());
        }
        Some(Some([header, data].concat()))
    }
}

fn put(datagram: &mut Datagram, room: &mut [u8], packet: &[u8]) -> Progress {
    datagram.add(room, &piece(packet).unwrap(), packet)
}

#[test]
fn what_a_fragment_says_of_itself() {
    let first = v4(&[148, 4, 0, 0], 1, 0, true, &[7; 16]);
    let expected = Piece {
        key: Key {
            source: Ipv4Addr::new(10, 0, 0, 1).to_ipv6_mapped(),
            destination: Ipv4Addr::new(192, 0, 2, 9).to_ipv6_mapped(),
            identification: 0xbeef,
            protocol: 1,
            scope: 0,
        },
        headers: 24,
        named_at: 0,
        offset: 0,
        length: 16,
        more: true,
        protocol: 1,
        ecn: 1,
    };
    assert_eq!(piece(&first), Ok(expected));
    // Padding of the link is no data.
    let padded = [&first[..], &[0xee; 9]].concat();
    assert_eq!(Piece::new(&parsed(&padded), &padded), Ok(expected));
    let last = v6(&[HOP, OPTIONS], 3, 1232, false, &[7; 5]);
    let seen = piece(&last).unwrap();
    assert_eq!((seen.headers, seen.named_at, seen.offset, seen.length), (64, 48, 1232, 5));
    assert_eq!((seen.more, seen.protocol, seen.ecn, seen.is_v4()), (false, 58, 3, false));
    assert_eq!((seen.key.identification, seen.key.protocol), (0x0102_0304, 0));
}

#[test]
fn fragments_that_no_datagram_can_have() {
    let whole = v4(&[], 0, 0, false, &[7; 16]);
    assert_eq!(piece(&whole), Err(Bad::NoFragment));
    let atomic = v6(&[], 0, 0, false, &[7; 16]);
    assert_eq!(piece(&atomic), Err(Bad::NoFragment), "RFC 6946");
    assert!(!parsed(&atomic).flags.intersects(ParseFlags::FRAGMENT));
    for make in [v4, v6] {
        assert_eq!(piece(&make(&[], 0, 8, false, &[])), Err(Bad::Empty));
        assert_eq!(piece(&make(&[], 0, 8, true, &[7; 15])), Err(Bad::Odd));
        assert!(piece(&make(&[], 0, 8, false, &[7; 15])).is_ok());
        let first = make(&[], 0, 0, true, &[7; 16]);
        assert_eq!(Piece::new(&parsed(&first), &first[..first.len() - 1]), Err(Bad::NoFragment));
    }
    // As long as can be, and an octet more.
    assert!(piece(&v4(&[], 0, 65_512, false, &[7; 3])).is_ok());
    assert_eq!(piece(&v4(&[], 0, 65_512, false, &[7; 4])), Err(Bad::TooLong { at: 0 }));
    assert!(piece(&v6(&[], 0, 65_528, false, &[7; 7])).is_ok());
    assert_eq!(piece(&v6(&[], 0, 65_528, false, &[7; 8])), Err(Bad::TooLong { at: 40 }));
    assert_eq!(piece(&v6(&[HOP], 0, 65_528, false, &[7; 7])), Err(Bad::TooLong { at: 48 }));
    // The header of the message is part of the chain (RFC 7112).
    let mut tiny = v6(&[], 0, 0, true, &[0; 8]);
    tiny[40] = protocol::TCP;
    assert_eq!(piece(&tiny), Err(Bad::IncompleteChain));
    tiny[40] = protocol::UDP;
    assert!(piece(&tiny).is_ok());
    // Headers that are longer than the room for them.
    let mut long = v6(&[HOP], 0, 8, false, &[7; 8]);
    let options = 2048usize;
    for _ in 0..2 {
        long.splice(48..48, [&[protocol::FRAGMENT, 255][..], &vec![0; options - 2]].concat());
        long[40] = OPTIONS;
    }
    // The first of the two names the second.
    long[48] = OPTIONS;
    let payload = (long.len() - 40) as u16;
    long[4..6].copy_from_slice(&payload.to_be_bytes());
    assert_eq!(piece(&long), Err(Bad::LongHeaders));
    let problems: Vec<_> =
        [Bad::Odd, Bad::TooLong { at: 48 }, Bad::IncompleteChain, Bad::Empty, Bad::LongHeaders, Bad::NoFragment]
            .map(Bad::parameter_problem)
            .into();
    assert_eq!(problems, [Some((0, 4)), Some((0, 50)), Some((3, 0)), None, None, None]);
}

#[test]
fn overlaps_spoil_and_repetitions_do_not() {
    for make in [v4, v6] {
        let mut room = vec![0xaa; ROOM];
        let data: Vec<u8> = (0..64).collect();
        let part = |from: usize, to: usize, more: bool| make(&[], 0, from, more, &data[from..to]);
        let with = |earlier: &[Vec<u8>], next: &[u8], room: &mut [u8]| {
            let (mut datagram, mut naive) = (Datagram::new(), Naive::default());
            for packet in earlier {
                assert_eq!(put(&mut datagram, room, packet), Progress::Added);
                assert_eq!(naive.add(packet), Progress::Added);
            }
            let progress = put(&mut datagram, room, next);
            assert_eq!(naive.add(next), progress);
            progress
        };
        let earlier = [part(16, 32, true), part(48, 64, false)];
        assert_eq!(with(&earlier, &part(16, 32, true), &mut room), Progress::Repeated);
        assert_eq!(with(&earlier, &part(48, 64, false), &mut room), Progress::Repeated);
        assert_eq!(with(&earlier, &part(0, 16, true), &mut room), Progress::Added);
        for (from, to, more) in [
            (16, 24, true), // part of one
            (24, 32, true),
            (8, 32, true), // more than one
            (16, 40, true),
            (24, 40, true),  // over its end
            (8, 24, true),   // over its start
            (40, 56, true),  // into the last
            (48, 64, true),  // the last, which others follow now
            (32, 40, false), // another end
        ] {
            assert_eq!(with(&earlier, &part(from, to, more), &mut room), Progress::Spoilt, "{from} {to} {more}");
        }
        let other = make(&[], 0, 16, true, &[9; 16]);
        assert_eq!(with(&earlier, &other, &mut room), Progress::Spoilt, "other octets in the same place");
        let beyond = make(&[], 0, 64, true, &[9; 16]);
        assert_eq!(with(&earlier, &beyond, &mut room), Progress::Spoilt, "behind the last");
        assert_eq!(with(&[part(32, 48, true)], &part(16, 24, false), &mut room), Progress::Spoilt, "an end before it");
        // A last fragment may end within a unit; nothing else may be in that unit.
        assert_eq!(with(&[part(32, 35, false)], &part(32, 36, false), &mut room), Progress::Spoilt);
        assert_eq!(with(&[part(32, 40, true)], &part(32, 35, false), &mut room), Progress::Spoilt);
        // A fragment of all that is there, in two steps.
        assert_eq!(with(&[part(16, 24, true), part(24, 32, true)], &part(16, 32, true), &mut room), Progress::Spoilt);
    }
}

#[test]
fn congestion_is_told_on() {
    let mut room = vec![0; ROOM];
    for make in [v4, v6] {
        for (first, last, told) in [
            (0, 0, Some(0)),
            (1, 2, Some(1)),
            (2, 3, Some(3)),
            (3, 1, Some(3)),
            (3, 3, Some(3)),
            (3, 0, None),
            (0, 3, None),
            (0, 2, Some(0)),
        ] {
            let mut datagram = Datagram::new();
            assert_eq!(put(&mut datagram, &mut room, &make(&[], last, 8, false, &[7; 8])), Progress::Added);
            let progress = put(&mut datagram, &mut room, &make(&[], first, 0, true, &[0; 8]));
            assert_eq!(progress, if told.is_some() { Progress::Complete } else { Progress::Spoilt });
            let Some(told) = told else { continue };
            let at = datagram.finish(&mut room).unwrap();
            let packet = &room[at];
            let ecn = match packet[0] >> 4 {
                4 => ipv4::Header::new(packet).unwrap().ecn(),
                _ => ipv6::Header::new(packet).unwrap().ecn(),
            };
            assert_eq!((ecn, parsed(packet).flags.contains(ParseFlags::FRAGMENT)), (told, false));
        }
    }
}

#[test]
fn the_first_fragment_comes_out_as_it_went_in() {
    for first in [v4(&[1; 8], 0, 0, true, &[9; 48]), v6(&[HOP], 0, 0, true, &[9; 48])] {
        let mut room = vec![0; ROOM];
        let mut datagram = Datagram::new();
        assert_eq!((datagram.first_fragment(), datagram.finish(&mut room)), (None, None));
        let make = if first[0] >> 4 == 4 { v4 } else { v6 };
        put(&mut datagram, &mut room, &make(&[], 0, 400, true, &[5; 160]));
        assert_eq!(datagram.first_fragment(), None);
        put(&mut datagram, &mut room, &first);
        assert_eq!(room[datagram.first_fragment().unwrap()], first);
        assert_eq!(datagram.finish(&mut room), None, "there is more to come");
        assert_eq!(usize::from(datagram.longest()), 160 + if first[0] >> 4 == 4 { 20 } else { 48 });
    }
}

#[test]
fn headers_in_front_count_and_are_the_firsts() {
    // Every fragment for itself could be, all together they are too long.
    let mut room = vec![0; ROOM];
    for (make, options, last) in
        [(v4 as fn(&[u8], u8, usize, bool, &[u8]) -> Vec<u8>, &[1u8; 8][..], 65_512), (v6, &[HOP][..], 65_528)]
    {
        let mut datagram = Datagram::new();
        let mut naive = Naive::default();
        let tail = make(&[], 0, last, false, &[7; 3]);
        let middle: Vec<u8> = make(&[], 0, 8, true, &vec![7; 33_504]);
        let reach = piece(&middle).unwrap().end();
        let rest = make(&[], 0, reach, true, &vec![7; last - reach]);
        for packet in [&tail, &middle, &rest] {
            assert_eq!(put(&mut datagram, &mut room, packet), Progress::Added);
            assert_eq!(naive.add(packet), Progress::Added);
        }
        let first = make(options, 0, 0, true, &[0; 8]);
        assert_eq!(naive.add(&first), Progress::Spoilt);
        assert_eq!(put(&mut datagram, &mut room, &first), Progress::Spoilt);
    }
    // Later fragments may have had other headers.
    let mut datagram = Datagram::new();
    put(&mut datagram, &mut room, &v6(&[HOP, OPTIONS], 0, 8, false, &[7; 3]));
    assert_eq!(put(&mut datagram, &mut room, &v6(&[HOP], 0, 0, true, &[0; 8])), Progress::Complete);
    let at = datagram.finish(&mut room).unwrap();
    assert_eq!((at.len(), parsed(&room[at]).protocol), (40 + 8 + 8 + 3, protocol::ICMPV6));
}

#[test]
fn a_room_that_is_too_short_spoils() {
    let packet = v4(&[], 0, 1000, true, &[7; 8]);
    assert_eq!(put(&mut Datagram::new(), &mut vec![0; DATA + 1007], &packet), Progress::Spoilt);
    let first = v4(&[], 0, 0, true, &[7; 8]);
    let mut datagram = Datagram::new();
    assert_eq!(datagram.add(&mut vec![0; ROOM], &piece(&first).unwrap(), &first[..20]), Progress::Spoilt);
}

/// A packet of this family whose fragmentable part has so many octets.
fn whole(is_v4: bool, extensions: bool, length: usize) -> Vec<u8> {
    let data: Vec<u8> = (0..length).map(|octet| (octet / 3) as u8 ^ (octet >> 8) as u8).collect();
    if is_v4 {
        // Router alert and padding.
        return v4(if extensions { &[148, 4, 0, 0] } else { &[] }, 0, 0, false, &data);
    }
    let mut packet = v6(if extensions { &[HOP] } else { &[] }, 0, 0, false, &data);
    let fragment = ipv6::walk(&packet).unwrap().fragment.unwrap();
    packet[fragment.named_at] = protocol::ICMPV6;
    packet.drain(fragment.at..fragment.at + 8);
    let payload = (packet.len() - 40) as u16;
    packet[4..6].copy_from_slice(&payload.to_be_bytes());
    packet
}

fn cut(packet: &[u8], mtu: u32) -> Vec<Vec<u8>> {
    let mut out = vec![0; 65_600];
    let mut fragments = Vec::new();
    if packet[0] >> 4 == 4 {
        let mut fragmenter = Fragmenter::new(packet, mtu).unwrap();
        while let Some(length) = fragmenter.next(&mut out) {
            fragments.push(out[..length].to_vec());
        }
    } else {
        let mut fragmenter = SourceFragmenter::new(packet, mtu, 7).unwrap();
        while let Some(length) = fragmenter.next(&mut out) {
            fragments.push(out[..length].to_vec());
        }
    }
    fragments
}

/// The fragments in another order, some of them twice.
fn shuffled(fragments: Vec<Vec<u8>>, random: u64) -> Vec<Vec<u8>> {
    let mut random = weir_base::random::Random::from_seed(random);
    let mut twice: Vec<_> =
        fragments.into_iter().flat_map(|one| vec![one; 1 + usize::from(random.chance(0.2))]).collect();
    for index in (1..twice.len()).rev() {
        twice.swap(index, random.below(index as u64 + 1) as usize);
    }
    twice
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn what_was_cut_is_whole_again(
        is_v4 in any::<bool>(),
        extensions in any::<bool>(),
        length in prop_oneof![1400usize..9000, 60_000usize..=65_507, Just(65_507), 100usize..200],
        mtu in prop_oneof![88u32..100, 576u32..9000, Just(1280), Just(1500)],
        random in any::<u64>(),
    ) {
        let packet = whole(is_v4, extensions, length);
        let fragments = cut(&packet, mtu);
        prop_assume!(fragments.len() > 1);
        let count = fragments.len();
        let mut room = vec![0x55; ROOM];
        let (mut datagram, mut seen) = (Datagram::new(), 0);
        for fragment in shuffled(fragments, random) {
            match put(&mut datagram, &mut room, &fragment) {
                Progress::Added => seen += 1,
                Progress::Repeated => {}
                Progress::Spoilt => prop_assert!(false, "nothing contradicts"),
                Progress::Complete => {
                    seen += 1;
                    break;
                }
            }
        }
        prop_assert_eq!(seen, count);
        let at = datagram.finish(&mut room).unwrap();
        prop_assert!(room[at] == packet);
    }

    #[test]
    fn any_fragments_at_all(
        is_v4 in any::<bool>(),
        parts in proptest::collection::vec((0usize..24, 1usize..8, 0u8..8, any::<bool>(), 0u8..20), 1..24),
    ) {
        let make = if is_v4 { v4 } else { v6 };
        let mut room = vec![0x55; ROOM];
        let (mut datagram, mut naive) = (Datagram::new(), Naive::default());
        for (unit, units, short, more, ecn) in parts {
            // Few values, so that fragments meet: mostly whole units of data that depends on the place alone.
            let length = if more { units * 8 } else { units * 8 - usize::from(short) };
            let mut data: Vec<u8> = (unit * 8..unit * 8 + length).map(|octet| octet as u8).collect();
            if ecn == 19 {
                data[0] ^= 1;
            }
            let ecn = if ecn < 4 { ecn } else { 2 };
            let packet = make(&[], ecn, unit * 8, more, &data);
            // RFC 7112: too short a first fragment is refused before.
            if piece(&packet).is_err() {
                continue;
            }
            let progress = put(&mut datagram, &mut room, &packet);
            prop_assert_eq!(progress, naive.add(&packet));
            match progress {
                Progress::Added | Progress::Repeated => prop_assert_eq!(datagram.finish(&mut room), None),
                Progress::Spoilt => return Ok(()),
                Progress::Complete => {
                    let at = datagram.finish(&mut room).unwrap();
                    prop_assert_eq!(&room[at], &naive.packet().unwrap().unwrap()[..]);
                    return Ok(());
                }
            }
        }
    }

    #[test]
    fn the_table_is_a_list_by_age(
        capacity in 0usize..6,
        steps in proptest::collection::vec((0u8..4, 0u32..9, 0u64..40), 1..80),
    ) {
        let key = |identification: u32| Key {
            source: Ipv6Addr::from([1; 16]),
            destination: Ipv6Addr::from([2; 16]),
            identification,
            protocol: 0,
            scope: identification % 2,
        };
        let mut table = Table::new(capacity, 100, [3, 4]);
        let mut list: Vec<(u32, u32, u64)> = Vec::new();
        let mut now = 0;
        for (value, (step, number, passed)) in steps.into_iter().enumerate() {
            now += passed;
            let value = value as u32;
            let known = list.iter().position(|entry| entry.0 == number);
            prop_assert_eq!(table.find(&key(number)).copied(), known.map(|index| list[index].1));
            match step {
                0 | 1 if known.is_none() => {
                    let evicted = table.insert(key(number), value, Time(now)).map(|evicted| evicted.value);
                    list.push((number, value, now));
                    let expected = (list.len() > capacity).then(|| list.remove(0).1);
                    prop_assert_eq!(evicted, expected);
                }
                2 => prop_assert_eq!(table.remove(&key(number)), known.map(|index| list.remove(index).1)),
                _ => {
                    let due = list.first().is_some_and(|oldest| oldest.2 + 100 <= now);
                    let expired = table.expire(Time(now)).map(|evicted| (evicted.key, evicted.value));
                    prop_assert_eq!(expired, due.then(|| list.remove(0)).map(|entry| (key(entry.0), entry.1)));
                }
            }
            prop_assert_eq!((table.len(), table.capacity(), table.is_empty()), (list.len(), capacity, list.is_empty()));
            prop_assert_eq!(table.deadline(), list.first().map(|oldest| Time(oldest.2 + 100)));
        }
        let rest: Vec<u32> = std::iter::from_fn(|| table.pop().map(|evicted| evicted.value)).collect();
        prop_assert_eq!(rest, list.into_iter().map(|entry| entry.1).collect::<Vec<_>>());
    }
}
