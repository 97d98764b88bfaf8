//! The life of SAs: keepalives while nothing is sent, and the ends of their lifetimes.

use std::time::Duration;

use crate::kit::esp::*;
use crate::kit::*;
use weir_crypto::Secret;
use weir_plane::engine::News;
use weir_plane::harness::Verdict;
use weir_plane::model::{Encapsulation, Lifetime, Lifetimes, Sa, SaKey, SaMode};
use weir_plane::reason::Reason;
use weir_plane::stats::SaPhase;

const V4: (&str, &str) = ("198.51.100.1", "198.51.100.2");
const V6: (&str, &str) = ("2001:db8:ff::1", "2001:db8:ff::2");
const SECOND: u64 = 1_000_000_000;

fn inner() -> Vec<u8> {
    bare("udp from 10.1.0.2 port 7 to 10.2.0.2 port 9 ttl 9 length 100")
}

fn encapsulated(keepalive: Option<u64>) -> Option<Encapsulation> {
    udp().map(|own| Encapsulation { keepalive: keepalive.map(Duration::from_secs), ..own })
}

/// Steps the control side `seconds` later; returns the frames that leave.
fn tend(rig: &mut Rig, seconds: u64) -> (Vec<News>, Vec<Vec<u8>>) {
    rig.advance(seconds * SECOND);
    let news = rig.harness.tend_sas();
    let (_, out) = rig.put_by::<Vec<u8>>(&[], |_, _, _| true);
    assert!(out.iter().all(|(port, _)| port == "wan"));
    (news, out.into_iter().map(|(_, frame)| frame).collect())
}

fn verdict(rig: &mut Rig) -> Verdict {
    rig.protect(0, &[inner()]).0[0].verdict
}

#[test]
fn keepalives_are_sent_while_nothing_else_is() {
    for (ends, mode) in [(V4, SaMode::Tunnel), (V6, SaMode::Tunnel), (V4, SaMode::Transport)] {
        let own = Sa { mode, encapsulation: encapsulated(Some(20)), ..sa("aes128gcm16", ends.0, ends.1) };
        let (mut west, mut east) = (west(std::slice::from_ref(&own)).rig(), east(std::slice::from_ref(&own)).rig());
        assert!(tend(&mut west, 0).1.is_empty());
        assert!(tend(&mut west, 19).1.is_empty());
        let out = tend(&mut west, 1).1;
        assert_eq!(out.len(), 1, "20 s without a packet");
        let seen = Seen::new("wan", &out[0]);
        assert_eq!((seen.source, seen.destination, seen.protocol), (ip(ends.0), ip(ends.1), 17));
        let udp = &seen.packet[if ends == V4 { 20 } else { 40 }..];
        assert_eq!((&udp[..6], &udp[8..]), (&[0x11, 0x94, 0x11, 0x95, 0, 9][..], &[0xff][..]));
        assert_eq!(udp[6..8] == [0, 0], ends == V4, "UDP over IPv6 has a checksum (RFC 8200, 8.1)");
        // The peer drops it, under its own reason.
        east.drops_frame("wan", &out[0], Reason::EspKeepalive);
        assert!(tend(&mut west, 19).1.is_empty());
        assert_eq!(tend(&mut west, 1).1.len(), 1);
        assert_eq!(west.harness.sas()[0].keepalives, 2);
    }
}

#[test]
fn a_packet_puts_the_keepalive_off_for_all_pairs_of_its_mapping() {
    let first = Sa { encapsulation: encapsulated(Some(20)), ..sa("aes128gcm16", V4.0, V4.1) };
    let key = |spi, direction| Some(SaKey::new(spi, first.algorithm, &secret(first.algorithm, direction)).unwrap());
    // The same ends: the successor of the first pair. Another peer port: another mapping.
    let second = Sa { name: "second".into(), outbound: key(0x1002, 0x61), inbound: key(0x2002, 0x62), ..first.clone() };
    let third = Sa {
        name: "third".into(),
        outbound: key(0x1003, 0x71),
        inbound: key(0x2003, 0x72),
        encapsulation: Some(Encapsulation { remote_port: 4510, ..first.encapsulation.unwrap() }),
        ..first.clone()
    };
    let silent = Sa {
        name: "silent".into(),
        outbound: key(0x1004, 0x81),
        inbound: key(0x2004, 0x82),
        encapsulation: Some(Encapsulation { remote_port: 4511, keepalive: None, ..first.encapsulation.unwrap() }),
        ..first.clone()
    };
    let mut west = west(&[first, second, third, silent]).rig();
    tend(&mut west, 0);
    west.advance(15 * SECOND);
    assert_eq!(west.protect(1, &[inner()]).1.len(), 1);
    assert!(tend(&mut west, 0).1.is_empty());
    let out = tend(&mut west, 5).1;
    assert_eq!(out.len(), 1, "of the third pair alone");
    assert_eq!(Seen::new("wan", &out[0]).packet[22..24], 4510u16.to_be_bytes());
    assert_eq!(tend(&mut west, 15).1.len(), 1, "20 s after the packet of the second pair");
}

