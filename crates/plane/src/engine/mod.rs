//! The running gateway, as the control thread holds it: ports, workers, the compiler, and what they count.

mod crew;
mod error;
mod health;
mod ports;
mod report;

use std::collections::HashSet;
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use weir_base::clock::Clock;
use weir_base::random::Random;
use weir_base::reclaim::{Domain, Published};
use weir_base::tsc;
use weir_packet::buffer::{Pool, PoolSize};

use crate::collect;
use crate::compile::{Compiler, Map, Settings};
use crate::counters::{Counter, WorkerCounters};
use crate::model;
use crate::node::Node;
use crate::root::Root;
use crate::stats::{self, Snapshot};
use crate::trace::Tracer;
use crate::worker::Order;

use crew::{Crew, Parts};
pub use error::{EngineError, UnknownNode};
use ports::{OpenPort, open_ports};
use report::{count, difference, interfaces, tables};

/// How a gateway is to run.
pub struct Options {
    /// What time it is.
    pub clock: Clock,
    /// Seeds of hashes.
    pub random: Random,
    /// Make up hardware addresses for neighbours that the configuration does not name.
    pub invent_neighbors: bool,
    /// Pin workers to CPUs.
    pub pin: bool,
}

/// What a reload changed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reloaded {
    /// The version now in force.
    pub generation: u64,
    /// Interfaces that came.
    pub added: Vec<String>,
    /// Interfaces that went.
    pub removed: Vec<String>,
    /// Interfaces that were changed.
    pub changed: Vec<String>,
    /// Routes in force now, and before.
    pub routes: (usize, usize),
}

/// What to clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clear {
    /// Node clocks and rates.
    Runtime,
    /// Drop reasons.
    Errors,
    /// Interface counters.
    Interfaces,
    /// Traces, and what was to be traced.
    Trace,
    /// All of these.
    All,
}

/// A running gateway. Dropping it stops it.
pub struct Engine {
    control: Mutex<Control>,
    domain: Domain,
    root: Arc<Published<Root>>,
    tracer: Arc<Tracer>,
    pool: Pool,
    clock: Clock,
    workers: Crew,
    busy: Arc<AtomicUsize>,
    rounds: health::Rounds,
}

struct Control {
    model: model::Gateway,
    compiler: Compiler,
    map: Map,
    /// By number; `None` once closed.
    ports: Vec<Option<OpenPort>>,
    baseline: Baseline,
    /// Failures that were told.
    told: HashSet<String>,
    /// Failures of ports that were closed since.
    untold: Vec<String>,
}

/// What was counted when counters were last cleared: subtracted from then on, so that workers never have to reset.
#[derive(Default)]
struct Baseline {
    runtime: Snapshot,
    errors: Snapshot,
    interfaces: Snapshot,
    since: u64,
}

impl Engine {
    /// Opens the ports, compiles the model and starts the workers.
    ///
    /// # Errors
    /// When a port can not be opened, or the system has no room; nothing is left behind.
    pub fn start(model: model::Gateway, options: Options) -> Result<Engine, EngineError> {
        Engine::start_after(model, options, || Ok(()))
    }

    /// Starts as [`Engine::start`] does, and calls `before_threads` on the calling thread once all ports are open and before
    /// any thread is started: what it gives up of the thread's privileges, no other thread has.
    ///
    /// # Errors
    /// As for [`Engine::start`], and when `before_threads` fails.
    pub fn start_after(
        model: model::Gateway,
        options: Options,
        before_threads: impl FnOnce() -> Result<(), Box<dyn Error + Send + Sync>>,
    ) -> Result<Engine, EngineError> {
        let Options { clock, mut random, invent_neighbors, pin } = options;
        let count = usize::from(model.workers.count.max(1));
        let model::Buffers { small, large } = model.buffers;
        let pool = Pool::new(PoolSize { small: small as usize, large: large as usize })
            .map_err(|source| EngineError::Buffers { small, large, source })?;
        let domain = Domain::new();
        let settings = Settings { workers: count, invent_neighbors };
        let mut compiler = Compiler::new(&domain, settings, model.limits);

        let mut ports = Vec::new();
        let opened = open_ports(&model, &[], &mut ports)?;
        let (root, map) = compiler.compile(&model, &opened.places)?;
        let root = Arc::new(Published::new(root, &domain));
        let tracer = Arc::<Tracer>::default();
        let busy = Arc::new(AtomicUsize::new(count));
        before_threads().map_err(EngineError::BeforeThreads)?;

        let parts = Parts { domain: &domain, root: &root, tracer: &tracer, pool: &pool, clock: &clock, busy: &busy };
        let workers = Crew::start(&model, pin, [random.next(), random.next()], &parts)?;
        let engine = Engine {
            control: Mutex::new(Control {
                model,
                compiler,
                map,
                ports: Vec::new(),
                baseline: Baseline { since: clock.now().0, ..Baseline::default() },
                told: HashSet::new(),
                untold: Vec::new(),
            }),
            domain,
            root,
            tracer,
            pool,
            clock,
            workers,
            busy,
            rounds: health::Rounds::default(),
        };
        engine.connect(&opened.new, &mut ports);
        engine.receive(&opened.new, &mut ports);
        engine.lock().ports = ports;
        Ok(engine)
    }

