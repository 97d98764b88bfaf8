//! The link check: packets have to come from the neighbour to which the route back leads.

use crate::kit::link::{arp, request};
use crate::kit::*;
use weir_packet::wire::MacAddress;
use weir_packet::wire::arp::{Fields as Arp, Operation};
use weir_plane::harness::Verdict;
use weir_plane::model::{
    LinkCheck, Match, Mechanism, NextHop, PerFamily, RateLimit, RatePer, RateUnit, RouteTarget, SavAction, SavLayout,
    SavRules, SpecialAction, Urpf, UrpfMode,
};
use weir_plane::reason::Reason;

/// A station on `lan` that is no neighbour.
const STRANGER: MacAddress = MacAddress([2, 0, 0, 0, 0xaa, 0x66]);

/// On `lan` 10.0.0.2 and 2001:db8:a::2 are `HOST`, and …3 is `mac(3)`. Behind the first are 198.51.100.0/24 and
/// 2001:db8:66::/48, behind both 198.51.101.0/24 and 2001:db8:67::/48, and 198.51.102.0/24 is behind `wan`.
fn gateway(link_check: LinkCheck) -> Build {
    let mut build = two_ports();
    build.0.neighbors.retain(|neighbor| neighbor.interface.0 != 0);
    let mut build = build
        .neighbor("lan", "10.0.0.2", HOST)
        .neighbor("lan", "2001:db8:a::2", HOST)
        .neighbor("lan", "10.0.0.3", mac(3))
        .neighbor("lan", "2001:db8:a::3", mac(3))
        .neighbor("lan", "fe80::2", HOST)
        .via("198.51.100.0/24", &["lan 10.0.0.2"])
        .via("198.51.101.0/24", &["lan 10.0.0.2", "lan 10.0.0.3", "wan 192.0.2.2"])
        .via("198.51.102.0/24", &["wan 192.0.2.2"])
        .via("198.51.103.0/24", &["lan 10.0.0.2", "lan 10.0.0.99"])
        .via("2001:db8:66::/48", &["lan 2001:db8:a::2"])
        .via("2001:db8:67::/48", &["lan 2001:db8:a::2", "lan 2001:db8:a::3"])
        .via("2001:db8:69::/48", &["lan fe80::2"])
        .table("t", &["permit from 0.0.0.0/0 on lan", "permit from ::/0 on lan"])
        .validate(&["lan"], "t");
    build.0.sav[0].link_check = link_check;
    build
}

fn packet(source: &str) -> String {
    let to = if source.contains(':') { "2001:db8:dddd::1" } else { "203.0.113.1" };
    format!("udp from {source} port 7 to {to} port 9")
}

/// Returns the verdicts on packets of a source from these stations.
fn ways(rig: &mut Rig, source: &str, stations: &[MacAddress]) -> Vec<Verdict> {
    let each = stations.iter().map(|station| {
        let mut frame = rig.frame("lan", &packet(source));
        frame[6..12].copy_from_slice(&station.0);
        rig.put("lan", &frame).outcome.verdict
    });
    each.collect()
}

const STATIONS: [MacAddress; 3] = [HOST, mac_3(), STRANGER];

const fn mac_3() -> MacAddress {
    MacAddress([2, 0, 0, 0, 0xbb, 3])
}

const PASS: Verdict = Verdict::Forward;
const DROP: Verdict = Verdict::Drop(Reason::SavLink);

#[test]
fn who_is_known_has_to_send_himself() {
    for link_check in [LinkCheck::Off, LinkCheck::Known, LinkCheck::Strict] {
        let mut rig = gateway(link_check).rig();
        // Who is known, who is not, and who is elsewhere.
        let unknown = if link_check == LinkCheck::Strict { [DROP; 3] } else { [PASS; 3] };
        let only = |station| match link_check {
            LinkCheck::Off => [PASS; 3],
            _ => STATIONS.map(|other| if other == station { PASS } else { DROP }),
        };
        let either = if link_check == LinkCheck::Off { [PASS; 3] } else { [PASS, PASS, DROP] };
        let half = if link_check == LinkCheck::Strict { [PASS, DROP, DROP] } else { [PASS; 3] };
        for (source, expected) in [
            ("10.0.0.2", only(HOST)),
            ("10.0.0.3", only(mac(3))),
            ("2001:db8:a::2", only(HOST)),
            ("2001:db8:a::3", only(mac(3))),
            ("198.51.100.9", only(HOST)),
            ("2001:db8:66::9", only(HOST)),
            ("2001:db8:69::9", only(HOST)),
            ("198.51.101.9", either),
            ("2001:db8:67::9", either),
            ("10.0.0.77", unknown),
            ("2001:db8:a::77", unknown),
            ("198.51.102.9", unknown),
            ("192.0.2.2", unknown),
            ("203.0.113.9", unknown),
            // One of two next hops is unknown: it may have sent the packet that the other did not send.
            ("198.51.103.9", half),
        ] {
            assert_eq!(ways(&mut rig, source, &STATIONS), expected, "{link_check:?} {source}");
        }
    }
}

