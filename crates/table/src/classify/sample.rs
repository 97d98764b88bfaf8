//! Rules and packets for measurements and long tests.

use weir_base::random::Random;

use crate::lpm::Prefix;
use crate::lpm::sample::{Draw, inside_one};
use crate::sav::Set;

use super::{Address, Fields, Fragment, Fragments, Masked, Rule, Span, Upper};

/// A family that rules and packets can be drawn of.
pub trait Packets: Draw + Address {}

impl<K: Draw + Address> Packets for K {}

/// A packet that a rule matches, drawn uniformly, with ports and flags. No fragment; no DSCP and mark, by interface 0.
pub fn matching<K: Packets>(rule: &Rule<K>, random: &mut Random) -> Fields<K> {
    // Of the prefix that both ends have in common, at least half is inside, or one end.
    let address = |span: &Span<K>, random: &mut Random| {
        let len = span.low().common(span.high());
        let mut drawn = (0..64).map(|_| span.low().splice(len, K::draw(random)));
        drawn.find(|address| span.contains(*address)).unwrap_or(span.high())
    };
    let value = |span: &Span<u16>, random: &mut Random| {
        span.low() + random.below(u64::from(span.high() - span.low()) + 1) as u16
    };
    let protocol = rule.protocol.unwrap_or_else(|| pick(&PROTOCOLS, random));
    let [from, to] = rule.words();
    let flags = random.next() as u16 & !rule.flags.mask() | rule.flags.value();
    Fields::new(address(&rule.source, random), address(&rule.destination, random), protocol)
        .with_ports(value(&from, random), value(&to, random))
        .with_flags(flags)
}

/// A set of rules that classifiers find hard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Adverse {
    /// Prefixes of every pair of lengths.
    Lengths,
    /// Ranges of both ports, of any size, between the same addresses.
    Ranges,
    /// Ranges of the destination port that lie inside of each other, the narrowest first.
    Nested,
    /// Ranges of addresses that are no prefixes, of any size.
    Addresses,
    /// Addresses that differ in few bits of many.
    Sparse,
    /// The same addresses and protocol, and one pair of ports each.
    Pairs,
}

impl Adverse {
    /// All there are.
    pub const ALL: [Adverse; 6] =
        [Adverse::Lengths, Adverse::Ranges, Adverse::Nested, Adverse::Addresses, Adverse::Sparse, Adverse::Pairs];

    /// So many rules of the set.
    pub fn rules<K: Packets>(self, count: usize, random: &mut Random) -> Vec<Rule<K>> {
        let base = K::draw(random);
        (0..count).map(|number| self.rule(base, number, count, random)).collect()
    }

    fn rule<K: Packets>(self, base: K, number: usize, count: usize, random: &mut Random) -> Rule<K> {
        let prefix = |len: u8, random: &mut Random| {
            Span::from(Prefix::new(K::draw(random), len).expect("the length is in range"))
        };
        let range = |one: u16, other: u16| Span::new(one.min(other), one.max(other)).expect("they are in order");
        let ports = |source: Span<u16>, destination: Span<u16>| Rule {
            protocol: Some(6),
            upper: Upper::Ports { source, destination },
            ..Rule::any()
        };
        match self {
            Adverse::Lengths => {
                let len = |random: &mut Random| random.below(u64::from(K::BITS) + 1) as u8;
                let (source, destination) = (len(random), len(random));
                Rule { source: prefix(source, random), destination: prefix(destination, random), ..Rule::any() }
            }
            Adverse::Ranges => ports(
                range(random.next() as u16, random.next() as u16),
                range(random.next() as u16, random.next() as u16),
            ),
            Adverse::Nested => {
                let half = (32_767 * number / count.max(1)) as u16;
                ports(Span::<u16>::ALL, range(32_767 - half, 32_768 + half))
            }
            Adverse::Addresses => {
                let address = |random: &mut Random| {
                    let (one, other) = (K::draw(random), K::draw(random));
                    Span::new(one.min(other), one.max(other)).expect("they are in order")
                };
                Rule { source: address(random), destination: address(random), ..Rule::any() }
            }
            Adverse::Sparse => {
                let address = |random: &mut Random| {
                    // Three bits of all are turned.
                    let turned = (0..3).fold(base, |address, _| {
                        let len = random.below(u64::from(K::BITS)) as u8;
                        let bit = address.truncate(len + 1) != address.truncate(len);
                        let tail = if bit { K::ZERO } else { K::ZERO.saturate(0) };
                        address.truncate(len).splice(len, tail.truncate(len + 1)).splice(len + 1, address)
                    });
                    Span::from(Prefix::new(turned, K::BITS).expect("the length is in range"))
                };
                Rule { source: address(random), destination: address(random), ..Rule::any() }
            }
            Adverse::Pairs => ports(Span::only(random.next() as u16), Span::only(random.next() as u16)),
        }
    }
}

