//! The paths of SAs together.

use std::sync::atomic::{AtomicBool, Ordering};

/// Whether any MTU was learned: until then, no node reads a [`PathMtu`](crate::root::path_mtu::PathMtu).
#[derive(Debug, Default)]
pub struct Paths(AtomicBool);

impl Paths {
    /// Some path has a learned MTU, or had one.
    #[inline(always)]
    #[must_use]
    pub fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Notes that a path has a learned MTU.
    pub fn learn(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
