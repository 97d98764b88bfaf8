//! Rules as docs/nat.md has them, matched one after the other; random ones; and the same rules as a model has them.

use std::ops::RangeInclusive;

use ipnet::IpNet;
use weir_base::random::Random;
use weir_plane::model::{
    AclAction, AclRule, Addresses, Group, IpFamily, MssClamp, NatMapping, NatRule, NatTarget, NatVerb, Origin, Ports,
    Transport,
};

use crate::gateway::{INTERFACE_ADDRESSES, INTERFACES, OWN, WAN, WAN2};
use crate::packet::{DCCP, GRE, ICMP, TCP, Tuple, UDP, has_ports, ip};

/// Returns one of several values.
pub fn pick<T: Clone>(random: &mut Random, of: &[T]) -> T {
    of[random.below(of.len() as u64) as usize].clone()
}

/// The number of an IPv4 address.
pub const fn at(a: u8, b: u8, c: u8, d: u8) -> u32 {
    u32::from_be_bytes([a, b, c, d])
}

/// Addresses from the first to the last; a prefix if it has a length.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    pub first: u32,
    pub last: u32,
    pub length: Option<u8>,
}

impl Span {
    pub fn prefix(first: u32, length: u8) -> Span {
        Span { first, last: first | u32::MAX.checked_shr(u32::from(length)).unwrap_or(0), length: Some(length) }
    }

    pub fn has(&self, address: u32) -> bool {
        (self.first..=self.last).contains(&address)
    }

    fn addresses(&self, v6: bool) -> Addresses {
        match self.length {
            Some(length) => net(v6, self.first, length),
            None => Addresses::Range(ip(v6, self.first), ip(v6, self.last)),
        }
    }
}

fn net(v6: bool, address: u32, length: u8) -> Addresses {
    let length = if v6 { length + 96 } else { length };
    Addresses::Net(IpNet::new(ip(v6, address), length).expect("a prefix"))
}

/// The addresses and ports that a source gets.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// `None`: the first address of the interface.
    pub addresses: Option<Vec<Span>>,
    pub ports: Option<RangeInclusive<u16>>,
}

impl Target {
    /// The addresses that it stands for at an outside interface.
    pub fn list(&self, edge: usize) -> Vec<u32> {
        match &self.addresses {
            Some(spans) => spans.iter().flat_map(|span| span.first..=span.last).collect(),
            None => vec![INTERFACE_ADDRESSES[edge]],
        }
    }
}

/// A rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    pub verb: NatVerb,
    pub protocol: Option<u8>,
    pub from: Option<Span>,
    pub to: Option<Span>,
    pub to_interface: bool,
    pub dports: Option<RangeInclusive<u16>>,
    pub source: Option<Target>,
    /// The address and the ports.
    pub destination: Option<(u32, Option<RangeInclusive<u16>>)>,
    pub preserve: bool,
    pub parity: bool,
    pub limit: Option<u32>,
}

impl Rule {
    /// All sources get the address of the interface.
    pub fn masquerade() -> Rule {
        Rule {
            verb: NatVerb::Source,
            protocol: None,
            from: None,
            to: None,
            to_interface: false,
            dports: None,
            source: Some(Target { addresses: None, ports: None }),
            destination: None,
            preserve: false,
            parity: false,
            limit: None,
        }
    }

    /// Whether it matches the fields of a packet, in the list of an outside interface.
    pub fn matches(&self, edge: usize, fields: &Tuple) -> bool {
        let within = |span: &Option<Span>, address: u32| span.as_ref().is_none_or(|span| span.has(address));
        self.protocol.is_none_or(|protocol| protocol == fields.protocol)
            && within(&self.from, fields.source)
            && within(&self.to, fields.destination)
            && (!self.to_interface || INTERFACES[edge].1.contains(&fields.destination))
            && self.dports.as_ref().is_none_or(|ports| has_ports(fields.protocol) && ports.contains(&fields.dport))
    }

    /// The rule in a line.
    pub fn text(&self) -> String {
        let span = |span: &Option<Span>| {
            let text = |span: &Span| format!("{}-{}", ip(false, span.first), ip(false, span.last));
            span.as_ref().map_or("any".to_owned(), text)
        };
        let Rule { verb, protocol, from, to, to_interface, dports, source, destination, .. } = self;
        let source = source.as_ref().map(|target| {
            let spans = target.addresses.iter().flatten().map(|one| span(&Some(one.clone())));
            (spans.collect::<Vec<_>>(), &target.ports)
        });
        let destination = destination.as_ref().map(|(address, ports)| (ip(false, *address), ports));
        format!(
            "{verb:?} {protocol:?} from {} to {} (interface {to_interface}) port {dports:?} as source {source:?} destination \
             {destination:?} preserve {} parity {} limit {:?}",
            span(from),
            span(to),
            self.preserve,
            self.parity,
            self.limit
        )
    }

