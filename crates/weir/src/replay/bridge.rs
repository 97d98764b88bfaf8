//! Bridges that a frame came to.

use std::fmt;

use serde::Serialize;
use weir_plane::harness::{Harness, Outcome};
use weir_plane::model::{Bridge, BridgeIndex, InterfaceKind};
use weir_plane::record::BridgedTo;

use super::quoted::{Line, line};

/// A bridge, and the way of a frame there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Bridged {
    /// The name of the bridge.
    pub name: String,
    /// `known`, `flooded` or `own`.
    pub effect: &'static str,
    /// The interface that leads to the station, if it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The number of ports by which it was flooded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ports: Option<u16>,
    /// Where the bridge was declared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<Line>,
}

impl Bridged {
    /// The way in a sentence.
    pub(super) fn sentence(&self) -> String {
        let Bridged { name, interface, ports, .. } = self;
        match (interface, ports) {
            (Some(interface), _) => format!("{name} knows the station on {interface}"),
            (None, Some(1)) => format!("{name} floods the frame to 1 port"),
            (None, Some(ports)) => format!("{name} floods the frame to {ports} ports"),
            (None, None) => format!("{name} gives the frame to the gateway's own station"),
        }
    }
}

impl fmt::Display for Bridged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.name, self.effect)
    }
}

/// The interface that a frame to the gateway by a port is for: of a port of a bridge, the gateway's own station there, if it has one.
pub(super) fn station(harness: &Harness, port: u32) -> u32 {
    let model = harness.model();
    let has = |bridge: &Bridge| bridge.ports.iter().any(|own| own.interface.0 == port);
    let bridge = model.bridges.iter().position(has).map(|at| InterfaceKind::Bridge(BridgeIndex(at as u16)));
    let own = bridge.and_then(|kind| model.interfaces.iter().position(|own| own.kind == kind));
    own.map_or(port, |own| own as u32)
}

/// The bridges that a frame came to, in order.
pub(super) fn passed(harness: &Harness, outcome: &Outcome) -> Vec<Bridged> {
    let of = |&(index, to): &(BridgeIndex, BridgedTo)| {
        let bridge = harness.model().bridges.get(usize::from(index.0))?;
        let (effect, interface, ports) = match to {
            BridgedTo::Port(number) => ("known", Some(harness.interface_name(number)), None),
            BridgedTo::All(ports) => ("flooded", None, Some(ports)),
            BridgedTo::Own => ("own", None, None),
        };
        let by = harness.place(bridge.origin).map(line);
        Some(Bridged { name: bridge.name.clone(), effect, interface, ports, by })
    };
    outcome.bridges.iter().filter_map(of).collect()
}
