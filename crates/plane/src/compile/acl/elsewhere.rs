//! Rules outside of access lists that name groups: NAT rules, steer rules, rules of SPDs, and exemptions of policies of source
//! address validation. The model in force has them with the members that groups have now.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::error::AclError;
use super::groups::{AclGroup, names};
use super::resolve::{self, All};
use crate::compile::boxes::{count, count_of};
use crate::model::{AclRule, Addresses, Gateway, IpFamily, NatRule, NatTarget};

/// A rule outside of access lists.
pub(super) struct Site<'g> {
    /// The kind of its list.
    kind: Kind,
    /// The name of its list.
    list: &'g str,
    /// Its place there, counted from 1.
    place: usize,
    /// The packets that it matches.
    matches: &'g AclRule,
    /// The addresses that packets get.
    targets: [Option<&'g Addresses>; 2],
}

/// The kinds of lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Nat,
    Steer,
    Spd,
    Sav,
}

impl Kind {
    /// The name of its table in the configuration.
    const fn name(self) -> &'static str {
        match self {
            Kind::Nat => "nat",
            Kind::Steer => "steer",
            Kind::Spd => "spd",
            Kind::Sav => "sav",
        }
    }
}

impl<'g> Site<'g> {
    fn plain(kind: Kind, list: &'g str, (place, matches): (usize, &'g AclRule)) -> Site<'g> {
        Site { kind, list, place, matches, targets: [None, None] }
    }

    /// The groups that the rule names.
    pub(super) fn names(&self) -> impl Iterator<Item = &'g Arc<str>> + use<'g> {
        let named =
            |addresses: &'g Addresses| if let Addresses::Group(group) = addresses { Some(&group.name) } else { None };
        names(self.matches).chain(self.targets.into_iter().flatten().filter_map(named))
    }

    /// More packets might pass without a member of a group that the rule names.
    pub(super) fn protects(&self) -> bool {
        self.kind != Kind::Nat
    }

    /// The list of the rule in words.
    fn of(&self) -> String {
        format!("{} {}", self.kind.name(), self.list)
    }

    /// Whether the rule matches something with the members that its groups have now.
    pub(super) fn fits(&self, groups: &All<'_>) -> bool {
        let Ok(matches) = groups.resolve(self.matches) else { return true };
        let is_of = |family: IpFamily| {
            let target = |target: &&Addresses| {
                let mut now = (*target).clone();
                resolve::addresses(&mut now, |name| groups.find(name)).is_err() || has(&now, family)
            };
            count_of(&matches, family) > 0 && self.targets.iter().flatten().all(target)
        };
        match self.targets {
            [None, None] => count(&matches) > 0,
            _ => is_of(IpFamily::V4) || is_of(IpFamily::V6),
        }
    }
}

/// Whether addresses have any of a family.
fn has(addresses: &Addresses, family: IpFamily) -> bool {
    let is = |v4: bool| v4 == (family == IpFamily::V4);
    match addresses {
        Addresses::Any => true,
        Addresses::Net(net) => is(net.addr().is_ipv4()),
        Addresses::Range(first, _) => is(first.is_ipv4()),
        Addresses::Group(group) => group.members.iter().any(|member| has(member, family)),
    }
}

/// Returns the rules outside of access lists.
pub(super) fn sites(gateway: &Gateway) -> impl Iterator<Item = Site<'_>> {
    let nat = gateway.nat.iter().flat_map(|list| {
        (1..).zip(&*list.rules).map(|(place, rule)| {
            let targets = [&rule.source, &rule.destination].map(|target| target.as_ref()?.addresses.as_ref());
            Site { targets, ..Site::plain(Kind::Nat, &list.name, (place, &rule.matches)) }
        })
    });
    let steer = gateway.steer.iter().flat_map(|list| {
        (1..).zip(list.rules.iter().map(|rule| &rule.matches)).map(|own| Site::plain(Kind::Steer, &list.name, own))
    });
    let spd = gateway.spds.iter().flat_map(|spd| {
        (1..).zip(spd.rules.iter().map(|rule| &rule.matches)).map(|own| Site::plain(Kind::Spd, &spd.name, own))
    });
    let sav = gateway
        .sav
        .iter()
        .flat_map(|policy| (1..).zip(policy.exempt.iter()).map(|own| Site::plain(Kind::Sav, &policy.name, own)));
    nat.chain(steer).chain(spd).chain(sav)
}

