//! Neighbours: on which link, and each once.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::net::IpAddr;

use ipnet::IpNet;
use weir_plane::model::{InterfaceIndex, Neighbor, Route, RouteTarget, VrfIndex};

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
        address: IpAddr,
        span: Span,
        off_link: &mut Vec<(usize, IpAddr, Span)>,
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
        match self.link(at, address).or_else(|| self.connected.holding(vrf, address)) {
            Some(link) if link.interface == at => self.not_an_edge(link, address, span, "neighbour"),
            _ if self.declared(at).lost_addresses => {}
            _ => off_link.push((at, address, span)),
        }
    }

    /// Warns of neighbours that are neither in a connected prefix nor behind a route straight to the link.
    fn off_link(&mut self, routes: &[Route], candidates: Vec<(usize, IpAddr, Span)>) {
        if candidates.is_empty() {
            return;
        }
        let mut straight: HashSet<(InterfaceIndex, IpNet)> = HashSet::new();
        let mut lengths: BTreeSet<u8> = BTreeSet::new();
        for route in routes {
            let RouteTarget::Via(hops) = &route.target else { continue };
            for hop in hops.iter().filter(|hop| hop.address.is_none()) {
                straight.insert((hop.interface, route.prefix));
                lengths.insert(route.prefix.prefix_len());
            }
        }
        for (at, address, span) in candidates {
            let reached = self.index_of[at].is_some_and(|interface| {
                let prefixes = lengths.iter().filter_map(|&length| IpNet::new(address, length).ok());
                prefixes.map(|prefix| prefix.trunc()).any(|prefix| straight.contains(&(interface, prefix)))
            });
            if !reached {
                let name = &self.declared(at).name.value;
                let message =
                    format!("no connected prefix of `{name}` and no route to its link holds the neighbour {address}");
                let found = Diagnostic::warning(Code::NeighborOffLink, span, message);
                self.report(found.help("no packet will be sent to it"));
            }
        }
    }
}
