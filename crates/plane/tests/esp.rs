//! SAs between two gateways: what one encrypts the other decrypts, and what is no packet of the SA is dropped.

use crate::kit::esp::*;
use crate::kit::*;
use weir_base::clock::Time;
use weir_crypto::Algorithm;
use weir_plane::harness::{Harness, Options, Outcome, Secured, Verdict};
use weir_plane::model::{OuterDf, OuterDscp, Sa, SaIndex, SaKey, SaMode};
use weir_plane::reason::Reason;

const V4: (&str, &str) = ("198.51.100.1", "198.51.100.2");
const V6: (&str, &str) = ("2001:db8:ff::1", "2001:db8:ff::2");

fn inner(v4: bool, length: usize) -> Vec<u8> {
    let text = match v4 {
        true => format!("udp from 10.1.0.2 port 7 to 10.2.0.2 port 9 ttl 9 length {length}"),
        false => format!("udp from 2001:db8:1::2 port 7 to 2001:db8:2::2 port 9 ttl 9 length {length}"),
    };
    bare(&text)
}

/// The packet with so many hops less to live.
fn after(packet: &[u8], hops: u8) -> Vec<u8> {
    let mut frame = [&[0; 12][..], &[8, 0], packet].concat();
    if packet[0] >> 4 == 4 {
        frame[14 + 8] -= hops;
        mend(&mut frame);
    } else {
        frame[14 + 7] -= hops;
    }
    frame.split_off(14)
}

fn reasons(outcomes: &[Outcome]) -> Vec<Option<Reason>> {
    let reason = |outcome: &Outcome| match outcome.verdict {
        Verdict::Drop(reason) => Some(reason),
        _ => None,
    };
    outcomes.iter().map(reason).collect()
}

fn frames(out: Vec<(String, Vec<u8>)>) -> Vec<Vec<u8>> {
    out.into_iter().map(|(_, frame)| frame).collect()
}

/// Sends packets from west to east; gives the packets that leave by east's `lan`, without the link layer.
fn through(west: &mut Rig, east: &mut Rig, packets: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let (outcomes, out) = west.protect(0, packets);
    assert_eq!(reasons(&outcomes), vec![None; packets.len()]);
    assert!(out.iter().all(|(port, _)| port == "wan"));
    let (outcomes, out) = east.put_all("wan", &frames(out));
    assert_eq!(reasons(&outcomes), vec![None; packets.len()]);
    assert!(out.iter().all(|(port, _)| port == "lan"));
    frames(out).into_iter().map(|frame| frame[l3(&frame)..].to_vec()).collect()
}

#[test]
fn every_algorithm_carries_both_families_in_both() {
    for algorithm in Algorithm::all() {
        for (outer, esn, encapsulation) in [(V4, false, None), (V6, true, None), (V4, true, udp()), (V6, false, udp())]
        {
            let own = Sa { esn, encapsulation, ..sa(&algorithm.to_string(), outer.0, outer.1) };
            let (mut west, mut east) = (west(std::slice::from_ref(&own)).rig(), east(&[own]).rig());
            let packets: Vec<_> = (0..40).map(|at| inner(at % 2 == 0, 60 + 17 * at)).collect();
            let expected: Vec<_> = packets.iter().map(|packet| after(packet, 2)).collect();
            assert_eq!(through(&mut west, &mut east, &packets), expected, "{algorithm} {outer:?} {esn}");
        }
    }
}

#[test]
fn outer_packets_say_what_the_sa_says() {
    let own = Sa { dscp: OuterDscp::Fixed(46), df: OuterDf::Set, hop_limit: 33, ..sa("aes128gcm16", V4.0, V4.1) };
    let mut west = west(&[own]).rig();
    let (outcomes, out) = west.protect(0, &[inner(true, 100), inner(true, 100)]);
    assert_eq!(outcomes[0].sas, [Secured { sa: SaIndex(0), inbound: false }]);
    for (number, (port, frame)) in (1u32..).zip(&out) {
        let seen = Seen::new(port, frame);
        assert_eq!((seen.source, seen.destination, seen.ttl, seen.protocol), (ip(V4.0), ip(V4.1), 33, 50));
        assert_eq!((seen.packet[1], seen.packet[6]), (46 << 2, 0x40), "DSCP and DF");
        assert_eq!(seen.packet[20..24], TO_EAST.to_be_bytes());
        assert_eq!(seen.packet[24..28], number.to_be_bytes());
        assert_eq!(seen.packet[28..36], u64::from(number).to_be_bytes(), "the IV");
        // 100 octets, 2 of padding, 2 of trailer.
        assert_eq!(seen.packet.len(), 20 + 8 + 8 + 104 + 16);
    }
    assert_eq!(out.len(), 2);
}

