//! The actions for invalid packets: every action, for every cause, with counters and conservation.

use crate::kit::*;
use weir_plane::compile::StageError;
use weir_plane::harness::Verdict;
use weir_plane::model::{
    IpFamily, Match, Mechanism, NextHop, Order, PerFamily, RateLimit, RatePer, RateUnit, SavAction, SavLayout,
    SavRules, SpecialAction, Urpf, UrpfMode,
};
use weir_plane::reason::Reason;
use weir_plane::stats::SavInterfaceStats;

const SECOND: u64 = 1_000_000_000;

/// Two ports, and one more to where what is not valid is sent. `lan` has 10.0.0.0/24 and 2001:db8:a::/64.
fn gateway() -> Build {
    two_ports()
        .port("scrub", &["192.0.3.1/24", "2001:db8:c::1/64"])
        .neighbor("scrub", "192.0.3.2", mac(3))
        .neighbor("scrub", "2001:db8:c::2", mac(3))
        .via("198.51.100.0/24", &["wan 192.0.2.2"])
        .via("2001:db8:66::/48", &["wan 2001:db8:b::2"])
}

/// Every mechanism, tables of each mode by either match, with what drops for it: none takes 198.51.100.0/24 or
/// 2001:db8:66::/48 on `lan` for valid.
fn mechanisms() -> Vec<(Build, Mechanism, Reason)> {
    let mut build = gateway();
    let rules = build.rules(&[
        "permit from 10.0.0.0/24 on lan",
        "permit from 2001:db8:a::/64 on lan",
        "permit from 198.51.100.0/24 on wan",
    ]);
    let table = |matching, layout| Mechanism::Table { rules: rules.clone(), matching, layout };
    let urpf = |mode| Mechanism::Urpf(Urpf { mode, default_route: false, vrf: None });
    let loose = build
        .clone()
        .route("198.51.100.0/25", weir_plane::model::RouteTarget::Blackhole)
        .route("2001:db8:66:1::/64", weir_plane::model::RouteTarget::Blackhole);
    let mut all = vec![
        (build.clone(), Mechanism::Acl(rules.clone()), Reason::SavAcl),
        (build.clone(), table(Match::MostSpecific, SavLayout::Merged), Reason::SavTable),
        (build.clone(), table(Match::AnyCovering, SavLayout::Merged), Reason::SavTable),
        (build.clone(), table(Match::AnyCovering, SavLayout::Cards(Order::Serial)), Reason::SavTable),
        (build.clone(), table(Match::MostSpecific, SavLayout::Cards(Order::Parallel)), Reason::SavTable),
        (build.clone(), urpf(UrpfMode::Strict), Reason::SavUrpfStrict),
        (loose, urpf(UrpfMode::Loose), Reason::SavUrpfLoose),
        (build.clone(), urpf(UrpfMode::Feasible), Reason::SavUrpfFeasible),
    ];
    // Modes 1, 2 and 4; the tables above are of mode 3.
    for lists in [
        ["interface permit from 10.0.0.0/24 on lan", "interface permit from 2001:db8:a::/64 on lan"],
        ["interface deny from 198.51.100.0/24 on lan", "interface deny from 2001:db8:66::/48 on lan"],
        ["deny from 198.51.100.0/24 on lan", "deny from 2001:db8:66::/48 on lan"],
    ] {
        let rules = build.rules(&lists);
        for matching in [Match::MostSpecific, Match::AnyCovering] {
            let mechanism = Mechanism::Table { rules: rules.clone(), matching, layout: SavLayout::Merged };
            all.push((build.clone(), mechanism, Reason::SavTable));
        }
    }
    all
}

const FORGED: [&str; 2] = ["198.51.100.1", "2001:db8:66:1::1"];
const HONEST: [&str; 2] = ["10.0.0.2", "2001:db8:a::2"];

fn packet(source: &str) -> String {
    let to = if source.contains(':') { "2001:db8:dddd::1" } else { "203.0.113.1" };
    format!("udp from {source} port 7 to {to} port 9")
}

fn per_interface(rate: u64, burst: u64) -> RateLimit {
    RateLimit { unit: RateUnit::Packets, rate, burst, per: RatePer::Interface }
}

fn next_hop(build: &Build, address: &str) -> Option<NextHop> {
    Some(NextHop { interface: build.interface("scrub"), address: Some(ip(address)), weight: 1 })
}

