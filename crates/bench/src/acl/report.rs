//! The report of `weir bench acl`.

use plotters::style::{BLACK, BLUE, CYAN, Color as _, MAGENTA, RED, RGBColor};
use serde::{Deserialize, Serialize};

use super::guide::THEIR_BASES;
use super::sets::LOCAL_FLOWS;
use super::{Guide, GuideRow, Running, SetCost, Theirs, Times, TrafficCost, Updates, Worst};
use crate::report::chart::{Axis, Bar, Chart, Series, Shape};
use crate::report::figure::Target;
use crate::report::table::Table;
use crate::report::{Page, Report, machine};

/// The measurement of `weir bench acl`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Acl {
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// The name of the CPU.
    pub cpu: String,
    /// Turns: medians in the graph are over these.
    pub turns: usize,
    /// Repeats: medians of lookups are over these.
    pub repeats: usize,
    /// The guide's table, by family.
    pub guide: Vec<Guide>,
    /// Rule sets.
    pub sets: Vec<SetCost>,
    /// The worst case, by size and family.
    pub worst: Vec<Worst>,
    /// Changes beside lookups, if they were wanted.
    pub updates: Vec<Updates>,
    /// Changes in a running gateway, if they were wanted.
    pub running: Vec<Running>,
}

impl Report for Acl {
    const SCHEMA: &'static str = "weir.bench.acl/1";

    fn page(&self) -> Page {
        let running = Some(&self.running).filter(|all| !all.is_empty());
        Page::default()
            .line(machine(&self.cpu, self.tick_frequency))
            .line(format!(
                "ticks are per packet: medians of {} turns in the graph, of {} repeats for lookups",
                self.turns, self.repeats
            ))
            .each(self.guide.first(), |page, guide| {
                page.line(format!(
                    "\nthe guide's table: {} flows; cycles of the guide's machines, and ticks of this one",
                    guide.flows
                ))
            })
            .each(&self.guide, cases)
            .each(&self.guide, nodes)
            .each(self.sets.first(), |page, first| sets(page, first, &self.sets))
            .each(&self.worst, hard)
            .each(self.updates.first(), |page, first| changes(page, first.cpus, &self.updates))
            .each(running, |page, all| {
                let rows = all.iter().map(|one| (one, Changed::from(one)));
                let table = times(Table::of(rows), |(_, changed)| changed)
                    .number("Mpps", 2, |(one, _)| one.idle.median / 1e6)
                    .number("Other_computes", 2, |(one, _)| one.busy.median / 1e6)
                    .number("Rules_change", 2, |(one, _)| one.changing.median / 1e6);
                page.line("\nthe same in a running gateway, from the call until it returns").table(table)
            })
    }

    /// The additions of the guide's cases, ours beside the guide's; ticks of lookups over the number of rules, beside rte_acl's,
    /// for each family; and the ratio of the two where there is a peer.
    fn charts(&self) -> Vec<(String, Chart)> {
        let guide = self.guide.iter().find(|guide| guide.family == "ipv4");
        let guide = guide.map(|guide| ("acl-guide".to_owned(), by_case(guide)));
        let families = ["ipv4", "ipv6"].into_iter().filter_map(|family| {
            let sets: Vec<&SetCost> = self.sets.iter().filter(|set| set.family == family).collect();
            (!sets.is_empty()).then(|| (format!("acl-rules-{family}"), by_rules(family, &sets)))
        });
        let compared: Vec<&SetCost> = self.sets.iter().filter(|set| set.peer_load_ms.is_some()).collect();
        let ratio = (!compared.is_empty()).then(|| ("acl-ratio".to_owned(), ratios(&compared)));
        guide.into_iter().chain(families).chain(ratio).collect()
    }
}

