//! A worker: one thread that takes vectors from its receive queues and runs the graph over them to completion.

mod command;
mod pass;
mod traced;
mod wait;

use std::collections::VecDeque;
use std::sync::mpsc::Receiver as Mailbox;
use std::time::Duration;

use weir_base::clock::{Clock, Time};
use weir_base::random::{Random, SecureRandom};
use weir_base::reclaim::Reader;
use weir_base::ring::Consumer;
use weir_base::tsc;
use weir_packet::buffer::Cache;
use weir_packet::packet::Packet;
use weir_packet::parse::{self, Seed};
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_port::{Burst, Receiver};

pub(crate) use command::{Command, Round, Shared};
use pass::Pass;
pub(crate) use pass::UNASKED;

use crate::graph::batch::Batches;
use crate::graph::capture::Taps;
use crate::graph::events::Events;
use crate::graph::flags::ENCAPSULATED;
use crate::graph::flow::{Learned, Notes};
use crate::graph::fragments::Fragments;
use crate::graph::hold::Hold;
use crate::graph::made::Made;
use crate::graph::merges::Merges;
use crate::graph::nodes::{Context, Limits, Next, Stage, Upkeep};
use crate::graph::outlet::{Books, Outlet};
use crate::graph::peer::Peer;
use crate::graph::policies::PolicyCaches;
use crate::graph::reassembly::Reassembly;
use crate::graph::record::Recorder;
use crate::graph::requeue::Requeue;
use crate::graph::sample::Samples;
use crate::graph::session::{Ended, Page, Sessions, nat};
use crate::graph::shares::Shares;
use crate::graph::streams::Stream;
use crate::model::{IcmpLimits, NeighborDiscovery};
use crate::node::Node;

struct Queue {
    port: u32,
    receiver: Box<dyn Receiver>,
    /// Its last burst.
    state: Burst,
}

/// A worker, on whatever thread calls it.
pub(crate) struct Worker {
    number: usize,
    workers: usize,
    shared: Shared,
    reader: Reader,
    cache: Cache,
    mailbox: Mailbox<Command>,
    queues: Vec<Queue>,
    /// Packets that the last poll of all queues brought.
    taken: usize,
    /// The longest pause between two receive calls.
    pub(crate) max_latency: Duration,
    /// The queue that is being polled.
    polled: Option<usize>,
    /// The queue that is polled first in the next round, so that none starves.
    turn: usize,
    /// The ring from another worker that is emptied first in the next round.
    source_turn: usize,
    transmitters: Vec<Option<Outlet>>,
    /// The other workers, by number; none for itself.
    peers: Vec<Option<Peer>>,
    /// Rings from the other workers.
    sources: Vec<Consumer<Packet>>,
    vector: Vector,
    pieces: Vector,
    batches: Batches,
    /// Packets that waited for a neighbour, on their way again, and what is left of datagrams that were given up.
    released: Vector,
    hold: Hold,
    reassembly: Reassembly,
    fragments: Fragments,
    requeue: Requeue,
    shares: Shares,
    pub(crate) merges: Merges,
    segments: Option<Vector>,
    pub(crate) sessions: Sessions,
    flows: Learned,
    policies: PolicyCaches,
    bridges: Upkeep,
    notes: Box<Notes>,
    seed: Seed,
    random: SecureRandom,
    pub(crate) events: Events,
    pub(crate) samples: Samples,
    taps: Taps,
    /// Frames to send, with the numbers of their interfaces.
    outgoing: Vec<(u32, Box<[u8]>)>,
    /// Packets to make for pairs of SAs.
    wanted: VecDeque<(u32, Made)>,
    next: Next,
    spare: Indices,
    limits: Limits,
    draining: bool,
    ending: bool,
    /// Commands read so far.
    pub(crate) handled: u64,
    pub(crate) recorder: Recorder,
}

