//! Routes of every gateway, computed from a topology: shortest paths inside a domain, BGP's decisions between domains.

mod inter;
mod intra;
mod rib;

use ipnet::Ipv6Net;

use super::world::World;
pub use rib::Unsettled;
pub(super) use rib::{By, Learned, Rib};

/// The routes of every gateway, in the topology's order.
pub(super) fn routes(world: &World) -> Result<Vec<Rib>, Unsettled> {
    if world.is_one_domain() { Ok(intra::routes(world)) } else { inter::routes(world) }
}

/// The most specific route for a prefix: an exact one, else the default route. No others cover each other here.
pub(super) fn best(rib: &Rib, prefix: &Ipv6Net) -> Option<Learned> {
    let found = rib.get(prefix).or_else(|| rib.get(&super::address::default_route()));
    found.and_then(|routes| routes.first()).copied()
}
