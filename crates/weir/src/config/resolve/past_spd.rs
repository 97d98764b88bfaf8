//! Traffic that goes past an SPD: the route of a protected destination leaves by an interface without one.

use weir_plane::model::{Interface, Route, Spd, SpdAction, SpdRule, VrfIndex};

use super::super::diagnostic::{Code, Diagnostic, SHOWN};
use super::super::source::Span;
use super::Resolver;
use super::access::nat_addresses::ranges;
use super::covering::{Destinations, find_routes};

/// A rule of an SPD that is to be looked at.
pub(super) struct Placed<'a> {
    /// The index of the SPD.
    pub(super) spd: usize,
    /// The name of the SPD.
    pub(super) name: &'a str,
    pub(super) rule: &'a SpdRule,
    pub(super) span: Span,
}

/// Destinations that a rule protects in a VRF in which an interface has its SPD, with the place of the rule in the list of
/// rules.
type Protected = Destinations<usize>;

impl Resolver<'_> {
    /// Looks at the rules of all SPDs, as [`Resolver::past_spd`] does.
    pub(super) fn past_spds(&mut self, spds: &[Spd], interfaces: &[Interface], routes: &[Route]) {
        let placed = spds.iter().zip(&self.access.spd_places).enumerate().flat_map(|(at, (spd, places))| {
            let placed = move |(rule, &span)| Placed { spd: at, name: &spd.name, rule, span };
            spd.rules.iter().zip(places).map(placed)
        });
        let rules: Vec<Placed<'_>> = placed.collect();
        self.past_spd(&rules, interfaces, routes);
    }

    /// Warns of rules that protect destinations whose route leaves by an interface without an SPD.
    pub(super) fn past_spd(&mut self, rules: &[Placed<'_>], interfaces: &[Interface], routes: &[Route]) {
        let mut all = destinations(rules, interfaces);
        if all.is_empty() {
            return;
        }
        find_routes(&mut all, interfaces, routes);
        all.sort_by_key(|own| own.of);
        let mut found: Vec<(usize, Diagnostic)> = Vec::new();
        for own in &all {
            // One of the destinations of a rule is enough.
            if found.last().is_some_and(|(of, _)| *of == own.of) {
                continue;
            }
            let Some(&out) = own.out.iter().find(|&&out| interfaces[out].spd.is_none()) else { continue };
            if found.len() == SHOWN {
                break;
            }
            let (name, Placed { name: spd, span, .. }) = (&interfaces[out].name, &rules[own.of]);
            let to = if own.first == own.last { own.first.to_string() } else { format!("{}-{}", own.first, own.last) };
            let message = format!("the rule protects nothing on the route to {to} by `{name}`, which has no SPD");
            let help = format!("write `spd = \"{spd}\"` in the `[[interface]]` of `{name}`, too");
            found.push((own.of, Diagnostic::warning(Code::PastSpd, *span, message).help(help)));
        }
        found.into_iter().for_each(|(_, own)| self.report(own));
    }
}

/// Finds the destinations that rules name, in each VRF in which an interface has the SPD.
fn destinations(rules: &[Placed<'_>], interfaces: &[Interface]) -> Vec<Protected> {
    let mut all = Vec::new();
    let mut vrfs: Vec<VrfIndex> = Vec::new();
    for (place, Placed { spd, rule, .. }) in rules.iter().enumerate() {
        if place == 0 || rules[place - 1].spd != *spd {
            let named = interfaces.iter().filter(|own| own.spd.is_some_and(|own| usize::from(own.0) == *spd));
            vrfs = named.map(|own| own.vrf).collect();
            vrfs.sort_unstable();
            vrfs.dedup();
        }
        if !matches!(rule.action, SpdAction::Protect(_)) {
            continue;
        }
        for (first, last) in ranges(&rule.matches.to) {
            all.extend(vrfs.iter().map(|&vrf| Destinations::new(vrf, (first, last), place)));
        }
    }
    all
}
