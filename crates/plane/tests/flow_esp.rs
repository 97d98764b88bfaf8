//! Learned decisions of flows that SPDs and SAs decide about: protected, clear and decrypted ones.

use crate::kit::esp::{mirrored, sa};
use crate::kit::*;
use weir_plane::model::{FastPath, Origin, Sa, SaIndex, SaKey, SpdAction, SpdCache, SpdRule};
use weir_plane::reason::Reason;
use weir_plane::stats;

const V4: (&str, &str) = ("198.51.100.1", "198.51.100.2");
const THERE: [&str; 2] =
    ["udp from 10.1.0.2 port 7 to 10.2.0.2 port 9", "udp from 2001:db8:1::2 port 7 to 2001:db8:2::2 port 9"];

fn build(build: Build, rules: &[&str]) -> Build {
    let mut build = build.spd(&["wan"], SpdCache::default(), rules);
    build.0.ipsec.unchecked = false;
    build.0.flow_table.enabled = FastPath::On;
    build
}

fn rig(build: Build) -> Rig {
    let mut rig = build.rig();
    rig.harness.set_recording(false);
    rig
}

/// A second pair of SAs, with keys of its own.
fn second() -> Sa {
    let own = sa("aes256gcm16", V4.0, V4.1);
    let spi = |key: Option<SaKey>| key.map(|mut key| (key.spi += 0x100, key).1);
    Sa { name: "second".into(), outbound: spi(own.outbound.clone()), inbound: spi(own.inbound.clone()), ..own }
}

/// Hits, packets of new flows, and those of flows that are decided anew.
fn counted(rig: &Rig) -> (u64, u64, u64) {
    let stats::FastPath { hits, new, changed, .. } = rig.harness.fast_path();
    (hits, new, changed.iter().sum())
}

/// Packets out and in of each rule.
fn matched(rig: &Rig) -> Vec<(u64, u64)> {
    rig.harness.spds()[0].rules.iter().map(|row| (row.output.packets, row.input.packets)).collect()
}

/// Sends a frame; gives the frames that left, with their ports.
fn put(rig: &mut Rig, interface: &str, frame: &[u8]) -> Vec<(String, Vec<u8>)> {
    rig.put_all(interface, &[frame]).1
}

/// Sends packets from `lan`; gives the frames that left by `wan`.
fn out(rig: &mut Rig, packets: &[&str]) -> Vec<Vec<u8>> {
    let frames: Vec<_> = packets.iter().map(|packet| rig.frame("lan", packet)).collect();
    let (_, out) = rig.put_all("lan", &frames);
    assert!(out.iter().all(|(port, _)| port == "wan"));
    out.into_iter().map(|(_, frame)| frame).collect()
}

fn is_esp(frame: &[u8]) -> bool {
    let at = l3(frame);
    frame[at + if frame[at] >> 4 == 4 { 9 } else { 6 }] == 50
}

#[test]
fn a_reload_that_moves_lines_has_no_flow_decided_anew() {
    let build = |line: u32| {
        let mut build =
            build(crate::kit::esp::west(&[sa("aes128gcm16", V4.0, V4.1)]), &["bypass tcp", "protect 0 udp"]);
        let mut rules = build.0.spds[0].rules.to_vec();
        rules.iter_mut().for_each(|rule| rule.matches.origin = Origin(line));
        (build.0.spds[0].rules, build.0.spds[0].origin) = (rules.into(), Origin(line));
        build
    };
    let mut west = rig(build(1));
    (0..2).for_each(|_| drop(out(&mut west, &THERE[..1])));
    west.reload(build(2));
    out(&mut west, &THERE[..1]);
    assert_eq!(counted(&west), (2, 1, 0));
}

