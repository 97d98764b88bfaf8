//! Sessions that begin and end, for watchers with filters.

use super::control::Control;
use super::flows::{Compiled, FlowFilter};
use crate::graph::session::{OfEither, SessionEvent};
use crate::model;

/// A filter of sessions, which also matches sessions that have ended.
pub struct SessionFilter(Compiled);

impl SessionFilter {
    /// Whether the filter matches the packet that opened the session.
    pub fn matches(&self, event: &SessionEvent) -> bool {
        match &event.0 {
            OfEither::V4(own) => self.0.matches_v4(&own.fields()),
            OfEither::V6(own) => self.0.matches_v6(&own.fields()),
        }
    }
}

impl Control {
    /// Compiles a filter of sessions, made of the model in force.
    ///
    /// # Errors
    /// As for `filter`.
    pub fn session_filter<E>(
        &self,
        filter: impl FnOnce(&model::Gateway) -> Result<FlowFilter, E>,
    ) -> Result<SessionFilter, E> {
        let (model, map) = self.in_force();
        Ok(SessionFilter(Compiled::new(&filter(&model)?, &map)))
    }
}