impl Worker {
    #[expect(clippy::too_many_arguments, reason = "called once, by the engine; each is a part of its own")]
    pub(crate) fn new(
        number: usize,
        workers: usize,
        shared: Shared,
        reader: Reader,
        cache: Cache,
        mailbox: Mailbox<Command>,
        peers: Vec<Option<Peer>>,
        sources: Vec<Consumer<Packet>>,
    ) -> Worker {
        // Nothing may be sent before it is said how much.
        let none = IcmpLimits { error_rate: 0, error_burst: 0, echo_rate: 0, echo_burst: 0 };
        let limits =
            Limits::new(number, workers, &none, &NeighborDiscovery { rate: 0, ..NeighborDiscovery::default() });
        let open = |stream: Stream| stream.open(&shared.entropy);
        let seed = Seed::new(open(Stream::FlowHash).words());
        let hold = Hold::new(Seed::new(open(Stream::Hold(number)).words()));
        shared.counters.spoofed.seed(open(Stream::SpoofedSources).words());
        shared.counters.unknown.seed(open(Stream::UnknownSources).words());
        let large = cache.pool().occupancy().large.0;
        let reassembly = Reassembly::new(large, workers, open(Stream::Reassembly(number)).words());
        let fragments = Fragments::new(open(Stream::Fragments(number)).words());
        let mut secrets = open(Stream::Sessions(number));
        let sessions = Sessions::new(nat::Here { seed, worker: number, workers }, || secrets.next());
        let mut secrets = open(Stream::Flows(number));
        let flows = Learned::new(|| secrets.next());
        let policies = PolicyCaches::new(open(Stream::Policies(number)));
        let samples = Samples::unread(number, Random::from_seed(open(Stream::Samples(number)).next()));
        let random = open(Stream::Worker(number));
        Worker {
            number,
            workers,
            shared,
            reader,
            cache,
            mailbox,
            queues: Vec::new(),
            taken: 0,
            max_latency: Duration::ZERO,
            polled: None,
            turn: 0,
            source_turn: 0,
            transmitters: Vec::new(),
            peers,
            sources,
            vector: Vector::new(),
            pieces: Vector::new(),
            batches: Batches::new(),
            released: Vector::new(),
            hold,
            reassembly,
            fragments,
            requeue: Requeue::new(),
            shares: Shares::new(),
            merges: Merges::new(),
            segments: Some(Vector::new()),
            sessions,
            flows,
            policies,
            bridges: Upkeep::default(),
            notes: Box::default(),
            seed,
            random,
            events: Events::unheard(),
            samples,
            taps: Taps::default(),
            outgoing: Vec::new(),
            wanted: VecDeque::new(),
            next: Next::new(),
            spare: Indices::new(),
            limits,
            draining: false,
            ending: false,
            handled: 0,
            recorder: Recorder::default(),
        }
    }

