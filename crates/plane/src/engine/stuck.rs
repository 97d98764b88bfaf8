//! Threads that the gateway cannot do without, and how often workers have gone round.

use std::fmt;
use std::sync::Mutex;

/// How often each worker had gone round when it was last looked at.
#[derive(Default)]
pub(super) struct Rounds(pub(super) Mutex<Vec<u64>>);

/// A thread without which the gateway does not do its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stuck {
    /// The worker of this number.
    Worker(usize),
    /// The one that keeps neighbours and links.
    Keeper,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stuck::Worker(number) => write!(f, "worker {number}"),
            Stuck::Keeper => f.write_str("the keeper of neighbours"),
        }
    }
}
