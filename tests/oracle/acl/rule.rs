//! Rules on the fields of packets: a second reading of their grammar, and a linear evaluator.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::frame::{ICMP, ICMPV6, SCTP, TCP, UDP};
use crate::random::Random;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Family {
    V4,
    V6,
}

pub(crate) const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Action {
    Permit,
    Deny,
    Reject,
    RejectIcmp,
}

impl Action {
    pub(crate) fn text(self) -> &'static str {
        match self {
            Action::Permit => "permit",
            Action::Deny => "deny",
            Action::Reject => "reject",
            Action::RejectIcmp => "reject+icmp",
        }
    }
}

/// A range of addresses of one family, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Addresses {
    pub(crate) family: Family,
    pub(crate) first: u128,
    pub(crate) last: u128,
}

impl Addresses {
    fn contains(self, family: Family, address: u128) -> bool {
        self.family == family && (self.first..=self.last).contains(&address)
    }
}

/// The addresses of one end of a rule: as text, and as ranges. `any` has the whole range of each family.
#[derive(Debug, Clone)]
struct End {
    text: String,
    ranges: Vec<Addresses>,
}

/// A set of ports: as text, and as ranges.
#[derive(Debug, Clone)]
struct Ports {
    text: String,
    ranges: Vec<(u16, u16)>,
}

#[derive(Debug, Clone)]
pub(crate) struct Rule {
    pub(crate) action: Action,
    /// Families that the first words allow.
    families: Vec<Family>,
    what: String,
    protocol: Option<u8>,
    from: End,
    from_ports: Option<Ports>,
    to: End,
    to_ports: Option<Ports>,
    kind: Option<(u8, u8)>,
    code: Option<(u8, u8)>,
    flags: Option<(u8, u8)>,
    fragment: Option<bool>,
    dscp: Option<u8>,
    /// It has a limit: it does more than other rules with its action.
    pub(crate) limit: bool,
}

/// The fields of a packet that rules match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) family: Family,
    pub(crate) from: u128,
    pub(crate) to: u128,
    pub(crate) protocol: u8,
    pub(crate) ports: Option<(u16, u16)>,
    pub(crate) flags: Option<u8>,
    pub(crate) message: Option<(u8, u8)>,
    pub(crate) dscp: u8,
    pub(crate) part: Part,
}

/// Which part of a datagram a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Part {
    Whole,
    /// A later fragment whose first fragment came before it.
    Later,
    /// A later fragment whose first fragment never comes.
    Orphan,
}

pub(crate) fn address(family: Family, value: u128) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::from(value as u32)),
        Family::V6 => IpAddr::V6(Ipv6Addr::from(value)),
    }
}

impl Rule {
    pub(crate) fn matches_from(&self, family: Family, address: u128) -> bool {
        self.from.ranges.iter().any(|range| range.contains(family, address))
    }

    pub(crate) fn matches_to(&self, family: Family, address: u128) -> bool {
        self.to.ranges.iter().any(|range| range.contains(family, address))
    }

    pub(crate) fn matches_dscp(&self, dscp: u8) -> bool {
        self.dscp.is_none_or(|asked| asked == dscp)
    }

    /// Matches family, protocol and what stands in the transport header.
    pub(crate) fn matches_transport(&self, packet: &Packet) -> bool {
        let ports = |asked: &Option<Ports>, port: fn((u16, u16)) -> u16| {
            asked.as_ref().filter(|asked| !asked.whole()).is_none_or(|asked| {
                packet.ports.is_some_and(|ports| asked.ranges.iter().any(|&(a, b)| (a..=b).contains(&port(ports))))
            })
        };
        let message = |asked: Option<(u8, u8)>, value: Option<u8>| {
            asked.filter(|&asked| asked != (0, 255)).is_none_or(|(a, b)| value.is_some_and(|v| (a..=b).contains(&v)))
        };
        self.families.contains(&packet.family)
            && self.protocol.is_none_or(|protocol| protocol == packet.protocol)
            && ports(&self.from_ports, |ports| ports.0)
            && ports(&self.to_ports, |ports| ports.1)
            && message(self.kind, packet.message.map(|message| message.0))
            && message(self.code, packet.message.map(|message| message.1))
            && self.flags.is_none_or(|(value, mask)| packet.flags.is_some_and(|flags| flags & mask == value))
            && self.fragment.is_none_or(|fragment| fragment == (packet.part != Part::Whole))
    }

