//! Services beside the graph follow reloads.

use std::sync::PoisonError;

use super::super::services::Settings;
use super::Running;

impl Running {
    /// Returns the settings of the services beside the graph.
    pub(super) fn settings(&self) -> Settings {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Puts a configuration into force by `put`, with these settings of the services beside the graph. New sockets are opened
    /// before it; what has the old ones is changed behind it. If either fails, the old ones stay.
    pub(super) fn with_settings<T, E>(
        &self,
        settings: Settings,
        put: impl FnOnce() -> Result<T, E>,
        refused: impl FnOnce(String) -> E,
    ) -> Result<T, E> {
        let mut services = self.services.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = services.as_mut().filter(|_| settings != self.settings());
        if let Some(services) = &mut changed
            && let Err(error) = services.open(&settings)
        {
            return Err(refused(error));
        }
        let result = put();
        if let Some(services) = changed {
            match &result {
                Ok(_) => services.follow(&settings),
                Err(_) => services.cancel(),
            }
        }
        if result.is_ok() {
            *self.settings.lock().unwrap_or_else(PoisonError::into_inner) = settings;
        }
        result
    }
}