#[test]
fn packets_of_a_protected_flow_take_the_decision_and_are_protected() {
    for there in THERE {
        let mut west =
            rig(build(crate::kit::esp::west(&[sa("aes128gcm16", V4.0, V4.1)]), &["bypass tcp", "protect 0 udp"]));
        let other = there.replace("port 9", "port 10");
        for packets in [&[there][..], &[there, other.as_str(), there], &[there, other.as_str()]] {
            let frames = out(&mut west, packets);
            assert!(frames.len() == packets.len() && frames.iter().all(|frame| is_esp(frame)));
            let numbers: Vec<_> = frames.iter().map(|frame| frame[l3(frame) + 27]).collect();
            assert!(numbers.is_sorted(), "no packet overtakes another: {numbers:?}");
        }
        assert_eq!(counted(&west), (4, 2, 0));
        assert_eq!(matched(&west), [(0, 0), (6, 0)]);
        let sa = west.harness.sas().remove(0).outbound.unwrap();
        assert_eq!((sa.packets, sa.next), (6, 7));
    }
}

#[test]
fn what_is_not_usual_about_a_packet_is_looked_at_by_the_encryption() {
    let mut west = rig(build(crate::kit::esp::west(&[sa("aes128gcm16", V4.0, V4.1)]), &["protect 0 udp"]));
    out(&mut west, &[THERE[0]]);
    let last = west.frame("lan", &format!("{} ttl 1", THERE[0]));
    let (hits, drops) = (counted(&west).0, west.harness.drops(Reason::TtlExpired));
    put(&mut west, "lan", &last);
    let long = west.frame("lan", &format!("{} length 1490 df", THERE[0]));
    assert!(put(&mut west, "lan", &long).iter().all(|(port, _)| port == "lan"), "an error to the source");
    assert_eq!(west.harness.drops(Reason::TtlExpired), drops + 1);
    assert_eq!(west.harness.drops(Reason::MtuExceeded), 1);
    assert_eq!(counted(&west).0, hits + 2);
}

#[test]
fn packets_in_clear_take_decisions_and_count_for_their_policies() {
    let mut west =
        rig(build(crate::kit::esp::west(&[sa("aes128gcm16", V4.0, V4.1)]), &["bypass tcp", "protect 0 udp"]));
    for there in THERE {
        let there = format!("{} flags ack", there.replace("udp", "tcp"));
        let back =
            there.replace("1.0.2 port 7", "#").replace("2.0.2 port 9", "1.0.2 port 7").replace('#', "2.0.2 port 9");
        let back = match back == there {
            true => "tcp from 2001:db8:2::2 port 9 to 2001:db8:1::2 port 7 flags ack".to_owned(),
            false => back,
        };
        for _ in 0..3 {
            let frames = out(&mut west, &[&there]);
            assert!(frames.len() == 1 && !is_esp(&frames[0]));
            let frame = west.frame("wan", &back);
            assert_eq!(put(&mut west, "wan", &frame)[0].0, "lan");
        }
    }
    assert_eq!(counted(&west), (8, 4, 0));
    assert_eq!(matched(&west), [(6, 6), (0, 0)]);
    // What a policy protects is refused in clear, each packet.
    let frame = west.frame("wan", "udp from 10.2.0.2 port 9 to 10.1.0.2 port 7");
    for count in 1..3 {
        put(&mut west, "wan", &frame);
        assert_eq!(west.harness.drops(Reason::SpdUnprotected), count);
    }
}

#[test]
fn decrypted_packets_take_decisions_apart_from_packets_in_clear() {
    let own = sa("aes128gcm16", V4.0, V4.1);
    for there in THERE {
        let mut west = rig(build(crate::kit::esp::west(std::slice::from_ref(&own)), &["protect 0 udp"]));
        // The access list of the outer interface decides about decrypted packets, too.
        let east = build(crate::kit::esp::east(std::slice::from_ref(&own)), &["protect 0 udp"]);
        let mut east = rig(east.acl("in", &["permit udp port 9", "permit any"]).acl_in("wan", &["in"]));
        for round in 0..3 {
            let frames = out(&mut west, &[there, there]);
            let (_, out) = east.put_all("wan", &frames);
            assert!(out.len() == 2 && out.iter().all(|(port, _)| port == "lan"), "{round}");
            let clear = east.frame("wan", there);
            put(&mut east, "wan", &clear);
            assert_eq!(
                east.harness.drops(Reason::SpdUnprotected),
                round + 1,
                "it takes no decision about decrypted ones"
            );
        }
        // The first two walk together; each packet in clear is new.
        assert_eq!(counted(&east), (4, 5, 0), "{there}");
        assert_eq!(matched(&east), [(0, 6 + 3)]);
        assert_eq!(east.acl_hits("in")[0], 6 + 3);
    }
}