    /// A number of the rule: the same wherever it stands.
    pub fn id(&self) -> u32 {
        self.text().bytes().fold(1, |id, octet| id.wrapping_mul(31).wrapping_add(u32::from(octet)))
    }

    /// The prefixes of a map: inside and outside.
    pub fn map(&self) -> (&Span, &Span) {
        let outside = self.source.as_ref().and_then(|target| target.addresses.as_ref()).expect("a map has a prefix");
        (self.from.as_ref().expect("a map is from a prefix"), &outside[0])
    }

    /// The destination that it gives.
    pub fn given(&self, fields: &Tuple) -> (u32, u16) {
        let (address, ports) = self.destination.as_ref().expect("a rule about destinations");
        let port = match ports {
            None => fields.dport,
            Some(ports) if ports.start() == ports.end() => *ports.start(),
            Some(ports) => {
                let first = self.dports.as_ref().map_or(0, |own| *own.start());
                ports.start() + (fields.dport - first)
            }
        };
        (*address, port)
    }

    /// The rule of a model.
    pub fn model(&self, v6: bool) -> NatRule {
        let any = |span: &Option<Span>| span.as_ref().map_or(Addresses::Any, |span| span.addresses(v6));
        let transport = match (self.protocol, &self.dports) {
            (None, _) => Transport::Any,
            (Some(protocol), Some(ports)) => {
                let destination = Ports::from(ports.clone());
                Transport::Ports { protocol, source: Ports::Any, destination, flags: None }
            }
            (Some(ICMP), None) => Transport::Icmp { protocol: if v6 { 58 } else { ICMP }, icmp_type: None, code: None },
            (Some(protocol), None) => Transport::Protocol(protocol),
        };
        let family = Some(if v6 { IpFamily::V6 } else { IpFamily::V4 });
        let source = self.source.as_ref().map(|target| {
            let addresses = target.addresses.as_ref().map(|spans| match &spans[..] {
                [only] => only.addresses(v6),
                spans => Addresses::Group(Group {
                    name: "pool".into(),
                    members: spans.iter().map(|span| span.addresses(v6)).collect(),
                }),
            });
            NatTarget { addresses, ports: target.ports.clone() }
        });
        let destination = self
            .destination
            .as_ref()
            .map(|(address, ports)| NatTarget { addresses: Some(net(v6, *address, 32)), ports: ports.clone() });
        let (from, to) = (any(&self.from), any(&self.to));
        NatRule {
            verb: self.verb,
            matches: AclRule { family, from, to, transport, ..AclRule::all(AclAction::Permit, Origin::default()) },
            to_interface: self.to_interface,
            source,
            destination,
            preserve: self.preserve,
            parity: self.parity,
            log: false,
            limit_per_address: self.limit,
            comment: None,
        }
    }
}

/// Services that hosts have.
pub const SERVICES: [u16; 6] = [53, 80, 443, 8000, 8001, 8002];

fn inside(random: &mut Random) -> Option<Span> {
    let one = |first, last| Some(Span { first, last, length: None });
    match random.below(7) {
        0 => Some(Span::prefix(at(10, 0, 0, 0), 8)),
        1 => Some(Span::prefix(at(10, 0, 0, 0), 16)),
        2 => Some(Span::prefix(at(10, 1, 0, 0), 16)),
        3 => Some(Span::prefix(at(10, 0, 0, 5), 32)),
        4 => one(at(10, 0, 0, 6), at(10, 0, 0, 8)),
        _ => None,
    }
}

fn far(random: &mut Random) -> Option<Span> {
    match random.below(8) {
        0 => Some(Span::prefix(at(8, 8, 0, 0), 16)),
        1 => Some(Span::prefix(at(8, 8, 8, 8), 32)),
        2 => Some(Span { first: at(9, 9, 9, 0), last: at(9, 9, 9, 255), length: None }),
        3 => Some(Span::prefix(at(192, 0, 2, 0), 24)),
        _ => None,
    }
}

