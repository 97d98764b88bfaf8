//! Plain forwarding between memory ports: a generator in, nothing out, the real graph in between.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::{Deserialize, Serialize};
use weir_plane::bench::{Bench, BenchError};
use weir_plane::model::{Gateway, RouteTarget};
use weir_plane::node::Node;
use weir_port::spec::{GeneratorSpec, PortSpec, SizeSpec, StreamSource, StreamSpec, TemplateSpec, Transport};

use crate::model;
use crate::report::figure::{Figure, Target};

/// Vectors of a window: 64 × 256 packets take about half a millisecond.
const WINDOW: usize = 64;

/// Neighbours that routes lead to, in turn.
const NEIGHBORS: u32 = 64;

/// What is forwarded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// IPv6 instead of IPv4.
    pub v6: bool,
    /// Routes: IPv4 /16 under 16.0.0.0/8 and on, IPv6 /48 under 2a00::/28, without gaps.
    pub prefixes: u32,
    /// Distinct destinations, uniformly random under the routes.
    pub flows: u32,
    /// Octets of a frame, without frame check sequence.
    pub size: u32,
    /// Target for the sum of all nodes, in ticks, if there is one.
    pub target: Option<u32>,
    /// What VPP takes for it, in ticks, where that is known.
    pub vpp: Option<u32>,
}

/// The loads that TARGETS names.
pub const LOADS: [Load; 5] = [
    Load { v6: false, prefixes: 256, flows: 10_000, size: 60, target: Some(36), vpp: Some(40) },
    Load { v6: true, prefixes: 1_000, flows: 10_000, size: 78, target: Some(50), vpp: Some(66) },
    Load { v6: true, prefixes: 10_000, flows: 10_000, size: 78, target: Some(58), vpp: Some(72) },
    Load { v6: true, prefixes: 100_000, flows: 100_000, size: 78, target: Some(75), vpp: Some(100) },
    Load { v6: true, prefixes: 1_000_000, flows: 1_000_000, size: 78, target: None, vpp: None },
];

/// What a load cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Routes.
    pub prefixes: u32,
    /// Flows.
    pub flows: u32,
    /// Octets of a frame.
    pub size: u32,
    /// Packets that were measured.
    pub packets: u64,
    /// Octets of the forwarding table.
    pub table_bytes: u64,
    /// Ticks per packet in each node that ran, inputs excluded.
    pub nodes: Vec<NodeCost>,
    /// Ticks per packet from `ethernet-input` to `output`.
    pub total: Figure,
    /// Ticks per packet that the generator took: not part of the total.
    pub generator: Figure,
    /// Packets per second of one worker, generator included.
    pub rate: f64,
    /// The target for the total.
    pub target: Option<Target>,
    /// VPP's figure for the same work, on another machine.
    pub vpp: Option<u32>,
}

/// What a node cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeCost {
    /// Its name.
    pub name: String,
    /// Ticks per packet.
    pub ticks: Figure,
}

/// Measures loads in turns, `windows` of each.
///
/// # Errors
/// When there is no room for what a load needs.
pub fn measure(loads: &[Load], windows: usize, mut progress: impl FnMut(usize)) -> Result<Vec<Cost>, BenchError> {
    let mut runs = Vec::new();
    for load in loads {
        let mut bench = Bench::new(&gateway(load), 1)?;
        bench.window(WINDOW); // fills caches and the pool
        runs.push((load, bench, Samples::default()));
    }
    for window in 0..windows {
        progress(window);
        for (_, bench, samples) in &mut runs {
            // The first touches what the other loads evicted.
            bench.window(4);
            samples.add(bench);
        }
    }
    Ok(runs.into_iter().map(|(load, bench, samples)| samples.cost(load, &bench)).collect())
}

/// What the windows of a load gave.
#[derive(Default)]
struct Samples {
    nodes: Vec<(Node, Vec<f64>)>,
    totals: Vec<f64>,
    packets: u64,
}

impl Samples {
    fn add(&mut self, bench: &mut Bench) {
        let mut total = 0.0;
        for window in bench.window(WINDOW).into_iter().filter(|window| window.packets > 0) {
            let ticks = window.ticks as f64 / window.packets as f64;
            match self.nodes.iter_mut().find(|(node, _)| *node == window.node) {
                Some((_, samples)) => samples.push(ticks),
                None => self.nodes.push((window.node, vec![ticks])),
            }
            if window.node == Node::Rx {
                self.packets += window.packets;
            } else {
                total += ticks;
            }
        }
        self.totals.push(total);
    }

