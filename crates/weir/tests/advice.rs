//! The advice of `weir check` about rules that could be left out: whichever of them are left out, no packet fares otherwise.
//!
//! Verdicts come from a linear evaluator ([`Chain::fate`]) that reads the rules one by one and knows nothing of the search
//! behind the advice. The graph itself is the evidence that the evaluator is right.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::{AddAssign, RangeInclusive};

use weir::config::{self, Code, Severity};
use weir_base::clock::Time;
use weir_base::random::Random;
use weir_packet::buffer::Cache;
use weir_packet::checksum;
use weir_packet::vector::{Indices, Vector};
use weir_plane::harness::{Harness, Options, Outcome, Verdict};
use weir_plane::model::{
    AclAction, AclDefault, AclRule, Addresses, Gateway, InterfaceIndex, IpFamily, Ports, Transport,
};
use weir_plane::reason::Reason;
use weir_port::Transmitter;

/// The transport header as rules see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Upper {
    /// Nothing: it is cut off, it is in the first fragment, or the protocol has nothing that rules look at.
    Bare,
    /// Ports, and flags where 20 octets of TCP are there.
    Ports(u16, u16, Option<u8>),
    Icmp(u8, u8),
}

/// The packet as rules see it.
#[derive(Debug, Clone, Copy)]
struct Seen {
    from: IpAddr,
    to: IpAddr,
    protocol: u8,
    upper: Upper,
    later: bool,
    dscp: u8,
    came_by: u32,
}

/// Which part of a packet it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Whole,
    /// The first fragment; whether it holds all of the header that rules look at, and its length is a multiple of 8.
    First {
        sound: bool,
    },
    /// A later fragment; protocol and header of the first one, if that came before and is sound.
    Later {
        first: Option<(u8, Upper)>,
    },
}

#[derive(Debug, Clone, Copy)]
struct Sent {
    /// By itself.
    own: Seen,
    part: Part,
}

/// How a packet fares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// Dropped as `acl-fragment`.
    Refused,
    /// A later fragment waits for the first one.
    Waits,
    /// A rule or a default decides; a rule with a limit or a log does more than its action.
    Decided(AclAction, Option<usize>),
    /// No rule decides, nor does the default.
    Next,
}

const IPV6_OPTIONS: u8 = 60;

impl Seen {
    fn is_v6(&self) -> bool {
        self.from.is_ipv6()
    }
}

fn has(addresses: &Addresses, address: IpAddr) -> bool {
    match addresses {
        Addresses::Any => true,
        Addresses::Net(net) => net.contains(&address),
        Addresses::Range(first, last) => first.is_ipv4() == address.is_ipv4() && (*first..=*last).contains(&address),
        Addresses::Group(group) => group.members.iter().any(|member| has(member, address)),
    }
}

/// Whether a rule looks at ports, types or flags. Whole ranges look at nothing.
fn looks(transport: &Transport) -> bool {
    match transport {
        Transport::Any | Transport::Protocol(_) => false,
        Transport::Ports { source, destination, flags, .. } => {
            !is_whole(source) || !is_whole(destination) || flags.is_some_and(|flags| flags.mask != 0)
        }
        Transport::Icmp { icmp_type, code, .. } => [icmp_type, code].into_iter().any(|own| !is_any(own)),
    }
}

/// Whether ports are all ports, named or not.
fn is_whole(ports: &Ports) -> bool {
    matches!(ports, Ports::Any) || *ports == Ports::Range(0..=65535)
}

/// Whether types or codes are all of them, named or not.
fn is_any(octets: &Option<RangeInclusive<u8>>) -> bool {
    octets.as_ref().is_none_or(|octets| *octets == (0..=255))
}

/// Whether a type or code is among those of a rule.
fn within(octets: &Option<RangeInclusive<u8>>, octet: u8) -> bool {
    octets.as_ref().is_none_or(|octets| octets.contains(&octet))
}

