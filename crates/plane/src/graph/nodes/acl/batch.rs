//! Packets that are looked up together.

use weir_packet::vector::{Indices, VECTOR};
use weir_table::classify::Fields;

/// Packets that are looked up together, as rules see them.
pub(super) struct Batch<K> {
    pub(super) places: Indices,
    pub(super) fields: [Fields<K>; VECTOR],
    /// Octets of their IP packets.
    pub(super) octets: [u32; VECTOR],
}