#[test]
fn transport_mode_protects_what_the_gateways_say_to_each_other() {
    for (ends, encapsulation) in [(V4, None), (V6, None), (V4, udp()), (V6, udp())] {
        let own = Sa { mode: SaMode::Transport, encapsulation, ..sa("aes256-sha256", ends.0, ends.1) };
        let (mut west, mut east) = (west(std::slice::from_ref(&own)).rig(), east(&[own]).rig());
        let protocol = if ends == V4 { "icmp" } else { "icmp6" };
        let request = bare(&format!("{protocol} from {} to {} type echo-request length 90", ends.0, ends.1));
        let (_, out) = west.protect(0, &[request]);
        let (outcomes, out) = east.put_all("wan", &frames(out));
        assert_eq!(outcomes[0].verdict, Verdict::Local, "{ends:?}");
        let reply = Seen::new(&out[0].0, &out[0].1);
        assert_eq!((reply.source, reply.destination), (ip(ends.1), ip(ends.0)), "the checksum was right");
        // Other packets are not the SA's.
        let (outcomes, _) = west.protect(0, &[inner(true, 90)]);
        assert_eq!(reasons(&outcomes), [Some(Reason::EspTransport)]);
    }
}

#[test]
fn checksums_are_right_for_the_addresses_behind_a_nat() {
    for (ends, l4, protocol, at, encapsulation) in [
        (V4, 20, "tcp", 16, udp()),
        (V4, 20, "udp", 6, udp()),
        (V6, 40, "tcp", 16, udp()),
        (V6, 40, "udp", 6, udp()),
        (V4, 20, "tcp", 16, None),
    ] {
        let own = Sa { mode: SaMode::Transport, encapsulation, ..sa("aes128gcm16", ends.0, ends.1) };
        let mut west = west(std::slice::from_ref(&own)).rig();
        let mut east = east(std::slice::from_ref(&own)).punt().rig();
        let right = bare(&format!("{protocol} from {} port 7 to {} port 9 length 101", ends.0, ends.1));
        // The sender has another address, and so the checksum is another one.
        let mut sent = right.clone();
        sent[l4 + at] ^= 0x55;
        let (_, out) = west.protect(0, &[&sent]);
        let passage = east.put("wan", &out[0].1);
        assert_eq!((passage.out.len(), passage.out[0].0.as_str()), (1, "punt wan"));
        let expected = if encapsulation.is_some() { &right } else { &sent };
        assert_eq!(passage.out[0].1[14 + l4..], expected[l4..], "{protocol} {ends:?}");
        // A datagram without a checksum has none for any address.
        if protocol == "udp" {
            sent[l4 + at..l4 + at + 2].fill(0);
            let (_, out) = west.protect(0, &[&sent]);
            assert_eq!(east.put("wan", &out[0].1).out[0].1[14 + l4..], sent[l4..]);
        }
    }
}

#[test]
fn extension_headers_stay_where_nodes_on_the_way_see_them() {
    let own = Sa { mode: SaMode::Transport, ..sa("aes128gcm16", V6.0, V6.1) };
    let (mut west, mut east) = (west(std::slice::from_ref(&own)).rig(), east(&[own]).rig());
    let text = format!("icmp6 from {} to {} type echo-request length 90", V6.0, V6.1);
    // Hop-by-hop options with nothing but padding.
    let whole = with_extensions(&frame(&text, mac(9)), 0, &[58, 0, 1, 4, 0, 0, 0, 0]);
    let (_, out) = west.protect(0, &[whole[14..].to_vec()]);
    assert_eq!((out[0].1[14 + 6], out[0].1[14 + 40]), (0, 50), "hop-by-hop options come first, then ESP");
    let (outcomes, _) = east.put_all("wan", &frames(out));
    assert_eq!(outcomes[0].verdict, Verdict::Local);
}

