//! The identity of rules: a rule that stays keeps its number and its counters, wherever it was declared and wherever it stands.

use std::collections::{HashMap, HashSet};

use super::sas::Sas;
use crate::model::{AclRule, Origin, SaIndex, Spd, SpdAction, SpdRule};

/// A rule without its origin, with the number of its pair of SAs for an index, and how many before it are the same. The pair of a rekey
/// has the number of the pair that it takes the place of: so the rule that comes first has the identity, whichever pair it names.
pub(super) type Key = (SpdRule, usize);

/// Returns a rule without its origin.
pub(super) fn anywhere(rule: &SpdRule) -> SpdRule {
    SpdRule { matches: AclRule { origin: Origin::default(), ..rule.matches.clone() }, ..rule.clone() }
}

/// Returns the packets that a rule matches: rules with equal selectors match the same ones.
pub(super) fn selectors(rule: &SpdRule) -> SpdRule {
    let own = anywhere(rule);
    SpdRule { action: SpdAction::Bypass, shared: false, rekeys: None, priority: 0, comment: None, ..own }
}

fn identity(rule: &SpdRule, base: u32) -> SpdRule {
    let action = match rule.action {
        SpdAction::Protect(_) => SpdAction::Protect(SaIndex(base)),
        other => other,
    };
    SpdRule { action, rekeys: None, ..anywhere(rule) }
}

/// Returns the identities by which rules have their numbers, in the order of the configuration.
fn numbered(rules: &[SpdRule], sas: &Sas) -> Vec<Key> {
    let mut seen: HashMap<SpdRule, usize> = HashMap::new();
    let of = |(rule, &base): (&SpdRule, &u32)| {
        let own = identity(rule, base);
        let times = seen.entry(own.clone()).or_default();
        *times += 1;
        (own, *times)
    };
    rules.iter().zip(&sas.bases).map(of).collect()
}

/// Returns the identities by which rules have their counters, in the order of the configuration. Both rules of a rekey have one.
pub(super) fn counted(rules: &[SpdRule], sas: &Sas) -> Vec<Key> {
    let mut seen: HashMap<(SpdRule, bool), usize> = HashMap::new();
    let of = |(rule, &base): (&SpdRule, &u32)| {
        let own = SpdRule { shared: false, ..identity(rule, base) };
        let times = seen.entry((own.clone(), rule.rekeys.is_some())).or_default();
        *times += 1;
        (own, *times)
    };
    rules.iter().zip(&sas.bases).map(of).collect()
}

/// The rules of an SPD in the order in which they are matched.
pub(super) struct Ordered {
    /// With their places in the configuration.
    keys: Vec<(Key, u32)>,
    /// A rule before it matches the same packets, and it shares no flows: it decides about no packet.
    is_hidden: Vec<bool>,
}

impl Ordered {
    pub(super) fn of(model: &Spd, sas: &Sas) -> Ordered {
        let mut keys: Vec<Option<Key>> = numbered(&model.rules, sas).into_iter().map(Some).collect();
        let order = model.order();
        let mut seen = HashSet::new();
        let hidden = |&place: &u32| {
            let rule = &model.rules[place as usize];
            !seen.insert(selectors(rule)) && !rule.shared
        };
        let is_hidden = order.iter().map(hidden).collect();
        let keys = order.iter().filter_map(|&place| Some((keys[place as usize].take()?, place))).collect();
        Ordered { keys, is_hidden }
    }

    /// Returns the numbers of the rules, by place, and how many numbers there are. `before` has the rules before, and the numbers of
    /// these by place. Rules that are new get free numbers, the least ones first.
    pub(super) fn numbers(&self, before: Option<(&Ordered, &[u32])>) -> (Vec<u32>, usize) {
        let known: HashMap<&Key, u32> = before
            .into_iter()
            .flat_map(|(own, numbers)| own.keys.iter().map(|(key, place)| (key, numbers[*place as usize])))
            .collect();
        let mut numbers: Vec<Option<u32>> = vec![None; self.keys.len()];
        for (key, place) in &self.keys {
            numbers[*place as usize] = known.get(key).copied();
        }
        let kept: HashSet<u32> = numbers.iter().flatten().copied().collect();
        let mut free = (0..=u32::MAX).filter(|number| !kept.contains(number));
        // There are fewer rules than numbers.
        let numbers: Vec<u32> =
            numbers.into_iter().map(|own| own.or_else(|| free.next()).unwrap_or(u32::MAX)).collect();
        let count = numbers.iter().max().map_or(0, |&most| most as usize + 1);
        (numbers, count)
    }

