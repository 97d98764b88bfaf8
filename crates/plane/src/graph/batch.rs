//! The memory in which nodes gather the fields of packets. A worker keeps it, so that a visit writes only what its packets need.

use weir_packet::vector::{Indices, VECTOR};
use weir_table::classify::{Fields, NO_RULE};

use crate::root::family::{Both, BothMut, Family};

/// Packets that are looked up together, as rules see them. Behind the last of the places, arrays hold what earlier visits left.
pub(crate) struct Batch<K> {
    pub(crate) places: Indices,
    pub(crate) fields: [Fields<K>; VECTOR],
    /// Octets of their IP packets.
    pub(crate) octets: [u32; VECTOR],
}

/// A batch, the answers of a table for its packets, and the sources of packets where only these are looked up.
pub(crate) struct Kept<K: Family> {
    pub(crate) batch: Batch<K>,
    pub(crate) found: [u32; VECTOR],
    pub(crate) sources: [K::Octets; VECTOR],
}

impl<K: Family> Kept<K> {
    fn new() -> Self {
        let batch = Batch { places: Indices::new(), fields: [Fields::default(); VECTOR], octets: [0; VECTOR] };
        Kept { batch, found: [NO_RULE; VECTOR], sources: [K::ZERO_OCTETS; VECTOR] }
    }
}

/// The batches of a worker, one for each family: one node runs at a time.
pub(crate) struct Batches {
    v4: Box<Kept<u32>>,
    v6: Box<Kept<u128>>,
}

impl Batches {
    pub(crate) fn new() -> Self {
        Batches { v4: Box::new(Kept::new()), v6: Box::new(Kept::new()) }
    }
}

impl Both for Batches {
    type Part<K: Family> = Kept<K>;

    fn v4(&self) -> &Kept<u32> {
        &self.v4
    }

    fn v6(&self) -> &Kept<u128> {
        &self.v6
    }
}

impl BothMut for Batches {
    #[inline(always)]
    fn v4_mut(&mut self) -> &mut Kept<u32> {
        &mut self.v4
    }

    #[inline(always)]
    fn v6_mut(&mut self) -> &mut Kept<u128> {
        &mut self.v6
    }
}
