//! Inside targets of NAT rules: whether packets to them arrive.

use std::net::IpAddr;

use weir_plane::model::{
    Addresses, Interface, InterfaceIndex, NatList, NatMapping, NatRule, NatVerb, Route, RouteTarget, VrfIndex,
};

use super::super::super::diagnostic::{Code, Diagnostic};
use super::super::Resolver;
use super::nat_addresses::inside;

/// The rules of a list that are looked at.
const MOST: usize = 1000;

/// Where a packet to an address leaves.
enum Leaves {
    By(Vec<InterfaceIndex>),
    Nowhere,
}

impl Resolver<'_> {
    /// Warns of targets that no route leads to, and of packets that leave as they came in where their answers would come to another
    /// worker.
    pub(in super::super) fn nat_targets(&mut self, nat: &[NatList], routes: &[Route], interfaces: &[Interface]) {
        if !self.thorough || interfaces.is_empty() {
            return;
        }
        let settings = &self.declared.settings;
        let has_sources = settings.routes.is_some();
        let workers = settings.workers.as_ref().map_or(1, |workers| workers.value);
        let mut looked_at = vec![false; nat.len()];
        for (index, interface) in interfaces.iter().enumerate() {
            let Some(list) = interface.nat.map(|list| usize::from(list.0)) else { continue };
            let Some(own) = nat.get(list) else { continue };
            let divides = workers > 1 && !have_one_worker(nat, interfaces, interface.vrf);
            for (place, rule) in own.rules.iter().enumerate().take(MOST) {
                let Some((to, word)) = inside(rule) else { continue };
                let Some(span) = self.nat_place((list, place)) else { continue };
                let word = self.word_of(rule, word, span);
                match self.leaves(interface.vrf, to, routes) {
                    Leaves::Nowhere if !has_sources && !looked_at[list] => {
                        let message = format!("no route leads to {to}: packets that the rule sends there are dropped");
                        let found = Diagnostic::warning(Code::NatUnrouted, word, message);
                        self.report(found.help("name a host on a link, or add a `[[route]]` to it"));
                    }
                    Leaves::By(by) if divides && by.contains(&InterfaceIndex(index as u32)) => {
                        let name = &interface.name;
                        let message = format!(
                            "packets that come in by `{name}` leave by it again: with {workers} workers they are \
                             dropped as `nat-worker`"
                        );
                        let help = "write a `both` rule that translates their sources, too, or have one worker";
                        self.report(Diagnostic::warning(Code::NatWorker, word, message).help(help));
                    }
                    _ => {}
                }
            }
            looked_at[list] = true;
        }
    }

    /// Finds the interfaces by which a packet leaves, by links and the routes of the configuration.
    fn leaves(&self, vrf: VrfIndex, to: IpAddr, routes: &[Route]) -> Leaves {
        if let Some(link) = self.connected.holding(vrf, to) {
            return Leaves::By(self.index_of[link.interface].into_iter().collect());
        }
        let covers = |route: &&Route| route.vrf == vrf && route.prefix.contains(&to);
        let best = routes.iter().filter(covers).min_by_key(|own| (u8::MAX - own.prefix.prefix_len(), own.metric));
        match best.map(|own| &own.target) {
            None => Leaves::Nowhere,
            Some(RouteTarget::Via(hops)) => Leaves::By(hops.iter().map(|hop| hop.interface).collect()),
            Some(_) => Leaves::By(Vec::new()),
        }
    }
}

/// All packets of a VRF go to one worker, whatever its rules translate.
fn have_one_worker(nat: &[NatList], interfaces: &[Interface], vrf: VrfIndex) -> bool {
    let named = interfaces.iter().filter(|own| own.vrf == vrf).filter_map(|own| own.nat);
    let mut lists = named.filter_map(|list| nat.get(usize::from(list.0)));
    let gathers = |rule: &NatRule| match rule.verb {
        NatVerb::Both => true,
        NatVerb::Destination => rule.matches.to == Addresses::Any && !rule.to_interface,
        _ => rule.limit_per_address.is_some(),
    };
    lists.any(|list| list.mapping != NatMapping::EndpointDependent || list.rules.iter().any(gathers))
}