    /// Gives each worker a transmit queue of every one of these ports, and waits until all have them.
    fn connect(&self, numbers: &[u32], ports: &mut [Option<OpenPort>]) {
        for &number in numbers {
            let Some(port) = ports[number as usize].as_mut() else { continue };
            for (worker, transmitter) in self.workers.iter().zip(port.port.transmitters(self.workers.len())) {
                worker.order(Order::Transmit(number, transmitter));
            }
        }
        self.workers.settle();
    }

    /// Gives the receive queues of these ports to the workers in turn.
    fn receive(&self, numbers: &[u32], ports: &mut [Option<OpenPort>]) {
        for &number in numbers {
            let Some(port) = ports[number as usize].as_mut() else { continue };
            for (index, receiver) in port.port.receivers().into_iter().enumerate() {
                self.workers[(number as usize + index) % self.workers.len()].order(Order::Receive(number, receiver));
            }
        }
    }

    /// Puts a new model into force: ports are opened and tables written first, then everything changes at once, packet
    /// by packet no one sees a mixture. On any error the old model goes on as if nothing had been tried.
    ///
    /// # Errors
    /// As for [`Engine::start`], and when something changed that only a start can change.
    pub fn reload(&self, model: model::Gateway) -> Result<Reloaded, EngineError> {
        let mut control = self.lock();
        let control = &mut *control;
        if model.workers != control.model.workers {
            return Err(EngineError::NeedsRestart { what: "the number or place of workers" });
        }
        if model.buffers != control.model.buffers {
            return Err(EngineError::NeedsRestart { what: "the number of packet buffers" });
        }
        if model.limits != control.model.limits {
            return Err(EngineError::NeedsRestart { what: "the limits of tables" });
        }
        let known = control.ports.len();
        let opened = match open_ports(&model, &control.model.interfaces, &mut control.ports) {
            Ok(opened) => opened,
            Err(error) => {
                control.ports.truncate(known);
                return Err(error);
            }
        };
        let before = count(&control.compiler);
        let (root, map) = match control.compiler.compile(&model, &opened.places) {
            Ok(compiled) => compiled,
            Err(error) => {
                control.ports.truncate(known);
                return Err(error.into());
            }
        };
        // New ports can send before anything is routed to them, and receive once it is known what belongs to them; old
        // ones are closed after nothing is routed to them.
        self.connect(&opened.new, &mut control.ports);
        let generation = root.generation;
        let mut report = difference(&control.model, &model);
        report.generation = generation;
        report.routes = (count(&control.compiler), before);
        self.root.publish(root);
        self.workers.wake();
        for worker in self.workers.iter() {
            // A reload that leaves the limits alone fills no bucket up.
            if (model.icmp, model.neighbor_discovery) != (control.model.icmp, control.model.neighbor_discovery) {
                worker.order(Order::Limit(model.icmp, model.neighbor_discovery));
            }
            for &number in &opened.gone {
                worker.order(Order::Forget(number));
            }
        }
        self.receive(&opened.new, &mut control.ports);
        // Workers let go of a port before it counts as closed: whatever it wrote is written.
        self.workers.settle();
        for &number in &opened.gone {
            let closed = control.ports[number as usize].take();
            // What its last flush met is known only now.
            control.untold.extend(closed.and_then(|port| port.failure()));
        }
        control.model = model;
        control.map = map;
        self.domain.collect();
        control.compiler.collect();
        Ok(report)
    }

    /// The version in force.
    pub fn generation(&self) -> u64 {
        self.root.with(|root| root.generation)
    }

    /// One reading of every counter.
    pub fn snapshot(&self) -> Snapshot {
        let mut control = self.lock();
        let control = &mut *control;
        self.domain.collect();
        control.compiler.collect();
        let now = self.read(control);
        let elapsed = self.clock.now().0.saturating_sub(control.baseline.since) as f64 / 1e9;
        collect::since(now, &control.baseline.runtime, &control.baseline.errors, &control.baseline.interfaces, elapsed)
    }

