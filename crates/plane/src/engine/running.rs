//! The running gateway, as the control thread holds it.

use std::error::Error;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use weir_base::clock::Clock;
use weir_base::random::Entropy;
use weir_base::wake;
use weir_packet::buffer::{Pool, PoolSize};
use weir_port::links::Monitor;

use super::captures::{Capture, CaptureReader, TooManyCaptures};
use super::compiled::Compiled;
use super::control::{self, Control, State, root_numbers};
use super::error::EngineError;
use super::flows::{self, FlowFilter, FlowOrder};
use super::keeper;
use super::links::show_carriers;
use super::ports::{OpenPort, announcing, open_first};
use super::samples::Reader as SampleReader;
use super::stuck::Rounds;
use super::workers::{Parts, Workers};
use crate::compile::Settings;
use crate::graph::made::Made;
use crate::graph::streams::Stream;
use crate::graph::trace::Tracer;
use crate::graph::worker::Command;
use crate::model;
use crate::neighbor::control::Keeper;
use crate::root::ipsec::Numbers;
use crate::stats::{Flows, NatPool, NatUser, NatVrf, Snapshot, Translations};

/// How a gateway is to run.
pub struct Options {
    /// The clock.
    pub clock: Clock,
    /// Where all randomness comes from: keys of hashes, identifications, jitter.
    pub random: Entropy,
    /// Make up hardware addresses for neighbours that the configuration does not name.
    pub invent_neighbors: bool,
    /// Pin workers to CPUs.
    pub pin: bool,
}

/// A running gateway. Dropping it stops it.
pub struct Engine {
    pub(super) control: Arc<Control>,
    pub(super) keeper: keeper::Threads,
    pub(super) pool: Pool,
    pub(super) workers: Workers,
    pub(super) busy: Arc<AtomicUsize>,
    pub(super) rounds: Rounds,
    pub(super) samples: Option<SampleReader>,
    /// Somebody watches sessions.
    pub(super) is_watched: Arc<AtomicBool>,
}

/// A running gateway is its control side with threads and ports: listings and edits are those of [`Control`].
impl Deref for Engine {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

impl Engine {
    /// Opens the ports, compiles the model and starts the workers.
    ///
    /// # Errors
    /// If a port cannot be opened, or the system has no room; nothing is left behind.
    pub fn start(model: model::Gateway, options: Options) -> Result<Engine, EngineError> {
        Engine::start_after(model, options, |_| Ok(()))
    }