    /// Whether a packet of this family can match it.
    pub(crate) fn is_about(&self, family: Family) -> bool {
        let has = |end: &End| end.ranges.iter().any(|range| range.family == family);
        self.families.contains(&family) && has(&self.from) && has(&self.to)
    }

    /// Whether it matches ports, types, codes or flags, which later fragments lack.
    pub(crate) fn needs_transport(&self) -> bool {
        let part = |ports: &Option<Ports>| ports.as_ref().is_some_and(|ports| !ports.whole());
        let message = |range: Option<(u8, u8)>| range.is_some_and(|range| range != (0, 255));
        part(&self.from_ports)
            || part(&self.to_ports)
            || message(self.kind)
            || message(self.code)
            || self.flags.is_some()
    }

    /// Returns the line of the grammar.
    pub(crate) fn text(&self) -> String {
        let mut text = format!("{} {} from {}", self.action.text(), self.what, self.from.text);
        if let Some(ports) = &self.from_ports {
            write!(text, " port {}", ports.text).expect("a string takes it");
        }
        write!(text, " to {}", self.to.text).expect("a string takes it");
        if let Some(ports) = &self.to_ports {
            write!(text, " port {}", ports.text).expect("a string takes it");
        }
        let range = |(a, b): (u8, u8)| if a == b { a.to_string() } else { format!("{a}-{b}") };
        if let Some(kind) = self.kind {
            write!(text, " type {}", range(kind)).expect("a string takes it");
        }
        if let Some(code) = self.code {
            write!(text, " code {}", range(code)).expect("a string takes it");
        }
        if let Some((value, mask)) = self.flags {
            write!(text, " tcp-flags {}/{}", flag_names(value), flag_names(mask)).expect("a string takes it");
        }
        match self.fragment {
            Some(true) => text += " fragment",
            Some(false) => text += " no-fragment",
            None => {}
        }
        if let Some(dscp) = self.dscp {
            write!(text, " dscp {dscp}").expect("a string takes it");
        }
        if self.limit {
            text += " limit 1Gpps";
        }
        text
    }

    /// Returns the addresses at which some answer of this rule may change.
    pub(crate) fn bounds(&self, family: Family, from: bool) -> impl Iterator<Item = u128> {
        let end = if from { &self.from } else { &self.to };
        let last = if family == Family::V4 { u128::from(u32::MAX) } else { u128::MAX };
        let of_family = end.ranges.iter().filter(move |range| range.family == family);
        let ends = of_family.flat_map(|range| [Some(range.first), range.last.checked_add(1)]);
        ends.flatten().filter(move |&address| address != 0 && address <= last).collect::<Vec<_>>().into_iter()
    }

    pub(crate) fn port_bounds(&self, from: bool) -> Vec<u16> {
        let ports = if from { &self.from_ports } else { &self.to_ports };
        let ranges = ports.iter().flat_map(|ports| &ports.ranges);
        ranges.flat_map(|&(a, b)| [Some(a), b.checked_add(1)]).flatten().collect()
    }

    pub(crate) fn protocol(&self) -> Option<u8> {
        self.protocol
    }

    pub(crate) fn message_bounds(&self) -> (Vec<u8>, Vec<u8>) {
        let ends = |range: Option<(u8, u8)>| {
            range.into_iter().flat_map(|(a, b)| [Some(a), b.checked_add(1)]).flatten().collect::<Vec<u8>>()
        };
        (ends(self.kind), ends(self.code))
    }

    pub(crate) fn flag_mask(&self) -> u8 {
        self.flags.map_or(0, |(_, mask)| mask)
    }

    pub(crate) fn dscp(&self) -> Option<u8> {
        self.dscp
    }