/// The policy `p` on `lan`, which may do anything.
fn with_policy(build: Build, mechanism: Mechanism, action: SavAction) -> Build {
    let redirect = PerFamily { v4: next_hop(&build, "192.0.3.2"), v6: next_hop(&build, "2001:db8:c::2") };
    let mut build = build.policy("p", mechanism).validate(&["lan"], "p");
    let policy = build.0.sav.last_mut().unwrap();
    (policy.action, policy.redirect, policy.rate_limit) = (action, redirect, Some(per_interface(10, 2)));
    build
}

fn simple(action: SavAction) -> Build {
    let mut build = gateway();
    let rules = build.rules(&["permit from 10.0.0.0/24 on lan", "permit from 2001:db8:a::/64 on lan"]);
    let mechanism = Mechanism::Table { rules, matching: Match::MostSpecific, layout: SavLayout::Merged };
    with_policy(build, mechanism, action)
}

fn row(rig: &Rig, family: &str) -> SavInterfaceStats {
    rig.harness.sav().into_iter().find(|row| (&*row.interface, row.family) == ("lan", family)).unwrap()
}

fn invalid(row: &SavInterfaceStats) -> u64 {
    row.invalid.iter().map(|(_, traffic)| traffic.packets).sum()
}

#[test]
fn every_action_with_every_mechanism_and_family() {
    for (build, mechanism, reason) in mechanisms() {
        for action in SavAction::ALL {
            let mut rig = with_policy(build.clone(), mechanism.clone(), action).rig();
            for (family, forged, honest) in [("ipv4", FORGED[0], HONEST[0]), ("ipv6", FORGED[1], HONEST[1])] {
                let name = format!("{} {} {family}", mechanism.name(), action.name());
                rig.advance(SECOND);
                let mut ways: Vec<Result<String, Reason>> = Vec::new();
                for _ in 0..4 {
                    assert_eq!(rig.send("lan", &packet(honest)).only().port, "wan", "{name}");
                    let passage = rig.send("lan", &packet(forged));
                    ways.push(match passage.outcome.verdict {
                        Verdict::Forward => Ok(passage.only().port),
                        Verdict::Drop(reason) => Err(reason),
                        other => panic!("{name}: {other:?}"),
                    });
                }
                let to = |port: &str| Ok(port.to_owned());
                let expected = match action {
                    SavAction::Permit => vec![to("wan"); 4],
                    SavAction::Discard => vec![Err(reason); 4],
                    SavAction::Redirect => vec![to("scrub"); 4],
                    SavAction::RateLimit => {
                        vec![to("wan"), to("wan"), Err(Reason::SavRateLimit), Err(Reason::SavRateLimit)]
                    }
                };
                assert_eq!(ways, expected, "{name}");
                let row = row(&rig, family);
                let limited = if action == SavAction::RateLimit { 2 } else { 0 };
                let redirected = if action == SavAction::Redirect { 4 } else { 0 };
                let counted = (row.checked, row.limited, row.redirected, invalid(&row));
                assert_eq!(counted, (8, limited, redirected, 4), "{name}");
            }
            let sources = rig.harness.invalid_sources();
            let seen: Vec<(&str, String, u64)> =
                sources.rows.iter().map(|row| (&*row.interface, row.prefix.to_string(), row.traffic.packets)).collect();
            let expected = [("lan", "198.51.100.0/24".to_owned(), 4), ("lan", "2001:db8:66::/48".to_owned(), 4)];
            assert_eq!(seen, expected);
        }
    }
}

#[test]
fn what_is_redirected_goes_as_if_it_were_forwarded_and_nobody_is_told() {
    let mut rig = simple(SavAction::Redirect).rig();
    for source in FORGED {
        let frame = rig.frame("lan", &packet(source));
        let seen = rig.forwards_frame("lan", &frame);
        seen.assert_link("scrub", own_mac(2), mac(3), &[]);
        // A packet whose TTL ends, or that is too long, is dropped without an error to the forged source.
        let old = format!("{} ttl 1", packet(source));
        rig.drops("lan", &old, Reason::TtlExpired);
    }
    let mut narrow = simple(SavAction::Redirect);
    narrow.0.interfaces[2].mtu = 1280;
    let mut rig = narrow.rig();
    let long = |source: &str, more: &str| format!("{}{more} length 1400", packet(source));
    rig.drops("lan", &long(FORGED[0], " df"), Reason::MtuExceeded);
    rig.drops("lan", &long(FORGED[1], ""), Reason::MtuExceeded);
    let cut = rig.send("lan", &long(FORGED[0], ""));
    assert_eq!(cut.seen().iter().map(|seen| &*seen.port).collect::<Vec<_>>(), ["scrub"; 2]);
    // Valid packets of this kind get an error, also if the next hop of a route is unresolved.
    let told = long(HONEST[0], " df");
    let mut wan = simple(SavAction::Redirect);
    wan.0.interfaces[1].mtu = 1280;
    wan.rig().told("lan", &told, Reason::MtuExceeded);
}

