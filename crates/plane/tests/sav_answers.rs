//! The verdict on a source without a packet (`Harness::answers`), and on many packets without words
//! (`Harness::run_validated`), equals that of the graph.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::kit::*;
use weir_base::clock::Time;
use weir_base::random::Random;
use weir_plane::harness::{Answer, Validated, Verdict};
use weir_plane::model::{Match, Mechanism, SavLayout, SavRules, SpecialAction, SpecialSources, Urpf, UrpfMode};
use weir_plane::reason::Reason;
use weir_plane::record::Said;
use weir_plane::sav::By;

const IFS: [&str; 2] = ["if1", "if2"];

const RULES: [&str; 6] = [
    "permit from 10.0.0.0/8 on if1, if2",
    "permit from 10.16.0.0/12 on if1",
    "permit from 10.16.1.64/26 on if2",
    "permit from 127.0.0.0/8 on if1",
    "permit from 2001:db8::/32 on if1",
    "permit from 2001:db8:7::/48 on if2",
];

fn router() -> Build {
    Build::new()
        .port("if1", &["10.0.1.1/24", "2001:db8:f1::1/64"])
        .port("if2", &["10.0.2.1/24", "2001:db8:f2::1/64"])
        .port("out", &["192.0.2.1/24", "2001:db8:ff::1/64"])
        .via("203.0.113.0/24", &["out 192.0.2.2"])
        .via("2001:db8:dddd::/48", &["out 2001:db8:ff::2"])
        .via("10.16.0.0/12", &["if1 10.0.1.2"])
        .via("10.16.1.0/24", &["if1 10.0.1.2", "if2 10.0.2.2"])
        .via("10.20.0.0/16", &["if2 10.0.2.2"])
        .metric(7)
        .via("2001:db8:7::/48", &["if2 2001:db8:f2::2"])
}

/// Sources at the edges of all prefixes that there are, and random ones.
fn sources() -> Vec<IpAddr> {
    let mut all: Vec<IpAddr> = Vec::new();
    let edges = RULES.iter().map(|rule| rule.split(' ').nth(2).unwrap()).chain([
        "10.0.1.0/24",
        "10.0.1.1/32",
        "10.0.2.0/24",
        "0.0.0.0/8",
        "169.254.0.0/16",
        "224.0.0.0/4",
        "240.0.0.0/4",
        "192.0.2.0/24",
        "::/127",
        "fe80::/10",
        "ff00::/8",
        "::ffff:0:0/96",
        "2001:db8:f1::/64",
    ]);
    for net in edges.map(|net| net.parse::<ipnet::IpNet>().unwrap()) {
        match (net.network(), net.broadcast()) {
            (IpAddr::V4(first), IpAddr::V4(last)) => {
                let (first, last) = (first.to_bits(), last.to_bits());
                let near = [first.wrapping_sub(1), first, first + 1, last, last.wrapping_add(1)];
                all.extend(near.map(|bits| IpAddr::from(Ipv4Addr::from(bits))));
            }
            (IpAddr::V6(first), IpAddr::V6(last)) => {
                let (first, last) = (first.to_bits(), last.to_bits());
                let near = [first.wrapping_sub(1), first, first + 1, last, last.wrapping_add(1)];
                all.extend(near.map(|bits| IpAddr::from(Ipv6Addr::from(bits))));
            }
            _ => unreachable!("both ends are of one family"),
        }
    }
    let mut random = Random::from_seed(3);
    for _ in 0..400 {
        all.push(Ipv4Addr::from(0x0a00_0000 | random.next() as u32 & 0x003f_ffff).into());
        all.push(Ipv6Addr::from(0x2001_0db8 << 96 | u128::from(random.next() & 0x000f_ffff) << 76).into());
    }
    all
}

fn packet(source: IpAddr) -> String {
    let to = if source.is_ipv6() { "2001:db8:dddd::1" } else { "203.0.113.1" };
    format!("udp from {source} port 7 to {to} port 9")
}