/// Counts the rules outside of access lists that name one of these groups.
///
/// # Errors
/// When one of them would match nothing with the members that groups have now.
pub(super) fn naming(gateway: &Gateway, of: &HashSet<&Arc<str>>, groups: &All<'_>) -> Result<usize, AclError> {
    let mut rules = 0;
    for site in sites(gateway).filter(|site| site.names().any(|name| of.contains(name))) {
        if !site.fits(groups) {
            return Err(AclError::NoFamilyIn { of: site.of(), place: site.place });
        }
        rules += 1;
    }
    Ok(rules)
}

/// Returns the lists with rules that name a group, each with the places of these rules.
pub(super) fn users(gateway: &Gateway, group: &str) -> Vec<(String, Vec<u32>)> {
    let mut users: Vec<(String, Vec<u32>)> = Vec::new();
    for site in sites(gateway).filter(|site| site.names().any(|name| **name == *group)) {
        let (of, place) = (site.of(), site.place as u32);
        match users.last_mut().filter(|(last, _)| *last == of) {
            Some((_, places)) => places.push(place),
            None => users.push((of, vec![place])),
        }
    }
    users
}

/// Gives the rules outside of access lists the members of these groups. Rules that name another group stay as they are.
/// Returns whether some rule has other members now.
pub fn regroup(groups: &[AclGroup], gateway: &mut Gateway) -> bool {
    let known: HashMap<&str, &AclGroup> = groups.iter().map(|group| (&**group.name(), group)).collect();
    let find = |name: &str| known.get(name).map(|&group| group.clone());
    let now = |rule: &AclRule| -> Option<AclRule> {
        names(rule).next()?;
        resolve::resolve(rule, find).ok().filter(|now| now != rule)
    };
    let target = |own: &Option<NatTarget>| -> Option<NatTarget> {
        let own = own.as_ref()?;
        let mut addresses = own.addresses.clone()?;
        resolve::addresses(&mut addresses, find).ok()?;
        (own.addresses.as_ref() != Some(&addresses)).then(|| NatTarget { addresses: Some(addresses), ..own.clone() })
    };
    let nat = |rule: &NatRule| -> Option<NatRule> {
        let (matches, source, destination) = (now(&rule.matches), target(&rule.source), target(&rule.destination));
        (matches.is_some() || source.is_some() || destination.is_some()).then(|| NatRule {
            matches: matches.unwrap_or_else(|| rule.matches.clone()),
            source: source.or_else(|| rule.source.clone()),
            destination: destination.or_else(|| rule.destination.clone()),
            ..rule.clone()
        })
    };
    let mut differs = false;
    for list in &mut gateway.nat {
        differs |= renew(&mut list.rules, nat);
    }
    for list in &mut gateway.steer {
        differs |= renew(&mut list.rules, |rule| {
            now(&rule.matches).map(|matches| crate::model::SteerRule { matches, ..rule.clone() })
        });
    }
    for spd in &mut gateway.spds {
        differs |= renew(&mut spd.rules, |rule| {
            now(&rule.matches).map(|matches| crate::model::SpdRule { matches, ..rule.clone() })
        });
    }
    for policy in &mut gateway.sav {
        differs |= renew(&mut policy.exempt, now);
    }
    differs
}

/// Replaces the rules for which `now` returns another one. Returns whether there are any: else the rules stay shared.
fn renew<R: Clone>(rules: &mut Arc<[R]>, now: impl Fn(&R) -> Option<R>) -> bool {
    let new: Vec<(usize, R)> = rules.iter().enumerate().filter_map(|(at, rule)| Some((at, now(rule)?))).collect();
    if new.is_empty() {
        return false;
    }
    let all = Arc::make_mut(rules);
    for (at, rule) in new {
        all[at] = rule;
    }
    true
}
