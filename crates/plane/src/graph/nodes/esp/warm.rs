//! Prefetching of SAs. Without it, packets of a batch that belong to many SAs would wait for the lines of each SA in turn.
//!
//! Each line has the address of the next, so prefetching goes in steps. While a batch is worked on, the lines of the next one are
//! on their way. Packets of one SA need none of this.

use std::sync::Arc;

use weir_base::prefetch;
use weir_packet::vector::Vector;

use super::super::Context;
use crate::root::ipsec::{Inbound, Outbound, Sa};

/// The SAs of a frame's packets, by number.
pub(super) struct Sas<'a> {
    numbers: &'a [u32],
    are_many: bool,
}

impl<'a> Sas<'a> {
    /// Prefetches the places of SAs.
    #[inline]
    pub(super) fn new(context: &Context<'_>, numbers: &'a [u32]) -> Sas<'a> {
        let are_many = numbers.iter().any(|number| *number != numbers[0]);
        if are_many {
            numbers.iter().for_each(|&number| context.root.ipsec.prefetch(number));
        }
        Sas { numbers, are_many }
    }

    /// The SAs of packets of a frame.
    #[inline(always)]
    fn some<'c>(&self, context: &Context<'c>, from: usize, count: usize) -> impl Iterator<Item = (usize, &'c Sa)> {
        let end = (from + count).min(self.numbers.len());
        let some = if self.are_many { &self.numbers[from.min(end)..end] } else { &[] };
        let root = context.root;
        let sa = move |(index, &number): (usize, &u32)| Some((from + index, root.ipsec.sa(number)?));
        some.iter().enumerate().filter_map(sa)
    }

    /// Prefetches the SAs of so many packets from one on.
    #[inline]
    pub(super) fn outbound(&self, context: &Context<'_>, from: usize, count: usize) {
        self.some(context, from, count).for_each(|(_, sa)| sa.prefetch_outbound());
    }

    /// The same for packets of ESP that came in.
    #[inline]
    pub(super) fn inbound(&self, context: &Context<'_>, from: usize, count: usize) {
        self.some(context, from, count).for_each(|(_, sa)| sa.prefetch_inbound());
    }

    /// Prefetches what outbound SAs point to.
    #[inline]
    pub(super) fn outbound_parts(&self, context: &Context<'_>, vector: &Vector, places: &[u8], from: usize) {
        for (index, sa) in self.some(context, from, places.len().saturating_sub(from).min(super::jobs::BATCH)) {
            prefetch::read(&raw const sa.counters[context.worker]);
            if let Some(Outbound { key, sequence, .. }) = &sa.outbound {
                prefetch::read(Arc::as_ptr(sequence));
                key.prefetch(vector[places[index]].len());
            }
        }
    }

    /// Prefetches what inbound SAs point to.
    #[inline]
    pub(super) fn inbound_parts(&self, context: &Context<'_>, vector: &Vector, places: &[u8], from: usize) {
        for (index, sa) in self.some(context, from, places.len().saturating_sub(from).min(super::jobs::BATCH)) {
            prefetch::read(&raw const sa.counters[context.worker]);
            if let Some(Inbound { key, window, .. }) = &sa.inbound {
                prefetch::read(Arc::as_ptr(window));
                key.prefetch(vector[places[index]].len());
            }
        }
    }

    /// Prefetches the bits of windows, by the lower halves of packets' numbers.
    #[inline]
    pub(super) fn windows(&self, context: &Context<'_>, from: usize, count: usize, low: impl Fn(usize) -> Option<u32>) {
        for (index, sa) in self.some(context, from, count) {
            if let (Some(Inbound { window, .. }), Some(low)) = (&sa.inbound, low(index)) {
                window.prefetch(low);
            }
        }
    }
}
