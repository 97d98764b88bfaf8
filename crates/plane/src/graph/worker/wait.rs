//! The events that an idle worker waits for.

use weir_base::clock::Time;
use weir_port::{Burst, Readiness};

use super::Worker;
use super::command::Wait;
use crate::graph::outlet::Outlet;

/// Nanoseconds until a port is kicked again that has no room for what was sent by it.
const RETRY: u64 = 1_000_000;

impl Worker {
    /// After a round that was idle: what to wait for. `None`: a queue has to be polled.
    pub(crate) fn wait(&self) -> Option<Wait<'_>> {
        let mut wait = Wait { descriptors: Vec::new(), until: self.deadline() };
        if self.transmitters.iter().flatten().any(Outlet::is_pending) {
            let retry = Time(self.shared.clock.now().0.saturating_add(RETRY));
            wait.until = Some(wait.until.map_or(retry, |until| until.min(retry)));
        }
        // Who is draining takes nothing from its queues, and they must not wake it.
        for queue in self.queues.iter().filter(|_| !self.draining) {
            match queue.state {
                Burst::More => return None,
                Burst::Idle => {}
                Burst::Ended => continue,
            }
            match queue.receiver.readiness() {
                Readiness::Now => return None,
                Readiness::At(time) => wait.until = Some(wait.until.map_or(time, |until| until.min(time))),
                Readiness::When(descriptor) => wait.descriptors.push(descriptor),
                Readiness::Never => {}
            }
        }
        Some(wait)
    }
}
