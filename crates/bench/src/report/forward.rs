//! The report of `weir bench forward`.

use std::fmt::Write;

use serde::{Deserialize, Serialize};

use super::Report;
use crate::between::{Between, Cost as WayCost};
use crate::forward::Cost;
use crate::lpm::Lpm;
use crate::report::figure::Figure;
use crate::report::table::Align::{Left, Right};
use crate::report::table::Table;
use crate::senders::SEGMENT;

/// What `weir bench forward` measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Forward {
    /// Ticks of the time-stamp counter per second.
    pub tick_frequency: f64,
    /// The CPU, as it names itself.
    pub cpu: String,
    /// Windows per load: what medians are of.
    pub windows: usize,
    /// The loads.
    pub forward: Vec<Cost>,
    /// What the full tables are.
    pub prefixes: String,
    /// The full tables.
    pub lpm: Vec<Lpm>,
}

/// Where it was measured, in a line.
pub(crate) fn machine(cpu: &str, tick_frequency: f64) -> String {
    let frequency = tick_frequency / 1e9;
    format!("{cpu}, {frequency:.2} GHz time-stamp counter; one worker, packets from memory")
}

impl Report for Forward {
    const SCHEMA: &'static str = "weir.bench.forward/1";

    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}", machine(&self.cpu, self.tick_frequency));
        let _ = writeln!(text, "ticks per packet: median, 10th and 90th percentile of {} windows\n", self.windows);
        let mut table = Table::new(&[
            ("Load", Left),
            ("Prefixes", Right),
            ("Flows", Right),
            ("Frame", Right),
            ("Total", Right),
            ("p10", Right),
            ("p90", Right),
            ("Target", Left),
            ("VPP", Right),
            ("Mpps", Right),
            ("Table", Right),
        ]);
        for cost in &self.forward {
            table.row([
                cost.family.clone(),
                cost.prefixes.to_string(),
                cost.flows.to_string(),
                format!("{}B", cost.size),
                format!("{:.1}", cost.total.median),
                format!("{:.1}", cost.total.p10),
                format!("{:.1}", cost.total.p90),
                cost.target.map_or(String::new(), |target| target.text()),
                cost.vpp.map_or(String::new(), |vpp| vpp.to_string()),
                format!("{:.1}", cost.rate / 1e6),
                size(cost.table_bytes as f64),
            ]);
        }
        text.push_str(&table.text());
        text.push('\n');
        let mut table = Table::new(&[
            ("Load", Left),
            ("Prefixes", Right),
            ("Node", Left),
            ("Ticks", Right),
            ("p10", Right),
            ("p90", Right),
        ]);
        for cost in &self.forward {
            for node in &cost.nodes {
                table.row([
                    cost.family.clone(),
                    cost.prefixes.to_string(),
                    node.name.clone(),
                    format!("{:.1}", node.ticks.median),
                    format!("{:.1}", node.ticks.p10),
                    format!("{:.1}", node.ticks.p90),
                ]);
            }
        }
        text.push_str(&table.text());
        if !self.lpm.is_empty() {
            let _ = writeln!(text, "\nlongest-prefix match, ticks per lookup; prefixes: {}", self.prefixes);
            text.push_str(&self.lookups().text());
            for lpm in &self.lpm {
                let _ = writeln!(
                    text,
                    "{}: {} routes, {:.1} B per route ({:.1} B more for the writer), filled in {:.2} s, {:.0} updates/s ({}) beside {:.0} M lookups/s",
                    lpm.family,
                    lpm.routes,
                    lpm.bytes_per_route,
                    lpm.writer_bytes_per_route,
                    lpm.fill_seconds,
                    lpm.updates_per_second,
                    if lpm.updates_met { "≥ 500000" } else { "≥ 500000 missed" },
                    lpm.lookups_beside / 1e6,
                );
            }
        }
        text
    }
}

