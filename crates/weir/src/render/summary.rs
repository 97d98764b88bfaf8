//! The summary at the end of `weir run`.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use weir_plane::stats;

use super::Report;
use super::errors;
use super::interfaces::{self, Interface, Interfaces};
use super::matched::{self, Matched};
use super::number::{plural, ratio, short};
use super::runtime::{self, Node, Rates};
use super::sas::{Sa, Sas};
use super::sav;
use super::spd::{Spd, Spds};
use super::sum::Sum;

/// A run, from its start to its end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Why it ended.
    pub ended: Ended,
    /// Seconds that the gateway ran.
    pub uptime: f64,
    /// Seconds that the counters cover: less than `uptime` when they were cleared.
    pub elapsed: f64,
    /// The generation of the configuration that ran last.
    pub generation: u64,
    /// How many workers there were.
    pub workers: usize,
    /// Packets per second over all workers.
    pub rates: Rates,
    /// Every interface.
    pub interfaces: Vec<Interface>,
    /// Every node that ran, all workers together.
    pub nodes: Vec<Node>,
    /// Every drop reason that occurred.
    pub errors: Vec<stats::DropStats>,
    /// Source address validation, by interface and family.
    #[serde(default)]
    pub sav: Vec<sav::Interface>,
    /// Every rule of an access list that matched packets.
    #[serde(default)]
    pub rules: Vec<Matched>,
    /// The SPDs, with what their rules matched.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub spds: Vec<Spd>,
    /// The pairs of SAs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sas: Vec<Sa>,
    /// Where all packets went.
    pub conservation: Sum,
    /// Ports that failed.
    pub failures: Vec<String>,
}

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ended {
    /// A signal ended it.
    Signal,
    /// Its time was up.
    Duration,
    /// All inputs had ended, and it was to end with them.
    Done,
}

impl Ended {
    fn text(self) -> &'static str {
        match self {
            Ended::Signal => "ended by a signal",
            Ended::Duration => "ended when its time was up",
            Ended::Done => "ended with its inputs",
        }
    }
}

impl Summary {
    /// Summarises the last snapshot. The rules of access lists, SPDs and SAs are not in it: the caller adds them.
    pub fn new(snapshot: &stats::Snapshot, ended: Ended, uptime: f64, generation: u64, failures: Vec<String>) -> Self {
        let per_second = |of: fn(&stats::WorkerStats) -> u64| {
            ratio(snapshot.workers.iter().map(of).sum::<u64>() as f64, snapshot.elapsed)
        };
        Summary {
            ended,
            uptime,
            elapsed: snapshot.elapsed,
            generation,
            workers: snapshot.workers.len(),
            rates: Rates {
                received: per_second(|worker| worker.received),
                transmitted: per_second(|worker| worker.transmitted),
                drop: per_second(|worker| worker.dropped),
                punt: per_second(|worker| worker.local),
            },
            interfaces: Interfaces::new(snapshot, Vec::new()).interfaces,
            nodes: together(&snapshot.workers).iter().filter(|node| node.calls > 0).map(Node::new).collect(),
            errors: errors::Errors::new(snapshot, false).errors,
            sav: sav::interfaces(snapshot).into_iter().filter(|interface| interface.checked > 0).collect(),
            rules: Vec::new(),
            spds: Vec::new(),
            sas: Vec::new(),
            conservation: Sum::new(&snapshot.conservation),
            failures,
        }
    }
}

/// The nodes of all workers, each node's counters added up.
pub(super) fn together(workers: &[stats::WorkerStats]) -> Vec<stats::NodeStats> {
    let mut nodes: Vec<stats::NodeStats> = Vec::new();
    for node in workers.iter().flat_map(|worker| &worker.nodes) {
        match nodes.iter_mut().find(|known| known.name == node.name) {
            Some(known) => {
                known.calls += node.calls;
                known.packets += node.packets;
                known.suspends += node.suspends;
                known.ticks += node.ticks;
            }
            None => nodes.push(node.clone()),
        }
    }
    nodes
}

impl Report for Summary {
    const SCHEMA: &'static str = "weir.run/1";

