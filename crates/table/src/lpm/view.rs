//! The parts of a table that lookup bodies read.

use std::marker::PhantomData;
use std::sync::atomic::AtomicU32;

/// The parts of a table for the lookup bodies.
pub(crate) struct View<'t, K> {
    pub(crate) base: *const u8,
    /// Lookups prefetch cache lines.
    pub(crate) far: bool,
    pub(crate) directory: &'t [AtomicU32],
    pub(crate) default: u32,
    pub(crate) family: PhantomData<K>,
}
