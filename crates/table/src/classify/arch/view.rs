//! The parts of a table that lookups read.

/// A table, taken apart for a lookup.
pub(crate) struct View {
    pub(crate) base: *const u8,
    pub(crate) root: u32,
    /// Whether most of what is read will be far away.
    pub(crate) far: bool,
}