#[test]
fn soft_lifetimes_are_reported_and_hard_ones_stop_the_sa() {
    let lifetimes = Lifetimes {
        soft: Lifetime { time: Some(Duration::from_secs(50)), ..Lifetime::default() },
        hard: Lifetime { time: Some(Duration::from_secs(60)), ..Lifetime::default() },
    };
    let own = Sa { lifetimes, ..sa("aes128gcm16", V4.0, V4.1) };
    let (mut west, mut east) = (west(std::slice::from_ref(&own)).rig(), east(std::slice::from_ref(&own)).rig());
    for rig in [&mut west, &mut east] {
        assert!(tend(rig, 0).0.is_empty());
        assert!(tend(rig, 49).0.is_empty());
        let news = tend(rig, 1).0;
        assert_eq!(news.len(), 2, "one of each direction: {news:?}");
        assert!(news.iter().all(|news| matches!(news, News::SaSoft { limit: "time", .. })));
        assert!(tend(rig, 9).0.is_empty(), "once");
    }
    let phase = |rig: &Rig| rig.harness.sas()[0].outbound.as_ref().unwrap().life.unwrap().phase;
    assert_eq!(phase(&west), SaPhase::Soft("time"));
    let sent = west.protect(0, &[inner(), inner()]).1;
    assert_eq!(sent.len(), 2, "a soft lifetime stops nothing");
    assert_eq!(east.put("wan", &sent[0].1).outcome.verdict, Verdict::Forward);
    let news = tend(&mut west, 1).0;
    assert!(matches!(&news[..], [News::SaExpired { outbound: true, .. }, News::SaExpired { outbound: false, .. }]));
    tend(&mut east, 1);
    let (outcomes, out) = west.protect(0, &[inner()]);
    assert_eq!((outcomes[0].verdict, out.len()), (Verdict::Drop(Reason::EspExpired), 0));
    east.drops_frame("wan", &sent[1].1, Reason::EspExpired);
    assert_eq!((west.harness.sas()[0].expired, phase(&west)), (1, SaPhase::Expired("time")));
    // A reload that leaves the pair alone does not bring it back, nor does another name; a new key does.
    west.reload(crate::kit::esp::west(std::slice::from_ref(&own)));
    tend(&mut west, 1);
    assert_eq!(verdict(&mut west), Verdict::Drop(Reason::EspExpired));
    let expired = west.harness.sas()[0].expired;
    let renamed = Sa { name: "renamed".into(), ..own.clone() };
    west.reload(crate::kit::esp::west(&[renamed]));
    assert!(tend(&mut west, 1).0.is_empty(), "its end was reported under its old name");
    assert_eq!(verdict(&mut west), Verdict::Drop(Reason::EspExpired));
    let row = &west.harness.sas()[0];
    assert_eq!((row.name.as_str(), row.expired), ("renamed", expired + 1), "counters go on");
    assert_eq!(row.outbound.as_ref().unwrap().packets, 2);
    let outbound = SaKey::new(TO_EAST, own.algorithm, &secret(own.algorithm, 0x99)).ok();
    west.reload(crate::kit::esp::west(&[Sa { outbound, ..own.clone() }]));
    tend(&mut west, 1);
    assert_eq!(verdict(&mut west), Verdict::Forward);
    let row = &west.harness.sas()[0];
    assert_eq!((row.expired, row.outbound.as_ref().unwrap().packets), (0, 1), "a new key has counters of its own");
    assert_eq!(row.inbound.as_ref().unwrap().life.unwrap().phase, SaPhase::Expired("time"));
    // Greater limits bring the SA back.
    west.reload(crate::kit::esp::west(&[Sa { lifetimes: Lifetimes::default(), ..own }]));
    tend(&mut west, 0);
    assert_eq!(verdict(&mut west), Verdict::Forward);
}