#[test]
fn a_number_is_accepted_once_and_a_forged_packet_moves_nothing() {
    let own = sa("aes128gcm16", V4.0, V4.1);
    let (mut west, mut east) = (west(std::slice::from_ref(&own)).rig(), east(&[own]).rig());
    let packets: Vec<_> = (0..100).map(|_| inner(true, 80)).collect();
    let all = frames(west.protect(0, &packets).1);
    // Duplicates in one vector, across a batch, and in the next.
    let vector: Vec<_> = [&all[..40], &all[..40]].concat();
    let (outcomes, out) = east.put_all("wan", &vector);
    assert_eq!(out.len(), 40);
    assert_eq!(tally(reasons(&outcomes)), tally([None; 40].into_iter().chain([Some(Reason::EspReplay); 40])));
    let (outcomes, _) = east.put_all("wan", &all[..1]);
    assert_eq!(reasons(&outcomes), [Some(Reason::EspReplay)]);
    // Each octet behind the addresses counts; what was forged leaves the window as it was.
    for at in 14 + 28..all[99].len() {
        let mut forged = all[99].clone();
        forged[at] ^= 1;
        east.drops_frame("wan", &forged, Reason::EspAuth);
    }
    let (outcomes, _) = east.put_all("wan", &all[40..41]);
    assert_eq!(reasons(&outcomes), [None]);
    // One packet moves the window past another of its vector.
    let (outcomes, _) = east.put_all("wan", &[&all[99], &all[35 + 6], &all[34], &all[98]]);
    assert_eq!(reasons(&outcomes), [None, None, Some(Reason::EspReplay), None]);
    let stats = &east.harness.sas()[0];
    let inbound = stats.inbound.as_ref().unwrap();
    assert_eq!((inbound.packets, inbound.replayed), (44, 42));
    // 1 to 36 have left the window of 64, and all of them came.
    assert_eq!(inbound.lost, 0);
    assert_eq!(west.harness.sas()[0].outbound.as_ref().unwrap().packets, 100);
}

#[test]
fn a_window_outlives_reloads_and_its_size() {
    let own = sa("aes128gcm16", V4.0, V4.1);
    let (mut west, mut east) = (west(std::slice::from_ref(&own)).rig(), east(std::slice::from_ref(&own)).rig());
    let all = frames(west.protect(0, &vec![inner(true, 80); 20]).1);
    let accepts = |east: &mut Rig, at: usize| reasons(&east.put_all("wan", &all[at..=at]).0)[0].is_none();
    assert!(accepts(&mut east, 9) && accepts(&mut east, 5));
    let with = |window: u32| crate::kit::esp::east(&[Sa { window, ..own.clone() }]);
    east.reload(with(64).port("new", &["10.77.0.1/24"]));
    assert!(accepts(&mut east, 4) && !accepts(&mut east, 5), "nothing about the SA has changed");
    // A window of another size knows the greatest number alone; so does an SA that was gone.
    east.reload(with(128));
    assert!(!accepts(&mut east, 3) && !accepts(&mut east, 9) && accepts(&mut east, 10));
    east.reload(crate::kit::esp::east(&[]));
    assert_eq!(east.put("wan", &all[12]).outcome.verdict, Verdict::Drop(Reason::LocalUnhandled));
    east.reload(with(128));
    assert!(!accepts(&mut east, 10) && accepts(&mut east, 12));
}

