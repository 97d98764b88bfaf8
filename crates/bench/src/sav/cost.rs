//! What validation adds to a packet: Figures 8 and 10 of the draft.

use std::path::Path;

use serde::{Deserialize, Serialize};
use weir_base::random::Random;
use weir_base::tsc;
use weir_packet::vector::VECTOR;
use weir_plane::bench::{Bench, NodeWindow};
use weir_plane::model::{Gateway, SavRule};
use weir_plane::node::Node;
use weir_plane::root::Root;
use weir_table::lpm::Prefix;

use super::SavError;
use super::family::{DESTINATIONS, Ip};
use super::network::{Policy, Way, gateway, node, validate};
use super::traffic;
use crate::report::figure::{Figure, Floor, Target};

/// Rounds of a window, a vector each: half a millisecond or so.
const WINDOW: usize = 64;

/// How much is measured.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Times that all policies have their turn.
    pub turns: usize,
    /// Windows of a turn.
    pub windows: usize,
    /// Sources at least.
    pub sources: usize,
    /// Prefixes at most.
    pub prefixes: usize,
}

/// What policies cost with so many source prefixes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scale {
    /// `ipv4` or `ipv6`.
    pub family: String,
    /// Octets of a frame, without the frame check sequence.
    pub size: usize,
    /// Source prefixes.
    pub prefixes: usize,
    /// The share of them that lies inside of others.
    pub nested: f64,
    /// Different sources.
    pub sources: usize,
    /// Prefixes of destinations.
    pub destinations: u32,
    /// Packets that were measured.
    pub packets: u64,
    /// Ticks per packet from `ethernet-input` to `output` without validation.
    pub plain: Figure,
    /// Packets per second of one worker without validation, the ports' work included.
    pub plain_rate: f64,
    /// The policies.
    pub rows: Vec<Row>,
}

/// What a policy costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The policy.
    pub way: Way,
    /// The draft's ratio to forwarding without validation, in percent.
    pub draft: Option<f64>,
    /// Ours: ticks of the graph without validation to those with it, in percent.
    pub ratio: Figure,
    /// The same of packets per second, the ports' work included, in percent.
    pub rate_ratio: Figure,
    /// Packets per second of one worker.
    pub rate: f64,
    /// Ticks added to a packet.
    pub added: Figure,
    /// Ticks in the node that validates.
    pub node: Figure,
    /// The target for the ticks added.
    pub added_target: Option<Target>,
    /// The target for the ratio.
    pub ratio_target: Option<Floor>,
    /// The policy's memory, where it has tables.
    pub memory: Option<Memory>,
}

/// Octets per prefix of a policy's tables.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Memory {
    /// What lookups touch: of all line cards, where these have tables of their own.
    pub lookup: f64,
    /// What the control side keeps beside it, to change it.
    pub control: f64,
    /// The rules of the configuration, with their origins.
    pub rules: f64,
    /// Counters of hits.
    pub counters: f64,
}

/// Targets of a number of prefixes: most ticks added, least ratio in percent.
fn targets(v6: bool, prefixes: usize) -> (Option<f64>, Option<f64>) {
    match prefixes {
        _ if !v6 => (None, None),
        1_000 => (Some(8.0), Some(86.0)),
        10_000 => (Some(12.0), None),
        100_000 => (Some(20.0), Some(80.0)),
        1_000_000 => (Some(30.0), None),
        _ => (None, None),
    }
}

/// Measures policies with so many source prefixes, in turns. `draft` gives the draft's figure of each.
pub(super) fn scale<K: Ip>(
    count: usize,
    ways: &[Way],
    draft: impl Fn(Way) -> Option<f64>,
    real: &[Prefix<K>],
    effort: &Effort,
) -> Result<Scale, SavError> {
    let mut random = Random::from_seed(count as u64);
    let prefixes = traffic::prefixes(count, real, &mut random);
    let sources = traffic::sources(&prefixes, effort.sources.max(count), &mut random);
    let policies: Vec<Policy> = ways.iter().copied().map(Policy::of).collect();
    let mut run = Run::new(&prefixes, &policies, &sources, &mut random)?;
    let samples = run.turns::<K>(effort, Expected::All)?;
    let (plain, others) = samples.split_first().expect("the first is without validation");
    let (added_target, ratio_target) = targets(K::BITS == 128, count);
    let rows = ways.iter().zip(others).map(|(&way, samples)| {
        let added = Figure::of_all(&mut samples.added(plain));
        let ratio = samples.against(plain, |with, without| 100.0 * without.graph / with.graph);
        Row {
            way,
            draft: draft(way),
            ratio,
            rate_ratio: samples.against(plain, |with, without| 100.0 * without.wall / with.wall),
            rate: samples.rate(),
            added,
            node: samples.figure(|turn| turn.node),
            added_target: added_target.map(|most| Target::at_most(most, added.median)),
            ratio_target: ratio_target.map(|least| Floor::at_least(least, ratio.median)),
            memory: run.memory::<K>(way),
        }
    });
    Ok(Scale {
        family: K::NAME.to_owned(),
        size: K::SIZE,
        prefixes: prefixes.len(),
        nested: traffic::nested(&prefixes),
        sources: sources.len(),
        destinations: DESTINATIONS,
        packets: samples.iter().map(|samples| samples.packets).sum(),
        plain: plain.figure(|turn| turn.graph),
        plain_rate: plain.rate(),
        rows: rows.collect(),
    })
}

