//! The states of all sources of routes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::render::routes::Source;

/// The states of all sources, which their threads update.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sources(Arc<Mutex<Vec<Source>>>);

impl Sources {
    pub(super) fn lock(&self) -> MutexGuard<'_, Vec<Source>> {
        // Each state is whole at all times.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the states.
    pub(crate) fn read(&self) -> Vec<Source> {
        self.lock().clone()
    }
}
