//! The report of `weir bench sav`.

use plotters::style::{Color as _, RED};
use serde::{Deserialize, Serialize};

use super::{Background, Floods, Scale, Updates, Way};
use crate::report::chart::{Axis, Bar, Chart, Series, Shape, palette};
use crate::report::figure::Target;
use crate::report::table::Table;
use crate::report::{Page, Report, machine, spread};

/// The measurement of `weir bench sav`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sav {
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// The name of the CPU.
    pub cpu: String,
    /// The origin of source prefixes.
    pub prefixes: String,
    /// Turns: medians are over these.
    pub turns: usize,
    /// Figure 8, by family.
    pub figure_8: Vec<Scale>,
    /// Figure 9, by family.
    pub figure_9: Vec<Background>,
    /// Figure 10, by family and number of prefixes.
    pub figure_10: Vec<Scale>,
    /// Floods and nesting, if they were wanted.
    pub floods: Option<Floods>,
    /// Changes, by family, if they were wanted.
    pub updates: Vec<Updates>,
}

impl Report for Sav {
    const SCHEMA: &'static str = "weir.bench.sav/1";

    fn page(&self) -> Page {
        let title = |any: bool, text: &'static str| any.then_some(text);
        Page::default()
            .line(machine(&self.cpu, self.tick_frequency))
            .line(format!("median, 10th and 90th percentile of {} turns; ticks are per packet", self.turns))
            .line(format!("source prefixes: {}", self.prefixes))
            .each(
                title(
                    !self.figure_8.is_empty(),
                    "\nFigure 8, mechanisms: percent of forwarding without validation, and the draft's percentage",
                ),
                Page::line,
            )
            .each(&self.figure_8, scale)
            .each(
                title(
                    !self.figure_9.is_empty(),
                    "\nFigure 9, 1,000 access rules: percent of forwarding with the rules and without validation",
                ),
                Page::line,
            )
            .each(&self.figure_9, background)
            .each(
                title(
                    !self.figure_10.is_empty(),
                    "\nFigure 10, source prefixes: percent of forwarding without validation, and the draft's percentage",
                ),
                Page::line,
            )
            .each(&self.figure_10, scale)
            .each(&self.floods, attacks)
            .each(&self.updates, changes)
    }

    /// The share of the rate that is left, for each family: by mechanism (Figure 8 of the draft), and over the number of
    /// source prefixes (Figure 10).
    fn charts(&self) -> Vec<(String, Chart)> {
        let mechanisms =
            self.figure_8.iter().map(|scale| (format!("sav-mechanisms-{}", scale.family), by_mechanism(scale)));
        let families = ["ipv6", "ipv4"].into_iter().filter_map(|family| {
            let scales: Vec<&Scale> = self.figure_10.iter().filter(|scale| scale.family == family).collect();
            Some((format!("sav-prefixes-{family}"), by_prefixes(scales.first()?, &scales)))
        });
        mechanisms.chain(families).collect()
    }
}

/// A bar for each mechanism, and the draft's figure as a line across it.
fn by_mechanism(scale: &Scale) -> Chart {
    let title = format!(
        "{}, {}-octet frames, {} source prefixes: of forwarding without validation",
        scale.family, scale.size, scale.prefixes
    );
    let row = |row: &super::Row| Bar { name: row.way.name().to_owned(), own: row.ratio, other: None, mark: row.draft };
    let rows = scale.rows.iter().map(row).collect();
    Chart { title, shape: Shape::Bars { unit: "percent; red: the draft's router".to_owned(), most: 105.0, rows } }
}

/// A line for each kind of table, and the draft's.
fn by_prefixes(first: &Scale, scales: &[&Scale]) -> Chart {
    let over = |value: &dyn Fn(&Scale) -> Option<f64>| -> Vec<(f64, f64)> {
        scales.iter().filter_map(|scale| Some((scale.prefixes as f64, value(scale)?))).collect()
    };
    let ratio = |scale: &Scale, way: Way| Some(scale.rows.iter().find(|row| row.way == way)?.ratio.median);
    let mut series: Vec<Series> = (0..)
        .zip(&first.rows)
        .map(|(number, row)| Series {
            name: row.way.name().to_owned(),
            color: palette(number),
            line: 2,
            point: 3,
            points: over(&|scale| ratio(scale, row.way)),
        })
        .collect();
    let drafts = over(&|scale| scale.rows.iter().find_map(|row| row.draft));
    let name = "the draft's router".to_owned();
    series.push(Series { name, color: RED.to_rgba(), line: 2, point: 3, points: drafts });
    let (x, y) = ("source prefixes".to_owned(), "percent".to_owned());
    let title = format!("{}, {}-octet frames: of forwarding without validation", first.family, first.size);
    Chart { title, shape: Shape::Series { x, y, axis: Axis::Linear(105.0), marks: Vec::new(), series } }
}

