//! Rule sets: those of ClassBench's files, and made ones of the same kinds; and packets that match them.
//!
//! Rules ask for prefixes of both addresses, the protocol, ranges of ports, and 16 bits of "flags" as ClassBench has them: the
//! upper octet is that of the flags of TCP, or the type of ICMP.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ipnet::IpNet;
use weir_base::random::Random;
use weir_packet::wire::protocol::{self, ICMP, ICMPV6, TCP, UDP};
use weir_plane::model::{AclAction, AclRule, Addresses, IpFamily, Origin, Ports, TcpFlags, Transport};
use weir_table::classify::{Masked, Rule, Span, Upper, sample};
use weir_table::lpm::Prefix;

use super::packet::{Ip, Packet, address};

/// Of ClassBench's sets with fewer rules than this a tenth is a set of its own.
const TENTHS_BELOW: usize = 20_000;

/// Packets that are drawn for each that is wanted, at most: some rules are about addresses that nothing is forwarded to.
const DRAWS: usize = 256;

/// Flows that traffic with locality is made of.
pub(super) const LOCAL_FLOWS: usize = 10_000;

/// Why a directory of rule sets can not be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SetError {
    /// It can not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A line is no rule.
    #[error("{path}: not a rule as ClassBench writes them: {line}")]
    Line {
        /// The file.
        path: PathBuf,
        /// The line.
        line: String,
    },
    /// No packet that a gateway forwards matches a rule of it.
    #[error("{0}: no rule is about packets that a gateway forwards")]
    Nowhere(PathBuf),
    /// No file in it has rules.
    #[error("no file in {0} has rules as ClassBench writes them")]
    Empty(PathBuf),
}

/// A set of rules.
#[derive(Debug, Clone)]
pub(super) struct Set<K> {
    /// What it is called.
    pub(super) name: String,
    /// In their order.
    pub(super) rules: Vec<Rule<K>>,
}

/// What a made set is like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A list of a router: who may reach which ports of few servers.
    Acl,
    /// A firewall: hosts and small networks on both sides, ports of both ends, new connections.
    Firewall,
    /// A chain of a host's packet filter: pairs of prefixes, all protocols.
    Chain,
}

impl Kind {
    pub(super) const ALL: [Kind; 3] = [Kind::Acl, Kind::Firewall, Kind::Chain];

    fn name(self) -> &'static str {
        match self {
            Kind::Acl => "made-acl",
            Kind::Firewall => "made-firewall",
            Kind::Chain => "made-chain",
        }
    }
}

/// The sets in the files of a directory: each file whose first line begins as a rule does.
pub(super) fn read(directory: &Path) -> Result<Vec<Set<u32>>, SetError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| SetError::Read { path, source }
    };
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(failed(directory))? {
        paths.push(entry.map_err(failed(directory))?.path());
    }
    paths.sort();
    let mut sets = Vec::new();
    for path in paths.into_iter().filter(|path| path.is_file()) {
        let octets = std::fs::read(&path).map_err(failed(&path))?;
        let text = String::from_utf8_lossy(&octets);
        if !text.starts_with('@') {
            continue;
        }
        let wrong = |line: String| SetError::Line { path: path.clone(), line };
        let rules = sample::classbench(&text).map_err(wrong)?;
        if let Some((line, _)) = text.lines().zip(&rules).find(|(_, rule)| transport(rule).is_none()) {
            return Err(wrong(line.to_owned()));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let tenth = Set { name: format!("{name}, a tenth"), rules: rules.iter().step_by(10).cloned().collect() };
        let all = Set { name, rules };
        // Whatever is measured has as many packets as are wanted.
        if [&tenth, &all].iter().any(|set| set.spread(16, &mut Random::from_seed(1)).len() < 16) {
            return Err(SetError::Nowhere(path));
        }
        if all.rules.len() < TENTHS_BELOW {
            sets.push(tenth);
        }
        sets.push(all);
    }
    sets.sort_by_key(|set: &Set<u32>| set.rules.len());
    if sets.is_empty() { Err(SetError::Empty(directory.to_owned())) } else { Ok(sets) }
}

/// A set of so many different rules. What asks for more comes first, as in lists that people keep.
pub(super) fn made<K: Ip>(kind: Kind, count: usize, seed: u64) -> Set<K> {
    let mut random = Random::from_seed(seed);
    let random = &mut random;
    // Networks that rules are about: few, so that rules lie inside of each other.
    let sites: Vec<K> = (0..8 + count / 40).map(|_| K::draw_given_out(random)).collect();
    let mut seen = HashSet::with_capacity(count);
    let mut rules = Vec::with_capacity(count);
    while rules.len() < count {
        let rule = match kind {
            Kind::Acl => acl(&sites, random),
            Kind::Firewall => firewall(&sites, random),
            Kind::Chain => chain(&sites, random),
        };
        if seen.insert(rule.clone()) {
            rules.push(rule);
        }
    }
    rules.sort_by_cached_key(|rule| std::cmp::Reverse(demands(rule)));
    Set { name: kind.name().to_owned(), rules }
}