    fn text(&self) -> String {
        let mut text = String::new();
        let workers = plural(self.workers as u64, "worker");
        let _ = writeln!(
            text,
            "ran {:.1} s with {workers}, generation {}, {}",
            self.uptime,
            self.generation,
            self.ended.text()
        );
        let [received, transmitted, drop, punt] =
            [self.rates.received, self.rates.transmitted, self.rates.drop, self.rates.punt].map(short);
        let _ = writeln!(
            text,
            "packets per second over {:.1} s: in {received}, out {transmitted}, drop {drop}, punt {punt}\n",
            self.elapsed
        );
        text.push_str(&interfaces::traffic(&self.interfaces));
        if !self.nodes.is_empty() {
            text.push('\n');
            text.push_str(&runtime::nodes(&self.nodes));
        }
        if !self.errors.is_empty() {
            text.push('\n');
            text.push_str(&errors::table(&self.errors));
        }
        let text_of = |is_empty: bool, text: &dyn Fn() -> String| if is_empty { String::new() } else { text() };
        let policies = [
            sav::tables(&self.sav),
            text_of(self.rules.is_empty(), &|| matched::table(&self.rules)),
            text_of(self.spds.is_empty(), &|| Spds { spds: self.spds.clone() }.text()),
            text_of(self.sas.is_empty(), &|| Sas { sas: self.sas.clone() }.text()),
        ];
        for part in policies.iter().filter(|part| !part.is_empty()) {
            text.push('\n');
            text.push_str(part);
        }
        text.push('\n');
        text.push_str(&self.conservation.text());
        for failure in &self.failures {
            let _ = writeln!(text, "failed: {failure}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::acl::Hits;
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn spds_and_sas_are_shown_if_there_are_any() {
        let summary = Summary::new(&sample::snapshot(), Ended::Signal, 1.0, 1, Vec::new());
        let without = summary.text();
        let spds = Spds::new(sample::spds());
        let with = Summary { spds: spds.spds.clone(), ..summary };
        assert!(with.text().contains(&format!("\n\n{}\n", spds.text())), "{}", with.text());
        assert!(!without.contains("protect"), "{without}");
        assert_eq!(read::<Summary>(&json(&with)).unwrap(), with);
    }

    #[test]
    fn all_of_it_on_one_page() {
        let mut snapshot = sample::snapshot();
        let second = stats::WorkerStats { worker: 1, core: None, ..snapshot.workers[0].clone() };
        snapshot.workers.push(second);
        let summary = Summary::new(&snapshot, Ended::Duration, 2.04, 1, vec!["interface lan: gone".into()]);
        let rule = Matched {
            list: "edge".into(),
            place: Some(3),
            rule: "deny tcp from any to any port 25".into(),
            hits: Hits { packets: 40, bytes: 2400 },
        };
        let summary = Summary { rules: vec![rule], ..summary };
        assert_eq!(
            summary.text(),
            "\
ran 2.0 s with 2 workers, generation 1, ended when its time was up
packets per second over 2.0 s: in 2.00 k, out 1.90 k, drop 100, punt 0

Name  RX packets  RX bytes  TX packets  TX bytes  Dropped  Dropped bytes  Punted  No buffer  Kernel drops  RX errors  TX errors
wan         2000    128000           0         0      100           6400      12          0             5          0          0
lan            0         0        1900    121600        0              0       0          0             0          0          2

Name            State    Calls  Vectors  Suspends  Clocks  Vectors/Call
rx              polling     20     4000         0  1.20e1        200.00
ethernet-input  active      40     2000         0  2.55e1         50.00

Count  Node       Reason     Severity  Description
   40  ip-lookup  no-route   warning   No route covers the destination.
   60  ip-lookup  blackhole  info      A blackhole route covers the destination.

Interface  Family  Policy  Exempt  Checked  Unknown  Invalid  Invalid bytes  Limited  Redirected
wan        ipv4    edge         0     1000       10      100           6400        0           0
wan        ipv6    -            0        5        0        0              0        0           0

Interface  Family  Mechanism  Invalid  Invalid bytes
wan        ipv4    table           90           5760
wan        ipv4    special         10            640

Packets  List  Place  Rule
     40  edge      3  deny tcp from any to any port 25

received 2000 + created 0 = transmitted 1900 + local 0 + held 0 + dropped 100 + absorbed 0
every packet is accounted for
failed: interface lan: gone
"
        );
        assert_eq!(read::<Summary>(&json(&summary)).unwrap(), summary);
    }
}
