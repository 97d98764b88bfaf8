//! The case of the guide to access lists on VPP: a rule marks a VXLAN tunnel and sends its packets to the node that takes them out,
//! past the nodes of the interface. It is measured beside the same packets on their usual way.

use std::net::{IpAddr, Ipv4Addr};

use serde::{Deserialize, Serialize};
use weir_packet::identify::Identifier;
use weir_packet::tunnel::{Carrier, Id};
use weir_packet::wire::{MacAddress, ethernet, ipv4, protocol, udp, vxlan};
use weir_plane::model::{
    AclAction, AclRule, Addresses, Gateway, Interface, InterfaceKind, Origin, OuterDf, OuterDscp, OuterTtl, Ports,
    RouteTarget, SteerIndex, SteerList, SteerNode, SteerRule, SteerWay, Transport, Tunnel, VrfIndex,
};
use weir_plane::node::Node;
use weir_port::spec::PortSpec;

use super::rules::rule;
use crate::esp::captures::{Repeated, STATION};
use crate::report::figure::Figure;
use crate::turns::{Outcome, Run};
use crate::{Error, frames, model};

/// The network of the tunnel.
const VNI: u32 = 100;
/// The port of VXLAN (RFC 7348).
const PORT: u16 = 4789;
/// The ends of the tunnel: the peer, and the gateway.
const ENDS: [Ipv4Addr; 2] = [Ipv4Addr::new(198, 51, 100, 2), Ipv4Addr::new(198, 51, 100, 1)];
/// The gateway's station in the network of the tunnel.
const INSIDE: MacAddress = MacAddress([2, 0, 0, 0, 2, 1]);
/// Where packets inside go.
const BEHIND: &str = "20.16.0.0/12";
/// Octets behind the header of UDP inside.
const OCTETS: usize = 18;

/// The cost of a packet that comes in by the tunnel, in ticks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Vxlan {
    /// `none`: the usual way, or the rule's actions.
    pub rule: String,
    /// The node that matches the rule.
    pub node: Option<Figure>,
    /// All nodes.
    pub graph: Figure,
}

pub(super) fn measure(flows: u32, turns: usize, windows: usize) -> Result<Vec<Vxlan>, Error> {
    let frames: Vec<Vec<u8>> = (0..flows).map(frame).collect();
    let repeated = Repeated::new(&frames)?;
    let plain = gateway(repeated.port.clone());
    let mut steered = plain.clone();
    steered.steer.push(SteerList { name: "edge".to_owned(), rules: [marks()].into(), origin: Origin(0) });
    steered.interfaces[0].steer = Some(SteerIndex(0));
    let mut run = Run::new(&plain)?;
    run.add(&plain, &[], Outcome::Forwarded)?;
    run.add(&steered, &[], Outcome::Forwarded)?;
    let samples = run.turns(turns, windows, flows as usize)?;
    Ok(vec![
        Vxlan { rule: "none".to_owned(), node: None, graph: samples[0].graph() },
        Vxlan {
            rule: "mark, redirect node".to_owned(),
            node: Some(samples[1].node(Node::Ip4Steer)),
            graph: samples[1].graph(),
        },
    ])
}

/// `mark 7 redirect node tunnel-decap unchecked udp from any to 198.51.100.1 port 4789 vni 100`.
fn marks() -> SteerRule {
    let transport = Transport::Ports {
        protocol: protocol::UDP,
        source: Ports::Any,
        destination: Ports::from(PORT..=PORT),
        flags: None,
    };
    let to = Addresses::Net(IpAddr::from(ENDS[1]).into());
    let matches = AclRule { to, transport, ..AclRule::all(AclAction::Permit, Origin(0)) };
    SteerRule {
        unchecked: true,
        id: Some((Identifier::Vni, VNI..=VNI)),
        ..rule(SteerWay::Node(SteerNode::TunnelDecap), Some(7), matches)
    }
}

/// A gateway with the other end of the tunnel behind its first interface.
fn gateway(port: PortSpec) -> Gateway {
    let net = |text: &str| text.parse().expect("a constant prefix");
    let next: IpAddr = Ipv4Addr::new(203, 0, 113, 9).into();
    let tunnel = Tunnel {
        carrier: Carrier::Vxlan,
        id: Id::network(VNI),
        port: PORT,
        direct: false,
        checksum: false,
        zero_checksum: true,
        mss_clamp: None,
        vrf: VrfIndex(0),
        local: ENDS[1].into(),
        remote: ENDS[0].into(),
        ttl: OuterTtl::default(),
        dscp: OuterDscp::Copy,
        ecn: true,
        df: OuterDf::Copy,
    };
    let mut wan = model::interface("wan", port, net("198.51.100.1/24"));
    wan.mac = Some(STATION);
    let inside = Interface {
        kind: InterfaceKind::Tunnel(tunnel),
        mac: Some(INSIDE),
        mtu: 1400,
        ..model::interface("inside", PortSpec::Null, net("172.16.0.1/24"))
    };
    Gateway {
        interfaces: vec![wan, model::interface("out", PortSpec::Null, net("203.0.113.1/24")), inside],
        routes: vec![model::route(net(BEHIND), RouteTarget::Via([model::hop(1, next)].into()))],
        neighbors: vec![model::neighbor(1, next, [2, 0, 0, 0, 1, 1])],
        ..model::empty()
    }
}

/// The packet of a flow, as it comes out of the tunnel's network.
fn frame(flow: u32) -> Vec<u8> {
    let source = 1024 + (flow % 60_000) as u16;
    let from = Ipv4Addr::from_bits(0x0a10_0001 + flow % 0xffff);
    let addresses = (from.into(), Ipv4Addr::new(20, 16, 0, 1).into());
    let inner = frames::udp(INSIDE, addresses, (source, 53), OCTETS);
    let payload = [&vxlan::Fields { vni: VNI }.emit()[..], &inner].concat();
    let ends = (ENDS[0].into(), ENDS[1].into());
    let mut outer = frames::udp_of(STATION, ends, (source | 0xc000, PORT), &payload);
    // RFC 7348, 5: it should be zero.
    outer[ethernet::LENGTH + ipv4::LENGTH + udp::CHECKSUM..][..2].fill(0);
    outer
}
