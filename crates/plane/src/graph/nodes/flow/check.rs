//! Whether packets may take decisions.

use weir_base::reclaim::Guard;
use weir_packet::packet::Packet;

use super::policies::protection;
use super::tuple::varying;
use crate::changed::Changed;
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
    if !decision.check(epoch, packet.interface(), || varying::<K>(packet))? {
        if let Some(changed) = concerned::<K>(root, guard, decision, packet, translated) {
            return Err(Miss::Changed(changed));
        }
        decision.hold_on(epoch);
    }
    let adjacency = adjacencies.get(decision.adjacency).ok_or(Miss::Changed(Changed::NextHop))?;
    let sa = protection(root, decision, packet, adjacency)?;
    if may_leave(root, adjacency, sa.is_some()) { Ok((adjacency, sa)) } else { Err(Miss::Changed(Changed::NextHop)) }
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

/// Returns the change since a decision was made that concerns its flow, by the addresses that the packet came in with, or by
/// its new ones.
#[inline(never)]
fn concerned<K: Family>(
    root: &Root,
    guard: &Guard<'_>,
    decision: &Decision,
    packet: &Packet,
    translated: Option<[K; 2]>,
) -> Option<Changed> {
    let adjacency = root.adjacencies.view().get(decision.adjacency);
    let Some((adjacency, header)) = adjacency.zip(K::matched(packet)) else { return Some(Changed::NextHop) };
    let interfaces = [packet.interface(), adjacency.interface];
    let concern = |addresses| root.changes.concern::<K>(guard, Decided { at: decision.epoch(), interfaces, addresses });
    concern([header.source, header.destination]).or_else(|| translated.and_then(concern))
}
