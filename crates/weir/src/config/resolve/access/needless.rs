//! Rules that could be left out: those that can never match, and those without which all packets would fare alike.
//!
//! A rule of both families counts only if it could be left out for both. What is found for one family takes for granted that
//! what else is found there is left out; so a rule that stays because of the other family is put to the question again as one
//! that stays.

use std::collections::{BTreeSet, HashMap};

use weir_plane::compile::boxes::{Bits, boxes};
use weir_plane::model::{AclAction, AclDefault, AclLimit, AclRule, Sampling};
use weir_table::classify::cover::{Effort, Finding, Kind, Listed, Report, analyse_but};

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(in super::super) struct Needless {
    /// Rules that could be left out, all of them together, in order.
    pub(in super::super) findings: Vec<Finding>,
    /// How many rules there are of which it could not be told in time.
    pub(in super::super) undecided: usize,
}

/// What rules do to packets: equal numbers stand for what makes no difference.
#[derive(Default)]
pub(in super::super) struct Verdicts {
    known: HashMap<(AclAction, Option<Sampling>), u32>,
    next: u32,
}

impl Verdicts {
    /// Of a rule, whose list has packets sampled so.
    pub(in super::super) fn of(&mut self, rule: &AclRule, sample: Option<Sampling>) -> u32 {
        match &rule.limit {
            // Each limit has a bucket of its own.
            Some(AclLimit { .. }) => self.unlike_all(),
            None => self.number((rule.action, sample.filter(|_| rule.log))),
        }
    }

    /// Of the end of a list.
    pub(in super::super) fn of_default(&mut self, default: AclDefault) -> u32 {
        match default {
            AclDefault::Next => self.unlike_all(),
            AclDefault::Action(action) => self.number((action, None)),
        }
    }

    fn number(&mut self, verdict: (AclAction, Option<Sampling>)) -> u32 {
        let next = self.next;
        let number = *self.known.entry(verdict).or_insert(next);
        self.next += u32::from(number == next);
        number
    }

    fn unlike_all(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }
}

/// How often rules that stay may be found to be more than thought.
const ROUNDS: usize = 4;

/// Looks at rules in their order, each with its verdict.
pub(in super::super) fn analyse(rules: &[(&AclRule, u32)], unmatched: u32) -> Needless {
    look(rules, unmatched, vec![false; rules.len()])
}

/// The same for rules that can never match, alone: the others stay. That is the lesser part of the work.
pub(in super::super) fn analyse_never(rules: &[(&AclRule, u32)]) -> Needless {
    // What no rule matches makes no difference to what never matches.
    look(rules, u32::MAX, vec![true; rules.len()])
}

/// Looks for rules that could be left out. Of those that stay, it is only told whether they never match.
fn look(rules: &[(&AclRule, u32)], unmatched: u32, mut stays: Vec<bool>) -> Needless {
    let (v4, v6) = (Of::<u32>::new(rules), Of::<u128>::new(rules));
    let mut rounds = 0;
    loop {
        let (of_v4, of_v6) = (v4.found(unmatched, &stays), v6.found(unmatched, &stays));
        let mut needless = Needless::default();
        let undecided: BTreeSet<usize> = of_v4.undecided.iter().chain(&of_v6.undecided).copied().collect();
        needless.undecided = undecided.len();
        let (mut of_v4, mut of_v6) = (of_v4.findings.into_iter().peekable(), of_v6.findings.into_iter().peekable());
        let mut settled = true;
        for (rule, stays) in stays.iter_mut().enumerate() {
            let found_v4 = of_v4.next_if(|finding| finding.rule == rule);
            let found_v6 = of_v6.next_if(|finding| finding.rule == rule);
            // Of the family that a rule is not about, nothing is asked.
            let found = match (v4.has(rule).then_some(found_v4), v6.has(rule).then_some(found_v6)) {
                (Some(one), None) | (None, Some(one)) => one,
                (Some(Some(one)), Some(Some(other))) => Some(both(one, other)),
                (Some(None), Some(None)) | (None, None) => None,
                _ => {
                    settled &= *stays;
                    *stays = true;
                    None
                }
            };
            needless.findings.extend(found);
        }
        if settled {
            return needless;
        }
        rounds += 1;
        if rounds == ROUNDS {
            // That a rule never matches does not hang on others.
            needless.findings.retain(|finding| finding.kind == Kind::Never);
            return needless;
        }
    }
}

/// What was found of a rule in both families.
fn both(one: Finding, other: Finding) -> Finding {
    let by: BTreeSet<usize> = one.by.into_iter().chain(other.by).collect();
    Finding {
        kind: one.kind.max(other.kind),
        by: by.into_iter().collect(),
        unmatched: one.unmatched || other.unmatched,
        ..other
    }
}