fn mechanisms(build: &mut Build) -> Vec<Mechanism> {
    let rules = build.rules(&RULES);
    let incremental = SavRules { incremental: true, ..rules.clone() };
    let urpf = |mode| Mechanism::Urpf(Urpf { mode, default_route: false, vrf: None });
    let table = |rules, matching| Mechanism::Table { rules, matching, layout: SavLayout::Merged };
    vec![
        Mechanism::Acl(rules.clone()),
        table(rules.clone(), Match::MostSpecific),
        table(incremental.clone(), Match::MostSpecific),
        table(incremental, Match::AnyCovering),
        urpf(UrpfMode::Strict),
        urpf(UrpfMode::Loose),
        urpf(UrpfMode::Feasible),
    ]
}

#[test]
fn answers_are_what_becomes_of_packets() {
    let lenient = SpecialSources {
        unspecified: SpecialAction::Check,
        loopback: SpecialAction::Check,
        link_local: SpecialAction::Deny,
        multicast: SpecialAction::Permit,
        broadcast: SpecialAction::Check,
        ..SpecialSources::default()
    };
    let mut seen = [0; 4];
    for special in [SpecialSources::default(), lenient] {
        let mut build = router();
        for mechanism in mechanisms(&mut build).into_iter().map(Some).chain([None]) {
            let mut build = build.clone();
            if let Some(mechanism) = mechanism {
                build = build.policy("policy", mechanism).validate(&IFS, "policy");
                build.0.sav[0].special = special;
            }
            let mut rig = build.inventive();
            for interface in IFS {
                let index = rig.index(interface);
                for source in sources() {
                    let mut answers = Vec::new();
                    match source {
                        IpAddr::V4(source) => rig.harness.answers::<u32>(index, &[source.octets()], &mut answers),
                        IpAddr::V6(source) => rig.harness.answers::<u128>(index, &[source.octets()], &mut answers),
                    }
                    let verdict = rig.send(interface, &packet(source)).outcome.verdict;
                    let [answer] = answers[..] else { panic!("one answer") };
                    let fits = match verdict {
                        Verdict::Drop(Reason::MartianSource) => answer == Answer::Martian,
                        Verdict::Drop(reason) if By::of_reason(reason).is_some() => {
                            !answer.passes() && answer != Answer::Martian
                        }
                        // What passes may meet another end.
                        _ => answer.passes(),
                    };
                    assert!(fits, "{source} on {interface}: {answer:?}, {verdict:?}");
                    seen[match answer {
                        Answer::Martian => 0,
                        Answer::Said(Said::Special(..)) => 1,
                        answer if answer.passes() => 2,
                        _ => 3,
                    }] += 1;
                }
            }
        }
    }
    assert!(seen.iter().all(|seen| *seen > 100), "{seen:?}");
}

#[test]
fn many_packets_are_told_as_single_ones_are() {
    let mut build = router();
    let rules = mechanisms(&mut build).swap_remove(1);
    let build = build.policy("policy", rules).validate(&IFS, "policy");
    let (mut one_by_one, mut at_once) = (build.clone().inventive(), build.inventive());
    let (sources, index) = (sources(), at_once.index("if1"));
    let mut told: Vec<Validated> = Vec::new();
    for (start, sources) in sources.chunks(256).enumerate().map(|(turn, sources)| (turn as u32 * 256, sources)) {
        let mut expected = Vec::new();
        for (ordinal, &source) in (start..).zip(sources) {
            let frame = at_once.frame("if1", &packet(source));
            assert!(at_once.harness.inject(index, &frame, Time(9), ordinal));
            let outcome = one_by_one.put("if1", &frame).outcome;
            let refused = match outcome.verdict {
                Verdict::Drop(reason) => By::of_reason(reason).map(By::reason),
                _ => None,
            };
            expected.extend(outcome.sav.map(|decision| (ordinal, decision.source, frame.len() as u32, refused)));
        }
        at_once.harness.run_validated(&mut told);
        told.sort_by_key(|packet| packet.ordinal);
        let found: Vec<_> =
            told.iter().map(|packet| (packet.ordinal, packet.source, packet.octets, packet.refused)).collect();
        assert_eq!(found, expected);
        for packet in &told {
            let decision = at_once.harness.decision(packet.policy, packet.interface, packet.source, packet.said);
            let decision = decision.expect("a policy decided");
            assert_eq!(decision.passes, packet.refused.is_none(), "{decision:?}");
        }
    }
    assert_eq!(at_once.conservation().imbalance(), 0);
}
