//! Routes of every gateway, computed from a topology: shortest paths inside a domain, BGP's decisions between domains.

mod inter;
mod intra;

use std::collections::BTreeMap;

use ipnet::Ipv6Net;

use super::world::World;

/// Where a route leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum By {
    /// To the gateway's own hosts.
    Own,
    /// Over a link.
    Link(usize),
}

/// A route that a gateway has for a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Learned {
    pub(super) by: By,
    /// Who announced the prefix first.
    pub(super) origin: usize,
}

/// What a gateway knows of each prefix: the best route first, then those that it could use instead.
pub(super) type Rib = BTreeMap<Ipv6Net, Vec<Learned>>;

/// Why there are no routes.
#[derive(Debug, Clone, thiserror::Error)]
#[error("routes for {prefix} do not settle")]
pub struct Unsettled {
    prefix: Ipv6Net,
}

/// The routes of every gateway, in the topology's order.
pub(super) fn routes(world: &World) -> Result<Vec<Rib>, Unsettled> {
    if world.is_one_domain() { Ok(intra::routes(world)) } else { inter::routes(world) }
}

/// The most specific route for a prefix: an exact one, else the default route. No others cover each other here.
pub(super) fn best(rib: &Rib, prefix: &Ipv6Net) -> Option<Learned> {
    let found = rib.get(prefix).or_else(|| rib.get(&super::address::default_route()));
    found.and_then(|routes| routes.first()).copied()
}
