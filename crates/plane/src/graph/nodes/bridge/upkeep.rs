//! Removes stations that are too old from MAC tables. A lookup never finds them; removing them makes room for others.

use weir_base::clock::Time;

use crate::root::Root;
use crate::root::bridge::second;

/// Nanoseconds between two visits.
const PAUSE: u64 = 100_000_000;

/// A worker's visits of MAC tables. Each worker visits all tables, so that one that fails leaves nothing undone.
#[derive(Default)]
pub(crate) struct Upkeep {
    due: Option<Time>,
    /// Visits so far.
    turn: usize,
}

impl Upkeep {
    /// The time of the next visit; `None`: no bridge forgets stations.
    pub(crate) fn deadline(&self) -> Option<Time> {
        self.due
    }

    /// Visits a part of each table if it is time to: all of it within the ageing time.
    pub(crate) fn visit(&mut self, root: &Root, now: Time) {
        let mut tables = root.bridges.list.iter().map(|bridge| &bridge.macs).filter(|own| own.ageing() > 0).peekable();
        if tables.peek().is_none() {
            self.due = None;
            return;
        }
        match self.due {
            Some(due) if due > now => return,
            _ => self.due = Some(Time(now.0.saturating_add(PAUSE))),
        }
        self.turn = self.turn.wrapping_add(1);
        for table in tables {
            let visits = (1_000_000_000 / PAUSE) as usize * table.ageing() as usize;
            let part = table.buckets().div_ceil(visits);
            let parts = table.buckets().div_ceil(part);
            table.sweep(self.turn % parts * part, part, second(now));
        }
    }
}