/// The cost of policies with a number of prefixes.
fn scale(page: Page, scale: &Scale) -> Page {
    let memory = Table::of(&scale.rows)
        .words("Validation", |row| row.way.name())
        .number("Draft", 0, |row| row.draft.map(|draft| format!("{draft:.1}%")))
        .figure_in("%", "Ratio", 1, |row| row.ratio)
        .target(|row| row.ratio_target)
        .figure("Added", 1, |row| row.added)
        .target(|row| row.added_target)
        .number("Node", 1, |row| row.node.median)
        .number("Mpps", 1, |row| row.rate / 1e6)
        .number("Of_pps", 0, |row| format!("{:.1}%", row.rate_ratio.median))
        .number("B/prefix", 1, |row| row.memory.map(|memory| memory.lookup))
        .number("Control", 1, |row| row.memory.map(|memory| memory.control + memory.rules + memory.counters));
    page.line(format!(
        "\n{}, {}-octet frames; {} source prefixes, {:.0} % of them nested; {} sources, {} destination prefixes",
        scale.family,
        scale.size,
        scale.prefixes,
        scale.nested * 100.0,
        scale.sources,
        scale.destinations,
    ))
    .line(format!(
        "without validation {} ticks in the graph, {:.1} Mpps",
        spread(&scale.plain, 1),
        scale.plain_rate / 1e6
    ))
    .table(memory)
}

/// The cost of validation beside a list.
fn background(page: Page, one: &Background) -> Page {
    let table = Table::of(&one.rows)
        .words("Validation", |row| row.way.name())
        .number("Draft", 0, |row| format!("{:.1}%", row.draft))
        .figure_in("%", "Ratio", 1, |row| row.ratio)
        .figure("Added", 1, |row| row.added)
        .number("Without_rules", 0, |row| format!("{:.1}%", row.without_rules.median))
        .number("Both_to_neither", 0, |row| format!("{:.1}%", row.to_plain.median));
    page.line(format!(
        "\n{}, {}-octet frames; {} source prefixes; {} rules that match on other fields than sources, {} of which are first \
         for some packet",
        one.family, one.size, one.prefixes, one.rules, one.matched,
    ))
    .line(format!(
        "without both {:.1} ticks in the graph, with the rules {:.1} ({:.1} in their node): {:.1}% ({:.1} … {:.1})",
        one.plain.median,
        one.with_rules.median,
        one.node.median,
        one.rules_ratio.median,
        one.rules_ratio.p10,
        one.rules_ratio.p90,
    ))
    .table(table)
}

fn attacks(page: Page, floods: &Floods) -> Page {
    let flood = Table::of(&floods.floods)
        .words("Family", |flood| flood.family.as_str())
        .words("Sources", |flood| flood.sources.as_str())
        .number("Prefixes", 0, |flood| flood.prefixes)
        .number("Legitimate_Mpps", 1, |flood| flood.legitimate_rate / 1e6)
        .number("Flood_Mpps", 1, |flood| flood.rate / 1e6)
        .figure_in("%", "Ratio", 1, |flood| flood.ratio)
        .target(|flood| Some(flood.target));
    let deep = Table::of(&floods.deep)
        .words("Family", |deep| deep.family.as_str())
        .words("Validation", |deep| deep.way.name())
        .number("Prefixes", 0, |deep| deep.prefixes)
        .number("Depth", 0, |deep| deep.depth)
        .number("Usual", 1, |deep| deep.usual.median)
        .number("Nested", 1, |deep| deep.nested.median)
        .figure("Times", 2, |deep| deep.times)
        .target(|deep| Some(deep.target));
    page.line("\nfloods of invalid sources, in turns with legitimate packets")
        .table(flood)
        .line("\ndeeply nested prefixes, in turns with the usual ones: ticks added")
        .table(deep)
}

fn changes(page: Page, updates: &Updates) -> Page {
    let met = |target: Target| match target.text() {
        text if text.ends_with("missed") => text,
        text => text + ", met",
    };
    let rates = [&updates.idle, &updates.busy, &updates.changing].map(|rate| rate.median / 1e6);
    let single = &updates.single;
    page.line(format!(
        "\n{}: changes of a table of {} entries beside its worker, {} CPUs",
        updates.family, updates.entries, updates.cpus
    ))
    .line(format!(
        "batches of {}: {} changes per second ({})",
        updates.batch,
        spread(&updates.rate, 0),
        met(updates.rate_target)
    ))
    .line(format!(
        "the worker's Mpps: {:.2} while nothing is changed, {:.2} while the other thread computes, {:.2} while it changes \
         entries",
        rates[0], rates[1], rates[2]
    ))
    .line(format!(
        "loss in percent: {} ({}); to the rate beside a thread that computes, {:.1}",
        spread(&updates.loss, 1),
        met(updates.loss_target),
        updates.loss_to_busy.median
    ))
    .line(format!(
        "a single change until a packet sees it: p50 {:.0} µs, p99 {:.0} µs ({}), most {:.0} µs of {}",
        single.p50,
        single.p99,
        met(single.target),
        single.most,
        single.count
    ))
    .line(format!(
        "all entries in place of all others: {:.2} s ({})",
        updates.swap.median,
        met(updates.swap_target)
    ))
    .line(format!("sources and times of entries: {:.1} octets per entry", updates.provenance))
}
