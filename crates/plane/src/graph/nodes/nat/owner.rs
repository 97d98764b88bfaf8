//! The worker that replies come to.

use super::super::Context;
use crate::graph::session::{Session, nat};
use crate::root::family::Family;

/// Whether the worker of a packet's replies is this one.
pub(super) fn is_own<K: Family>(context: &Context<'_>, session: &Session<K>, egress: u32) -> bool {
    let here = nat::Here { seed: *context.seed, worker: context.worker, workers: context.peers.len() };
    here.has((context.root, context.guard), &session.reply(), egress)
}
