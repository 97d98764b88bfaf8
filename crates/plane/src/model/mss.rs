//! The maximum segment size of TCP connections.

/// The greatest segment size that SYN segments of TCP leave with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MssClamp {
    /// This one, in octets.
    Value(u16),
    /// The one that fits: of a translation, the MTU of the interface that the segment came in by, and of the one that it leaves by; of a
    /// tunnel or an SA, the path, with all that is put around the segment.
    Mtu,
}