impl Forward {
    fn lookups(&self) -> Table {
        let mut table = Table::new(&[
            ("Family", Left),
            ("Keys", Left),
            ("Who", Left),
            ("Ticks", Right),
            ("Target", Left),
            ("Ours/theirs", Right),
        ]);
        for lpm in &self.lpm {
            for lookups in &lpm.lookups {
                table.row([
                    lpm.family.clone(),
                    lookups.keys.clone(),
                    "weir".to_owned(),
                    format!("{:.1}", lookups.ticks.median),
                    lookups.target.map_or(String::new(), |target| target.text()),
                    String::new(),
                ]);
                for peer in &lookups.peers {
                    table.row([
                        lpm.family.clone(),
                        lookups.keys.clone(),
                        peer.name.clone(),
                        format!("{:.1}", peer.median),
                        String::new(),
                        format!("{:.2}", peer.ratio),
                    ]);
                }
            }
        }
        table
    }
}

impl Report for Between {
    const SCHEMA: &'static str = "weir.bench.forward-port/1";

    fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = writeln!(
            text,
            "{}, {:.2} GHz time-stamp counter; one worker, {} ports, between namespaces",
            self.cpu,
            self.tick_frequency / 1e9,
            self.port
        );
        let _ = writeln!(
            text,
            "median, 10th and 90th percentile of {} windows of {} s; ticks per packet are those of all CPUs, sender and sink included",
            self.windows, self.window
        );
        let _ = writeln!(
            text,
            "a packet of TCP is {SEGMENT} octets of its stream: 1000 kpps are {:.1} Gbit/s",
            SEGMENT as f64 * 8e-3
        );
        let _ = writeln!(text, "before, {:.1} % of a CPU was busy with something else\n", self.otherwise_busy * 100.0);
        let mut table = Table::new(&[
            ("Frames", Left),
            ("Sender", Left),
            ("Way", Left),
            ("kpps", Right),
            ("p10", Right),
            ("p90", Right),
            ("Lost", Right),
            ("Ticks", Right),
            ("p10", Right),
            ("p90", Right),
        ]);
        let of = |figure: &Figure, scale: f64, digits: usize| {
            [figure.median, figure.p10, figure.p90].map(|value| format!("{:.digits$}", value / scale))
        };
        for load in &self.loads {
            let mut row = |way: &str, cost: &WayCost| {
                let [rate, slow, fast] = of(&cost.rate, 1e3, 0);
                let [ticks, low, high] = of(&cost.ticks, 1.0, 0);
                let lost = format!("{:.1}%", cost.lost.median * 100.0);
                table.row([
                    load.frames.clone(),
                    load.sender.clone(),
                    way.to_owned(),
                    rate,
                    slow,
                    fast,
                    lost,
                    ticks,
                    low,
                    high,
                ]);
            };
            row("straight", &load.straight);
            row("kernel", &load.kernel);
            row("weir", &load.weir);
        }
        text.push_str(&table.text());
        for load in &self.loads {
            let [rate, slow, fast] = of(&load.rate_ratio, 1.0, 2);
            let [added, low, high] = of(&load.added_ratio, 1.0, 2);
            let _ = write!(
                text,
                "\n{}, {}: weir forwards {rate} ({slow} … {fast}) times what the kernel does",
                load.frames, load.sender
            );
            // Sockets share their CPUs with what is between: what that adds cannot be told from what they do less.
            if load.sender != "sockets" {
                let _ = write!(text, ", for {added} ({low} … {high}) times the ticks added");
            }
            text.push('\n');
            let nodes: Vec<String> =
                load.nodes.iter().map(|node| format!("{} {:.1}", node.name, node.ticks.median)).collect();
            let _ = writeln!(text, "ticks in weir's nodes: {}", nodes.join(", "));
        }
        for reason in &self.left_out {
            let _ = writeln!(text, "\nleft out: {reason}");
        }
        text
    }
}

fn size(bytes: f64) -> String {
    if bytes >= 1e6 { format!("{:.1}MB", bytes / 1e6) } else { format!("{:.0}kB", bytes / 1e3) }
}