    /// Returns a random rule over few addresses and ports, so that rules overlap often.
    pub(crate) fn random(random: &mut Random) -> Rule {
        let action = *random.pick(&[
            Action::Permit,
            Action::Permit,
            Action::Permit,
            Action::Deny,
            Action::Deny,
            Action::Deny,
            Action::Reject,
            Action::RejectIcmp,
        ]);
        let names = [
            ("tcp", TCP),
            ("tcp", TCP),
            ("tcp", TCP),
            ("udp", UDP),
            ("udp", UDP),
            ("icmp", ICMP),
            ("icmp6", ICMPV6),
            ("sctp", SCTP),
            ("47", 47),
        ];
        let (mut families, mut what, mut protocol) = (FAMILIES.to_vec(), "ip".to_owned(), None);
        if random.chance(65) {
            let &(name, number) = random.pick(&names);
            (what, protocol) = (name.to_owned(), Some(number));
            match number {
                ICMP => families = vec![Family::V4],
                ICMPV6 => families = vec![Family::V6],
                _ => {}
            }
            if random.chance(10) && families.len() == 1 {
                what = format!("{} {name}", if families[0] == Family::V4 { "ip4" } else { "ip6" });
            }
        }
        if families.len() == 2 && random.chance(15) {
            let v4 = random.chance(50);
            let family = if v4 { "ip4" } else { "ip6" };
            what = if protocol.is_some() { format!("{family} {what}") } else { family.to_owned() };
            families = vec![if v4 { Family::V4 } else { Family::V6 }];
        }
        let (from, to) = loop {
            let (from, to) = (random_end(random, true), random_end(random, false));
            let has = |end: &End, family| end.ranges.iter().any(|range| range.family == family);
            // What a rule says of families has to agree.
            if families.iter().any(|&family| has(&from, family) && has(&to, family)) {
                break (from, to);
            }
        };
        let mut rule = Rule {
            action,
            families,
            what,
            protocol,
            from,
            from_ports: None,
            to,
            to_ports: None,
            kind: None,
            code: None,
            flags: None,
            fragment: None,
            dscp: None,
            limit: false,
        };
        match protocol {
            Some(TCP | UDP | SCTP) => {
                if random.chance(55) {
                    rule.to_ports = Some(random_ports(random));
                }
                if random.chance(12) {
                    rule.from_ports = Some(random_ports(random));
                }
                if protocol == Some(TCP) && random.chance(15) {
                    rule.flags = Some(*random.pick(&[(0x02, 0x12), (0x12, 0x12), (0x10, 0x10), (0x04, 0x04)]));
                }
            }
            Some(ICMP | ICMPV6) => {
                if random.chance(60) {
                    rule.kind = Some(*random.pick(&[(8, 8), (128, 128), (0, 8), (3, 3), (1, 4), (0, 255), (128, 255)]));
                }
                if random.chance(15) {
                    rule.code = Some(*random.pick(&[(0, 0), (0, 255), (1, 15), (4, 4)]));
                }
            }
            _ => {}
        }
        if random.chance(10) {
            // A rule on later fragments with ports, a type or flags is refused.
            let transport =
                [rule.from_ports.is_some(), rule.to_ports.is_some(), rule.kind.is_some(), rule.code.is_some()];
            let transport = transport.contains(&true) || rule.flags.is_some();
            rule.fragment = Some(!transport && random.chance(70));
        }
        if random.chance(6) {
            rule.dscp = Some(*random.pick(&[0, 46]));
        }
        rule.limit = action == Action::Permit && random.chance(4);
        rule
    }

    /// Returns a rule that differs from another in little or nothing.
    pub(crate) fn like(other: &Rule, random: &mut Random) -> Rule {
        let mut rule = other.clone();
        rule.limit = false;
        match random.below(6) {
            0 => rule.action = *random.pick(&[Action::Permit, Action::Deny, Action::Reject]),
            1 => rule.to_ports = None,
            2 => (rule.from_ports, rule.flags, rule.kind, rule.code) = (None, None, None, None),
            3 => (rule.fragment, rule.dscp) = (None, None),
            4 => rule.from = any(),
            _ => {}
        }
        rule
    }

    /// Returns `ACTION ip from any to any`.
    pub(crate) fn all(action: Action) -> Rule {
        Rule {
            action,
            families: FAMILIES.to_vec(),
            what: "ip".to_owned(),
            protocol: None,
            from: any(),
            from_ports: None,
            to: any(),
            to_ports: None,
            kind: None,
            code: None,
            flags: None,
            fragment: None,
            dscp: None,
            limit: false,
        }
    }
}

impl Ports {
    fn whole(&self) -> bool {
        self.ranges.contains(&(0, u16::MAX))
    }
}

