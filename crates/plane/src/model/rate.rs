//! Limits of how much passes in a second.

/// How many packets pass that are not valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RateLimit {
    /// The unit that is counted.
    pub unit: RateUnit,
    /// Units in a second, 1 or more.
    pub rate: u64,
    /// Units at once at most, 1 or more. Of bits: as many as the longest packet has that is to pass.
    pub burst: u64,
    /// The scope of one bucket.
    pub per: RatePer,
}

/// The unit of a rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RateUnit {
    /// Packets.
    Packets,
    /// Bits of frames without padding.
    Bits,
}

/// The scope of one bucket of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RatePer {
    /// Each interface, both families together.
    Interface,
    /// Each prefix that has rules: the most specific that covers the source, on whatever interface; sources that none covers
    /// have one limit together. Of an `acl` or a merged `table`.
    Rule,
}
