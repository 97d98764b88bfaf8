//! The service manager's watchdog: it hears of us only while every worker goes round.

use std::future::pending;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use crate::control::running::Running;
use crate::notify;

/// Looks after the workers if the service manager wants to know of them.
pub(super) struct Watchdog {
    interval: Option<Interval>,
    /// Workers that were told of in the log.
    told: Vec<usize>,
}

impl Watchdog {
    pub(super) fn new(running: &Running) -> Watchdog {
        let interval = notify::watchdog().map(|half| {
            running.stuck_workers();
            let mut interval = interval_at(Instant::now() + half, half);
            interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
            interval
        });
        Watchdog { interval, told: Vec::new() }
    }

    /// Waits until it is time to look; for ever if nobody wants to know.
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
        let stuck = running.stuck_workers();
        if stuck.is_empty() {
            notify::alive();
        }
        for worker in stuck.iter().filter(|worker| !self.told.contains(worker)) {
            tracing::error!("worker {worker} does not go on: the watchdog is not answered");
        }
        self.told = stuck;
    }
}
