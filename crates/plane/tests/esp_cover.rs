//! Traffic flow confidentiality of SAs: padded packets and dummy packets. And SAs whose engine changes, and whose counters are
//! cleared, while packets are on their way.

use crate::kit::esp::*;
use crate::kit::*;
use weir_crypto::engines;
use weir_plane::harness::Verdict;
use weir_plane::model::{Sa, SaKey, SaMode, Tfc};
use weir_plane::reason::Reason;

const V4: (&str, &str) = ("198.51.100.1", "198.51.100.2");
const V6: (&str, &str) = ("2001:db8:ff::1", "2001:db8:ff::2");
const SECOND: u64 = 1_000_000_000;

fn inner(length: usize) -> Vec<u8> {
    bare(&format!("udp from 10.1.0.2 port 7 to 10.2.0.2 port 9 ttl 9 length {length}"))
}

fn frames(out: Vec<(String, Vec<u8>)>) -> Vec<Vec<u8>> {
    out.into_iter().map(|(_, frame)| frame).collect()
}

#[test]
fn packets_of_all_lengths_look_alike_and_arrive_as_they_were() {
    for (ends, algorithm, tfc, longest) in [
        (V4, "aes128gcm16", Tfc::Length(600), 600),
        (V6, "aes256-sha256", Tfc::Length(600), 600),
        (V4, "aes128gcm16", Tfc::Mtu, 1446),
        // More than fits: as many as do.
        (V4, "aes128gcm16", Tfc::Length(1500), 1446),
    ] {
        let own = Sa { tfc: Some(tfc), ..sa(algorithm, ends.0, ends.1) };
        let (mut west, mut east) = (west(std::slice::from_ref(&own)).rig(), east(&[own]).rig());
        let lengths = [40, 41, 100, 599, 600];
        let packets: Vec<_> = lengths.iter().map(|&length| inner(length)).collect();
        let sent = frames(west.protect(0, &packets).1);
        let same = sent[0].len();
        assert!(sent.iter().all(|frame| frame.len() == same), "{tfc:?}");
        let (outcomes, out) = east.put_all("wan", &sent);
        assert!(outcomes.iter().all(|outcome| outcome.verdict == Verdict::Forward), "{outcomes:?}");
        for ((_, frame), length) in out.iter().zip(lengths) {
            assert_eq!(frame.len(), (14 + length).max(14 + 40), "nothing of the padding goes on");
        }
        // Padding is no traffic: it counts for no lifetime, at neither end.
        let octets = lengths.iter().sum::<usize>() as u64;
        let (sent, received) = (west.harness.sas(), east.harness.sas());
        let (sent, received) = (sent[0].outbound.as_ref().unwrap(), received[0].inbound.as_ref().unwrap());
        assert_eq!((sent.bytes, received.bytes), (octets, octets), "{tfc:?}");
        // A packet beyond that length is as long as it is.
        let long = frames(west.protect(0, &[inner(longest)]).1);
        assert!(long[0].len() >= same, "{tfc:?}");
        assert_eq!(long.len(), 1, "it fits: {tfc:?}");
        if longest < 1446 {
            assert!(frames(west.protect(0, &[inner(longest + 300)]).1)[0].len() > same + 200);
        }
    }
}

#[test]
fn padding_has_nothing_of_other_packets() {
    let own = Sa { tfc: Some(Tfc::Length(900)), ..sa("null-sha256", V4.0, V4.1) };
    let mut west = west(&[own]).rig();
    // Buffers that had long packets with contents before.
    for _ in 0..300 {
        let mut long = inner(1200);
        long[28..].fill(0xaa);
        west.protect(0, &[long]);
    }
    for frame in frames(west.protect(0, &[inner(60), inner(60)]).1) {
        let padding = &frame[14 + 20 + 8 + 60..14 + 20 + 8 + 900];
        assert!(padding.iter().all(|&octet| octet == 0));
    }
}

#[test]
fn dummies_make_up_for_missing_packets_and_nobody_forwards_them() {
    for (ends, mode, encapsulation, tfc) in [
        (V4, SaMode::Tunnel, None, None),
        (V6, SaMode::Tunnel, udp(), Some(Tfc::Length(500))),
        (V4, SaMode::Transport, None, None),
    ] {
        let own = Sa { mode, encapsulation, tfc, dummies: 10, ..sa("aes128gcm16", ends.0, ends.1) };
        let (mut west, mut east) = (west(std::slice::from_ref(&own)).rig(), east(&[own]).rig());
        let step = |rig: &mut Rig| {
            rig.advance(SECOND / 20);
            rig.harness.tend_sas();
            frames(rig.put_by::<Vec<u8>>(&[], |_, _, _| true).1)
        };
        step(&mut west);
        let sent: Vec<_> = (0..40).flat_map(|_| step(&mut west)).collect();
        assert_eq!(sent.len(), 20, "10 packets a second for 2 s");
        let lengths: std::collections::HashSet<_> = sent.iter().map(Vec::len).collect();
        assert_eq!(lengths.len() == 1, tfc.is_some(), "padded ones look alike, others do not");
        for frame in &sent {
            east.drops_frame("wan", frame, Reason::EspDummy);
        }
        assert_eq!(west.harness.sas()[0].outbound.as_ref().unwrap().dummies, 20);
        let received = east.harness.sas()[0].inbound.clone().unwrap();
        assert_eq!((received.dummies, received.lost, received.replayed), (20, 0, 0));
        if mode == SaMode::Transport {
            continue;
        }
        // With traffic of its own the SA needs none.
        let packets = vec![inner(100); 20];
        assert_eq!(west.protect(0, &packets).1.len(), 20);
        let more: usize = (0..4).map(|_| step(&mut west).len()).sum();
        assert_eq!(more, 1, "packets of one step count for that step");
        // A pause of the control side is not made up for.
        west.advance(3600 * SECOND);
        west.harness.tend_sas();
        assert_eq!(frames(west.put_by::<Vec<u8>>(&[], |_, _, _| true).1).len(), 10);
    }
}