/// Whether a rule can match packets of a family at all.
fn is_about(rule: &AclRule, v6: bool) -> bool {
    let family = |addresses: &Addresses| match addresses {
        Addresses::Any => true,
        Addresses::Net(net) => net.addr().is_ipv6() == v6,
        Addresses::Range(first, _) => first.is_ipv6() == v6,
        Addresses::Group(group) => group.members.iter().any(|member| match member {
            Addresses::Net(net) => net.addr().is_ipv6() == v6,
            Addresses::Range(first, _) => first.is_ipv6() == v6,
            Addresses::Any | Addresses::Group(_) => unreachable!("members are prefixes and ranges"),
        }),
    };
    rule.family.is_none_or(|own| (own == IpFamily::V6) == v6) && family(&rule.from) && family(&rule.to)
}

fn matches(rule: &AclRule, seen: &Seen) -> bool {
    let transport = match &rule.transport {
        Transport::Any => true,
        Transport::Protocol(protocol) => *protocol == seen.protocol,
        transport @ (Transport::Ports { protocol, .. } | Transport::Icmp { protocol, .. }) if !looks(transport) => {
            *protocol == seen.protocol
        }
        Transport::Ports { protocol, source, destination, flags } => {
            let inside = |ports: &Ports, port: u16| ports.ranges().iter().any(|range| range.contains(&port));
            let whole = is_whole(source) && is_whole(destination);
            *protocol == seen.protocol
                && match seen.upper {
                    Upper::Ports(from, to, own) => {
                        (whole || inside(source, from) && inside(destination, to))
                            && flags.is_none_or(|flags| {
                                flags.mask == 0 || own.is_some_and(|own| own & flags.mask == flags.value & flags.mask)
                            })
                    }
                    _ => false,
                }
        }
        Transport::Icmp { protocol, icmp_type, code } => {
            *protocol == seen.protocol
                && matches!(seen.upper, Upper::Icmp(kind, of) if within(icmp_type, kind) && within(code, of))
        }
    };
    transport
        && rule.family.is_none_or(|family| (family == IpFamily::V6) == seen.is_v6())
        && has(&rule.from, seen.from)
        && has(&rule.to, seen.to)
        && rule.fragment.is_none_or(|later| later == seen.later)
        && rule.dscp.is_none_or(|dscp| dscp == seen.dscp)
        && rule.received_on.as_ref().is_none_or(|on| on.members().contains(&InterfaceIndex(seen.came_by)))
}

/// Lists that decide about a packet, one after the other; rules are numbered through them.
struct Chain<'a> {
    lists: Vec<(&'a [AclRule], AclDefault)>,
    /// Fragments wait where rules look at ports, types or flags. They do not for exemptions.
    waits: bool,
}

/// Which rules of a chain match a packet, a bit each.
struct View {
    part: Part,
    hidden: bool,
    /// Rules about its family that look at ports, types or flags.
    looking: u32,
    /// Packets that match it by themselves.
    own: u32,
    /// Packets that match it with the fields of the first fragment.
    given: u32,
}

impl Chain<'_> {
    fn rules(&self) -> impl Iterator<Item = (u32, &AclRule)> {
        // Behind a default that decides, no list is looked up.
        let last = self.lists.iter().position(|(_, default)| *default != AclDefault::Next).unwrap_or(self.lists.len());
        let rules = self.lists.iter().take(last + 1).flat_map(|(rules, _)| rules.iter());
        rules.enumerate().map(|(number, rule)| (1 << number, rule))
    }

    fn view(&self, sent: &Sent) -> View {
        let v6 = sent.own.is_v6();
        let bits = |is: &dyn Fn(&AclRule) -> bool| {
            self.rules().filter(|(_, rule)| is(rule)).fold(0, |bits, (bit, _)| bits | bit)
        };
        let given = match sent.part {
            Part::Later { first: Some((protocol, upper)) } => Seen { protocol, upper, ..sent.own },
            _ => sent.own,
        };
        View {
            part: sent.part,
            // A later fragment of IPv6 may not know its protocol.
            hidden: v6 && sent.own.protocol == IPV6_OPTIONS,
            looking: bits(&|rule| is_about(rule, v6) && looks(&rule.transport)),
            own: bits(&|rule| matches(rule, &sent.own)),
            given: bits(&|rule| matches(rule, &given)),
        }
    }

    /// How a packet fares without some rules.
    fn fate(&self, view: &View, gone: u32) -> Fate {
        let looks = view.looking & !gone != 0;
        let mut matching = !gone
            & match view.part {
                _ if !self.waits || !looks && !view.hidden => view.own,
                Part::Whole | Part::First { sound: true } => view.own,
                Part::First { sound: false } => return Fate::Refused,
                Part::Later { first: Some(_) } if looks => view.given,
                // Nothing was kept of the first one, if it came.
                Part::Later { .. } => return Fate::Waits,
            };
        let mut number = 0;
        for (rules, default) in &self.lists {
            for rule in *rules {
                if matching & 1 == 1 {
                    let more = (rule.log || rule.limit.is_some()).then_some(number);
                    return Fate::Decided(rule.action, more);
                }
                (matching, number) = (matching >> 1, number + 1);
            }
            if let AclDefault::Action(action) = default {
                return Fate::Decided(*action, None);
            }
        }
        Fate::Next
    }
}

