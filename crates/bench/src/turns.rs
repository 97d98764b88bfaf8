//! Versions of one gateway that take turns: from one to the next nothing changes but the policies of its interfaces. Every
//! packet of a window is accounted for.

use weir_base::tsc;
use weir_packet::vector::VECTOR;
use weir_plane::bench::{Bench, NodeWindow};
use weir_plane::model::Gateway;
use weir_plane::node::Node;
use weir_plane::root::Root;

use crate::Error;
use crate::report::figure::Figure;

/// Rounds of a window, a vector each: half a millisecond or so.
pub(crate) const WINDOW: usize = 64;

/// The state of a version has to hold after so many times the packets that have to go where they should.
const PASSES: usize = 6;

/// Nodes of policies: all packets pass such a node, or none.
const POLICIES: [Node; 14] = [
    Node::Ip4Sav,
    Node::Ip6Sav,
    Node::Ip4AclIn,
    Node::Ip6AclIn,
    Node::Ip4Allow,
    Node::Ip6Allow,
    Node::Ip4AclOut,
    Node::Ip6AclOut,
    Node::Ip4SpdIn,
    Node::Ip6SpdIn,
    Node::Ip4SpdOut,
    Node::Ip6SpdOut,
    Node::EspEncrypt,
    Node::EspDecrypt,
];

/// The end of all packets of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Forwarded,
    Dropped,
}

struct Version {
    name: String,
    root: Root,
    /// The nodes of policies that all packets pass.
    passes: Vec<Node>,
    outcome: Outcome,
    /// Rounds after which the version is put into force again: nothing that was learned holds then.
    changes: Option<usize>,
}

/// A gateway and its versions.
pub(crate) struct Run {
    pub(crate) bench: Bench,
    versions: Vec<Version>,
}

impl Run {
    /// Opens the ports of a gateway, which has no version yet.
    pub(crate) fn new(model: &Gateway) -> Result<Run, Error> {
        Ok(Run { bench: Bench::new(model, 1)?, versions: Vec::new() })
    }

    /// Adds a version, whose packets pass these nodes of policies and come to this end.
    pub(crate) fn add(&mut self, model: &Gateway, passes: &[Node], outcome: Outcome) -> Result<(), Error> {
        let name = format!("version {}", self.versions.len() + 1);
        self.add_version(&name, model, passes, outcome, None)
    }

    /// As [`Run::add`], with a name for errors. The version is put into force again after so many rounds, so that nothing that
    /// was learned holds.
    pub(crate) fn add_version(
        &mut self,
        name: &str,
        model: &Gateway,
        passes: &[Node],
        outcome: Outcome,
        changes: Option<usize>,
    ) -> Result<(), Error> {
        let root = self.bench.compile(model)?;
        self.versions.push(Version { name: name.to_owned(), root, passes: passes.to_vec(), outcome, changes });
        Ok(())
    }

    /// Gives each version its turns, of so many windows. A turn begins with packets that are not counted: they bring tables and
    /// caches into the state that they keep. It holds once `packets` packets in a row went where they should.
    ///
    /// # Errors
    /// If the state does not hold after [`PASSES`] times as many packets, or packets of a window go elsewhere.
    pub(crate) fn turns(&mut self, turns: usize, windows: usize, packets: usize) -> Result<Vec<Samples>, Error> {
        let mut samples: Vec<Samples> = self.versions.iter().map(|_| Samples::default()).collect();
        for _ in 0..turns {
            for (version, samples) in self.versions.iter().zip(&mut samples) {
                self.bench.enforce(&version.root);
                let settled = settle(&mut self.bench, version, packets)?;
                let windows: Result<Vec<Turn>, Error> =
                    (0..windows).map(|done| window(&mut self.bench, version, settled + done)).collect();
                samples.add(&windows?);
            }
        }
        Ok(samples)
    }
}

/// Runs windows until so many packets in a row went where they should. Returns how many windows ran.
fn settle(bench: &mut Bench, version: &Version, packets: usize) -> Result<usize, Error> {
    let needed = packets.div_ceil(WINDOW * VECTOR);
    let (mut right, mut warm) = (0, 0);
    while right < needed {
        match window(bench, version, warm) {
            Ok(_) => right += 1,
            Err(error) if warm >= PASSES * needed => return Err(error),
            Err(_) => right = 0,
        }
        warm += 1;
    }
    Ok(warm)
}

/// Runs a window; returns what every node did.
fn rounds(bench: &mut Bench, version: &Version) -> Vec<NodeWindow> {
    let Some(changes) = version.changes else { return bench.window(WINDOW) };
    let mut all: Vec<NodeWindow> = Vec::new();
    let mut left = WINDOW;
    while left > 0 {
        bench.change_all(&version.root);
        let now = changes.clamp(1, left);
        left -= now;
        let nodes = bench.window(now);
        if all.is_empty() {
            all = nodes;
            continue;
        }
        for (sum, node) in all.iter_mut().zip(nodes) {
            sum.packets += node.packets;
            sum.ticks += node.ticks;
        }
    }
    all
}

