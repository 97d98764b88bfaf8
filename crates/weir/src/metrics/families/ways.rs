//! Sources of routes, and tunnels.

use weir_plane::stats::TunnelStats;

use super::super::family::Family;
use super::super::family::Kind::{Counter, Gauge};
use super::super::family::Table;
use crate::control::Gateway;
use crate::render::routes::Source;

const SOURCES: Table<Source> = Table {
    labels: "source",
    columns: &[
        (Gauge, "weir_route_source_up", "1 while the source is followed.", |s| (s.state == "following").into()),
        (Gauge, "weir_route_source_routes", "Routes of the source, best or not.", |s| (s.routes as u64).into()),
        (Gauge, "weir_route_source_nexthops", "Next hop objects of the source.", |s| (s.nexthops as u64).into()),
        (Counter, "weir_route_source_refused", "Routes that found no room.", |s| s.refused.into()),
        (Counter, "weir_route_source_lists", "Lists that were read, or connections.", |s| s.lists.into()),
        (Counter, "weir_route_source_overflows", "Times that changes came faster than they were read.", |s| {
            s.overflows.into()
        }),
    ],
};

const TUNNELS: Table<TunnelStats> = Table {
    labels: "tunnel,kind",
    columns: &[
        (Gauge, "weir_tunnel_mtu_bytes", "Octets of the longest inner packet, by the learned path MTU, too.", |t| {
            u64::from(t.inner_mtu()).into()
        }),
        (Counter, "weir_tunnel_out_packets", "Packets that went into the tunnel.", |t| t.out_packets.into()),
        (Counter, "weir_tunnel_out_bytes", "Octets of these packets inside.", |t| t.out_bytes.into()),
        (Counter, "weir_tunnel_in_packets", "Packets that came out of the tunnel.", |t| t.in_packets.into()),
        (Counter, "weir_tunnel_in_bytes", "Octets of these packets inside.", |t| t.in_bytes.into()),
        (Counter, "weir_tunnel_refused_packets", "Packets of the peer that the tunnel refused.", |t| t.refused.into()),
        (Counter, "weir_tunnel_too_long_packets", "Packets longer than the MTU or the path MTU.", |t| {
            t.too_long.into()
        }),
        (Counter, "weir_tunnel_path_mtu_lowered", "Times that an ICMP error lowered the path MTU.", |t| {
            t.lowered.into()
        }),
    ],
};

pub(super) fn read(gateway: &dyn Gateway) -> Vec<Family> {
    let mut families = SOURCES.read(&gateway.route_sources(), |source| vec![source.source.clone()]);
    families.extend(TUNNELS.read(&gateway.tunnels(), |tunnel| vec![tunnel.name.clone(), tunnel.kind.clone()]));
    families
}