/// A number under one cipher key makes one key stream, whatever authenticates the packet.
#[test]
fn numbers_go_on_when_the_key_of_integrity_alone_changes() {
    let own = sa("aes128ctr-sha256", V4.0, V4.1);
    let mut rig = west(std::slice::from_ref(&own)).rig();
    let numbers = |rig: &mut Rig| -> Vec<u8> {
        // Behind the Ethernet header, that of IPv4 and the SPI.
        rig.protect(0, &[inner(), inner()]).1.iter().map(|(_, frame)| frame[14 + 20 + 7]).collect()
    };
    assert_eq!(numbers(&mut rig), [1, 2]);
    let (cipher, integrity) = (own.algorithm.cipher_key_octets(), own.algorithm.integrity_key_octets());
    let key =
        |cipher: &[u8], integrity: &[u8]| SaKey::new(TO_EAST, own.algorithm, &Secret::new(cipher, integrity)).ok();
    let same: Vec<u8> = (0..cipher).map(|at| at as u8 ^ 1).collect();
    let (first, second) = (vec![7; integrity], vec![8; integrity]);
    rig.reload(west(&[Sa { outbound: key(&same, &first), ..own.clone() }]));
    let begun = numbers(&mut rig);
    rig.reload(west(&[Sa { outbound: key(&same, &second), ..own.clone() }]));
    assert_eq!(numbers(&mut rig), [begun[1] + 1, begun[1] + 2]);
    rig.reload(west(&[Sa { outbound: key(&vec![9; cipher], &second), ..own.clone() }]));
    assert_eq!(numbers(&mut rig), [1, 2]);
}

#[test]
fn packets_and_octets_count_for_each_direction_apart() {
    for (hard, limit) in [
        (Lifetime { packets: Some(3), ..Lifetime::default() }, "packets"),
        (Lifetime { octets: Some(250), ..Lifetime::default() }, "octets"),
    ] {
        let own = Sa { lifetimes: Lifetimes { hard, ..Lifetimes::default() }, ..sa("aes128gcm16", V4.0, V4.1) };
        let mut west = west(std::slice::from_ref(&own)).rig();
        let mut east = east(std::slice::from_ref(&own)).rig();
        tend(&mut west, 0);
        let sent: Vec<_> = (0..3).map(|_| west.protect(0, &[inner()]).1.remove(0).1).collect();
        let news = tend(&mut west, 1).0;
        assert_eq!(news.len(), 1, "{news:?}");
        assert!(
            matches!(&news[0], News::SaExpired { outbound: true, spi: TO_EAST, limit: own, .. } if *own == limit),
            "{news:?}"
        );
        assert_eq!(verdict(&mut west), Verdict::Drop(Reason::EspExpired));
        tend(&mut east, 0);
        east.put_all("wan", &sent);
        assert!(matches!(&tend(&mut east, 1).0[..], [News::SaExpired { outbound: false, .. }]));
        assert_eq!(verdict(&mut east), Verdict::Forward, "the other direction goes on");
        // The counters of a pair begin again with a new key of the other direction: the life of this one does not.
        let inbound = SaKey::new(TO_WEST, own.algorithm, &secret(own.algorithm, 0x98)).ok();
        west.reload(crate::kit::esp::west(&[Sa { inbound, ..own.clone() }]));
        tend(&mut west, 1);
        assert_eq!(verdict(&mut west), Verdict::Drop(Reason::EspExpired));
    }
}

/// Neither lifetimes nor sequence numbers nor windows are counters of `weir clear sa`.
#[test]
fn a_life_and_a_window_go_on_behind_cleared_counters() {
    for hard in [
        Lifetime { packets: Some(4), ..Lifetime::default() },
        Lifetime { octets: Some(350), ..Lifetime::default() },
        Lifetime { time: Some(Duration::from_secs(6)), ..Lifetime::default() },
    ] {
        let own = Sa { lifetimes: Lifetimes { hard, ..Lifetimes::default() }, ..sa("aes128gcm16", V4.0, V4.1) };
        let mut west = west(std::slice::from_ref(&own)).rig();
        let mut east = east(std::slice::from_ref(&own)).rig();
        tend(&mut west, 0);
        tend(&mut east, 0);
        let mut sent: Vec<Vec<u8>> = Vec::new();
        for number in 1..=4u8 {
            let frame = west.protect(0, &[inner()]).1.remove(0).1;
            assert_eq!(frame[14 + 20 + 7], number, "behind the Ethernet header, that of IPv4 and the SPI");
            assert_eq!(east.put("wan", &frame).outcome.verdict, Verdict::Forward);
            sent.push(frame);
            assert!(number == 4 || tend(&mut west, 1).0.is_empty() && tend(&mut east, 1).0.is_empty());
            for rig in [&mut west, &mut east] {
                rig.harness.clear_sas(Some(&own.name));
            }
            east.drops_frame("wan", &sent[0], Reason::EspReplay);
        }
        let row = &east.harness.sas()[0];
        let inbound = row.inbound.as_ref().unwrap();
        assert_eq!((inbound.packets, inbound.replayed, inbound.highest), (0, 1, 4));
        for rig in [&mut west, &mut east] {
            let news = tend(rig, 3).0;
            assert!(news.iter().any(|news| matches!(news, News::SaExpired { .. })), "{hard:?}: {news:?}");
        }
        assert_eq!(verdict(&mut west), Verdict::Drop(Reason::EspExpired));
        east.drops_frame("wan", &sent[3], Reason::EspExpired);
    }
}

