//! Payload of generated packets: the octets 0, 1, … 255, 0, 1, …, so that a misplaced octet shows.

use std::sync::Arc;

use weir_packet::checksum::Sum;

use super::layout::{IMIX_LONGEST, SLOT_MAX};
use crate::spec::SizeSpec;

/// The payload of a template's longest frame.
#[derive(Debug, Clone)]
pub(super) struct Payload(Arc<[u8]>);

impl Payload {
    /// Returns the payload behind `headers` octets of headers.
    pub(super) fn new(size: SizeSpec, headers: usize) -> Payload {
        let longest = match size {
            SizeSpec::Fixed(size) | SizeSpec::Range(_, size) => size as usize,
            SizeSpec::Imix => IMIX_LONGEST,
        };
        // At least a slot of ready frames.
        let octets = longest.min(weir_packet::buffer::MAX_FRAME).saturating_sub(headers).max(SLOT_MAX);
        Payload((0..octets).map(|index| index as u8).collect())
    }

    /// Returns the octets from `from` up to `to`.
    #[inline]
    pub(super) fn range(&self, from: usize, to: usize) -> &[u8] {
        &self.0[from..to]
    }

    /// Returns the folded sums of the first 0, 1, 2, … octets.
    pub(super) fn sums(&self) -> Vec<u16> {
        let mut sum = Sum::new();
        let mut sums = vec![0];
        for pair in self.0.chunks(2) {
            sums.push(sum.bytes(&pair[..1]).folded());
            sum = sum.bytes(pair);
            if pair.len() == 2 {
                sums.push(sum.folded());
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_octets() {
        let payload = Payload::new(SizeSpec::Range(0, 2001), 42);
        let sums = payload.sums();
        assert_eq!(sums.len(), 1960);
        for (length, sum) in sums.iter().enumerate() {
            assert_eq!(*sum, Sum::new().bytes(payload.range(0, length)).folded());
        }
    }
}
