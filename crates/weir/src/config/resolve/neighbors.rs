//! Neighbours: on which link, and each once.

use std::collections::HashMap;

use weir_plane::model::{Neighbor, Route, RouteTarget, VrfIndex};

use super::super::diagnostic::{Code, Diagnostic};
use super::super::source::Span;
use super::Resolver;
use super::addresses::is_link_local;

impl Resolver<'_> {
    /// Makes the neighbours of the model.
    pub(super) fn neighbors(&mut self, routes: &[Route]) -> Vec<Neighbor> {
        let declared = self.declared;
        let mut seen: HashMap<_, Span> = HashMap::new();
        let mut neighbors = Vec::new();
        let mut off_link = Vec::new();
        let limit = declared.settings.limits.neighbors;
        for (count, neighbor) in (1..).zip(&declared.neighbors) {
            if count == u64::from(limit) + 1 {
                let message = format!("this neighbour exceeds the limit of {limit}");
                let found = Diagnostic::error(Code::LimitExceeded, neighbor.address.span, message);
                self.report(match declared.settings.neighbors_span {
                    Some(span) => found.related(span, "the limit"),
                    None => found.help("raise `neighbors` under `[limits]`"),
                });
            }
            let Some(at) = self.interface(&neighbor.interface) else { continue };
            let address = neighbor.address.value;
            if let Some(&first) = seen.get(&(at, address)) {
                let message = format!("`{}` has two neighbours {address}", neighbor.interface.value);
                let found = Diagnostic::error(Code::DuplicateNeighbor, neighbor.address.span, message);
                self.report(found.related(first, "first here"));
                continue;
            }
            seen.insert((at, address), neighbor.address.span);
            let Some(vrf) = self.vrf_of[at] else { continue };
            self.neighbor_place(vrf, at, neighbor.address.value, neighbor.address.span, &mut off_link);
            let origin = self.origin(neighbor.address.span);
            if let (Some(mac), Some(interface)) = (neighbor.mac, self.index_of[at]) {
                neighbors.push(Neighbor { interface, address, mac, origin });
            }
        }
        self.off_link(routes, off_link);
        neighbors
    }

    /// Refuses what cannot be a neighbour and notes what is off the connected prefixes.
    fn neighbor_place(
        &mut self,
        vrf: VrfIndex,
        at: usize,
        address: std::net::IpAddr,
        span: Span,
        off_link: &mut Vec<(usize, std::net::IpAddr, Span)>,
    ) {
        if let Some(own) = self.connected.own(vrf, address) {
            let message = format!("the neighbour {address} is our own address");
            let found = Diagnostic::error(Code::NeighborIsLocal, span, message);
            let name = &self.declared(own.interface).name.value;
            self.report(found.related(own.span, format!("the address of `{name}`")));
            return;
        }
        if is_link_local(address) {
            return;
        }
        match self.connected.holding(vrf, address) {
            Some(link) if link.interface == at => self.not_an_edge(link, address, span, "neighbour"),
            _ if self.declared(at).lost_addresses => {}
            _ => off_link.push((at, address, span)),
        }
    }

    /// Warns of neighbours that are neither in a connected prefix nor behind a route straight to the link.
    fn off_link(&mut self, routes: &[Route], candidates: Vec<(usize, std::net::IpAddr, Span)>) {
        if candidates.is_empty() {
            return;
        }
        // Routes of a list share their paths, so most of a million are told apart from the few by looking at these.
        let straight: Vec<&Route> = routes
            .iter()
            .filter(
                |route| matches!(&route.target, RouteTarget::Via(hops) if hops.iter().any(|hop| hop.address.is_none())),
            )
            .collect();
        for (at, address, span) in candidates {
            let index = self.index_of[at];
            let reached = straight.iter().any(|route| {
                route.prefix.contains(&address)
                    && matches!(&route.target, RouteTarget::Via(hops)
                        if hops.iter().any(|hop| hop.address.is_none() && Some(hop.interface) == index))
            });
            if !reached {
                let name = &self.declared(at).name.value;
                let message = format!(
                    "the neighbour {address} lies in no connected prefix of `{name}`, nor does a route lead to it"
                );
                let found = Diagnostic::warning(Code::NeighborOffLink, span, message);
                self.report(found.help("no packet will be sent to it"));
            }
        }
    }
}