#[test]
fn what_is_redirected_reaches_neither_ourselves_nor_a_route() {
    let mut rig =
        simple(SavAction::Redirect).route("203.0.114.0/24", weir_plane::model::RouteTarget::Unreachable).rig();
    for text in [
        "icmp from 198.51.100.1 to 10.0.0.1",
        "icmp from 198.51.100.1 to 192.0.2.1",
        "icmp6 from 2001:db8:66::1 to 2001:db8:a::1",
        "udp from 198.51.100.1 port 1 to 10.0.0.255 port 2",
        "udp from 198.51.100.1 port 1 to 203.0.114.1 port 2",
        // A special source that the policy denies, and that no martian is.
        "udp from 10.0.0.255 port 1 to 203.0.113.1 port 2",
    ] {
        let seen = rig.forwards("lan", text);
        assert_eq!((&*seen.port, seen.to), ("scrub", mac(3)), "{text}");
    }
    assert_eq!(rig.conservation().local, 0);
}

#[test]
fn what_no_gateway_forwards_is_not_redirected_either() {
    let mut build = simple(SavAction::Redirect).punt();
    let device = build.0.interfaces[2].punt.take();
    build.0.interfaces[0].punt = device;
    let special = &mut build.0.sav[0].special;
    (special.link_local, special.unconfigured) = (SpecialAction::Deny, SpecialAction::Deny);
    let mut rig = build.clone().rig();
    for (text, reason) in [
        // For the link, and from a link.
        ("udp from 198.51.100.1 port 1 to 224.0.0.5 port 2 mac-to 01:00:5e:00:00:05", Reason::SavTable),
        ("udp from 0.0.0.0 port 68 to 255.255.255.255 port 67 mac-to ff:ff:ff:ff:ff:ff", Reason::SavSpecial),
        ("udp from 2001:db8:66::1 port 1 to ff02::5 port 2 mac-to 33:33:00:00:00:05", Reason::SavTable),
        ("udp from fe80::9 port 1 to 2001:db8:dddd::1 port 2", Reason::SavSpecial),
        ("udp from fe80::9 port 1 to 2001:db8:a::1 port 2", Reason::SavSpecial),
        ("udp from 169.254.0.9 port 1 to 203.0.113.1 port 2", Reason::SavSpecial),
        ("udp from 2001:db8:66::1 port 1 to fe80::1 port 2", Reason::SavTable),
        ("udp from 127.0.0.1 port 1 to 203.0.113.1 port 2", Reason::SavSpecial),
        ("udp from ::1 port 1 to 2001:db8:dddd::1 port 2", Reason::SavSpecial),
        ("udp from 127.0.0.1 port 1 to 240.0.0.1 port 2", Reason::SavSpecial),
        ("udp from 127.0.0.1 port 1 to 255.255.255.255 port 2", Reason::SavSpecial),
        ("udp from 127.0.0.1 port 1 to 203.0.113.1 port 2 mac-to ff:ff:ff:ff:ff:ff", Reason::SavSpecial),
    ] {
        rig.drops("lan", text, reason);
    }
    // The mechanism decides about link-local sources.
    build.0.sav[0].special.link_local = SpecialAction::Check;
    let mut rig = build.rig();
    rig.drops("lan", "udp from fe80::9 port 1 to 2001:db8:a::1 port 2", Reason::SavTable);
    // Malformed packets, for which a valid source would get an error.
    let options = |rig: &Rig, source| with_options(&rig.frame("lan", &packet(source)), &[7, 0]);
    let (forged, honest) = (options(&rig, FORGED[0]), options(&rig, HONEST[0]));
    rig.drops_frame("lan", &forged, Reason::SavTable);
    rig.told_frame("lan", &honest, Reason::BadOptions);
    let source_route = with_options(&rig.frame("lan", &packet("127.0.0.1")), &[131, 7, 4, 0, 0, 0, 0]);
    rig.drops_frame("lan", &source_route, Reason::SavSpecial);
    let chain = |rig: &Rig, source| {
        let mut headers = [60, 0, 1, 4, 0, 0, 0, 0].repeat(9);
        headers[64] = 17;
        with_extensions(&rig.frame("lan", &packet(source)), 60, &headers)
    };
    let frame = chain(&rig, FORGED[1]);
    rig.drops_frame("lan", &frame, Reason::SavTable);
    assert_eq!(rig.conservation().local, 0);
}

