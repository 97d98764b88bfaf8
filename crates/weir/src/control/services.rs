//! Services beside the graph, which follow reloads of the configuration: sources of routes, and metrics.

use crate::config::{Loaded, Metrics, Routes};

/// The settings of services beside the graph.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Where metrics are served, if they are.
    pub metrics: Option<Metrics>,
    /// Other sources of routes, if there are any.
    pub routes: Option<Routes>,
}

impl Settings {
    /// Of a configuration.
    pub fn of(loaded: &Loaded) -> Settings {
        Settings { metrics: loaded.metrics.clone(), routes: loaded.routes.clone() }
    }

    /// Names the tables that differ.
    pub(super) fn differing(&self, other: &Settings) -> Vec<String> {
        let tables = [("metrics", self.metrics != other.metrics), ("routes", self.routes != other.routes)];
        tables.into_iter().filter(|(_, differs)| *differs).map(|(name, _)| name.to_owned()).collect()
    }
}

/// The services beside the graph.
pub trait Services: Send {
    /// Opens the sockets of other settings that are not open yet. What is in force stays.
    ///
    /// # Errors
    /// Says which address cannot be used. Nothing is open then that was not before.
    fn open(&mut self, settings: &Settings) -> Result<(), String>;

    /// Closes what was opened for other settings.
    fn cancel(&mut self);

    /// Follows the settings for which sockets were opened.
    fn follow(&mut self, settings: &Settings);
}
