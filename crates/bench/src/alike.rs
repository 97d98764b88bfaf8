//! Realistic sets of rules, drawn from a seed.
//!
//! ClassBench (Taylor and Turner, "ClassBench: A Packet Classification Benchmark", IEEE/ACM ToN 15(3), 2007) makes sets like
//! access lists, firewalls and chains of Linux. The shares here are those of its sets acl1, fw1 and ipc1: of pairs of prefix
//! lengths, of kinds of ports, of protocols, and of flags. It knows IPv4 only: sets of IPv6 are made of sets of IPv4, so
//! that what contains what stays as it is.

use weir_base::random::Random;

use weir_table::lpm::Prefix;

use weir_table::classify::{Masked, Rule, Span, Upper};

/// A kind of sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alike {
    /// An access list at the edge of a network: most rules name both sides, and one port or a few.
    Access,
    /// A firewall: many rules leave one side open.
    Firewall,
    /// A chain of Linux: of all lengths.
    Chain,
}

/// The shares of the conditions of a kind of rule, in thousandths.
struct Shares {
    /// The shortest lengths of both prefixes; from 8 to 24, up to seven bits are added.
    lengths: &'static [(u32, (u8, u8))],
    ports: &'static [(u32, (Ports, Ports))],
    protocols: &'static [(u32, Option<u8>)],
    /// Of rules of TCP: mask and value.
    flags: &'static [(u32, (u16, u16))],
}

#[derive(Clone, Copy)]
enum Ports {
    Any,
    High,
    One,
    Some,
}

use Ports::{Any, High, One, Some as Few};

const ACCESS: Shares = Shares {
    lengths: &[
        (429, (24, 24)),
        (165, (32, 24)),
        (155, (24, 32)),
        (101, (32, 32)),
        (48, (24, 16)),
        (30, (16, 24)),
        (15, (16, 16)),
        (10, (32, 16)),
        (8, (16, 8)),
        (7, (16, 32)),
        (6, (16, 0)),
        (5, (24, 8)),
        (4, (0, 0)),
        (4, (24, 0)),
    ],
    ports: &[(574, (Any, One)), (293, (Any, Any)), (133, (Any, Few))],
    protocols: &[(874, Some(6)), (78, None), (33, Some(1)), (14, Some(17))],
    flags: &[(793, (0, 0)), (108, (0x1000, 0x1000)), (99, (0x0200, 0))],
};

const FIREWALL: Shares = Shares {
    lengths: &[
        (289, (0, 24)),
        (116, (24, 0)),
        (62, (0, 32)),
        (61, (24, 24)),
        (60, (16, 8)),
        (47, (8, 8)),
        (47, (8, 16)),
        (46, (0, 0)),
        (44, (16, 16)),
        (37, (16, 0)),
        (30, (8, 24)),
        (23, (32, 24)),
        (22, (32, 0)),
        (20, (0, 16)),
    ],
    ports: &[
        (527, (Any, One)),
        (219, (Any, Any)),
        (108, (One, Any)),
        (72, (High, High)),
        (27, (One, One)),
        (22, (One, High)),
        (20, (High, One)),
        (3, (Few, High)),
    ],
    protocols: &[(521, Some(6)), (360, Some(17)), (56, Some(47)), (49, Some(1)), (14, None)],
    flags: &[(900, (0x1200, 0x0200)), (60, (0, 0)), (20, (0xff00, 0x0f00)), (20, (0xff00, 0x1100))],
};

const CHAIN: Shares = Shares {
    lengths: &[
        (316, (24, 24)),
        (106, (16, 24)),
        (92, (24, 16)),
        (70, (24, 32)),
        (68, (32, 24)),
        (65, (16, 16)),
        (40, (8, 16)),
        (31, (16, 8)),
        (29, (8, 8)),
        (26, (32, 32)),
        (23, (24, 8)),
        (19, (8, 24)),
        (18, (0, 16)),
        (18, (16, 0)),
    ],
    ports: &[
        (414, (Any, One)),
        (302, (Any, Any)),
        (167, (One, Any)),
        (45, (Any, High)),
        (36, (Any, Few)),
        (27, (Few, Any)),
        (6, (High, Any)),
        (3, (One, One)),
    ],
    protocols: &[(401, Some(17)), (333, Some(6)), (245, None), (13, Some(1)), (4, Some(47)), (2, Some(51))],
    flags: &[(560, (0, 0)), (420, (0x0200, 0)), (20, (0xff00, 0x0500))],
};

