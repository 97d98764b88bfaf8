//! Rules of a table that are redundant, that count together, or that do not apply because a list of another kind
//! decides.
//!
//! The rules are sorted by prefix, so that those of one prefix stand together and a prefix before those inside of it, and
//! gone through once.

use ipnet::IpNet;
use weir_plane::model::{Match, Mode, SavRule};

use super::overlaps::{Found, Kind, NONE, Overlap};

/// Goes through rules that name interfaces below `interfaces`; an interface in `every` stands there because the rule is about
/// all of them, and nothing is said of it alone.
pub(super) fn find(rules: &[SavRule], interfaces: usize, matching: Match, every: impl Fn(&SavRule) -> bool) -> Found {
    let own = allowlists(rules, interfaces);
    let mut order: Vec<(IpNet, u32)> = (0..).zip(rules).map(|(at, rule)| (rule.prefix, at)).collect();
    order.sort_unstable();
    let mut found = Found::default();
    let mut group = Group { of: Mode::ALL.map(|_| vec![NONE; interfaces]), first: [NONE; 4] };
    // Prefixes around the one at hand that have an allowlist, and a rule of it.
    let mut around: Vec<(IpNet, u32)> = Vec::new();
    for same in order.chunk_by(|a, b| a.0 == b.0) {
        let prefix = same[0].0;
        found.prefixes[usize::from(prefix.addr().is_ipv6())] += 1;
        while around.pop_if(|(holder, _)| !holder.contains(&prefix)).is_some() {}
        let allows = same.iter().find(|(_, at)| rules[*at as usize].mode() == Mode::PrefixAllow);
        if let Some(&allows) = allows {
            around.push(allows);
        }
        let overrules = match matching {
            Match::MostSpecific => allows,
            Match::AnyCovering => around.last(),
        };
        for &(_, at) in same {
            let rule = &rules[at as usize];
            let not_asked = |at: u32, rule: &SavRule| {
                let interface = *rule.interfaces.iter().find(|interface| own[interface.0 as usize] != NONE)?;
                let other = own[interface.0 as usize];
                Some(Overlap { kind: Kind::NotAsked, rule: at, other, interface })
            };
            let overlap = group.again(rule, at).or_else(|| match rule.mode() {
                Mode::PrefixBlock if overrules.is_some() => {
                    let other = overrules.map_or(NONE, |&(_, other)| other);
                    Some(Overlap { kind: Kind::Overruled, rule: at, other, interface: rule.interfaces[0] })
                }
                Mode::InterfaceAllow => None,
                _ if every(rule) => None,
                _ => not_asked(at, rule),
            });
            found.overlaps.extend(overlap.or_else(|| group.together(rule, at)));
            group.add(rule, at);
        }
        for &(_, at) in same {
            group.forget(&rules[at as usize]);
        }
    }
    found.in_order(rules);
    found
}

/// The first rule of the allowlist of each interface that has one.
fn allowlists(rules: &[SavRule], interfaces: usize) -> Vec<u32> {
    let mut own = vec![NONE; interfaces];
    for (at, rule) in (0..).zip(rules).filter(|(_, rule)| rule.mode() == Mode::InterfaceAllow) {
        for interface in rule.interfaces.iter() {
            let first = &mut own[interface.0 as usize];
            *first = at.min(*first);
        }
    }
    own
}

/// The rules of a prefix that have been gone through.
struct Group {
    /// By mode and interface, the first rule.
    of: [Vec<u32>; 4],
    /// By mode, the first rule.
    first: [u32; 4],
}

impl Group {
    /// Earlier rules of the same kind name all interfaces of a rule.
    fn again(&self, rule: &SavRule, at: u32) -> Option<Overlap> {
        let of = &self.of[rule.mode() as usize - 1];
        let interface = rule.interfaces[0];
        let other = of[interface.0 as usize];
        let all = rule.interfaces.iter().all(|interface| of[interface.0 as usize] != NONE);
        all.then_some(Overlap { kind: Kind::Duplicate, rule: at, other, interface })
    }

