//! The lookup of a part of a batch.

use weir_packet::vector::VECTOR;
use weir_table::classify::{Fields, NO_RULE};

use super::super::Context;
use crate::graph::batch::Batch;
use crate::root::acl::Chain;
use crate::root::family::Family;

/// Looks up some packets of a batch, by their places in it; gives the bits that are set in some result.
pub(super) fn look_up_some<K: Family>(
    context: &Context<'_>,
    batch: &Batch<K>,
    chain: &Chain<K>,
    some: &[u8],
    found: &mut [u32; VECTOR],
) -> u32 {
    let (chains, count) = (K::of(&context.root.acl), some.len());
    let (mut fields, mut more, mut words) = ([Fields::default(); VECTOR], [NO_RULE; VECTOR], 0);
    for (&index, fields) in some.iter().zip(&mut fields) {
        *fields = batch.fields[usize::from(index)];
    }
    chain.lookup_each(chains, context.guard, &fields[..count], &mut more[..count]);
    for (&index, &word) in some.iter().zip(&more) {
        found[usize::from(index)] = word;
        words |= word;
    }
    words
}
