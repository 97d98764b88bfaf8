//! A worker with ports on the calling thread, run window by window: what `weir bench` measures.
//!
//! A window is short (well below a scheduler's time slice), so that the median over many windows is not moved by the
//! windows in which something else ran on the CPU.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, mpsc};

use weir_base::clock::Clock;
use weir_base::random::Entropy;
use weir_base::reclaim::{Domain, Published};
use weir_packet::buffer::{Pool, PoolSize};
use weir_port::OpenError;

use crate::compile::{Compiler, Occupancy, Places, PortPlace, Settings, TableFull};
use crate::engine::ports::context;
use crate::engine::{collect, report};
use crate::graph::counters::WorkerCounters;
use crate::graph::trace::Tracer;
use crate::graph::worker::{Command, Shared, Worker};
use crate::model::{self, InterfaceKind, PerFamily};
use crate::node::Node;
use crate::root::{Root, derived_mac};
use crate::stats::{Conservation, FastPath};

/// Why a bench could not be set up.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// A port could not be opened.
    #[error("interface {interface}: {source}")]
    Port {
        /// The interface it is for.
        interface: String,
        /// Why.
        source: OpenError,
    },
    /// No room for packet buffers.
    #[error("no room for packet buffers: {0}")]
    Buffers(#[source] io::Error),
    /// A table has no room for the routes.
    #[error(transparent)]
    TableFull(#[from] TableFull),
}

/// A worker on the calling thread.
pub struct Bench {
    worker: Worker,
    counters: Arc<WorkerCounters>,
    compiler: Compiler,
    places: Places,
    domain: Domain,
    root: Arc<Published<Root>>,
    /// Changes that concerned all flows, beside those of the compiler.
    beside: u32,
    // Keeps the worker's mailbox open.
    _commands: mpsc::Sender<Command>,
}

/// The work of a node in a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeWindow {
    /// The node.
    pub node: Node,
    /// Packets.
    pub packets: u64,
    /// Ticks.
    pub ticks: u64,
}

impl Bench {
    /// Opens the ports and compiles the model.
    ///
    /// # Errors
    /// If a port cannot be opened, or there is no room.
    pub fn new(model: &model::Gateway, seed: u64) -> Result<Bench, BenchError> {
        let domain = Domain::new();
        let settings = Settings { workers: 1, invent_neighbors: false, secret: [1, 2] };
        let mut compiler = Compiler::new(&domain, settings, model.limits);
        let size = PoolSize { small: model.buffers.small as usize, large: model.buffers.large as usize };
        let pool = Pool::new(size).map_err(BenchError::Buffers)?;
        let mut ports = HashMap::new();
        let (commands, mailbox) = mpsc::channel();
        for (index, interface) in model.interfaces.iter().enumerate() {
            let InterfaceKind::Port { port, middleware, queues } = &interface.kind else { continue };
            let number = index as u32;
            let mac = interface.mac.map_or(derived_mac(&interface.name).0, |mac| mac.0);
            let context = context(interface, mac, &pool);
            let mut port = weir_port::open(port, middleware, *queues, &context)
                .map_err(|source| BenchError::Port { interface: interface.name.clone(), source })?;
            ports.insert(number, PortPlace { number, mac: port.mac(), ..PortPlace::default() });
            for receiver in port.receivers() {
                let _ = commands.send(Command::Receive(number, receiver));
            }
            for transmitter in port.transmitters(1) {
                let _ = commands.send(Command::Transmit(number, transmitter));
            }
        }
        let _ = commands.send(Command::Limit(model.icmp, model.neighbor_discovery));
        let places = Places { ports, ..Places::default() };
        let (root, _) = compiler.compile(model, &places)?;
        let root = Arc::new(Published::new(root, &domain));
        let counters = Arc::<WorkerCounters>::default();
        let shared = Shared {
            root: Arc::clone(&root),
            tracer: Arc::<Tracer>::default(),
            counters: Arc::clone(&counters),
            clock: Clock::monotonic(),
            entropy: Entropy::from_seed(seed),
        };
        let reader = domain.reader().expect("a domain that was made just now has free slots");
        let worker = Worker::new(0, 1, shared, reader, pool.cache(), mailbox, Vec::new(), Vec::new());
        Ok(Bench { worker, counters, compiler, places, domain, root, beside: 0, _commands: commands })
    }

    /// Compiles another model of the same interfaces. Tables with equal contents are shared with the models compiled
    /// before. Versions stay usable together as long as they have the same routes and rules.
    ///
    /// # Errors
    /// When a table has no room.
    pub fn compile(&mut self, model: &model::Gateway) -> Result<Root, BenchError> {
        Ok(self.compiler.compile(model, &self.places)?.0)
    }

    /// Puts a version into force, from the next round on.
    pub fn enforce(&self, version: &Root) {
        self.root.publish(version.clone());
        self.domain.collect();
    }

    /// Puts a version into force as a change that concerns all flows.
    pub fn change_all(&mut self, version: &Root) {
        self.beside = self.beside.wrapping_add(1);
        let mut root = version.clone();
        root.changes.set_beside(self.beside, root.changes.made.wrapping_add(self.beside));
        self.root.publish(root);
        self.domain.collect();
    }

    /// Runs so many rounds of the main loop, a vector each, and returns what every node did.
    pub fn window(&mut self, rounds: usize) -> Vec<NodeWindow> {
        let before = self.read();
        for _ in 0..rounds {
            self.worker.round();
        }
        let since = |(mut now, before): (NodeWindow, NodeWindow)| {
            now.packets -= before.packets;
            now.ticks -= before.ticks;
            now
        };
        self.read().into_iter().zip(before).map(since).collect()
    }

    fn read(&self) -> Vec<NodeWindow> {
        let nodes = Node::ALL.iter().zip(&self.counters.nodes);
        nodes
            .map(|(&node, counters)| NodeWindow {
                node,
                packets: counters.packets.value(),
                ticks: counters.ticks.value(),
            })
            .collect()
    }

    /// Where all packets went.
    pub fn conservation(&self) -> Conservation {
        collect::conservation(std::iter::once(&*self.counters))
    }

    /// Counters of learned decisions.
    pub fn fast_path(&self) -> FastPath {
        report::fast_path(std::iter::once(&self.counters.flows))
    }

    /// Sessions, translations among them, and octets of their memory.
    pub fn sessions(&self) -> (usize, usize) {
        (self.worker.sessions.len(), self.worker.sessions.octets())
    }

    /// Octets of the forwarding tables, IPv4 and IPv6.
    pub fn table_bytes(&self) -> (usize, usize) {
        self.compiler.occupancy().fold((0, 0), |sum, (v4, v6)| (sum.0 + v4.bytes, sum.1 + v6.bytes))
    }

    /// How full the tables of a policy of source address validation are, if it has any.
    pub fn sav_occupancy(&self, policy: &str) -> Option<PerFamily<Occupancy>> {
        self.compiler.sav_occupancy(policy)
    }

    /// Octets of its counters of hits.
    pub fn sav_hits_octets(&self, policy: &str) -> usize {
        self.compiler.sav_sources(policy).2
    }
}