#[test]
fn link_local_sources_are_neighbours_of_their_link() {
    for special in [SpecialAction::Permit, SpecialAction::Check] {
        for (link_check, known, unknown) in
            [(LinkCheck::Off, true, true), (LinkCheck::Known, false, true), (LinkCheck::Strict, false, false)]
        {
            let mut build = gateway(link_check);
            build.0.sav[0].special.link_local = special;
            let mut rig = build.rig();
            let mut local = |source: &str, station: MacAddress| {
                let mut frame = rig.frame("lan", &format!("icmp6 from {source} to 2001:db8:a::1"));
                frame[6..12].copy_from_slice(&station.0);
                match rig.put("lan", &frame).outcome.verdict {
                    Verdict::Local => true,
                    DROP => false,
                    other => panic!("{other:?}"),
                }
            };
            assert!(local("fe80::2", HOST));
            assert_eq!(local("fe80::2", STRANGER), known, "{special:?} {link_check:?}");
            assert_eq!(local("fe80::77", STRANGER), unknown, "{special:?} {link_check:?}");
        }
    }
}

#[test]
fn what_does_not_come_by_the_node_is_asked_too() {
    let mut build = gateway(LinkCheck::Known).punt();
    let device = build.0.interfaces[1].punt.take();
    build.0.interfaces[0].punt = device;
    let mut rig = build.rig();
    let from = |rig: &Rig, text: &str, station: MacAddress| {
        let mut frame = rig.frame("lan", text);
        frame[6..12].copy_from_slice(&station.0);
        frame
    };
    let hello = "udp from 10.0.0.2 port 1 to 224.0.0.5 port 2 mac-to 01:00:5e:00:00:05";
    let (his, forged) = (from(&rig, hello, HOST), from(&rig, hello, STRANGER));
    assert_eq!(rig.put("lan", &his).outcome.verdict, Verdict::Local);
    rig.drops_frame("lan", &forged, Reason::SavLink);
    let options = |rig: &Rig, station| with_options(&from(rig, &packet("10.0.0.2"), station), &[7, 0]);
    let (his, forged) = (options(&rig, HOST), options(&rig, STRANGER));
    rig.told_frame("lan", &his, Reason::BadOptions);
    rig.drops_frame("lan", &forged, Reason::SavLink);
}

#[test]
fn every_action_and_mechanism_has_it() {
    let next_hop = |build: &Build, address| {
        Some(NextHop { interface: build.interface("wan"), address: Some(ip(address)), weight: 1 })
    };
    for action in SavAction::ALL {
        let mut build = gateway(LinkCheck::Known).route("0.0.0.0/0", RouteTarget::Blackhole);
        build.0.routes.retain(|route| !(route.prefix.prefix_len() == 0 && matches!(route.target, RouteTarget::Via(_))));
        let build_v6 = build.clone().route("::/0", RouteTarget::Blackhole);
        let mut build = build_v6;
        let rules = build.rules(&["permit from 198.51.100.0/24 on lan", "permit from 2001:db8:66::/48 on lan"]);
        let urpf = |mode| Mechanism::Urpf(Urpf { mode, default_route: false, vrf: None });
        for mechanism in [
            Mechanism::Acl(rules.clone()),
            Mechanism::Table { rules, matching: Match::AnyCovering, layout: SavLayout::Merged },
            urpf(UrpfMode::Strict),
            urpf(UrpfMode::Loose),
            urpf(UrpfMode::Feasible),
        ] {
            let mut build = build.clone();
            let redirect = PerFamily { v4: next_hop(&build, "192.0.2.2"), v6: next_hop(&build, "2001:db8:b::2") };
            let policy = &mut build.0.sav[0];
            (policy.mechanism, policy.action, policy.redirect) = (mechanism, action, redirect);
            policy.rate_limit = Some(RateLimit { unit: RateUnit::Packets, rate: 1, burst: 1, per: RatePer::Interface });
            let mut rig = build.rig();
            for source in ["198.51.100.9", "2001:db8:66::9"] {
                rig.advance(2_000_000_000);
                let found = ways(&mut rig, source, &[HOST, STRANGER, STRANGER]);
                let blackhole = Verdict::Drop(Reason::Blackhole);
                let expected = match action {
                    SavAction::Permit => [blackhole; 3],
                    SavAction::Discard => [blackhole, DROP, DROP],
                    SavAction::RateLimit => [blackhole, blackhole, Verdict::Drop(Reason::SavRateLimit)],
                    SavAction::Redirect => [blackhole, PASS, PASS],
                };
                assert_eq!(found, expected, "{action:?} {source}");
            }
            for row in rig.harness.sav().into_iter().filter(|row| row.interface == "lan") {
                let link = row.invalid.iter().find(|(by, _)| *by == "link").unwrap().1.packets;
                let others: u64 = row.invalid.iter().map(|(_, traffic)| traffic.packets).sum();
                assert_eq!((row.checked, link, others), (3, 2, 2));
            }
        }
    }
}

