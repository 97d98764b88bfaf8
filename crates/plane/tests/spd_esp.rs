//! SPDs with SAs: packets that policies protect leave as ESP, and decrypted packets fit the policies of their SA (RFC 4301, 5).

use crate::kit::esp::{bare, mirrored, pairs, sa, udp};
use crate::kit::*;
use weir_plane::harness::{HarnessError, Verdict};
use weir_plane::model::{FastPath, OuterDf, Sa, SaKey, Spd, SpdCache};
use weir_plane::reason::Reason;

const V4: (&str, &str) = ("198.51.100.1", "198.51.100.2");
const V6: (&str, &str) = ("2001:db8:ff::1", "2001:db8:ff::2");

fn spd(build: Build, cache: SpdCache, rules: &[&str]) -> Build {
    let mut build = build.spd(&["wan"], cache, rules);
    build.0.ipsec.unchecked = false;
    build
}

fn west(sas: &[Sa], rules: &[&str]) -> Rig {
    spd(crate::kit::esp::west(sas), SpdCache::default(), rules).rig()
}

fn east(sas: &[Sa], rules: &[&str]) -> Rig {
    spd(crate::kit::esp::east(sas), SpdCache::default(), rules).rig()
}

/// Packets out and in of each rule, in the order in which rules are matched.
fn counted(rig: &Rig) -> Vec<(u64, u64)> {
    rig.harness.spds()[0].rules.iter().map(|row| (row.output.packets, row.input.packets)).collect()
}

/// Sends a packet from the network of one gateway to that of the other; the frame that left, and the verdict of the other.
fn across(from: &mut Rig, to: &mut Rig, text: &str) -> (Vec<u8>, Verdict) {
    let passage = from.send("lan", text);
    assert_eq!(passage.outcome.verdict, Verdict::Forward, "{text}");
    let [(port, frame)] = &passage.out[..] else { panic!("one packet") };
    assert_eq!(port, "wan");
    (frame.clone(), to.put("wan", frame).outcome.verdict)
}

const BOTH: [(&str, &str); 2] = [
    ("udp from 10.1.0.2 port 7 to 10.2.0.2 port 9", "udp from 10.2.0.2 port 9 to 10.1.0.2 port 7"),
    ("udp from 2001:db8:1::2 port 7 to 2001:db8:2::2 port 9", "udp from 2001:db8:2::2 port 9 to 2001:db8:1::2 port 7"),
];

#[test]
fn protected_packets_cross_and_clear_ones_do_not() {
    for (outer, encapsulation) in [(V4, None), (V6, None), (V4, udp())] {
        let own = Sa { encapsulation, ..sa("aes128gcm16", outer.0, outer.1) };
        // The outer packet matches the last rule, if it matched any.
        let of_west = ["protect 0 udp sport 7 port 9", "bypass tcp", "discard any"];
        let of_east = ["protect 0 udp sport 9 port 7", "bypass tcp", "discard any"];
        let (mut west, mut east) = (west(std::slice::from_ref(&own), &of_west), east(&[own], &of_east));
        for (there, back) in BOTH {
            let (frame, verdict) = across(&mut west, &mut east, there);
            assert_eq!(verdict, Verdict::Forward);
            let inner = bare(there);
            let tail = &inner[inner.len() - 8..];
            assert!(!frame.windows(8).any(|part| part == tail), "it left in clear");
            assert_eq!(across(&mut east, &mut west, back).1, Verdict::Forward);
            // In clear it is what the policy protects.
            east.drops("wan", there, Reason::SpdUnprotected);
            west.drops("wan", back, Reason::SpdUnprotected);
            let other = there.replace("port 9", "port 10");
            west.drops("lan", &other, Reason::SpdDiscard);
            let bypassed = there.replace("udp", "tcp");
            west.forwards("lan", &bypassed);
            east.forwards("wan", &bypassed);
        }
        // Two protected each way, and two clear ones that count as well; two of TCP; two discarded.
        assert_eq!(counted(&west), [(2, 4), (2, 0), (2, 0)]);
        assert_eq!(counted(&east), [(2, 4), (0, 2), (0, 0)]);
    }
}

