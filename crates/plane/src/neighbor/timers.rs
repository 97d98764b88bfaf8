//! The timers of the neighbour table, in order of time.

use std::collections::BTreeSet;
use std::net::IpAddr;

use weir_base::clock::Time;

/// Whose time it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Timer {
    /// A neighbour's, by its place in the table.
    Neighbor(u32),
    /// That of one of our addresses on an interface.
    Own(u32, IpAddr),
    /// That of the router advertisements of an interface.
    Router(u32),
}

/// Times in order. An object has at most one timer, and remembers its time to cancel it.
#[derive(Debug, Default)]
pub(super) struct Timers(BTreeSet<(Time, Timer)>);

impl Timers {
    /// Sets, moves or takes back a timer whose time is held in `slot`.
    pub(super) fn set(&mut self, timer: Timer, slot: &mut Option<Time>, to: Option<Time>) {
        if let Some(old) = slot.take() {
            self.0.remove(&(old, timer));
        }
        if let Some(time) = to {
            self.0.insert((time, timer));
            *slot = Some(time);
        }
    }

    /// Takes the first one that is due out.
    pub(super) fn pop(&mut self, now: Time) -> Option<Timer> {
        let &(time, timer) = self.0.first()?;
        (time <= now).then(|| {
            self.0.pop_first();
            timer
        })
    }

    /// The first time.
    pub(super) fn next(&self) -> Option<Time> {
        self.0.first().map(|(time, _)| *time)
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
