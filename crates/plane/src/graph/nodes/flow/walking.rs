//! Packets that walk, and others of their flows that walk beside them.

use weir_packet::vector::{Indices, VECTOR, Vector};

use super::super::Context;
use super::beside::leaves_as;
use super::translations::Translations;
use super::tuple::{any_tuple, tuple};
use crate::graph::session::{Membership, Tuple};
use crate::root::family::Family;

/// The flows of a vector's packets that walk, as bits. A set bit may be another flow's, which walks for it.
#[derive(Default)]
struct Walking([u64; 16]);

impl Walking {
    /// Of both directions of a flow.
    fn bit<K: Family>(tuple: &Tuple<K>) -> usize {
        let addresses = Into::<u128>::into(tuple.source).wrapping_add(tuple.destination.into());
        let [first, second] = tuple.words.map(u64::from);
        let mixed = (addresses as u64 ^ (addresses >> 64) as u64).wrapping_add((first + second) << 20);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize
    }

    fn add<K: Family>(&mut self, tuple: &Tuple<K>) {
        let bit = Self::bit(tuple);
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    fn has<K: Family>(&self, tuple: &Tuple<K>) -> bool {
        let bit = Self::bit(tuple);
        self.0[bit / 64] >> (bit % 64) & 1 != 0
    }
}

/// The translations of packets that walk, as bits. A set bit may be another translation's, whose packets walk for it.
#[derive(Default)]
struct WalkingTranslations([u64; 4]);

impl WalkingTranslations {
    fn add(&mut self, Membership { number, .. }: Membership) {
        self.0[number as usize / 64 % 4] |= 1 << (number % 64);
    }

    fn has(&self, Membership { number, .. }: Membership) -> bool {
        self.0[number as usize / 64 % 4] >> (number % 64) & 1 != 0
    }
}

/// Has packets walk whose flow has another packet that walks: that one may open a session to which they belong. `all`: the flows
/// of packets that walk are not known. Both directions of a translation are one flow,
/// and so are the tuples that packets come in with and leave with. Gives the packets that take their decisions, and all that walk.
#[cold]
#[inline(never)]
pub(super) fn part<K: Family>(
    context: &Context<'_>,
    vector: &Vector,
    frame: &Indices,
    (hits, translations): (&Indices, &Translations),
    all: bool,
) -> (Indices, Indices) {
    let mut is_hit = [false; VECTOR];
    hits.places().iter().for_each(|&place| is_hit[usize::from(place)] = true);
    let (mut walking, mut translated) = (Walking::default(), WalkingTranslations::default());
    for &place in frame.places().iter().filter(|&&place| !is_hit[usize::from(place)]) {
        if let Some(tuple) = any_tuple::<K>(&vector[place]) {
            walking.add(&tuple);
        }
        let Some(member) = translations.of(place) else { continue };
        translated.add(member);
        leaves_as::<K>(context, member).into_iter().for_each(|tuple| walking.add(&tuple));
    }
    let (mut left, mut walk) = (Indices::new(), Indices::new());
    for &place in frame.places() {
        let with_translation =
            || translations.of(place).is_some_and(|member| translations.is_partial || translated.has(member));
        // The sessions of the zone that it leaves by have the tuple that it leaves with.
        let as_it_leaves = || {
            let tuple = translations.of(place).and_then(|member| leaves_as::<K>(context, member));
            tuple.is_some_and(|tuple| walking.has(&tuple))
        };
        let beside = || {
            all || with_translation()
                || as_it_leaves()
                || tuple::<K>(&vector[place], 0).is_some_and(|tuple| walking.has(&tuple))
        };
        if is_hit[usize::from(place)] && !beside() { left.push(place) } else { walk.push(place) }
    }
    (left, walk)
}