#[test]
fn a_protected_packet_needs_no_neighbour_of_its_own_route() {
    let build = || {
        let mut build = Build::new()
            .port("lan", &["10.1.0.1/24", "2001:db8:1::1/64"])
            .port("wan", &["198.51.100.1/24"])
            .neighbor("wan", "198.51.100.2", own_mac(1))
            // The link has no IPv6, and nobody there answers for these.
            .via("2001:db8:2::/48", &["wan"])
            .via("10.2.0.0/16", &["wan 198.51.100.77"]);
        build.0.sas = vec![sa("aes128gcm16", V4.0, V4.1)];
        build.0.flow_table.enabled = FastPath::On;
        spd(build, SpdCache::default(), &["protect 0 udp", "bypass tcp", "discard any"])
    };
    let mut west = build().rig();
    west.harness.listen();
    let mut east = east(&[sa("aes128gcm16", V4.0, V4.1)], &["protect 0 udp", "discard any"]);
    for (there, _) in BOTH {
        let tcp = there.replace("udp", "tcp");
        assert_eq!(west.send("lan", &tcp).outcome.verdict, Verdict::Held, "{tcp}");
        assert_eq!(across(&mut west, &mut east, there).1, Verdict::Forward);
    }
    assert_eq!(counted(&west), [(2, 0), (0, 0), (0, 0)], "each is matched once, and what waits is not matched yet");
    // The decision of the flow holds as well.
    let mut west = build().rig();
    west.harness.set_recording(false);
    for (there, _) in BOTH {
        for _ in 0..3 {
            let frame = west.frame("lan", there);
            assert_eq!(west.put_all("lan", &[frame]).1.len(), 1);
        }
    }
    let fast = west.harness.fast_path();
    assert_eq!((fast.hits, fast.new, fast.changed.iter().sum::<u64>()), (4, 2, 0));
}

#[test]
fn a_decrypted_packet_has_to_match_a_policy_of_its_sa_first() {
    let first = sa("aes128gcm16", V4.0, V4.1);
    let keys = sa("aes256gcm16", V4.0, V4.1);
    let spi = |key: &Option<SaKey>, spi: u32| {
        let mut key = key.clone().unwrap();
        key.spi = spi;
        Some(key)
    };
    let second = Sa {
        name: "second".into(),
        outbound: spi(&keys.outbound, 0x1002),
        inbound: spi(&keys.inbound, 0x2002),
        ..keys
    };
    let sas = [first, second];
    let packet = BOTH[0].0;
    for (rules, expected) in [
        (&["protect 0 udp"][..], None),
        (&["protect 0 udp sport 9"], None),
        (&["protect 0 udp sport 10"], Some(())),
        (&["protect 0 tcp"], Some(())),
        (&["protect 1 udp", "protect 0 udp"], None),
        (&["protect 1 any", "protect 0 udp"], Some(())),
        (&["protect 0 udp", "protect 1 udp"], None),
        (&["protect 1 udp", "protect 0 first udp"], None),
        (&["protect 0 udp", "bypass first udp"], Some(())),
        (&["discard tcp", "protect 0 udp", "discard any"], None),
        (&["protect 0 any from 10.2.0.0/16 to 10.1.0.2/32"], None),
        (&["protect 0 any from 10.1.0.0/16 to 10.2.0.2/32"], Some(())),
        (&["protect 1 any"], Some(())),
        (&["bypass any"], Some(())),
    ] {
        let (mut west, mut east) = (west(&sas, &["protect 0 any"]), east(&sas, rules));
        let expected = expected.map_or(Verdict::Forward, |()| Verdict::Drop(Reason::EspSelector));
        assert_eq!(across(&mut west, &mut east, packet).1, expected, "{rules:?}");
        assert_eq!(east.conservation().imbalance(), 0);
    }
}

#[test]
fn rules_share_the_flows_that_they_match_and_each_flow_keeps_to_one() {
    let sas = pairs::<3>();
    for fast in [false, true] {
        // The last one has the selectors of the others and does not share.
        let rules = ["protect 0 shared udp", "protect 1 shared udp", "protect 2 udp", "discard any"];
        let mut build = spd(crate::kit::esp::west(&sas), SpdCache { outbound: true, ..SpdCache::default() }, &rules);
        build.0.flow_table.enabled = if fast { FastPath::On } else { FastPath::Off };
        let (mut west, mut east) = (build.rig(), east(&sas, &rules));
        let spi = |frame: &[u8]| u32::from_be_bytes(frame[34..38].try_into().unwrap());
        let mut flows = [0u64; 2];
        for port in 1000..1064 {
            let text = format!("udp from 10.1.0.2 port {port} to 10.2.0.2 port 9");
            let first = across(&mut west, &mut east, &text);
            assert_eq!(first.1, Verdict::Forward, "{text}");
            for _ in 0..3 {
                let frame = west.frame("lan", &text);
                west.harness.set_recording(!fast);
                let (_, out) = west.put_all("lan", &[frame]);
                west.harness.set_recording(true);
                assert_eq!(spi(&out[0].1), spi(&first.0), "{text}");
            }
            flows[(spi(&first.0) - 0x1001) as usize] += 1;
        }
        assert!(flows.iter().all(|&own| own > 16), "{flows:?}");
        // Each rule counts the packets of its flows.
        let of = counted(&west);
        assert_eq!([of[0].0, of[1].0, of[2].0], [4 * flows[0], 4 * flows[1], 0]);
        let of = counted(&east);
        assert_eq!([of[0].1, of[1].1], flows);
        assert!(!fast || west.harness.fast_path().hits > 0);
    }
}

