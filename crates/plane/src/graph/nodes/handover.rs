//! `handover`: gives each packet to the worker that owns its flow.
//!
//! The owner is a hash of the flow that both directions share, so that whatever a flow's state will be, one worker has
//! all of it and takes no lock. Rings are single-producer single-consumer and keep the order of a flow.
//!
//! The flows of a worker that failed belong to the next one that goes on.

use weir_packet::packet::Packet;
use weir_packet::parse::{self, ParseFlags};
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::protocol;

use super::{Context, merging, stage};
use crate::graph::peer::Peer;
use crate::graph::session::nat;
use crate::reason::Reason;
use crate::root::family::Family;

pub(super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let mut handed = 0;
    let mut own = Indices::new();
    for &place in frame.places() {
        let packet = &mut vector[place];
        let esp = if context.root.ipsec.is_active() {
            super::esp::owner_hash(context.root, packet, context.seed)
        } else {
            None
        };
        let inner = match esp {
            None if context.root.tunnels.is_active() => super::tunnel::owner_hash(context.root, packet, context.seed),
            esp => esp,
        };
        let hash = match inner {
            None if context.root.nat.is_active() => translated_hash(context, packet),
            inner => inner,
        };
        let hash = hash.unwrap_or_else(|| parse::symmetric_hash(&packet.parsed(), packet.data(), context.seed));
        let owner = owner(context, hash);
        if owner == context.worker {
            own.push(place);
        } else if let Some(peer) = &mut context.peers[owner] {
            match peer.push(packet.take()) {
                Ok(()) => handed += 1,
                Err(refused) => {
                    *packet = refused;
                    handed += u64::from(give_up(context, packet, place, owner));
                }
            }
        } else {
            context.next.refuse(packet, place, Reason::HandoverFull);
        }
    }
    merging::cut(context, vector, &mut own);
    for &place in own.places() {
        context.next.push(stage::entry(context.root, context.notes, &vector[place]), place);
    }
    if handed > 0 {
        context.counters.handed_out.add(handed);
        context.peers.iter_mut().flatten().for_each(Peer::show);
    }
}

/// The worker that a hash names.
#[inline(always)]
pub(super) fn owner(context: &Context<'_>, hash: u32) -> usize {
    // The upper bits of the product: unbiased enough for a handful of workers, and no division.
    ((u64::from(hash) * context.peers.len() as u64) >> 32) as usize
}

/// The hash that names the owner of a packet where addresses are translated; `None`: that of its flow.
fn translated_hash(context: &Context<'_>, packet: &Packet) -> Option<u32> {
    fn of<K: Family>(context: &Context<'_>, packet: &Packet) -> Option<u32> {
        let interface = packet.interface();
        let (mut source, mut destination) = K::endpoints(packet.l3())?;
        let is_icmp = packet.protocol() == if K::IS_V4 { protocol::ICMP } else { protocol::ICMPV6 };
        // An error belongs to the packet that it quotes, which went in the other direction.
        if is_icmp
            && let Some(quoted) = parse::quoted(&packet.parsed(), packet.data())
            && let Some(header) = packet.data().get(usize::from(quoted.l3)..)
            && let Some((from, to)) = K::endpoints(header)
        {
            (source, destination) = (to, from);
        }
        nat::owner(context.root, context.guard, context.seed, nat::Arrival { interface, source, destination })
    }
    if packet.flags().contains(ParseFlags::IP4) { of::<u32>(context, packet) } else { of::<u128>(context, packet) }
}

/// Gives a packet to the owner that a hash names; gives whether the packet is gone, handed over or dropped.
#[cold]
pub(super) fn give(context: &mut Context<'_>, packet: &mut Packet, place: u8, hash: u32) -> bool {
    let owner = owner(context, hash);
    give_to(context, packet, place, owner)
}

/// Gives a packet to a worker; gives whether the packet is gone, handed over or dropped. A worker that has failed, or this one,
/// takes none.
#[cold]
pub(super) fn give_to(context: &mut Context<'_>, packet: &mut Packet, place: u8, owner: usize) -> bool {
    let Some(Some(peer)) = context.peers.get_mut(owner) else { return false };
    if let Err(refused) = peer.push(packet.take()) {
        *packet = refused;
        // The heir of a worker that has failed is the one that goes on with its flows.
        if peer.is_gone() {
            return false;
        }
        context.next.refuse(packet, place, Reason::HandoverFull);
        return true;
    }
    peer.show();
    context.counters.handed_out.add(1);
    true
}

/// Drops a packet that its owner has no room for, or gives it to the owner's heir if the owner has failed. Returns whether
/// it was handed over.
#[cold]
fn give_up(context: &mut Context<'_>, packet: &mut Packet, place: u8, owner: usize) -> bool {
    let workers = context.peers.len();
    // This worker is among them, and goes on.
    for heir in (0..workers).map(|step| (owner + step) % workers) {
        let Some(peer) = &mut context.peers[heir] else {
            context.next.push(stage::entry(context.root, context.notes, packet), place);
            return false;
        };
        match peer.push(packet.take()) {
            Ok(()) => return true,
            Err(refused) => *packet = refused,
        }
        if !peer.is_gone() {
            break;
        }
    }
    context.next.refuse(packet, place, Reason::HandoverFull);
    false
}
