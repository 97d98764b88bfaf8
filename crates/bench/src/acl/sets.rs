//! Rule sets: those of ClassBench's files, and made ones of the same kinds; and packets that match them.
//!
//! Rules match prefixes of both addresses, the protocol, ranges of ports, and 16 bits of "flags" as ClassBench has
//! them: the upper octet is that of the flags of TCP, or the type of ICMP.

use std::path::Path;
use std::sync::Arc;

use crate::alike::Alike;
use ipnet::IpNet;
use weir_base::random::Random;
use weir_packet::wire::protocol::{self, ICMP, ICMPV6, TCP, UDP};
use weir_plane::model::{AclAction, AclRule, Addresses, IpFamily, Origin, Ports, TcpFlags, Transport};
use weir_table::classify::{Masked, Rule, Span, Upper, classbench, sample};

use super::packet::{Ip, Packet, address};
use super::text::length;
use crate::Error;

/// Of ClassBench's sets with fewer rules than this a tenth is a set of its own.
const TENTHS_BELOW: usize = 20_000;

/// Packets that are drawn for each that is wanted, at most: some rules are about addresses that nothing is forwarded to.
const DRAWS: usize = 256;

/// Flows that traffic with locality is made of.
pub(super) const LOCAL_FLOWS: usize = 10_000;

/// A set of rules.
#[derive(Debug, Clone)]
pub(super) struct Set<K> {
    /// Its name.
    pub(super) name: String,
    /// In their order.
    pub(super) rules: Vec<Rule<K>>,
}

/// The sets in the files of a directory: each file whose first line begins as a rule does.
pub(super) fn read(directory: &Path) -> Result<Vec<Set<u32>>, Error> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| Error::Set { path, source }
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
        let wrong = |line: String| Error::SetLine { path: path.clone(), line };
        let rules = classbench::rules(&text).map_err(wrong)?;
        if let Some((line, _)) = text.lines().zip(&rules).find(|(_, rule)| transport(rule).is_none()) {
            return Err(wrong(line.to_owned()));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let tenth = Set { name: format!("{name}, a tenth"), rules: rules.iter().step_by(10).cloned().collect() };
        let all = Set { name, rules };
        // Whatever is measured has as many packets as are wanted.
        if [&tenth, &all].iter().any(|set| set.spread(16, &mut Random::from_seed(1)).len() < 16) {
            return Err(Error::SetNowhere(path));
        }
        if all.rules.len() < TENTHS_BELOW {
            sets.push(tenth);
        }
        sets.push(all);
    }
    sets.sort_by_key(|set: &Set<u32>| set.rules.len());
    if sets.is_empty() { Err(Error::SetEmpty(directory.to_owned())) } else { Ok(sets) }
}

/// Draws a set of so many realistic rules.
pub(super) fn made<K: Ip>(kind: Alike, count: usize, seed: u64) -> Set<K> {
    let rules = kind.rules(count, &mut Random::from_seed(seed)).into_iter().map(|rule| match rule.upper {
        // As ClassBench has it.
        Upper::Icmp { kind, .. } => {
            let flags = if kind == Span::<u8>::ALL {
                Masked::new(0, 0)
            } else {
                Masked::new(0xff00, u16::from(kind.low()) << 8)
            };
            Rule { upper: Upper::Any, flags, ..rule }
        }
        _ => rule,
    });
    let name = format!("{kind:?}").to_lowercase();
    Set { name: format!("made-{name}"), rules: K::like(&rules.collect::<Vec<_>>()) }
}

