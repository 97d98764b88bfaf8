//! `show runtime`: where the time goes, as VPP's users know it.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::Report;
use super::number::{clocks, rate, ratio};
use super::table::{Align, Table};

/// Each worker's nodes and rates.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Runtime {
    /// Seconds that the counters cover.
    pub elapsed: f64,
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// Each worker.
    pub workers: Vec<Worker>,
}

/// A worker thread.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Worker {
    /// Number of the thread; 0 is the control thread, workers count from 1.
    pub thread: usize,
    /// Name of the thread.
    pub name: String,
    /// The CPU it is pinned to.
    pub core: Option<usize>,
    /// Mean packets per call over all nodes.
    pub vectors_per_node: f64,
    /// Rounds of the main loop.
    pub loops: u64,
    /// Rounds that found nothing to do.
    pub idle_loops: u64,
    /// Times it went to sleep.
    #[serde(default)]
    pub sleeps: u64,
    /// Packets received from ports.
    pub received: u64,
    /// Packets handed to ports.
    pub transmitted: u64,
    /// Packets dropped.
    pub dropped: u64,
    /// Packets delivered to the gateway itself.
    pub local: u64,
    /// The same, per second.
    pub rates: Rates,
    /// Its nodes.
    pub nodes: Vec<Node>,
}

/// Packets per second.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Received from ports.
    #[serde(rename = "in")]
    pub received: f64,
    /// Handed to ports.
    #[serde(rename = "out")]
    pub transmitted: f64,
    /// Dropped.
    pub drop: f64,
    /// Delivered to the gateway itself.
    pub punt: f64,
}

/// A node of the graph.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Node {
    /// Its name.
    pub name: String,
    /// `polling`, `sleeping` or `active`.
    pub state: String,
    /// Vectors it was given.
    pub calls: u64,
    /// Packets in them.
    pub vectors: u64,
    /// Times it was suspended.
    pub suspends: u64,
    /// Ticks per packet; per call where it saw no packets.
    pub clocks: f64,
    /// Packets per call.
    pub vectors_per_call: f64,
    /// Ticks in all.
    pub ticks: u64,
}

impl Runtime {
    /// Of a snapshot; nodes that were never called are left out unless `all`.
    pub fn new(snapshot: &stats::Snapshot, all: bool) -> Self {
        let workers = snapshot.workers.iter().map(|worker| Worker::new(worker, snapshot.elapsed, all)).collect();
        Runtime { elapsed: snapshot.elapsed, tick_frequency: snapshot.tick_frequency, workers }
    }
}

impl Worker {
    fn new(worker: &stats::WorkerStats, elapsed: f64, all: bool) -> Self {
        let per_second = |count: u64| ratio(count as f64, elapsed);
        let calls: u64 = worker.nodes.iter().map(|node| node.calls).sum();
        let packets: u64 = worker.nodes.iter().map(|node| node.packets).sum();
        Worker {
            thread: worker.worker + 1,
            name: format!("weir_wk_{}", worker.worker),
            core: worker.core,
            vectors_per_node: ratio(packets as f64, calls as f64),
            loops: worker.loops,
            idle_loops: worker.idle_loops,
            sleeps: worker.sleeps,
            received: worker.received,
            transmitted: worker.transmitted,
            dropped: worker.dropped,
            local: worker.local,
            rates: Rates {
                received: per_second(worker.received),
                transmitted: per_second(worker.transmitted),
                drop: per_second(worker.dropped),
                punt: per_second(worker.local),
            },
            nodes: worker.nodes.iter().filter(|node| all || node.calls > 0).map(Node::new).collect(),
        }
    }
}

impl Node {
    /// Of a node's counters.
    pub fn new(node: &stats::NodeStats) -> Self {
        let per = if node.packets > 0 { node.packets } else { node.calls };
        Node {
            name: node.name.to_owned(),
            state: node.state.to_owned(),
            calls: node.calls,
            vectors: node.packets,
            suspends: node.suspends,
            clocks: ratio(node.ticks as f64, per as f64),
            vectors_per_call: ratio(node.packets as f64, node.calls as f64),
            ticks: node.ticks,
        }
    }
}

/// The columns of nodes.
const COLUMNS: &[(&str, Align)] = &[
    ("Name", Align::Left),
    ("State", Align::Left),
    ("Calls", Align::Right),
    ("Vectors", Align::Right),
    ("Suspends", Align::Right),
    ("Clocks", Align::Right),
    ("Vectors/Call", Align::Right),
];

/// Nodes as a table.
pub fn nodes(nodes: &[Node]) -> String {
    let mut table = Table::new(COLUMNS);
    for node in nodes {
        table.row([
            node.name.clone(),
            node.state.clone(),
            node.calls.to_string(),
            node.vectors.to_string(),
            node.suspends.to_string(),
            clocks(node.clocks),
            format!("{:.2}", node.vectors_per_call),
        ]);
    }
    table.text()
}

impl Report for Runtime {
    const SCHEMA: &'static str = "weir.show.runtime/1";

    fn text(&self) -> String {
        let mut text = String::new();
        for worker in &self.workers {
            if !text.is_empty() {
                text.push('\n');
            }
            let _ = write!(text, "Thread {} {}", worker.thread, worker.name);
            if let Some(core) = worker.core {
                let _ = write!(text, " (core {core})");
            }
            let _ = writeln!(
                text,
                "\nTime {:.1}, average vectors/node {:.2}, main loops {}, idle {}, sleeps {}",
                self.elapsed, worker.vectors_per_node, worker.loops, worker.idle_loops, worker.sleeps
            );
            let _ = writeln!(
                text,
                "  vector rates in {}, out {}, drop {}, punt {}",
                rate(worker.rates.received),
                rate(worker.rates.transmitted),
                rate(worker.rates.drop),
                rate(worker.rates.punt)
            );
            text.push_str(&nodes(&worker.nodes));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn looks_as_vpp_users_know_it() {
        let runtime = Runtime::new(&sample::snapshot(), false);
        assert_eq!(
            runtime.text(),
            "\
Thread 1 weir_wk_0 (core 2)
Time 2.0, average vectors/node 100.00, main loops 50, idle 40, sleeps 7
  vector rates in 1.0000e3, out 9.5000e2, drop 5.0000e1, punt 0.0000e0
Name            State    Calls  Vectors  Suspends  Clocks  Vectors/Call
rx              polling     10     2000         0  1.20e1        200.00
ethernet-input  active      20     1000         0  2.55e1         50.00
"
        );
        assert_eq!(read::<Runtime>(&json(&runtime)).unwrap(), runtime);
    }

    #[test]
    fn a_node_without_packets_has_clocks_per_call_and_one_without_calls_is_shown_when_asked() {
        let runtime = Runtime::new(&sample::snapshot(), true);
        let names: Vec<_> = runtime.workers[0].nodes.iter().map(|node| node.name.as_str()).collect();
        assert_eq!(names, ["rx", "ethernet-input", "drop"]);
        let idle = Node::new(&stats::NodeStats { calls: 4, ticks: 100, ..Default::default() });
        assert_eq!((idle.clocks, idle.vectors_per_call), (25.0, 0.0));
    }

    #[test]
    fn nothing_has_passed_in_no_time() {
        let snapshot = stats::Snapshot { workers: vec![stats::WorkerStats::default()], ..Default::default() };
        let runtime = Runtime::new(&snapshot, true);
        assert_eq!(runtime.workers[0].rates.received, 0.0);
        assert_eq!(read::<Runtime>(&json(&runtime)).unwrap(), runtime);
    }
}
