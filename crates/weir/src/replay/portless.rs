//! Captures of interfaces without a port: tunnels, whose packets leave in others, and the gateway's own stations on bridges.

use weir_packet::wire::ethernet;
use weir_plane::engine::{Capture, CaptureReader};
use weir_plane::harness::Harness;

use super::sink::{Files, Sink as _};
use crate::linkless::framed;

/// More packets per second than a replay has.
const RATE: u32 = 1_000_000_000;
/// Copies that are read at once: more than wait.
const ALL: usize = 1 << 16;
/// Octets of two tags.
const TAGS: usize = 8;

/// A capture of what leaves by interfaces without a port.
pub(super) struct Portless(CaptureReader);

impl Portless {
    /// Begins it, if there are such interfaces.
    pub(super) fn begin(harness: &mut Harness) -> Option<Portless> {
        let portless = harness.model().interfaces.iter().filter(|own| own.kind.is_portless());
        let snap = portless.map(|own| own.mtu as usize).max()? + ethernet::LENGTH + TAGS;
        let order = Capture { output: true, portless: true, snap, rate: RATE, ..Capture::default() };
        // No other capture runs.
        harness.capture(&order).ok().map(Portless)
    }

    /// Writes packets since the last call into the captures of their interfaces. `index_of`: the model's index of an interface.
    pub(super) fn write(&mut self, files: &Files, index_of: impl Fn(u32) -> Option<u32>) {
        self.0.read(ALL, |copied| {
            let Some(index) = index_of(copied.interface) else { return };
            let frame = if copied.bare { &framed(&copied.octets) } else { &copied.octets };
            // Failures are kept by the files.
            files.put(index, copied.time, frame);
        });
    }

    /// Returns how many packets are missing, as more left at once than are copied.
    pub(super) fn missing(&self) -> u64 {
        self.0.counts().no_room
    }
}
