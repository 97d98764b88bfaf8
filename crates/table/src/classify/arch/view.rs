//! The parts of a table that lookups read.

/// The parts of a table for a lookup.
pub(crate) struct View {
    pub(crate) base: *const u8,
    pub(crate) root: u32,
    /// Lookups prefetch cache lines.
    pub(crate) far: bool,
}
