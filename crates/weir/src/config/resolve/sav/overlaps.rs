//! Rules of an ordered list that say nothing new, or contradict each other.
//!
//! The rules are sorted by prefix, so that a prefix precedes the prefixes inside of it, and are visited once. For each
//! interface, `first` has the first rule (in the order of the policy) among the rules that cover the present prefix and
//! name the interface. The changes that a prefix makes to it are undone after the last prefix inside of it. The cost is
//! that of sorting, and one step for each interface of each rule.

use ipnet::IpNet;
use weir_plane::model::{InterfaceIndex, SavRule};

/// The finding about a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An earlier rule has the same prefix, the interface, stands in the same kind of list, and does the same.
    Duplicate,
    /// Rules of one prefix: of a table, two router-wide ones name different interfaces; of a list, they do different things.
    Conflict,
    /// Earlier rules cover the prefix and have all of the interfaces; of a list.
    Shadowed,
    /// A rule of a prefix's blocklist, for which an allowlist decides; of a table.
    Overruled,
    /// A rule of a table that does not apply to an interface, which has an allowlist of its own.
    NotAsked,
}

impl Kind {
    /// The rule can be left out.
    pub(super) fn is_removable(self) -> bool {
        matches!(self, Kind::Duplicate | Kind::Shadowed | Kind::Overruled)
    }

    /// A rule for every source is of this kind only if it is so for both families.
    fn is_of_all(self) -> bool {
        matches!(self, Kind::Duplicate | Kind::Shadowed)
    }
}

/// A rule and another one, mostly earlier, that takes something from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Overlap {
    pub(super) kind: Kind,
    /// The rule, as an index of the list.
    pub(super) rule: u32,
    /// The other one.
    pub(super) other: u32,
    /// An interface that both name; where they name different ones, one of the rule's.
    pub(super) interface: InterfaceIndex,
}

/// The findings about the prefixes of a list.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// In the order of the list.
    pub(super) overlaps: Vec<Overlap>,
    /// How many different prefixes there are, of IPv4 and of IPv6.
    pub(super) prefixes: [usize; 2],
}

/// No rule.
pub(super) const NONE: u32 = u32::MAX;

/// Goes through rules that name interfaces below `interfaces`. The first that covers a source decides.
pub(super) fn find(rules: &[SavRule], interfaces: usize) -> Found {
    let mut order: Vec<(IpNet, u32)> = (0..).zip(rules).map(|(at, rule)| (rule.prefix, at)).collect();
    order.sort_unstable();
    let mut found = Found::default();
    let mut first = First { of: vec![NONE; interfaces], undo: Vec::new() };
    // The prefixes around the one at hand, and how much could be undone when they came.
    let mut around: Vec<(IpNet, usize)> = Vec::new();
    let mut groups = order.chunk_by(|a, b| a.0 == b.0).peekable();
    while let Some(group) = groups.next() {
        let prefix = group[0].0;
        found.prefixes[usize::from(prefix.addr().is_ipv6())] += 1;
        while let Some(&(holder, mark)) = around.last()
            && !holder.contains(&prefix)
        {
            first.undo_to(mark);
            around.pop();
        }
        around.push((prefix, first.undo.len()));
        let holds_next = groups.peek().is_some_and(|next| prefix.contains(&next[0].0));
        for (at, &(_, rule)) in group.iter().enumerate() {
            found.overlaps.extend(first.overlap(rules, rule));
            if at + 1 < group.len() || holds_next {
                first.add(rules, rule);
            }
        }
    }
    found.in_order(rules);
    found
}

impl Found {
    /// Puts what was found into the order of the list. A rule for every source is two there, of one origin: it is reported
    /// once.
    pub(super) fn in_order(&mut self, rules: &[SavRule]) {
        self.overlaps.sort_unstable_by_key(|overlap| overlap.rule);
        whole_rules(rules, &mut self.overlaps);
    }
}

/// The first rule that covers the prefix at hand, by interface.
struct First {
    of: Vec<u32>,
    /// The changes, with the values before.
    undo: Vec<(InterfaceIndex, u32)>,
}

impl First {
    fn add(&mut self, rules: &[SavRule], rule: u32) {
        for &interface in rules[rule as usize].interfaces.iter() {
            let first = &mut self.of[interface.0 as usize];
            if rule < *first {
                self.undo.push((interface, *first));
                *first = rule;
            }
        }
    }

    fn undo_to(&mut self, mark: usize) {
        for (interface, before) in self.undo.drain(mark..).rev() {
            self.of[interface.0 as usize] = before;
        }
    }