#[test]
fn what_is_no_packet_of_the_sa_is_dropped() {
    let own = sa("null-sha256", V4.0, V4.1);
    let (mut west, mut east) = (west(std::slice::from_ref(&own)).rig(), east(std::slice::from_ref(&own)).rig());
    let mut number = 0;
    let mut sealed = |text: &[u8]| {
        number += 1;
        sealed(&own, number, text, 0x51, TO_EAST)
    };
    for (text, reason) in [
        (&[][..], Reason::EspMalformed),
        (&[4], Reason::EspMalformed),
        (&[1, 2, 2, 4], Reason::EspMalformed),
        (&[1, 2, 3, 4], Reason::EspMalformed),
        (&[1, 2, 200, 4], Reason::EspMalformed),
        (&[1, 3, 2, 4], Reason::EspMalformed),
        (&[1, 2, 2, 59], Reason::EspDummy),
        // A payload that is not what the trailer says, and protocols that no tunnel has.
        (&[0x60, 0, 0, 4], Reason::EspMalformed),
        (&[0x45, 0, 0, 41], Reason::EspMalformed),
        (&[0x45, 0, 0, 6], Reason::EspMalformed),
        (&[0x45, 0, 0, 4], Reason::TruncatedIpv4),
    ] {
        let frame = sealed(text);
        east.drops_frame("wan", &frame, reason);
    }
    let whole = frames(west.protect(0, &[inner(true, 60)]).1).remove(0);
    for length in 14 + 20..whole.len() {
        let mut cut = whole[..length].to_vec();
        cut[14 + 2..14 + 4].copy_from_slice(&((length - 14) as u16).to_be_bytes());
        mend(&mut cut);
        let verdict = east.put("wan", &cut).outcome.verdict;
        let expected = matches!(verdict, Verdict::Drop(Reason::EspMalformed | Reason::EspAuth | Reason::EspReplay));
        assert!(expected, "{length}: {verdict:?}");
    }
    let mut unknown = whole.clone();
    unknown[14 + 20] ^= 1;
    east.drops_frame("wan", &unknown, Reason::EspNoSa);
}

#[test]
fn decrypted_packets_fit_a_policy_or_are_dropped() {
    let own = sa("aes128gcm16", V4.0, V4.1);
    let mut west = west(std::slice::from_ref(&own)).rig();
    let mut build = east(&[own]);
    build.0.ipsec.unchecked = false;
    let out = frames(west.protect(0, &[inner(true, 60)]).1);
    build.rig().drops_frame("wan", &out[0], Reason::EspSelector);
}

#[test]
fn an_sa_ends_with_its_last_number() {
    let own = Sa { esn: false, ..sa("aes128gcm16", V4.0, V4.1) };
    let mut west = west(std::slice::from_ref(&own)).rig();
    let last = u64::from(u32::MAX) - 2;
    west.harness.sequences()[0].1.begin(last);
    let packets: Vec<_> = (0..5).map(|_| inner(true, 60)).collect();
    let (outcomes, out) = west.protect(0, &packets);
    let over = Some(Reason::EspExhausted);
    assert_eq!(reasons(&outcomes), [None, None, None, over, over]);
    assert_eq!(out[2].1[14 + 24..14 + 28], [0xff; 4]);
    // A reload does not begin anew, nor does the same key under another name.
    west.reload(crate::kit::esp::west(&[Sa { name: "other".into(), ..own }]));
    assert_eq!(reasons(&west.protect(0, &packets[..1]).0), [over]);
}

#[test]
fn extended_numbers_go_on_beyond_32_bits() {
    let own = Sa { esn: true, ..sa("aes128gcm16", V4.0, V4.1) };
    let (mut west, mut east) = (west(std::slice::from_ref(&own)).rig(), east(&[own]).rig());
    let packets: Vec<_> = (0..100).map(|_| inner(true, 60)).collect();
    through(&mut west, &mut east, &packets[..1]);
    // No gap is as long as half of all numbers of 32 bits.
    for first in [1 << 31, (1 << 32) - 50] {
        west.harness.sequences()[0].1.begin(first);
        through(&mut west, &mut east, &packets[..1]);
    }
    assert_eq!(through(&mut west, &mut east, &packets).len(), 100);
    assert_eq!(through(&mut west, &mut east, &packets).len(), 100);
}