/// Every mechanism, also where the rules are not complete, with every action, configured or as a stage: a packet that is a
/// martian without the policy is never forwarded, redirected or given to the host, unless the mechanism knows its source.
#[test]
fn no_action_opens_martians() {
    let martians = ["127.0.0.1", "0.0.0.1", "0.0.0.0", "224.0.0.5", "255.255.255.255", "::1", "::", "ff05::5"];
    let to = |source: &str, link: bool| match (source.contains(':'), link) {
        (false, false) => "203.0.113.1 port 9",
        (false, true) => "224.0.0.9 port 9 mac-to 01:00:5e:00:00:09",
        (true, false) => "2001:db8:dddd::1 port 9",
        (true, true) => "ff02::9 port 9 mac-to 33:33:00:00:00:09",
    };
    let with_host = |build: Build| {
        let mut build = build.punt();
        let device = build.0.interfaces.last_mut().unwrap().punt.take();
        build.0.interfaces[0].punt = device;
        build
    };
    // A host without an address is not refused on its own link.
    let cases = || {
        let both = martians.iter().flat_map(|source| [(*source, false), (*source, true)]);
        both.filter(|(source, link)| !(*link && matches!(*source, "0.0.0.0" | "::")))
    };
    let text = |source: &str, link| format!("udp from {source} port 7 to {}", to(source, link));
    let mut plain = with_host(gateway()).rig();
    for (source, link) in cases() {
        plain.drops("lan", &text(source, link), Reason::MartianSource);
    }
    let mut seen = 0;
    for (build, mut mechanism, reason) in mechanisms() {
        for incremental in [false, true] {
            match &mut mechanism {
                Mechanism::Acl(rules) | Mechanism::Table { rules, .. } => rules.incremental = incremental,
                Mechanism::Urpf(_) if incremental => continue,
                Mechanism::Urpf(_) => {}
            }
            for special in [SpecialAction::Check, SpecialAction::Deny] {
                for (action, stage) in SavAction::ALL.into_iter().flat_map(|action| [(action, false), (action, true)]) {
                    let configured = if stage { SavAction::Discard } else { action };
                    let mut build = with_host(with_policy(build.clone(), mechanism.clone(), configured));
                    let own = &mut build.0.sav.last_mut().unwrap().special;
                    (own.unspecified, own.loopback, own.multicast, own.broadcast) =
                        (special, special, special, special);
                    let mut rig = build.rig();
                    if stage {
                        rig.harness.stage_sav("p", Some(action), 1).unwrap();
                    }
                    for (source, link) in cases() {
                        let passage = rig.send("lan", &text(source, link));
                        let name = format!(
                            "{} incremental {incremental} {special:?} {} stage {stage}: {}",
                            mechanism.name(),
                            action.name(),
                            text(source, link)
                        );
                        let Verdict::Drop(dropped) = passage.outcome.verdict else {
                            panic!("{name}: {:?}", passage.outcome.verdict)
                        };
                        let allowed = match special {
                            SpecialAction::Deny => Reason::SavSpecial,
                            _ => reason,
                        };
                        let fits = match action {
                            SavAction::Permit => dropped == Reason::MartianSource,
                            SavAction::RateLimit => {
                                matches!(dropped, Reason::MartianSource | Reason::SavRateLimit)
                            }
                            // A source that no rule knows is not invalid where the rules are not complete. A group is no
                            // destination that a source is validated for, unless the class is denied.
                            _ => matches!(dropped, Reason::MartianSource | Reason::Multicast) || dropped == allowed,
                        };
                        assert!(fits, "{name}: {dropped:?}");
                        seen += 1;
                    }
                    let sum = rig.conservation();
                    assert_eq!((sum.imbalance(), sum.local, sum.transmitted), (0, 0, 0));
                }
            }
        }
    }
    assert!(seen > 2000, "{seen}");
}

