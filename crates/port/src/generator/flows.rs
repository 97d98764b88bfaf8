//! Addresses and ports of the flows of a template.
//!
//! The four ranges span a space of tuples. A permutation of that space, selected by the seed, maps flow 0, 1, 2, … to
//! tuples. No two flows are equal, and no memory is needed for them.

use super::error::StreamError;
use super::mix::mix;

/// Largest number of distinct values of an address range. A longer range is divided into that many blocks, and each
/// block gives one address, so the product of all four ranges fits 128 bits.
const MOST: u128 = 1 << 48;

/// Addresses (as numbers) and ports of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Tuple {
    pub(super) source: u128,
    pub(super) destination: u128,
    pub(super) source_port: u16,
    pub(super) destination_port: u16,
}

/// All tuples of a template's ranges, in a random order.
#[derive(Debug, Clone)]
pub(super) struct Flows {
    source: Range,
    destination: Range,
    source_port: Range,
    destination_port: Range,
    order: Permutation,
}

impl Flows {
    /// Returns the flows of these inclusive ranges.
    pub(super) fn new(
        source: (u128, u128),
        destination: (u128, u128),
        source_port: (u16, u16),
        destination_port: (u16, u16),
        seed: u64,
    ) -> Result<Flows, StreamError> {
        let wide = |(low, high): (u16, u16)| (u128::from(low), u128::from(high));
        let source = Range::new("source", source, seed)?;
        let destination = Range::new("destination", destination, seed)?;
        let source_port = Range::new("source-port", wide(source_port), seed)?;
        let destination_port = Range::new("destination-port", wide(destination_port), seed)?;
        let space = [&destination, &source_port, &destination_port]
            .iter()
            .fold(source.values, |space, range| space.saturating_mul(range.values));
        Ok(Flows { source, destination, source_port, destination_port, order: Permutation::new(space, seed) })
    }

    pub(super) fn count(&self) -> u128 {
        self.order.len
    }

    /// Returns the tuple of flow `index`, which must be below [`Flows::count`].
    pub(super) fn tuple(&self, index: u64) -> Tuple {
        let mut rest = self.order.at(u128::from(index));
        let mut value = |range: &Range| {
            let digit;
            (rest, digit) = divide(rest, range.values);
            range.value(digit)
        };
        Tuple {
            source: value(&self.source),
            destination: value(&self.destination),
            source_port: value(&self.source_port) as u16,
            destination_port: value(&self.destination_port) as u16,
        }
    }
}

/// Returns quotient and remainder; avoids the long division for small operands.
fn divide(number: u128, by: u128) -> (u128, u128) {
    match (u64::try_from(number), u64::try_from(by)) {
        (Ok(number), Ok(by)) => (u128::from(number / by), u128::from(number % by)),
        _ => (number / by, number % by),
    }
}

/// An inclusive range with `values` values, one out of each block of `block` numbers.
#[derive(Debug, Clone)]
struct Range {
    low: u128,
    values: u128,
    block: u128,
    seed: u64,
}

impl Range {
    fn new(name: &'static str, (low, high): (u128, u128), seed: u64) -> Result<Range, StreamError> {
        let last = high.checked_sub(low).ok_or(StreamError::Reversed { range: name })?;
        // Saturates only for the whole IPv6 address space, whose last address is never drawn.
        let size = last.saturating_add(1);
        let values = size.min(MOST);
        Ok(Range { low, values, block: size / values, seed })
    }

    fn value(&self, digit: u128) -> u128 {
        let inside = match self.block {
            1 => 0,
            block => {
                let high = mix(self.seed ^ digit as u64);
                (u128::from(high) << 64 | u128::from(mix(high))) % block
            }
        };
        self.low + digit * self.block + inside
    }
}

/// A permutation of 0 .. `len`: a Feistel network over the next even power of two, repeated until the result is in the
/// range (at most four times on average).
#[derive(Debug, Clone)]
struct Permutation {
    len: u128,
    half: u32,
    seed: u64,
}

const ROUNDS: u64 = 6;

