//! The report of `weir bench acl`.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::guide::{STATEFUL, THEIR_BASES};
use super::sets::LOCAL_FLOWS;
use super::{Guide, Running, SetCost, Times, Updates, Worst};
use crate::report::Report;
use crate::report::figure::{Figure, Target};
use crate::report::forward::machine;
use crate::report::table::Align::{Left, Right};
use crate::report::table::Table;

/// What `weir bench acl` measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Acl {
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// The CPU, as it names itself.
    pub cpu: String,
    /// Turns: what medians in the graph are of.
    pub turns: usize,
    /// Repeats: what medians of lookups are of.
    pub repeats: usize,
    /// The guide's table, by family.
    pub guide: Vec<Guide>,
    /// Rule sets.
    pub sets: Vec<SetCost>,
    /// The worst case, by size and family.
    pub worst: Vec<Worst>,
    /// Changes beside lookups, if they were asked for.
    pub updates: Vec<Updates>,
    /// Changes in a gateway that runs, if they were asked for.
    pub running: Vec<Running>,
}

impl Report for Acl {
    const SCHEMA: &'static str = "weir.bench.acl/1";

    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", machine(&self.cpu, self.tick_frequency));
        let _ = writeln!(
            text,
            "ticks are per packet: medians of {} turns in the graph, of {} repeats for lookups",
            self.turns, self.repeats
        );
        if let Some(guide) = self.guide.first() {
            let _ = writeln!(
                text,
                "\nthe guide's table: {} flows; the guide's cycles, of its machines, beside our ticks",
                guide.flows
            );
        }
        for guide in &self.guide {
            cases(&mut text, guide);
        }
        for guide in &self.guide {
            nodes(&mut text, guide);
        }
        if let Some(set) = self.sets.first() {
            let packets = set.traffic.first().map_or(0, |traffic| traffic.packets);
            let _ = writeln!(
                text,
                "\nrule sets: {packets} packets that match random rules (spread), or as many of {} flows, skewed (local)",
                LOCAL_FLOWS.min(packets)
            );
            text.push_str(&lookups(&self.sets).text());
            failures(&mut text, &self.sets);
            text.push_str("\nmemory, in octets per rule, and loading\n");
            text.push_str(&memory(&self.sets).text());
        }
        for worst in &self.worst {
            let _ = writeln!(
                text,
                "\nthe worst case: {}, sets of {} rules; a lookup in a usual set takes {:.1} ticks",
                worst.family, worst.rules, worst.usual
            );
            text.push_str(&hard(worst).text());
        }
        if let Some(updates) = self.updates.first() {
            let _ = writeln!(
                text,
                "\nrules that come to random places and go, beside lookups ({} CPUs): microseconds, all work included",
                updates.cpus
            );
            text.push_str(&changes(&self.updates).text());
            text.push_str("\nticks of these lookups\n");
            text.push_str(&beside(&self.updates).text());
        }
        if !self.running.is_empty() {
            text.push_str("\nthe same in a gateway that runs, from the call until it returns\n");
            text.push_str(&running(&self.running).text());
        }
        text
    }
}

fn target(target: Option<Target>) -> String {
    target.map_or(String::new(), |target| target.text())
}

fn number(value: Option<f64>, digits: usize) -> String {
    value.map_or(String::new(), |value| format!("{value:.digits$}"))
}

fn spread(figure: &Figure) -> [String; 3] {
    [figure.median, figure.p10, figure.p90].map(|value| format!("{value:.1}"))
}

