//! Gateways that are measured: the parts that their models have in common.

use std::net::IpAddr;

use ipnet::IpNet;
use weir_packet::wire::MacAddress;
use weir_plane::model::{
    Buffers, FastPath, FlowTable, Gateway, Interface, InterfaceIndex, Neighbor, NextHop, Origin, Route, RouteTarget,
    VrfIndex,
};
use weir_port::spec::{GeneratorSpec, PortSpec, SizeSpec, StreamSource, StreamSpec, TemplateSpec, Transport};

/// Returns a gateway with the default VRF, few buffers and nothing else.
pub(crate) fn empty() -> Gateway {
    Gateway {
        buffers: Buffers { small: 4096, large: 1, large_is_default: false },
        // What is measured is what packets walk through, unless it is the fast path.
        flow_table: FlowTable { enabled: FastPath::Off, packets: 1, ..FlowTable::default() },
        ..Gateway::empty()
    }
}

/// Returns an interface of the default VRF on a port with one queue.
pub(crate) fn interface(name: &str, port: PortSpec, net: IpNet) -> Interface {
    Interface::on_port(name, port, net)
}

/// Returns a static neighbour.
pub(crate) fn neighbor(interface: u32, address: IpAddr, mac: [u8; 6]) -> Neighbor {
    Neighbor { interface: InterfaceIndex(interface), address, mac: MacAddress(mac), origin: Origin(0) }
}

/// Returns a next hop of weight 1.
pub(crate) fn hop(interface: u32, address: IpAddr) -> NextHop {
    NextHop { interface: InterfaceIndex(interface), address: Some(address), weight: 1 }
}

/// Returns a route of the default VRF with metric 0.
pub(crate) fn route(prefix: IpNet, target: RouteTarget) -> Route {
    Route { vrf: VrfIndex(0), prefix, metric: 0, target, origin: Origin(0) }
}

/// Returns a port that makes UDP packets of a size with random ports from 1024 on, between addresses of two ranges.
pub(crate) fn udp(from: (IpAddr, IpAddr), to: (IpAddr, IpAddr), size: u32, flows: u32, seed: u64) -> PortSpec {
    let template = TemplateSpec {
        source: from,
        destination: to,
        protocol: Transport::Udp,
        source_port: (1024, u16::MAX),
        destination_port: (1024, u16::MAX),
        size: SizeSpec::Fixed(size),
        flows,
        ttl: 64,
        dont_fragment: true,
        vlan: Vec::new(),
        source_mac: None,
        destination_mac: None,
        seed,
    };
    let stream = StreamSpec { source: StreamSource::Template(template), rate: None, count: None };
    PortSpec::Generator(GeneratorSpec { streams: vec![stream] })
}

/// Returns the first address of a network and the one so many behind it.
pub(crate) fn range(net: IpNet, last: u16) -> (IpAddr, IpAddr) {
    let last = match net.addr() {
        IpAddr::V4(address) => IpAddr::V4((address.to_bits() + u32::from(last)).into()),
        IpAddr::V6(address) => IpAddr::V6((address.to_bits() + u128::from(last)).into()),
    };
    (net.addr(), last)
}