    fn earlier(&self, interface: InterfaceIndex, rule: u32) -> Option<u32> {
        Some(self.of[interface.0 as usize]).filter(|&first| first < rule)
    }

    /// Compares a rule with earlier rules that cover its prefix.
    fn overlap(&self, rules: &[SavRule], rule: u32) -> Option<Overlap> {
        let this = &rules[rule as usize];
        let same = |earlier: u32| rules[earlier as usize].prefix == this.prefix;
        let agrees = |earlier: u32| rules[earlier as usize].permit == this.permit;
        let mut all = true;
        let mut partly = None;
        for &interface in this.interfaces.iter() {
            match self.earlier(interface, rule) {
                None => all = false,
                Some(earlier) if same(earlier) && partly.is_none() => {
                    let kind = if agrees(earlier) { Kind::Duplicate } else { Kind::Conflict };
                    partly = Some(Overlap { kind, rule, other: earlier, interface });
                }
                Some(_) => {}
            }
            if !all && partly.is_some() {
                break;
            }
        }
        if !all {
            return partly;
        }
        match partly {
            Some(overlap) if overlap.kind == Kind::Duplicate => Some(overlap),
            _ => {
                let interface = this.interfaces[0];
                let earlier = self.earlier(interface, rule)?;
                Some(Overlap { kind: Kind::Shadowed, rule, other: earlier, interface })
            }
        }
    }
}

