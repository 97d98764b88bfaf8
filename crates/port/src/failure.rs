//! What ended a port's service while it ran.

use std::sync::{Arc, OnceLock};

use crate::pcap::CaptureError;

/// Why a port stopped delivering or accepting packets.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Failure {
    /// A capture file is truncated or malformed, or the system refused to read or write it.
    #[error(transparent)]
    Capture(#[from] Arc<CaptureError>),
}

/// Where queues note a failure for the control thread; the first one stays.
#[derive(Debug, Clone, Default)]
pub(crate) struct FailureSlot(Arc<OnceLock<Failure>>);

impl FailureSlot {
    pub(crate) fn note(&self, error: CaptureError) {
        // A later failure is a consequence of the first.
        let _ = self.0.set(Failure::Capture(Arc::new(error)));
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        self.0.get().cloned()
    }
}