#[test]
fn an_engine_changes_under_traffic_and_nothing_is_lost() {
    for algorithm in ["aes128gcm16", "aes128-sha256", "aes128ccm16", "chacha20poly1305"] {
        changes_engines(algorithm);
    }
}

fn changes_engines(algorithm: &str) {
    let own = sa(algorithm, V4.0, V4.1);
    let all: Vec<_> = engines::all().iter().copied().filter(|engine| engine.supports(own.algorithm)).collect();
    let of = |at: usize| {
        let engine = all[at % all.len()];
        let key = |spi, direction| SaKey::by(spi, engine, own.algorithm, &secret(own.algorithm, direction)).ok();
        Sa { outbound: key(TO_EAST, 0x51), inbound: key(TO_WEST, 0x52), ..own.clone() }
    };
    let (mut west, mut east) = (west(&[of(0)]).rig(), east(&[of(1)]).rig());
    let mut before = Vec::new();
    for round in 1..=6 {
        let sent = frames(west.protect(0, &vec![inner(200); 30]).1);
        // Packets that one engine sealed are opened by another, and by the same after a change.
        let (outcomes, _) = east.put_all("wan", &before);
        assert!(outcomes.iter().all(|outcome| outcome.verdict == Verdict::Forward));
        let (outcomes, _) = east.put_all("wan", &sent[..15]);
        assert!(outcomes.iter().all(|outcome| outcome.verdict == Verdict::Forward));
        before = sent[15..].to_vec();
        west.reload(crate::kit::esp::west(&[of(round)]));
        east.reload(crate::kit::esp::east(&[of(round * 2 + 1)]));
        let name = all[round % all.len()].name();
        assert_eq!(west.harness.sas()[0].outbound.as_ref().unwrap().engine, name);
    }
    let row = &east.harness.sas()[0];
    let inbound = row.inbound.as_ref().unwrap();
    assert_eq!((inbound.packets, inbound.lost, inbound.replayed, inbound.highest), (165, 0, 0, 165));
}

/// The pair of another name keeps what it has counted, and what it had at an earlier clearing.
#[test]
fn the_counters_of_one_pair_are_cleared_alone() {
    let own = sa("aes128gcm16", V4.0, V4.1);
    let key = |spi, direction| SaKey::new(spi, own.algorithm, &secret(own.algorithm, direction)).ok();
    let other = Sa { name: "other".into(), outbound: key(0x1002, 0x61), inbound: key(0x2002, 0x62), ..own.clone() };
    let mut west = west(&[own.clone(), other]).rig();
    let counted =
        |rig: &Rig| -> Vec<u64> { rig.harness.sas().into_iter().map(|sa| sa.outbound.unwrap().packets).collect() };
    for (at, packets) in [(0, 3), (1, 5)] {
        west.protect(at, &vec![inner(100); packets]);
    }
    west.harness.clear_sas(Some("other"));
    assert_eq!(counted(&west), [3, 0]);
    west.protect(1, &[inner(100)]);
    west.harness.clear_sas(Some(&own.name));
    assert_eq!(counted(&west), [0, 1]);
    west.harness.clear_sas(None);
    assert_eq!(counted(&west), [0, 0]);
}

#[test]
fn cleared_counters_begin_with_0_and_lives_go_on() {
    let own = sa("aes128gcm16", V4.0, V4.1);
    let (mut west, mut east) = (west(std::slice::from_ref(&own)).rig(), east(std::slice::from_ref(&own)).rig());
    west.harness.tend_sas();
    let sent = frames(west.protect(0, &vec![inner(100); 5]).1);
    east.put_all("wan", &[&sent[..], &sent[..1]].concat());
    west.advance(7 * SECOND);
    for rig in [&mut west, &mut east] {
        rig.harness.clear_ipsec();
    }
    let out = |rig: &Rig| rig.harness.sas()[0].outbound.clone().unwrap();
    let into = |rig: &Rig| rig.harness.sas()[0].inbound.clone().unwrap();
    assert_eq!((out(&west).packets, out(&west).bytes, out(&west).next), (0, 0, 6), "numbers are no counters");
    assert_eq!(out(&west).life.unwrap().age.as_secs(), 7);
    assert_eq!((into(&east).packets, into(&east).replayed, into(&east).highest), (0, 0, 5));
    let sent = frames(west.protect(0, &vec![inner(100); 2]).1);
    east.put_all("wan", &sent);
    assert_eq!((out(&west).packets, into(&east).packets, into(&east).bytes), (2, 2, 200));
    let all = |rig: &Rig| rig.harness.sas_from_start()[0].clone();
    assert_eq!((all(&west).outbound.unwrap().packets, all(&east).inbound.unwrap().packets), (7, 7));
    // A new key has counters of its own, which nothing is taken from.
    let outbound = SaKey::new(TO_EAST, own.algorithm, &secret(own.algorithm, 0x99)).ok();
    west.reload(crate::kit::esp::west(&[Sa { outbound, ..own }]));
    west.protect(0, &[inner(100)]);
    assert_eq!(out(&west).packets, 1);
}