    /// One round of the main loop: at most one vector.
    pub(crate) fn round(&mut self) -> Round {
        self.read_mail();
        self.shared.counters.loops.add(1);
        let now = self.shared.clock.now();
        let handed = self.take_handed();
        // While another worker is behind, packets wait where they are: in the port, not in a ring that would overflow.
        let behind = self.peers.iter_mut().flatten().any(Peer::is_behind);
        self.taken = 0;
        if !behind && !self.draining {
            self.poll(now);
        }
        if self.ending {
            self.hold.give_up();
            self.reassembly.give_up();
            self.fragments.give_up();
        }
        let is_told = !self.outgoing.is_empty() || !self.wanted.is_empty() || self.requeue.is_deferred();
        if self.vector.is_empty() && !is_told && !self.is_due(now) {
            self.shared.counters.idle_loops.add(1);
            // Those in which something still waits.
            if self.transmitters.iter().flatten().any(Outlet::is_pending) {
                self.with_outlets(|outlets, books| outlets.iter_mut().flatten().for_each(|outlet| outlet.kick(books)));
            }
            return if self.ending && self.sources.iter().all(Consumer::is_empty) {
                Round::Ended
            } else if self.queues.iter().all(|queue| queue.state == Burst::Ended) {
                Round::Done
            } else if behind && !self.draining {
                Round::Blocked
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

    /// Handles all commands that were sent.
    pub(crate) fn read_mail(&mut self) {
        // Nothing there, or an engine that is gone, which has ended its workers before.
        while let Ok(command) = self.mailbox.try_recv() {
            self.handle(command);
            self.handled += 1;
        }
    }

    pub(crate) fn handle(&mut self, command: Command) {
        match command {
            Command::Receive(port, receiver) => self.queues.push(Queue { port, receiver, state: Burst::More }),
            Command::Transmit(port, transmitter) => {
                let port = port as usize;
                if self.transmitters.len() <= port {
                    self.transmitters.resize_with(port + 1, || None);
                    self.next.ports.resize_with(port + 1, Indices::new);
                }
                self.close(port);
                self.transmitters[port] = Some(Outlet::new(transmitter));
            }
            Command::Forget(port) => {
                self.queues.retain(|queue| queue.port != port);
                self.close(port as usize);
            }
            Command::Limit(icmp, neighbors) => {
                self.limits = Limits::new(self.number, self.workers, &icmp, &neighbors);
                self.hold.bound(&neighbors);
            }
            Command::Pace(max_latency) => self.max_latency = max_latency,
            Command::Send(interface, frame) => self.outgoing.push((interface, frame)),
            Command::Make(packets) => self.wanted.extend(packets),
            // The command that waits for it may have ended.
            Command::Flows(from, to) => drop(to.send(self.flows(from, self.shared.clock.now()))),
            Command::EndFlows(ended, to) => drop(to.send(self.end_flows(&ended))),
            Command::Recheck(from, to) => drop(to.send(self.recheck(from))),
            Command::Capture(tap) => self.taps.begin(*tap),
            Command::Drain => self.draining = true,
            Command::End => self.ending = true,
        }
    }

    /// A page of sessions.
    pub(crate) fn flows(&self, from: u64, now: Time) -> Page {
        self.sessions.page(from, now)
    }

    /// Ends sessions; gives how many there were.
    pub(crate) fn end_flows(&mut self, ended: &[Ended]) -> usize {
        self.sessions.begin(self.shared.clock.now());
        let count = self.sessions.end_all(ended);
        let guard = self.reader.pin();
        self.sessions.end_vector(self.shared.root.load(&guard), &self.shared.counters.sessions);
        self.sessions.flush();
        count
    }

    /// Matches a page of translations by the rules in force; gives where the next page begins.
    fn recheck(&mut self, from: u64) -> Option<u64> {
        let guard = self.reader.pin();
        let root = self.shared.root.load(&guard);
        let now = self.shared.clock.now();
        self.sessions.adopt(root, self.workers);
        self.sessions.begin(now);
        self.sessions.prepare();
        let next = self.sessions.recheck((root, &guard), from, now);
        self.sessions.end_vector(root, &self.shared.counters.sessions);
        self.sessions.flush();
        next
    }

    /// When this worker has something to do that no packet brings; `None`: never.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let packets = [self.hold.deadline(), self.reassembly.deadline(), self.fragments.deadline()];
        packets
            .into_iter()
            .chain([self.sessions.deadline(), self.flows.deadline(), self.bridges.deadline()])
            .flatten()
            .min()
    }

    /// Packets wait for neighbours or for other fragments of their datagram, and something may be done about it now.
    pub(crate) fn is_due(&mut self, now: Time) -> bool {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            return true;
        }
        if self.hold.is_empty() {
            return false;
        }
        let guard = self.reader.pin();
        self.shared.root.load(&guard).generation != self.hold.generation
    }

    /// Takes what other workers handed over; returns how many packets that is.
    fn take_handed(&mut self) -> usize {
        if self.sources.is_empty() {
            return 0;
        }
        let start = tsc::ticks();
        // Half of the vector is left to the worker's own ports, and each source is the first in turn, so that a fast
        // source cannot starve the others.
        let own = !self.draining && self.queues.iter().any(|queue| queue.state != Burst::Ended);
        let most = if own { VECTOR / 2 } else { VECTOR };
        let sources = self.sources.len();
        for index in 0..sources {
            let vector = &mut self.vector;
            self.sources[(self.source_turn + index) % sources].pop(most - vector.len(), |packet| {
                // There is room: no more packets were requested.
                let _ = vector.push(packet);
            });
        }
        self.source_turn = (self.source_turn + 1) % sources;
        for peer in self.peers.iter_mut().flatten().filter(|peer| peer.is_gone()) {
            let vector = &mut self.vector;
            peer.take_back(most - vector.len(), |packet| {
                let _ = vector.push(packet);
            });
        }
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
            let number = (self.turn + index) % queues;
            let queue = &mut self.queues[number];
            let first = self.vector.len();
            if first == VECTOR {
                break;
            }
            if queue.state == Burst::Ended {
                continue;
            }
            self.polled = Some(number);
            queue.state = queue.receiver.receive(&mut self.vector, &mut self.cache, now);
            for packet in &mut self.vector.filled()[first..] {
                // `ethernet-input` finds the interface; until then the field names the port.
                packet.set_interface(queue.port);
            }
        }
        self.polled = None;
        self.turn = self.turn.wrapping_add(1) % queues.max(1);
        let received = self.vector.len() - before;
        self.taken = received;
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

    /// Puts a packet into the next vector as if it had been taken out of a tunnel of an interface. Packets of ports come
    /// after it. Gives it back when the vector is full.
    pub(crate) fn inject_decapsulated(
        &mut self,
        interface: u32,
        nesting: u8,
        mut packet: Packet,
    ) -> Result<(), Packet> {
        packet.set_interface(interface);
        packet.set_nesting(nesting);
        packet.set_resume(Stage::IpInput as u8);
        self.vector.push(packet)?;
        self.shared.counters.received.add(1);
        Ok(())
    }

    /// Puts a packet into the next vector as if a policy had found an SA for it. Packets of ports come after it. Gives it back
    /// when the vector is full, or it is no packet of IP. `keeps_ttl`: its TTL or hop limit is not decremented.
    pub(crate) fn inject_protected(
        &mut self,
        interface: u32,
        sa: u32,
        mut packet: Packet,
        keeps_ttl: bool,
    ) -> Result<(), Packet> {
        let parsed = match packet.data().first().map(|first| first >> 4) {
            Some(4) => parse::ipv4(packet.data(), 0),
            _ => parse::ipv6(packet.data(), 0),
        };
        let Ok(parsed) = parsed else { return Err(packet) };
        packet.set_parsed(&parsed);
        packet.set_interface(interface);
        packet.set_forwarding(sa);
        if keeps_ttl {
            packet.add_state(ENCAPSULATED);
        }
        packet.set_resume(Stage::Encrypt as u8);
        self.vector.push(packet)?;
        self.shared.counters.received.add(1);
        Ok(())
    }

    /// Runs the graph over what was injected, the first `decapsulated` packets of which came out of tunnels, and over what
    /// need not wait for its neighbour any more.
    pub(crate) fn run_injected(&mut self, decapsulated: usize) {
        let now = self.shared.clock.now();
        let is_told = !self.outgoing.is_empty() || !self.wanted.is_empty() || self.requeue.is_deferred();
        if !self.vector.is_empty() || is_told || self.is_due(now) {
            self.run(decapsulated, now);
        }
    }

    /// Runs the graph over what other workers handed over; returns whether there was anything.
    pub(crate) fn run_handed(&mut self) -> bool {
        let handed = self.take_handed();
        if handed > 0 {
            self.run(handed, self.shared.clock.now());
            self.shared.counters.handed_in.add(handed as u64);
        }
        handed > 0
    }

    /// Runs the graph over the vector, whose first `handed` packets have been parsed by another worker. Whatever waited for
    /// a neighbour and need not any more goes first, so that nothing newer of its flow overtakes it.
    fn run(&mut self, handed: usize, now: Time) {
        let Worker {
            reader,
            shared,
            next,
            vector,
            pieces,
            batches,
            released,
            hold,
            reassembly,
            fragments,
            requeue,
            shares,
            merges,
            segments,
            sessions,
            flows,
            policies,
            bridges,
            notes,
            seed,
            random,
            events,
            samples,
            taps,
            outgoing,
            wanted,
            spare,
            cache,
            limits,
            peers,
            transmitters,
            recorder,
            ..
        } = self;
        let guard = reader.pin();
        let root = shared.root.load(&guard);
        sessions.adopt(root, self.workers);
        sessions.begin(now);
        flows.adopt(root, self.workers);
        policies.adopt(root, self.number);
        let mut context = Context {
            root,
            guard: &guard,
            now,
            seed,
            worker: self.number,
            counters: &shared.counters,
            cache,
            next,
            limits,
            hold,
            reassembly,
            fragments,
            requeue,
            sessions,
            flows,
            policies,
            notes,
            rules: root.acl.version(),
            random,
            events,
            samples,
            taps,
            peers,
            shares,
            merges,
            segments,
            transmitters,
            recorder,
        };
        let mut pass = Pass { context: &mut context, tracer: &shared.tracer, pieces, batches, spare };
        pass.before((outgoing, wanted), released, now);
        if !vector.is_empty() {
            pass.run(vector, handed, true);
        }
        pass.after(released, now);
        if root.bridges.is_active() || bridges.deadline().is_some() {
            bridges.visit(root, now);
        }
        pass.context.sessions.flush();
        let remembered = &shared.counters.remembered;
        remembered.add((pass.context.fragments.len() as u64).wrapping_sub(remembered.value()));
        events.flush();
        samples.flush();
        taps.flush();
        let books = Books { root, counters: &shared.counters, worker: self.number };
        transmitters.iter_mut().flatten().for_each(|outlet| outlet.kick(&books));
        shares.sent(root, self.number);
        peers.iter_mut().flatten().for_each(Peer::wake);
    }

    fn charge(&self, node: Node, packets: usize, start: u64) {
        self.shared.counters.nodes[node as usize].charge(packets, tsc::ticks().wrapping_sub(start));
    }

    /// Gives away the receive queues, with the numbers of their ports, after a failure: all but one that failed itself.
    pub(crate) fn abandon(&mut self) -> impl Iterator<Item = (u32, Box<dyn Receiver>)> {
        if let Some(number) = self.polled.take() {
            self.queues.remove(number);
        }
        std::mem::take(&mut self.queues).into_iter().map(|queue| (queue.port, queue.receiver))
    }

    /// Pushes out what the ports have buffered.
    pub(crate) fn flush(&mut self) {
        self.with_outlets(|outlets, books| outlets.iter_mut().flatten().for_each(|outlet| outlet.flush(books)));
    }

    /// Closes the transmit queues of all ports: every packet that they took is counted then.
    pub(crate) fn close_all(&mut self) {
        (0..self.transmitters.len()).for_each(|port| self.close(port));
    }

    /// Closes the transmit queue of a port, if there is one.
    fn close(&mut self, port: usize) {
        if let Some(outlet) = self.transmitters.get_mut(port).and_then(Option::take) {
            self.with_outlets(|_, books| outlet.close(books));
        }
    }

    /// Calls `act` with the ways out, and where their packets are counted.
    fn with_outlets(&mut self, act: impl FnOnce(&mut [Option<Outlet>], &Books<'_>)) {
        let guard = self.reader.pin();
        let root = self.shared.root.load(&guard);
        act(&mut self.transmitters, &Books { root, counters: &self.shared.counters, worker: self.number });
    }

    /// How many packets the last round took from the receive queues, and whether these have more.
    pub(crate) fn taken(&self) -> (usize, bool) {
        (self.taken, self.queues.iter().any(|queue| queue.state == Burst::More))
    }

    /// Returns whether another thread has brought work, or a time is due.
    pub(crate) fn is_called(&mut self) -> bool {
        let before = self.handled;
        self.read_mail();
        let now = self.shared.clock.now();
        self.handled != before || !self.sources.iter().all(Consumer::is_empty) || self.is_due(now)
    }

    /// Its clock.
    pub(crate) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    pub(crate) fn count_sleep(&self) {
        self.shared.counters.sleeps.add(1);
    }
}