/// Returns ticks per packet of a window, before which so many windows of its turn ran.
fn window(bench: &mut Bench, version: &Version, warm: usize) -> Result<Turn, Error> {
    let before = bench.conservation();
    let start = tsc::ticks();
    let nodes = rounds(bench, version);
    let wall = tsc::ticks() - start;
    let after = bench.conservation();
    let received = after.received - before.received;
    let (transmitted, dropped) = (after.transmitted - before.transmitted, after.dropped - before.dropped);
    let of = |node: Node| nodes.iter().find(|window| window.node == node).map_or(0, |window| window.packets);
    // Packets run both ways, and a version may have its lists on one interface alone.
    let is_right = |node: Node| match version.passes.contains(&node) {
        // A flow may have a second packet before the change.
        true if version.changes.is_some() => 10 * of(node) >= 9 * received,
        // The packet of ESP around a packet passes the node of the SPD, too.
        true => [received, 2 * received].contains(&of(node)) || 2 * of(node) == received,
        false => of(node) == 0,
    };
    let wrong = POLICIES.into_iter().find(|&node| !is_right(node));
    let expected = (WINDOW * VECTOR) as u64;
    let ends = if version.outcome == Outcome::Dropped { (0, received) } else { (received, 0) };
    if received != expected || (transmitted, dropped) != ends || wrong.is_some() || after.imbalance() != 0 {
        let node = wrong.or(version.passes.first().copied());
        let (node, passed) = node.map_or(("", 0), |node| (node.name(), of(node)));
        let (version, before) = (version.name.clone(), (warm * WINDOW * VECTOR) as u64);
        return Err(Error::Packets { version, before, expected, received, node, passed, transmitted, dropped });
    }
    let ran = || nodes.iter().filter(|window| window.packets > 0 && window.node != Node::Rx);
    let graph: u64 = ran().map(|window| window.ticks).sum();
    Ok(Turn {
        packets: received,
        graph: graph as f64 / received as f64,
        wall: wall as f64 / received as f64,
        nodes: ran().map(|window| (window.node, window.ticks as f64 / window.packets as f64)).collect(),
    })
}

/// Ticks per packet: of a window, or the medians of a turn's windows.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    packets: u64,
    /// In the nodes from `ethernet-input` on.
    pub(crate) graph: f64,
    /// In all: with the ports' work, the making of the packets, and the worker's work around the graph.
    pub(crate) wall: f64,
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
pub(crate) struct Samples {
    turns: Vec<Turn>,
}

impl Samples {
    fn add(&mut self, windows: &[Turn]) {
        let median = |of: &dyn Fn(&Turn) -> Option<f64>| Figure::of(windows.iter().filter_map(of)).median;
        // The same nodes run in all windows.
        let nodes = windows.first().map_or(Vec::new(), |window| window.nodes.clone());
        self.turns.push(Turn {
            packets: windows.iter().map(|window| window.packets).sum(),
            graph: median(&|window| Some(window.graph)),
            wall: median(&|window| Some(window.wall)),
            nodes: nodes.into_iter().map(|(node, _)| (node, median(&|window| window.node(node)))).collect(),
        });
    }

    /// Adds the turns of another behind its own.
    pub(crate) fn append(&mut self, more: Samples) {
        self.turns.extend(more.turns);
    }

    /// Returns the number of packets that were measured.
    pub(crate) fn packets(&self) -> u64 {
        self.turns.iter().map(|turn| turn.packets).sum()
    }

    /// Returns ticks of the graph.
    pub(crate) fn graph(&self) -> Figure {
        Figure::of(self.turns.iter().map(|turn| turn.graph))
    }

    /// Returns ticks of the graph added to those of another version at the same time, by turn.
    pub(crate) fn each_added(&self, without: &Samples) -> Vec<f64> {
        self.turns.iter().zip(&without.turns).map(|(with, without)| with.graph - without.graph).collect()
    }

    /// Returns the same as a figure.
    pub(crate) fn added(&self, without: &Samples) -> Figure {
        Figure::of(self.each_added(without))
    }

    /// Returns a figure of each turn and the other's at the same time.
    pub(crate) fn against(&self, other: &Samples, of: impl Fn(&Turn, &Turn) -> f64) -> Figure {
        Figure::of(self.turns.iter().zip(&other.turns).map(|(own, other)| of(own, other)))
    }

    /// Returns the ticks of the other's graph to those of this one, in percent.
    pub(crate) fn percent(&self, other: &Samples) -> Figure {
        self.against(other, |with, without| 100.0 * without.graph / with.graph)
    }

    /// Returns ticks of a node, per packet that passes it.
    pub(crate) fn node(&self, node: Node) -> Figure {
        Figure::of(self.turns.iter().filter_map(|turn| turn.node(node)))
    }

    /// Returns ticks of some nodes together, per packet that passes them.
    pub(crate) fn sum(&self, nodes: &[Node]) -> Figure {
        let of = |turn: &Turn| nodes.iter().map(|&node| turn.node(node)).sum::<Option<f64>>();
        Figure::of(self.turns.iter().filter_map(of))
    }

    /// Returns the nodes that ran, in the order of the graph.
    pub(crate) fn nodes(&self) -> Vec<Node> {
        self.turns.first().map_or(Vec::new(), |turn| turn.nodes.iter().map(|(node, _)| *node).collect())
    }

    /// Returns packets per second.
    pub(crate) fn rate(&self) -> f64 {
        tsc::frequency() / Figure::of(self.turns.iter().map(|turn| turn.wall)).median
    }
}
