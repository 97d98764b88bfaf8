//! Packets of one vector that hit the same entry are merged before they are counted and rewritten. The rules are those of the merge at
//! the way in, and the split at the way out gives the same packets back.
//!
//! Only hits join that leave as they are by a port which takes the super-packet: hits that are too long, at the end of their TTL, to be
//! protected, limited or between zones go on one by one. Any other packet of the flow ends what is merged before it.

use weir_packet::merge::{Kind, Wanted};
use weir_packet::packet::Packet;
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_packet::wire::protocol;
use weir_port::Segmentation;

use super::super::{Context, merging};
use super::policies::protection;
use crate::graph::flow::Decision;
use crate::graph::outlet::Outlet;
use crate::model::Merge;
use crate::root::family::Family;
use crate::root::{self, Adjacency};

/// Packets of a frame may be merged at their entries: `[flow-table] merge` says so, and there are at least two of a flow on average.
#[inline(always)]
pub(super) fn may_join(context: &Context<'_>, vector: &Vector, frame: &Indices) -> bool {
    context.root.flow_table.merges && frame.len() > 1 && are_few(vector, frame)
}

/// Returns whether the packets are of half as many flows as there are packets, or fewer, by their ports.
#[inline(never)]
fn are_few(vector: &Vector, frame: &Indices) -> bool {
    let mut seen = [0u64; VECTOR / 64];
    for &place in frame.places() {
        let ports = vector[place].l4_header::<4>().map_or(0, |ports| u32::from_ne_bytes(*ports));
        let bit = ports.wrapping_mul(0x9e37_79b9) >> 24;
        seen[bit as usize / 64 % seen.len()] |= 1 << (bit % 64);
    }
    let flows: u32 = seen.iter().map(|word| word.count_ones()).sum();
    flows as usize * 2 <= frame.len()
}

/// Merges packets of a vector that hit the same entry; gives the hits that are left. `decision` names the decision of a hit.
pub(super) fn join<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    hits: Indices,
    decision: impl Fn(&Context<'_>, &Packet, u8) -> Option<Decision>,
) -> Indices {
    let root = context.root;
    if root.per_segment.tables {
        return hits;
    }
    let (mut joins, mut count, mut largest) = ([false; VECTOR], 0, usize::MAX);
    for &place in hits.places() {
        let packet = &vector[place];
        let takes = decision(context, packet, place).and_then(|decision| takes::<K>(context, packet, &decision));
        if let Some(takes) = takes {
            joins[usize::from(place)] = true;
            largest = largest.min(takes.largest);
            count += 1;
        }
    }
    if count < 2 {
        return hits;
    }
    let paused = context.merges.pause(hits.places().iter().map(|&place| vector[place].interface()));
    let per_segment = root.per_segment.is_any();
    let wanted = Wanted { tcp4: true, tcp6: true, udp: true, largest, equal: merging::limits_bits(root) };
    let kind = |place: u8, packet: &Packet| match joins[usize::from(place)] && !paused.has(packet.interface()) {
        true => merging::kind(root, packet, per_segment),
        false => Kind::Single,
    };
    // A packet that goes another way from the start, by a steer rule for example, may be of the flow, too.
    let (mut all, mut left) = (Indices::new(), Indices::new());
    all.fill(vector.len());
    let Context { merges, cache, .. } = context;
    let merged = merges.merger.merge(vector, &all, &mut left, (cache, wanted), kind, merging::are_alike);
    if merged.wholes == 0 {
        return hits;
    }
    context.counters.created.add(merged.wholes);
    context.counters.absorbed.add(merged.packets);
    merging::note(context, vector, &all, &left);
    let mut is_left = [false; VECTOR];
    left.places().iter().for_each(|&place| is_left[usize::from(place)] = true);
    let mut rest = Indices::new();
    hits.places().iter().filter(|&&place| is_left[usize::from(place)]).for_each(|&place| rest.push(place));
    rest
}

/// The super-packets that the port takes by which a packet leaves with its decision; `None`: the packet goes on by itself.
#[inline]
fn takes<K: Family>(context: &Context<'_>, packet: &Packet, decision: &Decision) -> Option<Segmentation> {
    let root = context.root;
    if decision.is_limited() || decision.crossing().is_some() {
        return None;
    }
    let adjacency = root.adjacencies.get(decision.adjacency as usize)?;
    let merges = |interface: u32| root.interfaces.get(interface as usize).is_some_and(|own| own.merge != Merge::Off);
    if !leaves::<K>(packet, adjacency) || !merges(packet.interface()) || !merges(adjacency.interface) {
        return None;
    }
    if protection(root, decision, packet, adjacency).ok()?.is_some() {
        return None;
    }
    let takes = context.transmitters.get(adjacency.port as usize)?.as_ref().and_then(Outlet::segmentation)?;
    let wanted = match packet.protocol() {
        protocol::TCP if K::IS_V4 => takes.tcp4,
        protocol::TCP => takes.tcp6,
        _ => takes.udp,
    };
    wanted.then_some(takes)
}

/// The rewrite lets a packet out: it fits, and its TTL does not end.
#[inline]
fn leaves<K: Family>(packet: &Packet, adjacency: &Adjacency) -> bool {
    adjacency.kind == root::Kind::Rewrite
        && packet.len() - packet.l3_offset() <= adjacency.mtu as usize
        && packet.l3().get(K::TTL).is_some_and(|&ttl| ttl > 1)
}
