//! Forwarding tables, and what a lookup in one finds.

use std::sync::Arc;

use weir_table::lpm::Table;

use crate::root::adjacency::Adjacency;
use crate::root::ecmp;
use crate::root::family::{Both, Family};

/// A VRF's forwarding tables. Their values are [`Forwarding`] words.
#[derive(Clone)]
pub struct Tables {
    /// IPv4.
    pub v4: Arc<Table<u32>>,
    /// IPv6.
    pub v6: Arc<Table<u128>>,
}

impl Both for Tables {
    type Part<K: Family> = Arc<Table<K>>;

    #[inline(always)]
    fn v4(&self) -> &Arc<Table<u32>> {
        &self.v4
    }

    #[inline(always)]
    fn v6(&self) -> &Arc<Table<u128>> {
        &self.v6
    }
}

/// The target of a route as the forwarding tables hold it: an adjacency or a multipath set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forwarding(pub u32);

impl Forwarding {
    const MULTIPATH: u32 = 1 << 30;

    /// A single adjacency.
    pub const fn adjacency(number: u32) -> Self {
        Forwarding(number)
    }

    /// A multipath set.
    pub const fn multipath(set: u32) -> Self {
        Forwarding(set | Self::MULTIPATH)
    }

    /// The adjacency for a flow of this hash.
    #[inline(always)]
    pub fn resolve(self, hash: impl FnOnce() -> u32, buckets: &[u32]) -> u32 {
        if self.0 & Self::MULTIPATH == 0 {
            return self.0;
        }
        let set = (self.0 & !Self::MULTIPATH) as usize;
        let bucket = set * ecmp::BUCKETS + (hash() as usize & (ecmp::BUCKETS - 1));
        buckets.get(bucket).copied().unwrap_or(Adjacency::NO_ROUTE)
    }

    /// The number of the multipath set, if it is one.
    pub fn set(self) -> Option<u32> {
        (self.0 & Self::MULTIPATH != 0).then_some(self.0 & !Self::MULTIPATH)
    }
}