/// What is to become of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expected {
    /// All pass.
    All,
    /// Those that are validated are dropped.
    None,
}

/// A gateway, and a version of it for each policy, the first without any.
pub(super) struct Run {
    bench: Bench,
    versions: Vec<Root>,
}

impl Run {
    pub(super) fn new<K: Ip>(
        prefixes: &[Prefix<K>],
        policies: &[Policy],
        sources: &[K],
        random: &mut Random,
    ) -> Result<Run, SavError> {
        Run::prepared(|captures| gateway(prefixes, policies, captures), policies.len(), sources, random)
    }

    /// Of a gateway with so many policies that is made when there are captures for it.
    pub(super) fn prepared<K: Ip>(
        gateway: impl FnOnce(&[&Path]) -> Gateway,
        policies: usize,
        sources: &[K],
        random: &mut Random,
    ) -> Result<Run, SavError> {
        let change = |model: &mut Gateway, version: usize| validate::<K>(model, version.checked_sub(1));
        Run::changed(gateway, policies + 1, change, sources, random)
    }

    /// Of a gateway with so many versions, each made by a change to the version before.
    pub(super) fn changed<K: Ip>(
        gateway: impl FnOnce(&[&Path]) -> Gateway,
        versions: usize,
        change: impl Fn(&mut Gateway, usize),
        sources: &[K],
        random: &mut Random,
    ) -> Result<Run, SavError> {
        let directory = tempfile::tempdir().map_err(SavError::Scratch)?;
        let captures = traffic::captures(sources, directory.path(), random)?;
        let captures: Vec<_> = captures.iter().map(|path| path.as_path()).collect();
        let mut model = gateway(&captures);
        let mut bench = Bench::new(&model, 1)?;
        let mut all = Vec::new();
        for version in 0..versions {
            change(&mut model, version);
            all.push(bench.compile(&model)?);
        }
        Ok(Run { bench, versions: all })
    }

    /// Gives each version its turns. A turn begins with as many packets as bring the caches into the state that they keep.
    pub(super) fn turns<K: Ip>(&mut self, effort: &Effort, expected: Expected) -> Result<Vec<Samples>, SavError> {
        self.turns_each::<K>(effort, &vec![expected; self.versions.len() - 1])
    }

    /// The same, where policies differ in what is to become of packets.
    pub(super) fn turns_each<K: Ip>(
        &mut self,
        effort: &Effort,
        expected: &[Expected],
    ) -> Result<Vec<Samples>, SavError> {
        let expected: Vec<Option<Expected>> = std::iter::once(None).chain(expected.iter().copied().map(Some)).collect();
        self.turns_of::<K>(effort, &expected, &vec![None; self.versions.len()])
    }

    /// The same; what is to become of packets that a version validates, if it does, and the node that it has ask all packets
    /// beside, if there is one.
    pub(super) fn turns_of<K: Ip>(
        &mut self,
        effort: &Effort,
        expected: &[Option<Expected>],
        asks: &[Option<Node>],
    ) -> Result<Vec<Samples>, SavError> {
        let warm = effort.sources.clamp(1 << 12, 1 << 18) / VECTOR;
        let mut samples: Vec<Samples> = self.versions.iter().map(|_| Samples::default()).collect();
        for _ in 0..effort.turns {
            for (number, samples) in samples.iter_mut().enumerate() {
                self.bench.enforce(&self.versions[number]);
                self.bench.window(warm);
                let windows: Result<Vec<Turn>, SavError> =
                    (0..effort.windows).map(|_| self.window::<K>(expected[number], asks[number])).collect();
                samples.add(&windows?);
            }
        }
        Ok(samples)
    }

