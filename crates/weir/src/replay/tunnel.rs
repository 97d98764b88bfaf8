//! Tunnels that a packet was put into or taken out of.

use std::fmt;

use serde::Serialize;
use weir_plane::harness::{Harness, Outcome, Tunnelled, Verdict};
use weir_plane::model::{InterfaceKind, Place};
use weir_plane::reason::Reason;

use super::quoted::{Line, line};

/// A tunnel, and its part in a packet's way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Passed {
    /// The name of its interface.
    pub name: String,
    /// `vxlan`, `geneve`, `gue`, `gre` or `ipip`.
    pub kind: &'static str,
    /// `out`: into the tunnel; `in`: out of it.
    pub direction: &'static str,
    /// `encapsulated`, `decapsulated` or `refused`.
    pub effect: &'static str,
    /// The line that declares it.
    pub by: Option<Line>,
}

impl Passed {
    /// The effect in words.
    pub(super) fn sentence(&self) -> String {
        let Passed { name, kind, effect, .. } = self;
        match *effect {
            "encapsulated" => format!("{name} carries it by {kind}"),
            "decapsulated" => format!("{name} takes it out of {kind}"),
            _ => format!("{name} does not carry it"),
        }
    }
}

impl fmt::Display for Passed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.effect)
    }
}

/// The tunnels of a packet, in order.
pub(super) fn passed(harness: &Harness, outcome: &Outcome) -> Vec<Passed> {
    let of = |(at, &Tunnelled { interface, inbound }): (usize, &Tunnelled)| {
        let interface = harness.model().interfaces.get(interface.0 as usize)?;
        let InterfaceKind::Tunnel(tunnel) = interface.kind else { return None };
        let is_last = at + 1 == outcome.tunnels.len();
        let (direction, effect) = match inbound {
            _ if is_last && is_refused(outcome.verdict) => (if inbound { "in" } else { "out" }, "refused"),
            true => ("in", "decapsulated"),
            false => ("out", "encapsulated"),
        };
        let by = harness.place(interface.origin).map(line);
        Some(Passed { name: interface.name.clone(), kind: tunnel.carrier.name(), direction, effect, by })
    };
    outcome.tunnels.iter().enumerate().filter_map(of).collect()
}

/// The tunnel that a packet came to last did not carry it.
fn is_refused(verdict: Verdict) -> bool {
    use Reason::{TunnelChecksum, TunnelEcn, TunnelMalformed};
    matches!(verdict, Verdict::Drop(TunnelMalformed | TunnelChecksum | TunnelEcn))
}

/// The place of the tunnel that a packet came to last.
pub(super) fn last(harness: &Harness, outcome: &Outcome) -> Option<Place> {
    let Tunnelled { interface, .. } = outcome.tunnels.last()?;
    harness.place(harness.model().interfaces.get(interface.0 as usize)?.origin)
}
