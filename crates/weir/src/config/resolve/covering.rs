//! The routes of many destinations, found in one walk over all routes.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_plane::model::{Interface, Route, RouteTarget, VrfIndex};

/// Destinations of a VRF, and the best route so far that covers all of them.
pub(super) struct Destinations<T> {
    pub(super) vrf: VrfIndex,
    pub(super) first: IpAddr,
    pub(super) last: IpAddr,
    /// The line that names them.
    pub(super) of: T,
    /// Length and metric of the route.
    pub(super) route: Option<(u8, u32)>,
    /// The interfaces that the route leaves by.
    pub(super) out: Vec<usize>,
}

impl<T> Destinations<T> {
    pub(super) fn new(vrf: VrfIndex, (first, last): (IpAddr, IpAddr), of: T) -> Self {
        Destinations { vrf, first, last, of, route: None, out: Vec::new() }
    }
}

/// Finds the best route that covers all of each range of destinations. One walk over the routes serves all.
pub(super) fn find_routes<T>(all: &mut [Destinations<T>], interfaces: &[Interface], routes: &[Route]) {
    all.sort_by_key(|own| own.first);
    let mut add = |vrf: VrfIndex, prefix: IpNet, metric: u32, out: &[usize]| {
        let from = all.partition_point(|own| own.first < prefix.network());
        for own in &mut all[from..] {
            if !prefix.contains(&own.first) {
                break;
            }
            let length = prefix.prefix_len();
            let is_better = |(other, least): (u8, u32)| length > other || (length == other && metric < least);
            if own.vrf == vrf && prefix.contains(&own.last) && own.route.is_none_or(is_better) {
                own.route = Some((length, metric));
                own.out.clear();
                own.out.extend(out);
            }
        }
    };
    for (index, interface) in interfaces.iter().enumerate() {
        for own in &interface.addresses {
            add(interface.vrf, own.net.trunc(), 0, &[index]);
        }
    }
    let mut out = Vec::new();
    for route in routes {
        out.clear();
        if let RouteTarget::Via(hops) = &route.target {
            out.extend(hops.iter().map(|hop| hop.interface.0 as usize));
        }
        add(route.vrf, route.prefix, route.metric, &out);
    }
}
