//! The service manager's watchdog: it is notified only while every worker and the control thread make progress.

use std::future::pending;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};
use weir_plane::engine::Stuck;

use crate::control::running::Running;
use crate::notify;

/// Looks after the threads if the service manager wants to know of them.
pub(super) struct Watchdog {
    interval: Option<Interval>,
    /// The threads that the log has reported.
    told: Vec<Stuck>,
}

impl Watchdog {
    pub(super) fn new(running: &Running) -> Watchdog {
        let interval = notify::watchdog().map(|half| {
            running.stuck();
            let mut interval = interval_at(Instant::now() + half, half);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        });
        Watchdog { interval, told: Vec::new() }
    }

    /// Waits until the next check; for ever without a watchdog.
    pub(super) async fn is_due(&mut self) {
        match &mut self.interval {
            Some(interval) => {
                interval.tick().await;
            }
            None => pending().await,
        }
    }

    /// Says that all is well, or says nothing: then the service manager ends the gateway and starts it again.
    pub(super) fn look(&mut self, running: &Running) {
        let stuck = running.stuck();
        if stuck.is_empty() {
            notify::alive();
        }
        for thread in stuck.iter().filter(|thread| !self.told.contains(thread)) {
            tracing::error!("{thread} does not go on: the watchdog is not answered");
        }
        self.told = stuck;
    }
}
