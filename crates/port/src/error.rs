//! Why a port could not be opened.

use std::io::ErrorKind;

use crate::af_packet::AfPacketError;
use crate::generator::StreamError;
use crate::pcap::CaptureError;
use crate::tap::TapError;

/// Why a port could not be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// There is nothing to generate.
    #[error("a generator needs at least one stream")]
    NoStreams,
    /// A stream of the generator cannot be made.
    #[error("stream {number}: {error}")]
    Stream {
        /// Which, from 1 on.
        number: usize,
        /// Why.
        error: StreamError,
    },
    /// A capture file cannot be read or written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// An interface of the kernel cannot be attached to.
    #[error(transparent)]
    AfPacket(#[from] AfPacketError),
    /// A tap or tun device cannot be had.
    #[error(transparent)]
    Tap(#[from] TapError),
}

impl OpenError {
    /// Whether another process holds what is to be opened. One that was killed a moment ago may still do so.
    pub fn is_held(&self) -> bool {
        match self {
            OpenError::AfPacket(AfPacketError::Claimed { .. }) | OpenError::Tap(TapError::Busy { .. }) => true,
            OpenError::Capture(CaptureError::Create { source, .. }) => source.kind() == ErrorKind::ResourceBusy,
            _ => false,
        }
    }
}
