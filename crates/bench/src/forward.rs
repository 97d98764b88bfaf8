//! `weir bench forward`: plain forwarding between memory ports (a generator in, nothing out, the real graph in between), and
//! longest-prefix match in full tables.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use plotters::style::{BLUE, Color as _, RED, RGBColor};
use serde::{Deserialize, Serialize};
use weir_plane::bench::Bench;
use weir_plane::model::{Gateway, RouteTarget};
use weir_plane::node::Node;
use weir_port::spec::{GeneratorSpec, PortSpec, SizeSpec, StreamSource, StreamSpec, TemplateSpec, Transport};

use crate::lpm::{self, Lpm};
use crate::model;
use crate::prefixes::Prefixes;
use crate::report::chart::{Axis, Chart, Series, Shape, palette};
use crate::report::figure::{Figure, Target};
use crate::report::table::Table;
use crate::report::{Page, Report, machine};
use crate::turns::WINDOW;
use crate::{Error, machine as cpu};

/// Neighbours that routes lead to, in turn.
const NEIGHBORS: u32 = 64;

/// A load to forward.
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
    /// Ticks that VPP takes for it, where that is known.
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

/// The cost of a load.
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

/// The cost of a node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct NodeCost {
    /// Its name.
    pub name: String,
    /// Ticks per packet.
    pub ticks: Figure,
}

/// The measurement of `weir bench forward`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forward {
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// The name of the CPU.
    pub cpu: String,
    /// Windows per load: medians are over these.
    pub windows: usize,
    /// The loads.
    pub forward: Vec<Cost>,
    /// The origin of the full tables.
    pub prefixes: String,
    /// The full tables.
    pub lpm: Vec<Lpm>,
}

impl Forward {
    /// Measures all loads and both tables on a CPU, by default the last one that may be used. The tables are read from a file
    /// of ADDRESS/LENGTH lines, or made; peers are programs in a directory. `quick` takes a tenth of the effort.
    ///
    /// # Errors
    /// If the file cannot be read, a peer fails or disagrees, or there is no room.
    pub fn measure(
        prefixes: Option<&Path>,
        peers: Option<PathBuf>,
        cpu: Option<usize>,
        quick: bool,
    ) -> Result<Forward, Error> {
        // Read first: a mistake in it should not cost the time of the rest.
        let prefixes = match prefixes {
            Some(path) => Prefixes::read(path).map_err(Error::Prefixes)?,
            None if quick => Prefixes::made_of(20_000, 5_000, 1),
            None => Prefixes::made(1),
        };
        let allowed = cpu::cpus();
        cpu::pin(cpu)?;
        let (loads, windows) = if quick { (&LOADS[..3], 20) } else { (&LOADS[..], 400) };
        let mut report = Forward {
            tick_frequency: weir_base::tsc::frequency(),
            cpu: cpu::cpu_name(),
            windows,
            forward: measure(loads, windows)?,
            prefixes: prefixes.origin.clone(),
            lpm: Vec::new(),
        };
        let effort = lpm::Effort {
            keys: if quick { 1 << 16 } else { 1 << 20 },
            repeats: if quick { 3 } else { 15 },
            updates: Duration::from_millis(if quick { 200 } else { 2000 }),
            peers,
        };
        // The reader that looks up during the updates needs a CPU of its own.
        if !prefixes.v4.is_empty() {
            report.lpm.push(lpm::measure(&prefixes.v4, &effort, &allowed)?);
        }
        if !prefixes.v6.is_empty() {
            report.lpm.push(lpm::measure(&prefixes.v6, &effort, &allowed)?);
        }
        Ok(report)
    }
}

impl Report for Forward {
    const SCHEMA: &'static str = "weir.bench.forward/1";

