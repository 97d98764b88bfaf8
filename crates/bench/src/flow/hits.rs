//! The flow node by number of flows, spread of packets over them, and share of packets that take a decision.

use std::net::IpAddr;
use std::path::Path;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};
use weir_base::random::Random;
use weir_packet::vector::VECTOR;
use weir_packet::wire::MacAddress;
use weir_plane::bench::{Bench, NodeWindow};
use weir_plane::model::{AclAction, AclIndex, AclRule, Gateway, Origin, Ports, Transport};
use weir_plane::node::Node;
use weir_port::spec::{GeneratorSpec, PortSpec, StreamSource, StreamSpec};

use super::plan::{Plan, Version};
use crate::report::figure::{Figure, Target};
use crate::turns::WINDOW;
use crate::{Error, frames, model};

/// Octets of a packet behind the header of UDP.
const PAYLOAD: usize = 18;
/// The destination ports of packets whose flow is never learned: no rule of the lists names them.
const FLOOD: (u16, u16) = (996, 1023);
/// The flows of these packets, of each port: a flow's next packet comes when others have taken its slot.
const FLOOD_FLOWS: u32 = 1 << 19;
/// Packets of a capture of the Zipf distribution, at most.
const DRAWN: usize = 1 << 20;
/// Passes over all flows in which the table has to come into its state.
const PASSES: usize = 8;

/// The cost of the flow node in a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Hits {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Established flows, half of them each way.
    pub flows: u32,
    /// `uniform`: in turns, or `Zipf`: with the exponent 1.
    pub spread: String,
    /// Percent of packets that took a decision.
    pub hits: f64,
    /// Ticks per packet of all nodes.
    pub total: Figure,
    /// Ticks per packet of the flow node, which rewrites packets that take decisions.
    pub node: Figure,
    /// Octets of memory for each learned flow.
    pub octets: Option<f64>,
    /// The target for `node`.
    pub target: Option<Target>,
}

/// A case to be measured.
#[derive(Debug, Clone, Copy)]
struct Load {
    v4: bool,
    flows: u32,
    zipf: bool,
    /// Streams of established flows and of others, which take turns.
    streams: (usize, usize),
}

impl Load {
    /// Percent of packets that are to take a decision.
    fn share(self) -> f64 {
        100.0 * self.streams.0 as f64 / (self.streams.0 + self.streams.1) as f64
    }

    fn target(self, node: f64) -> Option<Target> {
        let most = match (self.v4, self.flows, self.streams) {
            _ if self.zipf => return None,
            (_, 10_000, (0, _)) => 20.0,
            (true, 10_000, (_, 0)) => 24.0,
            (true, 1_000_000, (_, 0)) => 34.0,
            (false, 10_000, (_, 0)) => 27.0,
            (false, 1_000_000, (_, 0)) => 40.0,
            _ => return None,
        };
        Some(Target::at_most(most, node))
    }
}

/// Measures all cases of a family and a number of flows.
pub(super) fn measure(v4: bool, flows: u32, (turns, windows): (usize, usize)) -> Result<Vec<Hits>, Error> {
    let load = |streams, zipf| Load { v4, flows, zipf, streams };
    let loads =
        [load((1, 0), false), load((1, 0), true), load((9, 1), false), load((1, 1), false), load((0, 1), false)];
    loads.into_iter().map(|load| of_load(load, turns, windows)).collect()
}

fn of_load(load: Load, turns: usize, windows: usize) -> Result<Hits, Error> {
    let scratch = tempfile::tempdir().map_err(Error::Scratch)?;
    let plan = Plan::of(load.v4);
    let mut learning = gateway(&plan, load, scratch.path())?;
    let version = Version { fast: true, ..Version::policies("policies, fast path") };
    plan.apply(&mut learning, &version);
    let mut bench = Bench::new(&learning, 1)?;
    // Flows that came before others are learned for good; then the first packets of others only count.
    let mut measured = learning.clone();
    measured.flow_table.packets = u8::MAX;
    for interface in &mut learning.interfaces {
        interface.access.acl_in = vec![AclIndex(2)];
    }
    let pass = match load.zipf {
        // Rare flows have few packets, or one, in a whole capture.
        true => 2 * captured(load.flows / 2),
        false => load.flows as usize * (load.streams.0 + load.streams.1) / load.streams.0.max(1),
    };
    for gateway in [&learning, &measured] {
        let root = bench.compile(gateway)?;
        bench.enforce(&root);
        settle(&mut bench, load, pass)?;
    }
    let before = bench.fast_path();
    let (mut totals, mut nodes, mut packets) = (Vec::new(), Vec::new(), 0);
    let node = if load.v4 { Node::Ip4Flow } else { Node::Ip6Flow };
    for _ in 0..turns * windows {
        let window = bench.window(WINDOW);
        totals.push(graph(&window));
        nodes.extend(window.iter().filter(|own| own.node == node && own.packets > 0).map(ticks));
        packets += WINDOW * VECTOR;
    }
    let after = bench.fast_path();
    let nodes = Figure::of(nodes);
    let octets = after.octets as f64 / after.decisions as f64;
    Ok(Hits {
        family: if load.v4 { "ipv4" } else { "ipv6" }.to_owned(),
        flows: load.flows,
        spread: if load.zipf { "Zipf" } else { "uniform" }.to_owned(),
        hits: 100.0 * (after.hits - before.hits) as f64 / packets as f64,
        total: Figure::of(totals),
        node: nodes,
        octets: (load.streams == (1, 0) && !load.zipf).then_some(octets),
        target: load.target(nodes.median),
    })
}