fn acl<K: Ip>(sites: &[K], random: &mut Random) -> Rule<K> {
    // Servers stand together: an eighth of the sites.
    let servers = &sites[..(sites.len() / 8).max(1)];
    let source = net(sites, &[(15, 0), (15, 8), (20, 16), (20, 24), (30, 32)], random);
    let destination = net(servers, &[(70, 32), (10, 28), (20, 24)], random);
    let to = match random.below(20) {
        0..15 => Span::only(port(random)),
        15..17 => range(random),
        _ => Span::<u16>::ALL,
    };
    let (protocol, flags) = match random.below(100) {
        0..10 => (Some(TCP), Masked::new(0x1000, 0x1000)),
        10..20 => (Some(TCP), Masked::new(0x0200, 0)),
        20..88 => (Some(TCP), Masked::new(0, 0)),
        88..92 => (Some(UDP), Masked::new(0, 0)),
        92..96 => (Some(K::ICMP), Masked::new(0, 0)),
        _ => (None, Masked::new(0, 0)),
    };
    rule(source, destination, protocol, (Span::<u16>::ALL, to), flags)
}

fn firewall<K: Ip>(sites: &[K], random: &mut Random) -> Rule<K> {
    const LENGTHS: [(u64, u8); 6] = [(10, 0), (10, 16), (15, 24), (15, 28), (20, 31), (30, 32)];
    let (source, destination) = (net(sites, &LENGTHS, random), net(sites, &LENGTHS, random));
    let mut end = |wild: u64| match random.below(100) {
        share if share < wild => Span::<u16>::ALL,
        share if share < wild + 15 => Span::new(1024, u16::MAX).expect("they are in order"),
        share if share < wild + 25 => range(random),
        _ => Span::only(port(random)),
    };
    let ports = (end(25), end(5));
    let (protocol, flags) = match random.below(100) {
        0..55 => (Some(TCP), Masked::new(0x1200, 0x0200)),
        55..57 => (Some(TCP), Masked::new(0, 0)),
        57..93 => (Some(UDP), Masked::new(0, 0)),
        93..96 => (Some(K::ICMP), Masked::new(0xff00, (random.below(18) as u16) << 8)),
        96..99 => (Some(GRE), Masked::new(0, 0)),
        _ => (None, Masked::new(0, 0)),
    };
    rule(source, destination, protocol, ports, flags)
}

fn chain<K: Ip>(sites: &[K], random: &mut Random) -> Rule<K> {
    const LENGTHS: [(u64, u8); 6] = [(5, 0), (15, 8), (15, 16), (25, 24), (10, 28), (30, 32)];
    let (source, destination) = (net(sites, &LENGTHS, random), net(sites, &LENGTHS, random));
    let mut end = |wild: u64| match random.below(100) {
        share if share < wild => Span::<u16>::ALL,
        share if share < wild + 10 => range(random),
        _ => Span::only(port(random)),
    };
    let ports = (end(60), end(25));
    let (protocol, flags) = match random.below(100) {
        0..14 => (Some(TCP), Masked::new(0x0200, 0)),
        14..34 => (Some(TCP), Masked::new(0, 0)),
        34..78 => (Some(UDP), Masked::new(0, 0)),
        78..80 => (Some(K::ICMP), Masked::new(0xff00, (random.below(18) as u16) << 8)),
        _ => (None, Masked::new(0, 0)),
    };
    rule(source, destination, protocol, ports, flags)
}

/// Generic routing encapsulation.
const GRE: u8 = 47;

/// A prefix of a site, or of a network or a host in it; lengths are IPv4's, each with its weight.
fn net<K: Ip>(sites: &[K], lengths: &[(u64, u8)], random: &mut Random) -> Prefix<K> {
    let mut share = random.below(lengths.iter().map(|(weight, _)| weight).sum());
    let length = lengths.iter().find(|(weight, _)| {
        let here = share < *weight;
        share = share.saturating_sub(*weight);
        here
    });
    let of_family = |length: u8| match (K::BITS, length) {
        (32, length) => length,
        (_, 0) => 0,
        (_, 32) => 128,
        // A network of IPv6 is a /64, a site a /48.
        (_, length) => 16 + 2 * length,
    };
    let site = sites[random.below(sites.len() as u64) as usize];
    // Sites are /16 (/48), and few of their networks and hosts are named.
    let few = K::draw(random);
    let address = site.splice(of_family(20), few.truncate(of_family(24))).truncate(of_family(31));
    let address = if random.chance(0.5) { address.splice(of_family(31), few) } else { site };
    let length = of_family(length.map_or(32, |(_, length)| *length));
    Prefix::new(address.truncate(length), length).expect("lengths are the family's")
}