/// A source of a class that is checked passes where a rule names it, and where the class is permitted.
#[test]
fn martians_are_opened_by_name_alone() {
    for action in SavAction::ALL {
        let mut build = gateway();
        let rules = build.rules(&["permit from 127.0.0.0/8 on lan", "permit from ::1/128 on lan"]);
        let mechanism = Mechanism::Table { rules, matching: Match::MostSpecific, layout: SavLayout::Merged };
        let mut build = with_policy(build, mechanism, action);
        build.0.sav[0].special.loopback = SpecialAction::Check;
        build.0.sav[0].special.multicast = SpecialAction::Permit;
        let mut rig = build.rig();
        for source in ["127.0.0.1", "::1", "224.0.0.5", "ff05::5"] {
            assert_eq!(rig.send("lan", &packet(source)).only().port, "wan", "{source} {}", action.name());
        }
        let row = row(&rig, "ipv4");
        assert_eq!((row.checked, invalid(&row)), (2, 0));
    }
}

/// A gateway without neighbours on `scrub`.
fn stranger(action: SavAction) -> Build {
    let mut build = simple(action);
    let scrub = build.interface("scrub");
    build.0.neighbors.retain(|neighbor| neighbor.interface != scrub);
    build
}

#[test]
fn what_waits_for_the_next_hop_is_redirected_when_it_leaves() {
    for (source, next_hop, destination) in
        [(FORGED[0], "192.0.3.2", "10.0.0.2"), (FORGED[1], "2001:db8:c::2", "2001:db8:a::2")]
    {
        let mut rig = stranger(SavAction::Redirect).rig();
        rig.harness.listen();
        let text = format!("udp from {source} port 7 to {destination} port 9");
        for _ in 0..3 {
            assert_eq!(rig.send("lan", &text).outcome.verdict, Verdict::Held);
        }
        // Another version of the root lets nothing go, not by the route of the destination either.
        rig.reload(stranger(SavAction::Redirect).route("203.0.114.0/24", weir_plane::model::RouteTarget::Blackhole));
        assert!(rig.idle().1.is_empty());
        assert_eq!(rig.conservation().held, 3);
        rig.reload(stranger(SavAction::Redirect).neighbor("scrub", next_hop, mac(9)));
        let out = rig.idle().1;
        assert_eq!(out.len(), 3);
        for (port, frame) in &out {
            let seen = Seen::new(port, frame);
            seen.assert_link("scrub", own_mac(2), mac(9), &[]);
            assert_eq!(seen.ttl, 63);
        }
        // They have been counted once.
        let family = if source.contains(':') { "ipv6" } else { "ipv4" };
        assert_eq!((row(&rig, family).checked, invalid(&row(&rig, family))), (3, 3));
    }
}

#[test]
fn nobody_is_told_of_a_next_hop_that_does_not_answer() {
    let mut rig = stranger(SavAction::Redirect).rig();
    // No caller resolves neighbours, so none can be solicited.
    for source in FORGED {
        rig.drops("lan", &packet(source), Reason::NoNeighbor);
    }
    rig.harness.listen();
    let both = FORGED.map(|source| rig.frame("lan", &packet(source)));
    assert!(rig.put_all("lan", &both).1.is_empty());
    rig.advance(10 * SECOND);
    let (outcomes, out) = rig.idle();
    assert!(out.is_empty());
    assert_eq!(outcomes.len(), 2);
    assert!(outcomes.iter().all(|outcome| outcome.verdict == Verdict::Drop(Reason::NoNeighbor)));
}

#[test]
fn a_redirection_that_is_gone_drops() {
    // Its link goes down, while packets wait, too.
    let mut rig = stranger(SavAction::Redirect).rig();
    rig.harness.listen();
    assert_eq!(rig.send("lan", &packet(FORGED[0])).outcome.verdict, Verdict::Held);
    let scrub = rig.index("scrub");
    rig.harness.set_link(scrub, false).unwrap();
    let (outcomes, _) = rig.idle();
    assert_eq!(outcomes[0].verdict, Verdict::Drop(Reason::SavRedirect));
    for source in FORGED {
        rig.drops("lan", &packet(source), Reason::SavRedirect);
    }
    assert_eq!(row(&rig, "ipv4").redirected, 1);
    rig.harness.set_link(scrub, true).unwrap();
    assert_eq!(rig.send("lan", &packet(FORGED[0])).outcome.verdict, Verdict::Held);
    // Its interface is taken away, and the policy no longer redirects.
    let mut without = two_ports();
    let rules = without.rules(&["permit from 10.0.0.0/24 on lan"]);
    let mechanism = Mechanism::Table { rules, matching: Match::MostSpecific, layout: SavLayout::Merged };
    rig.reload(without.policy("p", mechanism).validate(&["lan"], "p"));
    let (outcomes, out) = rig.idle();
    assert!(out.is_empty() && outcomes[0].verdict == Verdict::Drop(Reason::InterfaceGone), "{:?}", outcomes[0].verdict);
}