    fn page(&self) -> Page {
        let loads = Table::of(&self.forward)
            .words("Load", |cost| cost.family.as_str())
            .number("Prefixes", 0, |cost| cost.prefixes)
            .number("Flows", 0, |cost| cost.flows)
            .number("Frame", 0, |cost| format!("{}B", cost.size))
            .figure("Total", 1, |cost| cost.total)
            .target(|cost| cost.target)
            .number("VPP", 0, |cost| cost.vpp)
            .number("Mpps", 1, |cost| cost.rate / 1e6)
            .number("Table", 0, |cost| size(cost.table_bytes as f64));
        let nodes = self.forward.iter().flat_map(|cost| cost.nodes.iter().map(move |node| (cost, node)));
        let nodes = Table::of(nodes)
            .words("Load", |(cost, _)| cost.family.as_str())
            .number("Prefixes", 0, |(cost, _)| cost.prefixes)
            .words("Node", |(_, node)| node.name.as_str())
            .figure("Ticks", 1, |(_, node)| node.ticks);
        let page = Page::default()
            .line(machine(&self.cpu, self.tick_frequency))
            .line(format!("ticks per packet: median, 10th and 90th percentile of {} windows\n", self.windows))
            .table(loads)
            .line("")
            .table(nodes);
        match self.lpm.is_empty() {
            true => page,
            false => page
                .line(format!("\nlongest-prefix match, ticks per lookup; prefixes: {}", self.prefixes))
                .table(lpm::lookups(&self.lpm))
                .each(&self.lpm, |page, lpm| page.line(lpm.text())),
        }
    }

    /// IPv6 forwarding over the size of the table: every node's share, the sum, and VPP's sum.
    fn charts(&self) -> Vec<(String, Chart)> {
        let costs: Vec<&Cost> = self.forward.iter().filter(|cost| cost.family == "ipv6").collect();
        let over = |value: &dyn Fn(&Cost) -> Option<f64>| -> Vec<(f64, f64)> {
            costs.iter().filter_map(|cost| Some((f64::from(cost.prefixes), value(cost)?))).collect()
        };
        let names = costs.first().map_or(&[][..], |cost| &cost.nodes);
        let mut series: Vec<Series> = (0..)
            .zip(names)
            .map(|(number, NodeCost { name, .. })| Series {
                name: name.clone(),
                color: palette(number),
                line: 1,
                point: 1,
                points: over(&|cost| Some(cost.nodes.iter().find(|node| node.name == *name)?.ticks.median)),
            })
            .collect();
        let sum = |name: &str, color: RGBColor, points| Series {
            name: name.to_owned(),
            color: color.to_rgba(),
            line: 2,
            point: 4,
            points,
        };
        series.push(sum("weir, sum", BLUE, over(&|cost| Some(cost.total.median))));
        series.push(sum("VPP, sum (another machine)", RED, over(&|cost| cost.vpp.map(f64::from))));
        let title = "IPv6 forwarding, 78-byte frames, one worker".to_owned();
        let (x, y) = ("prefixes".to_owned(), "ticks per packet".to_owned());
        let shape = Shape::Series { x, y, axis: Axis::Linear(10.0), marks: Vec::new(), series };
        vec![("forward".to_owned(), Chart { title, shape })]
    }
}

fn size(bytes: f64) -> String {
    if bytes >= 1e6 { format!("{:.1}MB", bytes / 1e6) } else { format!("{:.0}kB", bytes / 1e3) }
}

/// Measures loads in turns, `windows` of each.
///
/// # Errors
/// When there is no room for what a load needs.
pub fn measure(loads: &[Load], windows: usize) -> Result<Vec<Cost>, Error> {
    let mut runs = Vec::new();
    for load in loads {
        let mut bench = Bench::new(&gateway(load), 1)?;
        bench.window(WINDOW); // fills caches and the pool
        runs.push((load, bench, Samples::default()));
    }
    for _ in 0..windows {
        for (_, bench, samples) in &mut runs {
            // The first touches what the other loads evicted.
            bench.window(4);
            samples.add(bench);
        }
    }
    Ok(runs.into_iter().map(|(load, bench, samples)| samples.cost(load, &bench)).collect())
}

/// The windows of a load.
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

    fn cost(self, load: &Load, bench: &Bench) -> Cost {
        let total = Figure::of(self.totals);
        let mut generator = Figure { median: 0.0, p10: 0.0, p90: 0.0 };
        let mut nodes = Vec::new();
        for (node, samples) in self.nodes {
            let ticks = Figure::of(samples);
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
        let costs = measure(&LOADS[..1], 3).unwrap();
        let names: Vec<&str> = costs[0].nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["ethernet-input", "ip4-lookup", "ip4-rewrite", "output"]);
        assert!(costs[0].total.median > 0.0 && costs[0].rate > 0.0 && costs[0].target.is_some());
    }
}
