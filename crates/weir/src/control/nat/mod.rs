//! Lists of NAT rules that change by the control socket.

mod edited;
mod lists;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use lists::{Lists, Put, summary};

/// The source of a change, and its time in seconds of the Unix epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    pub(crate) source: String,
    pub(crate) time: u64,
}
