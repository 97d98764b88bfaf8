//! A gateway and an interface without anything that a configuration would add.

use ipnet::IpNet;
use weir_port::spec::{Middleware, PortSpec};

use super::{
    Access, Address, Buffers, FlowTable, Follow, Gateway, IcmpLimits, Interface, InterfaceKind, Limits, Merge, Origin,
    Origins, PerFamily, Vrf, VrfIndex, Workers,
};

impl Gateway {
    /// Returns a gateway with the default VRF, one worker, few buffers and nothing else.
    #[must_use]
    pub fn empty() -> Gateway {
        Gateway {
            bridges: Vec::new(),
            vrfs: vec![Vrf::named("default")],
            interfaces: Vec::new(),
            routes: Vec::new(),
            neighbors: Vec::new(),
            sav: Vec::new(),
            samplers: Vec::new(),
            line_cards: Vec::new(),
            groups: Default::default(),
            acls: Vec::new(),
            allowlists: Vec::new(),
            bindings: Vec::new(),
            classify: Vec::new(),
            nat: Vec::new(),
            spds: Vec::new(),
            steer: Vec::new(),
            sas: Vec::new(),
            ipsec: Default::default(),
            workers: Workers::default(),
            buffers: Buffers { small: 2048, large: 16, large_is_default: false },
            icmp: IcmpLimits::default(),
            neighbor_discovery: Default::default(),
            limits: Limits::default(),
            flow_table: FlowTable::default(),
            origins: Origins::default(),
        }
    }
}

impl Interface {
    /// Returns an interface of the default VRF on a port with one queue, with an MTU of 1,500 octets.
    #[must_use]
    pub fn on_port(name: &str, port: PortSpec, net: IpNet) -> Interface {
        Interface {
            name: name.to_owned(),
            kind: InterfaceKind::Port { port, middleware: Middleware::default(), queues: 1 },
            mac: None,
            mtu: 1500,
            addresses: vec![Address { net, origin: Origin::default() }],
            vrf: VrfIndex(0),
            zone: None,
            fast_path: true,
            merge: Merge::default(),
            punt: None,
            follow: Follow::default(),
            router_advertisement: None,
            sav: PerFamily::default(),
            access: Access::default(),
            nat: None,
            spd: None,
            steer: None,
            origin: Origin::default(),
        }
    }
}