fn port(random: &mut Random) -> u16 {
    const USUAL: [u16; 20] =
        [20, 21, 22, 23, 25, 53, 80, 110, 123, 135, 137, 143, 161, 443, 445, 1433, 1521, 3306, 3389, 8080];
    match random.below(4) {
        0 => 1024 + random.below(6000) as u16,
        _ => USUAL[random.below(USUAL.len() as u64) as usize],
    }
}

fn range(random: &mut Random) -> Span<u16> {
    let first = port(random);
    Span::new(first, first.saturating_add(1 + random.below(1000) as u16)).expect("they are in order")
}

fn rule<K: Ip>(
    source: Prefix<K>,
    destination: Prefix<K>,
    protocol: Option<u8>,
    (from, to): (Span<u16>, Span<u16>),
    flags: Masked,
) -> Rule<K> {
    let ported = matches!(protocol, Some(TCP | UDP)) && (from, to) != (Span::<u16>::ALL, Span::<u16>::ALL);
    let upper = if ported { Upper::Ports { source: from, destination: to } } else { Upper::Any };
    Rule { source: source.into(), destination: destination.into(), protocol, upper, flags, ..Rule::any() }
}

/// How much a rule asks for: bits of its fields.
fn demands<K: Ip>(rule: &Rule<K>) -> u32 {
    let ends = [&rule.source, &rule.destination].map(|span| u32::from(length(span)));
    let of = |span: Span<u16>| u32::from(span.high() - span.low() + 1).checked_ilog2().map_or(0, |bits| 16 - bits);
    let ports = match rule.upper {
        Upper::Ports { source, destination } => of(source) + of(destination),
        _ => 0,
    };
    ends.iter().sum::<u32>() + ports + if rule.protocol.is_some() { 8 } else { 0 } + rule.flags.mask().count_ones()
}

/// The length of the prefix that a span is.
fn length<K: Ip>(span: &Span<K>) -> u8 {
    (0..=K::BITS)
        .find(|length| span.low().truncate(*length) == span.low() && span.low().saturate(*length) == span.high())
        .unwrap_or(K::BITS)
}

/// As ClassBench writes rules.
pub(super) fn text(rules: &[Rule<u32>]) -> String {
    let mut text = String::new();
    let net = |span: &Span<u32>| format!("{}/{}", std::net::Ipv4Addr::from(span.low()), length(span));
    for rule in rules {
        let (from, to) = match rule.upper {
            Upper::Ports { source, destination } => (source, destination),
            _ => (Span::<u16>::ALL, Span::<u16>::ALL),
        };
        let (protocol, mask) = rule.protocol.map_or((0, 0), |protocol| (protocol, 0xff));
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "@{}\t{}\t{} : {}\t{} : {}\t{protocol:#04x}/{mask:#04X}\t{:#06x}/{:#06x}",
            net(&rule.source),
            net(&rule.destination),
            from.low(),
            from.high(),
            to.low(),
            to.high(),
            rule.flags.value(),
            rule.flags.mask(),
        );
    }
    text
}

/// What a rule asks of the header behind that of IP, as configurations have it; none if they can not say it.
fn transport<K: Ip>(rule: &Rule<K>) -> Option<Transport> {
    let (mask, value) = (rule.flags.mask(), rule.flags.value());
    let [mask, low] = mask.to_be_bytes();
    let octet = value.to_be_bytes()[0];
    let ports = |span: Span<u16>| Ports::from(span.low()..=span.high());
    match (rule.protocol, rule.upper) {
        _ if low != 0 => None,
        (None, Upper::Any) if mask == 0 => Some(Transport::Any),
        (Some(protocol), Upper::Any) if mask == 0 => Some(Transport::Protocol(protocol)),
        (Some(protocol @ (ICMP | ICMPV6)), Upper::Any) if mask == 0xff => {
            Some(Transport::Icmp { protocol, icmp_type: octet..=octet, code: 0..=u8::MAX })
        }
        (Some(protocol @ (TCP | UDP)), upper) if mask == 0 || protocol == protocol::TCP => {
            let (source, destination) = match upper {
                Upper::Ports { source, destination } => (ports(source), ports(destination)),
                _ => (Ports::ALL, Ports::ALL),
            };
            let flags = (mask != 0).then_some(TcpFlags { value: octet, mask });
            Some(Transport::Ports { protocol, source, destination, flags })
        }
        _ => None,
    }
}

