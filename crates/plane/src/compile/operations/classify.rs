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

    /// Returns the octets of memory of a classifier table, by its name.
    pub fn classify_octets(&self, name: &str) -> Option<usize> {
        self.classify.octets(name)
    }

    /// Returns the decision of a table of a model by what nodes recorded: the table's number, and that of the session under another
    /// model, `decided`.
    pub fn classify_decision(
        &self,
        model: &Gateway,
        (interface, output): (u32, bool),
        (table, session, decided): (u32, Option<u32>, u64),
        permit: bool,
    ) -> Option<ClassifyDecision> {
        let name = self.classify.name(table)?;
        let session = match session {
            Some(number) => Some(self.classify.place(table, number, decided)?),
            None => None,
        };
        let (table, _) = (0..).zip(&model.classify).find(|(_, own)| own.name == name)?;
        Some(ClassifyDecision { interface, output, table: ClassifyIndex(table), session, permit })
    }

    /// Clears the counters of all classifier tables.
    pub fn clear_classify(&mut self) {
        self.classify.clear();
    }
}
