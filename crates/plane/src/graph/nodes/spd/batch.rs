//! Packets that match one SPD.

use weir_packet::vector::{Indices, VECTOR};
use weir_table::classify::Fields;

/// Packets that match one SPD.
pub(super) struct Batch<K> {
    pub(super) places: Indices,
    pub(super) fields: [Fields<K>; VECTOR],
    /// From the IP header on.
    pub(super) octets: [u32; VECTOR],
}