fn flag_names(flags: u8) -> String {
    let names = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"];
    let set: Vec<&str> = names.iter().enumerate().filter(|(bit, _)| flags >> bit & 1 == 1).map(|(_, &n)| n).collect();
    if set.is_empty() { "none".to_owned() } else { set.join(",") }
}

fn any() -> End {
    let v4 = Addresses { family: Family::V4, first: 0, last: u128::from(u32::MAX) };
    End { text: "any".to_owned(), ranges: vec![v4, Addresses { family: Family::V6, first: 0, last: u128::MAX }] }
}

/// Reads a prefix, an address or a range of addresses.
fn addresses(text: &str) -> Addresses {
    let value = |text: &str| match text.parse::<IpAddr>().expect("an address") {
        IpAddr::V4(address) => (Family::V4, u128::from(u32::from(address)), 32),
        IpAddr::V6(address) => (Family::V6, u128::from(address), 128),
    };
    if let Some((first, last)) = text.split_once('-') {
        let ((family, first, _), (_, last, _)) = (value(first), value(last));
        return Addresses { family, first, last };
    }
    let (start, length) = text.split_once('/').unwrap_or((text, ""));
    let (family, first, bits) = value(start);
    let length = if length.is_empty() { bits } else { length.parse().expect("a length") };
    let hosts = bits - length;
    let rest = if hosts == 128 { u128::MAX } else { (1u128 << hosts) - 1 };
    Addresses { family, first, last: first | rest }
}

/// The groups that rules name.
pub(crate) const GROUPS: &str = r#"
[group.near]
addresses = ["10.1.2.0/25", "10.1.3.0/24", "10.1.2.128-10.1.2.255"]

[group.both]
addresses = ["10.1.0.0/16", "2001:db8:1::/48", "192.0.2.0/26", "2001:db8:ffff::/64"]

[group.services]
ports = [80, 443, "8000-8099"]

[group.low]
ports = ["0-1023", 80]
"#;

fn random_end(random: &mut Random, from: bool) -> End {
    let group = |name: &str, members: &[&str]| End {
        text: format!("@{name}"),
        ranges: members.iter().map(|member| addresses(member)).collect(),
    };
    if random.chance(40) {
        return any();
    }
    if random.chance(10) {
        return match (random.chance(50), from) {
            (true, true) => group("near", &["10.1.2.0/25", "10.1.3.0/24", "10.1.2.128/25"]),
            _ => group("both", &["10.1.0.0/16", "2001:db8:1::/48", "192.0.2.0/26", "2001:db8:ffff::/64"]),
        };
    }
    let sources = [
        "10.0.0.0/8",
        "10.0.0.0/9",
        "10.128.0.0/9",
        "10.1.0.0/16",
        "10.1.2.0/24",
        "10.1.2.0/25",
        "10.1.2.128/25",
        "10.1.2.7",
        "10.1.2.0-10.1.2.100",
        "2001:db8::/32",
        "2001:db8::/33",
        "2001:db8:8000::/33",
        "2001:db8:1::/48",
        "2001:db8:1:2::/64",
        "2001:db8:1:2::7",
    ];
    let destinations = [
        "192.0.2.0/24",
        "192.0.2.0/25",
        "192.0.2.128/25",
        "192.0.2.9",
        "192.0.2.3-192.0.2.12",
        "2001:db8:ffff::/48",
        "2001:db8:ffff::/64",
        "2001:db8:ffff::9",
    ];
    let text = *random.pick(if from { &sources[..] } else { &destinations[..] });
    End { text: text.to_owned(), ranges: vec![addresses(text)] }
}

fn random_ports(random: &mut Random) -> Ports {
    let choices: [(&str, &[(u16, u16)]); 12] = [
        ("80", &[(80, 80)]),
        ("80", &[(80, 80)]),
        ("443", &[(443, 443)]),
        ("1-1023", &[(1, 1023)]),
        ("0-1023", &[(0, 1023)]),
        ("1024-65535", &[(1024, 65535)]),
        ("0-65535", &[(0, 65535)]),
        ("1-65535", &[(1, 65535)]),
        ("8000-8099", &[(8000, 8099)]),
        ("@services", &[(80, 80), (443, 443), (8000, 8099)]),
        ("@low", &[(0, 1023)]),
        ("0", &[(0, 0)]),
    ];
    let &(text, ranges) = random.pick(&choices);
    Ports { text: text.to_owned(), ranges: ranges.to_vec() }
}
