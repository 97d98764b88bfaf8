//! Pools of outside addresses that are routed to the gateway: whether packets of no translation go back by a route.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_plane::model::{Interface, NatList, NatVerb, Route, RouteTarget, VrfIndex};

use super::super::super::diagnostic::{Code, Diagnostic, SHOWN};
use super::super::Resolver;
use super::nat_addresses::{Word, ranges};

/// The first addresses of pools that are looked at. A list with more has been warned of by then.
const MOST: usize = 256;

/// An address of a pool, and the best route to it so far.
struct Candidate {
    list: usize,
    rule: usize,
    vrf: VrfIndex,
    address: IpAddr,
    /// The length of its prefix, its metric, and its place among the routes.
    best: Option<(u8, u32, usize)>,
}

impl Resolver<'_> {
    /// Warns of outside addresses that a route of the gateway leads away: packets to them that belong to no translation go back,
    /// and around until their TTL ends.
    pub(in super::super) fn nat_routed(&mut self, nat: &[NatList], routes: &[Route], interfaces: &[Interface]) {
        if !self.thorough {
            return;
        }
        let mut candidates = self.candidates(nat, interfaces);
        for (place, route) in routes.iter().enumerate() {
            for own in candidates.iter_mut().filter(|own| own.vrf == route.vrf && route.prefix.contains(&own.address)) {
                let length = route.prefix.prefix_len();
                let is_better =
                    |&(best, metric, _): &(u8, u32, usize)| length > best || length == best && route.metric < metric;
                if own.best.as_ref().is_none_or(is_better) {
                    own.best = Some((length, route.metric, place));
                }
            }
        }
        let leads_away = |own: &Candidate| {
            let route = own.best.and_then(|(_, _, place)| routes.get(place));
            route.filter(|route| matches!(route.target, RouteTarget::Via(_)))
        };
        let mut told = Vec::new();
        for own in &candidates {
            let Some(route) = leads_away(own).filter(|_| !told.contains(&(own.list, own.rule))) else { continue };
            told.push((own.list, own.rule));
            let places = self.access.nat_places.get(own.list);
            let Some(span) = places.and_then(|places| places.get(own.rule)).copied() else { continue };
            let rule = &nat[own.list].rules[own.rule];
            let message = format!(
                "packets to {} that belong to no translation go back by the route to {}: they loop",
                own.address, route.prefix
            );
            let place = self.word_of(rule, Word::Source, span);
            let help = "add a `[[route]]` of `type = \"blackhole\"` with the prefix of the outside addresses";
            self.report(Diagnostic::warning(Code::NatPoolLoops, place, message).help(help));
            if told.len() == SHOWN {
                return;
            }
        }
    }

    /// The first address of each pool that is neither the gateway's nor on a link.
    fn candidates(&self, nat: &[NatList], interfaces: &[Interface]) -> Vec<Candidate> {
        let mut candidates: Vec<Candidate> = Vec::new();
        for interface in interfaces {
            let Some(list) = interface.nat.map(|list| usize::from(list.0)) else { continue };
            let Some(rules) = nat.get(list) else { continue };
            let draws = |verb: NatVerb| matches!(verb, NatVerb::Source | NatVerb::Both);
            for (rule, own) in rules.rules.iter().enumerate().filter(|(_, rule)| draws(rule.verb)) {
                let pool = own.source.iter().filter_map(|target| target.addresses.as_ref()).flat_map(ranges);
                let first = pool.map(|(first, _)| first).filter(|&first| {
                    let on_link = |(of, net): &(VrfIndex, IpNet)| *of == interface.vrf && net.contains(&first);
                    self.connected.own(interface.vrf, first).is_none() && !self.connected.prefixes.keys().any(on_link)
                });
                candidates.extend(first.map(|address| Candidate {
                    list,
                    rule,
                    vrf: interface.vrf,
                    address,
                    best: None,
                }));
                if candidates.len() >= MOST {
                    return candidates;
                }
            }
        }
        candidates
    }
}