    /// Starts as [`Engine::start`] does, and calls `before_threads` on the calling thread once all ports are open and before
    /// any thread is started: what it gives up of the thread's privileges, no other thread has. It gets the sequence numbers
    /// of outbound SAs. The numbers that it reserves serve the first packets.
    ///
    /// # Errors
    /// As for [`Engine::start`], and when `before_threads` fails.
    pub fn start_after(
        model: model::Gateway,
        options: Options,
        before_threads: impl FnOnce(Numbers) -> Result<(), Box<dyn Error + Send + Sync>>,
    ) -> Result<Engine, EngineError> {
        let Options { clock, random, invent_neighbors, pin } = options;
        let count = usize::from(model.workers.count.max(1));
        let model::Buffers { small, large, .. } = model.buffers;
        let pool = Pool::new(PoolSize { small: small as usize, large: large as usize })
            .map_err(|source| EngineError::Buffers { small, large, source })?;
        // Before the ports look at their devices: no change falls in between.
        let monitor = Monitor::open();
        let ports = Mutex::default();
        let opened = open_first(&model, &pool, &ports)?;
        let mut ports = ports.into_inner().unwrap_or_else(PoisonError::into_inner);
        show_carriers(&model, &opened.places, &mut ports);
        let monitor = match monitor {
            Ok(monitor) => Some(monitor),
            Err(source) if ports.iter().flatten().any(|port| port.port.device().is_some()) => {
                return Err(EngineError::Monitor(source));
            }
            Err(_) => None,
        };
        let keeper = Keeper::new(&model, Stream::Neighbors.open(&random));
        let announcing = announcing(&ports, &opened.places);
        let secret = Stream::Tables.open(&random).words();
        let settings = Settings { workers: count, invent_neighbors, secret };
        let compiled = Compiled::new(model, settings, keeper, opened.places, &announcing)?;
        let tracer = Arc::<Tracer>::default();
        let busy = Arc::new(AtomicUsize::new(count));
        before_threads(root_numbers(&compiled.made)).map_err(EngineError::BeforeThreads)?;

        let (sleeper, waker) = wake::pair().map_err(EngineError::Keeper)?;
        let is_watched = Arc::<AtomicBool>::default();
        let wakers = wake::pair().map_err(EngineError::Keeper)?;
        let parts = Parts {
            domain: &compiled.domain,
            root: &compiled.root,
            tracer: &tracer,
            pool: &pool,
            clock: &clock,
            busy: &busy,
            keeper: &waker,
            sampler: &wakers.1,
            is_watched: &is_watched,
        };
        let (workers, rings) = Workers::start(&compiled.model, pin, &random, &parts)?;
        connect(&workers, &opened.new, &mut ports);
        workers.settle();
        receive(&workers, &opened.new, &mut ports);
        let root = Arc::clone(&compiled.root);
        let control = Arc::new(Control::new(control::Parts {
            reader: compiled.domain.reader()?,
            compiled,
            ports,
            tracer,
            clock: clock.clone(),
            senders: workers.iter().map(|worker| Arc::clone(&worker.sender)).collect(),
            counters: workers.iter().map(|worker| Arc::clone(&worker.counters)).collect(),
            waker: waker.clone(),
        }));
        let samples = SampleReader::new((rings.samples, rings.log, rings.sessions), wakers, root, clock);
        let parts = keeper::Parts { control: Arc::clone(&control), rings: rings.events, monitor, punts: None };
        Ok(Engine {
            control,
            keeper: keeper::Threads::start(parts, sleeper, waker).map_err(EngineError::Keeper)?,
            pool,
            workers,
            busy,
            rounds: Rounds::default(),
            samples: Some(samples),
            is_watched,
        })
    }

    /// Returns the reading ends of the workers' sample rings to the first caller.
    pub fn take_samples(&mut self) -> Option<SampleReader> {
        self.samples.take()
    }

    /// Has workers note sessions that begin and end ([`SampleReader::read_sessions`]), or no longer.
    pub fn watch_sessions(&self, is_watched: bool) {
        self.is_watched.store(is_watched, Ordering::Relaxed);
    }

    /// Begins a capture, made of the model in force. It ends when the reader is dropped.
    ///
    /// # Errors
    /// As for `order`; and [`TooManyCaptures`].
    pub fn capture<E>(
        &self,
        order: impl FnOnce(&model::Gateway) -> Result<Capture, E>,
    ) -> Result<Result<CaptureReader, TooManyCaptures>, E> {
        let begun = self.begin_capture(self.workers.len(), order)?;
        Ok(begun.map(|(taps, reader)| {
            for (worker, tap) in self.workers.iter().zip(taps) {
                worker.command(Command::Capture(Box::new(tap)));
            }
            reader
        }))
    }

    /// Sends keepalives of SAs, and ends those whose lifetime is over. To be called about 20 times a second.
    pub fn tend_sas(&self) {
        let due = self.due_of_sas();
        let mut packets: Vec<Vec<(u32, Made)>> = vec![Vec::new(); self.workers.len()];
        for (number, made) in due.packets {
            // Any worker may: numbers of a sequence are given to one at a time.
            packets[number as usize % self.workers.len()].push((number, made));
        }
        for (worker, packets) in self.workers.iter().zip(packets).filter(|(_, packets)| !packets.is_empty()) {
            worker.command(Command::Make(packets));
        }
        if !due.news.is_empty() {
            self.control.state().report(due.news);
        }
    }

    /// Every receive queue has ended and no packet is under way: nothing will ever happen again by itself.
    pub fn finished(&self) -> bool {
        // In this order: a queue that was given to a worker counts as busy before the command counts as done, and a packet
        // that was handed over as held before its giver counts as done.
        // After a failure nothing can be waited for: what the failed worker had is lost.
        if self.workers.iter().any(|worker| worker.has_failed()) {
            return true;
        }
        self.workers.iter().all(|worker| worker.is_up_to_date() || worker.is_gone())
            && self.busy.load(Ordering::Acquire) == 0
            && self.conservation().held == 0
    }

