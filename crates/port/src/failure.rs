//! Failures of open ports.

use std::sync::{Arc, OnceLock};

use crate::af_packet::AfPacketError;
use crate::pcap::CaptureError;

/// Reason why a port stopped receiving or transmitting.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A capture file is truncated or malformed, or the system refused to read or write it.
    #[error(transparent)]
    Capture(#[from] Arc<CaptureError>),
    /// A kernel interface cannot be attached to, again or by another queue.
    #[error(transparent)]
    Device(#[from] Arc<AfPacketError>),
}

/// Passes the first failure of a port from its queues to the control thread.
#[derive(Debug, Clone, Default)]
pub(crate) struct FailureSlot(Arc<OnceLock<Failure>>);

impl FailureSlot {
    pub(crate) fn note(&self, error: CaptureError) -> Failure {
        let failure = Failure::Capture(Arc::new(error));
        // Later failures are mostly consequences of the first.
        let _ = self.0.set(failure.clone());
        failure
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        self.0.get().cloned()
    }
}