// Lists and packets, of few values, so that rules have much to do with each other.

fn pick<'a>(random: &mut Random, words: &[&'a str]) -> &'a str {
    words[random.below(words.len() as u64) as usize]
}

const FROM: [&[&str]; 2] = [
    &["any", "10.0.0.0/30", "10.0.0.0/31", "10.0.0.1", "10.0.0.2/31", "10.0.0.1-10.0.0.2", "@both"],
    &["any", "2001:db8:1::/126", "2001:db8:1::/127", "2001:db8:1::1", "2001:db8:1::2/127", "@both"],
];
const TO: [&[&str]; 2] =
    [&["any", "any", "198.51.100.8/31", "198.51.100.9"], &["any", "any", "2001:db8:2::8/127", "2001:db8:2::9"]];

fn rule(random: &mut Random, exemption: bool) -> String {
    let action = match (exemption, random.below(8)) {
        (true, chance) | (false, chance @ 2..) => pick(random, &[["permit", "deny"][chance as usize % 2]]),
        _ => pick(random, &["reject", "reject+icmp"]),
    };
    let v6 = random.chance(0.5);
    let what = match random.below(6) {
        0 => pick(random, &["ip", "ip", "ip4", "ip6"]),
        1 | 2 => "tcp",
        3 => "udp",
        4 => {
            if v6 {
                "icmp6"
            } else {
                "icmp"
            }
        }
        _ => pick(random, &["tcp", "udp", "99"]),
    };
    let v6 = match what {
        "ip4" => false,
        "ip6" => true,
        _ => v6,
    };
    let (mut from, mut to) = (pick(random, FROM[usize::from(v6)]), pick(random, TO[usize::from(v6)]));
    if random.chance(0.5) {
        (from, to) = ("any", "any");
    }
    let ports = ["", "", "", " port 1", " port 0-65535", " port 1-65535", " port 1-2", " port @few"];
    let port = |random: &mut Random| match what {
        "tcp" | "udp" => pick(random, &ports),
        _ => "",
    };
    let (from_port, to_port) = (if random.chance(0.2) { port(random) } else { "" }, port(random));
    let mut text = format!("{action} {what} from {from}{from_port} to {to}{to_port}");
    if what == "tcp" && random.chance(0.2) {
        text.push_str(pick(random, &[" tcp-flags syn/syn,ack", " tcp-flags ack/ack", " tcp-flags none/rst"]));
    }
    if what.starts_with("icmp") && random.chance(0.5) {
        let kinds = if what == "icmp" {
            [" type 8", " type 8-13", " code 0"]
        } else {
            [" type 128", " type 128-129", " code 0"]
        };
        text.push_str(pick(random, &kinds));
    }
    if random.chance(0.12) {
        // Later fragments alone have no ports, types or flags that a rule could name.
        let names_more = [" port ", " type ", " code ", " tcp-flags "].iter().any(|word| text.contains(word));
        text.push_str(if names_more { " no-fragment" } else { pick(random, &[" fragment", " no-fragment"]) });
    }
    if random.chance(0.08) {
        text.push_str(pick(random, &[" dscp 0", " dscp 1"]));
    }
    if !exemption {
        if random.chance(0.08) {
            text.push_str(pick(
                random,
                &[" received-on a", " received-on b", " received-on a, b", " received-on @ways"],
            ));
        }
        if action == "permit" && random.chance(0.05) {
            text.push_str(" limit 1Gpps");
        }
        if random.chance(0.05) {
            text.push_str(" log");
        }
    }
    text
}

