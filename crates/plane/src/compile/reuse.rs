//! Objects that are compiled one by one: an object that is the same in the next model is used again.

use super::rubbish::Rubbish;
use super::table_full::TableFull;

/// Where an object of the next model comes from.
pub(super) enum Source<C> {
    /// It is the one in force at this place.
    Kept(usize),
    /// It was compiled.
    New(Box<C>),
}

/// Finds an object among those in force, or compiles it.
///
/// # Errors
/// When there is no room.
pub(super) fn find<C>(
    compiled: &[Option<C>],
    is_same: impl Fn(&C) -> bool,
    compile: impl FnOnce() -> Result<C, TableFull>,
) -> Result<Source<C>, TableFull> {
    match compiled.iter().position(|own| own.as_ref().is_some_and(&is_same)) {
        Some(at) => Ok(Source::Kept(at)),
        None => compile().map(|new| Source::New(Box::new(new))),
    }
}

/// Puts the objects of the next model in place of those in force.
pub(super) fn replace<C: Send + Sync + 'static>(
    compiled: &mut Vec<Option<C>>,
    sources: Vec<Source<C>>,
    rubbish: &mut Rubbish,
) {
    let mut before = std::mem::take(compiled);
    let own = |source| match source {
        Source::Kept(at) => before.get_mut(at).and_then(Option::take),
        Source::New(new) => Some(*new),
    };
    *compiled = sources.into_iter().map(own).collect();
    rubbish.push(before);
}
