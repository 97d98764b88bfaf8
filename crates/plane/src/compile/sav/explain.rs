//! Which rule or route decided about a source, in words: for people, not for packets.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_table::sav::{Match, Verdict};

use super::decision::{Candidate, Decision, Facts, Named, Nearest, of_policy};
use super::engine::Meaning;
use super::explain_lists::by_lists;
use super::kept::{Kept, Store, unknown_is_valid};
use crate::compile::rib::Source;
use crate::graph::record;
use crate::model::{Mechanism, SavAction, SavPolicy, Urpf, UrpfMode};
use crate::root::{Forwarding, Root};

impl Store {
    /// Returns the decision about a source that entered by an interface (its number), for the result of a node.
    pub(in crate::compile) fn decision(
        &self,
        facts: Facts<'_>,
        policy: u16,
        interface: u32,
        source: IpAddr,
        said: record::Said,
    ) -> Option<Decision> {
        let policy = facts.gateway.sav.get(usize::from(policy))?;
        let name = facts.root.interfaces.get(interface as usize)?.name.to_string();
        let mut decision = Decision {
            policy: policy.name.clone(),
            mechanism: policy.mechanism.name(),
            interface: name,
            source,
            verdict: "invalid",
            passes: matches!(self.actions.action(policy), SavAction::Permit | SavAction::RateLimit),
            why: String::new(),
            by: Vec::new(),
            nearest: None,
        };
        let verdict = match said {
            record::Said::Special(class, action) => {
                decision.mechanism = "special";
                let does = match action {
                    crate::model::SpecialAction::Permit => "permits",
                    crate::model::SpecialAction::Deny => "denies",
                    crate::model::SpecialAction::Check => "checks",
                };
                decision.why = format!("the policy {does} {} sources", class.name());
                decision.by.push(of_policy(policy));
                if action == crate::model::SpecialAction::Deny { Verdict::Invalid } else { Verdict::Valid }
            }
            record::Said::Link(strange) => {
                decision.mechanism = "link";
                decision.why = of_stranger(strange);
                decision.by.push(of_policy(policy));
                Verdict::Invalid
            }
            record::Said::Exempt(place) => {
                let rule = policy.exempt.get(place as usize);
                decision.mechanism = "exempt";
                (decision.verdict, decision.passes) = ("exempt", true);
                decision.why = "a rule says that the packet is not validated".into();
                let origin = rule.map_or(policy.origin, |rule| rule.origin);
                let text = format!("rule {} of the exemptions of [sav.{}]", place + 1, policy.name);
                decision.by.push(Named { text, origin, said: None });
                return Some(decision);
            }
            record::Said::Mechanism(verdict) => verdict,
        };
        (decision.verdict, decision.passes) = match verdict {
            Verdict::Valid => ("valid", true),
            Verdict::Invalid => ("invalid", decision.passes),
            Verdict::Unknown => {
                let kept = self.place(&policy.name).map(|place| &self.kept[place]);
                if unknown_is_valid(policy, kept) { ("unknown", true) } else { ("invalid", decision.passes) }
            }
        };
        if let record::Said::Mechanism(_) = said {
            match &policy.mechanism {
                Mechanism::Acl(_) | Mechanism::Table { .. } => {
                    let kept = self.place(&policy.name).map(|place| &self.kept[place])?;
                    match kept.shape.meaning {
                        Meaning::Modes(matching) => {
                            by_lists(&mut decision, kept, facts, policy, (source, interface), matching);
                        }
                        _ => by_rules(&mut decision, kept, facts, policy, source),
                    }
                }
                Mechanism::Urpf(urpf) => by_route(&mut decision, facts, *urpf, interface, source),
            }
        }
        Some(decision)
    }
}

/// Describes the station that sent a packet, and the one that the route back leads to.
fn of_stranger(record::Strange { from, known }: record::Strange) -> String {
    match known {
        Some((neighbor, mac)) => format!("the frame came from {from}, the neighbour {neighbor} has {mac}"),
        None => format!("the frame came from {from}, and no neighbour is known here who the source is behind"),
    }
}

