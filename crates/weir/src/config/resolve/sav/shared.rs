//! Lines of files that several policies read: one can be left out only if it can in each of them.

use std::collections::{HashMap, HashSet};

use super::super::super::declare::sav::{Mechanism, Policy};
use super::super::super::source::{SourceId, Sources, Span};

/// A line: the first text that has it, of all that are alike, and where it starts.
type Line = (SourceId, u32);

/// The lines that several policies read, and the advice about them.
#[derive(Default)]
pub(in super::super) struct Shared {
    /// By text: the first one that is alike. Only of texts that several policies read.
    first: HashMap<SourceId, SourceId>,
    /// By first text: the policies that read it.
    readers: HashMap<SourceId, usize>,
    /// By line: the policies that do not need it.
    removable: HashMap<Line, usize>,
    /// Advice that was reported, by its place among the diagnostics.
    reported: Vec<(usize, Line)>,
}

impl Shared {
    /// Finds the files that several of the policies read.
    pub(super) fn of(policies: &[Policy], sources: &Sources) -> Shared {
        let files = |policy: &Policy| match &policy.mechanism {
            Some(Mechanism::Acl(rules) | Mechanism::Table { rules, .. }) => {
                rules.files.iter().filter_map(|file| file.source).collect()
            }
            _ => Vec::new(),
        };
        let files: Vec<Vec<SourceId>> = policies.iter().map(files).collect();
        if files.iter().filter(|files| !files.is_empty()).count() < 2 {
            return Shared::default();
        }
        let alike = sources.alike();
        let mut shared = Shared::default();
        for files in &files {
            let first = |source: &SourceId| (*source, alike[source.0 as usize]);
            shared.first.extend(files.iter().map(first));
            let read: HashSet<SourceId> = files.iter().map(|source| first(source).1).collect();
            read.into_iter().for_each(|source| *shared.readers.entry(source).or_default() += 1);
        }
        let Shared { first, readers, .. } = &mut shared;
        first.retain(|_, first| readers[first] > 1);
        shared
    }

    fn line(&self, span: Span) -> Option<Line> {
        Some((*self.first.get(&span.source)?, span.start))
    }

    /// Notes lines that a policy does not need.
    pub(super) fn note(&mut self, places: impl Iterator<Item = Span>) {
        let lines: HashSet<Line> = places.filter_map(|place| self.line(place)).collect();
        lines.into_iter().for_each(|line| *self.removable.entry(line).or_default() += 1);
    }

    /// Notes that the diagnostic at this place advises to leave out a line.
    pub(super) fn reported(&mut self, at: usize, place: Span) {
        self.reported.extend(self.line(place).map(|line| (at, line)));
    }

    /// Returns the places of diagnostics that advise to leave out a line which another policy needs, the last first.
    pub(super) fn wrong(&self) -> impl Iterator<Item = usize> {
        let needed = |line: &Line| self.removable.get(line) < self.readers.get(&line.0);
        self.reported.iter().rev().filter(move |(_, line)| needed(line)).map(|(at, _)| *at)
    }
}