#[test]
fn a_new_pair_of_sas_has_no_flow_decided_anew() {
    let (first, second) = (sa("aes128gcm16", V4.0, V4.1), second());
    let both = [first.clone(), second.clone()];
    let rules = ["protect 0 udp", "protect 1 udp"];
    let mut west = rig(build(crate::kit::esp::west(&both), &rules));
    let mut east = rig(build(crate::kit::esp::east(&both), &rules));
    let across = |west: &mut Rig, east: &mut Rig| {
        let frames = out(west, &[THERE[0]]);
        let (_, out) = east.put_all("wan", &frames);
        assert!(out.len() == 1 && out[0].0 == "lan");
        frames[0][l3(&frames[0]) + 20..][..4].to_vec()
    };
    let spi = |sa: &Sa| sa.outbound.as_ref().unwrap().spi.to_be_bytes().to_vec();
    for _ in 0..2 {
        assert_eq!(across(&mut west, &mut east), spi(&first));
    }
    assert_eq!((counted(&west), counted(&east)), ((1, 1, 0), (1, 1, 0)));
    // West sends by the second pair: its SPD has changed, and its flows are decided again once. East's are not.
    west.reload(build(crate::kit::esp::west(&both), &["protect 0 first tcp", "protect 1 udp", "protect 0 udp"]));
    west.harness.set_recording(false);
    for _ in 0..2 {
        assert_eq!(across(&mut west, &mut east), spi(&second));
    }
    assert_eq!((counted(&west), counted(&east)), ((2, 1, 1), (3, 1, 0)));
    // A new key under the same name: no SPD changes.
    let other = sa("aes256gcm16", V4.0, V4.1);
    let renewed = [first, Sa { outbound: second.outbound.clone(), window: 1024, algorithm: other.algorithm, ..second }];
    west.reload(build(crate::kit::esp::west(&renewed), &["protect 0 first tcp", "protect 1 udp", "protect 0 udp"]));
    east.reload(build(crate::kit::esp::east(&renewed), &rules));
    west.harness.set_recording(false);
    east.harness.set_recording(false);
    across(&mut west, &mut east);
    assert_eq!((counted(&west), counted(&east)), ((3, 1, 1), (4, 1, 0)));
    assert_eq!(mirrored(&mirrored(&renewed[0])), renewed[0]);
}

#[test]
fn a_change_of_an_spd_concerns_the_flows_of_its_rules_alone() {
    let own = [sa("aes128gcm16", V4.0, V4.1)];
    let mut west = rig(build(crate::kit::esp::west(&own), &["protect 0 udp"]));
    let other = "udp from 10.1.0.2 port 7 to 10.2.0.77 port 9";
    let both = |west: &mut Rig| out(west, &[THERE[0], other]).iter().filter(|frame| is_esp(frame)).count();
    assert_eq!((both(&mut west), both(&mut west)), (2, 2));
    assert_eq!(counted(&west), (2, 2, 0));
    // All rules stand elsewhere now.
    let rules = ["bypass first udp from any to 10.2.0.77/32", "protect 0 udp"];
    west.reload(build(crate::kit::esp::west(&own), &rules));
    west.harness.set_recording(false);
    assert_eq!((both(&mut west), both(&mut west)), (1, 1));
    assert_eq!(counted(&west), (2 + 1 + 2, 2, 1));
    west.reload(build(crate::kit::esp::west(&own), &["bypass tcp", rules[0], rules[1]]));
    west.harness.set_recording(false);
    both(&mut west);
    let anew = counted(&west).2;
    west.reload(build(crate::kit::esp::west(&own), &["bypass tcp", rules[1]]));
    west.harness.set_recording(false);
    assert_eq!(both(&mut west), 2);
    assert_eq!(counted(&west).2, anew + 1);
}