/// Ticks per packet of a node.
pub(super) fn ticks(own: &NodeWindow) -> f64 {
    own.ticks as f64 / own.packets as f64
}

/// Ticks per packet of all nodes but the ports' work.
pub(super) fn graph(window: &[NodeWindow]) -> f64 {
    let of = |own: &&NodeWindow| own.node != Node::Rx;
    let received = window.iter().find(|own| own.node == Node::EthernetInput).map_or(0, |own| own.packets);
    window.iter().filter(of).map(|own| own.ticks).sum::<u64>() as f64 / received as f64
}

/// Runs until as many packets of a pass take decisions as should.
fn settle(bench: &mut Bench, load: Load, pass: usize) -> Result<(), Error> {
    let rounds = pass.div_ceil(VECTOR).max(WINDOW);
    let mut found = 0.0;
    for _ in 0..PASSES {
        let before = bench.fast_path().hits;
        bench.window(rounds);
        found = 100.0 * (bench.fast_path().hits - before) as f64 / (rounds * VECTOR) as f64;
        if (found - load.share()).abs() < 0.5 {
            return Ok(());
        }
    }
    Err(Error::Hits { flows: load.flows, wanted: load.share(), found })
}

/// A gateway whose ports bring the packets of a case. Its third list is as the first, and has no flow of the flood learned.
fn gateway(plan: &Plan, load: Load, folder: &Path) -> Result<Gateway, Error> {
    let mut gateway = plan.gateway(load.flows);
    gateway.flow_table.flows = 2 * load.flows + 1024;
    let transport =
        Transport::Ports { protocol: 17, source: Ports::ALL, destination: Ports::from(FLOOD.0..=FLOOD.1), flags: None };
    let unlearned = AclRule { transport, flow: Some(false), ..AclRule::all(AclAction::Permit, Origin(0)) };
    let mut list = gateway.acls[0].clone();
    list.name = "unlearned".to_owned();
    list.rules = [unlearned].into_iter().chain(list.rules.iter().skip(1).cloned()).collect();
    gateway.acls.push(list);
    for (number, interface) in gateway.interfaces.iter_mut().enumerate() {
        let (from, to) = (plan.networks[number], plan.networks[1 - number]);
        let port = match load.zipf {
            true => {
                interface.mac = Some(MacAddress([2, 0, 0, 0, 0xff, number as u8]));
                drawn((from, to), (load.flows / 2, number as u8), folder)?
            }
            false => streams((from, to), load, 1 + number as u64),
        };
        interface.kind = model::interface("", port, plan.links[number].0).kind;
    }
    Ok(gateway)
}

/// A port whose streams take turns.
fn streams((from, to): (IpNet, IpNet), load: Load, seed: u64) -> PortSpec {
    let (established, others) = load.streams;
    let size = if load.v4 { 60 } else { 78 };
    let stream = |flows: u32, seed: u64| match model::udp(
        model::range(from, 0xffff),
        model::range(to, 0xffff),
        size,
        flows,
        seed,
    ) {
        PortSpec::Generator(GeneratorSpec { streams }) => streams,
        _ => Vec::new(),
    };
    let own =
        (0..established).flat_map(|number| stream(load.flows / 2 / established as u32, seed + 16 * number as u64));
    let mut flood: Vec<StreamSpec> = (0..others).flat_map(|_| stream(FLOOD_FLOWS, seed)).collect();
    for stream in &mut flood {
        if let StreamSource::Template(template) = &mut stream.source {
            template.destination_port = FLOOD;
        }
    }
    PortSpec::Generator(GeneratorSpec { streams: own.chain(flood).collect() })
}

/// Packets of a capture of so many flows.
fn captured(flows: u32) -> usize {
    DRAWN.min(16 * flows as usize)
}

/// A port that repeats packets drawn from flows by a Zipf distribution of exponent 1: the flow of rank r has a share of 1/r.
fn drawn((from, to): (IpNet, IpNet), (flows, number): (u32, u8), folder: &Path) -> Result<PortSpec, Error> {
    let mut sums: Vec<f64> = Vec::with_capacity(flows as usize);
    let mut sum = 0.0;
    for rank in 1..=flows {
        sum += 1.0 / f64::from(rank);
        sums.push(sum);
    }
    let mut random = Random::from_seed(u64::from(number));
    let address = |net: IpNet, rank: u32| -> IpAddr { model::range(net, rank as u16).1 };
    let to_mac = MacAddress([2, 0, 0, 0, 0xff, number]);
    let packets = (0..captured(flows)).map(|_| {
        let at = random.next() as f64 / u64::MAX as f64 * sum;
        let rank = sums.partition_point(|&own| own < at).min(flows as usize - 1) as u32;
        // Ranks have nothing to do with addresses that are near to one another.
        let mixed = rank.wrapping_mul(0x9e37_79b1);
        let ports = (1024 + (rank >> 16) as u16, 1024 + (mixed >> 17) as u16);
        frames::udp(to_mac, (address(from, rank), address(to, mixed)), ports, PAYLOAD)
    });
    let path = frames::capture(folder, &format!("{number}.pcap"), packets)?;
    Ok(frames::looped(&path))
}
