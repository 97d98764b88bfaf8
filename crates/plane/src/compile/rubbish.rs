//! Large things that a later version replaced.

use std::any::Any;

/// Replaced parts: large, so they are freed when no other thread waits for it.
#[derive(Default)]
pub struct Rubbish(Vec<Box<dyn Any + Send + Sync>>);

impl Rubbish {
    /// Adds everything of another.
    pub(super) fn append(&mut self, other: &mut Rubbish) {
        self.0.append(&mut other.0);
    }

    pub(super) fn push(&mut self, thing: impl Any + Send + Sync) {
        self.0.push(Box::new(thing));
    }
}
