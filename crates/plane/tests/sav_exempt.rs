//! Packets that are not validated, by rules on their fields.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use crate::kit::*;
use weir_base::random::Random;
use weir_plane::harness::Verdict;
use weir_plane::model::{
    AclAction, AclRule, Addresses, IpFamily, Match, Mechanism, Origin, Ports, SavAction, SavLayout, SpecialAction,
    TcpFlags, Transport, Urpf, UrpfMode,
};
use weir_plane::reason::Reason;

fn rule(permit: bool) -> AclRule {
    AclRule::all(if permit { AclAction::Permit } else { AclAction::Deny }, Origin::default())
}

fn net(text: &str) -> Addresses {
    Addresses::Net(text.parse().unwrap())
}

fn ports(protocol: u8, source: RangeInclusive<u16>, destination: RangeInclusive<u16>) -> Transport {
    Transport::Ports { protocol, source: source.into(), destination: destination.into(), flags: None }
}

/// Nothing is valid on `lan` but what a rule exempts.
fn gateway(rules: Vec<AclRule>) -> Build {
    let mut build = two_ports().table("t", &["permit from 198.18.0.0/15 on wan"]).validate(&["lan"], "t");
    build.0.sav[0].exempt = rules.into();
    build
}

fn passes(rig: &mut Rig, text: &str) -> bool {
    match rig.send("lan", text).outcome.verdict {
        Verdict::Forward => true,
        Verdict::Drop(Reason::SavTable) => false,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn the_first_rule_that_matches_decides() {
    let rules = vec![
        AclRule { from: net("10.0.0.64/26"), ..rule(false) },
        AclRule { from: net("10.0.0.0/24"), to: net("203.0.113.0/24"), ..rule(true) },
        AclRule { transport: ports(17, 0..=u16::MAX, 53..=53), ..rule(true) },
        AclRule { family: Some(IpFamily::V6), transport: Transport::Protocol(6), dscp: Some(46), ..rule(true) },
        AclRule { from: Addresses::Range(ip("10.9.0.5"), ip("10.9.0.9")), ..rule(true) },
        AclRule { fragment: Some(true), from: net("10.7.0.0/16"), ..rule(true) },
        AclRule {
            transport: Transport::Icmp { protocol: 58, icmp_type: Some(128..=128), code: None },
            family: Some(IpFamily::V6),
            ..rule(true)
        },
    ];
    let mut rig = gateway(rules).rig();
    let mut exempt = [0, 0];
    let mut checked = [0, 0];
    for (expected, text) in [
        (true, "udp from 10.0.0.2 port 7 to 203.0.113.1 port 9"),
        (false, "udp from 10.0.0.65 port 7 to 203.0.113.1 port 9"),
        (false, "udp from 10.0.0.65 port 7 to 203.0.113.1 port 53"),
        (false, "udp from 10.0.0.2 port 7 to 203.0.114.1 port 9"),
        (true, "udp from 10.0.0.2 port 7 to 203.0.114.1 port 53"),
        (true, "udp from 2001:db8:66::1 port 7 to 2001:db8:dddd::1 port 53"),
        (false, "tcp from 10.0.0.2 port 7 to 203.0.114.1 port 53"),
        // A fragment that is not the first has no ports.
        (true, "udp from 172.16.0.1 port 7 to 203.0.114.1 port 53 fragment 0+ length 100"),
        (false, "udp from 172.16.0.1 to 203.0.114.1 fragment 104 length 100"),
        (true, "udp from 10.7.0.1 to 203.0.114.1 fragment 104 length 100"),
        (false, "udp from 10.7.0.1 port 1 to 203.0.114.1 port 2"),
        (true, "tcp from 2001:db8:66::1 port 7 to 2001:db8:dddd::1 port 9 dscp 46"),
        (false, "tcp from 2001:db8:66::1 port 7 to 2001:db8:dddd::1 port 9 dscp 45"),
        (true, "udp from 10.9.0.9 port 7 to 203.0.113.1 port 9"),
        (false, "udp from 10.9.0.10 port 7 to 203.0.113.1 port 9"),
        (true, "icmp6 from 2001:db8:66::1 to 2001:db8:dddd::1"),
    ] {
        assert_eq!(passes(&mut rig, text), expected, "{text}");
        let family = usize::from(text.contains("db8"));
        if expected { exempt[family] += 1 } else { checked[family] += 1 }
    }
    for (number, row) in rig.harness.sav().into_iter().filter(|row| row.interface == "lan").enumerate() {
        assert_eq!((row.exempt, row.checked), (exempt[number], checked[number]), "{}", row.family);
    }
}

#[test]
fn it_is_asked_before_anything_else() {
    let mut build = gateway(vec![AclRule { to: net("203.0.113.0/24"), ..rule(true) }]);
    let special = &mut build.0.sav[0].special;
    special.broadcast = SpecialAction::Deny;
    let mut rig = build.clone().rig();
    // Classes that the policy denies are as without a policy: a martian is one.
    assert!(passes(&mut rig, "udp from 10.0.0.255 port 7 to 203.0.113.1 port 9"));
    rig.drops("lan", "udp from 127.0.0.1 port 7 to 203.0.113.1 port 9", Reason::MartianSource);
    rig.drops("lan", "udp from 127.0.0.1 port 7 to 203.0.114.1 port 9", Reason::SavSpecial);
    // The same of classes that the policy checks.
    let mut checking = build.clone();
    checking.0.sav[0].special.loopback = SpecialAction::Check;
    let mut checking = checking.rig();
    checking.drops("lan", "udp from 127.0.0.1 port 7 to 203.0.113.1 port 9", Reason::MartianSource);
    checking.drops("lan", "udp from 127.0.0.1 port 7 to 203.0.114.1 port 9", Reason::SavTable);
    // An exempt source gets the error about a malformed packet.
    let options = with_options(&rig.frame("lan", "udp from 172.16.0.1 port 7 to 203.0.113.1 port 9"), &[7, 0]);
    let answer = rig.put("lan", &options);
    assert_eq!(answer.outcome.verdict, Verdict::Drop(Reason::BadOptions));
    assert_eq!(answer.outcome.sav.as_ref().unwrap().mechanism, "exempt");
    let row = rig.harness.sav().remove(0);
    assert_eq!((row.exempt, row.checked), (3, 1));
    let decision = rig.send("lan", "udp from 172.16.0.1 port 7 to 203.0.113.1 port 9").outcome.sav.unwrap();
    assert_eq!((decision.verdict, decision.passes), ("exempt", true));
    assert_eq!(decision.by[0].text, "rule 1 of the exemptions of [sav.t]");
    // For every mechanism and action.
    for mode in [UrpfMode::Strict, UrpfMode::Feasible] {
        for action in SavAction::ALL {
            let mut build = build.clone();
            build.0.sav[0].mechanism = Mechanism::Urpf(Urpf { mode, default_route: false, vrf: None });
            build.0.sav[0].action = action;
            let mut rig = build.rig();
            assert_eq!(rig.send("lan", "udp from 172.16.0.1 port 7 to 203.0.113.1 port 9").only().port, "wan");
            assert_eq!(rig.harness.sav()[0].exempt, 1);
        }
    }
}

#[test]
fn what_is_for_the_host_may_be_exempt() {
    let mut build = gateway(vec![AclRule { transport: Transport::Protocol(89), ..rule(true) }]).punt();
    let device = build.0.interfaces[1].punt.take();
    build.0.interfaces[0].punt = device;
    let mut rig = build.rig();
    let hello = "89 from 10.0.0.2 to 224.0.0.5 mac-to 01:00:5e:00:00:05";
    assert_eq!(rig.send("lan", hello).outcome.verdict, Verdict::Local);
    let other = "udp from 10.0.0.2 port 1 to 224.0.0.5 port 2 mac-to 01:00:5e:00:00:05";
    rig.drops("lan", other, Reason::SavTable);
}

#[test]
fn reloads_change_the_rules() {
    let to = |prefix: &str| gateway(vec![AclRule { to: net(prefix), ..rule(true) }]);
    let mut rig = to("203.0.113.0/24").rig();
    let text = "udp from 172.16.0.1 port 7 to 203.0.113.1 port 9";
    assert!(passes(&mut rig, text));
    rig.reload(to("203.0.114.0/24"));
    assert!(!passes(&mut rig, text));
    rig.reload(gateway(Vec::new()));
    assert!(!passes(&mut rig, text));
    rig.reload(to("203.0.113.0/24"));
    assert!(passes(&mut rig, text));
    // More than there is room for are refused, and nothing changes.
    let many = (0..5000u32).map(|number| {
        let address = IpAddr::from(number.to_be_bytes());
        AclRule { from: Addresses::Range(address, address), ..rule(true) }
    });
    let refused = rig.harness.reload(gateway(many.collect()).0).unwrap_err().to_string();
    assert!(refused.contains("5000 rules are more than the 4096"), "{refused}");
    assert!(passes(&mut rig, text));
}

/// The fields of a packet that exemptions match, in the test's own words.
#[derive(Clone)]
struct Asked {
    v6: bool,
    from: u32,
    to: u32,
    protocol: &'static str,
    ports: (u16, u16),
    later: bool,
    dscp: u8,
}

impl Asked {
    fn address(&self, number: u32) -> IpAddr {
        match self.v6 {
            false => IpAddr::from([11, 0, (number >> 8) as u8, number as u8]),
            true => format!("2001:db8:0:{number:x}::1").parse().unwrap(),
        }
    }

    fn text(&self) -> String {
        let (from, to) = (self.address(self.from), self.address(self.to + 100));
        let (ports_from, ports_to) = match self.later {
            false => (format!(" port {}", self.ports.0), format!(" port {}", self.ports.1)),
            true => Default::default(),
        };
        let fragment = if self.later { " fragment 104 length 100" } else { "" };
        format!("{} from {from}{ports_from} to {to}{ports_to} dscp {}{fragment}", self.protocol, self.dscp)
    }

    /// A rule matches, by its words.
    fn matches(&self, rule: &AclRule) -> bool {
        let (from, to) = (self.address(self.from), self.address(self.to + 100));
        let has = |addresses: &Addresses, address: IpAddr| match addresses {
            Addresses::Any => true,
            Addresses::Net(net) => net.contains(&address),
            Addresses::Range(first, last) => {
                first.is_ipv4() == address.is_ipv4() && *first <= address && address <= *last
            }
            Addresses::Group(_) => panic!("no rule here names one"),
        };
        let number = if self.protocol == "tcp" { 6 } else { 17 };
        rule.family.is_none_or(|family| (family == IpFamily::V6) == self.v6)
            && has(&rule.from, from)
            && has(&rule.to, to)
            && rule.dscp.is_none_or(|dscp| dscp == self.dscp)
            && rule.fragment.is_none_or(|later| later == self.later)
            && match &rule.transport {
                Transport::Any => true,
                Transport::Protocol(protocol) => *protocol == number,
                Transport::Ports { protocol, source, destination, flags } => {
                    let has = |ports: &Ports, port| ports.ranges().iter().any(|range| range.contains(&port));
                    let any = source.is_all() && destination.is_all();
                    let asked = any || !self.later && has(source, self.ports.0) && has(destination, self.ports.1);
                    // The kit's TCP packets have the flags that their text gives: none but ACK.
                    let flagged = flags.is_none_or(|flags| !self.later && flags.value == 0x10 & flags.mask);
                    *protocol == number && asked && flagged
                }
                Transport::Icmp { .. } => false,
            }
    }
}

#[test]
fn random_rules_exempt_what_their_words_say() {
    let mut random = Random::from_seed(21);
    for round in 0..12 {
        let pick = |random: &mut Random, list: &[u16]| list[random.below(list.len() as u64) as usize];
        let mut rules = Vec::new();
        for _ in 0..=random.below(60) {
            let v6 = random.chance(0.5);
            let addresses = |random: &mut Random, base: u32| {
                let asked = Asked { v6, from: 0, to: 0, protocol: "udp", ports: (0, 0), later: false, dscp: 0 };
                let number = base + random.below(8) as u32;
                match random.below(4) {
                    0 => Addresses::Net(asked.address(number).into()),
                    1 => {
                        let first = asked.address(number);
                        let last = asked.address(number + random.below(4) as u32);
                        Addresses::Range(first, last)
                    }
                    _ => Addresses::Any,
                }
            };
            let (from, to) = (addresses(&mut random, 0), addresses(&mut random, 100));
            let protocol = if random.chance(0.5) { 6 } else { 17 };
            let transport = match random.below(4) {
                0 => Transport::Any,
                1 => Transport::Protocol(protocol),
                2 => ports(protocol, 0..=u16::MAX, 1..=pick(&mut random, &[1, 2, 3])),
                _ => Transport::Ports {
                    protocol: 6,
                    source: Ports::ALL,
                    destination: Ports::ALL,
                    flags: Some(TcpFlags { value: pick(&mut random, &[0, 0x10]) as u8, mask: 0x12 }),
                },
            };
            let family = match random.below(3) {
                0 => Some(if v6 { IpFamily::V6 } else { IpFamily::V4 }),
                _ => None,
            };
            let fragment = if random.chance(0.2) { Some(random.chance(0.5)) } else { None };
            let dscp = if random.chance(0.2) { Some(random.below(3) as u8) } else { None };
            rules.push(AclRule { family, from, to, transport, fragment, dscp, ..rule(random.chance(0.6)) });
        }
        let mut build = gateway(rules.clone()).inventive();
        let mut asked = Vec::new();
        let mut frames = Vec::new();
        for _ in 0..250 {
            let one = Asked {
                v6: random.chance(0.5),
                from: random.below(12) as u32,
                to: random.below(12) as u32,
                protocol: if random.chance(0.5) { "tcp" } else { "udp" },
                ports: (9, random.below(5) as u16),
                later: random.chance(0.2),
                dscp: random.below(3) as u8,
            };
            let text = match (one.protocol, one.later) {
                ("tcp", false) => format!("{} flags ack", one.text()),
                _ => one.text(),
            };
            frames.push(build.frame("lan", &text));
            asked.push(one);
        }
        let (outcomes, _) = build.put_all("lan", &frames);
        for (one, outcome) in asked.iter().zip(&outcomes) {
            let first = rules.iter().find(|rule| one.matches(rule));
            let expected = first.is_some_and(|rule| rule.action == AclAction::Permit);
            let exempt = outcome.sav.as_ref().is_some_and(|decision| decision.verdict == "exempt");
            assert_eq!(exempt, expected, "round {round}: {}", one.text());
            if exempt {
                let place = rules.iter().position(|rule| one.matches(rule)).unwrap() + 1;
                let text = format!("rule {place} of the exemptions of [sav.t]");
                assert_eq!(outcome.sav.as_ref().unwrap().by[0].text, text);
            }
        }
    }
}

/// Interfaces with exemptions, with others, and with none, mixed in a vector.
#[test]
fn policies_of_a_vector_have_their_own_rules() {
    let mut build = two_ports();
    for vlan in 1..=4u16 {
        build = build.vlan(&format!("lan.{vlan}"), "lan", &[vlan], &[]);
    }
    let mechanism = |build: &mut Build| {
        let rules = build.rules(&["permit from 198.18.0.0/15 on wan"]);
        Mechanism::Table { rules, matching: Match::MostSpecific, layout: SavLayout::Merged }
    };
    let one = mechanism(&mut build);
    let mut build = build
        .policy("a", one.clone())
        .policy("b", one.clone())
        .policy("c", one)
        .validate(&["lan.1"], "a")
        .validate(&["lan.2"], "b")
        .validate(&["lan.3"], "c");
    build.0.sav[0].exempt = vec![AclRule { to: net("203.0.113.1/32"), ..rule(true) }].into();
    build.0.sav[1].exempt = vec![AclRule { to: net("203.0.113.2/32"), ..rule(true) }].into();
    let mut rig = build.inventive();
    let mut frames = Vec::new();
    let mut expected = Vec::new();
    for number in 0..200u16 {
        let (vlan, host) = (1 + number % 4, 1 + number / 4 % 2);
        frames.push(rig.frame("lan", &format!("udp from 172.16.0.1 port 7 to 203.0.113.{host} port 9 vlan {vlan}")));
        expected.push(vlan == 4 || vlan == host);
    }
    let (outcomes, _) = rig.put_all("lan", &frames);
    let found: Vec<bool> = outcomes.iter().map(|outcome| outcome.verdict == Verdict::Forward).collect();
    assert_eq!(found, expected);
    for row in rig.harness.sav() {
        let wanted = match (&*row.interface, row.family) {
            ("lan.1" | "lan.2", "ipv4") => (25, 25),
            ("lan.3", "ipv4") => (0, 50),
            _ => (0, 0),
        };
        assert_eq!((row.exempt, row.checked), wanted, "{}", row.interface);
    }
}
