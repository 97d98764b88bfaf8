//! Packets that the control side has a worker make.

/// The kind of a packet that a worker makes for a pair of SAs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// A keepalive of ESP in UDP (RFC 3948, 2.3).
    Keepalive,
    /// A dummy packet (RFC 4303, 2.6).
    Dummy,
}