    /// Returns the rules that came, went or moved since: packets that none of them matches have the policy that they had.
    pub(super) fn changed_since(&self, before: &Ordered) -> Vec<SpdRule> {
        let at: HashMap<&Key, usize> = before.keys.iter().enumerate().map(|(at, (key, _))| (key, at)).collect();
        let kept: Vec<(usize, usize)> =
            self.keys.iter().enumerate().filter_map(|(now, (key, _))| Some((now, *at.get(key)?))).collect();
        let stays = longest_rising(&kept);
        let mut is_changed = vec![true; self.keys.len()];
        let mut was_changed = vec![true; before.keys.len()];
        for (now, at) in stays {
            (is_changed[now], was_changed[at]) = (false, false);
        }
        let rules = |of: &Ordered, is_changed: Vec<bool>| -> Vec<SpdRule> {
            let rules = of.keys.iter().zip(&of.is_hidden).zip(is_changed);
            let decides = rules.filter(|((_, is_hidden), is_changed)| *is_changed && !**is_hidden);
            decides.map(|((((rule, _), _), _), _)| rule.clone()).collect()
        };
        let mut all = rules(self, is_changed);
        let seen: HashSet<SpdRule> = all.iter().map(selectors).collect();
        all.extend(rules(before, was_changed).into_iter().filter(|rule| !seen.contains(&selectors(rule))));
        all
    }
}

/// Returns a longest part of a sequence whose second numbers rise.
fn longest_rising(sequence: &[(usize, usize)]) -> Vec<(usize, usize)> {
    // By length: the least end of a rising part of that length, by its place; and the one before each place.
    let (mut ends, mut previous): (Vec<usize>, Vec<Option<usize>>) = (Vec::new(), Vec::with_capacity(sequence.len()));
    for (place, (_, value)) in sequence.iter().enumerate() {
        let length = ends.partition_point(|&end| sequence[end].1 < *value);
        previous.push(length.checked_sub(1).map(|shorter| ends[shorter]));
        match ends.get_mut(length) {
            Some(end) => *end = place,
            None => ends.push(place),
        }
    }
    let mut part: Vec<(usize, usize)> =
        std::iter::successors(ends.last().copied(), |&place| previous[place]).map(|place| sequence[place]).collect();
    part.reverse();
    part
}

#[cfg(test)]
mod tests {
    use weir_base::random::Random;

    use super::super::sas::NO_SA;
    use super::*;
    use crate::model::{AclAction, IpFamily, SpdCache};

    fn rule(number: u8) -> SpdRule {
        let family = Some(IpFamily::V4);
        let matches =
            AclRule { family, mark: Some(number.into()), ..AclRule::all(AclAction::Permit, Origin::default()) };
        SpdRule::new(SpdAction::Bypass, matches)
    }

    fn spd(rules: &[SpdRule]) -> Spd {
        let (rules, origin) = (rules.to_vec().into(), Origin::default());
        Spd { name: "edge".into(), rules, cache: SpdCache::default(), origin }
    }

    fn ordered(rules: &[SpdRule]) -> Ordered {
        let bases = rules.iter().map(|rule| rule.rekeys.map_or(NO_SA, |sa| sa.0)).collect();
        Ordered::of(&spd(rules), &Sas { own: vec![NO_SA; rules.len()], bases })
    }

    #[test]
    fn the_longest_rising_part_is_found() {
        let mut random = Random::from_seed(11);
        for _ in 0..300 {
            let values: Vec<(usize, usize)> =
                (0..random.below(9) as usize).map(|at| (at, random.below(99) as usize)).collect();
            let found = longest_rising(&values);
            assert!(found.is_sorted_by(|one, next| one.0 < next.0 && one.1 < next.1), "{values:?} {found:?}");
            let longest = (0..1_u32 << values.len())
                .map(|mask| {
                    (0..values.len()).filter(|at| mask >> at & 1 == 1).map(|at| values[at].1).collect::<Vec<_>>()
                })
                .filter(|part| part.is_sorted_by(|one, next| one < next))
                .map(|part| part.len())
                .max();
            assert_eq!(Some(found.len()), longest, "{values:?}");
        }
    }

    #[test]
    fn rules_that_stay_keep_their_numbers_and_one_that_moves_alone_has_changed() {
        let before = [rule(0), rule(1), rule(2), rule(3)];
        let (numbers, count) = ordered(&before).numbers(None);
        assert_eq!((numbers.as_slice(), count), (&[0, 1, 2, 3][..], 4));
        let now = [rule(3), rule(0), rule(7), rule(2)];
        let (own, old) = (ordered(&now), ordered(&before));
        assert_eq!(own.numbers(Some((&old, &numbers))), (vec![3, 0, 1, 2], 4), "the new rule has the free number");
        let changed: HashSet<SpdRule> = own.changed_since(&old).into_iter().collect();
        assert_eq!(changed, HashSet::from([rule(3), rule(7), rule(1)]));
        assert!(old.changed_since(&old).is_empty());
    }

    #[test]
    fn a_rule_behind_one_with_its_selectors_changes_nothing() {
        let other = SpdRule { action: SpdAction::Discard, ..rule(1) };
        let shared = SpdRule { shared: true, ..other.clone() };
        let changed = |before: &[SpdRule], now: &[SpdRule]| ordered(now).changed_since(&ordered(before)).len();
        assert_eq!(changed(&[rule(1)], &[rule(1), other.clone()]), 0);
        assert_eq!(changed(&[rule(1), other.clone()], &[rule(1)]), 0);
        assert_eq!(changed(&[rule(1)], &[other.clone(), rule(1)]), 1);
        assert_eq!(changed(&[rule(1), other.clone()], &[other.clone(), rule(1)]), 1);
        assert_eq!(changed(&[rule(1), other], &[rule(1), shared]), 1, "a rule that shares flows decides about some");
    }
}
