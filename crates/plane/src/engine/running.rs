//! The running gateway, as the control thread holds it.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_base::clock::Clock;
use weir_base::random::Entropy;
use weir_base::reclaim::{Domain, Published, Reader};
use weir_base::wake;
use weir_packet::buffer::{Pool, PoolSize};
use weir_port::links::Monitor;

use super::cleared::Cleared;
use super::collect;
use super::control::{self, Control, State};
use super::error::EngineError;
use super::keeper;
use super::ports::{OpenPort, announcing, open_first};
use super::samples::Reader as SampleReader;
use super::stuck::Rounds;
use super::upkeep::Upkeep;
use super::workers::{Parts, Workers};
use crate::compile::{Compiler, Settings};
use crate::graph::made::Made;
use crate::graph::streams::Stream;
use crate::graph::trace::Tracer;
use crate::graph::worker::Command;
use crate::model;
use crate::neighbor::control::{self as keeping, Keeper, News, Work};
use crate::root::Root;
use crate::root::ipsec::Numbers;
use crate::stats::Snapshot;

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
    /// Of who looks at tables as workers do, for people.
    pub(super) reader: Mutex<Reader>,
    pub(super) root: Arc<Published<Root>>,
    pub(super) tracer: Arc<Tracer>,
    pub(super) pool: Pool,
    pub(super) clock: Clock,
    pub(super) workers: Workers,
    pub(super) busy: Arc<AtomicUsize>,
    pub(super) rounds: Rounds,
    pub(super) samples: Option<SampleReader>,
    pub(super) upkeep: Mutex<Upkeep>,
    pub(super) cleared: Mutex<Cleared>,
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
        let model::Buffers { small, large } = model.buffers;
        let pool = Pool::new(PoolSize { small: small as usize, large: large as usize })
            .map_err(|source| EngineError::Buffers { small, large, source })?;
        let domain = Domain::new();
        let secret = Stream::Bridges.open(&random).words();
        let settings = Settings { workers: count, invent_neighbors, secret };
        let mut compiler = Compiler::new(&domain, settings, model.limits);

        // Before the ports look at their devices: no change falls in between.
        let monitor = Monitor::open();
        let ports = Mutex::default();
        let mut opened = open_first(&model, &pool, &ports)?;
        let mut ports = ports.into_inner().unwrap_or_else(PoisonError::into_inner);
        let monitor = match monitor {
            Ok(monitor) => Some(monitor),
            Err(source) if ports.iter().flatten().any(|port| port.port.device().is_some()) => {
                return Err(EngineError::Monitor(source));
            }
            Err(_) => None,
        };
        let mut keeper = Keeper::new(&model, Stream::Neighbors.open(&random));
        let announcing = announcing(&ports, &opened.places);
        let (prepared, links) = keeping::prepare(
            &compiler,
            compiler.stage_acls(&model)?,
            |links| keeper.unusable(links),
            &model,
            &mut opened.places,
            |index| announcing.contains(&index),
        )?;
        let (compiled, map) = compiler.commit(&model, prepared, true);
        let root = Arc::new(Published::new(compiled.clone(), &domain));
        let tracer = Arc::<Tracer>::default();
        let busy = Arc::new(AtomicUsize::new(count));
        before_threads(root_numbers(&compiled)).map_err(EngineError::BeforeThreads)?;

        let (sleeper, waker) = wake::pair().map_err(EngineError::Keeper)?;
        let wakers = wake::pair().map_err(EngineError::Keeper)?;
        let parts = Parts {
            domain: &domain,
            root: &root,
            tracer: &tracer,
            pool: &pool,
            clock: &clock,
            busy: &busy,
            keeper: &waker,
            sampler: &wakers.1,
        };
        let (workers, rings) = Workers::start(&model, pin, &random, &parts)?;
        connect(&workers, &opened.new, &mut ports);
        workers.settle();
        receive(&workers, &opened.new, &mut ports);
        let mut work = Work::default();
        keeper.adopt(&model, &map, links, clock.now(), &mut work);
        let down = |index: &u32| opened.places.ports.get(index).is_some_and(|place| place.down);
        for (_, interface) in (0..).zip(&model.interfaces).filter(|(index, _)| down(index)) {
            work.news.push(News::LinkDown { interface: interface.name.clone() });
        }
        let senders: Vec<_> = workers.iter().map(|worker| Arc::clone(&worker.sender)).collect();
        let control = Arc::new(Control::new(control::Parts {
            model,
            map,
            places: opened.places,
            keeper,
            compiled,
            compiler,
            ports,
            domain: domain.clone(),
            root: Arc::clone(&root),
            clock: clock.clone(),
            senders,
            waker: waker.clone(),
        }));
        control.carry_out(&mut control.state(), None, work);
        let samples = SampleReader::new((rings.samples, rings.log), wakers, Arc::clone(&root), clock.clone());
        let parts = keeper::Parts { control: Arc::clone(&control), rings: rings.events, monitor };
        Ok(Engine {
            control,
            keeper: keeper::Threads::start(parts, sleeper, waker).map_err(EngineError::Keeper)?,
            reader: Mutex::new(domain.reader()?),
            root,
            tracer,
            pool,
            clock,
            workers,
            busy,
            rounds: Rounds::default(),
            samples: Some(samples),
            upkeep: Mutex::default(),
            cleared: Mutex::default(),
        })
    }

    /// Returns the reading ends of the workers' sample rings to the first caller.
    pub fn take_samples(&mut self) -> Option<SampleReader> {
        self.samples.take()
    }

    /// The version in force.
    pub fn generation(&self) -> u64 {
        self.root.with(|root| root.model)
    }

    /// The model in force.
    pub fn model(&self) -> Arc<model::Gateway> {
        self.control.in_force().0
    }

    /// Sends keepalives of SAs, and ends those whose lifetime is over. To be called about 20 times a second.
    pub fn tend_sas(&self) {
        let now = self.clock.now();
        let due = {
            let mut upkeep = self.upkeep();
            self.root.with(|root| upkeep.step(now, &root.ipsec))
        };
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

    pub(super) fn upkeep(&self) -> MutexGuard<'_, Upkeep> {
        // A step that panicked has left out the rest of the SAs, which the next step looks at.
        self.upkeep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sequence numbers and the windows of the SAs in force, and the digests of their keys; and the directory in which numbers
    /// are reserved, if there is one.
    pub fn numbers(&self) -> (Option<std::path::PathBuf>, Numbers) {
        let (model, _) = self.control.in_force();
        (model.ipsec.state.clone(), self.root.with(root_numbers))
    }

    /// Returns the news since the last call: links, duplicate addresses, conflicts, full tables. Each is returned once;
    /// of more than a thousand, the latest.
    pub fn news(&self) -> Vec<News> {
        self.control.state().news.drain(..).collect()
    }

    /// Every receive queue has ended and no packet is under way: nothing will ever happen again by itself.
    pub fn finished(&self) -> bool {
        // In this order: a queue that was given to a worker counts as busy before the command counts as done, and a packet
        // that was handed over as held before its giver counts as done.
        let counters = self.workers.iter().map(|worker| &*worker.counters);
        // After a failure nothing can be waited for: what the failed worker had is lost.
        if self.workers.iter().any(|worker| worker.has_failed()) {
            return true;
        }
        self.workers.iter().all(|worker| worker.is_up_to_date() || worker.is_gone())
            && self.busy.load(Ordering::Acquire) == 0
            && collect::conservation(counters).held == 0
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

/// The sequence numbers and windows of the SAs of a root.
fn root_numbers(root: &Root) -> Numbers {
    let sas = || root.ipsec.sas.iter().flatten();
    let outbound = sas().filter_map(|sa| sa.outbound.as_ref());
    let inbound = sas().filter_map(|sa| sa.inbound.as_ref());
    Numbers {
        sequences: outbound.map(|own| (own.fingerprint, Arc::clone(&own.sequence))).collect(),
        windows: inbound.map(|own| (own.identity(), Arc::clone(&own.window))).collect(),
    }
}
