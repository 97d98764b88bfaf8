//! `weir bench tunnels`: packets that are put into a tunnel and, in the same gateway, taken out of it, by carrier and family.
//!
//! The gateway is the other end itself: both outer addresses are its own. A packet comes in, leaves by a tunnel, arrives for the
//! gateway, comes in by the tunnel's other end in a second routing domain, and leaves.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_base::tsc;
use weir_packet::tunnel::{Carrier, Id};
use weir_packet::wire::MacAddress;
use weir_plane::model::{
    Address, Gateway, Interface, InterfaceKind, Origin, OuterDf, OuterDscp, OuterTtl, Route, RouteTarget, Tunnel, Vrf,
    VrfIndex,
};
use weir_plane::node::Node;
use weir_port::spec::PortSpec;

use crate::report::figure::{Figure, Target};
use crate::report::table::Table;
use crate::report::{Page, Report, machine};
use crate::turns::{Outcome, Run, Samples};
use crate::{Error, machine as cpu, model};

/// Flows of UDP.
const FLOWS: u32 = 10_000;

/// Octets of the inner packets, with a link-layer header.
const SIZE: u32 = 78;

/// Ticks that a node may take for a packet.
const TARGET: f64 = 15.0;

/// The hardware address of the other end of a tunnel.
const MAC: [u8; 6] = [2, 0, 0, 0, 2, 2];

/// The measurement of `weir bench tunnels`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Tunnels {
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// The name of the CPU.
    pub cpu: String,
    /// Turns: medians are over these.
    pub turns: usize,
    /// Flows of UDP.
    pub flows: u32,
    /// The cases.
    pub cases: Vec<Case>,
}

/// The cost of a case, in ticks per packet.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Case {
    /// The carrier.
    pub carrier: String,
    /// The family of the inner header: `ipv4` or `ipv6`.
    pub inner: String,
    /// The family of the outer header.
    pub outer: String,
    /// The node `tunnel-encap`.
    pub encap: Figure,
    /// The node `tunnel-decap`.
    pub decap: Figure,
    /// All nodes, both ways.
    pub graph: Figure,
    /// The target for `tunnel-encap`.
    pub target: Option<Target>,
}

impl Report for Tunnels {
    const SCHEMA: &'static str = "weir.bench.tunnels/1";

    fn page(&self) -> Page {
        let table = Table::of(&self.cases)
            .words("Carrier", |case| case.carrier.clone())
            .words("Inner", |case| case.inner.clone())
            .words("Outer", |case| case.outer.clone())
            .number("Encap", 1, |case| case.encap.median)
            .number("Decap", 1, |case| case.decap.median)
            .number("Graph", 0, |case| case.graph.median)
            .target(|case| case.target);
        Page::default()
            .line(machine(&self.cpu, self.tick_frequency))
            .line(format!("ticks are per packet: medians of {} turns; {} flows of UDP", self.turns, self.flows))
            .line("encap, decap: the nodes; graph: all nodes, both ways")
            .table(table)
    }
}

impl Tunnels {
    /// Measures all cases on a CPU, by default the last one that may be used. `quick` takes a small part of the effort.
    ///
    /// # Errors
    /// If there is no room, or packets do not go where they should.
    pub fn measure(cpu: Option<usize>, quick: bool) -> Result<Tunnels, Error> {
        cpu::pin(cpu)?;
        let (turns, windows, flows) = if quick { (2, 2, 500) } else { (7, 5, FLOWS) };
        let mut cases = Vec::new();
        for carrier in Carrier::ALL {
            for (inner, outer) in [(true, true), (false, false)] {
                cases.push(measure(carrier, (inner, outer), flows, (turns, windows))?);
            }
        }
        let (tick_frequency, cpu) = (tsc::frequency(), cpu::cpu_name());
        Ok(Tunnels { tick_frequency, cpu, turns, flows, cases })
    }
}

fn measure(
    carrier: Carrier,
    (inner, outer): (bool, bool),
    flows: u32,
    (turns, windows): (usize, usize),
) -> Result<Case, Error> {
    let gateway = gateway(carrier, inner, outer, flows);
    let mut run = Run::new(&gateway)?;
    run.add(&gateway, &[Node::TunnelEncap, Node::TunnelDecap], Outcome::Forwarded)?;
    let samples = run.turns(turns, windows, flows as usize)?;
    let [own]: &[Samples; 1] = samples.as_slice().try_into().expect("a version has samples");
    let family = |v4: bool| if v4 { "ipv4" } else { "ipv6" }.to_owned();
    let encap = own.node(Node::TunnelEncap);
    Ok(Case {
        carrier: carrier.name().to_owned(),
        inner: family(inner),
        outer: family(outer),
        target: Some(Target::at_most(TARGET, encap.median)),
        encap,
        decap: own.node(Node::TunnelDecap),
        graph: own.graph(),
    })
}