fn cases(text: &mut String, guide: &Guide) {
    let _ = writeln!(text, "\n{}, {}-octet frames", guide.family, guide.size);
    let mut table = Table::new(&[
        ("Case", Left),
        ("Guide", Right),
        ("Added", Right),
        ("Ours", Right),
        ("Added", Right),
        ("p10", Right),
        ("p90", Right),
        ("Mpps", Right),
        ("Guide_node", Right),
        ("Node", Right),
        ("VPP", Right),
        ("Target", Left),
    ]);
    let v4 = guide.family == "ipv4";
    let bases: Vec<String> = THEIR_BASES.iter().map(|(cycles, _)| cycles.to_string()).collect();
    table.row([
        "forwarding".to_owned(),
        if v4 { bases.join(", ") } else { String::new() },
        String::new(),
        format!("{:.1}", guide.base.median),
        String::new(),
        String::new(),
        String::new(),
        format!("{:.1}", guide.base_rate / 1e6),
        String::new(),
        String::new(),
        String::new(),
        String::new(),
    ]);
    for row in &guide.rows {
        let theirs = row.theirs;
        let with = theirs.and_then(|theirs| theirs.with);
        let added = theirs.and_then(|theirs| Some(theirs.with? - theirs.base?));
        let [ours, low, high] = spread(&row.added);
        table.row([
            row.case.clone(),
            with.map_or(String::new(), |with| with.to_string()),
            added.map_or(String::new(), |added| format!("+{added}")),
            format!("{:.1}", row.with.median),
            format!("+{ours}"),
            low,
            high,
            format!("{:.1}", row.rate / 1e6),
            number(theirs.map(|theirs| theirs.node), 1),
            format!("{:.1}", row.ticks.median),
            row.vpp.map_or(String::new(), |vpp| vpp.to_string()),
            target(row.target),
        ]);
    }
    for (case, with, node) in STATEFUL.iter().filter(|_| v4) {
        table.row::<12>(std::array::from_fn(|column| match (column, with) {
            (0, _) => format!("{case}: not yet"),
            (1, Some(with)) => with.to_string(),
            (2, Some(with)) => format!("+{}", with - THEIR_BASES[0].0),
            (8, _) => format!("{node:.1}"),
            _ => String::new(),
        }));
    }
    text.push_str(&table.text());
    if v4 {
        let [(_, lists), (_, allowlists)] = THEIR_BASES;
        let _ = writeln!(
            text,
            "The guide's forwarding alone: {lists} Mpps beside lists, {allowlists} Mpps beside allowlists, and its \
             increments are over each. Stateful lists come with sessions."
        );
    }
}

fn nodes(text: &mut String, guide: &Guide) {
    let _ = writeln!(text, "\n{}, ticks per packet in each node; the guide's clocks beside them", guide.family);
    let mut table = Table::new(&[
        ("Case", Left),
        ("Node", Left),
        ("Ticks", Right),
        ("p10", Right),
        ("p90", Right),
        ("Guide", Right),
        ("Guide's_nodes", Left),
    ]);
    for node in &guide.nodes {
        let [ticks, low, high] = spread(&node.ticks);
        table.row([
            node.case.clone(),
            node.node.clone(),
            ticks,
            low,
            high,
            number(node.theirs, 1),
            node.their_node.clone(),
        ]);
    }
    text.push_str(&table.text());
}

fn lookups(sets: &[SetCost]) -> Table {
    let mut table = Table::new(&[
        ("Family", Left),
        ("Set", Left),
        ("Rules", Right),
        ("Traffic", Left),
        ("Lookup", Right),
        ("p10", Right),
        ("p90", Right),
        ("Target", Left),
        ("rte_acl", Right),
        ("Variant", Left),
        ("Ours/theirs", Right),
        ("Target", Left),
        ("Node", Right),
        ("Target", Left),
        ("Added", Right),
    ]);
    for set in sets {
        for traffic in &set.traffic {
            let [lookup, low, high] = spread(&traffic.lookup);
            let fastest = traffic.peers.iter().min_by(|one, other| one.median.total_cmp(&other.median));
            let variant = |peer: &super::PeerCost| peer.name.rsplit(' ').next().unwrap_or_default().to_owned();
            table.row([
                set.family.clone(),
                set.name.clone(),
                set.rules.to_string(),
                traffic.traffic.clone(),
                lookup,
                low,
                high,
                target(traffic.lookup_target),
                number(fastest.map(|peer| peer.median), 1),
                fastest.map_or(String::new(), variant),
                number(traffic.ratio, 2),
                target(traffic.ratio_target),
                format!("{:.1}", traffic.node.median),
                target(traffic.node_target),
                format!("{:.1}", traffic.added.median),
            ]);
        }
    }
    table
}

/// Why there is nothing of rte_acl where it took part.
fn failures(text: &mut String, sets: &[SetCost]) {
    for set in sets {
        for traffic in &set.traffic {
            if let Some(error) = &traffic.peer_error {
                let _ = writeln!(text, "no rte_acl of {}, {} rules, {}: {error}", set.name, set.rules, traffic.traffic);
            }
        }
    }
}

