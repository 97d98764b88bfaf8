//! Inside targets of NAT rules: whether packets to them arrive.

use std::net::IpAddr;

use weir_plane::compile::OneWorker;
use weir_plane::model::{Interface, NatList, NatVerb, Route, VrfIndex};

use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::Resolver;
use super::nat_addresses::{Word, inside};

/// The rules of a list that are looked at.
const MOST: usize = 1000;

impl Resolver<'_> {
    /// Warns of targets that no route leads to, and of those behind an outside interface, which keep all packets on one worker.
    pub(in super::super) fn nat_targets(&mut self, nat: &[NatList], routes: &[Route], interfaces: &[Interface]) {
        if !self.thorough || interfaces.is_empty() {
            return;
        }
        let settings = &self.declared.settings;
        let has_sources = settings.routes.is_some();
        let workers = settings.workers.as_ref().map_or(1, |workers| workers.value);
        let one = (workers > 1).then(|| OneWorker::new(self.vrfs.len(), interfaces, nat, routes));
        let mut looked_at = vec![false; nat.len()];
        for interface in interfaces {
            let Some(list) = interface.nat.map(|list| usize::from(list.0)) else { continue };
            let Some(own) = nat.get(list) else { continue };
            for (place, rule) in own.rules.iter().enumerate().take(MOST) {
                let Some((to, word)) = inside(rule) else { continue };
                let Some(span) = self.nat_place((list, place)) else { continue };
                let word = self.word_of(rule, word, span);
                if !has_sources && !looked_at[list] && !self.leaves(interface.vrf, to, routes) {
                    let message = format!("no route leads to {to}: packets that the rule sends there are dropped");
                    let found = Diagnostic::warning(Code::NatUnrouted, word, message);
                    self.report(found.help("name a host on a link, or add a `[[route]]` to it"));
                }
            }
            looked_at[list] = true;
        }
        let returning = one.iter().flat_map(|one| one.returning.iter().filter(|own| !one.by_rules(own.vrf)));
        for own in returning {
            let list = usize::from(own.list.0);
            let Some(rule) = nat[list].rules.get(own.place) else { continue };
            let Some(span) = self.nat_place((list, own.place)) else { continue };
            let word = self.word_of(rule, if rule.verb == NatVerb::Map { Word::From } else { Word::Destination }, span);
            let name = &interfaces[own.by.0 as usize].name;
            let message = format!(
                "the inside host is behind `{name}`, which has `nat`: one of {workers} workers has all packets of the VRF"
            );
            let help = "lead to the host by an interface without `nat`: then all workers share the packets";
            self.report(Diagnostic::warning(Code::NatWorker, word, message).help(help));
        }
    }

    /// Whether a link or a route of the configuration leads to an address.
    fn leaves(&self, vrf: VrfIndex, to: IpAddr, routes: &[Route]) -> bool {
        let covers = |route: &Route| route.vrf == vrf && route.prefix.contains(&to);
        self.connected.holding(vrf, to).is_some() || routes.iter().any(covers)
    }
}