#[test]
fn an_sa_that_comes_back_has_no_second_life() {
    for (hard, limit) in [
        (Lifetime { packets: Some(3), ..Lifetime::default() }, "packets"),
        (Lifetime { octets: Some(250), ..Lifetime::default() }, "octets"),
        (Lifetime { time: Some(Duration::from_secs(10)), ..Lifetime::default() }, "time"),
    ] {
        let own = Sa { lifetimes: Lifetimes { hard, ..Lifetimes::default() }, ..sa("aes128gcm16", V4.0, V4.1) };
        let pair = std::slice::from_ref(&own);
        let (mut west, mut east) = (crate::kit::esp::west(pair).rig(), crate::kit::esp::east(pair).rig());
        tend(&mut west, 0);
        tend(&mut east, 0);
        let sent: Vec<_> = (0..4).map(|_| west.protect(0, &[inner()]).1.remove(0).1).collect();
        // Gone before its limit, and back: its use goes on, with what nobody had seen when it went.
        east.put_all("wan", &sent[..2]);
        east.reload(crate::kit::esp::east(&[]));
        tend(&mut east, 4);
        east.reload(crate::kit::esp::east(pair));
        assert!(tend(&mut east, 1).0.is_empty());
        assert_eq!(east.put("wan", &sent[2]).outcome.verdict, Verdict::Forward);
        let news = tend(&mut east, 5).0;
        assert!(
            news.iter()
                .any(|news| matches!(news, News::SaExpired { outbound: false, limit: own, .. } if *own == limit))
        );
        // Over, gone and back: it is over, before the next look at it, too.
        tend(&mut west, 10);
        west.reload(crate::kit::esp::west(&[]));
        east.reload(crate::kit::esp::east(&[]));
        tend(&mut west, 1);
        tend(&mut east, 1);
        west.reload(crate::kit::esp::west(pair));
        east.reload(crate::kit::esp::east(pair));
        for _ in 0..2 {
            assert_eq!(verdict(&mut west), Verdict::Drop(Reason::EspExpired), "{limit}");
            east.drops_frame("wan", &sent[3], Reason::EspExpired);
            assert!(tend(&mut west, 1).0.is_empty(), "its end was reported");
            tend(&mut east, 1);
        }
        let row = &west.harness.sas()[0];
        assert_eq!(row.outbound.as_ref().unwrap().life.unwrap().phase, SaPhase::Expired(limit));
    }
}

#[test]
fn a_peer_whose_udp_port_changed_goes_on_where_it_was() {
    let own = |local_port| {
        let ports = Encapsulation { local_port, remote_port: 4501, keepalive: None };
        Sa { encapsulation: Some(ports), ..sa("aes128gcm16", V4.0, V4.1) }
    };
    let (mut west, mut east) = (west(&[own(4500)]).rig(), crate::kit::esp::east(&[own(4500)]).rig());
    let all: Vec<Vec<u8>> = west.protect(0, &vec![inner(); 4]).1.into_iter().map(|(_, frame)| frame).collect();
    // A NAT on the way gives west another port.
    let moved = |frame: &[u8]| {
        let mut frame = frame.to_vec();
        frame[14 + 20..14 + 22].copy_from_slice(&5000u16.to_be_bytes());
        frame
    };
    let back = |east: &mut Rig| {
        let frame = east.protect(0, &[inner()]).1.remove(0).1;
        let number = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
        (number(14 + 22), number(14 + 28 + 6))
    };
    assert_eq!(east.put("wan", &all[0]).outcome.verdict, Verdict::Forward);
    assert_eq!(back(&mut east), (4500, 1));
    east.drops_frame("wan", &moved(&all[1]), Reason::EspNoSa);
    east.reload(crate::kit::esp::east(&[own(5000)]));
    assert_eq!(east.put("wan", &moved(&all[1])).outcome.verdict, Verdict::Forward);
    east.drops_frame("wan", &moved(&all[0]), Reason::EspReplay);
    east.drops_frame("wan", &all[2], Reason::EspNoSa);
    assert_eq!(back(&mut east), (5000, 2), "no number and no IV comes twice");
}
