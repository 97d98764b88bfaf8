//! The interface that a port is for.

/// What a port is told of the interface it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Context {
    /// The interface's name: generators make their own MAC addresses from it.
    pub name: String,
    /// The interface's MAC address: where generators send when their template names no other.
    pub mac: [u8; 6],
    /// The longest frame of the interface, in octets, with link-layer header and tags: generators refuse to make longer
    /// ones.
    pub max_frame: usize,
}
