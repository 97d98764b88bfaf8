//! A worker with ports on the calling thread, run window by window: what `weir bench` measures.
//!
//! A window is short (well below a scheduler's time slice), so that the median over many windows is not moved by the
//! windows in which something else ran on the CPU.

use std::collections::{HashMap, HashSet};
use std::io;
use std::ops::Deref;
use std::sync::Arc;

use weir_base::clock::Clock;
use weir_base::random::Entropy;
use weir_base::wake;
use weir_packet::buffer::{Pool, PoolSize};
use weir_port::{OpenError, Transmitter};

use crate::compile::{Occupancy, Places, PortPlace, Settings, TableFull};
use crate::engine::compiled::Compiled;
use crate::engine::control::{self, Control};
use crate::engine::made::ChangeKind;
use crate::engine::ports::context;
use crate::engine::workers::CommandSender;
use crate::graph::counters::WorkerCounters;
use crate::graph::streams::Stream;
use crate::graph::trace::Tracer;
use crate::graph::worker::{Command, Shared, Worker};
use crate::model::{self, InterfaceKind, PerFamily};
use crate::neighbor::control::Keeper;
use crate::node::Node;
use crate::root::{Root, derived_mac};

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
    /// No descriptor by which the worker is woken.
    #[error("no descriptors for the worker: {0}")]
    Worker(#[source] io::Error),
    /// A table has no room for the routes.
    #[error(transparent)]
    TableFull(#[from] TableFull),
}

/// A worker on the calling thread.
pub struct Bench {
    worker: Worker,
    control: Control,
    sender: Arc<CommandSender>,
}

/// A bench is its control side with a worker on the calling thread.
impl Deref for Bench {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
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
        let size = PoolSize { small: model.buffers.small as usize, large: model.buffers.large as usize };
        let pool = Pool::new(size).map_err(BenchError::Buffers)?;
        let mut ports = HashMap::new();
        let (_, waker) = wake::pair().map_err(BenchError::Worker)?;
        let (sender, mailbox) = CommandSender::new(waker.clone());
        for (index, interface) in model.interfaces.iter().enumerate() {
            let InterfaceKind::Port { port, middleware, queues } = &interface.kind else { continue };
            let number = index as u32;
            let mac = interface.mac.map_or(derived_mac(&interface.name).0, |mac| mac.0);
            let context = context(interface, mac, &pool);
            let mut port = weir_port::open(port, middleware, *queues, &context)
                .map_err(|source| BenchError::Port { interface: interface.name.clone(), source })?;
            ports.insert(number, PortPlace { number, mac: port.mac(), ..PortPlace::default() });
            for receiver in port.receivers() {
                sender.command(Command::Receive(number, receiver));
            }
            for transmitter in port.transmitters(1) {
                sender.command(Command::Transmit(number, transmitter));
            }
        }
        sender.command(Command::Limit(model.icmp, model.neighbor_discovery));
        let entropy = Entropy::from_seed(seed);
        let secret = Stream::Tables.open(&entropy).words();
        let settings = Settings { workers: 1, invent_neighbors: false, secret };
        let keeper = Keeper::idle(model, Stream::Neighbors.open(&entropy));
        let places = Places { ports, ..Places::default() };
        let compiled = Compiled::new(model.clone(), settings, keeper, places, &HashSet::new())?;
        let (counters, tracer) = (Arc::<WorkerCounters>::default(), Arc::<Tracer>::default());
        let shared = Shared {
            root: Arc::clone(&compiled.root),
            tracer: Arc::clone(&tracer),
            counters: Arc::clone(&counters),
            clock: Clock::monotonic(),
            entropy,
        };
        let reader = || compiled.domain.reader().expect("a domain that was made just now has free slots");
        let worker = Worker::new(0, 1, shared, reader(), pool.cache(), mailbox, Vec::new(), Vec::new());
        let control = Control::new(control::Parts {
            reader: reader(),
            compiled,
            ports: Vec::new(),
            tracer,
            clock: Clock::monotonic(),
            senders: vec![Arc::clone(&sender)],
            counters: vec![counters],
            waker,
        });
        Ok(Bench { worker, control, sender })
    }

    /// Has what leaves by a port, the interface of this index, taken by another transmitter from the next round on.
    pub fn connect(&self, port: u32, transmitter: Box<dyn Transmitter>) {
        self.sender.command(Command::Transmit(port, transmitter));
    }

    /// Compiles another model of the same interfaces. Tables with equal contents are shared with the models compiled
    /// before. Versions stay usable together as long as they have the same routes and rules.
    ///
    /// # Errors
    /// When a table has no room.
    pub fn compile(&mut self, model: &model::Gateway) -> Result<Root, BenchError> {
        let places = self.control.state().places.clone();
        Ok(self.control.operate(ChangeKind::Model).write().compile(model, &places)?.0)
    }

    /// Puts a version into force, from the next round on.
    pub fn enforce(&self, version: &Root) {
        self.control.put_into_force(version.clone());
        self.control.domain.collect();
    }

    /// Puts a version into force as a change that concerns all flows.
    pub fn change_all(&mut self, version: &Root) {
        self.control.put_into_force_for_all(version.clone());
        self.control.domain.collect();
    }

    /// Packets that have left by each interface, in the order of the model.
    pub fn sent(&self) -> Vec<u64> {
        let (model, map) = self.control.in_force();
        let sent = |root: &Root| {
            let numbers = map.interfaces.iter().take(model.interfaces.len());
            let of = |&number: &u32| {
                root.interfaces
                    .get(number as usize)
                    .map_or(0, |own| own.counters.iter().map(|worker| worker.tx.packets.value()).sum())
            };
            numbers.map(of).collect()
        };
        self.control.root.with(sent)
    }

    /// Takes note that the link of a port went down or came up, as the control thread does, and publishes the version that
    /// follows at once. Nothing is compiled.
    pub fn set_link(&self, port: u32, is_up: bool) {
        let mut state = self.control.state();
        if let Some(place) = state.places.ports.get_mut(&port) {
            place.down = !is_up;
        }
        state.mark_down();
        self.control.publish(&mut state);
        drop(state);
        self.control.domain.collect();
    }

    /// Compiles the model after links have changed, as the control thread does behind [`Bench::set_link`].
    pub fn follow_links(&self) {
        self.control.follow_links();
        self.control.domain.collect();
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
        let nodes = Node::ALL.iter().zip(self.control.counters().flat_map(|own| &own.nodes));
        nodes
            .map(|(&node, counters)| NodeWindow {
                node,
                packets: counters.packets.value(),
                ticks: counters.ticks.value(),
            })
            .collect()
    }

    /// Sessions, translations among them, and octets of their memory.
    pub fn sessions(&self) -> (usize, usize) {
        (self.worker.sessions.len(), self.worker.sessions.octets())
    }

    /// Half-open sessions.
    pub fn half_open(&self) -> usize {
        self.worker.sessions.half_open()
    }

    /// Octets of the forwarding tables, IPv4 and IPv6.
    pub fn table_bytes(&self) -> (usize, usize) {
        self.control.look().0.occupancy().fold((0, 0), |sum, (v4, v6)| (sum.0 + v4.bytes, sum.1 + v6.bytes))
    }

    /// How full the tables of a policy of source address validation are, if it has any.
    pub fn sav_occupancy(&self, policy: &str) -> Option<PerFamily<Occupancy>> {
        self.control.look().0.sav_occupancy(policy)
    }

    /// Octets of its counters of hits.
    pub fn sav_hits_octets(&self, policy: &str) -> usize {
        self.control.look().0.sav_sources(policy).2
    }
}