fn memory(sets: &[SetCost]) -> Table {
    let mut table = Table::new(&[
        ("Family", Left),
        ("Set", Left),
        ("Rules", Right),
        ("Lookups", Right),
        ("Writer", Right),
        ("Load_ms", Right),
        ("Target", Left),
        ("rte_acl_ms", Right),
    ]);
    for set in sets {
        table.row([
            set.family.clone(),
            set.name.clone(),
            set.rules.to_string(),
            format!("{:.0}", set.octets),
            format!("{:.0}", set.side_octets),
            format!("{:.1}", set.load_ms),
            target(set.load_target),
            number(set.peer_load_ms, 1),
        ]);
    }
    table
}

fn hard(worst: &Worst) -> Table {
    let mut table = Table::new(&[
        ("Set", Left),
        ("Kind", Left),
        ("Matching", Right),
        ("Any", Right),
        ("Slowest", Right),
        ("Times", Right),
        ("Target", Left),
    ]);
    for row in &worst.rows {
        table.row([
            row.name.clone(),
            if row.hard { "hard" } else { "usual" }.to_owned(),
            format!("{:.1}", row.matching),
            format!("{:.1}", row.any),
            format!("{:.1}", row.slowest),
            format!("{:.2}", row.times),
            row.target.as_ref().map_or_else(|| "refused".to_owned(), Target::text),
        ]);
    }
    table
}

/// Columns of changes.
const CHANGES: [(&str, crate::report::table::Align); 13] = [
    ("Family", Left),
    ("Set", Left),
    ("Rules", Right),
    ("Added", Right),
    ("Mean", Right),
    ("p50", Right),
    ("p99", Right),
    ("Target", Left),
    ("p99.9", Right),
    ("Most", Right),
    ("Removed", Right),
    ("Mean", Right),
    ("p99", Right),
];

/// What stands in [`CHANGES`].
fn times(family: &str, name: &str, rules: usize, target: Target, added: &Times, removed: &Times) -> [String; 13] {
    let micros = |value: f64| format!("{value:.1}");
    [
        family.to_owned(),
        name.to_owned(),
        rules.to_string(),
        added.count.to_string(),
        micros(added.mean),
        micros(added.p50),
        micros(added.p99),
        target.text(),
        micros(added.p999),
        micros(added.most),
        removed.count.to_string(),
        micros(removed.mean),
        micros(removed.p99),
    ]
}

/// Cells, and those of more columns.
fn joined<const A: usize, const B: usize, const N: usize>(cells: [String; A], more: [String; B]) -> [String; N] {
    const { assert!(A + B == N) };
    let mut all = cells.into_iter().chain(more);
    std::array::from_fn(|_| all.next().unwrap_or_default())
}

fn changes(all: &[Updates]) -> Table {
    let columns: Vec<_> = CHANGES.into_iter().chain([("Rebuilt", Right)]).collect();
    let mut table = Table::new(&columns);
    for one in all {
        let cells = times(&one.family, &one.name, one.rules, one.target, &one.added, &one.removed);
        table.row::<14>(joined(cells, [one.rebuilt.to_string()]));
    }
    table
}

fn running(all: &[Running]) -> Table {
    let columns = [("Mpps", Right), ("Other_computes", Right), ("Rules_change", Right)];
    let columns: Vec<_> = CHANGES.into_iter().chain(columns).collect();
    let mut table = Table::new(&columns);
    for one in all {
        let cells = times(&one.family, &one.name, one.rules, one.target, &one.added, &one.removed);
        let rates = [one.idle, one.busy, one.changing].map(|rate| format!("{:.2}", rate.median / 1e6));
        table.row::<16>(joined(cells, rates));
    }
    table
}

fn beside(all: &[Updates]) -> Table {
    let mut table = Table::new(&[
        ("Family", Left),
        ("Set", Left),
        ("Rules", Right),
        ("Nothing_changes", Right),
        ("The_other_computes", Right),
        ("Rules_change", Right),
        ("p10", Right),
        ("p90", Right),
    ]);
    for updates in all {
        let [changing, low, high] = spread(&updates.changing);
        table.row([
            updates.family.clone(),
            updates.name.clone(),
            updates.rules.to_string(),
            format!("{:.1}", updates.idle.median),
            format!("{:.1}", updates.busy.median),
            changing,
            low,
            high,
        ]);
    }
    table
}
