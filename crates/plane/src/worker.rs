//! A worker: one thread that takes vectors from its receive queues and runs the graph over them to completion.

use std::sync::Arc;
use std::sync::mpsc::Receiver as Mailbox;

use weir_base::clock::{Clock, Time};
use weir_base::reclaim::{Published, Reader};
use weir_base::ring::{Consumer, Producer};
use weir_base::tsc;
use weir_packet::buffer::Cache;
use weir_packet::packet::Packet;
use weir_packet::parse::Seed;
use weir_packet::text;
use weir_packet::vector::{Frame, VECTOR, Vector};
use weir_port::{Burst, Receiver, Transmitter};

use crate::counters::WorkerCounters;
use crate::limiter::Limiter;
use crate::model::IcmpLimits;
use crate::node::Node;
use crate::nodes::{self, Context, Limits, Next};
use crate::reason::Reason;
use crate::record::Recorder;
use crate::root::Root;
use crate::trace::{Step, Tracer};

/// What a worker is told while it runs.
pub(crate) enum Order {
    /// Poll this queue of a port.
    Receive(u32, Box<dyn Receiver>),
    /// Send to this port through this queue.
    Transmit(u32, Box<dyn Transmitter>),
    /// Forget a port's queues.
    Forget(u32),
    /// Limits of what is originated, for all workers together.
    Limit(IcmpLimits),
    /// Take nothing more from ports, but go on with what other workers hand over.
    Drain,
    /// End once nothing is left.
    End,
}

/// What a worker shares with the control thread and the other workers.
pub(crate) struct Shared {
    pub(crate) root: Arc<Published<Root>>,
    pub(crate) tracer: Arc<Tracer>,
    pub(crate) counters: Arc<WorkerCounters>,
    pub(crate) clock: Clock,
    pub(crate) seed: Seed,
}

/// How a round of the main loop went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Round {
    /// Packets were moved.
    Busy,
    /// Nothing to do now.
    Idle,
    /// Nothing to do now, and every receive queue has ended.
    Done,
    /// The worker was told to end, and nothing is left.
    Ended,
}

struct Queue {
    port: u32,
    receiver: Box<dyn Receiver>,
    ended: bool,
}

/// A worker, on whatever thread calls it.
pub(crate) struct Worker {
    number: usize,
    workers: usize,
    shared: Shared,
    reader: Reader,
    cache: Cache,
    mailbox: Mailbox<Order>,
    queues: Vec<Queue>,
    /// The queue that is polled first in the next round, so that none starves.
    turn: usize,
    /// The ring from another worker that is emptied first in the next round.
    source_turn: usize,
    transmitters: Vec<Option<Box<dyn Transmitter>>>,
    /// Rings to the other workers, by number; none to itself.
    peers: Vec<Option<Producer<Packet>>>,
    /// Rings from the other workers.
    sources: Vec<Consumer<Packet>>,
    vector: Vector,
    pieces: Vector,
    next: Next,
    spare: Frame,
    limits: Limits,
    draining: bool,
    ending: bool,
    /// Orders read so far.
    pub(crate) obeyed: u64,
    pub(crate) recorder: Option<Recorder>,
}

impl Worker {
    #[expect(clippy::too_many_arguments, reason = "called once, by the engine; each is a part of its own")]
    pub(crate) fn new(
        number: usize,
        workers: usize,
        shared: Shared,
        reader: Reader,
        cache: Cache,
        mailbox: Mailbox<Order>,
        peers: Vec<Option<Producer<Packet>>>,
        sources: Vec<Consumer<Packet>>,
    ) -> Worker {
        let limits = Limits { error: Limiter::new(0, 0), echo: Limiter::new(0, 0) };
        Worker {
            number,
            workers,
            shared,
            reader,
            cache,
            mailbox,
            queues: Vec::new(),
            turn: 0,
            source_turn: 0,
            transmitters: Vec::new(),
            peers,
            sources,
            vector: Vector::new(),
            pieces: Vector::new(),
            next: Next::new(),
            spare: Frame::new(),
            limits,
            draining: false,
            ending: false,
            obeyed: 0,
            recorder: None,
        }
    }

