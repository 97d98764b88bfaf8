//! What ended a port's service while it ran.

use std::sync::{Arc, OnceLock};

use crate::af_packet::AfPacketError;
use crate::pcap::CaptureError;

/// Why a port stopped delivering or accepting packets.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A capture file is truncated or malformed, or the system refused to read or write it.
    #[error(transparent)]
    Capture(#[from] Arc<CaptureError>),
    /// An interface of the kernel cannot be attached to, again or by one more queue.
    #[error(transparent)]
    Device(#[from] Arc<AfPacketError>),
}

/// Where queues note a failure for the control thread; the first one stays.
#[derive(Debug, Clone, Default)]
pub(crate) struct FailureSlot(Arc<OnceLock<Failure>>);

impl FailureSlot {
    pub(crate) fn note(&self, error: CaptureError) -> Failure {
        let failure = Failure::Capture(Arc::new(error));
        // A later failure is more likely a consequence than a cause.
        let _ = self.0.set(failure.clone());
        failure
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        self.0.get().cloned()
    }
}