#[test]
fn esp_for_the_gateway_passes_beside_the_spd_and_no_other() {
    let own = sa("aes128gcm16", V4.0, V4.1);
    let mut west = west(std::slice::from_ref(&own), &["protect 0 any"]);
    let mut east = east(&[own], &["protect 0 udp", "discard any"]);
    let passage = west.send("lan", BOTH[0].0);
    let mut unknown = passage.out[0].1.clone();
    unknown[14 + 20] ^= 1;
    east.drops_frame("wan", &unknown, Reason::EspNoSa);
    // ESP that is forwarded is a packet as any other.
    east.drops("wan", "esp from 198.51.100.1 to 10.2.0.2 spi 4097 length 80", Reason::SpdDiscard);
    assert_eq!(east.put("wan", &passage.out[0].1).outcome.verdict, Verdict::Forward);
}

#[test]
fn fragments_follow_the_first_on_both_sides() {
    let own = sa("aes128gcm16", V4.0, V4.1);
    let of_west = ["protect 0 udp port 9", "discard any"];
    let of_east = ["protect 0 udp sport 9", "discard any"];
    let mut west = west(std::slice::from_ref(&own), &of_west);
    let mut east = east(&[own], &of_east);
    let first = "udp from 10.1.0.2 port 7 to 10.2.0.2 port 9 fragment 0+ length 1300";
    let later = "udp from 10.1.0.2 to 10.2.0.2 fragment 1280 length 500";
    let mut frames = Vec::new();
    for text in [first, later] {
        let passage = west.send("lan", text);
        assert_eq!(passage.outcome.verdict, Verdict::Forward, "{text}");
        frames.push(passage.out[0].1.clone());
    }
    // The later one comes first, and waits.
    assert_eq!(east.put("wan", &frames[1]).outcome.verdict, Verdict::Held);
    let (outcomes, out) = east.put_all("wan", &frames[..1]);
    assert!(outcomes.iter().all(|outcome| outcome.verdict == Verdict::Forward), "{outcomes:?}");
    let (_, more) = east.idle();
    assert_eq!(out.len() + more.len(), 2);
    assert_eq!(counted(&east), [(0, 2), (0, 0)]);
    assert_eq!(east.conservation().imbalance(), 0);
}

#[test]
fn a_pair_takes_the_place_of_another_without_a_loss() {
    let old = Sa { name: "old".into(), ..sa("aes128gcm16", V4.0, V4.1) };
    let key = |spi: u32, direction: u8| {
        Some(SaKey::new(spi, old.algorithm, &crate::kit::esp::secret(old.algorithm, direction)).unwrap())
    };
    let new = Sa { name: "new".into(), outbound: key(0x1002, 0x61), inbound: key(0x2002, 0x62), ..old.clone() };
    let both = [old, new];
    let (before, after) = (["protect 0 udp", "protect 1 udp"], ["protect 1 udp", "protect 0 udp"]);
    let (mut west, mut east) = (west(&both, &before), east(&both, &before));
    let passes = |west: &mut Rig, east: &mut Rig, spi: u32| {
        for (packet, back) in BOTH {
            let (frame, verdict) = across(west, east, packet);
            assert_eq!((verdict, frame[14 + 20..14 + 24].to_vec()), (Verdict::Forward, spi.to_be_bytes().to_vec()));
            assert_eq!(across(east, west, back).1, Verdict::Forward);
        }
    };
    passes(&mut west, &mut east, 0x1001);
    // One end changes, then the other.
    west.reload(spd(crate::kit::esp::west(&both), SpdCache::default(), &after));
    passes(&mut west, &mut east, 0x1002);
    east.reload(spd(crate::kit::esp::east(&both), SpdCache::default(), &after));
    passes(&mut west, &mut east, 0x1002);
    assert_eq!(counted(&east), [(2, 4), (4, 2)], "each pair counts for its own rule");
    // A rule with other selectors in front does not stand for the same packets.
    west.reload(spd(crate::kit::esp::west(&both), SpdCache::default(), &["protect 0 udp", "protect 1 udp"]));
    east.reload(spd(crate::kit::esp::east(&both), SpdCache::default(), &["protect 1 udp sport 9", "protect 0 udp"]));
    assert_eq!(across(&mut west, &mut east, BOTH[0].0).1, Verdict::Drop(Reason::EspSelector));
}

