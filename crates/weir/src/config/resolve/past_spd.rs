//! Traffic that goes past an SPD: the route of a protected destination leaves by an interface without one.

use std::collections::HashMap;

use weir_plane::model::{Interface, Route, Spd, SpdAction, VrfIndex};

use super::super::diagnostic::{Code, Diagnostic, SHOWN};
use super::Resolver;
use super::access::nat_addresses::ranges;
use super::covering::{Destinations, find_routes};

/// Destinations that a rule protects in a VRF in which an interface has its SPD, with the SPD and the place of its rule.
type Protected = Destinations<(usize, usize)>;

impl Resolver<'_> {
    /// Warns of rules that protect destinations whose route leaves by an interface without an SPD.
    pub(super) fn past_spd(&mut self, spds: &[Spd], interfaces: &[Interface], routes: &[Route]) {
        let mut all = destinations(spds, interfaces);
        if all.is_empty() {
            return;
        }
        find_routes(&mut all, interfaces, routes);
        all.sort_by_key(|own| own.of);
        let mut by_rule: HashMap<(usize, usize), usize> = HashMap::new();
        let mut count = 0;
        for own in &all {
            let Some(&out) = own.out.iter().find(|&&out| interfaces[out].spd.is_none()) else { continue };
            // One of the destinations of a rule is enough.
            if by_rule.insert(own.of, out).is_some() {
                continue;
            }
            let place = self.access.spd_places.get(own.of.0).and_then(|places| places.get(own.of.1)).copied();
            let Some(place) = place else { continue };
            count += 1;
            if count > SHOWN {
                return;
            }
            let (name, spd) = (&interfaces[out].name, &spds[own.of.0].name);
            let to = if own.first == own.last { own.first.to_string() } else { format!("{}-{}", own.first, own.last) };
            let message = format!("the rule protects nothing on the route to {to} by `{name}`, which has no SPD");
            let found = Diagnostic::warning(Code::PastSpd, place, message);
            self.report(found.help(format!("write `spd = \"{spd}\"` in the `[[interface]]` of `{name}`, too")));
        }
    }
}

/// Finds the destinations that rules name, in each VRF in which an interface has the SPD.
fn destinations(spds: &[Spd], interfaces: &[Interface]) -> Vec<Protected> {
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
                let of = |&vrf: &VrfIndex| Destinations::new(vrf, (first, last), (at, place));
                all.extend(vrfs.iter().map(of));
            }
        }
    }
    all
}