/// A row of the guide's table: a case that is measured, forwarding alone, or a case that is not measured yet.
#[derive(Clone, Copy)]
enum Case<'a> {
    Alone(&'a Guide),
    Measured(&'a GuideRow),
}

impl<'a> Case<'a> {
    fn row(self) -> Option<&'a GuideRow> {
        match self {
            Case::Measured(row) => Some(row),
            Case::Alone(_) => None,
        }
    }

    fn theirs(self) -> Option<Theirs> {
        self.row()?.theirs
    }
}

fn cases(page: Page, guide: &Guide) -> Page {
    let v4 = guide.family == "ipv4";
    let rows = std::iter::once(Case::Alone(guide)).chain(guide.rows.iter().map(Case::Measured));
    let bases = THEIR_BASES.map(|(cycles, _)| cycles.to_string()).join(", ");
    let table = Table::of(rows)
        .words("Case", |case| match case {
            Case::Alone(_) => "forwarding".to_owned(),
            Case::Measured(row) => row.case.clone(),
        })
        .number("Guide", 0, |case| match case {
            Case::Alone(_) => v4.then(|| bases.clone()),
            Case::Measured(row) => Some(row.theirs?.with?.to_string()),
        })
        .number("Added", 0, |case| case.theirs().and_then(|theirs| Some(format!("+{}", theirs.with? - theirs.base?))))
        .number("Ours", 1, |case| match case {
            Case::Alone(guide) => Some(guide.base.median),
            _ => Some(case.row()?.with.median),
        })
        .number("Added", 0, |case| Some(format!("+{:.1}", case.row()?.added.median)))
        .number("p10", 1, |case| Some(case.row()?.added.p10))
        .number("p90", 1, |case| Some(case.row()?.added.p90))
        .number("Mpps", 1, |case| match case {
            Case::Alone(guide) => Some(guide.base_rate / 1e6),
            _ => Some(case.row()?.rate / 1e6),
        })
        .number("Guide_node", 1, |case| Some(case.theirs()?.node))
        .number("Node", 1, |case| Some(case.row()?.ticks.median))
        .number("VPP", 0, |case| case.row()?.vpp)
        .target(|case| case.row()?.target);
    let [(_, lists), (_, allowlists)] = THEIR_BASES;
    let note = format!(
        "The guide's forwarding alone: {lists} Mpps beside lists, {allowlists} Mpps beside allowlists, and its increments are \
         over each. Stateful lists: all flows have sessions."
    );
    page.line(format!("\n{}, {}-octet frames", guide.family, guide.size))
        .table(table)
        .each(Some(note).filter(|_| v4), |page, note| page.line(note))
}

fn nodes(page: Page, guide: &Guide) -> Page {
    let table = Table::of(&guide.nodes)
        .words("Case", |node| node.case.as_str())
        .words("Node", |node| node.node.as_str())
        .figure("Ticks", 1, |node| node.ticks)
        .number("Guide", 1, |node| node.theirs)
        .words("Guide's_nodes", |node| node.their_node.as_str());
    page.line(format!("\n{}, ticks per packet in each node, and the guide's clocks", guide.family)).table(table)
}