/// Ports that rules name more often than others.
const PORTS: [u16; 8] = [22, 25, 53, 80, 123, 443, 1433, 8080];

/// Protocols: ICMP, TCP, UDP, ICMPv6.
const PROTOCOLS: [u8; 4] = [1, 6, 17, 58];
const MARKS: [u32; 4] = [0, 1, 7, 0x12_3456];

/// Rules on all fields, that overlap in all ways.
pub fn mixed<K: Packets>(count: usize, random: &mut Random) -> Vec<Rule<K>> {
    // Few bases, so that rules lie inside of each other.
    let bases: Vec<K> = (0..4 + count / 20).map(|_| K::draw(random)).collect();
    (0..count).map(|_| rule(&bases, random)).collect()
}

fn pick<T: Copy>(of: &[T], random: &mut Random) -> T {
    of[random.below(of.len() as u64) as usize]
}

fn address<K: Packets>(bases: &[K], random: &mut Random) -> Span<K> {
    let base = pick(bases, random);
    let len = pick(&[0, K::BITS / 4, K::BITS / 2, K::BITS / 2 + 3, K::BITS / 4 * 3, K::BITS - 3, K::BITS], random);
    match random.below(8) {
        0 => {
            let (one, other) = (base.splice(len, K::draw(random)), base.splice(len, K::draw(random)));
            Span::new(one.min(other), one.max(other)).expect("they are in order")
        }
        1 | 2 => Span::every(),
        _ => Prefix::new(base, len).expect("the length is in range").into(),
    }
}

fn span(random: &mut Random) -> Span<u16> {
    match random.below(6) {
        0 => {
            let (one, other) = (random.next() as u16, random.next() as u16);
            Span::new(one.min(other), one.max(other)).expect("they are in order")
        }
        1 => Span::new(1024, u16::MAX).expect("they are in order"),
        2 => Span::<u16>::ALL,
        3 => Span::only(random.below(8) as u16),
        _ => Span::only(pick(&PORTS, random)),
    }
}

fn octets(random: &mut Random) -> Span<u8> {
    match random.below(3) {
        0 => Span::<u8>::ALL,
        1 => Span::only(random.below(4) as u8),
        _ => Span::new(random.below(4) as u8, 4 + random.below(252) as u8).expect("they are in order"),
    }
}

fn rule<K: Packets>(bases: &[K], random: &mut Random) -> Rule<K> {
    let upper = match random.below(7) {
        0 | 1 => Upper::Any,
        6 => Upper::Bare,
        2 => Upper::Icmp { kind: octets(random), code: octets(random) },
        _ => Upper::Ports { source: span(random), destination: span(random) },
    };
    Rule {
        source: address(bases, random),
        destination: address(bases, random),
        protocol: random.chance(0.8).then(|| pick(&PROTOCOLS, random)),
        upper,
        flags: match random.below(4) {
            0 => Masked::new(pick(&[0x02, 0x12, 0x100, 0xffff], random), random.next() as u16),
            _ => Masked::new(0, 0),
        },
        fragments: match random.below(8) {
            0 => Fragments::FRAGMENTS,
            1 => Fragment::Later.into(),
            2 => Fragments::from(Fragment::Whole).union(Fragment::First.into()),
            _ => Fragments::ALL,
        },
        dscp: random.chance(0.1).then(|| random.below(4) as u8),
        mark: random.chance(0.1).then(|| pick(&MARKS, random)),
        interfaces: random.chance(0.2).then(|| (0..random.below(4)).map(|_| random.below(6) as u32).collect::<Set>()),
    }
}