/// Ports that rules name.
const NAMED: [u16; 24] =
    [20, 21, 22, 25, 53, 67, 69, 80, 88, 110, 119, 123, 135, 139, 143, 161, 179, 389, 443, 514, 750, 1433, 1521, 8080];

impl Alike {
    /// All there are.
    pub const ALL: [Alike; 3] = [Alike::Access, Alike::Firewall, Alike::Chain];

    /// So many rules, those of longer prefixes first, as ClassBench has them.
    pub fn rules(self, count: usize, random: &mut Random) -> Vec<Rule<u32>> {
        let shares = match self {
            Alike::Access => ACCESS,
            Alike::Firewall => FIREWALL,
            Alike::Chain => CHAIN,
        };
        // As many addresses for the number of rules as ClassBench has, about; some near others.
        let mut addresses: Vec<u32> = Vec::new();
        for _ in 0..32 + count / 32 {
            let near = match addresses.len() as u64 {
                0 => 0,
                there => addresses[random.below(there) as usize],
            };
            let len = [0, 8, 16, 24][random.below(4) as usize];
            let fresh = random.next() as u32;
            addresses.push(if len == 0 { fresh } else { near & !(u32::MAX >> len) | fresh & u32::MAX >> len });
        }
        let mut rules: Vec<(u8, Rule<u32>)> = (0..count).map(|_| shares.rule(&addresses, random)).collect();
        rules.sort_by_key(|(bits, _)| std::cmp::Reverse(*bits));
        rules.into_iter().map(|(_, rule)| rule).collect()
    }
}

fn pick<T: Copy>(of: &[(u32, T)], random: &mut Random) -> T {
    let all: u32 = of.iter().map(|(share, _)| share).sum();
    let mut drawn = random.below(u64::from(all)) as u32;
    for (share, one) in of {
        if drawn < *share {
            return *one;
        }
        drawn -= share;
    }
    of[0].1
}

impl Shares {
    /// A rule, and how many bits of addresses it decides.
    fn rule(&self, addresses: &[u32], random: &mut Random) -> (u8, Rule<u32>) {
        let address = |shortest: u8, random: &mut Random| {
            let address = addresses[random.below(addresses.len() as u64) as usize];
            // Always as many for one address.
            let more = if matches!(shortest, 0 | 32) { 0 } else { address as u8 & 7 };
            Prefix::new(address, shortest + more).expect("it is at most 31, or 32")
        };
        let (source, destination) = pick(self.lengths, random);
        let (source, destination) = (address(source, random), address(destination, random));
        let protocol = pick(self.protocols, random);
        let upper = match protocol {
            Some(6 | 17) => match pick(self.ports, random) {
                (Any, Any) => Upper::Any,
                (from, to) => Upper::Ports { source: from.span(random), destination: to.span(random) },
            },
            Some(1) if random.chance(0.5) => {
                let kind = [0, 3, 8, 11][random.below(4) as usize];
                Upper::Icmp { kind: Span::only(kind), code: Span::<u8>::ALL }
            }
            _ => Upper::Any,
        };
        let (mask, value) = if protocol == Some(6) { pick(self.flags, random) } else { (0, 0) };
        let (bits, flags) = (source.len() + destination.len(), Masked::new(mask, value));
        let (source, destination) = (source.into(), destination.into());
        (bits, Rule { source, destination, protocol, upper, flags, ..Rule::any() })
    }
}

impl Ports {
    fn span(self, random: &mut Random) -> Span<u16> {
        let named = NAMED[random.below(NAMED.len() as u64) as usize];
        let span = match self {
            Any => Some(Span::<u16>::ALL),
            High => Span::new(1024, u16::MAX),
            One => Some(Span::only(named)),
            Few => Span::new(named, named + 1 + random.below(4000) as u16),
        };
        span.expect("the ends are in order")
    }
}

