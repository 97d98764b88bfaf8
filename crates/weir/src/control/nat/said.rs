//! The source of a change.

/// The source of a change, and its time in seconds of the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) source: String,
    pub(crate) time: u64,
}
