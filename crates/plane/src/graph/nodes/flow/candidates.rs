//! Packets that are looked up together.

use weir_packet::vector::VECTOR;

use crate::root::family::Family;

/// Packets of a frame that are looked up together.
pub(super) struct Candidates<K: Family> {
    places: [u8; VECTOR],
    keys: [K::FlowKey; VECTOR],
    pub(super) count: usize,
}

impl<K: Family> Candidates<K> {
    #[inline(always)]
    pub(super) fn new() -> Self {
        Candidates { places: [0; VECTOR], keys: [K::FlowKey::default(); VECTOR], count: 0 }
    }

    #[inline(always)]
    pub(super) fn push(&mut self, place: u8, key: K::FlowKey) {
        (self.places[self.count], self.keys[self.count]) = (place, key);
        self.count += 1;
    }

    #[inline(always)]
    pub(super) fn keys(&self) -> &[K::FlowKey] {
        &self.keys[..self.count]
    }

    #[inline(always)]
    pub(super) fn places(&self) -> &[u8] {
        &self.places[..self.count]
    }
}