#[test]
fn fragments_of_esp_in_udp_pass_beside_the_spd_in_any_order() {
    let own = Sa { df: OuterDf::Clear, encapsulation: udp(), ..sa("aes128gcm16", V4.0, V4.1) };
    for backwards in [false, true] {
        let mut west = west(std::slice::from_ref(&own), &["protect 0 any"]);
        let mut east = east(std::slice::from_ref(&own), &["protect 0 any"]);
        let passage = west.send("lan", "udp from 10.1.0.2 port 7 to 10.2.0.2 port 9 length 1000");
        let mut pieces = cut(&passage.out[0].1, 512);
        if backwards {
            pieces.reverse();
        }
        let (_, mut out) = east.put_all("wan", &pieces);
        out.extend(east.idle().1);
        assert_eq!((out.len(), counted(&east)), (1, vec![(0, 1)]), "backwards: {backwards}");
        assert_eq!(east.conservation().imbalance(), 0);
    }
}

#[test]
fn fragments_of_ike_match_the_spd_once_they_are_whole() {
    let own = Sa { encapsulation: udp(), ..sa("aes128gcm16", V4.0, V4.1) };
    let message = |port: u16| {
        let text = format!("udp from 198.51.100.1 port 4500 to 198.51.100.2 port {port} length 600");
        let mut frame = crate::kit::frame(&text, crate::kit::own_mac(1));
        frame[14 + 28..14 + 32].fill(0);
        cut(&frame, 256)
    };
    let cases: [(&str, u16, Reason, (u64, u64)); 4] = [
        ("bypass udp", 4501, Reason::LocalUnhandled, (0, 1)),
        ("discard udp", 4501, Reason::SpdDiscard, (0, 1)),
        ("protect 0 udp", 4501, Reason::SpdUnprotected, (0, 1)),
        // A port to which no ESP comes: each fragment matches.
        ("discard udp", 4502, Reason::SpdDiscard, (0, 2)),
    ];
    for (rule, port, reason, counts) in cases {
        let mut east = east(std::slice::from_ref(&own), &[rule]);
        let (outcomes, out) = east.put_all("wan", &message(port));
        assert!(
            out.is_empty() && outcomes.iter().any(|own| own.verdict == Verdict::Drop(reason)),
            "{rule} {outcomes:?}"
        );
        assert_eq!(counted(&east), [counts], "{rule} {port}");
        assert_eq!(east.conservation().imbalance(), 0);
    }
}

#[test]
fn caches_and_reloads_change_no_verdict() {
    let own = sa("aes128gcm16", V4.0, V4.1);
    let cache = SpdCache { outbound: true, inbound: true, flows: 100 };
    let of_east = |rules: &[&str]| spd(crate::kit::esp::east(std::slice::from_ref(&own)), cache, rules);
    let mut west = west(std::slice::from_ref(&own), &["protect 0 any"]);
    let mut east = of_east(&["protect 0 udp"]).rig();
    for _ in 0..3 {
        assert_eq!(across(&mut west, &mut east, BOTH[0].0).1, Verdict::Forward);
        assert_eq!(across(&mut east, &mut west, BOTH[0].1).1, Verdict::Forward);
    }
    // The pair of SAs moves behind another, and stays what it was.
    let mut build = of_east(&["protect 1 udp"]);
    let other = mirrored(&Sa { name: "other".into(), inbound: None, outbound: None, ..own.clone() });
    build.0.sas.insert(0, other);
    east.reload(build);
    assert_eq!(across(&mut west, &mut east, BOTH[0].0).1, Verdict::Forward);
    assert_eq!(across(&mut east, &mut west, BOTH[0].1).1, Verdict::Forward);
    assert_eq!(counted(&east), [(4, 4)], "the rule is the same");
    // A reload with caches beyond the address space is refused, and changes nothing.
    let mut build =
        spd(crate::kit::esp::east(std::slice::from_ref(&own)), SpdCache { flows: u32::MAX, ..cache }, &["discard any"]);
    let edge = build.0.spds[0].clone();
    build.0.spds.extend((1..64).map(|number| Spd { name: format!("more-{number}"), ..edge.clone() }));
    let error = east.harness.reload(build.0).unwrap_err();
    assert!(matches!(&error, HarnessError::TableFull(full) if full.table.starts_with("spd ")), "{error}");
    assert!(error.to_string().contains("the system refuses"), "{error}");
    assert_eq!(across(&mut west, &mut east, BOTH[0].0).1, Verdict::Forward);
    // Without the pair nothing leaves in clear.
    let mut build = of_east(&["protect 0 udp"]);
    build.0.sas = vec![mirrored(&Sa { name: "other".into(), inbound: None, outbound: None, ..own.clone() })];
    east.reload(build);
    east.drops("lan", BOTH[0].1, Reason::EspNoOutbound);
}
