//! Random tunnels: some networks are reached by one, whose outer packets pass the policies of a link.

use std::sync::Arc;

use weir_base::random::Random;
use weir_packet::tunnel::{Carrier, Id};
use weir_plane::model::{
    Gateway, Interface, InterfaceIndex, InterfaceKind, NextHop, OuterDf, OuterDscp, OuterTtl, RouteTarget, Tunnel,
};

use crate::gateway::{Links, host, pick};
use crate::kit::own_mac;

/// Adds a tunnel behind all other interfaces, which most models have not, and leads some routes into it.
pub fn tunnels(random: &mut Random, links: &Links, model: &mut Gateway) {
    if random.chance(0.75) {
        return;
    }
    let link = random.below(links.count as u64) as usize;
    let v6 = random.chance(0.5);
    // Neighbours of links in tunnels are found by frames of the control side, whose order is that of a map.
    let carrier = pick(random, &[Carrier::Gue, Carrier::Gre, Carrier::Ip]);
    let tunnel = Tunnel {
        carrier,
        id: if carrier == Carrier::Gre { Id::key(Some(7)) } else { Id::NONE },
        port: carrier.port().unwrap_or(0),
        direct: random.chance(0.5),
        checksum: false,
        zero_checksum: random.chance(0.5),
        mss_clamp: None,
        vrf: model.interfaces[link].vrf,
        local: host(link, v6, 1),
        remote: host(link, v6, 2),
        ttl: if random.chance(0.5) { OuterTtl::Copy } else { OuterTtl::default() },
        dscp: OuterDscp::Copy,
        ecn: random.chance(0.5),
        // Identifications of IPv4 are random, and differ between two gateways.
        df: OuterDf::Set,
    };
    let kind = InterfaceKind::Tunnel(tunnel);
    let plain = &model.interfaces[0];
    let number = InterfaceIndex(model.interfaces.len() as u32);
    model.interfaces.push(Interface {
        name: "tunnel".into(),
        kind,
        mac: Some(own_mac(200)),
        mtu: 1400,
        addresses: Vec::new(),
        punt: None,
        router_advertisement: None,
        ..plain.clone()
    });
    for route in &mut model.routes {
        let RouteTarget::Via(hops) = &route.target else { continue };
        let Some(&NextHop { weight, .. }) = hops.first() else { continue };
        if random.chance(0.4) {
            let hop = NextHop { interface: number, address: None, weight };
            route.target = RouteTarget::Via(Arc::from([hop]));
        }
    }
}
