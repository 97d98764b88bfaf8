//! Reason why a port cannot be opened.

use std::io::ErrorKind;

use crate::af_packet::AfPacketError;
use crate::generator::StreamError;
use crate::pcap::CaptureError;
use crate::tap::TapError;

/// Reason why a port cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The generator has no stream.
    #[error("a generator needs at least one stream")]
    NoStreams,
    /// A stream of the generator is invalid.
    #[error("stream {number}: {error}")]
    Stream {
        /// Number of the stream, from 1.
        number: usize,
        /// The reason.
        error: StreamError,
    },
    /// A capture file cannot be read or written.
    #[error(transparent)]
    Capture(#[from] CaptureError),
    /// A kernel interface cannot be used.
    #[error(transparent)]
    AfPacket(#[from] AfPacketError),
    /// A tap or tun device cannot be opened.
    #[error(transparent)]
    Tap(#[from] TapError),
}

impl OpenError {
    /// Returns whether another process holds the device or file. A process that was killed may do so for a moment.
    pub fn is_held(&self) -> bool {
        match self {
            OpenError::AfPacket(AfPacketError::Claimed { .. }) | OpenError::Tap(TapError::Busy { .. }) => true,
            OpenError::Capture(CaptureError::Create { source, .. }) => source.kind() == ErrorKind::ResourceBusy,
            _ => false,
        }
    }
}
