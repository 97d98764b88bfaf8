//! Where packets go from the flow node.

use weir_packet::vector::{Indices, Vector};

use super::super::Context;
use super::super::stage::{self, Stage};
use super::tuple::is_behind_validation;
use crate::node::Node;
use crate::root::family::Family;

/// Sends on packets that walk, each to the first stage of its way in.
pub(super) fn walk_on(context: &mut Context<'_>, vector: &Vector, walk: &Indices, v4: bool) {
    if !walk.places().iter().any(|&place| is_behind_validation(&vector[place])) {
        return stage::onward(context, vector, walk, None, Stage::Sav, v4);
    }
    for run in walk
        .places()
        .chunk_by(|&one, &other| is_behind_validation(&vector[one]) == is_behind_validation(&vector[other]))
    {
        let mut some = Indices::new();
        run.iter().for_each(|&place| some.push(place));
        let stage = if is_behind_validation(&vector[run[0]]) { Stage::Acl } else { Stage::Sav };
        stage::onward(context, vector, &some, None, stage, v4);
    }
}

/// Sends on the packets that took decisions: rewritten ones, others, and those to be protected.
#[inline(always)]
pub(super) fn leave<K: Family>(context: &mut Context<'_>, out: &Indices, unusual: &Indices, encrypt: &Indices) {
    context.next.extend(Node::EspEncrypt, encrypt);
    context.next.extend(Node::Output, out);
    context.next.extend(if K::IS_V4 { Node::Ip4Rewrite } else { Node::Ip6Rewrite }, unusual);
}