#[test]
fn an_interface_alone_may_be_where_packets_go() {
    let mut build = simple(SavAction::Redirect).neighbor("scrub", "192.0.3.77", mac(77));
    let only = NextHop { interface: build.interface("scrub"), address: None, weight: 1 };
    build.0.sav[0].redirect = PerFamily { v4: Some(only), v6: Some(only) };
    let mut rig = build.clone().rig();
    // A neighbour that is known on its link gets the packet itself; any other is solicited there.
    let seen = rig.forwards("lan", "udp from 198.51.100.1 port 1 to 192.0.3.77 port 2");
    seen.assert_link("scrub", own_mac(2), mac(77), &[]);
    rig.harness.listen();
    let text = "udp from 198.51.100.1 port 1 to 192.0.3.78 port 2";
    assert_eq!(rig.send("lan", text).outcome.verdict, Verdict::Held);
    rig.reload(build.clone().neighbor("scrub", "192.0.3.78", mac(78)));
    let out = rig.idle().1;
    Seen::new(&out[0].0, &out[0].1).assert_link("scrub", own_mac(2), mac(78), &[]);
    // Replays invent a hardware address.
    let seen = build.inventive().forwards("lan", &packet(FORGED[0]));
    assert_eq!(seen.port, "scrub");
}

/// How many of a thousand packets a second and source pass in ten seconds, by interface.
fn flood(rig: &mut Rig, interfaces: &[&str], sources: &[&str], length: usize) -> Vec<u64> {
    let mut passed = vec![0; interfaces.len()];
    let frames: Vec<Vec<Vec<u8>>> = interfaces
        .iter()
        .map(|name| {
            let text = |source: &&str| rig.frame(name, &format!("{} length {length}", packet(source)));
            sources.iter().map(text).collect()
        })
        .collect();
    for _ in 0..1000 {
        rig.advance(SECOND / 100);
        for (number, name) in interfaces.iter().enumerate() {
            for _ in 0..10 {
                passed[number] += rig.put_all(name, &frames[number]).1.len() as u64;
            }
        }
    }
    passed
}

fn near(found: u64, wanted: u64) -> bool {
    found.abs_diff(wanted) * 100 <= wanted
}

#[test]
fn a_rate_holds_for_ten_seconds_per_interface_both_families_together() {
    let mut build = simple(SavAction::RateLimit).validate(&["scrub"], "p");
    build.0.sav[0].rate_limit = Some(per_interface(777, 10));
    let mut rig = build.rig();
    // The burst first.
    let frames: Vec<Vec<u8>> = (0..30).map(|_| rig.frame("lan", &packet(FORGED[0]))).collect();
    assert_eq!(rig.put_all("lan", &frames).1.len(), 10);
    let passed = flood(&mut rig, &["lan", "scrub"], &FORGED, 100);
    assert!(near(passed[0], 7770) && near(passed[1] - 10, 7770), "{passed:?}");
    let rows = [row(&rig, "ipv4"), row(&rig, "ipv6")];
    let limited: u64 = rows.iter().map(|row| row.limited).sum();
    assert_eq!(limited, 20_000 - passed[0] + 20);
    assert!(rows.iter().all(|row| row.limited > 5000), "each family has its part");
}

#[test]
fn a_rate_of_bits_holds_for_ten_seconds() {
    for length in [100, 1000, 1400] {
        let mut build = simple(SavAction::RateLimit);
        let rate = 400_000;
        build.0.sav[0].rate_limit =
            Some(RateLimit { unit: RateUnit::Bits, rate, burst: 50_000, per: RatePer::Interface });
        let mut rig = build.rig();
        let frame = rig.frame("lan", &format!("{} length {length}", packet(FORGED[0])));
        let bits = frame.len() as u64 * 8;
        let first: u64 = (0..50_000 / bits + 5).map(|_| rig.put("lan", &frame).out.len() as u64).sum();
        assert_eq!(first, 50_000 / bits, "as many as the burst has room for");
        let passed = flood(&mut rig, &["lan"], &FORGED[..1], length)[0];
        // What is left of the burst may be less than a packet.
        assert!((passed * bits).abs_diff(10 * rate) <= bits + 10 * rate / 100, "{length}: {passed}");
        assert!(near(passed * bits, 10 * rate));
    }
}

