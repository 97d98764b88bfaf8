//! The link-layer addresses of a stream.

use super::mix::mix;
use crate::context::Context;

/// The link-layer addresses of packets whose template names none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link {
    pub(super) source: [u8; 6],
    pub(super) destination: [u8; 6],
}

impl Link {
    /// Returns the addresses: from a station that stands for the stream (locally administered, derived from the
    /// interface's name) to the interface.
    pub(super) fn of(context: &Context, stream: usize) -> Link {
        let name = context.name.bytes().fold(0, |hash, octet| mix(hash ^ u64::from(octet)));
        let [a, b, c, d, e, ..] = mix(name ^ stream as u64).to_be_bytes();
        Link { source: [0x02, a, b, c, d, e], destination: context.mac }
    }
}
