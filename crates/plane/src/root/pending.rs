//! Neighbours that were learned after the root was compiled, and that no route leads to yet.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

/// A neighbour: the number of its interface, and its address.
pub(crate) type Station = (u32, IpAddr);

/// The adjacencies of neighbours that forwarding tables do not have yet.
#[derive(Clone, Default)]
pub struct Pending(Option<Arc<HashMap<Station, u32>>>);

impl Pending {
    /// The numbers of the adjacencies of neighbours.
    pub(crate) fn new(numbers: HashMap<Station, u32>) -> Pending {
        Pending(Some(Arc::new(numbers)))
    }

    /// The number of a neighbour's adjacency, which may still say that nothing is known of it.
    #[inline]
    pub(super) fn get(&self, interface: u32, address: IpAddr) -> Option<u32> {
        self.0.as_ref()?.get(&(interface, address)).copied()
    }
}
