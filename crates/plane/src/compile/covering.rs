//! The routes of many destinations, found in one walk over the routes of the configuration.

use std::cmp::Reverse;
use std::net::IpAddr;

use ipnet::IpNet;

use crate::model::{Interface, InterfaceIndex, NextHop, Route, RouteTarget, VrfIndex};

/// Destinations of a VRF, and the routes that cover them.
#[derive(Debug)]
pub struct Destinations<T> {
    /// Their VRF.
    pub vrf: VrfIndex,
    /// The first of them.
    pub first: IpAddr,
    /// The last of them.
    pub last: IpAddr,
    /// The line that names them.
    pub of: T,
    /// The routes that cover the first of them, the best one first.
    pub routes: Vec<Covering>,
}

impl<T> Destinations<T> {
    /// Destinations whose routes are not found yet.
    pub fn new(vrf: VrfIndex, (first, last): (IpAddr, IpAddr), of: T) -> Self {
        Destinations { vrf, first, last, of, routes: Vec::new() }
    }
}

/// A route that covers destinations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Covering {
    /// The length of its prefix.
    length: u8,
    metric: u32,
    /// It covers all of the destinations, and not the first ones alone.
    pub is_whole: bool,
    /// The way of packets.
    pub way: Way,
}

/// The way of packets by a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// The prefix is that of an address of an interface.
    Link(InterfaceIndex),
    /// The place of the route among all.
    Route(usize),
}

impl Way {
    /// Returns the interfaces that packets leave by.
    pub fn out(self, routes: &[Route]) -> impl Iterator<Item = InterfaceIndex> {
        let (link, hops): (_, &[NextHop]) = match self {
            Way::Link(interface) => (Some(interface), &[]),
            Way::Route(place) => match routes.get(place).map(|route| &route.target) {
                Some(RouteTarget::Via(hops)) => (None, hops),
                _ => (None, &[]),
            },
        };
        link.into_iter().chain(hops.iter().map(|hop| hop.interface))
    }
}

/// Finds the routes of each range of destinations: by the length of their prefixes, those of one prefix by their metrics. Sorts
/// `all` by VRF and first address. Links count if `interfaces` has them.
pub fn find_routes<T>(all: &mut [Destinations<T>], interfaces: &[Interface], routes: &[Route]) {
    all.sort_by_key(|own| (own.vrf, own.first));
    let mut add = |vrf: VrfIndex, prefix: IpNet, metric: u32, way: Way| {
        let from = all.partition_point(|own| (own.vrf, own.first) < (vrf, prefix.network()));
        let covered = all[from..].iter_mut().take_while(|own| own.vrf == vrf && prefix.contains(&own.first));
        for own in covered {
            let is_whole = prefix.contains(&own.last);
            own.routes.push(Covering { length: prefix.prefix_len(), metric, is_whole, way });
        }
    };
    for (index, interface) in (0..).zip(interfaces) {
        for own in &interface.addresses {
            add(interface.vrf, own.net.trunc(), 0, Way::Link(InterfaceIndex(index)));
        }
    }
    for (place, route) in routes.iter().enumerate() {
        add(route.vrf, route.prefix, route.metric, Way::Route(place));
    }
    all.iter_mut().for_each(|own| own.routes.sort_by_key(|route| (Reverse(route.length), route.metric)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_route_comes_first_and_a_part_is_no_whole() {
        let route = |prefix: &str, metric: u32, vrf: u16| Route {
            vrf: VrfIndex(vrf),
            prefix: prefix.parse().unwrap(),
            metric,
            target: RouteTarget::Blackhole,
            origin: Default::default(),
        };
        let routes = [
            route("0.0.0.0/0", 0, 0),
            route("10.2.0.0/16", 5, 0),
            route("10.2.0.0/16", 1, 0),
            route("10.2.0.0/24", 0, 0),
            route("10.2.1.0/24", 0, 0),
            route("10.2.0.0/16", 0, 1),
            route("::/0", 0, 0),
        ];
        let range = ("10.2.0.9".parse().unwrap(), "10.2.1.9".parse().unwrap());
        let mut all: Vec<_> = [1, 0].map(|vrf| Destinations::new(VrfIndex(vrf), range, vrf)).into();
        find_routes(&mut all, &[], &routes);
        let found = |of: u16| {
            let own = all.iter().find(|own| own.of == of).unwrap();
            own.routes.iter().map(|route| (route.way, route.is_whole)).collect::<Vec<_>>()
        };
        assert_eq!(found(0), [(3, false), (2, true), (1, true), (0, true)].map(|(at, whole)| (Way::Route(at), whole)));
        assert_eq!(found(1), [(Way::Route(5), true)]);
    }
}