    /// Ticks per packet of a window. Every packet is accounted for.
    fn window<K: Ip>(&mut self, expected: Option<Expected>, asks: Option<Node>) -> Result<Turn, SavError> {
        let before = self.bench.conservation();
        let start = tsc::ticks();
        let nodes = self.bench.window(WINDOW);
        let wall = tsc::ticks() - start;
        let after = self.bench.conservation();
        let received = after.received - before.received;
        let (transmitted, dropped) = (after.transmitted - before.transmitted, after.dropped - before.dropped);
        let of = |node: Node| nodes.iter().find(|window| window.node == node).map_or(0, |window| window.packets);
        let wanted = if expected == Some(Expected::None) { (0, received) } else { (received, 0) };
        let validated = if expected.is_some() { received } else { 0 };
        let lists =
            [Node::Ip4AclIn, Node::Ip6AclIn].map(|node| (of(node), if asks == Some(node) { received } else { 0 }));
        let full = (WINDOW * VECTOR) as u64;
        if received != full
            || (transmitted, dropped) != wanted
            || of(node::<K>()) != validated
            || lists.iter().any(|(asked, wanted)| asked != wanted)
            || after.imbalance() != 0
        {
            let validated = of(node::<K>());
            let asked = lists.iter().map(|(asked, _)| asked).sum();
            return Err(SavError::Packets { expected: full, received, validated, asked, transmitted, dropped });
        }
        let ticks = |wanted: &dyn Fn(Node) -> bool| {
            let ticks: u64 =
                nodes.iter().filter(|window| wanted(window.node)).map(|NodeWindow { ticks, .. }| ticks).sum();
            ticks as f64 / received as f64
        };
        Ok(Turn {
            packets: received,
            graph: ticks(&|node| node != Node::Rx),
            wall: wall as f64 / received as f64,
            node: ticks(&|of| of == node::<K>()),
            asked: ticks(&|of| asks == Some(of)),
        })
    }

    fn memory<K: Ip>(&self, way: Way) -> Option<Memory> {
        let both = self.bench.sav_occupancy(way.name())?;
        let own = if K::BITS == 32 { both.v4 } else { both.v6 };
        let each = |octets: usize| octets as f64 / own.prefixes.max(1) as f64;
        Some(Memory {
            lookup: each(own.lookup_octets),
            control: each(own.control_octets),
            rules: size_of::<SavRule>() as f64,
            counters: each(self.bench.sav_hits_octets(way.name())),
        })
    }
}

/// Ticks per packet: of a window, or the medians of a turn's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    packets: u64,
    /// In the nodes from `ethernet-input` on.
    pub(super) graph: f64,
    /// In the node that validates.
    pub(super) node: f64,
    /// In the node that asks beside, if there is one.
    pub(super) asked: f64,
    /// In all: with the ports' work, the making of the packets, and what the worker does around the graph.
    pub(super) wall: f64,
}

/// The turns of a version.
#[derive(Debug, Default)]
pub(super) struct Samples {
    turns: Vec<Turn>,
    packets: u64,
}

impl Samples {
    fn add(&mut self, windows: &[Turn]) {
        let median = |of: fn(&Turn) -> f64| {
            let mut all: Vec<f64> = windows.iter().map(of).collect();
            Figure::of_all(&mut all).median
        };
        let packets = windows.iter().map(|window| window.packets).sum();
        self.turns.push(Turn {
            packets,
            graph: median(|window| window.graph),
            node: median(|window| window.node),
            asked: median(|window| window.asked),
            wall: median(|window| window.wall),
        });
        self.packets += packets;
    }

    /// Takes the turns of another in, behind its own.
    pub(super) fn append(&mut self, more: Samples) {
        self.turns.extend(more.turns);
        self.packets += more.packets;
    }

    /// Ticks added to those of another at the same time, by turn.
    pub(super) fn added(&self, without: &Samples) -> Vec<f64> {
        self.turns.iter().zip(&without.turns).map(|(with, without)| with.graph - without.graph).collect()
    }

    /// A figure of each turn.
    pub(super) fn figure(&self, of: impl Fn(&Turn) -> f64) -> Figure {
        Figure::of_all(&mut self.turns.iter().map(of).collect::<Vec<f64>>())
    }

    /// A figure of each turn and the other's at the same time.
    pub(super) fn against(&self, other: &Samples, of: impl Fn(&Turn, &Turn) -> f64) -> Figure {
        let mut all: Vec<f64> = self.turns.iter().zip(&other.turns).map(|(own, other)| of(own, other)).collect();
        Figure::of_all(&mut all)
    }

    /// Packets per second.
    pub(super) fn rate(&self) -> f64 {
        tsc::frequency() / self.figure(|turn| turn.wall).median
    }
}
