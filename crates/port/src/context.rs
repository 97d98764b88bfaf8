//! The surroundings of a port.

use weir_packet::buffer::Pool;

/// The interface and the buffer pool that a port is opened for.
#[derive(Clone)]
pub struct Context {
    /// The interface's name: generators make their own MAC addresses from it.
    pub name: String,
    /// The interface's MAC address: the destination of generated packets whose template names no other.
    pub mac: [u8; 6],
    /// Octets of the interface's longest frame, with link-layer header and tags: generators refuse to make longer ones.
    pub max_frame: usize,
    /// The pool that the port's queues take their buffers from. Its longest buffer bounds the packets that they receive.
    pub pool: Pool,
}
