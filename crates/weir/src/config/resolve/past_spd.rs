//! Traffic that goes past an SPD: the route of a protected destination leaves by an interface without one.

use std::collections::HashMap;
use std::net::IpAddr;

use ipnet::IpNet;
use weir_plane::model::{Interface, Route, RouteTarget, Spd, SpdAction, VrfIndex};

use super::super::diagnostic::{Code, Diagnostic, SHOWN};
use super::Resolver;
use super::access::nat_addresses::ranges;

/// Destinations that a rule protects in a VRF in which an interface has its SPD.
struct Destinations {
    vrf: VrfIndex,
    first: IpAddr,
    last: IpAddr,
    /// The SPD and the place of its rule.
    rule: (usize, usize),
    /// Length and metric of the route that all of them take, so far.
    known: Option<(u8, u32)>,
    /// The interfaces that the route leaves by.
    out: Vec<usize>,
}

impl Resolver<'_> {
    /// Warns of rules that protect destinations whose route leaves by an interface without an SPD.
    pub(super) fn past_spd(&mut self, spds: &[Spd], interfaces: &[Interface], routes: &[Route]) {
        let mut all = destinations(spds, interfaces);
        if all.is_empty() {
            return;
        }
        find_routes(&mut all, interfaces, routes);
        all.sort_by_key(|own| own.rule);
        let mut by_rule: HashMap<(usize, usize), usize> = HashMap::new();
        let mut count = 0;
        for own in &all {
            let Some(&out) = own.out.iter().find(|&&out| interfaces[out].spd.is_none()) else { continue };
            // One of the destinations of a rule is enough.
            if by_rule.insert(own.rule, out).is_some() {
                continue;
            }
            let place = self.access.spd_places.get(own.rule.0).and_then(|places| places.get(own.rule.1)).copied();
            let Some(place) = place else { continue };
            count += 1;
            if count > SHOWN {
                return;
            }
            let (name, spd) = (&interfaces[out].name, &spds[own.rule.0].name);
            let to = if own.first == own.last { own.first.to_string() } else { format!("{}-{}", own.first, own.last) };
            let message = format!("the rule protects nothing on the route to {to} by `{name}`, which has no SPD");
            let found = Diagnostic::warning(Code::PastSpd, place, message);
            self.report(found.help(format!("write `spd = \"{spd}\"` in the `[[interface]]` of `{name}`, too")));
        }
    }
}

/// Finds the destinations that rules name, in each VRF in which an interface has the SPD.
fn destinations(spds: &[Spd], interfaces: &[Interface]) -> Vec<Destinations> {
    let mut all = Vec::new();
    for (at, spd) in spds.iter().enumerate() {
        let named = interfaces.iter().filter(|own| own.spd.is_some_and(|spd| usize::from(spd.0) == at));
        let mut vrfs: Vec<VrfIndex> = named.map(|own| own.vrf).collect();
        vrfs.sort_unstable();
        vrfs.dedup();
        for (place, rule) in spd.rules.iter().enumerate() {
            if !matches!(rule.action, SpdAction::Protect(_)) {
                continue;
            }
            for (first, last) in ranges(&rule.matches.to) {
                let of =
                    |&vrf: &VrfIndex| Destinations { vrf, first, last, rule: (at, place), known: None, out: vec![] };
                all.extend(vrfs.iter().map(of));
            }
        }
    }
    all
}

/// Finds the best route that covers all of each range of destinations. One walk over the routes serves all.
fn find_routes(all: &mut [Destinations], interfaces: &[Interface], routes: &[Route]) {
    all.sort_by_key(|own| own.first);
    let mut add = |vrf: VrfIndex, prefix: IpNet, metric: u32, out: &[usize]| {
        let from = all.partition_point(|own| own.first < prefix.network());
        for own in &mut all[from..] {
            if !prefix.contains(&own.first) {
                break;
            }
            let length = prefix.prefix_len();
            let is_better = |(other, least): (u8, u32)| length > other || (length == other && metric < least);
            if own.vrf == vrf && prefix.contains(&own.last) && own.known.is_none_or(is_better) {
                own.known = Some((length, metric));
                own.out.clear();
                own.out.extend(out);
            }
        }
    };
    for (index, interface) in interfaces.iter().enumerate() {
        for own in &interface.addresses {
            add(interface.vrf, own.net.trunc(), 0, &[index]);
        }
    }
    let mut out = Vec::new();
    for route in routes {
        out.clear();
        if let RouteTarget::Via(hops) = &route.target {
            out.extend(hops.iter().map(|hop| hop.interface.0 as usize));
        }
        add(route.vrf, route.prefix, route.metric, &out);
    }
}