    /// One round of the main loop: at most one vector.
    pub(crate) fn round(&mut self) -> Round {
        self.read_mail();
        self.shared.counters.loops.add(1);
        let now = self.shared.clock.now();
        let handed = self.take_handed();
        // While another worker is behind, packets wait where they are: in the port, not in a ring that would overflow.
        let room = self.peers.iter_mut().flatten().all(|ring| ring.room() >= VECTOR);
        if room && !self.draining {
            self.poll(now);
        }
        if self.vector.is_empty() {
            self.shared.counters.idle_loops.add(1);
            return if self.ending && self.sources.iter().all(Consumer::is_empty) {
                Round::Ended
            } else if self.queues.iter().all(|queue| queue.ended) {
                Round::Done
            } else {
                Round::Idle
            };
        }
        self.run(handed, now);
        if handed > 0 {
            // Not before: until now they count as held, and the gateway as not finished.
            self.shared.counters.handed_in.add(handed as u64);
        }
        Round::Busy
    }

    fn read_mail(&mut self) {
        // Nothing there, or an engine that is gone, which has ended its workers before.
        while let Ok(order) = self.mailbox.try_recv() {
            self.obey(order);
            self.obeyed += 1;
        }
    }

    pub(crate) fn obey(&mut self, order: Order) {
        match order {
            Order::Receive(port, receiver) => self.queues.push(Queue { port, receiver, ended: false }),
            Order::Transmit(port, transmitter) => {
                let port = port as usize;
                if self.transmitters.len() <= port {
                    self.transmitters.resize_with(port + 1, || None);
                    self.next.ports.resize_with(port + 1, Frame::new);
                }
                self.transmitters[port] = Some(transmitter);
            }
            Order::Forget(port) => {
                self.queues.retain(|queue| queue.port != port);
                if let Some(mut transmitter) = self.transmitters.get_mut(port as usize).and_then(Option::take) {
                    // The port counts what its sink refuses.
                    let _ = transmitter.flush();
                }
            }
            Order::Limit(limits) => {
                let share = |all: u32| all.div_ceil(self.workers as u32);
                self.limits = Limits {
                    error: Limiter::new(share(limits.error_rate), share(limits.error_burst)),
                    echo: Limiter::new(share(limits.echo_rate), share(limits.echo_burst)),
                };
            }
            Order::Drain => self.draining = true,
            Order::End => self.ending = true,
        }
    }

    /// Takes what other workers handed over; returns how many packets that is.
    fn take_handed(&mut self) -> usize {
        if self.sources.is_empty() {
            return 0;
        }
        let start = tsc::ticks();
        // Half of the vector is left to our own ports, and each source is the first in turn: whoever is fast starves nobody.
        let own = !self.draining && self.queues.iter().any(|queue| !queue.ended);
        let most = if own { VECTOR / 2 } else { VECTOR };
        let sources = self.sources.len();
        for index in 0..sources {
            let vector = &mut self.vector;
            self.sources[(self.source_turn + index) % sources].pop(most - vector.len(), |packet| {
                // There is room: no more was asked for.
                let _ = vector.push(packet);
            });
        }
        self.source_turn = (self.source_turn + 1) % sources;
        let handed = self.vector.len();
        if handed > 0 {
            self.charge(Node::HandoverInput, handed, start);
        }
        handed
    }

    /// Fills the vector from the receive queues.
    fn poll(&mut self, now: Time) {
        let start = tsc::ticks();
        let before = self.vector.len();
        let queues = self.queues.len();
        for index in 0..queues {
            let queue = &mut self.queues[(self.turn + index) % queues];
            let first = self.vector.len();
            if first == VECTOR {
                break;
            }
            if queue.ended {
                continue;
            }
            queue.ended = queue.receiver.receive(&mut self.vector, &mut self.cache, now) == Burst::Ended;
            for packet in &mut self.vector.filled()[first..] {
                // `ethernet-input` finds the interface; until then the field names the port.
                packet.set_interface(queue.port);
            }
        }
        self.turn = self.turn.wrapping_add(1) % queues.max(1);
        let received = self.vector.len() - before;
        if received > 0 {
            self.shared.counters.received.add(received as u64);
            self.charge(Node::Rx, received, start);
        }
    }

    /// Puts a packet into the next vector as if it had been received by a port. Gives it back when the vector is full.
    pub(crate) fn inject(&mut self, port: u32, mut packet: Packet) -> Result<(), Packet> {
        packet.set_interface(port);
        self.vector.push(packet)?;
        self.shared.counters.received.add(1);
        Ok(())
    }

    /// A packet for [`Worker::inject`], if there is a buffer.
    pub(crate) fn packet(&mut self, frame: &[u8]) -> Option<Packet> {
        Packet::copy_of(&mut self.cache, frame)
    }

    /// Runs the graph over what was injected.
    pub(crate) fn run_injected(&mut self) {
        if !self.vector.is_empty() {
            self.run(0, self.shared.clock.now());
        }
    }

