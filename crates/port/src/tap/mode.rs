//! Modes of tun and tap devices, and the node of their driver.

use std::fmt;

/// The driver's node.
pub(super) const NODE: &str = "/dev/net/tun";

/// Mode of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Ethernet frames.
    Tap,
    /// Network-layer packets.
    Tun,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Tap => "tap",
            Mode::Tun => "tun",
        })
    }
}