fn sets(page: Page, first: &SetCost, sets: &[SetCost]) -> Page {
    let packets = first.traffic.first().map_or(0, |traffic| traffic.packets);
    let rows = || sets.iter().flat_map(|set| set.traffic.iter().map(move |traffic| (set, traffic)));
    let lookups = Table::of(rows())
        .words("Family", |(set, _)| set.family.as_str())
        .words("Set", |(set, _)| set.name.as_str())
        .number("Rules", 0, |(set, _)| set.rules)
        .words("Traffic", |(_, traffic)| traffic.traffic.as_str())
        .figure("Lookup", 1, |(_, traffic)| traffic.lookup)
        .target(|(_, traffic)| traffic.lookup_target)
        .number("rte_acl", 1, |(_, traffic)| traffic.fastest().map(|peer| peer.median))
        .words("Variant", |(_, traffic)| traffic.fastest().and_then(|peer| peer.name.rsplit(' ').next()))
        .number("Ours/theirs", 2, |(_, traffic)| traffic.ratio)
        .target(|(_, traffic)| traffic.ratio_target)
        .number("Node", 1, |(_, traffic)| traffic.node.median)
        .target(|(_, traffic)| traffic.node_target)
        .number("Added", 1, |(_, traffic)| traffic.added.median);
    let memory = Table::of(sets)
        .words("Family", |set| set.family.as_str())
        .words("Set", |set| set.name.as_str())
        .number("Rules", 0, |set| set.rules)
        .number("Lookups", 0, |set| set.octets)
        .number("Writer", 0, |set| set.side_octets)
        .number("Load_ms", 1, |set| set.load_ms)
        .target(|set| set.load_target)
        .number("rte_acl_ms", 1, |set| set.peer_load_ms);
    let failed = rows().filter_map(|(set, traffic)| Some((set, traffic, traffic.peer_error.as_ref()?)));
    page.line(format!(
        "\nrule sets: {packets} packets that match random rules (spread), or as many of {} flows, skewed (local)",
        LOCAL_FLOWS.min(packets)
    ))
    .table(lookups)
    .each(failed, |page, (set, traffic, error)| {
        page.line(format!("no rte_acl of {}, {} rules, {}: {error}", set.name, set.rules, traffic.traffic))
    })
    .line("\nmemory, in octets per rule, and loading")
    .table(memory)
}

fn hard(page: Page, worst: &Worst) -> Page {
    let table = Table::of(&worst.rows)
        .words("Set", |row| row.name.as_str())
        .words("Kind", |row| if row.hard { "hard" } else { "usual" })
        .number("Matching", 1, |row| row.matching)
        .number("Any", 1, |row| row.any)
        .number("Slowest", 1, |row| row.slowest)
        .number("Times", 2, |row| row.times)
        .words("Target", |row| row.target.as_ref().map_or_else(|| "refused".to_owned(), Target::text));
    page.line(format!(
        "\nthe worst case: {}, sets of {} rules; a lookup in a usual set takes {:.1} ticks",
        worst.family, worst.rules, worst.usual
    ))
    .table(table)
}

/// The columns of changes.
#[derive(Clone, Copy)]
struct Changed<'a> {
    set: (&'a str, &'a str, usize),
    added: &'a Times,
    target: Target,
    removed: &'a Times,
}

impl<'a> From<&'a Updates> for Changed<'a> {
    fn from(Updates { family, name, rules, added, target, removed, .. }: &'a Updates) -> Self {
        Changed { set: (family, name, *rules), added, target: *target, removed }
    }
}

impl<'a> From<&'a Running> for Changed<'a> {
    fn from(Running { family, name, rules, added, target, removed, .. }: &'a Running) -> Self {
        Changed { set: (family, name, *rules), added, target: *target, removed }
    }
}

fn times<'a, T: Copy>(table: Table<T>, of: impl Fn(T) -> Changed<'a>) -> Table<T> {
    table
        .words("Family", |row| of(row).set.0)
        .words("Set", |row| of(row).set.1)
        .number("Rules", 0, |row| of(row).set.2)
        .number("Added", 0, |row| of(row).added.count)
        .number("Mean", 1, |row| of(row).added.mean)
        .number("p50", 1, |row| of(row).added.p50)
        .number("p99", 1, |row| of(row).added.p99)
        .target(|row| Some(of(row).target))
        .number("p99.9", 1, |row| of(row).added.p999)
        .number("Most", 1, |row| of(row).added.most)
        .number("Removed", 0, |row| of(row).removed.count)
        .number("Mean", 1, |row| of(row).removed.mean)
        .number("p99", 1, |row| of(row).removed.p99)
}

