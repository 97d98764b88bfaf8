//! Finds rules that can be left out: rules that never match, and rules without which all packets get the same verdict.
//!
//! Any of the rules found can be left out, alone or together. So a rule of both families is found if it is found for each of
//! them: what holds for all rules found of a family holds for some of them, too.
//!
//! # Fragments
//! Where a rule of a list looks at ports, types or flags, later fragments wait for the first one of their packet and are
//! judged by it, and a first fragment has to hold the header. So one such rule has to stay in each list that has any:
//! [`needed_for_fragments`].

use std::collections::{BTreeSet, HashMap};

use weir_plane::compile::boxes::{Bits, boxes, needs_transport};
use weir_plane::model::{AclAction, AclDefault, AclRule, IpFamily};
use weir_table::classify::Rule;
use weir_table::classify::cover::{Effort, Finding, Listed, Report, analyse, never};

/// The rules of a list that can be left out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Needless {
    /// In the order of the list.
    pub(in super::super) findings: Vec<Finding>,
    /// Rules for which the search took too long, in order.
    pub(in super::super) undecided: Vec<usize>,
}

/// Numbers for what rules do to packets: equal numbers stand for what makes no difference.
#[derive(Default)]
pub(in super::super) struct Verdicts {
    known: HashMap<AclAction, u32>,
    next: u32,
}

impl Verdicts {
    /// The number of a rule. A rule with a limit has a bucket of its own, samples name the rule that logs, and a rule may
    /// have its flows learned in another way.
    pub(in super::super) fn of(&mut self, rule: &AclRule) -> u32 {
        if rule.limit.is_some() || rule.log || rule.flow.is_some() {
            self.unlike_all()
        } else {
            self.number(rule.action)
        }
    }

    /// The number of the end of a list.
    pub(in super::super) fn of_default(&mut self, default: AclDefault) -> u32 {
        match default {
            AclDefault::Next => self.unlike_all(),
            AclDefault::Action(action) => self.number(action),
        }
    }

    fn number(&mut self, action: AclAction) -> u32 {
        let next = self.next;
        let number = *self.known.entry(action).or_insert(next);
        self.next += u32::from(number == next);
        number
    }

    fn unlike_all(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }
}

/// Finds the rules that can be left out of a list with this end.
pub(in super::super) fn needless(rules: &[AclRule], default: AclDefault) -> Needless {
    let mut verdicts = Verdicts::default();
    let listed: Vec<_> = rules.iter().map(|rule| (rule, verdicts.of(rule))).collect();
    both(&listed, Some(verdicts.of_default(default)))
}

/// Finds the rules that never match, and no others.
pub(super) fn shadowed(rules: &[&AclRule]) -> Needless {
    let listed: Vec<_> = rules.iter().map(|rule| (*rule, 0)).collect();
    both(&listed, None)
}

/// Takes rules that have to stay for the sake of fragments out of the named ones, and returns them. If all rules of a
/// family that match ports, types or flags are named, the first of them stays, or the first that applies to both
/// families.
pub(super) fn needed_for_fragments(rules: &[AclRule], named: &mut [bool]) -> BTreeSet<usize> {
    let mut needed = BTreeSet::new();
    for (family, other) in [(IpFamily::V4, IpFamily::V6), (IpFamily::V6, IpFamily::V4)] {
        let looking: Vec<usize> = (0..rules.len()).filter(|&rule| needs_transport(&rules[rule], family)).collect();
        if looking.iter().all(|&rule| named[rule]) {
            let both = looking.iter().find(|&&rule| needs_transport(&rules[rule], other));
            if let Some(&rule) = both.or(looking.first()) {
                named[rule] = false;
                needed.insert(rule);
            }
        }
    }
    needed
}

