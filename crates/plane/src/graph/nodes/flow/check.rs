//! Whether packets may take decisions.

use weir_base::reclaim::Guard;
use weir_packet::packet::Packet;

use super::policies::protection;
use super::tuple::varying;
use crate::graph::flow::Decision;
use crate::graph::record::Miss;
use crate::root::family::Family;
use crate::root::{Adjacency, Decided, Kind, Root, View};

/// Whether a packet may take a decision: gives the adjacency that it leaves by, and the pair of SAs that protects it, if one does.
#[inline(always)]
pub(super) fn check<'r, K: Family>(
    root: &Root,
    guard: &Guard<'_>,
    adjacencies: View<'r>,
    decision: &mut Decision,
    packet: &Packet,
    translated: Option<[K; 2]>,
) -> Result<(&'r Adjacency, Option<u32>), Miss> {
    let epoch = root.changes.count();
    match decision.check(epoch, packet.interface(), || varying::<K>(packet)) {
        Err(Miss::Changed) if holds_on::<K>(root, guard, decision, packet, translated) => decision.hold_on(epoch),
        checked => checked?,
    }
    let adjacency = adjacencies.get(decision.adjacency).ok_or(Miss::Changed)?;
    let sa = protection(root, decision, packet, adjacency)?;
    if may_leave(root, adjacency, sa.is_some()) { Ok((adjacency, sa)) } else { Err(Miss::Changed) }
}

/// Whether packets that take decisions leave by an adjacency. A packet that an SA protects needs no neighbour there.
#[inline(always)]
fn may_leave(root: &Root, adjacency: &Adjacency, is_protected: bool) -> bool {
    match adjacency.kind {
        Kind::Rewrite | Kind::RewriteStale => true,
        Kind::Neighbor => is_protected || root.invent_neighbors,
        _ => false,
    }
}

/// Whether no change since a decision was made concerns its flow, with the addresses that the packet came in with and with those
/// that it gets.
#[inline(never)]
fn holds_on<K: Family>(
    root: &Root,
    guard: &Guard<'_>,
    decision: &Decision,
    packet: &Packet,
    translated: Option<[K; 2]>,
) -> bool {
    let adjacency = root.adjacencies.view().get(decision.adjacency);
    let Some((adjacency, header)) = adjacency.zip(K::matched(packet)) else { return false };
    let interfaces = [packet.interface(), adjacency.interface];
    let concern = |addresses| root.changes.concern::<K>(guard, Decided { at: decision.epoch(), interfaces, addresses });
    !concern([header.source, header.destination]) && !translated.is_some_and(concern)
}