fn changes(page: Page, cpus: usize, all: &[Updates]) -> Page {
    let table = times(Table::of(all), Changed::from).number("Rebuilt", 0, |one| one.rebuilt);
    let beside = Table::of(all)
        .words("Family", |one| one.family.as_str())
        .words("Set", |one| one.name.as_str())
        .number("Rules", 0, |one| one.rules)
        .number("Nothing_changes", 1, |one| one.idle.median)
        .number("The_other_computes", 1, |one| one.busy.median)
        .figure("Rules_change", 1, |one| one.changing);
    page.line(format!(
        "\nrules that come to random places and go, beside lookups ({cpus} CPUs): microseconds, all work included"
    ))
    .table(table)
    .line("\nticks of these lookups")
    .table(beside)
}

/// Two bars for each case: the ticks that it adds, and the cycles that the guide's adds, or its node's clocks where there is
/// no such figure.
fn by_case(guide: &Guide) -> Chart {
    let other = |theirs: Theirs| match (theirs.base, theirs.with) {
        (Some(base), Some(with)) => f64::from(with - base),
        _ => theirs.node,
    };
    let row = |row: &GuideRow| {
        Some(Bar { name: row.case.clone(), own: row.added, other: Some(other(row.theirs?)), mark: None })
    };
    let rows: Vec<Bar> = guide.rows.iter().filter_map(row).collect();
    let most = rows.iter().map(|row| row.own.p90.max(row.other.unwrap_or_default())).fold(10.0, f64::max) * 1.1;
    let unit = "blue: weir, ticks; red: the guide's VPP, cycles of its machine".to_owned();
    let title = format!("{}, {} flows: added to forwarding", guide.family, guide.flows);
    Chart { title, shape: Shape::Bars { unit, most, rows } }
}

/// Returns a value of a set and a traffic.
type Value = fn(&TrafficCost) -> Option<f64>;

/// Points of sets over the number of their rules.
fn points(sets: &[&SetCost], (name, traffic, value, color): (&str, &str, Value, RGBColor)) -> Series {
    let of = |set: &&SetCost| {
        let cost = set.traffic.iter().find(|cost| cost.traffic == traffic)?;
        Some((set.rules as f64, value(cost)?))
    };
    let points = sets.iter().filter_map(of).collect();
    Series { name: name.to_owned(), color: color.to_rgba(), line: 0, point: 4, points }
}

fn by_rules(family: &str, sets: &[&SetCost]) -> Chart {
    const SERIES: [(&str, &str, Value, RGBColor); 6] = [
        ("lookup, spread", "spread", |cost| Some(cost.lookup.median), BLUE),
        ("lookup, local", "local", |cost| Some(cost.lookup.median), CYAN),
        ("node, spread", "spread", |cost| Some(cost.node.median), BLACK),
        ("node, local", "local", |cost| Some(cost.node.median), RGBColor(150, 150, 150)),
        ("rte_acl, spread", "spread", |cost| Some(cost.fastest()?.median), RED),
        ("rte_acl, local", "local", |cost| Some(cost.fastest()?.median), MAGENTA),
    ];
    let series = SERIES.map(|one| points(sets, one)).into();
    let (x, y) = ("rules".to_owned(), "ticks per packet".to_owned());
    let shape = Shape::Series { x, y, axis: Axis::Logarithmic(10.0), marks: Vec::new(), series };
    Chart { title: format!("{family}: first match in rule sets"), shape }
}

/// Our ticks by theirs: below the line we are faster.
fn ratios(sets: &[&SetCost]) -> Chart {
    const SERIES: [(&str, &str, Value, RGBColor); 2] =
        [("spread", "spread", |cost| cost.ratio, BLUE), ("local", "local", |cost| cost.ratio, CYAN)];
    let series = SERIES.map(|one| points(sets, one)).into();
    let (x, y) = ("rules; dashes: as fast as rte_acl, and 0.8 of its ticks".to_owned(), "ratio".to_owned());
    let shape = Shape::Series { x, y, axis: Axis::Linear(1.2), marks: vec![1.0, 0.8], series };
    Chart { title: "lookups: ticks to those of rte_acl in the same run".to_owned(), shape }
}
