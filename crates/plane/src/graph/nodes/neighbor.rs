//! `neighbor`: packets whose next hop has no known hardware address wait until it has one ([`crate::graph::hold`]).
//! Packets that the SPD protects go on at once: those of ESP take the route to the peer, and the next hop here may be of a family that
//! the link does not have.

use weir_packet::parse::ParseFlags;
use weir_packet::vector::{Indices, Vector};

use super::stage::Stage;
use super::{Context, discard, next_hop, session, spd, stage};
use crate::graph::events::Event;
use crate::graph::hold::{Key, NoRoom};
use crate::reason::Reason;

pub(super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let has_spd = context.root.spd.is_active();
    for &place in frame.places() {
        if has_spd && spd::protects(context, &vector[place]) {
            let packet = &vector[place];
            let v4 = packet.flags().contains(ParseFlags::IP4);
            context.next.push(stage::egress(context.root, packet.forwarding(), v4), place);
            continue;
        }
        let Some(key) = next_hop::key(context.root, &vector[place]) else {
            context.next.refuse_aloud(&mut vector[place], place, Reason::NoNeighbor);
            continue;
        };
        let adjacency = vector[place].forwarding();
        session::hold(context, &mut vector[place]);
        // Policies on the way in decide once, not again after the wait.
        Stage::Lookup.resumes(&mut vector[place]);
        match context.hold.push(key, vector[place].take(), context.now) {
            Ok(evicted) => {
                context.counters.queued.add(1);
                if let Some(mut packet) = evicted {
                    context.counters.dequeued.add(1);
                    discard(context, &packet, Reason::NeighborQueueFull);
                    packet.recycle(context.cache);
                }
                let Context { hold, events, counters, now, .. } = context;
                hold.ask(key, *now, |Key { interface, address }| {
                    events.tell(Event::Wanted { interface, address }, &counters.events_lost)
                });
            }
            Err(NoRoom(packet)) => {
                vector[place] = packet;
                if context.events.is_news(adjacency, context.now) {
                    let Key { interface, address } = key;
                    context.events.tell(Event::Wanted { interface, address }, &context.counters.events_lost);
                }
                context.next.refuse_aloud(&mut vector[place], place, Reason::NoNeighbor);
            }
        }
    }
}
