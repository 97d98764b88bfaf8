//! Static routes.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::index::{InterfaceIndex, VrfIndex};
use super::origin::Origin;

/// A static route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Its routing domain.
    pub vrf: VrfIndex,
    /// Destination prefix, host bits clear; unique per domain and metric.
    pub prefix: IpNet,
    /// Of several routes for one prefix the one of the lowest metric counts that has a path whose link is up. The others are
    /// alternates: [`UrpfMode::Feasible`](super::UrpfMode::Feasible) takes sources by them, too.
    pub metric: u32,
    /// The target of the route.
    pub target: RouteTarget,
    /// Where it was declared.
    pub origin: Origin,
}

/// The target of a route.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RouteTarget {
    /// Forward over one of these, by flow hash and weight; not empty. Routes read from one list share it.
    Via(Arc<[NextHop]>),
    /// Discard silently.
    Blackhole,
    /// Discard and say so (ICMP unreachable).
    Unreachable,
    /// Discard and say that it is forbidden (ICMP: administratively prohibited).
    Prohibit,
    /// For the gateway itself.
    Local,
}

/// One path of a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct NextHop {
    /// Egress interface.
    pub interface: InterfaceIndex,
    /// The gateway's address; `None`: the destination is on the link. A path of an IPv4 route may name an IPv6
    /// gateway (RFC 8950); the reverse is refused.
    pub address: Option<IpAddr>,
    /// Share of flows relative to the other paths, 1 ..= 255.
    pub weight: u8,
}