impl Permutation {
    fn new(len: u128, seed: u64) -> Permutation {
        let bits = (128 - (len - 1).leading_zeros()).max(2);
        Permutation { len, half: bits.div_ceil(2), seed: mix(seed) }
    }

    fn at(&self, index: u128) -> u128 {
        let mask = u64::MAX >> (64 - self.half);
        let mut number = index;
        loop {
            let (mut left, mut right) = ((number >> self.half) as u64, number as u64 & mask);
            for round in 0..ROUNDS {
                let key = self.seed.wrapping_add(round << 56);
                (left, right) = (right, left ^ mix(right.wrapping_add(key)) & mask);
            }
            number = u128::from(left) << self.half | u128::from(right);
            if number < self.len {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn small_spaces_are_used_up_before_anything_repeats(
            sizes in (1u128..20, 1u128..20, 1u16..6, 1u16..6), low in 0u128..1 << 30, seed: u64,
        ) {
            let (source, destination) = ((low, low + sizes.0 - 1), (low * 3, low * 3 + sizes.1 - 1));
            let flows = Flows::new(source, destination, (9, 8 + sizes.2), (7, 6 + sizes.3), seed).unwrap();
            prop_assert_eq!(flows.count(), sizes.0 * sizes.1 * u128::from(sizes.2) * u128::from(sizes.3));
            let tuples: HashSet<_> = (0..flows.count() as u64).map(|index| flows.tuple(index)).collect();
            prop_assert_eq!(tuples.len() as u128, flows.count());
            for tuple in tuples {
                prop_assert!((source.0..=source.1).contains(&tuple.source));
                prop_assert!((destination.0..=destination.1).contains(&tuple.destination));
                prop_assert!((9..9 + sizes.2).contains(&tuple.source_port));
                prop_assert!((7..7 + sizes.3).contains(&tuple.destination_port));
            }
        }

        #[test]
        fn wide_ranges_stay_in_bounds(a: u128, b: u128, c: u128, d: u128, seed: u64, index: u64) {
            let (source, destination) = ((a.min(b), a.max(b)), (c.min(d), c.max(d)));
            let flows = Flows::new(source, destination, (0, u16::MAX), (0, u16::MAX), seed).unwrap();
            let tuple = flows.tuple((u128::from(index) % flows.count()) as u64);
            prop_assert!((source.0..=source.1).contains(&tuple.source));
            prop_assert!((destination.0..=destination.1).contains(&tuple.destination));
        }
    }

    #[test]
    fn the_widest_space_gives_distinct_flows_that_vary_in_every_field() {
        let all = (0, u128::MAX);
        let flows = Flows::new(all, all, (0, u16::MAX), (0, u16::MAX), 1).unwrap();
        let tuples: Vec<_> = (0..10_000).map(|index| flows.tuple(index)).collect();
        assert_eq!(tuples.iter().collect::<HashSet<_>>().len(), 10_000);
        assert_eq!(tuples.iter().map(|tuple| tuple.source).collect::<HashSet<_>>().len(), 10_000);
        assert_eq!(tuples.iter().map(|tuple| tuple.destination).collect::<HashSet<_>>().len(), 10_000);
        assert!(tuples.iter().map(|tuple| tuple.source_port).collect::<HashSet<_>>().len() > 9_000);
        assert!(
            tuples.iter().any(|tuple| tuple.source >> 127 == 0) && tuples.iter().any(|tuple| tuple.source >> 127 == 1)
        );
    }

    #[test]
    fn the_seed_decides_the_order() {
        let range = (10u128, 10_009);
        let order = |seed| {
            let flows = Flows::new(range, (1, 1), (5, 5), (6, 6), seed).unwrap();
            (0..10_000).map(|index| flows.tuple(index).source).collect::<Vec<_>>()
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        assert_eq!(order(1).iter().collect::<HashSet<_>>().len(), 10_000);
    }

    #[test]
    fn a_reversed_range_is_refused() {
        assert!(Flows::new((2, 1), (1, 1), (5, 5), (6, 6), 0).is_err());
    }
}
