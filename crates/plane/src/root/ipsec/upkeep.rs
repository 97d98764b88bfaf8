//! Settings of a pair of SAs that no packet looks at: those of its upkeep by the control side.

use crate::model::Lifetimes;

/// The upkeep of a pair of SAs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Upkeep {
    /// The limits of the use of each SA of the pair.
    pub lifetimes: Lifetimes,
    /// Packets in a second that dummy packets make up to; 0: none is sent.
    pub dummies: u32,
}
