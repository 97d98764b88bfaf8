//! The workers of a harness, stepped in turns on the calling thread: so a run is the same each time.

use std::io;
use std::sync::Arc;

use weir_base::clock::Clock;
use weir_base::random::Entropy;
use weir_base::reclaim::{Domain, Published};
use weir_base::ring::Consumer;
use weir_base::wake;
use weir_packet::buffer::Pool;

use crate::engine::workers::{CommandSender, rings};
use crate::graph::counters::WorkerCounters;
use crate::graph::events::Event;
use crate::graph::record::Recorder;
use crate::graph::sample::Sample;
use crate::graph::session::{NatEvent, SessionEvent};
use crate::graph::trace::Tracer;
use crate::graph::worker::{Shared, Worker};
use crate::root::Root;

/// The parts that all workers share with the harness.
pub(super) struct Parts<'a> {
    pub(super) domain: &'a Domain,
    pub(super) root: &'a Arc<Published<Root>>,
    pub(super) tracer: &'a Arc<Tracer>,
    pub(super) pool: &'a Pool,
    pub(super) clock: Clock,
    pub(super) entropy: &'a Entropy,
}

/// The rings that the caller reads, by worker.
#[derive(Default)]
pub(super) struct Rings {
    pub(super) events: Vec<Consumer<Event>>,
    pub(super) samples: Vec<Consumer<Sample>>,
    pub(super) log: Vec<Consumer<NatEvent>>,
    pub(super) sessions: Vec<Consumer<SessionEvent>>,
}

/// The workers: one at least.
pub(super) struct Workers {
    first: Worker,
    others: Vec<Worker>,
}

impl Workers {
    /// Makes so many workers with rings between all of them. They record the fates of packets. Returns the command sender of the
    /// first worker, and the counters of all, too.
    ///
    /// # Errors
    /// If the system has no descriptors left.
    pub(super) fn new(
        count: usize,
        parts: &Parts<'_>,
    ) -> io::Result<(Workers, Arc<CommandSender>, Vec<Arc<WorkerCounters>>)> {
        let (mut counters, mut senders) = (Vec::new(), Vec::new());
        let wakers: io::Result<Vec<_>> = (0..count.max(1)).map(|_| wake::pair().map(|(_, waker)| waker)).collect();
        let wakers = wakers?;
        let mut worker = |number: usize, (peers, sources)| {
            let own = Arc::<WorkerCounters>::default();
            counters.push(Arc::clone(&own));
            let shared = Shared {
                root: Arc::clone(parts.root),
                tracer: Arc::clone(parts.tracer),
                counters: own,
                clock: parts.clock.clone(),
                entropy: parts.entropy.clone(),
            };
            let reader = parts.domain.reader().expect("a domain that was made just now has free slots");
            let (sender, mailbox) = CommandSender::new(wakers[number].clone());
            senders.push(sender);
            let mut worker = Worker::new(number, count, shared, reader, parts.pool.cache(), mailbox, peers, sources);
            worker.recorder = Recorder::of_all();
            worker
        };
        // A worker alone hands nothing over.
        let mut ways = if count <= 1 { Vec::new() } else { rings(&wakers) }.into_iter().enumerate();
        let first = ways.next().map_or_else(Default::default, |(_, own)| own);
        let first = worker(0, first);
        let others = ways.map(|(number, own)| worker(number, own)).collect();
        Ok((Workers { first, others }, senders.swap_remove(0), counters))
    }

    /// All workers, by number.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Worker> {
        std::iter::once(&self.first).chain(&self.others)
    }

    /// All workers, by number, to be changed.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Worker> {
        std::iter::once(&mut self.first).chain(&mut self.others)
    }

    /// The worker that gets packets of no port, and commands of the control side.
    pub(super) fn first(&mut self) -> &mut Worker {
        &mut self.first
    }

    /// The worker that receives from a port.
    pub(super) fn of_port(&mut self, port: u32) -> &mut Worker {
        let number = port as usize % (self.others.len() + 1);
        match number.checked_sub(1) {
            Some(other) => &mut self.others[other],
            None => &mut self.first,
        }
    }

    /// Runs the graph over what was injected, of which the first `decapsulated` packets of the first worker came out of tunnels; then
    /// over what workers hand over, until nothing is left.
    pub(super) fn run(&mut self, decapsulated: usize) {
        self.first.read_mail();
        self.first.run_injected(decapsulated);
        self.others.iter_mut().for_each(|worker| worker.run_injected(0));
        if self.others.is_empty() {
            return;
        }
        while self.iter_mut().fold(false, |any, worker| worker.run_handed() | any) {}
    }
}