#[test]
fn long_packets_are_cut_before_or_reported() {
    let own = sa("aes128gcm16", V4.0, V4.1);
    let (mut west, mut east) = (west(std::slice::from_ref(&own)).rig(), east(std::slice::from_ref(&own)).rig());
    // 1,500 octets less 20, 8, 8 and 16 leave 1,448 of text, 2 of which are the trailer.
    let fits = inner(true, 1446);
    assert_eq!(through(&mut west, &mut east, std::slice::from_ref(&fits)), [after(&fits, 2)]);
    for (text, length) in
        [("10.1.0.2 port 7 to 10.2.0.2 port 9 df", 1447), ("2001:db8:1::2 port 7 to 2001:db8:2::2 port 9", 1447)]
    {
        let packet = bare(&format!("udp from {text} length {length}"));
        let (outcomes, out) = west.protect(0, std::slice::from_ref(&packet));
        assert_eq!(reasons(&outcomes), [Some(Reason::MtuExceeded)]);
        let seen = Seen::new(&out[0].0, &out[0].1);
        let (kind, rest) = if packet[0] >> 4 == 4 { (3, 1446) } else { (2, 1446) };
        assert_eq!(seen.icmp.map(|(own, _, mtu)| (own, mtu)), Some((kind, rest)));
    }
    // Fragments keep their place among packets of the vector.
    let (short, long) = (inner(true, 100), inner(true, 3000));
    let (outcomes, out) = west.protect(0, &[short.clone(), long.clone(), short.clone()]);
    assert_eq!(reasons(&outcomes), [None; 3]);
    let lengths: Vec<_> = out.iter().map(|(_, frame)| frame.len() - 14).collect();
    assert_eq!(lengths.len(), 5);
    assert!(lengths.iter().all(|&length| length <= 1500), "{lengths:?}");
    let numbers: Vec<_> = out.iter().map(|(_, frame)| frame[14 + 27]).collect();
    assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "{numbers:?}");
    let (outcomes, out) = east.put_all("wan", &frames(out));
    assert_eq!(reasons(&outcomes), [None; 5]);
    assert_eq!((out[0].1[14..].to_vec(), out[4].1[14..].to_vec()), (after(&short, 2), after(&short, 2)));
    let data: usize = out[1..4].iter().map(|(_, frame)| frame.len() - 14 - 20).sum();
    assert_eq!(data, 3000 - 20);
}

#[test]
fn fragments_of_esp_are_put_together() {
    for encapsulation in [None, udp()] {
        let own = Sa { df: OuterDf::Clear, encapsulation, ..sa("aes128gcm16", V4.0, V4.1) };
        let mut west = west(std::slice::from_ref(&own)).rig();
        let mut east = east(&[own]).rig();
        let packet = inner(true, 1000);
        let frame = frames(west.protect(0, std::slice::from_ref(&packet)).1).remove(0);
        let (_, out) = east.put_all("wan", &cut(&frame, 512));
        assert_eq!(out.len(), 1);
        assert_eq!(out[0].1[14..], after(&packet, 2));
    }
}

#[test]
fn fragments_keep_their_place_among_whole_packets_and_few_large_buffers() {
    for encapsulation in [None, udp()] {
        let own = Sa { df: OuterDf::Clear, encapsulation, window: 32, ..sa("aes128gcm16", V4.0, V4.1) };
        let (mut west, mut build) = (west(std::slice::from_ref(&own)).rig(), east(&[own]));
        build.0.buffers.large = 8;
        let mut east = build.rig();
        let packets: Vec<_> = (0..104).map(|at| inner(true, if at < 100 { 1000 } else { 60 })).collect();
        let sent = frames(west.protect(0, &packets).1);
        let pieces: Vec<_> = sent
            .iter()
            .flat_map(|frame| if frame.len() > 1000 { cut(frame, 800).to_vec() } else { vec![frame.clone()] })
            .collect();
        assert_eq!(pieces.len(), 204, "one vector has them all");
        let (outcomes, out) = east.put_all("wan", &pieces);
        assert_eq!(out.len(), 104, "{encapsulation:?}");
        assert!(outcomes.iter().all(|outcome| !matches!(outcome.verdict, Verdict::Drop(_))));
        let lengths: Vec<_> = out.iter().map(|(_, frame)| frame.len() - 14).collect();
        assert_eq!(lengths, packets.iter().map(Vec::len).collect::<Vec<_>>());
    }
}