    /// Every counter from the start on.
    fn read(&self, control: &Control) -> Snapshot {
        let occupancy = self.pool.occupancy();
        let waiting = |of: fn(&WorkerCounters) -> (&Counter, &Counter)| {
            let each = self.workers.iter().map(|worker| of(&worker.counters));
            each.map(|(came, went)| came.value().saturating_sub(went.value())).sum()
        };
        let waiting = report::Waiting {
            packets: waiting(|counters| (&counters.queued, &counters.dequeued)),
            datagrams: waiting(|counters| (&counters.begun, &counters.ended)),
        };
        Snapshot {
            elapsed: 0.0,
            tick_frequency: tsc::frequency(),
            workers: self
                .workers
                .iter()
                .enumerate()
                .map(|(number, worker)| {
                    collect::worker(number, worker.core, worker.waker.is_asleep(), &worker.counters)
                })
                .collect(),
            drops: collect::drops(self.workers.iter().map(|worker| &*worker.counters)),
            interfaces: self.root.with(|root| interfaces(control, root)),
            conservation: collect::conservation(self.workers.iter().map(|worker| &*worker.counters)),
            buffers: stats::BufferStats {
                small: occupancy.small,
                large: occupancy.large,
                huge_pages: occupancy.pages == weir_base::region::Pages::Huge,
            },
            tables: tables(control, &waiting, self.workers.len()),
        }
    }

    /// Every route of every VRF, by VRF and prefix.
    pub fn routes(&self) -> Vec<stats::RouteRow> {
        let control = self.lock();
        self.root.with(|root| crate::show::routes(&control.model, &control.map, &control.compiler, root))
    }

    /// Every neighbour.
    pub fn neighbors(&self) -> Vec<stats::NeighborRow> {
        crate::show::neighbors(&self.lock().model)
    }

    /// Traces the next `count` packets that enter a node.
    ///
    /// # Errors
    /// When there is no node of this name.
    pub fn trace_add(&self, node: &str, count: u32) -> Result<(), UnknownNode> {
        let node = Node::named(node).ok_or_else(|| UnknownNode { name: node.to_owned() })?;
        self.tracer.request(node, count);
        Ok(())
    }

    /// What was traced.
    pub fn traces(&self) -> Vec<stats::TraceRow> {
        self.root.with(|root| crate::show::trace_rows(&self.tracer.traces(), root))
    }

    /// Counts from 0 again. The totals of all packets are never cleared.
    pub fn clear(&self, what: Clear) {
        let mut control = self.lock();
        let mut now = self.read(&control);
        // Those that are away may come back, and their counters with them.
        self.root.with(|root| {
            now.interfaces.extend(root.interfaces.iter().filter(|interface| !interface.present).map(|interface| {
                let counted = collect::interface(&interface.counters, None, false);
                stats::InterfaceStats { name: interface.name.to_string(), ..counted }
            }));
        });
        let all = what == Clear::All;
        if all || what == Clear::Runtime {
            control.baseline.runtime = now.clone();
            control.baseline.since = self.clock.now().0;
        }
        if all || what == Clear::Errors {
            control.baseline.errors = now.clone();
        }
        if all || what == Clear::Interfaces {
            control.baseline.interfaces = now;
        }
        if all || what == Clear::Trace {
            self.tracer.clear();
        }
    }

    /// Every receive queue has ended and no packet is under way: nothing will ever happen again by itself.
    pub fn finished(&self) -> bool {
        // In this order: a queue that was given to a worker counts as busy before the order counts as done, and a packet
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
        let mut control = self.lock();
        let Control { ports, told, untold, .. } = &mut *control;
        let mut new: Vec<String> = untold.drain(..).filter(|text| told.insert(text.clone())).collect();
        for (number, _) in self.workers.iter().enumerate().filter(|(_, worker)| worker.has_failed()) {
            let text = format!("worker {number} ended by mistake: restart the gateway");
            if told.insert(text.clone()) {
                new.push(text);
            }
        }
        for port in ports.iter().flatten() {
            new.extend(port.failure().filter(|text| told.insert(text.clone())));
        }
        new
    }

    /// Stops receiving, lets every packet under way reach its end, ends the workers, and reads the counters.
    pub fn stop(mut self) -> Snapshot {
        self.halt();
        self.snapshot()
    }

    /// Stops as [`Engine::stop`] does, and stays to be asked: the last flush of a port may fail, too.
    pub fn halt(&mut self) {
        self.workers.stop();
    }

    fn lock(&self) -> MutexGuard<'_, Control> {
        // A panic in between left at worst a port open that no one uses.
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
