//! Which list decided about a source, where lists may be of any mode: in words.

use std::net::IpAddr;

use weir_table::sav::Match;

use super::decision::{Candidate, Decision, Facts, Nearest, of_policy};
use super::kept::Kept;
use crate::model::{Mode, SavPolicy};

/// Lists that cover a source, the most specific first.
struct Covering(Vec<Candidate>);

impl Covering {
    fn of(&self, modes: &[Mode]) -> impl Iterator<Item = &Candidate> {
        self.0.iter().filter(|candidate| modes.contains(&candidate.mode))
    }

    /// Returns the candidates of a mode that name the interface.
    fn here(&self, mode: Mode) -> impl Iterator<Item = &Candidate> {
        self.0.iter().filter(move |candidate| candidate.mode == mode && candidate.here)
    }
}

/// Says which list decided about a source on an interface (its number).
pub(super) fn by_lists(
    decision: &mut Decision,
    kept: &Kept,
    facts: Facts<'_>,
    policy: &SavPolicy,
    (source, number): (IpAddr, u32),
    matching: Match,
) {
    let interface = decision.interface.clone();
    let covering = Covering(kept.covering(facts.gateway, source, &interface));
    let beside = || kept.beside(facts.gateway, source);
    if kept.allowlisted.contains(number) {
        return by_allowlist(decision, &covering, policy, beside);
    }
    let blocked: Vec<&Candidate> = covering.here(Mode::InterfaceBlock).collect();
    if let Some(first) = blocked.first() {
        decision.why = format!("{} is in the blocklist of {interface}", first.prefix);
        decision.by.extend(blocked.iter().filter(|rule| rule.prefix == first.prefix).map(|rule| rule.named.clone()));
        let permits = covering.here(Mode::PrefixAllow).next();
        let why = format!("it names {interface}, but the blocklist of {interface} comes before it");
        decision.nearest = permits.map(|rule| rule.near(why));
        return;
    }
    let router_wide: Vec<&Candidate> = covering.of(&[Mode::PrefixAllow, Mode::PrefixBlock]).collect();
    let Some(first) = router_wide.first() else {
        decision.why = "no router-wide list covers the source".into();
        if kept.is_open() {
            decision.why += ", and there is no allowlist of prefixes that it would have to stand in";
        } else if policy.mechanism.rules().is_some_and(|rules| rules.incremental) {
            decision.why += ", and the rules are not complete: incremental deployment";
        }
        decision.by.push(of_policy(policy));
        decision.nearest = beside();
        return;
    };
    let counts = |rule: &&&Candidate| matching == Match::AnyCovering || rule.prefix == first.prefix;
    let allows = router_wide.iter().filter(counts).any(|rule| rule.mode == Mode::PrefixAllow);
    let mode = if allows { Mode::PrefixAllow } else { Mode::PrefixBlock };
    let asked: Vec<&Candidate> = router_wide.iter().filter(counts).copied().filter(|rule| rule.mode == mode).collect();
    let named = asked.iter().find(|rule| rule.here);
    // Where none names the interface, the most specific stands for all of them.
    let by = named.unwrap_or(&asked[0]);
    let (prefix, here) = (by.prefix, named.is_some());
    decision
        .by
        .extend(asked.iter().filter(|rule| rule.prefix == prefix && rule.here == here).map(|rule| rule.named.clone()));
    let how = match (matching, allows, here) {
        (_, true, true) => format!("may come in by {interface}"),
        (_, true, false) => format!("may not come in by {interface}"),
        (_, false, true) => format!("is blocked on {interface}"),
        (_, false, false) => format!("is not blocked on {interface}"),
    };
    decision.why = match (matching, allows, here) {
        (Match::MostSpecific, ..) => format!("{prefix} is the most specific prefix, and {how}"),
        (Match::AnyCovering, true, false) => {
            format!("prefixes cover the source, but none of them may come in by {interface}")
        }
        (Match::AnyCovering, ..) => format!("{prefix} covers the source, and {how}"),
    };
    if allows != here {
        decision.nearest = match matching {
            Match::MostSpecific => covering.here(Mode::PrefixAllow).next().map(|rule| {
                let why = match rule.prefix == prefix {
                    true => format!("it names {interface}, too"),
                    false => format!("it names {interface}, but {prefix} is more specific"),
                };
                rule.near(why)
            }),
            Match::AnyCovering => {
                let other = asked.iter().find(|rule| rule.prefix != prefix && !rule.here);
                other.map(|rule| rule.near(format!("it covers the source, but does not name {interface}")))
            }
        };
    }
}

/// Of an interface with an allowlist.
fn by_allowlist(
    decision: &mut Decision,
    covering: &Covering,
    policy: &SavPolicy,
    beside: impl FnOnce() -> Option<Nearest>,
) {
    let interface = &decision.interface;
    let Some(first) = covering.here(Mode::InterfaceAllow).next() else {
        decision.why = format!("{interface} has an allowlist, and no prefix of it covers the source");
        let router_wide = covering.here(Mode::PrefixAllow).next();
        let router_wide = router_wide.map(|rule| {
            rule.near(format!("it names {interface}, but does not apply: {interface} has an allowlist of its own"))
        });
        let others = covering.of(&[Mode::InterfaceAllow, Mode::PrefixAllow]).next();
        let others = others.map(|rule| rule.near(format!("it covers the source, but does not name {interface}")));
        decision.nearest = router_wide.or(others).or_else(beside);
        decision.by.push(of_policy(policy));
        return;
    };
    decision.why = format!("{} is in the allowlist of {interface}, which alone decides there", first.prefix);
    let all = covering.here(Mode::InterfaceAllow).filter(|rule| rule.prefix == first.prefix);
    decision.by.extend(all.map(|rule| rule.named.clone()));
}
