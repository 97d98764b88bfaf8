//! The adjacency that packets with decisions leave by.

use weir_packet::packet::Packet;

use super::super::plain;
use crate::graph::flow::Decision;
use crate::root::family::Family;
use crate::root::{Adjacency, NONE, View};

/// The adjacency of the packet before, by its number: most packets leave by the same.
pub(super) struct Egress<'r> {
    adjacencies: View<'r>,
    number: u32,
    adjacency: Option<&'r Adjacency>,
    /// The same, if packets leave over plain Ethernet.
    usual: Option<&'r Adjacency>,
}

impl<'r> Egress<'r> {
    pub(super) fn new(adjacencies: View<'r>) -> Egress<'r> {
        Egress { adjacencies, number: NONE, adjacency: None, usual: None }
    }

    /// The adjacency of this number.
    #[inline(always)]
    pub(super) fn get(&mut self, number: u32) -> Option<&'r Adjacency> {
        self.enter(number);
        self.adjacency
    }

    #[inline(always)]
    fn enter(&mut self, number: u32) {
        if number != self.number {
            (self.number, self.adjacency) = (number, self.adjacencies.get(number));
            self.usual = self.adjacency.filter(|own| plain::is_over_ethernet(own));
        }
    }

    /// Rewrites a packet as its decision says, if it is usual.
    #[inline(always)]
    pub(super) fn rewrite<K: Family>(&mut self, packet: &mut Packet, decision: &Decision) -> bool {
        self.enter(decision.adjacency);
        self.usual.is_some_and(|own| plain::rewrite_over_ethernet::<K>(packet, own))
    }
}