#[test]
fn what_strangers_send_is_not_unknown_too() {
    let mut build = gateway(LinkCheck::Known);
    let rules = SavRules { incremental: true, ..build.rules(&["permit from 198.51.100.0/24 on lan"]) };
    build.0.sav[0].mechanism = Mechanism::Table { rules, matching: Match::MostSpecific, layout: SavLayout::Merged };
    let mut rig = build.rig();
    assert_eq!(ways(&mut rig, "10.0.0.3", &STATIONS), [DROP, PASS, DROP]);
    let row = rig.harness.sav().into_iter().find(|row| (&*row.interface, row.family) == ("lan", "ipv4")).unwrap();
    let invalid: u64 = row.invalid.iter().map(|(_, traffic)| traffic.packets).sum();
    assert_eq!((row.checked, row.unknown, invalid), (3, 1, 2));
}

#[test]
fn neighbours_that_are_learned_count() {
    let mut rig = gateway(LinkCheck::Known).rig();
    rig.harness.discover(&[]).unwrap();
    assert_eq!(ways(&mut rig, "10.0.0.50", &[HOST, STRANGER]), [PASS, PASS]);
    // A packet needs the neighbour, and it answers.
    assert_eq!(rig.send("wan", "udp from 192.0.2.2 port 1 to 10.0.0.50 port 2").outcome.verdict, Verdict::Held);
    rig.harness.step();
    rig.idle();
    let (operation, target_mac) = (Operation::Reply, own_mac(0));
    rig.put("lan", &arp(own_mac(0), &[], Arp { operation, target_mac, ..request("10.0.0.50", "10.0.0.1") }));
    rig.harness.step();
    rig.idle();
    assert_eq!(ways(&mut rig, "10.0.0.50", &[HOST, STRANGER]), [PASS, DROP]);
}

#[test]
fn decisions_name_who_sent_and_who_should_have() {
    let mut rig = gateway(LinkCheck::Strict).rig();
    let mut why = |source: &str| {
        let mut frame = rig.frame("lan", &packet(source));
        frame[6..12].copy_from_slice(&STRANGER.0);
        let decision = rig.put("lan", &frame).outcome.sav.unwrap();
        assert_eq!((decision.mechanism, decision.verdict, decision.passes), ("link", "invalid", false));
        decision.why
    };
    let from = "the frame came from 02:00:00:00:aa:66";
    assert_eq!(why("10.0.0.3"), format!("{from}, the neighbour 10.0.0.3 has 02:00:00:00:bb:03"));
    assert_eq!(why("198.51.100.1"), format!("{from}, the neighbour 10.0.0.2 has 02:00:00:00:aa:01"));
    assert_eq!(why("10.0.0.77"), format!("{from}, and no neighbour is known here who the source is behind"));
    // What the mechanism refuses is no matter of links.
    let mut build = gateway(LinkCheck::Strict);
    let rules = build.rules(&["permit from 10.0.0.0/24 on wan"]);
    build.0.sav[0].mechanism = Mechanism::Table { rules, matching: Match::MostSpecific, layout: SavLayout::Merged };
    let mut rig = build.rig();
    assert_eq!(ways(&mut rig, "10.0.0.3", &STATIONS), [Verdict::Drop(Reason::SavTable); 3]);
}

/// Interfaces of several VRFs and several next hops in one vector.
#[test]
fn a_vector_of_many_interfaces_is_asked_packet_by_packet() {
    let mut build = gateway(LinkCheck::Known)
        .vlan("lan.5", "lan", &[5], &["10.5.0.1/24"])
        .in_vrf("red")
        .neighbor("lan.5", "10.0.0.2", mac(5))
        .via_in("red", "10.0.0.0/24", &["lan.5 10.5.0.2"])
        .neighbor("lan.5", "10.5.0.2", mac(7))
        .via_in("red", "203.0.113.0/24", &["lan.5 10.5.0.2"])
        .validate(&["lan", "lan.5"], "t");
    let rules = build.rules(&["permit from 0.0.0.0/0 on lan, lan.5"]);
    build.0.sav[0].mechanism = Mechanism::Table { rules, matching: Match::MostSpecific, layout: SavLayout::Merged };
    let mut rig = build.rig();
    let mut frames = Vec::new();
    let mut expected = Vec::new();
    for number in 0..120 {
        let (tag, right) = if number % 3 == 0 { (" vlan 5", mac(7)) } else { ("", mac(3)) };
        let mut frame = rig.frame("lan", &format!("{}{tag}", packet("10.0.0.3")));
        let station = if number % 2 == 0 { right } else { STRANGER };
        frame[6..12].copy_from_slice(&station.0);
        frames.push(frame);
        expected.push(if number % 2 == 0 { PASS } else { DROP });
    }
    let (outcomes, _) = rig.put_all("lan", &frames);
    let found: Vec<Verdict> = outcomes.iter().map(|outcome| outcome.verdict).collect();
    assert_eq!(found, expected);
}
