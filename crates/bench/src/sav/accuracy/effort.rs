//! How much is sent.

/// Equal runs begin with this seed.
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

impl Effort {
    /// Takes the whole effort, or a small part of it.
    pub fn new(quick: bool) -> Effort {
        match quick {
            true => Effort { prefixes: 10, packets: 100, moving: 10, turns: 1 },
            false => Effort { prefixes: 100, packets: 1000, moving: 1000, turns: 3 },
        }
    }
}
