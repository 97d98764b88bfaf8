//! The last changes of a gateway, each with the state before it.

use std::collections::VecDeque;

use super::snapshot::Snapshot;
use crate::render::history::Row;

/// Changes that are kept, at most.
const MOST: usize = 50;

/// Octets of what is kept, at most. The last change is kept however large it is.
const OCTETS: usize = 256 << 20;

/// The last changes, the oldest first.
#[derive(Default)]
pub(super) struct History {
    records: VecDeque<Record>,
    /// The number of the last change.
    last: u64,
    /// The reason why older changes are not kept.
    cut: Option<String>,
}

/// A change.
pub(super) struct Record {
    pub(super) row: Row,
    /// The state before it.
    pub(super) before: Snapshot,
}

impl History {
    pub(super) fn push(&mut self, row: Row, before: Snapshot) {
        self.last += 1;
        self.records.push_back(Record { row: Row { number: self.last, ..row }, before });
        while self.records.len() > 1 && (self.records.len() > MOST || self.octets() > OCTETS) {
            self.records.pop_front();
            self.cut = Some("older changes are not kept".to_owned());
        }
    }

    fn octets(&self) -> usize {
        let next = self.records.iter().skip(1).map(|record| Some(&record.before)).chain([None]);
        self.records.iter().zip(next).map(|(record, next)| record.before.octets(next)).sum()
    }

    /// Forgets all changes, for a reason.
    pub(super) fn forget(&mut self, why: String) {
        self.records.clear();
        self.cut = Some(why);
    }

    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    /// The reason why older changes are not kept.
    pub(super) fn cut(&self) -> Option<&str> {
        self.cut.as_deref()
    }

    /// Returns the changes, the last one first.
    pub(super) fn rows(&self) -> Vec<Row> {
        self.records.iter().rev().map(|record| record.row.clone()).collect()
    }

    /// Returns the last changes, the last one first.
    pub(super) fn last(&self, count: usize) -> impl Iterator<Item = &Record> {
        self.records.iter().rev().take(count)
    }

    /// Drops the last changes, which were taken back.
    pub(super) fn drop_last(&mut self, count: usize) {
        self.records.truncate(self.records.len().saturating_sub(count));
    }
}
