//! Whether policies are *per segment*: they may match some segments of a super-packet, and others not.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The policies that are per segment, by kind. Super-packets whose segments differ are cut in front of them.
#[derive(Clone, Default)]
pub struct PerSegment {
    /// Exemptions from validation, or NAT rules: they match TCP flags in which segments differ.
    pub rules: bool,
    /// Classifier tables: their masks have octets in which any two segments may differ.
    pub tables: bool,
    /// Validation or classifier tables limit bits: a short last segment may pass where others do not.
    pub bits: bool,
    /// Access lists: they match such TCP flags. Live edits of rules set this without a new root.
    pub lists: Arc<AtomicBool>,
}

impl PerSegment {
    /// Returns whether some policy is per segment.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.rules || self.tables || self.lists.load(Ordering::Acquire)
    }
}
