//! Routes between autonomous systems. Each announces its best routes to its neighbours, by their business relations
//! (Gao and Rexford, "Stable Internet Routing Without Global Coordination", 2001), until nothing changes any more.
//!
//! - Preferred are routes from customers, then from peers, then from providers, unless a local preference says
//!   otherwise; then the shortest path; then the link of the lowest number.
//! - Routes from customers and own routes are announced to all neighbours, others to customers only.
//! - A route with NO_EXPORT is not announced (RFC 1997). A route with the own AS in its path is not accepted (RFC 4271,
//!   9.1.2).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use ipnet::Ipv6Net;

use super::super::world::{Announce, Origin, Side, World};
use super::{By, Learned, Rib, Unsettled};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Route {
    by: By,
    preference: u32,
    /// The neighbour first, the origin last.
    path: Vec<usize>,
    no_export: bool,
}

pub(super) fn routes(world: &World) -> Result<Vec<Rib>, Unsettled> {
    let mut ribs = vec![Rib::new(); world.names.len()];
    for origin in &world.origins {
        // Prefixes of one origin differ by nothing but who prefers what for them.
        let mut known: BTreeMap<Vec<bool>, Vec<Vec<Learned>>> = BTreeMap::new();
        for prefix in &origin.prefixes {
            let preferred: Vec<bool> =
                world.preferences.iter().map(|policy| policy.prefixes.contains(prefix)).collect();
            let all = match known.entry(preferred) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(vacant) => {
                    let learned = |route: &Route| Learned { by: route.by, origin: origin.node };
                    let all = settle(world, origin, prefix)?;
                    vacant.insert(all.iter().map(|routes| routes.iter().map(learned).collect()).collect())
                }
            };
            for (rib, routes) in ribs.iter_mut().zip(all).filter(|(_, routes)| !routes.is_empty()) {
                rib.insert(*prefix, routes.clone());
            }
        }
    }
    Ok(ribs)
}

/// All routes of every gateway for one prefix, its best first.
fn settle(world: &World, origin: &Origin, prefix: &Ipv6Net) -> Result<Vec<Vec<Route>>, Unsettled> {
    let nodes = world.names.len();
    let mut all: Vec<Vec<Route>> = vec![Vec::new(); nodes];
    all[origin.node].push(Route { by: By::Own, preference: u32::MAX, path: Vec::new(), no_export: false });
    // A change crosses the topology in as many rounds as it has gateways; twice that is ample where there is an end at all.
    for _ in 0..2 * nodes + 2 {
        let mut next: Vec<Vec<Route>> = Vec::with_capacity(nodes);
        for node in 0..nodes {
            let mut routes: Vec<Route> = all[node].iter().filter(|route| route.by == By::Own).cloned().collect();
            routes.extend(
                world.links_of(node).filter_map(|(number, _)| heard(world, origin, prefix, node, number, &all)),
            );
            routes.sort_by_key(|route| (u32::MAX - route.preference, route.path.len(), route.by));
            next.push(routes);
        }
        if next == all {
            return Ok(all);
        }
        all = next;
    }
    Err(Unsettled { prefix: *prefix })
}

/// Returns the route to the prefix that a gateway accepts from a link.
fn heard(
    world: &World,
    origin: &Origin,
    prefix: &Ipv6Net,
    node: usize,
    number: usize,
    all: &[Vec<Route>],
) -> Option<Route> {
    let link = &world.links[number];
    let neighbor = link.other(node);
    let best = all[neighbor].first().filter(|_| link.up)?;
    let (mut no_export, mut times) = (false, 1);
    match best.by {
        By::Own => match origin.announce.iter().find(|(to, _)| *to == node).map(|(_, announce)| *announce) {
            Some(Announce::No) => return None,
            Some(Announce::NoExport) => no_export = true,
            Some(Announce::Prepended(more)) => times += more,
            None => {}
        },
        By::Link(from) => {
            let from_customer = world.links[from].side(neighbor) == Side::Customer;
            let to_customer = link.side(neighbor) == Side::Customer;
            if best.no_export || from == number || !(from_customer || to_customer) {
                return None;
            }
        }
    }
    if best.path.contains(&node) {
        return None;
    }
    let path = std::iter::repeat_n(neighbor, times).chain(best.path.iter().copied()).collect();
    Some(Route { by: By::Link(number), preference: preference(world, node, number, prefix), path, no_export })
}

fn preference(world: &World, node: usize, number: usize, prefix: &Ipv6Net) -> u32 {
    let link = &world.links[number];
    let policy = world.preferences.iter().find(|policy| (policy.node, policy.link) == (node, number));
    let of_prefix = policy.filter(|policy| policy.prefixes.contains(prefix)).map(|policy| policy.value);
    of_prefix.or(link.preference[link.end(node)]).unwrap_or(match link.side(node) {
        Side::Customer => 300,
        Side::Peer => 200,
        _ => 100,
    })
}
