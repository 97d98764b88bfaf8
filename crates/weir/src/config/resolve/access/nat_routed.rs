//! Pools of outside addresses that are routed to the gateway: whether packets of no translation go back by a route.

use ipnet::IpNet;
use weir_plane::compile::{Destinations, Way, find_routes};
use weir_plane::model::{Interface, NatList, NatVerb, Route, RouteTarget, VrfIndex};

use super::super::super::diagnostic::{Code, Diagnostic, SHOWN};
use super::super::Resolver;
use super::nat_addresses::{Word, ranges};

/// The first addresses of pools that are looked at. A list with more has been warned of by then.
const MOST: usize = 256;

/// An address of a pool, with the places of its list and rule.
type Candidate = Destinations<(usize, usize)>;

impl Resolver<'_> {
    /// Warns of outside addresses that a route of the gateway leads away: packets to them that belong to no translation go back,
    /// and around until their TTL ends.
    pub(in super::super) fn nat_routed(&mut self, nat: &[NatList], routes: &[Route], interfaces: &[Interface]) {
        if !self.thorough {
            return;
        }
        let mut candidates = self.candidates(nat, interfaces);
        find_routes(&mut candidates, &[], routes);
        candidates.sort_by_key(|own| own.of);
        let leads_away = |own: &Candidate| match own.routes.first().map(|route| route.way) {
            Some(Way::Route(place)) => routes.get(place).filter(|route| matches!(route.target, RouteTarget::Via(_))),
            _ => None,
        };
        let mut warned = Vec::new();
        for own in &candidates {
            let Some(route) = leads_away(own).filter(|_| !warned.contains(&own.of)) else { continue };
            warned.push(own.of);
            let (list, rule) = own.of;
            let places = self.access.nat_places.get(list);
            let Some(span) = places.and_then(|places| places.get(rule)).copied() else { continue };
            let rule = &nat[list].rules[rule];
            let message = format!(
                "packets to {} that belong to no translation go back by the route to {}: they loop",
                own.first, route.prefix
            );
            let place = self.word_of(rule, Word::Source, span);
            let help = "add a `[[route]]` of `type = \"blackhole\"` with the prefix of the outside addresses";
            self.report(Diagnostic::warning(Code::NatPoolLoops, place, message).help(help));
            if warned.len() == SHOWN {
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
                candidates.extend(first.map(|own| Destinations::new(interface.vrf, (own, own), (list, rule))));
                if candidates.len() >= MOST {
                    return candidates;
                }
            }
        }
        candidates
    }
}