    /// Failures since the last call: a capture that turned out truncated, a disk that filled up, a worker that panicked.
    pub fn faults(&self) -> Vec<String> {
        let failures: Vec<String> = self.control.ports().iter().flatten().filter_map(OpenPort::failure).collect();
        let mut state = self.control.state();
        let State { told, untold, .. } = &mut *state;
        let mut new: Vec<String> = untold.drain(..).filter(|text| told.insert(text.clone())).collect();
        for (number, _) in self.workers.iter().enumerate().filter(|(_, worker)| worker.has_failed()) {
            let text = format!("worker {number} ended by mistake: restart the gateway");
            if told.insert(text.clone()) {
                new.push(text);
            }
        }
        if self.keeper.has_failed() {
            let text = "the keeper of neighbours ended by mistake: restart the gateway".to_owned();
            new.extend(Some(text).filter(|text| told.insert(text.clone())));
        }
        new.extend(failures.into_iter().filter(|text| told.insert(text.clone())));
        new
    }

    /// Sessions that a filter, made of the model in force, matches: at most so many, in this order.
    ///
    /// # Errors
    /// As for `filter`.
    pub fn flows<E>(
        &self,
        filter: impl FnOnce(&model::Gateway) -> Result<FlowFilter, E>,
        order: FlowOrder,
        most: usize,
    ) -> Result<Flows, E> {
        self.flows_of(|worker, from| self.workers[worker].flows(from), filter, order, most)
    }

    /// Translations, at most so many, the oldest first.
    ///
    /// # Errors
    /// As for `filter`.
    pub fn translations<E>(
        &self,
        filter: impl FnOnce(&model::Gateway) -> Result<FlowFilter, E>,
        most: usize,
    ) -> Result<Translations, E> {
        self.translations_of(|worker, from| self.workers[worker].flows(from), filter, most)
    }

    /// The outside addresses of rules that translate sources.
    pub fn nat_pools(&self) -> Vec<NatPool> {
        self.nat_pools_of(|worker, from| self.workers[worker].flows(from))
    }

    /// The inside addresses with the most translations, `most` of them.
    pub fn nat_users(&self, most: usize) -> Vec<NatUser> {
        self.nat_users_of(|worker, from| self.workers[worker].flows(from), most)
    }

    /// The VRFs that translate, with their limits.
    pub fn nat_vrfs(&self) -> Vec<NatVrf> {
        self.nat_vrfs_of(|worker, from| self.workers[worker].flows(from))
    }

    /// Ends the sessions that a filter matches; gives how many.
    ///
    /// # Errors
    /// As for `filter`.
    pub fn clear_flows<E>(&self, filter: impl FnOnce(&model::Gateway) -> Result<FlowFilter, E>) -> Result<usize, E> {
        let end = |worker: usize, from, filter: &_| {
            let worker = &self.workers[worker];
            let page = worker.flows(from)?;
            Some((worker.end_flows(flows::ended(&page, filter)), page.next))
        };
        self.end_flows_by(end, filter)
    }

    /// Stops receiving, lets every packet under way reach its end, ends the workers, and reads the counters.
    pub fn stop(mut self) -> Snapshot {
        self.halt();
        self.snapshot()
    }

    /// Stops as [`Engine::stop`] does, and remains readable: the last flush of a port may fail, too.
    pub fn halt(&mut self) {
        self.keeper.stop();
        self.workers.stop();
    }
}

/// Gives each worker a transmit queue of every one of these ports. All have them once they have settled.
pub(super) fn connect(workers: &Workers, numbers: &[u32], ports: &mut [Option<OpenPort>]) {
    for &number in numbers {
        let Some(port) = ports[number as usize].as_mut() else { continue };
        for (worker, transmitter) in workers.iter().zip(port.port.transmitters(workers.len())) {
            worker.command(Command::Transmit(number, transmitter));
        }
    }
}

/// Gives the receive queues of these ports to the workers in turn.
pub(super) fn receive(workers: &Workers, numbers: &[u32], ports: &mut [Option<OpenPort>]) {
    for &number in numbers {
        let Some(port) = ports[number as usize].as_mut() else { continue };
        for (index, receiver) in port.port.receivers().into_iter().enumerate() {
            workers[(number as usize + index) % workers.len()].command(Command::Receive(number, receiver));
        }
    }
}