fn by_rules(decision: &mut Decision, kept: &Kept, facts: Facts<'_>, policy: &SavPolicy, source: IpAddr) {
    let covering = kept.covering(facts.gateway, source, &decision.interface);
    let interface = &decision.interface;
    let not_here =
        |candidate: &Candidate| candidate.near(format!("it covers the source, but does not name {interface}"));
    match policy.mechanism {
        _ if covering.is_empty() => {
            decision.why = "no rule covers the source".into();
            decision.nearest = kept.beside(facts.gateway, source);
            if policy.mechanism.rules().is_some_and(|rules| rules.incremental) {
                decision.why += ", and the rules are not complete: incremental deployment";
            }
            decision.by.push(of_policy(policy));
        }
        Mechanism::Acl(_) => match covering.iter().filter(|rule| rule.here).min_by_key(|rule| rule.place) {
            Some(first) => {
                let does = if first.mode.permits() { "permits" } else { "denies" };
                decision.why = format!("the first rule that covers the source and names {interface} {does} it");
                decision.by.push(first.named.clone());
                if !first.mode.permits() {
                    let permits = covering.iter().filter(|rule| rule.here && rule.mode.permits());
                    let later = permits.min_by_key(|rule| rule.place);
                    decision.nearest =
                        later.map(|rule| rule.near(format!("it permits the source on {interface}, but comes later")));
                }
            }
            None => {
                decision.why = format!("rules cover the source, but none of them names {interface}");
                decision.by.push(of_policy(policy));
                let permits = covering.iter().filter(|rule| rule.mode.permits());
                decision.nearest = permits.min_by_key(|rule| rule.place).map(not_here);
            }
        },
        Mechanism::Table { matching: Match::MostSpecific, .. } => {
            let longest = covering[0].prefix;
            let at_longest = || covering.iter().take_while(|rule| rule.prefix == longest);
            let valid = at_longest().any(|rule| rule.here);
            decision.by.extend(at_longest().filter(|rule| rule.here == valid).map(|rule| rule.named.clone()));
            if valid {
                decision.why = format!("{longest} is the most specific prefix, and may come in by {interface}");
            } else {
                decision.why = format!("{longest} is the most specific prefix, and may not come in by {interface}");
                decision.nearest = covering.iter().find(|rule| rule.here).map(|rule| Nearest {
                    named: rule.named.clone(),
                    why: format!("it names {interface}, but {longest} is more specific"),
                });
            }
        }
        _ => match covering.iter().find(|rule| rule.here) {
            Some(rule) => {
                decision.why = format!("{} covers the source, and may come in by {interface}", rule.prefix);
                decision.by.push(rule.named.clone());
            }
            None => {
                decision.why = format!("prefixes cover the source, but none of them may come in by {interface}");
                decision.by.push(covering[0].named.clone());
                decision.nearest = covering.get(1).map(not_here);
            }
        },
    }
}

fn by_route(decision: &mut Decision, facts: Facts<'_>, urpf: Urpf, interface: u32, source: IpAddr) {
    let own = facts.root.interfaces.get(interface as usize).map_or(0, |interface| interface.vrf);
    let vrf = urpf.vrf.map_or(own, |vrf| facts.map.vrfs[usize::from(vrf.0)]);
    let Some(rib) = facts.ribs.get(usize::from(vrf)) else { return };
    let is_default = |net: &IpNet| net.prefix_len() == 0;
    let covering = match urpf.mode {
        // A neighbour is where the prefix around it is.
        UrpfMode::Feasible => rib.covering_more(source),
        _ => rib.covering(source),
    };
    let Some((prefix, entry)) = covering else {
        decision.why = "no route covers the source".into();
        return;
    };
    let named = |prefix: IpNet, entry: &crate::compile::rib::Entry| {
        let text = format!("route {prefix} {}", leads(facts.root, entry.forwarding));
        Named { text, origin: entry.origin, said: None }
    };
    if is_default(&prefix) && !urpf.default_route {
        decision.why = "only the default route covers the source, and it does not count".into();
        decision.nearest = Some(Nearest { named: named(prefix, &entry), why: "it is the default route".into() });
        return;
    }
    decision.by.push(named(prefix, &entry));
    // Where the best route discards, no other one counts.
    if urpf.mode == UrpfMode::Feasible && matches!(entry.source, Source::Connected | Source::Static) {
        decision.by.extend(rib.alternates(prefix).iter().map(|entry| named(prefix, entry)));
    }
    let name = &decision.interface;
    decision.why = match (decision.verdict, urpf.mode) {
        ("valid", UrpfMode::Loose) => "a route leads back to the source".into(),
        ("valid", _) => format!("a route leads back to the source over {name}"),
        (_, UrpfMode::Loose) => "the route of the source leads nowhere that a packet could come from".into(),
        (_, UrpfMode::Strict) => format!("the route back to the source does not lead over {name}"),
        (_, UrpfMode::Feasible) => format!("no route back to the source leads over {name}"),
    };
}

/// Where a route leads, in words.
fn leads(root: &Root, forwarding: u32) -> String {
    let describe = |number: u32| root.adjacencies.get(number as usize).map(|adjacency| root.describe(adjacency));
    match Forwarding(forwarding).set() {
        None => describe(forwarding).unwrap_or_default(),
        Some(set) => {
            let start = set as usize * crate::root::ecmp::BUCKETS;
            let mut all = root.buckets.get(start..start + crate::root::ecmp::BUCKETS).unwrap_or_default().to_vec();
            all.sort_unstable();
            all.dedup();
            all.into_iter().filter_map(describe).collect::<Vec<_>>().join(" and ")
        }
    }
}