/// Finds rules in each family that they are about. Each has its verdict; without one of packets that no rule matches, only
/// rules are found that never match.
fn both(rules: &[(&AclRule, u32)], unmatched: Option<u32>) -> Needless {
    let (v4, v6) = (Of::new::<u32>(rules, unmatched), Of::new::<u128>(rules, unmatched));
    let undecided: BTreeSet<usize> = v4.undecided.iter().chain(&v6.undecided).copied().collect();
    let mut needless = Needless { findings: Vec::new(), undecided: undecided.into_iter().collect() };
    let (mut of_v4, mut of_v6) = (v4.findings.into_iter().peekable(), v6.findings.into_iter().peekable());
    for rule in 0..rules.len() {
        let found_v4 = of_v4.next_if(|finding| finding.rule == rule);
        let found_v6 = of_v6.next_if(|finding| finding.rule == rule);
        needless.findings.extend(match (v4.has[rule], v6.has[rule]) {
            (true, false) => found_v4,
            (false, true) => found_v6,
            (true, true) => found_v4.zip(found_v6).map(|(one, other)| merged(one, other)),
            (false, false) => None,
        });
    }
    needless
}

/// Merges the findings about a rule in both families.
fn merged(one: Finding, other: Finding) -> Finding {
    let by: BTreeSet<usize> = one.by.into_iter().chain(other.by).collect();
    Finding {
        kind: one.kind.max(other.kind),
        by: by.into_iter().collect(),
        unmatched: one.unmatched || other.unmatched,
        ..other
    }
}

/// The findings about a family.
struct Of {
    /// By rule: whether it is about the family.
    has: Vec<bool>,
    findings: Vec<Finding>,
    undecided: Vec<usize>,
}

impl Of {
    fn new<K: Bits>(rules: &[(&AclRule, u32)], unmatched: Option<u32>) -> Of {
        let boxes: Vec<Vec<Rule<K>>> = rules.iter().map(|(rule, _)| boxes(rule, |interface| interface.0)).collect();
        let has: Vec<bool> = boxes.iter().map(|boxes| !boxes.is_empty()).collect();
        // Rules of the other family are not there.
        let own: Vec<usize> = (0..rules.len()).filter(|&rule| has[rule]).collect();
        let list: Vec<Listed<'_, K>> =
            own.iter().map(|&rule| Listed { boxes: &boxes[rule], verdict: rules[rule].1 }).collect();
        if list.is_empty() {
            return Of { has, findings: Vec::new(), undecided: Vec::new() };
        }
        let report = match unmatched {
            Some(unmatched) => analyse(&list, unmatched, Effort::default()),
            None => never(&list, Effort::default()),
        };
        // Without room for a classifier, nothing is known of any rule.
        let report = report.unwrap_or_else(|_| Report { findings: Vec::new(), undecided: (0..own.len()).collect() });
        let findings = report.findings.into_iter().map(|finding| Finding {
            rule: own[finding.rule],
            by: finding.by.into_iter().map(|rule| own[rule]).collect(),
            ..finding
        });
        let findings = findings.collect();
        Of { has, findings, undecided: report.undecided.into_iter().map(|rule| own[rule]).collect() }
    }
}

#[cfg(test)]
mod tests {
    use weir_plane::model::Origin;
    use weir_table::classify::cover::Kind;

    use super::*;
    use crate::rules::acl;

    fn rules(texts: &[&str]) -> Vec<AclRule> {
        let rule = |text: &&str| match acl::understand(text, &acl::Vocabulary::default(), Origin(0)) {
            Ok((rule, _)) => rule,
            Err(found) => panic!("{text}: {found}"),
        };
        texts.iter().map(rule).collect()
    }

    /// Returns the findings about rules in these words, with default `deny`.
    fn found(texts: &[&str]) -> Vec<(usize, Kind, Vec<usize>)> {
        let needless = needless(&rules(texts), AclDefault::Action(AclAction::Deny));
        assert!(needless.undecided.is_empty());
        needless.findings.into_iter().map(|finding| (finding.rule, finding.kind, finding.by)).collect()
    }

