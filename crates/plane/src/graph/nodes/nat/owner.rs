//! The worker that replies come to.

use super::super::Context;
use crate::graph::session::{Session, nat};
use crate::root::family::Family;

/// Whether the worker of a packet's replies is this one.
pub(super) fn is_own<K: Family>(context: &Context<'_>, session: &Session<K>, egress: u32) -> bool {
    let workers = context.peers.len();
    if workers < 2 {
        return true;
    }
    let reply = session.reply();
    let arrival = nat::Arrival { interface: egress, source: reply.source, destination: reply.destination };
    let hash = nat::owner(context.root, context.guard, context.seed, arrival).unwrap_or_else(|| {
        let words = nat::hashed_words(&reply);
        K::owner_hash(context.seed, reply.protocol, (reply.source, words[0]), (reply.destination, words[1]))
    });
    nat::worker(hash, workers) == context.worker
}