#[test]
fn rules_have_rates_of_their_own() {
    let mut build = gateway();
    let rules = build.rules(&[
        "permit from 198.51.100.0/24 on wan",
        "permit from 198.51.100.128/25 on wan",
        "permit from 198.51.101.0/24 on scrub",
        "permit from 2001:db8:66::/48 on wan",
    ]);
    for (mechanism, per_prefix) in [
        (Mechanism::Table { rules: rules.clone(), matching: Match::MostSpecific, layout: SavLayout::Merged }, true),
        (Mechanism::Table { rules: rules.clone(), matching: Match::AnyCovering, layout: SavLayout::Merged }, true),
        (Mechanism::Acl(SavRules { hits: true, ..rules.clone() }), true),
        (Mechanism::Urpf(Urpf { mode: UrpfMode::Strict, default_route: false, vrf: None }), false),
    ] {
        let mut build = with_policy(build.clone(), mechanism, SavAction::RateLimit).validate(&["lan", "scrub"], "p");
        build.0.sav[0].rate_limit = Some(RateLimit { unit: RateUnit::Packets, rate: 1, burst: 3, per: RatePer::Rule });
        build.0.sav[0].special.loopback = SpecialAction::Deny;
        let mut rig = build.rig();
        let mut passes = |interface: &str, source: &str| {
            (0..5).filter(|_| rig.send(interface, &packet(source)).outcome.verdict == Verdict::Forward).count()
        };
        // On whatever interface.
        assert_eq!(passes("lan", "198.51.100.1"), 3);
        assert_eq!(passes("scrub", "198.51.100.2"), 0);
        let other = if per_prefix { 3 } else { 0 };
        assert_eq!(passes("lan", "198.51.100.200"), other);
        assert_eq!(passes("lan", "198.51.101.1"), other);
        assert_eq!(passes("lan", "2001:db8:66::1"), 3, "another family");
        // Sources without a rule together, and special ones with them.
        assert_eq!(passes("lan", "198.51.103.1"), other);
        assert_eq!((passes("lan", "198.51.104.1"), passes("lan", "127.0.0.1")), (0, 0));
    }
}

#[test]
fn what_no_rule_knows_and_what_is_special_is_limited_with_the_rest() {
    let mut build = simple(SavAction::RateLimit).punt();
    let device = build.0.interfaces[2].punt.take();
    build.0.interfaces[0].punt = device;
    build.0.sav[0].rate_limit = Some(per_interface(1, 4));
    let mut rig = build.rig();
    let hello = "udp from 198.51.100.1 port 1 to 224.0.0.5 port 2 mac-to 01:00:5e:00:00:05";
    assert_eq!(rig.send("lan", hello).outcome.verdict, Verdict::Local);
    assert_eq!(rig.send("lan", "udp from 10.0.0.255 port 1 to 203.0.113.1 port 2").only().port, "wan");
    // One that is let pass is a martian as without a policy.
    rig.drops("lan", "udp from 127.0.0.1 port 1 to 203.0.113.1 port 2", Reason::MartianSource);
    let options = with_options(&rig.frame("lan", &packet(FORGED[0])), &[7, 0]);
    assert_eq!(rig.put("lan", &options).outcome.verdict, Verdict::Drop(Reason::BadOptions));
    for text in
        [hello, "udp from 10.0.0.255 port 1 to 203.0.113.1 port 2", "udp from 127.0.0.1 port 1 to 203.0.113.1 port 2"]
    {
        rig.drops("lan", text, Reason::SavRateLimit);
    }
    rig.drops_frame("lan", &options, Reason::SavRateLimit);
    assert_eq!(row(&rig, "ipv4").limited, 4);
}

