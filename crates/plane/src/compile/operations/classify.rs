//! Classifier tables: what they count.

use crate::compile::ClassifyDecision;
use crate::compile::Compiler;
use crate::model::{ClassifyIndex, Gateway};
use crate::stats::ClassifyCounted;

impl Compiler {
    /// Returns what a classifier table counted, by its name.
    pub fn classify_counts(&self, name: &str) -> Option<ClassifyCounted> {
        self.classify.counted(name)
    }

    /// Returns the octets of memory of a classifier table.
    pub fn classify_octets(&self, name: &str) -> usize {
        self.classify.octets(name)
    }

    /// Returns the decision of a table of a model by what nodes recorded: the table's place, and the number of the session.
    pub fn classify_decision(
        &self,
        model: &Gateway,
        (interface, output): (u32, bool),
        table: u16,
        session: Option<u32>,
        permit: bool,
    ) -> Option<ClassifyDecision> {
        let name = &model.classify.get(usize::from(table))?.name;
        let session = match session {
            Some(number) => Some(self.classify.place(name, number)?),
            None => None,
        };
        Some(ClassifyDecision { interface, output, table: ClassifyIndex(table), session, permit })
    }

    /// Clears the counters of all classifier tables.
    pub fn clear_classify(&mut self) {
        self.classify.clear();
    }
}
