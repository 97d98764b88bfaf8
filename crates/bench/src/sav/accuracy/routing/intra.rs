//! Routes inside a domain: every router knows where each prefix is attached, and takes the shortest path there. Networks
//! without an autonomous system know one way out.
//!
//! Beside the best, a router has the neighbours that would not send packets for the prefix back to it: loop-free alternates
//! (RFC 5286, 3.1).

use ipnet::Ipv6Net;

use super::super::address::default_route;
use super::super::world::{Announce, Origin, Side, Tie, World};
use super::{By, Learned, Rib};

const FAR: u32 = u32::MAX / 4;

pub(super) fn routes(world: &World) -> Vec<Rib> {
    let distances = distances(world);
    let mut ribs = vec![Rib::new(); world.names.len()];
    for origin in &world.origins {
        let attached: Vec<(usize, By)> = attachments(world, origin);
        for (node, rib) in ribs.iter_mut().enumerate() {
            let routes = if node == origin.node {
                vec![By::Own]
            } else if is_router(world, node) {
                towards(world, &distances, &attached, node)
            } else {
                continue;
            };
            let learned = |by| Learned { by, origin: origin.node };
            let routes: Vec<Learned> = routes.into_iter().map(learned).collect();
            if !routes.is_empty() {
                rib.extend(origin.prefixes.iter().map(|prefix: &Ipv6Net| (*prefix, routes.clone())));
            }
        }
    }
    for node in (0..world.names.len()).filter(|&node| !is_router(world, node)) {
        let mut ways = world.links_of(node).filter(|(_, link)| link.up);
        if let Some((number, link)) = ways.next() {
            let out = Learned { by: By::Link(number), origin: link.other(node) };
            ribs[node].insert(default_route(), vec![out]);
        }
    }
    ribs
}

fn is_router(world: &World, node: usize) -> bool {
    !world.links_of(node).any(|(_, link)| link.tie == Tie::Access && link.ends[0] == node)
}

/// The routers that have a route of their own to the prefixes of an origin, and how it leads there.
fn attachments(world: &World, origin: &Origin) -> Vec<(usize, By)> {
    if is_router(world, origin.node) {
        return vec![(origin.node, By::Own)];
    }
    let is_told = |router| !origin.announce.contains(&(router, Announce::No));
    let links = world.links_of(origin.node).filter(|(_, link)| link.up);
    let attached = links.map(|(number, link)| (link.other(origin.node), By::Link(number)));
    attached.filter(|&(router, _)| is_told(router)).collect()
}

/// The ways of a router to where a prefix is attached, the shortest first.
fn towards(world: &World, distances: &[Vec<u32>], attached: &[(usize, By)], node: usize) -> Vec<By> {
    let distance = |from: usize| attached.iter().map(|&(router, _)| distances[from][router]).min().unwrap_or(FAR);
    let mut ways: Vec<(u32, By)> =
        attached.iter().filter(|(router, _)| *router == node).map(|&(_, by)| (0, by)).collect();
    for (number, link) in world.links_of(node) {
        if let (Side::Domain, Tie::Igp(cost), true) = (link.side(node), link.tie, link.up) {
            let neighbor = link.other(node);
            let is_shortest = cost + distance(neighbor) == distance(node);
            let is_alternate = distance(neighbor) < distances[neighbor][node].saturating_add(distance(node));
            if distance(neighbor) < FAR && (is_shortest || is_alternate) {
                ways.push((cost + distance(neighbor), By::Link(number)));
            }
        }
    }
    ways.sort();
    ways.into_iter().map(|(_, by)| by).collect()
}

/// Between all routers (Floyd and Warshall).
fn distances(world: &World) -> Vec<Vec<u32>> {
    let nodes = world.names.len();
    let mut distances = vec![vec![FAR; nodes]; nodes];
    for (node, row) in distances.iter_mut().enumerate() {
        row[node] = 0;
    }
    for link in world.links.iter().filter(|link| link.up) {
        if let Tie::Igp(cost) = link.tie {
            let [a, b] = link.ends;
            distances[a][b] = distances[a][b].min(cost);
            distances[b][a] = distances[b][a].min(cost);
        }
    }
    for middle in 0..nodes {
        for from in 0..nodes {
            for to in 0..nodes {
                distances[from][to] = distances[from][to].min(distances[from][middle] + distances[middle][to]);
            }
        }
    }
    distances
}
