//! `handover`: gives each packet to the worker that owns its flow.
//!
//! The owner is a hash of the flow that both directions share, so that whatever a flow's state will be, one worker has
//! all of it and takes no lock. Rings are single-producer single-consumer and keep the order of a flow.

use weir_packet::parse;
use weir_packet::vector::{Frame, Vector};

use super::{Context, stage};
use crate::peer::Peer;
use crate::reason::Reason;

pub(super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Frame) {
    let workers = context.peers.len() as u64;
    let mut handed = 0;
    for &place in frame.places() {
        let packet = &mut vector[place];
        let hash = parse::symmetric_hash(&packet.parsed(), packet.data(), context.seed);
        // The upper bits of the product: unbiased enough for a handful of workers, and no division.
        let owner = ((u64::from(hash) * workers) >> 32) as usize;
        if owner == context.worker {
            context.next.push(stage::entry(context.root, packet), place);
        } else if let Some(peer) = &mut context.peers[owner] {
            match peer.push(packet.take()) {
                Ok(()) => handed += 1,
                Err(refused) => {
                    let reason = peer.refusal();
                    vector[place] = refused;
                    context.next.refuse(&mut vector[place], place, reason);
                }
            }
        } else {
            context.next.refuse(packet, place, Reason::HandoverFull);
        }
    }
    if handed > 0 {
        context.counters.handed_out.add(handed);
        context.peers.iter_mut().flatten().for_each(Peer::show);
    }
}
