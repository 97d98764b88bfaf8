//! Versions of one gateway that take turns: from one to the next nothing changes but what interfaces ask of packets.

use weir_base::tsc;
use weir_packet::vector::VECTOR;
use weir_plane::bench::{Bench, BenchError};
use weir_plane::model::Gateway;
use weir_plane::node::Node;
use weir_plane::root::Root;

use super::{AclError, Effort};
use crate::report::figure::Figure;

/// Rounds of a window, a vector each: half a millisecond or so.
const WINDOW: usize = 64;

/// Nodes that ask packets for what interfaces want.
const POLICIES: [Node; 6] =
    [Node::Ip4AclIn, Node::Ip6AclIn, Node::Ip4Allow, Node::Ip6Allow, Node::Ip4AclOut, Node::Ip6AclOut];

/// A gateway and its versions. The first asks for nothing.
pub(super) struct Run {
    bench: Bench,
    /// Each with the node that all packets have to pass.
    versions: Vec<(Root, Option<Node>)>,
}

impl Run {
    /// A gateway that asks for nothing yet.
    pub(super) fn new(model: &Gateway) -> Result<Run, BenchError> {
        let mut bench = Bench::new(model, 1)?;
        let plain = bench.compile(model)?;
        Ok(Run { bench, versions: vec![(plain, None)] })
    }

    /// A version, and the node that it has all packets pass.
    pub(super) fn add(&mut self, model: &Gateway, asks: Node) -> Result<(), BenchError> {
        let version = self.bench.compile(model)?;
        self.versions.push((version, Some(asks)));
        Ok(())
    }

    /// Gives each version its turns. A turn begins with as many packets as bring the caches into the state that they keep:
    /// as there are different ones.
    pub(super) fn turns(&mut self, effort: &Effort, packets: usize) -> Result<Vec<Samples>, AclError> {
        let mut samples: Vec<Samples> = self.versions.iter().map(|_| Samples::default()).collect();
        for _ in 0..effort.turns {
            for ((version, asks), samples) in self.versions.iter().zip(&mut samples) {
                self.bench.enforce(version);
                self.bench.window(packets.div_ceil(VECTOR));
                let windows: Result<Vec<Turn>, AclError> =
                    (0..effort.windows).map(|_| window(&mut self.bench, *asks)).collect();
                samples.add(&windows?);
            }
        }
        Ok(samples)
    }
}

/// Ticks per packet of a window. Every packet is accounted for: it came, was asked what it was to be asked, and left.
fn window(bench: &mut Bench, asks: Option<Node>) -> Result<Turn, AclError> {
    let before = bench.conservation();
    let start = tsc::ticks();
    let nodes = bench.window(WINDOW);
    let wall = tsc::ticks() - start;
    let after = bench.conservation();
    let received = after.received - before.received;
    let (transmitted, dropped) = (after.transmitted - before.transmitted, after.dropped - before.dropped);
    let of = |node: Node| nodes.iter().find(|window| window.node == node).map_or(0, |window| window.packets);
    let wrong = POLICIES.into_iter().find(|&node| of(node) != if asks == Some(node) { received } else { 0 });
    let expected = (WINDOW * VECTOR) as u64;
    if received != expected || transmitted != received || wrong.is_some() || after.imbalance() != 0 {
        let (node, asked) = wrong.or(asks).map_or(("", 0), |node| (node.name(), of(node)));
        return Err(AclError::Packets { expected, received, node, asked, transmitted, dropped });
    }
    let graph: u64 = nodes.iter().filter(|window| window.node != Node::Rx).map(|window| window.ticks).sum();
    let each = nodes.iter().filter(|window| window.packets > 0 && window.node != Node::Rx);
    Ok(Turn {
        graph: graph as f64 / received as f64,
        wall: wall as f64 / received as f64,
        nodes: each.map(|window| (window.node, window.ticks as f64 / window.packets as f64)).collect(),
    })
}

/// Ticks per packet: of a window, or the medians of a turn's.
#[derive(Debug, Clone)]
struct Turn {
    /// In the nodes from `ethernet-input` on.
    graph: f64,
    /// In all: with the ports' work, the making of the packets, and what the worker does around the graph.
    wall: f64,
    /// Of each node, per packet that passed it.
    nodes: Vec<(Node, f64)>,
}

impl Turn {
    fn node(&self, node: Node) -> Option<f64> {
        self.nodes.iter().find(|(of, _)| *of == node).map(|(_, ticks)| *ticks)
    }
}

/// The turns of a version.
#[derive(Debug, Default)]
pub(super) struct Samples {
    turns: Vec<Turn>,
}

impl Samples {
    fn add(&mut self, windows: &[Turn]) {
        let median = |of: &dyn Fn(&Turn) -> Option<f64>| {
            Figure::of_all(&mut windows.iter().filter_map(of).collect::<Vec<f64>>()).median
        };
        // The same nodes run in all windows.
        let nodes = windows.first().map_or(Vec::new(), |window| window.nodes.clone());
        self.turns.push(Turn {
            graph: median(&|window| Some(window.graph)),
            wall: median(&|window| Some(window.wall)),
            nodes: nodes.into_iter().map(|(node, _)| (node, median(&|window| window.node(node)))).collect(),
        });
    }

    /// Ticks of the graph.
    pub(super) fn graph(&self) -> Figure {
        Figure::of_all(&mut self.turns.iter().map(|turn| turn.graph).collect::<Vec<f64>>())
    }

    /// Ticks of the graph added to those of another version at the same time.
    pub(super) fn added(&self, without: &Samples) -> Figure {
        let turns = self.turns.iter().zip(&without.turns);
        Figure::of_all(&mut turns.map(|(with, without)| with.graph - without.graph).collect::<Vec<f64>>())
    }

    /// Ticks of a node, per packet that passes it.
    pub(super) fn node(&self, node: Node) -> Figure {
        Figure::of_all(&mut self.turns.iter().filter_map(|turn| turn.node(node)).collect::<Vec<f64>>())
    }

    /// The nodes that ran, in the order of the graph.
    pub(super) fn nodes(&self) -> Vec<Node> {
        self.turns.first().map_or(Vec::new(), |turn| turn.nodes.iter().map(|(node, _)| *node).collect())
    }

    /// Packets per second.
    pub(super) fn rate(&self) -> f64 {
        let mut wall: Vec<f64> = self.turns.iter().map(|turn| turn.wall).collect();
        tsc::frequency() / Figure::of_all(&mut wall).median
    }
}