    /// Runs the graph over the vector, whose first `handed` packets have been parsed by another worker.
    fn run(&mut self, handed: usize, now: Time) {
        let Worker {
            reader, shared, next, vector, pieces, spare, cache, limits, peers, transmitters, recorder, ..
        } = self;
        let guard = reader.pin();
        let root = shared.root.load(&guard);
        for place in 0..vector.len() {
            let packet = &mut vector[place as u8];
            let node = if place >= handed {
                Node::EthernetInput
            } else if !root.interfaces.get(packet.interface() as usize).is_some_and(|interface| interface.present) {
                packet.set_reason(Reason::InterfaceGone.number());
                Node::Drop
            } else if packet.flags().contains(weir_packet::parse::ParseFlags::IP4) {
                Node::Ip4Lookup
            } else {
                Node::Ip6Lookup
            };
            next.push(node, place as u8);
        }
        let mut context = Context {
            root,
            guard: &guard,
            now,
            seed: &shared.seed,
            worker: self.number,
            counters: &shared.counters,
            cache,
            next,
            limits,
            peers,
            transmitters,
            recorder: recorder.as_mut(),
        };
        let wanted = shared.tracer.wanted();
        let tracing = wanted.is_some() || (0..handed).any(|place| vector[place as u8].trace() != 0);
        if let Some(input @ (Node::Rx | Node::HandoverInput)) = wanted {
            // Inputs are no nodes that the loop below visits: what they took is in the vector already.
            let taken = if input == Node::Rx { handed..vector.len() } else { 0..handed };
            spare.clear();
            taken.for_each(|place| spare.push(place as u8));
            trace(&context, &shared.tracer, vector, input, wanted, spare);
        }
        let mut start = tsc::ticks();
        while let Some(node) = context.next.pending() {
            context.next.take(node, spare);
            if tracing {
                trace(&context, &shared.tracer, vector, node, wanted, spare);
                start = tsc::ticks();
            }
            nodes::run(node, &mut context, pieces, vector, spare);
            let end = tsc::ticks();
            let counters = &shared.counters.nodes[node as usize];
            counters.calls.add(1);
            counters.packets.add(spare.len() as u64);
            counters.ticks.add(end.wrapping_sub(start));
            start = end;
        }
        for packet in vector.filled() {
            packet.recycle(cache);
        }
        vector.clear();
    }

    fn charge(&self, node: Node, packets: usize, start: u64) {
        let counters = &self.shared.counters.nodes[node as usize];
        counters.calls.add(1);
        counters.packets.add(packets as u64);
        counters.ticks.add(tsc::ticks().wrapping_sub(start));
    }

    /// Pushes out what the ports have buffered. Failures are counted by the ports.
    pub(crate) fn flush(&mut self) {
        for transmitter in self.transmitters.iter_mut().flatten() {
            let _ = transmitter.flush();
        }
    }
}

/// Opens traces at the node where they were asked for, and adds a step to each that passes.
#[cold]
fn trace(context: &Context<'_>, tracer: &Tracer, vector: &mut Vector, node: Node, wanted: Option<Node>, frame: &Frame) {
    for &place in frame.places() {
        let packet = &mut vector[place];
        if wanted == Some(node)
            && packet.trace() == 0
            && let Some(number) = tracer.open(node, context.worker, packet.time())
        {
            packet.set_trace(number);
        }
        if packet.trace() != 0 {
            // What was made here has no link-layer header before it is sent.
            let bare = packet.l3_offset() == 0 && packet.flags().contains(nodes::ORIGINATED);
            let summary = if bare { text::packet_summary } else { text::summary };
            let step = Step {
                node,
                interface: packet.interface(),
                packet: summary(packet.data()).to_string(),
                note: note(context, packet, node),
            };
            tracer.step(packet.trace(), step);
        }
    }
}

/// What is known of a packet's fate on its way into a node.
fn note(context: &Context<'_>, packet: &Packet, node: Node) -> String {
    match node {
        Node::Drop | Node::IcmpError => {
            Reason::of(packet.reason()).map_or_else(String::new, |reason| reason.name().into())
        }
        Node::Ip4Rewrite | Node::Ip6Rewrite | Node::Ip4Fragment | Node::Neighbor => {
            let adjacency = context.root.adjacencies.get(packet.forwarding() as usize);
            adjacency.map_or_else(String::new, |adjacency| context.root.describe(adjacency))
        }
        _ => String::new(),
    }
}