/// Returns the conditions of a rule on the header behind that of IP, as configurations have them; `None` if they cannot
/// express it.
fn transport<K: Ip>(rule: &Rule<K>) -> Option<Transport> {
    let (mask, value) = (rule.flags.mask(), rule.flags.value());
    let [mask, low] = mask.to_be_bytes();
    let [octet, code] = value.to_be_bytes();
    // A value as a whole, or any.
    let part = |value: u8, mask: u8| match mask {
        0 => Some(None),
        u8::MAX => Some(Some(value..=value)),
        _ => None,
    };
    let ports = |span: Span<u16>| match span.low()..=span.high() {
        all if all == (0..=u16::MAX) => Ports::Any,
        range => Ports::from(range),
    };
    match (rule.protocol, rule.upper) {
        (Some(protocol @ (ICMP | ICMPV6)), Upper::Any) if (mask, low) != (0, 0) => {
            Some(Transport::Icmp { protocol, icmp_type: part(octet, mask)?, code: part(code, low)? })
        }
        _ if low != 0 => None,
        (None, Upper::Any) if mask == 0 => Some(Transport::Any),
        (Some(protocol), Upper::Any) if mask == 0 => Some(Transport::Protocol(protocol)),
        (_, Upper::Bare) => None,
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
        draws.take(count * DRAWS).filter(|packet| K::is_forwarded(packet)).take(count).collect()
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
    let [octet, code] = if has_octet { drawn.flags().unwrap_or_default().to_be_bytes() } else { [0; 2] };
    // Of the codes that a rule leaves open, one is as good as another.
    let code = if protocol == K::ICMP && rule.flags.mask() as u8 != 0 { code } else { 0 };
    Packet { source: drawn.source(), destination: drawn.destination(), protocol, ports, octet, code }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::super::text::text;
    use super::*;

    fn is_like_a_list<K: Ip>() {
        for kind in Alike::ALL {
            let set = made::<K>(kind, 1000, 1);
            assert_eq!((set.rules.len(), set.configured().len()), (1000, 1000));
            let mut random = Random::from_seed(2);
            let packets = set.spread(5000, &mut random);
            let first = |packet: &Packet<K>| {
                set.rules.iter().position(|rule| rule.matches(&packet.fields())).expect("one does")
            };
            let found: HashSet<usize> = packets.iter().map(first).collect();
            assert!(found.len() > 200, "{kind:?}: {} rules are first for some packet", found.len());
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
        for kind in Alike::ALL {
            let set = made::<u32>(kind, 500, 3);
            assert_eq!(classbench::rules(&text(&set.rules)).unwrap(), set.rules);
        }
    }

    #[test]
    fn directories_are_read_and_wrong_lines_named() {
        let directory = tempfile::tempdir().unwrap();
        assert!(matches!(read(directory.path()), Err(Error::SetEmpty(_))));
        std::fs::write(directory.path().join("LICENSE"), "words").unwrap();
        std::fs::write(directory.path().join("small"), text(&made::<u32>(Alike::Access, 50, 3).rules)).unwrap();
        let sets = read(directory.path()).unwrap();
        let names: Vec<_> = sets.iter().map(|set| (set.name.as_str(), set.rules.len())).collect();
        assert_eq!(names, [("small, a tenth", 5), ("small", 50)]);
        // The type and code of ICMP, comments, and lines without flags.
        let text = "# filters\n\n@1.0.0.0/8 2.0.0.0/8 0 : 65535 0 : 65535 0x01/0xFF 0x0303/0xffff\n\
                    @1.0.0.0/8 2.0.0.0/8 0 : 65535 53 : 53 0x11/0xFF\n";
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.rotate_left(2);
        std::fs::write(directory.path().join("small"), lines.join("\n")).unwrap();
        let sets = read(directory.path()).unwrap();
        assert_eq!(sets[1].rules.len(), 2);
        let unreachable = &sets[1].configured()[0];
        assert_eq!(
            unreachable.transport,
            Transport::Icmp { protocol: ICMP, icmp_type: Some(3..=3), code: Some(3..=3) }
        );
        let drawn = packet(&sets[1].rules[0], &mut Random::from_seed(4));
        assert_eq!((drawn.octet, drawn.code), (3, 3));
        assert!(sets[1].rules[0].matches(&drawn.fields()));
        // Flags of UDP.
        let line = "@1.0.0.0/8\t2.0.0.0/8\t0 : 65535\t53 : 53\t0x11/0xFF\t0x0200/0x0200";
        std::fs::write(directory.path().join("wrong"), line).unwrap();
        assert!(matches!(read(directory.path()), Err(Error::SetLine { line: found, .. }) if found == line));
        assert!(matches!(read(Path::new("/nonexistent")), Err(Error::Set { .. })));
    }
}