    #[test]
    fn a_rule_has_to_be_needless_for_each_family_that_it_is_about() {
        let rules = ["permit ip4 from any to any", "deny tcp from any to any", "permit ip6 from any to any"];
        assert_eq!(found(&rules), [], "IPv6 needs both");
        let rules = ["permit ip4 from any to any", "deny tcp from any to any", "permit udp from any to any"];
        assert_eq!(found(&rules), [(1, Kind::Redundant, vec![0])], "what none matches of IPv6 is denied");
        let rules = ["permit ip4 from any to any", "permit ip6 from any to any", "deny tcp from any to any"];
        assert_eq!(found(&rules), [(2, Kind::Never, vec![0, 1])]);
        let rules = ["permit ip4 from any to any", "deny tcp from 10.0.0.0/8 to any"];
        assert_eq!(found(&rules), [(1, Kind::Never, vec![0])]);
    }

    #[test]
    fn what_never_matches_is_found_by_itself() {
        let rules = rules(&[
            "permit tcp from any to any port 1-9",
            "permit tcp from any to any port 5",
            "permit tcp from any to any",
            "permit ip6 from any to any",
            "deny udp from any to any port 7",
        ]);
        let all = needless(&rules, AclDefault::Next);
        let never = shadowed(&rules.iter().collect::<Vec<_>>());
        assert_eq!(all.findings.iter().map(|finding| finding.kind).collect::<Vec<_>>(), [Kind::Redundant, Kind::Never]);
        assert_eq!(never.findings, all.findings[1..]);
        assert_eq!(never.findings[0].by, [0]);
    }

    #[test]
    fn a_rule_is_needed_that_keeps_another_verdict_in_the_shadow() {
        let shadowing =
            ["deny tcp from 192.0.2.0/24 to any", "permit tcp from 192.0.2.0/28 to any", "deny ip from any to any"];
        assert_eq!(found(&shadowing), [(1, Kind::Never, vec![0]), (2, Kind::Redundant, vec![])]);
        let all = ["deny ip from any to any", "permit tcp from any to any"];
        assert_eq!(found(&all), [(1, Kind::Never, vec![0])]);
        let rules = [
            "permit ip4 from any to any",
            "reject tcp from any to any",
            "permit ip4 from any to any",
            "permit ip6 from any to any",
        ];
        assert_eq!(found(&rules), [(2, Kind::Never, vec![0])], "IPv6 needs the second");
    }

    #[test]
    fn what_does_more_than_others_is_no_repetition() {
        let rules = ["permit tcp from any to any log", "permit udp from any to any", "permit ip from any to any"];
        assert_eq!(found(&rules), [(1, Kind::Redundant, vec![2])]);
        let rules = ["permit tcp from any to any limit 1pps", "permit tcp from any to any"];
        assert_eq!(found(&rules), [(1, Kind::Never, vec![0])]);
        let rules = ["permit tcp from any to any port 1-9", "permit tcp from any to any"];
        assert_eq!(found(&rules), [(0, Kind::Redundant, vec![1])]);
    }

    #[test]
    fn one_rule_on_ports_stays_for_each_family() {
        let needed = |texts: &[&str], named: &[usize]| {
            let mut flags = vec![false; texts.len()];
            named.iter().for_each(|rule| flags[*rule] = true);
            let needed = Vec::from_iter(needed_for_fragments(&rules(texts), &mut flags));
            assert!(needed.iter().all(|rule| !flags[*rule]));
            needed
        };
        let ports =
            ["permit ip4 from any to any", "deny tcp from any to any port 7", "deny udp from any to any port 7"];
        assert!(needed(&ports, &[1]).is_empty());
        assert_eq!(needed(&ports, &[1, 2]), [1]);
        let families = ["permit udp from 10.0.0.0/8 to any port 7", "permit icmp6 from any to any type echo-request"];
        assert_eq!(needed(&families, &[0]), [0], "no other rule is about IPv4");
        assert_eq!(needed(&families, &[0, 1]), [0, 1]);
        let both = ["permit udp from 10.0.0.0/8 to any port 7", "permit udp from any to any port 7"];
        assert_eq!(needed(&both, &[0, 1]), [1], "it is about IPv4, too");
        let whole = ["permit udp from any to any port 0-65535", "permit icmp from any to any"];
        assert!(needed(&whole, &[0, 1]).is_empty(), "these look at no port or type");
    }
}
