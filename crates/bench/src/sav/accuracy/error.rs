//! How much is sent, and why nothing was measured.

use weir_plane::harness::HarnessError;

use super::routing::Unsettled;

/// The seed of equal runs.
pub(super) const SEED: u64 = 1;

/// How much is sent.
#[derive(Debug, Clone, Copy)]
pub struct Effort {
    /// Prefixes of each group, in the cases.
    pub prefixes: u16,
    /// Packets for each case, mechanism and ratio.
    pub packets: usize,
    /// Prefixes of each group where some move.
    pub moving: u16,
    /// How often each share of them moves.
    pub turns: usize,
}

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AccuracyError {
    /// A gateway could not be set up.
    #[error(transparent)]
    Harness(#[from] HarnessError),
    /// Entries could not be changed.
    #[error(transparent)]
    Edit(#[from] weir_plane::compile::SavError),
    /// Routing does not settle.
    #[error(transparent)]
    Unsettled(#[from] Unsettled),
    /// A gateway has no buffer left.
    #[error("gateway {0} has no buffer left")]
    NoBuffer(&'static str),
    /// A gateway does not know where its packets are.
    #[error("the packets of gateway {0} do not add up")]
    Imbalance(&'static str),
}