/// The set of rules for IPv6 that is to networks of IPv6 what one of IPv4 is to those of IPv4: a prefix of 8 bits becomes one
/// of 32, of 16 one of 48, of 24 one of 64, and what lies between, between; one address one address; all lie in 2000::/3.
/// Which prefixes contain which, and come before which, stays as it is; of ranges that are no prefixes, both ends become
/// addresses. `key` chooses the bits that are added.
pub fn ipv6(rules: &[Rule<u32>], key: u64) -> Vec<Rule<u128>> {
    let map = |span: Span<u32>| {
        let (low, high) = (span.low(), span.high());
        let same = (low ^ high).leading_zeros() as u8;
        let prefix = Span::from(Prefix::new(low, same).expect("there are at most 32 bits")) == span;
        let span = match prefix {
            true => Some(Prefix::new(longer(low, same, key), length(same)).expect("at most 128").into()),
            false => Span::new(longer(low, 32, key), longer(high, 32, key)),
        };
        span.expect("the order of addresses stays")
    };
    let rule = |rule: &Rule<u32>| {
        let Rule { source, destination, protocol, upper, flags, fragments, dscp, interfaces, mark } = rule.clone();
        let (source, destination) = (map(source), map(destination));
        let (protocol, upper) = match (protocol, upper) {
            // Echo and its reply, and what says that a packet did not arrive: RFC 4443.
            (Some(1), Upper::Icmp { kind, code }) if kind.low() == kind.high() => {
                let kind = match kind.low() {
                    0 => 129,
                    8 => 128,
                    11 => 3,
                    _ => 1,
                };
                (Some(58), Upper::Icmp { kind: Span::only(kind), code })
            }
            (Some(1), upper) => (Some(58), upper),
            others => others,
        };
        Rule { source, destination, protocol, upper, flags, fragments, dscp, interfaces, mark }
    };
    rules.iter().map(rule).collect()
}

/// How long a prefix becomes.
fn length(len: u8) -> u8 {
    match len {
        0..=8 => 4 * len,
        9..=24 => 16 + 2 * len,
        _ => 8 * (len - 16),
    }
}

/// The first bits of an address, each followed by others that depend on it and all before.
fn longer(address: u32, len: u8, key: u64) -> u128 {
    let mut long = 0u128;
    for bit in 0..len {
        let before = u64::from(address >> (31 - bit));
        // The finaliser of SplitMix64.
        let mut drawn = (before << 6 | u64::from(bit)).wrapping_add(key).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        drawn = (drawn ^ drawn >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ drawn >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let room = u32::from(length(bit + 1) - length(bit));
        let group = match bit {
            0 => 0b0010 | before,
            _ => (before & 1) << (room - 1) | drawn >> 32 & ((1 << (room - 1)) - 1),
        };
        long = long << room | u128::from(group);
    }
    match u32::from(length(len)) {
        0 => 0,
        room => long << (128 - room),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_table::classify::sample;

    /// Prefixes of both families contain each other alike, and lie in the same order.
    #[test]
    fn ipv6_is_shaped_as_ipv4() {
        let mut random = Random::from_seed(1);
        for kind in Alike::ALL {
            let rules = kind.rules(300, &mut random);
            let longer = ipv6(&rules, 7);
            for (one, long) in rules.iter().zip(&longer) {
                for (other, other_long) in rules.iter().zip(&longer) {
                    assert_eq!(one.source.covers(&other.source), long.source.covers(&other_long.source));
                    assert_eq!(one.destination.overlaps(&other.source), long.destination.overlaps(&other_long.source));
                    let before = one.source.high() < other.source.low();
                    assert_eq!(before, long.source.high() < other_long.source.low());
                }
                let all = one.source == Span::every();
                assert!(all == (long.source == Span::every()) && (all || long.source.low() >> 125 == 1), "{long:x?}");
            }
        }
        assert_eq!([0, 8, 16, 24, 28, 32].map(length), [0, 32, 48, 64, 96, 128]);
    }

    /// Ranges that are no prefixes are mapped by their ends.
    #[test]
    fn ranges_stay_in_order() {
        let mut random = Random::from_seed(2);
        let rules = sample::Adverse::Addresses.rules::<u32>(100, &mut random);
        for (one, long) in rules.iter().zip(ipv6(&rules, 3)) {
            for (other, other_long) in rules.iter().zip(ipv6(&rules, 3)) {
                assert_eq!(one.source.overlaps(&other.source), long.source.overlaps(&other_long.source));
            }
        }
    }

    /// The shares are as requested, and the same seed draws the same set.
    #[test]
    fn sets_have_their_shares() {
        let rules = Alike::Firewall.rules(20_000, &mut Random::from_seed(3));
        assert_eq!(rules, Alike::Firewall.rules(20_000, &mut Random::from_seed(3)));
        let share = |of: &dyn Fn(&Rule<u32>) -> bool| rules.iter().filter(|rule| of(rule)).count() * 1000 / 20_000;
        let tcp = share(&|rule| rule.protocol == Some(6));
        assert!((500..540).contains(&tcp), "{tcp}");
        let open = share(&|rule| rule.source == Span::every());
        assert!((430..490).contains(&open), "{open}");
        let flags = share(&|rule| rule.flags.mask() != 0);
        assert!((460..520).contains(&flags), "{flags}");
    }
}
