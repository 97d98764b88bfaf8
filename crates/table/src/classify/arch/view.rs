//! What lookups read of a table.

/// What a lookup reads.
pub(crate) struct View {
    pub(crate) base: *const u8,
    pub(crate) root: u32,
    /// Whether most of what is read will be far away.
    pub(crate) far: bool,
}
