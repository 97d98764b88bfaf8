//! A pass of vectors through the graph: fresh packets, released packets, and packets that nodes have queued.

use std::collections::VecDeque;

use weir_base::clock::Time;
use weir_base::tsc;
use weir_packet::packet::Packet;
use weir_packet::parse::Parsed;
use weir_packet::vector::{Indices, Vector};

use super::traced::{report, trace};
use crate::graph::batch::Batches;
use crate::graph::counters::WorkerCounters;
use crate::graph::events::Event;
use crate::graph::flags::ORIGINATED;
use crate::graph::hold::Key;
use crate::graph::made::Made;
use crate::graph::nodes::{self, Context, Stage};
use crate::graph::outlet::Books;
use crate::graph::trace::Tracer;
use crate::node::Node;
use crate::reason::Reason;

/// The number, for the recorder, of packets that no input packet led to.
pub(crate) const UNASKED: u32 = u32::MAX;

/// A way through the graph, for one vector after another.
pub(super) struct Pass<'p, 'c> {
    pub(super) context: &'p mut Context<'c>,
    pub(super) tracer: &'p Tracer,
    pub(super) pieces: &'p mut Vector,
    pub(super) batches: &'p mut Batches,
    pub(super) spare: &'p mut Indices,
}

/// Frames of the control side, each with the number of its port.
type Frames = Vec<(u32, Box<[u8]>)>;

impl Pass<'_, '_> {
    /// Sends the control side's frames, makes packets for pairs of SAs, and lets packets go on whose time has come.
    #[inline]
    pub(super) fn before(
        &mut self,
        (outgoing, wanted): (&mut Frames, &mut VecDeque<(u32, Made)>),
        released: &mut Vector,
        now: Time,
    ) {
        if !outgoing.is_empty() {
            self.send(outgoing, released);
        }
        if !wanted.is_empty() {
            self.originate(wanted, released);
        }
        if !self.context.hold.is_empty() {
            self.release(released);
        }
        if self.context.reassembly.deadline().is_some_and(|deadline| deadline <= now) {
            self.expire(released);
        }
        if self.context.requeue.is_deferred() {
            let count = self.context.requeue.take_up();
            self.context.counters.resumed.add(count as u64);
            self.go_round_again(released);
        }
    }

    /// Lets fragments and queued packets go on, and ends sessions and learned decisions whose time is over.
    #[inline]
    pub(super) fn after(&mut self, released: &mut Vector, now: Time) {
        if self.context.fragments.deadline().is_some_and(|deadline| deadline <= now) {
            self.release_fragments(released);
        }
        if !self.context.requeue.is_empty() {
            self.go_round_again(released);
        }
        if self.context.sessions.deadline().is_some_and(|deadline| deadline <= now) {
            self.age();
        }
        if self.context.flows.deadline().is_some_and(|deadline| deadline <= now) {
            self.forget();
        }
    }

    /// Sends what waited for neighbours on its way again: what may leave by the new version of the root, and what has
    /// waited too long.
    #[cold]
    pub(super) fn release(&mut self, vector: &mut Vector) {
        let Context { root, guard, seed, hold, events, counters, now, .. } = &mut *self.context;
        if hold.generation != root.generation {
            hold.decide(root.generation, |key, packet| nodes::decide(root, guard, seed, key, packet));
        }
        hold.look_after(*now, |Key { interface, address }| {
            events.tell(Event::Wanted { interface, address }, &counters.events_lost)
        });
        self.send_on(vector, |context| {
            let packet = context.hold.pop()?;
            context.counters.dequeued.add(1);
            Some(packet)
        });
    }

    /// Drops datagrams whose fragments have waited too long for the rest, and reports that to their sources.
    #[cold]
    pub(super) fn expire(&mut self, vector: &mut Vector) {
        self.send_on(vector, |context| {
            let packet = context.reassembly.expire(context.now)?;
            context.counters.ended.add(1);
            Some(packet)
        });
    }

    /// Releases fragments whose first fragment has arrived, and drops fragments that were held too long.
    #[cold]
    pub(super) fn release_fragments(&mut self, vector: &mut Vector) {
        self.context.fragments.expire(self.context.now);
        self.send_on(vector, |context| {
            let packet = context.fragments.pop()?;
            context.counters.released.add(1);
            Some(packet)
        });
    }