/// The frame with another integrity check value.
fn forge(frame: &[u8]) -> Vec<u8> {
    let mut forged = frame.to_vec();
    if let Some(last) = forged.last_mut() {
        *last ^= 1;
    }
    forged
}

/// Eight pairs whose windows are spread over the workers, and packets of all of them: the fragments have one worker in common, which
/// reassembles them.
#[test]
fn reassembled_packets_are_decrypted_in_order_by_the_worker_that_has_their_sa() {
    for (workers, encapsulation) in [(2, None), (2, udp()), (4, None), (4, udp())] {
        let sas = pairs::<8>().map(|own| Sa { df: OuterDf::Clear, encapsulation, ..own });
        let mut west = west(&sas).rig();
        let options = Options { seed: 7, invent_neighbors: false };
        let mut east = Rig::with_workers(east(&sas).0, options, workers);
        // The length names the packet.
        let packets: Vec<_> = (0..120).map(|at| (at % 8, inner(true, 200 + at))).collect();
        let sent = frames(west.protect_each(&packets).1);
        let pieces: Vec<_> = sent.iter().flat_map(|frame| cut(frame, 104)).collect();
        // Forged packets end where they are decrypted. All fragments were handed over before, or none: the others were whole packets.
        let forged: Vec<_> = sent.iter().flat_map(|frame| cut(&forge(frame), 104)).collect();
        assert!(forged.chunks(90).all(|pieces| east.put_all("wan", pieces).1.is_empty()));
        assert_eq!(east.harness.drops(Reason::EspAuth), sent.len() as u64);
        assert!(!east.harness.handed().is_multiple_of(forged.len() as u64), "{workers} workers");
        let mut out = Vec::new();
        for pieces in pieces.chunks(90) {
            let (outcomes, more) = east.put_all("wan", pieces);
            assert!(outcomes.iter().all(|outcome| !matches!(outcome.verdict, Verdict::Drop(_))), "{outcomes:?}");
            out.extend(frames(more));
        }
        let numbers: Vec<usize> = out.iter().map(|frame| frame.len() - 14 - 200).collect();
        for pair in 0..8 {
            let own: Vec<usize> = numbers.iter().copied().filter(|number| number % 8 == pair).collect();
            assert_eq!(own, (pair..120).step_by(8).collect::<Vec<_>>(), "{workers} workers");
        }
        assert!(out.iter().all(|frame| frame[14..] == after(&packets[frame.len() - 14 - 200].1, 2)));
        // Each was decrypted, and none is once more.
        let (outcomes, out) = east.put_all("wan", &pieces[..90]);
        assert!(out.is_empty());
        let replayed = outcomes.iter().filter(|own| own.verdict == Verdict::Drop(Reason::EspReplay)).count();
        assert_eq!((replayed, east.harness.drops(Reason::EspReplay)), (45, 45));
    }
}

/// A packet that came whole is at the worker of its SA before one that has to be reassembled elsewhere: the window takes both.
#[test]
fn reassembled_packets_and_whole_ones_of_an_sa_pass_both() {
    let sas = pairs::<8>().map(|own| Sa { df: OuterDf::Clear, window: 64, ..own });
    let mut west = west(&sas).rig();
    let mut east = Rig::with_workers(east(&sas).0, Options { seed: 7, invent_neighbors: false }, 4);
    let packets: Vec<_> = (0..160).map(|at| (at / 2 % 8, inner(true, 200 + at))).collect();
    let sent = frames(west.protect_each(&packets).1);
    let whole_or_cut = |(at, frame): (usize, &Vec<u8>)| match at % 2 {
        0 => cut(frame, 104).to_vec(),
        _ => vec![frame.clone()],
    };
    let frames: Vec<_> = sent.iter().enumerate().flat_map(whole_or_cut).collect();
    let (outcomes, out) = east.put_all("wan", &frames);
    assert!(outcomes.iter().all(|outcome| !matches!(outcome.verdict, Verdict::Drop(_))), "{outcomes:?}");
    let mut lengths: Vec<_> = out.iter().map(|(_, frame)| frame.len() - 14).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, (200..360).collect::<Vec<_>>());
}

