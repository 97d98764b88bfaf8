//! The report of `weir bench sav`.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::{Background, Floods, Row, Scale, Updates};
use crate::report::Report;
use crate::report::figure::Figure;
use crate::report::forward::machine;
use crate::report::table::Align::{Left, Right};
use crate::report::table::Table;

/// What `weir bench sav` measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sav {
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// The CPU, as it names itself.
    pub cpu: String,
    /// Where source prefixes are from.
    pub prefixes: String,
    /// Turns: what medians are of.
    pub turns: usize,
    /// Figure 8, by family.
    pub figure_8: Vec<Scale>,
    /// Figure 9, by family.
    pub figure_9: Vec<Background>,
    /// Figure 10, by family and number of prefixes.
    pub figure_10: Vec<Scale>,
    /// Floods and nesting, if they were asked for.
    pub floods: Option<Floods>,
    /// Changes, by family, if they were asked for.
    pub updates: Vec<Updates>,
}

impl Report for Sav {
    const SCHEMA: &'static str = "weir.bench.sav/1";

    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", machine(&self.cpu, self.tick_frequency));
        let _ = writeln!(text, "median, 10th and 90th percentile of {} turns; ticks are per packet", self.turns);
        let _ = writeln!(text, "source prefixes: {}", self.prefixes);
        if !self.figure_8.is_empty() {
            text.push_str(
                "\nFigure 8, mechanisms: percent of forwarding without validation; the draft's beside ours\n",
            );
            for scale in &self.figure_8 {
                figure(&mut text, scale);
            }
        }
        if !self.figure_9.is_empty() {
            text.push_str(
                "\nFigure 9, 1,000 access rules beside: percent of forwarding with the rules and without validation\n",
            );
            for one in &self.figure_9 {
                background(&mut text, one);
            }
        }
        if !self.figure_10.is_empty() {
            text.push_str(
                "\nFigure 10, source prefixes: percent of forwarding without validation; the draft's beside ours\n",
            );
            for scale in &self.figure_10 {
                figure(&mut text, scale);
            }
        }
        if let Some(floods) = &self.floods {
            text.push_str(&attacks(floods));
        }
        for updates in &self.updates {
            changes(&mut text, updates);
        }
        text
    }
}

/// What was measured with a number of prefixes.
fn figure(text: &mut String, scale: &Scale) {
    let _ = writeln!(
        text,
        "\n{}, {}-octet frames; {} source prefixes, {:.0} % of them nested; {} sources, {} destination prefixes",
        scale.family,
        scale.size,
        scale.prefixes,
        scale.nested * 100.0,
        scale.sources,
        scale.destinations,
    );
    let [ticks, low, high] = of(&scale.plain, 1);
    let _ = writeln!(
        text,
        "without validation {ticks} ({low} … {high}) ticks in the graph, {:.1} Mpps",
        scale.plain_rate / 1e6
    );
    let mut table = Table::new(&[
        ("Validation", Left),
        ("Draft", Right),
        ("Ratio", Right),
        ("p10", Right),
        ("p90", Right),
        ("Target", Left),
        ("Added", Right),
        ("p10", Right),
        ("p90", Right),
        ("Target", Left),
        ("Node", Right),
        ("Mpps", Right),
        ("Of_pps", Right),
        ("B/prefix", Right),
        ("Beside", Right),
    ]);
    for row in &scale.rows {
        let Row { ratio, added, rate_ratio, node, .. } = row;
        let ([ratio, slow, fast], [added, less, more]) = (of(ratio, 1), of(added, 1));
        let (lookup, beside) = row.memory.map_or((String::new(), String::new()), |memory| {
            let beside = memory.control + memory.rules + memory.counters;
            (format!("{:.1}", memory.lookup), format!("{beside:.1}"))
        });
        table.row([
            row.way.name().to_owned(),
            row.draft.map_or(String::new(), |draft| format!("{draft:.1}%")),
            format!("{ratio}%"),
            slow,
            fast,
            row.ratio_target.map_or(String::new(), |target| target.text()),
            added,
            less,
            more,
            row.added_target.map_or(String::new(), |target| target.text()),
            format!("{:.1}", node.median),
            format!("{:.1}", row.rate / 1e6),
            format!("{:.1}%", rate_ratio.median),
            lookup,
            beside,
        ]);
    }
    text.push_str(&table.text());
}

