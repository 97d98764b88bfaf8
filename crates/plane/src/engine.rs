//! The running gateway, as the control thread holds it: ports, workers, the compiler, and what they count.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_base::clock::Clock;
use weir_base::random::Random;
use weir_base::reclaim::{Domain, Published, TooManyReaders};
use weir_base::ring::{Consumer, Producer, ring};
use weir_base::{affinity, tsc};
use weir_packet::buffer::{MAX_FRAME, Pool, PoolSize};
use weir_packet::packet::Packet;
use weir_packet::parse::Seed;
use weir_port::spec::PortSpec;
use weir_port::{Link, OpenError, Port};

use crate::collect;
use crate::compile::{Compiler, Map, PortPlace, Settings, TableFull};
use crate::counters::WorkerCounters;
use crate::model::{self, InterfaceKind, Origin};
use crate::node::Node;
use crate::rib::Rib;
use crate::root::{Root, derived_mac};
use crate::stats::{self, Snapshot};
use crate::trace::Tracer;
use crate::worker::{Order, Round, Shared, Worker};

/// Packets that a ring between two workers holds.
const RING: usize = 4096;

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

/// Why a gateway could not be started or changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// A port could not be opened.
    #[error("interface {interface}: {source}")]
    Port {
        /// The interface it is for.
        interface: String,
        /// Where the interface was declared.
        origin: Origin,
        /// Why.
        source: OpenError,
    },
    /// A capture file that a port would write is being written: opening it would cut off what is there.
    #[error("interface {interface}: {} is being written by interface {by}: name another file, or restart", path.display())]
    FileTaken {
        /// The interface it is for.
        interface: String,
        /// Where the interface was declared.
        origin: Origin,
        /// The file.
        path: PathBuf,
        /// The interface whose port writes it.
        by: String,
    },
    /// No room for packet buffers.
    #[error("no room for {small} small and {large} large packet buffers: {source}")]
    Buffers {
        /// Small buffers wanted.
        small: u32,
        /// Large buffers wanted.
        large: u32,
        /// What the system said.
        source: io::Error,
    },
    /// A table has no room for the routes.
    #[error(transparent)]
    TableFull(#[from] TableFull),
    /// What was changed can only change at a start.
    #[error("{what} can not change while the gateway runs: restart it")]
    NeedsRestart {
        /// What was changed.
        what: &'static str,
    },
    /// A worker's thread could not be started or pinned.
    #[error("worker {worker}: {source}")]
    Thread {
        /// Its number.
        worker: usize,
        /// What the system said.
        source: io::Error,
    },
    /// More workers than readers of the root.
    #[error(transparent)]
    Readers(#[from] TooManyReaders),
}

/// There is no node of this name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no node is called `{name}`; there are {}", Node::ALL.iter().map(|node| node.name()).collect::<Vec<_>>().join(", "))]
pub struct UnknownNode {
    /// What was asked for.
    pub name: String,
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
}

/// The workers. Dropping it stops them.
struct Crew(Vec<WorkerHandle>);

impl std::ops::Deref for Crew {
    type Target = [WorkerHandle];

    fn deref(&self) -> &[WorkerHandle] {
        &self.0
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        stop(&mut self.0);
    }
}

struct WorkerHandle {
    orders: mpsc::Sender<Order>,
    /// Orders sent so far.
    sent: AtomicU64,
    /// Orders that the worker has read, and done a round since.
    obeyed: Arc<AtomicU64>,
    counters: Arc<WorkerCounters>,
    thread: Option<JoinHandle<()>>,
    core: Option<usize>,
}

impl WorkerHandle {
    fn order(&self, order: Order) {
        self.sent.fetch_add(1, Ordering::Relaxed);
        // A worker that panicked reads nothing any more.
        let _ = self.orders.send(order);
    }

    /// Nothing that it was told is still to be done.
    fn is_up_to_date(&self) -> bool {
        self.obeyed.load(Ordering::Acquire) == self.sent.load(Ordering::Relaxed)
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }

    fn is_gone(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

struct Control {
    model: model::Gateway,
    compiler: Compiler,
    map: Map,
    /// By number; `None` once closed.
    ports: Vec<Option<OpenPort>>,
    baseline: Baseline,
    told: HashSet<String>,
}

struct OpenPort {
    interface: String,
    port: Box<dyn Port>,
    kind: InterfaceKind,
    mac: [u8; 6],
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
        let Options { clock, mut random, invent_neighbors, pin } = options;
        let count = usize::from(model.workers.count.max(1));
        let model::Buffers { small, large } = model.buffers;
        let pool = Pool::new(PoolSize { small: small as usize, large: large as usize })
            .map_err(|source| EngineError::Buffers { small, large, source })?;
        let domain = Domain::new();
        let settings = Settings { workers: count, hash_seed: random.next(), invent_neighbors };
        let mut compiler = Compiler::new(&domain, settings, model.limits);

        let mut ports = Vec::new();
        let opened = open_ports(&model, &[], &mut ports)?;
        let (root, map) = compiler.compile(&model, &opened.places)?;
        let root = Arc::new(Published::new(root, &domain));
        let tracer = Arc::<Tracer>::default();
        let seed = [random.next(), random.next()];
        let busy = Arc::new(AtomicUsize::new(count));

        let cores = cores(&model, count, pin)?;
        let mut rings = rings(count);
        let mut workers = Crew(Vec::with_capacity(count));
        for (number, core) in cores.into_iter().enumerate() {
            let (peers, sources) = rings.remove(0);
            let (orders, mailbox) = mpsc::channel();
            let counters = Arc::<WorkerCounters>::default();
            let shared = Shared {
                root: Arc::clone(&root),
                tracer: Arc::clone(&tracer),
                counters: Arc::clone(&counters),
                clock: clock.clone(),
                seed: Seed::new(seed),
            };
            let reader = domain.reader()?;
            let worker = Worker::new(number, count, shared, reader, pool.cache(), mailbox, peers, sources);
            let obeyed = Arc::<AtomicU64>::default();
            let (ready, started) = mpsc::channel();
            let (busy, done) = (Arc::clone(&busy), Arc::clone(&obeyed));
            let thread = thread::Builder::new()
                .name(format!("weir_wk_{number}"))
                .spawn(move || {
                    let pinned = core.map_or(Ok(()), affinity::pin);
                    let failed = pinned.is_err();
                    let _ = ready.send(pinned);
                    if !failed {
                        work(worker, &busy, &done);
                    }
                })
                .map_err(|source| EngineError::Thread { worker: number, source })?;
            let handle = WorkerHandle { orders, sent: AtomicU64::new(0), obeyed, counters, thread: Some(thread), core };
            handle.order(Order::Limit(model.icmp));
            workers.0.push(handle);
            // A thread that ended without a word is one that panicked.
            let pinned = started.recv().unwrap_or_else(|_| Err(io::Error::other("the thread ended")));
            if let Err(source) = pinned {
                return Err(EngineError::Thread { worker: number, source });
            }
        }
        let engine = Engine {
            control: Mutex::new(Control {
                model,
                compiler,
                map,
                ports: Vec::new(),
                baseline: Baseline { since: clock.now().0, ..Baseline::default() },
                told: HashSet::new(),
            }),
            domain,
            root,
            tracer,
            pool,
            clock,
            workers,
            busy,
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
        self.settle();
    }

    /// Waits until the workers have done what they were told.
    fn settle(&self) {
        while !self.workers.iter().all(|worker| worker.is_up_to_date() || worker.is_gone()) {
            self.wake();
            thread::sleep(Duration::from_micros(50));
        }
    }

    /// Gives the receive queues of these ports to the workers in turn.
    fn receive(&self, numbers: &[u32], ports: &mut [Option<OpenPort>]) {
        for &number in numbers {
            let Some(port) = ports[number as usize].as_mut() else { continue };
            for (index, receiver) in port.port.receivers().into_iter().enumerate() {
                self.workers[(number as usize + index) % self.workers.len()].order(Order::Receive(number, receiver));
            }
        }
        self.wake();
    }

    fn wake(&self) {
        self.workers.iter().for_each(WorkerHandle::wake);
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
        for worker in self.workers.iter() {
            // A reload that leaves the limits alone fills no bucket up.
            if model.icmp != control.model.icmp {
                worker.order(Order::Limit(model.icmp));
            }
            for &number in &opened.gone {
                worker.order(Order::Forget(number));
            }
        }
        self.receive(&opened.new, &mut control.ports);
        // Workers let go of a port before it counts as closed: whatever it wrote is written.
        self.settle();
        for &number in &opened.gone {
            control.ports[number as usize] = None;
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
        Snapshot {
            elapsed: 0.0,
            tick_frequency: tsc::frequency(),
            workers: self
                .workers
                .iter()
                .enumerate()
                .map(|(number, worker)| collect::worker(number, worker.core, &worker.counters))
                .collect(),
            drops: collect::drops(self.workers.iter().map(|worker| &*worker.counters)),
            interfaces: self.root.with(|root| interfaces(control, root)),
            conservation: collect::conservation(self.workers.iter().map(|worker| &*worker.counters)),
            buffers: stats::BufferStats {
                small: occupancy.small,
                large: occupancy.large,
                huge_pages: occupancy.pages == weir_base::region::Pages::Huge,
            },
            tables: tables(control),
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
        self.workers.iter().all(|worker| worker.is_up_to_date() || worker.is_gone())
            && self.busy.load(Ordering::Acquire) == 0
            && collect::conservation(counters).held == 0
    }

    /// Failures since the last call: a capture that turned out truncated, a disk that filled up, a worker that panicked.
    pub fn faults(&self) -> Vec<String> {
        let mut control = self.lock();
        let Control { ports, told, .. } = &mut *control;
        let mut new = Vec::new();
        for (number, worker) in self.workers.iter().enumerate().filter(|(_, worker)| worker.is_gone()) {
            let text = format!("worker {number} ended by mistake: restart the gateway");
            if worker.thread.is_some() && told.insert(text.clone()) {
                new.push(text);
            }
        }
        for port in ports.iter().flatten() {
            if let Some(fault) = port.port.failure() {
                let text = format!("interface {}: {fault}", port.interface);
                if told.insert(text.clone()) {
                    new.push(text);
                }
            }
        }
        new
    }

    /// Stops receiving, lets every packet under way reach its end, ends the workers, and reads the counters.
    pub fn stop(mut self) -> Snapshot {
        stop(&mut self.workers.0);
        self.snapshot()
    }

    fn lock(&self) -> MutexGuard<'_, Control> {
        // A panic in between left at worst a port open that no one uses.
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends workers in two steps: first all stop taking packets from ports, then, when no one hands anything over any
/// more, all finish what they were handed.
fn stop(workers: &mut [WorkerHandle]) {
    for worker in workers.iter() {
        worker.order(Order::Drain);
    }
    for worker in workers.iter() {
        while !worker.is_up_to_date() && !worker.is_gone() {
            worker.wake();
            thread::sleep(Duration::from_micros(50));
        }
    }
    for worker in workers.iter() {
        worker.order(Order::End);
    }
    for worker in workers {
        if let Some(thread) = worker.thread.take() {
            thread.thread().unpark();
            // A worker that panicked has said so on stderr; its counters are still there.
            let _ = thread.join();
        }
    }
}

/// A worker's thread: rounds without pause while there are packets, pauses that grow to 100 µs when there are none.
fn work(mut worker: Worker, busy: &AtomicUsize, obeyed: &AtomicU64) {
    let mut idle = 0u32;
    let mut counted = true;
    let mut told = 0;
    loop {
        let round = worker.round();
        // A worker whose queues have all ended no longer counts as busy.
        let counts = matches!(round, Round::Busy | Round::Idle);
        if counts != counted {
            if counts {
                busy.fetch_add(1, Ordering::AcqRel)
            } else {
                busy.fetch_sub(1, Ordering::AcqRel)
            };
            counted = counts;
        }
        if worker.obeyed != told {
            told = worker.obeyed;
            obeyed.store(told, Ordering::Release);
        }
        if round == Round::Busy {
            idle = 0;
            continue;
        }
        if round == Round::Ended {
            worker.flush();
            return;
        }
        idle = idle.saturating_add(1);
        match idle {
            0..=64 => std::hint::spin_loop(),
            65 => worker.flush(),
            66..=128 => thread::yield_now(),
            _ => thread::park_timeout(Duration::from_micros(100)),
        }
    }
}

/// The CPU of each worker.
fn cores(model: &model::Gateway, count: usize, pin: bool) -> Result<Vec<Option<usize>>, EngineError> {
    if !pin {
        return Ok(vec![None; count]);
    }
    if !model.workers.cores.is_empty() {
        return Ok(model.workers.cores.iter().map(|&core| Some(usize::from(core))).collect());
    }
    let allowed = affinity::allowed().map_err(|source| EngineError::Thread { worker: 0, source })?;
    // From the last one down: the first is where everything else on the machine tends to run.
    Ok((0..count).map(|worker| allowed.iter().rev().nth(worker % allowed.len().max(1)).copied()).collect())
}

type Rings = (Vec<Option<Producer<Packet>>>, Vec<Consumer<Packet>>);

/// A ring from every worker to every other.
fn rings(count: usize) -> Vec<Rings> {
    let mut ends: Vec<Rings> = (0..count).map(|_| (Vec::new(), Vec::new())).collect();
    for from in 0..count {
        for to in 0..count {
            if from == to {
                ends[from].0.push(None);
            } else {
                let (producer, consumer) = ring(RING);
                ends[from].0.push(Some(producer));
                ends[to].1.push(consumer);
            }
        }
    }
    ends
}

struct Opened {
    /// Where each interface of kind `Port` stands, by the model's index.
    places: HashMap<u32, PortPlace>,
    /// Numbers of ports that were opened now.
    new: Vec<u32>,
    /// Numbers of ports that no interface uses any more.
    gone: Vec<u32>,
}

/// Opens the ports of a model that are not open yet, at the end of `ports`. A port whose specification changed is a new
/// port. `before` are the interfaces of the model in force.
fn open_ports(
    model: &model::Gateway,
    before: &[model::Interface],
    ports: &mut Vec<Option<OpenPort>>,
) -> Result<Opened, EngineError> {
    let mut opened = Opened { places: HashMap::new(), new: Vec::new(), gone: Vec::new() };
    let mut kept = HashSet::new();
    for (index, interface) in model.interfaces.iter().enumerate() {
        let InterfaceKind::Port { port, middleware, queues } = &interface.kind else { continue };
        let mac = interface.mac.map_or(derived_mac(&interface.name).0, |mac| mac.0);
        let same = before.iter().any(|other| other.name == interface.name && other.kind == interface.kind);
        let known = ports.iter().position(|known| {
            known.as_ref().is_some_and(|known| {
                known.interface == interface.name && known.kind == interface.kind && known.mac == mac
            })
        });
        let number = match known.filter(|_| same) {
            Some(number) => number,
            None => {
                if let Some((path, by)) = taken(&interface.kind, ports) {
                    let (interface, origin) = (interface.name.clone(), interface.origin);
                    return Err(EngineError::FileTaken { interface, origin, path, by });
                }
                let context = weir_port::Context {
                    name: interface.name.clone(),
                    mac,
                    max_frame: (interface.mtu as usize + 22).min(MAX_FRAME),
                };
                let port = weir_port::open(port, middleware, *queues, &context).map_err(|source| {
                    EngineError::Port { interface: interface.name.clone(), origin: interface.origin, source }
                })?;
                let kind = interface.kind.clone();
                ports.push(Some(OpenPort { interface: interface.name.clone(), port, kind, mac }));
                opened.new.push(ports.len() as u32 - 1);
                ports.len() - 1
            }
        };
        kept.insert(number);
        let own = ports[number].as_ref().and_then(|port| port.port.mac());
        opened.places.insert(index as u32, PortPlace { number: number as u32, mac: own });
    }
    opened.gone = (0..ports.len())
        .filter(|&number| ports[number].is_some() && !kept.contains(&number))
        .map(|n| n as u32)
        .collect();
    Ok(opened)
}

/// A file that a port would write and that an open port writes, with the interface of that one.
fn taken(kind: &InterfaceKind, ports: &[Option<OpenPort>]) -> Option<(PathBuf, String)> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let wanted = written(kind);
    ports.iter().flatten().find_map(|open| {
        let files = written(&open.kind);
        let path = wanted.iter().find(|path| files.iter().any(|file| real(file) == real(path)))?;
        Some((path.to_path_buf(), open.interface.clone()))
    })
}

/// The files that a port writes.
fn written(kind: &InterfaceKind) -> Vec<&Path> {
    let InterfaceKind::Port { port, middleware, .. } = kind else { return Vec::new() };
    let output = match port {
        PortSpec::Pcap(spec) => spec.output.as_deref(),
        _ => None,
    };
    output.into_iter().chain(middleware.capture.as_deref()).collect()
}

fn count(compiler: &Compiler) -> usize {
    compiler.ribs().iter().map(Rib::len).sum()
}

/// What differs between two models, interface by interface.
fn difference(old: &model::Gateway, new: &model::Gateway) -> Reloaded {
    let names =
        |model: &model::Gateway| model.interfaces.iter().map(|interface| interface.name.clone()).collect::<Vec<_>>();
    let (before, after) = (names(old), names(new));
    let meaning = |model: &model::Gateway, name: &str| {
        let interface = model.interfaces.iter().find(|interface| interface.name == name)?;
        let addresses: Vec<_> = interface.addresses.iter().map(|address| address.net).collect();
        Some((
            interface.kind.clone(),
            interface.mac,
            interface.mtu,
            addresses,
            model.vrfs[usize::from(interface.vrf.0)].name.clone(),
        ))
    };
    Reloaded {
        added: after.iter().filter(|name| !before.contains(name)).cloned().collect(),
        removed: before.iter().filter(|name| !after.contains(name)).cloned().collect(),
        changed: after
            .iter()
            .filter(|name| before.contains(name) && meaning(old, name) != meaning(new, name))
            .cloned()
            .collect(),
        ..Reloaded::default()
    }
}

fn interfaces(control: &Control, root: &Root) -> Vec<stats::InterfaceStats> {
    control
        .model
        .interfaces
        .iter()
        .zip(&control.map.interfaces)
        .filter_map(|(interface, &number)| {
            let compiled = root.interfaces.get(number as usize)?;
            let port = control.ports.get(compiled.port as usize).and_then(Option::as_ref);
            let own = matches!(interface.kind, InterfaceKind::Port { .. });
            let counters = port.filter(|_| own).map(|port| port.port.counters());
            Some(stats::InterfaceStats {
                name: interface.name.clone(),
                kind: if own { port.map_or("closed", |port| port.port.kind()) } else { "vlan" },
                up: port.is_some_and(|port| port.port.link() == Link::Up),
                mac: weir_packet::wire::MacAddress(compiled.mac).to_string(),
                mtu: compiled.mtu,
                vrf: control.model.vrfs[usize::from(interface.vrf.0)].name.clone(),
                addresses: interface.addresses.iter().map(|address| address.net.to_string()).collect(),
                origin: control
                    .model
                    .origins
                    .place(interface.origin)
                    .map_or_else(String::new, |place| place.to_string()),
                ..collect::interface(&compiled.counters, counters.as_deref(), has_faults(interface))
            })
        })
        .collect()
}

fn has_faults(interface: &model::Interface) -> bool {
    matches!(&interface.kind, InterfaceKind::Port { middleware, .. } if middleware.fault.is_some())
}

fn tables(control: &Control) -> Vec<stats::TableStats> {
    let mut rows = Vec::new();
    for (number, (v4, v6)) in control.compiler.occupancy().enumerate() {
        let index = control.map.vrfs.iter().position(|&vrf| usize::from(vrf) == number);
        let Some(vrf) = index.map(|index| &control.model.vrfs[index].name) else { continue };
        for (family, table) in [("fib4", v4), ("fib6", v6)] {
            rows.push(stats::TableStats {
                name: format!("{family} {vrf}"),
                used: table.routes as u64,
                limit: table.max_routes as u64,
                bytes: table.bytes as u64,
                when_full: "the reload that adds routes is refused as a whole",
            });
        }
    }
    rows.push(stats::TableStats {
        name: "neighbors".into(),
        used: control.model.neighbors.len() as u64,
        limit: u64::from(control.model.limits.neighbors),
        bytes: 0,
        when_full: "the configuration that adds neighbours is refused as a whole",
    });
    rows
}