#[test]
fn a_thousand_tunnels_share_vectors() {
    let sas: Vec<Sa> = (0..1000u32)
        .map(|number| {
            let own = sa("aes128gcm16", V4.0, V4.1);
            let key = |spi, at| SaKey::new(spi + (number << 16), own.algorithm, &secret(own.algorithm, at)).ok();
            let (outbound, inbound) = (key(TO_EAST, 0x51), key(TO_WEST, 0x52));
            Sa { name: format!("peer{number}"), outbound, inbound, ..own }
        })
        .collect();
    let (mut west, mut east) = (west(&sas).rig(), east(&sas).rig());
    for round in 0..5 {
        let packets: Vec<_> = (0..200).map(|at| (round * 200 + at, inner(at % 2 == 0, 60 + at))).collect();
        let (outcomes, out) = west.protect_each(&packets);
        assert_eq!(reasons(&outcomes), vec![None; 200]);
        let (outcomes, out) = east.put_all("wan", &frames(out));
        assert_eq!(reasons(&outcomes), vec![None; 200]);
        for ((_, packet), (_, frame)) in packets.iter().zip(out) {
            assert_eq!(frame[14..], after(packet, 2));
        }
    }
    assert!(east.harness.sas().iter().all(|sa| sa.inbound.as_ref().unwrap().packets == 1));
}

#[test]
fn ike_and_keepalives_are_not_esp() {
    let own = Sa { encapsulation: udp(), ..sa("aes128gcm16", V4.0, V4.1) };
    let mut east = east(&[own]).rig();
    let text = "udp from 198.51.100.1 port 4500 to 198.51.100.2 port 4501 length";
    let with = |payload: &[u8]| {
        let mut frame = frame(&format!("{text} {}", 28 + payload.len()), own_mac(1));
        frame[14 + 28..].copy_from_slice(payload);
        frame
    };
    let keepalive = east.put("wan", &with(&[0xff]));
    assert_eq!((keepalive.outcome.verdict, keepalive.out.len()), (Verdict::Drop(Reason::EspKeepalive), 0));
    let ike = east.put("wan", &with(&[0, 0, 0, 0, 1, 2, 3, 4]));
    assert_eq!(ike.outcome.verdict, Verdict::Drop(Reason::LocalUnhandled));
    let esp = east.put("wan", &with(&[0, 0, 0, 1, 0, 0, 0, 1, 9, 9, 9, 9]));
    assert_eq!(esp.outcome.verdict, Verdict::Drop(Reason::EspNoSa));
}

#[test]
fn congestion_marks_pass_as_rfc_6040_says() {
    let own = sa("aes128gcm16", V4.0, V4.1);
    let (mut west, mut east) = (west(std::slice::from_ref(&own)).rig(), east(&[own]).rig());
    for (inner_ecn, outer_ecn, expected) in
        [(2, 3, Some(3)), (0, 3, None), (1, 3, Some(3)), (2, 1, Some(1)), (3, 0, Some(3))]
    {
        let mut packet = [&[0; 12][..], &[8, 0], &inner(true, 80)].concat();
        packet[14 + 1] = 0x28 | inner_ecn;
        mend(&mut packet);
        let mut frame = frames(west.protect(0, &[packet[14..].to_vec()]).1).remove(0);
        assert_eq!(frame[14 + 1], 0x28 | inner_ecn, "DSCP and ECN are copied");
        frame[14 + 1] = 0x28 | outer_ecn;
        mend(&mut frame);
        match expected {
            Some(ecn) => assert_eq!(east.put("wan", &frame).only().packet[1], 0x28 | ecn),
            None => east.drops_frame("wan", &frame, Reason::EspEcn),
        }
    }
}

