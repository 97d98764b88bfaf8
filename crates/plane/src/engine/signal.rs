//! Wakes a thread when there is work.

use std::sync::{Condvar, Mutex, PoisonError};

/// Wakes a thread when there is work.
#[derive(Default)]
pub(super) struct Signal(Mutex<bool>, Condvar);

impl Signal {
    /// There is something to do.
    pub(super) fn set(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.1.notify_one();
    }

    /// Waits until there is.
    pub(super) fn wait(&self) {
        let set = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *self.1.wait_while(set, |set| !*set).unwrap_or_else(PoisonError::into_inner) = false;
    }
}