fn whole_rules(rules: &[SavRule], overlaps: &mut Vec<Overlap>) {
    let halves = |a: u32, b: u32| rules.get(b as usize).is_some_and(|b| b.origin == rules[a as usize].origin);
    let mut kept: Vec<Overlap> = Vec::with_capacity(overlaps.len());
    let mut rest = overlaps.drain(..).peekable();
    while let Some(overlap) = rest.next() {
        let second = rest.next_if(|next| next.rule == overlap.rule + 1 && halves(overlap.rule, next.rule));
        let is_half = halves(overlap.rule, overlap.rule + 1)
            || overlap.rule.checked_sub(1).is_some_and(|before| halves(before, overlap.rule));
        match second {
            Some(second) if !second.kind.is_of_all() => kept.push(second),
            Some(_) => kept.push(overlap),
            None if is_half && overlap.kind.is_of_all() => {}
            None => kept.push(overlap),
        }
    }
    drop(rest);
    *overlaps = kept;
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;
    use weir_plane::model::{Origin, Scope};
    use weir_table::lpm::Prefix;
    use weir_table::sav::{Set, naive};

    use super::*;

    fn rule((prefix, interfaces, permit): (&str, &[u32], bool), origin: u32) -> SavRule {
        SavRule {
            prefix: prefix.parse().expect(prefix),
            interfaces: interfaces.iter().copied().map(InterfaceIndex).collect(),
            permit,
            scope: Scope::Prefix,
            origin: Origin(origin),
        }
    }

    fn kinds(rules: &[(&str, &[u32], bool)]) -> Vec<(Kind, u32, u32)> {
        let rules: Vec<SavRule> = (1..).zip(rules).map(|(origin, &it)| rule(it, origin)).collect();
        let found = find(&rules, 8);
        found.overlaps.iter().map(|overlap| (overlap.kind, overlap.rule, overlap.other)).collect()
    }

    #[test]
    fn an_ordered_list() {
        let rules: &[(&str, &[u32], bool)] = &[
            ("10.1.0.0/16", &[1], true),
            ("10.0.0.0/8", &[1, 2], false),
            // Shadowed by two together.
            ("10.1.2.0/24", &[1, 2], true),
            ("10.1.0.0/16", &[1, 3], true),
            ("10.1.0.0/16", &[3, 4], false),
            ("10.1.0.0/16", &[3], false),
            ("11.0.0.0/8", &[1], true),
        ];
        let expected =
            [(Kind::Shadowed, 2, 0), (Kind::Duplicate, 3, 0), (Kind::Conflict, 4, 3), (Kind::Shadowed, 5, 3)];
        assert_eq!(kinds(rules), expected);
    }

    #[test]
    fn a_rule_for_every_source() {
        let any = |origin| [rule(("0.0.0.0/0", &[1], true), origin), rule(("::/0", &[1], true), origin)];
        let found = |rules: &[SavRule]| find(rules, 8).overlaps;
        let twice = [any(1), any(2)].concat();
        let [overlap] = found(&twice)[..] else { panic!("one finding") };
        assert_eq!((overlap.kind, overlap.rule, overlap.other), (Kind::Duplicate, 2, 0));
        let half = [&[rule(("0.0.0.0/0", &[1], true), 1)][..], &any(2)].concat();
        assert_eq!(found(&half), [], "the other family is new");
    }

    proptest! {
        #[test]
        fn what_is_shadowed_never_decides(
            rules in prop::collection::vec((0u8..16, 0u8..5, 1u32..8, any::<bool>()), 1..12),
            gone: u32,
        ) {
            let rules: Vec<SavRule> = (1..).zip(&rules).map(|(origin, &(bits, length, set, permit))| SavRule {
                prefix: IpNet::new(std::net::Ipv4Addr::new(bits << 4, 0, 0, 0).into(), length).expect("a prefix").trunc(),
                interfaces: (0..3).filter(|bit| set >> bit & 1 == 1).map(InterfaceIndex).collect::<Arc<[_]>>(),
                permit,
                scope: Scope::Prefix,
                origin: Origin(origin),
            }).collect();
            let decides = |source: u8, interface: u32| rules.iter().position(|rule| {
                rule.prefix.contains(&IpNet::from(std::net::IpAddr::from([source << 4, 0, 0, 0])))
                    && rule.interfaces.contains(&InterfaceIndex(interface))
            });
            let mut idle = vec![true; rules.len()];
            for (source, interface) in (0..16).flat_map(|source| (0..3).map(move |interface| (source, interface))) {
                if let Some(rule) = decides(source, interface) {
                    idle[rule] = false;
                }
            }
            // Prefixes inside of a rule's own may hide it together, too: that is not looked for.
            let covered = |at: usize| rules[at].interfaces.iter().all(|interface| rules[..at].iter().any(|earlier| {
                earlier.prefix.contains(&rules[at].prefix) && earlier.interfaces.contains(interface)
            }));
            let found = find(&rules, 3).overlaps;
            found.iter().for_each(|overlap| is_what_it_says(&rules, overlap));
            // Any of the shadowed rules can be left out: the verdict stays, and a known source stays known.
            let shadowed = found.iter().filter(|overlap| overlap.kind == Kind::Shadowed).map(|overlap| overlap.rule);
            let shadowed: Vec<usize> = shadowed.map(|rule| rule as usize).collect();
            let subset = (0..shadowed.len()).filter(|bit| gone >> bit & 1 == 1).map(|bit| shadowed[bit]);
            let subset: Vec<usize> = subset.collect();
            for gone in shadowed.iter().map(std::slice::from_ref).chain([&shadowed[..], &subset]) {
                let left: Vec<_> = (0..rules.len()).filter(|at| !gone.contains(at)).map(|at| entry(&rules[at])).collect();
                for (source, interface) in (0..16).flat_map(|source| (0..3).map(move |interface| (source, interface))) {
                    let verdict = |rules: &[_]| naive::ordered(rules, u32::from(source as u8) << 28, interface);
                    prop_assert_eq!(verdict(&left), verdict(&rules.iter().map(entry).collect::<Vec<_>>()));
                }
            }
            for (at, idle) in idle.into_iter().enumerate() {
                let whole = |overlap: &Overlap| overlap.kind == Kind::Shadowed || covered(at);
                let told = found.iter().any(|overlap| overlap.rule as usize == at && whole(overlap));
                prop_assert_eq!(told, covered(at));
                prop_assert!(!told || idle);
            }
        }
    }

    /// A rule as the specification has it.
    fn entry(rule: &SavRule) -> (Prefix<u32>, Set, bool) {
        let IpNet::V4(net) = rule.prefix else { panic!("the rules are about IPv4") };
        let prefix = Prefix::new(net.network().to_bits(), net.prefix_len()).expect("a prefix");
        (prefix, rule.interfaces.iter().map(|interface| interface.0).collect(), rule.permit)
    }

    /// Both rules of a finding have the interface, and the earlier one covers the later.
    fn is_what_it_says(rules: &[SavRule], overlap: &Overlap) {
        let (earlier, rule) = (&rules[overlap.other as usize], &rules[overlap.rule as usize]);
        assert!(overlap.other < overlap.rule && earlier.prefix.contains(&rule.prefix));
        assert!(earlier.interfaces.contains(&overlap.interface));
        assert!(rule.interfaces.contains(&overlap.interface));
        match overlap.kind {
            Kind::Duplicate => assert!(earlier.prefix == rule.prefix && earlier.permit == rule.permit),
            Kind::Conflict => assert!(earlier.prefix == rule.prefix && earlier.permit != rule.permit),
            Kind::Shadowed => {}
            Kind::Overruled | Kind::NotAsked => panic!("of tables"),
        }
    }
}