    /// Earlier rules of the same kind, of a list that is the prefix's, name others.
    fn together(&self, rule: &SavRule, at: u32) -> Option<Overlap> {
        let mode = rule.mode();
        let other = self.first[mode as usize - 1];
        let of_prefix = matches!(mode, Mode::PrefixAllow | Mode::PrefixBlock);
        let new = rule.interfaces.iter().find(|it| self.of[mode as usize - 1][it.0 as usize] == NONE);
        let interface = *new.filter(|_| of_prefix && other != NONE)?;
        Some(Overlap { kind: Kind::Conflict, rule: at, other, interface })
    }

    fn add(&mut self, rule: &SavRule, at: u32) {
        let mode = rule.mode() as usize - 1;
        for interface in rule.interfaces.iter() {
            let first = &mut self.of[mode][interface.0 as usize];
            *first = at.min(*first);
        }
        self.first[mode] = at.min(self.first[mode]);
    }

    fn forget(&mut self, rule: &SavRule) {
        let mode = rule.mode() as usize - 1;
        for interface in rule.interfaces.iter() {
            self.of[mode][interface.0 as usize] = NONE;
        }
        self.first[mode] = NONE;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weir_plane::model::{InterfaceIndex, Origin, Scope};
    use weir_table::lpm::Prefix;
    use weir_table::sav::{Set, naive};

    use super::*;

    fn rules(rules: &[(&str, Mode, &[u32])]) -> Vec<SavRule> {
        let rule = |(origin, &(prefix, mode, interfaces)): (u32, &(&str, Mode, &[u32]))| SavRule {
            prefix: prefix.parse().expect(prefix),
            interfaces: interfaces.iter().copied().map(InterfaceIndex).collect(),
            permit: mode.permits(),
            scope: Scope::of(mode),
            origin: Origin(origin),
        };
        (1..).zip(rules).map(rule).collect()
    }

    fn kinds(list: &[(&str, Mode, &[u32])], matching: Match) -> Vec<(Kind, u32, u32)> {
        let found = find(&rules(list), 8, matching, |rule| rule.interfaces.len() == 8);
        found.overlaps.iter().map(|overlap| (overlap.kind, overlap.rule, overlap.other)).collect()
    }

    const ALLOW: Mode = Mode::PrefixAllow;
    const BLOCK: Mode = Mode::PrefixBlock;

    #[test]
    fn router_wide_rules_of_a_prefix_count_together() {
        for mode in [ALLOW, BLOCK] {
            let list = [
                ("10.0.0.0/8", mode, &[1, 2][..]),
                ("10.1.0.0/16", mode, &[1]),
                ("10.0.0.0/8", mode, &[2]),
                ("10.0.0.0/8", mode, &[2, 3]),
                ("::/0", mode, &[1]),
            ];
            let expected = [(Kind::Duplicate, 2, 0), (Kind::Conflict, 3, 0)];
            assert_eq!(kinds(&list, Match::MostSpecific), expected);
        }
    }

    #[test]
    fn lists_of_interfaces_are_apart() {
        for mode in [Mode::InterfaceAllow, Mode::InterfaceBlock] {
            let list = [
                ("10.0.0.0/8", mode, &[1, 2][..]),
                ("10.0.0.0/8", mode, &[2, 3]),
                ("10.0.0.0/8", mode, &[3, 1]),
                ("10.0.0.0/8", ALLOW, &[4]),
            ];
            assert_eq!(kinds(&list, Match::MostSpecific), [(Kind::Duplicate, 2, 1)]);
        }
    }

    #[test]
    fn the_allowlist_of_a_prefix_overrules_its_blocklist() {
        let list = [
            ("10.0.0.0/8", BLOCK, &[1][..]),
            ("10.0.0.0/8", ALLOW, &[1]),
            ("10.1.0.0/16", BLOCK, &[2]),
            ("11.0.0.0/8", BLOCK, &[2]),
            ("10.2.0.0/16", ALLOW, &[2]),
            ("10.3.0.0/16", BLOCK, &[2]),
        ];
        assert_eq!(kinds(&list, Match::MostSpecific), [(Kind::Overruled, 0, 1)]);
        let any = [(Kind::Overruled, 0, 1), (Kind::Overruled, 2, 1), (Kind::Overruled, 5, 1)];
        assert_eq!(kinds(&list, Match::AnyCovering), any);
    }

    #[test]
    fn an_interface_with_an_allowlist_is_asked_nothing_else() {
        let list = [
            ("10.0.0.0/8", Mode::InterfaceBlock, &[1][..]),
            ("12.0.0.0/8", ALLOW, &[2, 3]),
            ("13.0.0.0/8", BLOCK, &[4]),
            ("14.0.0.0/8", BLOCK, &[0, 1, 2, 3, 4, 5, 6, 7]),
            ("15.0.0.0/8", Mode::InterfaceBlock, &[4]),
            ("2001:db8::/32", Mode::InterfaceAllow, &[1, 3]),
        ];
        assert_eq!(kinds(&list, Match::MostSpecific), [(Kind::NotAsked, 0, 5), (Kind::NotAsked, 1, 5)]);
    }

    proptest! {
        /// Rules that an earlier one repeats, or that an allowlist overrules, can be left out, any of them.
        #[test]
        fn rules_that_never_decide_can_be_left_out(
            list in prop::collection::vec((0u8..16, 0u8..5, 1u32..8, prop::sample::select(&Mode::ALL)), 1..12),
            any_covering: bool,
            subset: u32,
        ) {
            let matching = if any_covering { Match::AnyCovering } else { Match::MostSpecific };
            let rule = |(origin, &(bits, length, set, mode)): (u32, &(u8, u8, u32, Mode))| SavRule {
                prefix: IpNet::new(std::net::Ipv4Addr::new(bits << 4, 0, 0, 0).into(), length).expect("a prefix").trunc(),
                interfaces: (0..3).filter(|bit| set >> bit & 1 == 1).map(InterfaceIndex).collect(),
                permit: mode.permits(),
                scope: Scope::of(mode),
                origin: Origin(origin),
            };
            let rules: Vec<SavRule> = (1..).zip(&list).map(rule).collect();
            let named = find(&rules, 3, matching, |_| false).overlaps;
            let named = named.iter().filter(|overlap| matches!(overlap.kind, Kind::Duplicate | Kind::Overruled));
            let named: Vec<usize> = named.map(|overlap| overlap.rule as usize).collect();
            let some = (0..named.len()).filter(|bit| subset >> bit & 1 == 1).map(|bit| named[bit]).collect::<Vec<_>>();
            let entry = |rule: &SavRule| {
                let IpNet::V4(net) = rule.prefix else { panic!("the rules are about IPv4") };
                let prefix = Prefix::new(net.network().to_bits(), net.prefix_len()).expect("a prefix");
                (prefix, rule.mode(), rule.interfaces.iter().map(|interface| interface.0).collect::<Set>())
            };
            let all: Vec<_> = rules.iter().map(entry).collect();
            for gone in named.iter().map(std::slice::from_ref).chain([&named[..], &some]) {
                let left = (0..rules.len()).filter(|at| !gone.contains(at)).map(|at| entry(&rules[at]));
                let left: Vec<_> = left.collect();
                for (source, interface) in (0u32..16).flat_map(|source| (0..3).map(move |interface| (source, interface))) {
                    let verdict = |rules: &[_]| naive::modes(rules, matching, source << 28, interface);
                    prop_assert_eq!(verdict(&left), verdict(&all), "without {:?}: {:?}", gone, rules);
                }
            }
        }
    }
}