/// A configuration on its way, and where its rules stand.
struct Text {
    text: String,
    /// By the octet that a rule begins at: its list and its number there.
    places: HashMap<u32, (usize, usize)>,
}

impl Text {
    fn new() -> Text {
        let text = r#"version = 1
[sampler.logged]
ipfix = "192.0.2.9:4739"
[group.both]
addresses = ["10.0.0.0/31", "2001:db8:1::/127"]
[group.few]
ports = [1, 3]
[group.ways]
interfaces = ["a"]
"#;
        Text { text: text.into(), places: HashMap::new() }
    }

    /// Writes a list of rules; `list` is the number by which it is known here.
    fn rules(&mut self, key: &str, list: usize, rules: &[String]) {
        writeln!(self.text, "{key} = [").unwrap();
        for (number, rule) in rules.iter().enumerate() {
            self.places.insert(self.text.len() as u32, (list, number));
            writeln!(self.text, "\"{rule}\",").unwrap();
        }
        self.text.push_str("]\n");
    }

    fn list(&mut self, name: &str, list: usize, random: &mut Random) {
        writeln!(self.text, "[acl.{name}]").unwrap();
        writeln!(self.text, "default = \"{}\"", pick(random, &["next", "next", "permit", "deny", "reject"])).unwrap();
        writeln!(self.text, "sample = {{ one-in = 1, to = \"logged\" }}").unwrap();
        let rules: Vec<String> = (0..1 + random.below(7)).map(|_| rule(random, false)).collect();
        self.rules("rules", list, &rules);
    }

    fn check(&self) -> Checked {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weir.toml");
        std::fs::write(&path, &self.text).unwrap();
        let loaded = config::check(&path);
        assert_eq!(loaded.count(Severity::Error), 0, "{}", loaded.text(false));
        let mut checked =
            Checked { gateway: loaded.gateway.unwrap(), named: HashMap::new(), by_lists_before: 0, for_fragments: 0 };
        for found in loaded.diagnostics {
            checked.for_fragments += usize::from(found.code == Code::NeededForFragments);
            checked.by_lists_before += usize::from(found.message.contains("wherever its list is named"));
            if matches!(found.code, Code::ShadowedRule | Code::RedundantRule) {
                let (list, rule) = self.places[&found.primary.unwrap().span.start];
                checked.named.entry(list).or_default().push(rule);
            }
            assert_ne!(found.code, Code::UndecidedRules);
        }
        checked
    }
}

/// The findings of `weir check` about a configuration.
struct Checked {
    gateway: Gateway,
    /// By list: rules that could be left out.
    named: HashMap<usize, Vec<usize>>,
    /// How many of them because of other lists.
    by_lists_before: usize,
    /// Rules that could be left out but for fragments.
    for_fragments: usize,
}

fn address(v6: bool, destination: bool, number: u8) -> IpAddr {
    match (v6, destination) {
        (false, false) => Ipv4Addr::new(10, 0, 0, number).into(),
        (false, true) => Ipv4Addr::new(198, 51, 100, 8 + number).into(),
        (true, _) => {
            let (net, number) = if destination { (2, 8 + number) } else { (1, number) };
            Ipv6Addr::new(0x2001, 0xdb8, net, 0, 0, 0, 0, number.into()).into()
        }
    }
}