impl<K: Ip> Set<K> {
    /// The rules as configurations have them. All permit, so that packets go all of their way.
    pub(super) fn configured(&self) -> Arc<[AclRule]> {
        let addresses = |span: &Span<K>| match length(span) {
            0 => Addresses::Any,
            length => Addresses::Net(
                IpNet::new(address(span.low()), length).expect("a length is no longer than its addresses"),
            ),
        };
        let family = Some(if K::BITS == 32 { IpFamily::V4 } else { IpFamily::V6 });
        let rules = self.rules.iter().map(|rule| AclRule {
            family,
            from: addresses(&rule.source),
            to: addresses(&rule.destination),
            transport: transport(rule).expect("sets have rules only that can be said"),
            ..AclRule::all(AclAction::Permit, Origin(0))
        });
        rules.collect()
    }

    /// Packets that match rules, each rule as often as the others, and in a random order. What matches may match an earlier
    /// rule, too. Rules that are about no packet that is forwarded have none, and where nearly all are so there are fewer.
    pub(super) fn spread(&self, count: usize, random: &mut Random) -> Vec<Packet<K>> {
        let draws = std::iter::repeat_with(|| {
            let rule = &self.rules[random.below(self.rules.len() as u64) as usize];
            packet(rule, random)
        });
        draws
            .take(count * DRAWS)
            .filter(|packet| K::is_forwarded(packet.source, packet.destination))
            .take(count)
            .collect()
    }

    /// So many packets of few flows ([`LOCAL_FLOWS`], or as many as there are packets), some of which have many: the share of
    /// the first n of them is log n / log flows.
    pub(super) fn local(&self, count: usize, random: &mut Random) -> Vec<Packet<K>> {
        let flows = self.spread(LOCAL_FLOWS.min(count), random);
        let skewed = |random: &mut Random| {
            let share = random.below(1 << 30) as f64 / f64::from(1 << 30);
            flows[((flows.len() as f64).powf(share) - 1.0) as usize]
        };
        (0..count).map(|_| skewed(random)).collect()
    }
}

/// A packet that a rule matches.
pub(super) fn packet<K: Ip>(rule: &Rule<K>, random: &mut Random) -> Packet<K> {
    let drawn = sample::matching(rule, random);
    let protocol = rule.protocol.unwrap_or(if random.chance(0.5) { TCP } else { UDP });
    let ports = if matches!(protocol, TCP | UDP) { drawn.ports().unwrap_or_default() } else { (0, 0) };
    let has_octet = protocol == TCP || protocol == K::ICMP;
    let octet = if has_octet { (drawn.flags().unwrap_or_default() >> 8) as u8 } else { 0 };
    Packet { source: drawn.source(), destination: drawn.destination(), protocol, ports, octet }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_like_a_list<K: Ip>() {
        for kind in Kind::ALL {
            let set = made::<K>(kind, 1000, 1);
            assert_eq!((set.rules.len(), set.configured().len()), (1000, 1000));
            let mut random = Random::from_seed(2);
            let packets = set.spread(5000, &mut random);
            let first = |packet: &Packet<K>| {
                set.rules.iter().position(|rule| rule.matches(&packet.fields())).expect("one does")
            };
            let found: HashSet<usize> = packets.iter().map(first).collect();
            assert!(found.len() > 400, "{kind:?}: {} rules are first for some packet", found.len());
            let local: HashSet<_> = set.local(5000, &mut random).iter().map(|packet| packet.fields()).collect();
            assert!(local.len() < 3000, "{}", local.len());
        }
    }

    #[test]
    fn made_sets_of_ipv4_have_packets_for_many_of_their_rules() {
        is_like_a_list::<u32>();
    }

    #[test]
    fn made_sets_of_ipv6_have_packets_for_many_of_their_rules() {
        is_like_a_list::<u128>();
    }

    #[test]
    fn text_reads_back() {
        for kind in Kind::ALL {
            let set = made::<u32>(kind, 500, 3);
            assert_eq!(sample::classbench(&text(&set.rules)).unwrap(), set.rules);
        }
    }

    #[test]
    fn directories_are_read_and_wrong_lines_named() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(read(directory.path()), Err(SetError::Empty(_))));
        std::fs::write(directory.path().join("LICENSE"), "words").unwrap();
        std::fs::write(directory.path().join("small"), text(&made::<u32>(Kind::Acl, 50, 3).rules)).unwrap();
        let sets = read(directory.path()).unwrap();
        let names: Vec<_> = sets.iter().map(|set| (set.name.as_str(), set.rules.len())).collect();
        assert_eq!(names, [("small, a tenth", 5), ("small", 50)]);
        // Flags of UDP.
        let line = "@1.0.0.0/8\t2.0.0.0/8\t0 : 65535\t53 : 53\t0x11/0xFF\t0x0200/0x0200";
        std::fs::write(directory.path().join("wrong"), line).unwrap();
        assert!(matches!(read(directory.path()), Err(SetError::Line { line: found, .. }) if found == line));
        assert!(matches!(read(Path::new("/nonexistent")), Err(SetError::Read { .. })));
    }
}
