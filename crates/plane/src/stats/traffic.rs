//! Packets and octets.

/// Packets and octets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traffic {
    /// Packets.
    pub packets: u64,
    /// Octets.
    pub bytes: u64,
}