/// A packet whole, or its fragments.
fn packets(random: &mut Random, came_by: u32) -> Vec<Sent> {
    let v6 = random.chance(0.5);
    let protocol = [6, 6, 17, if v6 { 58 } else { 1 }, 99][random.below(5) as usize];
    let kinds = if v6 { [128, 129] } else { [8, 13] };
    let (a, b, flags) = (random.below(4) as u16, random.below(4) as u16, [2, 18, 16, 4][random.below(4) as usize]);
    let whole = match protocol {
        6 => Upper::Ports(a, b, Some(flags)),
        17 => Upper::Ports(a, b, None),
        99 => Upper::Bare,
        _ => Upper::Icmp(kinds[usize::from(a) % 2], b as u8 % 2),
    };
    // Without flags, or without anything.
    let cut = if protocol == 6 && random.chance(0.5) { Upper::Ports(a, b, None) } else { Upper::Bare };
    let seen = |upper, later, protocol| Seen {
        from: address(v6, false, a as u8),
        to: address(v6, true, b as u8 % 3),
        protocol,
        upper,
        later,
        dscp: flags % 3,
        came_by,
    };
    let sent = |upper, part| Sent { own: seen(upper, false, protocol), part };
    // Later fragments of IPv6 say themselves what they are of.
    let own_protocol =
        if v6 && random.chance(0.3) { [6, 17, IPV6_OPTIONS][random.below(3) as usize] } else { protocol };
    let later = |first| Sent { own: seen(Upper::Bare, true, own_protocol), part: Part::Later { first } };
    let sound = (protocol, whole);
    match random.below(8) {
        0 | 1 => vec![sent(whole, Part::Whole)],
        2 => vec![sent(if protocol == 99 { whole } else { cut }, Part::Whole)],
        3 | 4 => vec![sent(whole, Part::First { sound: true }), later(Some(sound))],
        5 if protocol == 6 => {
            vec![sent(Upper::Ports(a, b, None), Part::First { sound: false }), later(None)]
        }
        6 => vec![sent(whole, Part::First { sound: false }), later(None)],
        _ => vec![later(None)],
    }
}

/// The cases that the test has seen, so that it cannot pass without any.
#[derive(Debug, Default)]
struct Tally {
    lists: usize,
    named: usize,
    by_lists_before: usize,
    for_fragments: usize,
    in_exemptions: usize,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.lists += other.lists;
        self.named += other.named;
        self.by_lists_before += other.by_lists_before;
        self.for_fragments += other.for_fragments;
        self.in_exemptions += other.in_exemptions;
    }
}

/// Without one of the named rules, some or all of them, a packet fares as before.
fn holds(chain: &Chain<'_>, named: &[usize], random: &mut Random, text: &str) {
    if named.is_empty() {
        return;
    }
    let mut sets: Vec<u32> = named.iter().map(|rule| 1 << rule).collect();
    let all = sets.iter().sum();
    sets.push(all);
    sets.extend((0..4).map(|_| random.next() as u32 & all));
    for _ in 0..80 {
        let came_by = [0, 1, 7][random.below(3) as usize];
        for sent in packets(random, came_by) {
            let view = chain.view(&sent);
            let before = chain.fate(&view, 0);
            for &set in &sets {
                let after = chain.fate(&view, set);
                assert_eq!(after, before, "without {set:#b} of {named:?}: {sent:?}\n{text}");
            }
        }
    }
}

/// A configuration with worlds of up to three lists, each with an interface that names them, and one with exemptions.
fn world(seed: u64, worlds: usize) -> Tally {
    let mut random = Random::from_seed(seed);
    let mut text = Text::new();
    for name in ["a", "b"] {
        writeln!(text.text, "[[interface]]\nname = \"{name}\"\nport = \"null\"").unwrap();
    }
    for world in 0..worlds {
        writeln!(text.text, "[[interface]]\nname = \"i{world}\"\nport = \"null\"").unwrap();
        let (first, second, third) = (3 * world, 3 * world + 1, 3 * world + 2);
        let lists = match random.below(4) {
            0 => format!("{{ in = [\"l{first}\", \"l{second}\", \"l{third}\"] }}"),
            1 => format!("{{ in = [\"l{first}\", \"l{second}\"], out = [\"l{third}\", \"l{second}\"] }}"),
            2 => format!("{{ in = [\"l{first}\", \"l{second}\"], out = [\"l{second}\", \"l{third}\"] }}"),
            _ => format!("{{ in = [\"l{first}\", \"l{second}\"], out = [\"l{second}\", \"l{first}\"] }}"),
        };
        writeln!(text.text, "acl = {lists}").unwrap();
    }
    for list in 0..3 * worlds {
        text.list(&format!("l{list}"), list, &mut random);
    }
    for policy in 0..worlds {
        writeln!(text.text, "[sav.p{policy}]\nmechanism = \"urpf-loose\"").unwrap();
        let rules: Vec<String> = (0..1 + random.below(7)).map(|_| rule(&mut random, true)).collect();
        text.rules("exempt", 3 * worlds + policy, &rules);
    }
    let Checked { gateway, named, by_lists_before, for_fragments } = text.check();
    let none = Vec::new();
    let of = |list: usize| named.get(&list).unwrap_or(&none);
    let mut tally = Tally { lists: 4 * worlds, by_lists_before, for_fragments, ..Tally::default() };
    for (number, list) in gateway.acls.iter().enumerate() {
        assert_eq!(list.name, format!("l{number}"));
        tally.named += of(number).len();
    }
    for interface in &gateway.interfaces {
        for sequence in [&interface.access.acl_in, &interface.access.acl_out] {
            let mut chain = Chain { lists: Vec::new(), waits: true };
            let mut gone = Vec::new();
            let mut at = 0;
            for index in sequence {
                let list = &gateway.acls[usize::from(index.0)];
                gone.extend(of(usize::from(index.0)).iter().map(|rule| at + rule));
                at += list.rules.len();
                chain.lists.push((&list.rules, list.default));
            }
            holds(&chain, &gone, &mut random, &text.text);
        }
    }
    for (number, policy) in gateway.sav.iter().enumerate() {
        let named = of(3 * worlds + number);
        let chain = Chain { lists: vec![(&policy.exempt, AclDefault::Action(AclAction::Deny))], waits: false };
        holds(&chain, named, &mut random, &text.text);
        tally.in_exemptions += named.len();
    }
    tally
}

