//! `show trace`: packets and the nodes they passed.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use weir_plane::engine::{TraceDecision, TraceRow, TraceStep};

use super::Report;

/// Every traced packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Traces {
    /// Each packet.
    pub packets: Vec<Packet>,
}

/// A traced packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packet {
    /// Number of the trace, from 1.
    pub number: u32,
    /// Number of the worker, from 0.
    pub worker: usize,
    /// When it was received, in nanoseconds of the gateway's clock.
    pub time: u64,
    /// The nodes it passed.
    pub steps: Vec<Step>,
}

/// A node that a packet passed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// Node.
    pub node: String,
    /// Interface that the packet came in on.
    pub interface: String,
    /// The packet at that node.
    pub packet: String,
    /// The finding or decision of the node; may be empty.
    pub note: String,
    /// The rule or list that decided about the packet at the node: its list, where it was declared, and itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
}

impl Traces {
    /// Of the gateway's rows; `by` gives a decision in words.
    pub fn new(rows: Vec<TraceRow>, by: impl Fn(&TraceDecision) -> String) -> Self {
        Traces { packets: rows.into_iter().map(|row| Packet::new(row, &by)).collect() }
    }
}

impl Packet {
    fn new(row: TraceRow, by: impl Fn(&TraceDecision) -> String) -> Self {
        let step = |step: TraceStep| Step {
            node: step.node.to_owned(),
            interface: step.interface,
            packet: step.packet,
            note: step.note,
            by: words(&step.decisions, &by),
        };
        let steps = row.steps.into_iter().map(step).collect();
        Packet { number: row.number, worker: row.worker, time: row.time, steps }
    }
}

fn words(decisions: &[TraceDecision], by: impl Fn(&TraceDecision) -> String) -> Option<String> {
    (!decisions.is_empty()).then(|| decisions.iter().map(by).collect::<Vec<_>>().join("; "))
}

/// Nanoseconds as `01:02:03.000000042`.
fn clock(time: u64) -> String {
    let (seconds, nanoseconds) = (time / 1_000_000_000, time % 1_000_000_000);
    format!("{:02}:{:02}:{:02}.{nanoseconds:09}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

impl Report for Traces {
    const SCHEMA: &'static str = "weir.show.trace/1";

    fn text(&self) -> String {
        let mut text = String::new();
        for packet in &self.packets {
            if !text.is_empty() {
                text.push('\n');
            }
            let _ = writeln!(text, "Packet {}, thread {}, {}", packet.number, packet.worker + 1, clock(packet.time));
            let width = packet.steps.iter().map(|step| step.node.len()).max().unwrap_or(0);
            for Step { node, interface, packet, note, by } in &packet.steps {
                let _ = writeln!(text, "  {node:width$}  from {interface}: {packet}");
                if !note.is_empty() {
                    let _ = writeln!(text, "  {:width$}    {note}", "");
                }
                if let Some(by) = by {
                    let _ = writeln!(text, "  {:width$}    {by}", "");
                }
            }
        }
        if text.is_empty() {
            text.push_str("no packet was traced\n");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::{json, read, sample};
    use super::*;

    #[test]
    fn a_line_a_node_and_its_note_below() {
        let traces = Traces::new(sample::traces(), |_| "".into());
        assert_eq!(
            traces.text(),
            "\
Packet 1, thread 1, 01:02:03.000000042
  ethernet-input  from wan: IP4 10.0.0.1 > 192.0.2.9 udp 1 > 2 ttl 64 length 46
  drop            from wan: IP4 10.0.0.1 > 192.0.2.9 udp 1 > 2 ttl 64 length 46
                    ttl-expired
"
        );
        assert_eq!(read::<Traces>(&json(&traces)).unwrap(), traces);
        assert_eq!(Traces::new(vec![], |_| "".into()).text(), "no packet was traced\n");
        let mut rows = sample::traces();
        rows[0].steps[1].decisions = vec![TraceDecision::Gone];
        let traces = Traces::new(rows, |_| "edge-in, edge.toml:14: deny ip from any to any".into());
        assert!(traces.text().ends_with(
            "\
                    ttl-expired
                    edge-in, edge.toml:14: deny ip from any to any
"
        ));
        assert_eq!(read::<Traces>(&json(&traces)).unwrap(), traces);
    }
}