/// A gateway that is the other end of its tunnel.
fn gateway(carrier: Carrier, inner: bool, outer: bool, flows: u32) -> Gateway {
    let net = |text: &str| text.parse::<IpNet>().expect("a constant prefix");
    let address = |text: &str| text.parse::<IpAddr>().expect("a constant address");
    let [from, to, link, way_in, far, way_out] = match inner {
        true => ["10.16.0.0/12", "20.16.0.0/12", "192.0.2.1/24", "172.16.0.1/24", "172.16.0.2/24", "203.0.113.1/24"]
            .map(net),
        false => [
            "2001:db8:10::/48",
            "2001:db8:20::/48",
            "2001:db8:1::1/64",
            "2001:db8:77::1/64",
            "2001:db8:77::2/64",
            "2001:db8:3::1/64",
        ]
        .map(net),
    };
    let next = if inner { address("203.0.113.9") } else { address("2001:db8:3::9") };
    let ends = if outer { ["198.51.100.1/24", "198.51.100.2/24"] } else { ["2001:db8:2::1/64", "2001:db8:2::2/64"] };
    let ends = ends.map(net);
    let inside = VrfIndex(1);
    let lan = model::udp(model::range(from, 0xffff), model::range(to, 0xffff), SIZE + 20 * u32::from(!inner), flows, 1);
    let lan = model::interface("lan", lan, link);
    let mut wan = model::interface("wan", PortSpec::Null, ends[0]);
    wan.addresses.push(Address { net: ends[1], origin: Origin(0) });
    let out = Interface { vrf: inside, ..model::interface("out", PortSpec::Null, way_out) };
    let tunnel = |at: usize| Tunnel {
        carrier,
        id: if carrier.is_ethernet() { Id::network(7) } else { Id::NONE },
        port: carrier.port().unwrap_or(0),
        direct: false,
        checksum: false,
        // The checksum over all octets is no part of the header.
        zero_checksum: true,
        mss_clamp: None,
        vrf: VrfIndex(0),
        local: ends[at].addr(),
        remote: ends[1 - at].addr(),
        ttl: OuterTtl::default(),
        dscp: OuterDscp::Copy,
        ecn: true,
        df: OuterDf::Copy,
    };
    let end = |name: &str, at: usize, net: IpNet, vrf: VrfIndex| Interface {
        kind: InterfaceKind::Tunnel(tunnel(at)),
        mac: Some(MacAddress([2, 0, 0, 0, 2, at as u8 + 1])),
        mtu: 1400,
        vrf,
        ..model::interface(name, PortSpec::Null, net)
    };
    let via = |interface: u32, vrf: VrfIndex, next: IpAddr| -> Route {
        Route { vrf, ..model::route(to, RouteTarget::Via([model::hop(interface, next)].into())) }
    };
    let plain = model::empty();
    let mut neighbors = vec![model::neighbor(2, next, [2, 0, 0, 0, 1, 1])];
    if carrier.is_ethernet() {
        neighbors.push(model::neighbor(3, far.addr(), MAC));
    }
    Gateway {
        vrfs: plain.vrfs.iter().cloned().chain([Vrf::named("inside")]).collect(),
        interfaces: vec![lan, wan, out, end("a", 0, way_in, VrfIndex(0)), end("b", 1, far, inside)],
        routes: vec![via(3, VrfIndex(0), far.addr()), via(2, inside, next)],
        neighbors,
        ..plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_pass_every_tunnel() {
        let mut cases = Vec::new();
        for carrier in Carrier::ALL {
            for families in [(true, true), (false, false), (true, false)] {
                cases.push(measure(carrier, families, 80, (1, 1)).unwrap());
            }
        }
        assert!(cases.iter().all(|case| case.encap.median > 0.0 && case.decap.median > 0.0), "{cases:?}");
        let report = Tunnels { tick_frequency: 1e9, cpu: "none".into(), turns: 1, flows: 80, cases };
        assert_eq!(serde_json::from_str::<Tunnels>(&report.json()).unwrap(), report);
        assert!(report.text().contains("geneve"), "{}", report.text());
    }
}