#[test]
fn any_rules_that_are_named_can_be_left_out() {
    let wanted = std::env::var("WEIR_ADVICE_LISTS").map_or(30_000, |text| text.parse().expect("a number of lists"));
    const WORLDS: usize = 50;
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get().min(8));
    let seeds = usize::div_ceil(wanted, 4 * WORLDS);
    let mut tally = Tally::default();
    std::thread::scope(|scope| {
        let own = |thread: usize| {
            move || {
                (thread..seeds).step_by(threads).fold(Tally::default(), |mut sum, seed| {
                    sum += world(seed as u64, WORLDS);
                    sum
                })
            }
        };
        let all: Vec<_> = (0..threads).map(|thread| scope.spawn(own(thread))).collect();
        all.into_iter().for_each(|thread| tally += thread.join().unwrap());
    });
    println!("{tally:?}");
    assert!(tally.lists >= wanted && tally.named > wanted / 4 && tally.in_exemptions > wanted / 20, "{tally:?}");
    assert!(tally.by_lists_before > wanted / 500 && tally.for_fragments > wanted / 100, "{tally:?}");
}

// The graph.

fn frame(sent: &Sent, identification: u16, mac: [u8; 6]) -> Vec<u8> {
    let Seen { from, to, protocol, upper, dscp, .. } = sent.own;
    let later = matches!(sent.part, Part::Later { .. });
    let mut data = match upper {
        _ if later => vec![0; 16],
        Upper::Ports(from, to, flags) => {
            let mut data = [from.to_be_bytes(), to.to_be_bytes()].concat();
            match (protocol, flags) {
                (6, Some(flags)) => data.extend([0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 9, 0, 0, 0, 0, 1, 2, 3, 4]),
                (6, None) => data.extend([0; 4]),
                _ => data.extend([0, 8, 0, 0]),
            }
            data
        }
        Upper::Icmp(kind, code) => vec![kind, code, 0, 0, 0, 0, 0, 0],
        Upper::Bare if protocol == 99 => vec![0; 8],
        // Too short for all that rules look at.
        Upper::Bare => vec![0],
    };
    if sent.part == (Part::First { sound: false }) && !matches!(upper, Upper::Ports(_, _, None) if protocol == 6) {
        data.push(0);
    }
    // Fragments of 16 octets are the last ones; 1,480 octets come before them.
    let field: u16 = match sent.part {
        Part::Whole => 0,
        Part::First { .. } => 1,
        Part::Later { .. } => 1480,
    };
    let mut packet = match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let field = if field == 1 { 0x2000 } else { field / 8 };
            let mut header = vec![0x45, dscp << 2];
            header.extend((20 + data.len() as u16).to_be_bytes());
            header.extend(identification.to_be_bytes());
            header.extend(field.to_be_bytes());
            header.extend([64, protocol, 0, 0]);
            header.extend(from.octets());
            header.extend(to.octets());
            let sum = checksum::of(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
            header
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let extra = if sent.part == Part::Whole { 0 } else { 8 };
            let mut header = vec![0x60 | dscp >> 2, dscp << 6, 0, 0];
            header.extend((extra + data.len() as u16).to_be_bytes());
            header.extend([if extra == 0 { protocol } else { 44 }, 64]);
            header.extend(from.octets());
            header.extend(to.octets());
            if extra != 0 {
                header.extend([protocol, 0]);
                header.extend(field.to_be_bytes());
                header.extend([0, 0]);
                header.extend(identification.to_be_bytes());
            }
            header
        }
        _ => unreachable!("both are of one family"),
    };
    packet.append(&mut data);
    let kind: [u8; 2] = if from.is_ipv4() { [8, 0] } else { [0x86, 0xdd] };
    [&mac[..], &[2, 0, 0, 0, 0xaa, 1], &kind, &packet].concat()
}