#[test]
fn buckets_stay_as_long_as_the_rate_does() {
    let limited = |rate| {
        let mut build = simple(SavAction::RateLimit);
        build.0.sav[0].rate_limit = Some(per_interface(rate, 5));
        build
    };
    let mut rig = limited(1).rig();
    let passes = |rig: &mut Rig| {
        (0..7).filter(|_| rig.send("lan", &packet(FORGED[0])).outcome.verdict == Verdict::Forward).count()
    };
    assert_eq!(passes(&mut rig), 5);
    // A reload that adds a policy and interfaces, many of them.
    let mut more = limited(1);
    for number in 0..80 {
        more = more.port(&format!("more{number}"), &[]);
    }
    rig.reload(more);
    assert_eq!(passes(&mut rig), 0);
    rig.advance(2 * SECOND);
    assert_eq!(passes(&mut rig), 2);
    // Stages, and back.
    rig.harness.stage_sav("p", Some(SavAction::Discard), 7).unwrap();
    assert_eq!(passes(&mut rig), 0);
    rig.harness.stage_sav("p", Some(SavAction::Permit), 8).unwrap();
    assert_eq!(passes(&mut rig), 7);
    rig.harness.stage_sav("p", None, 9).unwrap();
    assert_eq!(passes(&mut rig), 0);
    // Another rate is another bucket.
    rig.reload(limited(2));
    assert_eq!(passes(&mut rig), 5);
}

#[test]
fn stages_take_the_place_of_the_action_until_they_can_not() {
    let mut rig = simple(SavAction::Permit).rig();
    let way = |rig: &mut Rig, source: &str| {
        let passage = rig.send("lan", &packet(source));
        match passage.outcome.verdict {
            Verdict::Drop(reason) => Err(reason),
            _ => Ok(passage.only().port),
        }
    };
    let shown = |rig: &Rig| {
        let policy = rig.harness.sav_policies().remove(0);
        (policy.action, policy.stage)
    };
    assert_eq!((way(&mut rig, FORGED[0]), shown(&rig)), (Ok("wan".into()), ("permit", None)));
    rig.harness.stage_sav("p", Some(SavAction::Redirect), 100).unwrap();
    assert_eq!(way(&mut rig, FORGED[1]), Ok("scrub".into()));
    assert_eq!(shown(&rig), ("permit", Some(("redirect", 100))));
    // The same again began when it began.
    rig.harness.stage_sav("p", Some(SavAction::Redirect), 200).unwrap();
    assert_eq!(shown(&rig).1, Some(("redirect", 100)));
    rig.harness.stage_sav("p", Some(SavAction::Discard), 300).unwrap();
    assert_eq!((way(&mut rig, FORGED[0]), shown(&rig).1), (Err(Reason::SavTable), Some(("discard", 300))));
    // Through reloads, whatever is configured by then.
    rig.reload(simple(SavAction::RateLimit));
    assert_eq!(
        (way(&mut rig, FORGED[0]), shown(&rig)),
        (Err(Reason::SavTable), ("rate-limit", Some(("discard", 300))))
    );
    rig.harness.stage_sav("p", None, 400).unwrap();
    assert_eq!((way(&mut rig, FORGED[0]), shown(&rig)), (Ok("wan".into()), ("rate-limit", None)));
    // A stage that the policy has no parts for is refused; nothing changes then.
    let bare = |action| {
        let mut build = simple(action);
        (build.0.sav[0].rate_limit, build.0.sav[0].redirect.v6) = (None, None);
        build
    };
    rig.reload(bare(SavAction::Discard));
    let policy = || "p".to_owned();
    for (name, action, error) in [
        ("q", SavAction::Permit, StageError::NoSuchPolicy { policy: "q".into(), policies: vec![policy()] }),
        ("p", SavAction::RateLimit, StageError::NoRateLimit { policy: policy() }),
        ("p", SavAction::Redirect, StageError::NoRedirect { policy: policy(), family: IpFamily::V6 }),
    ] {
        assert_eq!(rig.harness.stage_sav(name, Some(action), 1), Err(error));
    }
    assert_eq!(way(&mut rig, FORGED[0]), Err(Reason::SavTable));
    // A family without validation needs no redirection.
    let mut only_v4 = bare(SavAction::Discard);
    only_v4.0.interfaces[0].sav.v6 = None;
    rig.reload(only_v4);
    rig.harness.stage_sav("p", Some(SavAction::Redirect), 500).unwrap();
    assert_eq!(way(&mut rig, FORGED[0]), Ok("scrub".into()));
    // A stage that cannot continue ends, and so does a stage whose policy is gone.
    rig.reload(bare(SavAction::Discard));
    assert_eq!((way(&mut rig, FORGED[0]), shown(&rig).1), (Err(Reason::SavTable), None));
    rig.harness.stage_sav("p", Some(SavAction::Permit), 600).unwrap();
    rig.reload(gateway());
    rig.reload(bare(SavAction::Discard));
    assert_eq!((way(&mut rig, FORGED[0]), shown(&rig).1), (Err(Reason::SavTable), None));
}