/// The sources that a rule gives.
fn target(random: &mut Random, small: bool) -> Target {
    let addresses = match random.below(6) {
        0 => Some(vec![Span::prefix(OWN[0], 32)]),
        1 => Some(vec![Span { first: OWN[0], last: OWN[1], length: None }]),
        2 => Some(vec![Span::prefix(OWN[2], 30)]),
        3 => Some(vec![Span::prefix(OWN[0], 32), Span::prefix(OWN[3], 32)]),
        _ => None,
    };
    let ports = match random.below(7) {
        0 if small => Some(7000..=7000),
        1 if small => Some(7000..=7003),
        2 => Some(7000..=7015),
        3 => Some(1024..=1279),
        4 => Some(2000..=3999),
        _ => None,
    };
    Target { addresses, ports }
}

/// Returns a random rule.
pub fn rule(random: &mut Random, limits: bool) -> Rule {
    let verb = match random.below(10) {
        0..=4 => NatVerb::Source,
        5 | 6 => NatVerb::Destination,
        7 => NatVerb::Both,
        8 => NatVerb::Map,
        _ => NatVerb::Keep,
    };
    let mut protocol = pick(random, &[None, None, None, Some(TCP), Some(UDP), Some(ICMP), Some(GRE), Some(DCCP)]);
    let (mut from, mut to) = (inside(random), far(random));
    let (mut dports, mut to_interface, mut destination) = (None, false, None);
    let source = match verb {
        NatVerb::Source | NatVerb::Both => Some(target(random, verb == NatVerb::Source)),
        NatVerb::Map => {
            let (inside, outside) = pick(
                random,
                &[
                    (Span::prefix(at(10, 0, 0, 5), 32), Span::prefix(OWN[0], 32)),
                    (Span::prefix(at(10, 1, 0, 5), 32), Span::prefix(OWN[1], 32)),
                    (Span::prefix(at(10, 0, 0, 4), 30), Span::prefix(OWN[2], 30)),
                ],
            );
            from = Some(inside);
            Some(Target { addresses: Some(vec![outside]), ports: None })
        }
        NatVerb::Destination | NatVerb::Keep => None,
    };
    if matches!(verb, NatVerb::Destination | NatVerb::Both) {
        from = if random.chance(0.8) { None } else { Some(Span::prefix(at(10, 0, 0, 0), 8)) };
        protocol = pick(random, &[Some(TCP), Some(UDP), Some(UDP), Some(ICMP), None]);
        to_interface = random.chance(0.4);
        to = (!to_interface).then(|| Span::prefix(pick(random, &OWN), 32));
        let server = pick(random, &[at(10, 0, 0, 8), at(10, 0, 0, 9), at(10, 1, 0, 6)]);
        let mut ports = None;
        if matches!(protocol, Some(TCP | UDP)) {
            (dports, ports) = match random.below(4) {
                0 => (Some(8000..=8002), Some(9000..=9002)),
                1 => (Some(80..=80), Some(8080..=8080)),
                2 => (Some(443..=443), None),
                _ => (None, None),
            };
        }
        destination = Some((server, ports));
    } else if matches!(protocol, Some(TCP | UDP)) && random.chance(0.3) {
        let first = pick(random, &SERVICES);
        dports = Some(first..=first + 2);
    }
    let draws = matches!(verb, NatVerb::Source | NatVerb::Both);
    let limit = (verb == NatVerb::Source && limits && random.chance(0.4)).then(|| pick(random, &[1, 3, 8]));
    let (preserve, parity) = (draws && random.chance(0.3), draws && random.chance(0.25));
    Rule { verb, protocol, from, to, to_interface, dports, source, destination, preserve, parity, limit }
}

/// The rules of an outside interface.
#[derive(Debug, Clone)]
pub struct List {
    pub edge: usize,
    pub rules: Vec<Rule>,
    pub mapping: NatMapping,
    pub mss_clamp: Option<MssClamp>,
}

/// The rules of each outside interface.
pub type Lists = Vec<List>;

/// Returns random rules.
pub fn lists(random: &mut Random, mapping: NatMapping, mss_clamp: Option<MssClamp>) -> Lists {
    let limits = random.chance(0.5);
    let edges = pick(random, &[&[WAN][..], &[WAN], &[WAN, WAN2]]);
    let mut list = |most: u64| -> Vec<Rule> { (0..1 + random.below(most)).map(|_| rule(random, limits)).collect() };
    edges.iter().map(|&edge| List { edge, rules: list(8), mapping, mss_clamp }).collect()
}