/// A port that takes everything.
struct Sink;

impl Transmitter for Sink {
    fn transmit(&mut self, _: &mut Vector, frame: &Indices, _: &mut Indices, _: &mut Cache, _: Time) -> usize {
        frame.len()
    }
}

/// The fate of a packet in the graph, as the evaluator says it.
fn expected(fate: Fate) -> (Verdict, bool) {
    match fate {
        Fate::Refused => (Verdict::Drop(Reason::AclFragment), false),
        Fate::Waits => (Verdict::Held, true),
        Fate::Decided(AclAction::Permit | AclAction::Reflect, _) => (Verdict::Forward, false),
        Fate::Decided(AclAction::Deny, _) | Fate::Next => (Verdict::Drop(Reason::AclDeny), false),
        Fate::Decided(AclAction::Reject(_), _) => (Verdict::Drop(Reason::AclReject), false),
    }
}

#[test]
fn the_graph_does_what_the_evaluator_says() {
    let mut fates: HashMap<String, usize> = HashMap::new();
    for seed in 0..150 {
        let mut random = Random::from_seed(1000 + seed);
        let mut text = Text::new();
        let output = random.chance(0.3);
        let (input, output) =
            if output { ("", "acl = { out = [\"l0\", \"l1\"] }") } else { ("acl = { in = [\"l0\", \"l1\"] }", "") };
        for (number, (name, acl)) in [("a", input), ("b", input), ("wan", output)].into_iter().enumerate() {
            write!(
                text.text,
                "[[interface]]\nname = \"{name}\"\nport = \"null\"\nmac = \"02:00:00:00:00:0{number}\"\n\
                 address = [\"192.0.2.{}/30\", \"2001:db8:a{number}::1/64\"]\n{acl}\n",
                1 + 4 * number
            )
            .unwrap();
        }
        text.text.push_str("[[route]]\nprefix = \"0.0.0.0/0\"\nvia = { address = \"192.0.2.10\" }\n");
        text.text.push_str("[[route]]\nprefix = \"::/0\"\nvia = { address = \"2001:db8:a2::2\" }\n");
        for list in 0..2 {
            text.list(&format!("l{list}"), list, &mut random);
        }
        let gateway = text.check().gateway;
        let mut harness = Harness::new(gateway.clone(), Options { seed: 3, invent_neighbors: true }).unwrap();
        harness.set_time(Time(1_000_000_000));
        (0..3).for_each(|port| harness.connect(port, Box::new(Sink)));
        let lists = gateway.acls.iter().map(|list| (&*list.rules, list.default)).collect();
        let chain = Chain { lists, waits: true };
        for number in 0..100 {
            let came_by = random.below(2) as u32;
            for sent in packets(&mut random, came_by) {
                let mac = harness.interface_mac(came_by).unwrap();
                assert!(harness.inject(came_by, &frame(&sent, number, mac), Time(1_000_000_000), number.into()));
                let outcomes = harness.run();
                let [Outcome { verdict, waits, .. }] = outcomes[..] else { panic!("one packet: {outcomes:?}") };
                let fate = chain.fate(&chain.view(&sent), 0);
                assert_eq!((verdict, waits), expected(fate), "seed {seed}: {fate:?}, {sent:?}\n{}", text.text);
                *fates.entry(format!("{verdict:?} {:?}", std::mem::discriminant(&sent.part))).or_default() += 1;
            }
        }
    }
    // Forwarded, denied, rejected, refused, waiting: most of them whole, as a first fragment and as a later one.
    assert!(fates.len() >= 10 && fates.values().all(|count| *count >= 20), "{fates:?}");
}