#[test]
fn a_rekey_has_no_flow_decided_anew_and_counters_go_on() {
    let (first, second) = (sa("aes128gcm16", V4.0, V4.1), second());
    // The rules of a rekey before the new pair sends, since it does, and at the end, when the pair has the keys of the new one.
    let model = |sas: &[Sa], actions: &[(u32, Option<u32>)]| {
        let mut build = build(crate::kit::esp::west(sas), &["protect 0 udp"]);
        let rule = build.0.spds[0].rules[0].clone();
        let one = |&(sa, rekeys): &(u32, Option<u32>)| SpdRule {
            action: SpdAction::Protect(SaIndex(sa)),
            rekeys: rekeys.map(SaIndex),
            ..rule.clone()
        };
        build.0.spds[0].rules = actions.iter().map(one).collect();
        build
    };
    let both = [first.clone(), second.clone()];
    let renewed = [Sa { name: first.name.clone(), ..second.clone() }];
    let mut west = rig(model(&both[..1], &[(0, None)]));
    let spi = |sa: &Sa| sa.outbound.as_ref().unwrap().spi.to_be_bytes().to_vec();
    let send = |west: &mut Rig| {
        let frame = out(west, &[THERE[0]]).remove(0);
        frame[l3(&frame) + 20..][..4].to_vec()
    };
    (0..2).for_each(|_| assert_eq!(send(&mut west), spi(&first)));
    let steps = [
        (model(&both, &[(0, None), (1, Some(0))]), &first, vec![(3, 0), (0, 0)]),
        (model(&both, &[(1, Some(0)), (0, None)]), &second, vec![(4, 0), (0, 0)]),
        (model(&renewed, &[(0, None)]), &second, vec![(5, 0)]),
    ];
    for (model, sends, counts) in steps {
        west.reload(model);
        west.harness.set_recording(false);
        assert_eq!(send(&mut west), spi(sends));
        assert_eq!(matched(&west), counts);
    }
    assert_eq!(counted(&west), (4, 1, 0));
}

#[test]
fn a_change_of_an_spd_holds_for_the_next_packet() {
    // By reloads, and by edits while the gateway runs.
    let reload = |rig: &mut Rig, build: Build| rig.reload(build);
    let edit = |rig: &mut Rig, build: Build| rig.harness.change_ipsec(build.0).unwrap();
    for change in [reload as fn(&mut Rig, Build), edit] {
        let own = [sa("aes128gcm16", V4.0, V4.1)];
        let mut west = rig(build(crate::kit::esp::west(&own), &["protect 0 udp"]));
        let change = |west: &mut Rig, own: &[Sa], rules: &[&str]| {
            // Its flow takes a decision before each change.
            (0..2).for_each(|_| drop(out(west, &[THERE[0]])));
            change(west, build(crate::kit::esp::west(own), rules));
            west.harness.set_recording(false);
        };
        change(&mut west, &own, &["discard first udp port 9", "protect 0 udp"]);
        assert!(out(&mut west, &[THERE[0]]).is_empty());
        assert_eq!(west.harness.drops(Reason::SpdDiscard), 1);
        change(&mut west, &own, &["bypass first udp port 9", "protect 0 udp"]);
        assert!(!is_esp(&out(&mut west, &[THERE[0]])[0]));
        change(&mut west, &own, &["protect 0 udp"]);
        assert!(is_esp(&out(&mut west, &[THERE[0]])[0]));
        // The pair is gone with its policy.
        change(&mut west, &[], &["bypass tcp"]);
        assert!(out(&mut west, &[THERE[0]]).is_empty());
        assert_eq!(west.harness.drops(Reason::SpdNoMatch), 1);
    }
}