/// Rules as they are about a family.
struct Of<K> {
    boxes: Vec<Vec<weir_table::classify::Rule<K>>>,
    verdicts: Vec<u32>,
}

impl<K: Bits> Of<K> {
    fn new(rules: &[(&AclRule, u32)]) -> Of<K> {
        Of {
            boxes: rules.iter().map(|(rule, _)| boxes(rule, |interface| interface.0)).collect(),
            verdicts: rules.iter().map(|(_, verdict)| *verdict).collect(),
        }
    }

    /// Whether a rule is about the family.
    fn has(&self, rule: usize) -> bool {
        !self.boxes[rule].is_empty()
    }

    fn found(&self, unmatched: u32, stays: &[bool]) -> Report {
        // What is about the other family is not there.
        let own: Vec<usize> = (0..self.boxes.len()).filter(|&rule| self.has(rule)).collect();
        let list = own.iter().map(|&rule| Listed { boxes: &self.boxes[rule], verdict: self.verdicts[rule] });
        let list: Vec<Listed<'_, K>> = list.collect();
        if list.is_empty() {
            return Report::default();
        }
        // Without room for them, nothing can be told of any.
        let report = analyse_but(&list, unmatched, Effort::default(), |rule| stays[own[rule]])
            .unwrap_or_else(|_| Report { findings: Vec::new(), undecided: (0..own.len()).collect() });
        let findings = report.findings.into_iter().map(|finding| Finding {
            rule: own[finding.rule],
            by: finding.by.into_iter().map(|rule| own[rule]).collect(),
            ..finding
        });
        Report { findings: findings.collect(), undecided: report.undecided.into_iter().map(|rule| own[rule]).collect() }
    }
}

#[cfg(test)]
mod tests {
    use weir_plane::model::Origin;

    use super::*;
    use crate::rules::acl;

    /// What is found of rules in these words, at whose end packets are denied.
    fn found(texts: &[&str]) -> Vec<(usize, Kind, Vec<usize>)> {
        let rules: Vec<AclRule> = texts
            .iter()
            .map(|text| match acl::understand(text, &acl::Vocabulary::default(), Origin(0)) {
                Ok((rule, _)) => rule,
                Err(found) => panic!("{text}: {found}"),
            })
            .collect();
        let mut verdicts = Verdicts::default();
        let listed: Vec<_> = rules.iter().map(|rule| (rule, verdicts.of(rule, None))).collect();
        let needless = analyse(&listed, verdicts.of_default(AclDefault::Action(AclAction::Deny)));
        assert_eq!(needless.undecided, 0);
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
        let texts = [
            "permit tcp from any to any port 1-9",
            "deny tcp from any to any port 5",
            "permit tcp from any to any",
            "permit ip6 from any to any",
            "deny udp from any to any port 7",
        ];
        let rules = texts.map(|text| acl::understand(text, &acl::Vocabulary::default(), Origin(0)).unwrap().0);
        let mut verdicts = Verdicts::default();
        let listed: Vec<_> = rules.iter().map(|rule| (rule, verdicts.of(rule, None))).collect();
        let all = analyse(&listed, verdicts.of_default(AclDefault::Next));
        let never = analyse_never(&listed);
        assert_eq!(all.findings.iter().map(|finding| finding.kind).collect::<Vec<_>>(), [Kind::Redundant, Kind::Never]);
        assert_eq!(never.findings, all.findings[1..]);
        assert_eq!(never.findings[0].by, [0]);
    }

    #[test]
    fn what_stays_for_one_family_counts_in_the_other() {
        // For IPv4, the second never matches and the first could go if the second did. IPv6 needs the second.
        let rules = [
            "permit ip4 from any to any",
            "reject tcp from any to any",
            "permit ip4 from any to any",
            "permit ip6 from any to any",
        ];
        assert_eq!(found(&rules), [(2, Kind::Never, vec![0])]);
    }

    #[test]
    fn what_does_more_than_others_is_no_repetition() {
        let rules = ["deny tcp from any to any", "deny udp from any to any log"];
        assert_eq!(found(&rules).len(), 2, "nothing samples");
        let rules = ["permit tcp from any to any limit 1pps", "permit tcp from any to any"];
        assert_eq!(found(&rules), [(1, Kind::Never, vec![0])]);
        let rules = ["permit tcp from any to any port 1-9", "permit tcp from any to any"];
        assert_eq!(found(&rules), [(0, Kind::Redundant, vec![1])]);
    }
}