    /// Ends sessions whose time is over.
    #[cold]
    pub(super) fn age(&mut self) {
        let Context { root, guard, sessions, rules, counters, now, .. } = &mut *self.context;
        let start = tsc::ticks();
        let visited = sessions.age((root, guard), *rules, *now);
        sessions.end_vector(root, &counters.sessions);
        charge_age(counters, visited, start);
    }

    /// Forgets decisions about idle flows.
    #[cold]
    pub(super) fn forget(&mut self) {
        let Context { flows, counters, now, .. } = &mut *self.context;
        let start = tsc::ticks();
        let visited = flows.age(&counters.flows, *now);
        flows.prepare();
        flows.show(&counters.flows);
        charge_age(counters, visited, start);
    }

    /// Runs the graph over held packets that `next` gives, a vector at a time.
    fn send_on(&mut self, vector: &mut Vector, mut next: impl FnMut(&mut Context<'_>) -> Option<Packet>) {
        loop {
            while vector.room() > 0
                && let Some(packet) = next(self.context)
            {
                // There is room.
                let _ = vector.push(packet);
            }
            if vector.is_empty() {
                break;
            }
            let packets = vector.len();
            self.run(vector, packets, false);
            // A port's ring holds a vector, but perhaps not all that was held.
            self.kick();
        }
    }

    /// Runs the graph over the packets that nodes have queued, until none is left.
    #[cold]
    pub(super) fn go_round_again(&mut self, vector: &mut Vector) {
        loop {
            self.context.requeue.end_vector();
            while vector.room() > 0
                && let Some(packet) = self.context.requeue.pop()
            {
                // There is room.
                let _ = vector.push(packet);
            }
            if vector.is_empty() {
                break;
            }
            let packets = vector.len();
            self.run(vector, packets, false);
            self.kick();
        }
    }

    /// Has ports send the packets that they were given so far.
    fn kick(&mut self) {
        let Context { root, counters, worker, transmitters, shares, .. } = &mut *self.context;
        let books = Books { root, counters, worker: *worker };
        transmitters.iter_mut().flatten().for_each(|outlet| outlet.kick(&books));
        shares.sent(root, *worker);
    }

    /// Sends frames of the control side.
    #[cold]
    pub(super) fn send(&mut self, frames: &mut Vec<(u32, Box<[u8]>)>, vector: &mut Vector) {
        let mut frames = frames.drain(..).peekable();
        while frames.peek().is_some() {
            while vector.room() > 0
                && let Some((number, frame)) = frames.next()
            {
                // A frame without a buffer is as if lost on the way.
                let interface = self.context.root.interfaces.get(number as usize);
                let Some(interface) = interface.filter(|interface| interface.present) else { continue };
                let Some(mut packet) = Packet::copy_of(self.context.cache, &frame) else { continue };
                packet.set_parsed(&Parsed::default());
                packet.add_state(ORIGINATED);
                packet.set_interface(number);
                packet.set_forwarding(interface.on_link);
                packet.set_ordinal(UNASKED);
                self.context.counters.created.add(1);
                // There is room.
                let _ = vector.push(packet);
            }
            for place in 0..vector.len() {
                self.context.next.push(Node::Output, place as u8);
            }
            self.walk(vector, self.tracer.wanted(), false);
        }
    }

    /// Sends packets that the control side wants for pairs of SAs.
    #[cold]
    pub(super) fn originate(&mut self, wanted: &mut VecDeque<(u32, Made)>, vector: &mut Vector) {
        self.send_on(vector, |context| {
            while let Some((sa, made)) = wanted.pop_front() {
                if let Some(mut packet) = nodes::originate(context, sa, made) {
                    packet.set_ordinal(UNASKED);
                    return Some(packet);
                }
            }
            None
        });
    }

    /// Runs the graph over a vector, whose first `parsed` packets have been parsed before. `fresh`: they come from the inputs.
    pub(super) fn run(&mut self, vector: &mut Vector, parsed: usize, fresh: bool) {
        let Pass { context, tracer, spare, .. } = self;
        spare.clear();
        (0..parsed).for_each(|place| spare.push(place as u8));
        // Super-packets that another worker handed over.
        nodes::cut(context, vector, spare);
        for &place in spare.places() {
            let node = resume(context, &mut vector[place]);
            context.next.push(node, place);
        }
        for place in parsed..vector.len() {
            context.next.push(Node::EthernetInput, place as u8);
        }
        let wanted = tracer.wanted();
        let tracing = wanted.is_some() || (0..parsed).any(|place| vector[place as u8].is_traced());
        if let Some(input @ (Node::Rx | Node::HandoverInput)) = wanted.filter(|_| fresh) {
            // The loop below does not visit inputs: their packets are in the vector already.
            let taken = if input == Node::Rx { parsed..vector.len() } else { 0..parsed };
            spare.clear();
            taken.for_each(|place| spare.push(place as u8));
            trace(context, tracer, vector, input, wanted, spare);
        }
        self.walk(vector, wanted, tracing);
    }

    /// Takes the packets of a vector from node to node, from where they wait to where they end.
    fn walk(&mut self, vector: &mut Vector, wanted: Option<Node>, tracing: bool) {
        let Pass { context, tracer, pieces, batches, spare } = self;
        let tracing = tracing || wanted.is_some();
        context.recorder.begin(tracing);
        let mut start = tsc::ticks();
        while let Some(node) = context.next.pending() {
            context.next.take(node, spare);
            // Nodes see packets in the order of arrival, whichever ways these took: so what nodes give to some packets and not to
            // others, as limits do, does not depend on the ways.
            spare.sort();
            if tracing {
                trace(context, tracer, vector, node, wanted, spare);
                start = tsc::ticks();
            }
            let captured = context.taps.is_active();
            if captured && matches!(node, Node::EthernetInput | Node::IpInput) {
                nodes::enter(context, node, vector, spare);
            }
            nodes::run(node, context, (pieces, batches), vector, spare);
            if captured && matches!(node, Node::TunnelDecap | Node::BridgeForward) {
                nodes::emerged(context, node, vector, spare);
            }
            let end = tsc::ticks();
            context.counters.nodes[node as usize].charge(spare.len(), end.wrapping_sub(start));
            start = end;
        }
        if tracing {
            report(context, tracer);
            context.recorder.end();
        }
        for packet in vector.filled() {
            packet.recycle(context.cache);
        }
        vector.clear();
        if context.sessions.is_active() {
            context.sessions.end_vector(context.root, &context.counters.sessions);
            context.sessions.prepare();
        }
        context.notes.end_pass();
        if context.notes.is_on() {
            context.notes.end_vector();
            context.flows.prepare();
            context.flows.show(&context.counters.flows);
        }
    }
}

/// Charges a visit of the flow table to `flow-age`.
fn charge_age(counters: &WorkerCounters, visited: usize, start: u64) {
    counters.nodes[Node::FlowAge as usize].charge(visited, tsc::ticks().wrapping_sub(start));
}

/// Where a packet goes on that has been parsed before: by another worker, or before it had to wait.
fn resume(context: &mut Context<'_>, packet: &mut Packet) -> Node {
    let root = context.root;
    if !root.interfaces.get(packet.interface() as usize).is_some_and(|interface| interface.present) {
        packet.set_reason(Reason::InterfaceGone.number());
    }
    if packet.resume() & nodes::UNSTEERED != 0
        && let Some(rules) = nodes::unsteered(root, packet)
        && packet.reason() == 0
    {
        return rules;
    }
    match Reason::of(packet.reason()) {
        None if Stage::of(packet) == Stage::Redirect => nodes::redirect_again(root, context.guard, packet),
        None if Stage::of(packet) == Stage::Steered => {
            context.notes.bypass();
            nodes::steer_again(root, context.guard, packet)
        }
        None => nodes::entry(root, context.notes, packet),
        // No error is sent if the interface is gone or a worker has failed.
        Some(Reason::InterfaceGone | Reason::WorkerGone) => Node::Drop,
        Some(_) => Node::IcmpError,
    }
}