/// A value of a span, often at an end of it or right beside.
fn of_span<T: Copy + Ord>(span: &Span<T>, beside: T, random: &mut Random) -> T {
    match random.below(8) {
        0 => span.high(),
        1 => beside,
        _ => span.low(),
    }
}

/// A packet that matches one of the rules, or nearly so. If there are no rules: any packet.
pub fn near<K: Packets>(rules: &[Rule<K>], random: &mut Random) -> Fields<K> {
    if rules.is_empty() || random.chance(0.05) {
        return Fields::new(K::draw(random), K::draw(random), pick(&PROTOCOLS, random))
            .with_ports(random.next() as u16, random.next() as u16);
    }
    let rule = &rules[random.below(rules.len() as u64) as usize];
    let other = &rules[random.below(rules.len() as u64) as usize];
    let address = |span: &Span<K>, other: &Span<K>, random: &mut Random| match random.below(4) {
        0 => of_span(span, span.high().next().unwrap_or(K::ZERO), random),
        1 => of_span(other, other.low(), random),
        _ => {
            // Inside of the longest prefix that begins with the span, so inside of it.
            let len = (0..=K::BITS)
                .find(|len| span.low().truncate(*len) == span.low() && span.low().saturate(*len) <= span.high());
            let prefix = Prefix::new(span.low(), len.unwrap_or(K::BITS)).expect("the length is in range");
            inside_one(&prefix, random)
        }
    };
    let source = address(&rule.source, &other.source, random);
    let destination = address(&rule.destination, &other.destination, random);
    let protocol = rule.protocol.unwrap_or_else(|| pick(&PROTOCOLS, random));
    let mut packet = Fields::new(source, destination, protocol);
    let word = |span: &Span<u16>, random: &mut Random| match random.below(4) {
        0 => of_span(span, span.high().wrapping_add(1), random),
        1 => of_span(span, span.low().wrapping_sub(1), random),
        _ => span.low() + random.below(u64::from(span.high() - span.low()) + 1) as u16,
    };
    packet = match rule.upper {
        Upper::Ports { source, destination } => packet.with_ports(word(&source, random), word(&destination, random)),
        Upper::Icmp { kind, code } => packet
            .with_icmp(of_span(&kind, random.below(6) as u8, random), of_span(&code, random.below(6) as u8, random)),
        Upper::Any if random.chance(0.8) => packet.with_ports(random.next() as u16, pick(&PORTS, random)),
        Upper::Any | Upper::Bare => packet,
    };
    if rule.flags.mask() != 0 || random.chance(0.5) {
        packet = packet.with_flags(random.next() as u16 & !rule.flags.mask() | rule.flags.value());
    }
    if let Some(kind) = [Fragment::Whole, Fragment::First, Fragment::Later]
        .into_iter()
        .find(|kind| rule.fragments.contains(*kind) && random.chance(0.7))
    {
        packet = packet.with_fragment(kind);
    }
    let interface = rule.interfaces.as_ref().and_then(|set| set.iter().next()).unwrap_or(random.below(6) as u32);
    let mark = rule.mark.or_else(|| random.chance(0.5).then(|| pick(&MARKS, random)));
    packet.with_dscp(rule.dscp.unwrap_or(random.below(4) as u8)).with_mark(mark).with_interface(interface)
}
