//! Packets that the gateway gives to the host.

use serde::Serialize;
use weir_plane::harness::{Harness, Outcome};

use super::quoted::{Line, line};

/// The host, and how it gets a packet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Host {
    /// The punt device.
    pub device: String,
    /// The interface that the device belongs to.
    pub interface: String,
    /// The line that declares the interface.
    pub by: Option<Line>,
}

impl Host {
    /// The device in words.
    pub(super) fn sentence(&self) -> String {
        format!("gets it by {}, the punt device of {}", self.device, self.interface)
    }
}

/// The punt device that a packet went to the host by.
pub(super) fn of(harness: &Harness, outcome: &Outcome) -> Option<Host> {
    let number = outcome.punted?;
    let mut interfaces = (0..).zip(&harness.model().interfaces);
    let (_, interface) = interfaces.find(|(index, _)| harness.interface_number(*index) == Some(number))?;
    Some(Host {
        device: interface.punt.as_ref()?.name.clone(),
        interface: interface.name.clone(),
        by: harness.place(interface.origin).map(line),
    })
}