/// What validation costs beside a list.
fn background(text: &mut String, one: &Background) {
    let _ = writeln!(
        text,
        "\n{}, {}-octet frames; {} source prefixes; {} rules that ask for other things than sources, {} of which are first for \
         some packet",
        one.family, one.size, one.prefixes, one.rules, one.matched,
    );
    let [ratio, slow, fast] = of(&one.rules_ratio, 1);
    let _ = writeln!(
        text,
        "without both {:.1} ticks in the graph, with the rules {:.1} ({:.1} in their node): {ratio}% ({slow} … {fast})",
        one.plain.median, one.with_rules.median, one.node.median,
    );
    let mut table = Table::new(&[
        ("Validation", Left),
        ("Draft", Right),
        ("Ratio", Right),
        ("p10", Right),
        ("p90", Right),
        ("Added", Right),
        ("p10", Right),
        ("p90", Right),
        ("Without_rules", Right),
        ("Both_to_neither", Right),
    ]);
    for row in &one.rows {
        let ([ratio, slow, fast], [added, less, more]) = (of(&row.ratio, 1), of(&row.added, 1));
        table.row([
            row.way.name().to_owned(),
            format!("{:.1}%", row.draft),
            format!("{ratio}%"),
            slow,
            fast,
            added,
            less,
            more,
            format!("{:.1}%", row.without_rules.median),
            format!("{:.1}%", row.to_plain.median),
        ]);
    }
    text.push_str(&table.text());
}

fn attacks(floods: &Floods) -> String {
    let mut text = String::from("\nfloods of sources that are not valid, in turns with legitimate packets\n");
    let mut table = Table::new(&[
        ("Family", Left),
        ("Sources", Left),
        ("Prefixes", Right),
        ("Legitimate_Mpps", Right),
        ("Flood_Mpps", Right),
        ("Ratio", Right),
        ("p10", Right),
        ("p90", Right),
        ("Target", Left),
    ]);
    for flood in &floods.floods {
        let [ratio, slow, fast] = of(&flood.ratio, 1);
        table.row([
            flood.family.clone(),
            flood.sources.clone(),
            flood.prefixes.to_string(),
            format!("{:.1}", flood.legitimate_rate / 1e6),
            format!("{:.1}", flood.rate / 1e6),
            format!("{ratio}%"),
            slow,
            fast,
            flood.target.text(),
        ]);
    }
    text.push_str(&table.text());
    text.push_str("\ndeeply nested prefixes, in turns with the usual ones: ticks added\n");
    let mut table = Table::new(&[
        ("Family", Left),
        ("Validation", Left),
        ("Prefixes", Right),
        ("Depth", Right),
        ("Usual", Right),
        ("Nested", Right),
        ("Times", Right),
        ("p10", Right),
        ("p90", Right),
        ("Target", Left),
    ]);
    for deep in &floods.deep {
        let [times, less, more] = of(&deep.times, 2);
        table.row([
            deep.family.clone(),
            deep.way.name().to_owned(),
            deep.prefixes.to_string(),
            deep.depth.to_string(),
            format!("{:.1}", deep.usual.median),
            format!("{:.1}", deep.nested.median),
            times,
            less,
            more,
            deep.target.text(),
        ]);
    }
    text.push_str(&table.text());
    text
}

fn changes(text: &mut String, updates: &Updates) {
    let met = |target: String| if target.ends_with("missed") { target } else { format!("{target}, met") };
    let _ = writeln!(
        text,
        "\n{}: changes of a table of {} entries beside its worker, {} CPUs",
        updates.family, updates.entries, updates.cpus
    );
    let [rate, slow, fast] = of(&updates.rate, 0);
    let _ = writeln!(
        text,
        "batches of {}: {rate} ({slow} … {fast}) changes per second ({})",
        updates.batch,
        met(updates.rate_target.text())
    );
    let rates = [&updates.idle, &updates.busy, &updates.changing].map(|rate| rate.median / 1e6);
    let _ = writeln!(
        text,
        "the worker's Mpps: {:.2} while nothing is changed, {:.2} while the other thread computes, {:.2} while it changes entries",
        rates[0], rates[1], rates[2]
    );
    let ([loss, less, more], [busy, ..]) = (of(&updates.loss, 1), of(&updates.loss_to_busy, 1));
    let _ = writeln!(
        text,
        "loss {loss} % ({less} … {more}) ({}); to the rate beside a thread that computes, {busy} %",
        met(updates.loss_target.text())
    );
    let single = &updates.single;
    let _ = writeln!(
        text,
        "a single change until a packet sees it: p50 {:.0} µs, p99 {:.0} µs ({}), most {:.0} µs of {}",
        single.p50,
        single.p99,
        met(single.target.text()),
        single.most,
        single.count
    );
    let _ = writeln!(
        text,
        "all entries in place of all others: {:.2} s ({})",
        updates.swap.median,
        met(updates.swap_target.text())
    );
    let _ = writeln!(text, "who said what when: {:.1} octets per entry", updates.provenance);
}

fn of(figure: &Figure, digits: usize) -> [String; 3] {
    [figure.median, figure.p10, figure.p90].map(|value| format!("{value:.digits$}"))
}