    fn cost(mut self, load: &Load, bench: &Bench) -> Cost {
        let total = Figure::of_all(&mut self.totals);
        let mut generator = Figure { median: 0.0, p10: 0.0, p90: 0.0 };
        let mut nodes = Vec::new();
        for (node, mut samples) in self.nodes {
            let ticks = Figure::of_all(&mut samples);
            match node {
                Node::Rx => generator = ticks,
                _ => nodes.push(NodeCost { name: node.name().to_owned(), ticks }),
            }
        }
        let (v4, v6) = bench.table_bytes();
        Cost {
            family: if load.v6 { "ipv6" } else { "ipv4" }.to_owned(),
            prefixes: load.prefixes,
            flows: load.flows,
            size: load.size,
            packets: self.packets,
            table_bytes: if load.v6 { v6 } else { v4 } as u64,
            nodes,
            total,
            generator,
            rate: weir_base::tsc::frequency() / (total.median + generator.median),
            target: load.target.map(|most| Target::at_most(f64::from(most), total.median)),
            vpp: load.vpp,
        }
    }
}

/// A gateway that forwards a load from one interface to another.
fn gateway(load: &Load) -> Gateway {
    let (inside, outside) = match load.v6 {
        false => (("10.0.0.1/24", "10.0.0.2"), "10.1.0.1/16"),
        true => (("2001:db8::1/64", "2001:db8::2"), "2001:db8:1::1/64"),
    };
    let source = inside.1.parse().expect("a constant address");
    let net = |text: &str| text.parse().expect("a constant prefix");
    let stream = StreamSpec {
        source: StreamSource::Template(TemplateSpec {
            source: (source, source),
            destination: (route(load, 0).addr(), last(route(load, load.prefixes - 1))),
            protocol: Transport::Udp,
            source_port: (1024, 1024),
            destination_port: (1024, u16::MAX),
            size: SizeSpec::Fixed(load.size),
            flows: load.flows,
            ttl: 64,
            dont_fragment: true,
            vlan: Vec::new(),
            source_mac: None,
            destination_mac: None,
            seed: 1,
        }),
        rate: None,
        count: None,
    };
    let neighbor = |number: u32| match load.v6 {
        false => IpAddr::V4(Ipv4Addr::new(10, 1, 1, number as u8)),
        true => IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 1, number as u16)),
    };
    let via = |index: u32| RouteTarget::Via([model::hop(1, neighbor(index % NEIGHBORS))].into());
    Gateway {
        interfaces: vec![
            model::interface("in", PortSpec::Generator(GeneratorSpec { streams: vec![stream] }), net(inside.0)),
            model::interface("out", PortSpec::Null, net(outside)),
        ],
        routes: (0..load.prefixes).map(|index| model::route(route(load, index), via(index))).collect(),
        neighbors: (0..NEIGHBORS)
            .map(|number| model::neighbor(1, neighbor(number), [2, 0, 0, 0, 1, number as u8]))
            .collect(),
        ..model::empty()
    }
}

/// The route of this number.
fn route(load: &Load, index: u32) -> IpNet {
    if load.v6 {
        let address = Ipv6Addr::from((0x2a00_u128 << 112) + (u128::from(index) << 80));
        IpNet::V6(Ipv6Net::new_assert(address, 48))
    } else {
        IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::from((16 << 24) + (index << 16)), 16))
    }
}

fn last(net: IpNet) -> IpAddr {
    match net {
        IpNet::V4(net) => IpAddr::V4(net.broadcast()),
        IpNet::V6(net) => IpAddr::V6(net.broadcast()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_is_forwarded_whole() {
        for load in LOADS.iter().filter(|load| load.prefixes <= 10_000) {
            let mut bench = Bench::new(&gateway(load), 1).unwrap();
            bench.window(200);
            let sum = bench.conservation();
            assert!(sum.received > 0 && sum.transmitted == sum.received, "{load:?}: {sum:?}");
        }
    }

    #[test]
    fn costs_name_their_nodes() {
        let costs = measure(&LOADS[..1], 3, |_| ()).unwrap();
        let names: Vec<&str> = costs[0].nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["ethernet-input", "ip4-lookup", "ip4-rewrite", "output"]);
        assert!(costs[0].total.median > 0.0 && costs[0].rate > 0.0 && costs[0].target.is_some());
    }
}