#[test]
fn decrypted_packets_enter_by_the_interface_of_the_sa() {
    let own = sa("aes128gcm16", V4.0, V4.1);
    let mut west = west(std::slice::from_ref(&own)).rig();
    let mut build = east(&[own]);
    let index = build.0.interfaces.len() as u32;
    let interface = weir_plane::model::Interface {
        name: "tunnel".into(),
        kind: weir_plane::model::InterfaceKind::Ipsec,
        addresses: Vec::new(),
        ..build.0.interfaces[0].clone()
    };
    build.0.interfaces.push(interface);
    build.0.sas[0].interface = Some(weir_plane::model::InterfaceIndex(index));
    let build = build.table("none", &["permit from 192.0.2.0/24 on tunnel"]).validate(&["tunnel"], "none");
    let mut east = build.rig();
    let out = frames(west.protect(0, &[inner(true, 60)]).1);
    east.drops_frame("wan", &out[0], Reason::SavTable);
    let stats = east.harness.interface_stats(index).unwrap();
    assert_eq!((stats.rx.packets, stats.rx.bytes, stats.dropped.packets), (1, 60, 1));
}

#[test]
fn neighbour_discovery_does_not_come_out_of_a_tunnel() {
    let own = sa("aes128gcm16", V4.0, V4.1);
    let mut east = east(std::slice::from_ref(&own)).rig();
    // A peer leaves the hop limit at 255.
    let mut text =
        crate::kit::link::ask(&[], "2001:db8:ff::77", "2001:db8:ff::2", Some(crate::kit::mac(0x66)))[14..].to_vec();
    let pad = (4 - (text.len() + 2) % 4) % 4;
    text.extend((1..=pad as u8).chain([pad as u8, 41]));
    let frame = crate::kit::esp::sealed(&own, 1, &text, 0x51, TO_EAST);
    east.drops_frame("wan", &frame, Reason::BadNd);
    assert!(east.idle().1.is_empty(), "no answer");
}

#[test]
fn too_many_layers_are_not_taken_off() {
    let own = sa("aes128gcm16", V4.0, V4.1);
    let mut west = west(std::slice::from_ref(&own)).rig();
    let mut packet = inner(true, 60);
    for layers in 1..=5 {
        packet = frames(west.protect(0, &[packet]).1).remove(0).split_off(14);
        let frame = [&own_mac(1).0[..], &[2, 0, 0, 0, 0, 7], &[8, 0], &packet].concat();
        let verdict = east(std::slice::from_ref(&own)).rig().put("wan", &frame).outcome.verdict;
        let expected = if layers > 4 { Verdict::Drop(Reason::NestingLimit) } else { Verdict::Forward };
        assert_eq!(verdict, expected, "{layers}");
    }
}

#[test]
fn nodes_allocate_nothing() {
    let own = sa("aes128gcm16", V4.0, V4.1);
    let options = Options { seed: 1, invent_neighbors: true };
    let mut sender = west(std::slice::from_ref(&own)).rig();
    let frames = frames(sender.protect(0, &vec![inner(true, 200); 200]).1);
    let mut west = Harness::new(west(std::slice::from_ref(&own)).0, options).unwrap();
    let mut east = Harness::new(east(&[own]).0, options).unwrap();
    west.set_recording(false);
    east.set_recording(false);
    let packets = [inner(true, 200), inner(false, 300), inner(true, 3000)];
    for (round, chunk) in frames.chunks(50).enumerate() {
        for packet in packets.iter().cycle().take(30) {
            assert!(west.inject_protected(0, SaIndex(0), packet, 0));
        }
        for frame in chunk {
            assert!(east.inject(1, frame, Time(0), 0));
        }
        for harness in [&mut west, &mut east] {
            let count = allocation_counter::measure(|| drop(harness.run())).count_total;
            assert!(round == 0 || count == 0, "{count} allocations");
        }
    }
    assert_eq!((west.conservation().imbalance(), east.conservation().imbalance()), (0, 0));
    assert_eq!(west.sas()[0].outbound.as_ref().unwrap().packets, 4 * (10 + 10 + 30));
    assert_eq!(east.sas()[0].inbound.as_ref().unwrap().packets, 200);
}
