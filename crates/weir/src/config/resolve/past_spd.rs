//! Traffic that goes past an SPD: the route of a protected destination leaves by an interface without one.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_plane::compile::{Destinations, Way, find_routes};
use weir_plane::model::{Interface, InterfaceIndex, Route, RouteTarget, Spd, SpdAction, SpdRule, VrfIndex};

use super::super::diagnostic::{Code, Diagnostic, SHOWN};
use super::super::source::Span;
use super::Resolver;
use super::access::nat_addresses::ranges;

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
        let ways = Ways::new(interfaces, routes);
        let mut found: Vec<(usize, Diagnostic)> = Vec::new();
        for own in &all {
            // One of the destinations of a rule is enough.
            if found.last().is_some_and(|(of, _)| *of == own.of) {
                continue;
            }
            let Some(past) = ways.past(own, rules[own.of].rule) else { continue };
            if found.len() == SHOWN {
                break;
            }
            let (name, Placed { name: spd, span, .. }) = (&interfaces[past.out.0 as usize].name, &rules[own.of]);
            let to = match past.prefix {
                Some(prefix) => prefix.to_string(),
                None if own.first == own.last => own.first.to_string(),
                None => format!("{}-{}", own.first, own.last),
            };
            let mut message = format!("the rule protects nothing on the route to {to} by `{name}`, which has no SPD");
            if past.is_fallback {
                message.push_str(" and is used while better routes are down");
            }
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

/// A way past an SPD.
struct Past {
    /// The interface without an SPD.
    out: InterfaceIndex,
    /// The prefix of the route, if it is not for all of the destinations.
    prefix: Option<IpNet>,
    /// A better route is taken while its links are up.
    is_fallback: bool,
}

/// The ways of packets that leave by interfaces without an SPD.
struct Ways<'a> {
    interfaces: &'a [Interface],
    routes: &'a [Route],
    /// Routes that lead past SPDs, by VRF and first address.
    past: Vec<(VrfIndex, IpNet, InterfaceIndex)>,
}

impl<'a> Ways<'a> {
    fn new(interfaces: &'a [Interface], routes: &'a [Route]) -> Ways<'a> {
        let mut own = Ways { interfaces, routes, past: Vec::new() };
        own.past = routes
            .iter()
            .filter_map(|route| Some((route.vrf, route.prefix, own.without_spd(&route.target)?)))
            .collect();
        own.past.sort_unstable_by_key(|(vrf, prefix, _)| (*vrf, prefix.network(), prefix.prefix_len()));
        own
    }

    fn has_no_spd(&self, out: InterfaceIndex) -> bool {
        self.interfaces.get(out.0 as usize).is_some_and(|own| own.spd.is_none())
    }

    fn without_spd(&self, target: &RouteTarget) -> Option<InterfaceIndex> {
        let RouteTarget::Via(hops) = target else { return None };
        hops.iter().map(|hop| hop.interface).find(|&out| self.has_no_spd(out))
    }

    /// Finds a way of packets that the rule protects past its SPD: the best route for all destinations first, then those for when it
    /// fails, then those for some of the destinations.
    fn past(&self, own: &Protected, rule: &SpdRule) -> Option<Past> {
        let mut better = false;
        for route in own.routes.iter().filter(|route| route.is_whole) {
            if let Some(out) = route.way.out(self.routes).find(|&out| self.has_no_spd(out)) {
                return Some(Past { out, prefix: None, is_fallback: better });
            }
            if route.way.out(self.routes).next().is_none() {
                // A route that drops packets has none behind it.
                break;
            }
            better = true;
        }
        self.of_some(own, &ranges(&rule.matches.from))
    }

    /// Finds a route for some of the destinations. Prefixes that have sources of the rule are not behind its peer.
    fn of_some(&self, own: &Protected, from: &[(IpAddr, IpAddr)]) -> Option<Past> {
        let overlaps = |prefix: &IpNet, (first, last): &(IpAddr, IpAddr)| {
            *first <= prefix.broadcast() && prefix.network() <= *last
        };
        // Nothing is left of the destinations, or the rule is for all sources.
        let is_all = from.is_empty() || from.iter().any(|(first, last)| *first <= own.first && own.last <= *last);
        if is_all {
            return None;
        }
        let start = self.past.partition_point(|(vrf, prefix, _)| (*vrf, prefix.network()) < (own.vrf, own.first));
        let inside =
            self.past[start..].iter().take_while(|(vrf, prefix, _)| *vrf == own.vrf && prefix.network() <= own.last);
        let inside = inside.filter(|(_, prefix, _)| !(prefix.contains(&own.first) && prefix.contains(&own.last)));
        let inside = inside.map(|(_, prefix, out)| (*prefix, *out));
        // Routes that begin in front of the destinations and end among them.
        let first = own.routes.iter().filter(|route| !route.is_whole).filter_map(|route| match route.way {
            Way::Route(place) => {
                let route = self.routes.get(place)?;
                Some((route.prefix, self.without_spd(&route.target)?))
            }
            Way::Link(_) => None,
        });
        let (prefix, out) = first.chain(inside).find(|(prefix, _)| !from.iter().any(|from| overlaps(prefix, from)))?;
        Some(Past { out, prefix: Some(prefix), is_fallback: false })
    }
}
