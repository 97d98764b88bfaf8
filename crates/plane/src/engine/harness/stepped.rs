//! Workers on the calling thread, one unless more are wanted, without ports: the caller puts packets in and learns what became of each. Replays,
//! `explain` and tests run the very graph and control side of a live gateway this way; only ports, clock and randomness differ.

use std::collections::HashSet;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

use weir_base::clock::{Clock, ManualClock, Time};
use weir_base::random::Entropy;
use weir_base::wake;
use weir_packet::buffer::{Pool, PoolSize};
use weir_port::Transmitter;

use super::workers::{Parts, Rings, Workers};
use crate::compile::{AclEdit, AclEdited, AclError, AclMembers, AclSaid, Map, Places, PortPlace, Settings, TableFull};
use crate::engine::compiled::Compiled;
use crate::engine::control::{self, Control};
use crate::engine::made::ChangeKind;
use crate::graph::record::Recorder;
use crate::graph::streams::Stream;
use crate::graph::worker::{Command, Worker};
use crate::model::{self, InterfaceKind};
use crate::neighbor::control::{Keeper, News, Work};

/// How a harness is to behave.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Seeds everything random: equal seeds give equal results.
    pub seed: u64,
    /// Make up hardware addresses for neighbours that the configuration does not name.
    pub invent_neighbors: bool,
}

/// Why a harness could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HarnessError {
    /// No room for packet buffers.
    #[error("no room for packet buffers: {0}")]
    Buffers(#[source] io::Error),
    /// No descriptors by which workers wake one another.
    #[error("no descriptors for workers: {0}")]
    Workers(#[source] io::Error),
    /// A table has no room for the routes.
    #[error(transparent)]
    TableFull(#[from] TableFull),
}

/// A gateway without ports.
pub struct Harness {
    pub(super) workers: Workers,
    pub(super) control: Control,
    /// The model in force and its numbers, as `control` has them.
    pub(super) model: Arc<model::Gateway>,
    pub(super) map: Arc<Map>,
    clock: ManualClock,
    pub(super) rings: Rings,
    /// Neighbours are found, and addresses tested and announced.
    discovers: bool,
    /// Ports, by the model's index, behind which there may be stations that the gateway does not know of.
    announces: HashSet<u32>,
    entropy: Entropy,
    /// Packets out of tunnels in the next vector, before all frames.
    pub(super) decapsulated: usize,
    /// The next vector has frames.
    pub(super) frames: bool,
}

/// A harness is its control side with workers on the calling thread: listings and edits are those of [`Control`].
impl Deref for Harness {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

impl Harness {
    /// Compiles a model and stands ready. Every interface of kind `Port` has a port whose number is the model's index
    /// of the interface; the model's port specifications are not looked at.
    ///
    /// # Errors
    /// When there is no room for buffers or routes.
    pub fn new(model: model::Gateway, options: Options) -> Result<Harness, HarnessError> {
        Harness::with_workers(model, options, 1)
    }

    /// As [`Harness::new`], with so many workers, which are stepped in turns. Ports are spread over them, and packets are
    /// handed over to the worker that owns their flow.
    ///
    /// # Errors
    /// As for [`Harness::new`].
    pub fn with_workers(mut model: model::Gateway, options: Options, workers: usize) -> Result<Harness, HarnessError> {
        model.ipsec.reserves = false;
        let entropy = Entropy::from_seed(options.seed);
        let secret = Stream::Tables.open(&entropy).words();
        let settings = Settings { workers, invent_neighbors: options.invent_neighbors, secret };
        let keeper = Keeper::idle(&model, Stream::Neighbors.open(&entropy));
        let places = places(&model);
        let compiled = Compiled::new(model, settings, keeper, places, &HashSet::new())?;
        let model::Buffers { small, large, .. } = compiled.model.buffers;
        let size = PoolSize { small: small as usize, large: large as usize };
        let pool = Pool::new(size).map_err(HarnessError::Buffers)?;
        let (clock, tracer) = (ManualClock::new(), Arc::default());
        let parts = Parts {
            domain: &compiled.domain,
            root: &compiled.root,
            tracer: &tracer,
            pool: &pool,
            clock: clock.clone().into(),
            entropy: &entropy,
        };
        let (workers, sender, counters) = Workers::new(workers, &parts).map_err(HarnessError::Workers)?;
        let (_, waker) = wake::pair().map_err(HarnessError::Workers)?;
        let control = Control::new(control::Parts {
            reader: compiled.domain.reader().expect("a domain that was made just now has free slots"),
            compiled,
            ports: Vec::new(),
            tracer,
            clock: clock.clone().into(),
            // Frames leave by the first worker.
            senders: vec![sender],
            counters,
            waker,
        });
        let (model, map) = control.in_force();
        let mut harness = Harness {
            workers,
            control,
            model,
            map,
            clock,
            rings: Rings::default(),
            discovers: false,
            announces: HashSet::new(),
            entropy,
            decapsulated: 0,
            frames: false,
        };
        harness.limit();
        Ok(harness)
    }

    /// Puts another model into force, as a reload does.
    ///
    /// # Errors
    /// When there is no room for its routes; then the old one stays.
    pub fn reload(&mut self, mut model: model::Gateway) -> Result<(), HarnessError> {
        model.ipsec.reserves = false;
        let mut places = places(&model);
        let before = self.places();
        for (index, place) in &mut places.ports {
            place.down = before.ports.get(index).is_some_and(|before| before.down);
        }
        self.put_into_force(ChangeKind::Model, model, places)?;
        self.limit();
        Ok(())
    }

    /// Keeps access lists once that several sequences name, where their copies would come to more rules than this; compiles the
    /// model again.
    ///
    /// # Errors
    /// When there is no room.
    pub fn share_acls(&mut self, most_copied: usize) -> Result<(), HarnessError> {
        self.control.operate(ChangeKind::Model).write().share_acls(most_copied);
        self.reload((*self.model).clone())
    }

    /// Changes pairs of SAs and the rules of SPDs alone.
    ///
    /// # Errors
    /// As for [`Control::change_ipsec`].
    pub fn change_ipsec(&mut self, mut model: model::Gateway) -> Result<(), HarnessError> {
        model.ipsec.reserves = false;
        self.control.change_ipsec(model, |_| ())?;
        (self.model, self.map) = self.control.in_force();
        Ok(())
    }

    /// Changes an access list.
    ///
    /// # Errors
    /// As for [`Control::edit_acl`].
    pub fn edit_acl(&mut self, list: &str, edit: AclEdit, said: &AclSaid) -> Result<AclEdited, AclError> {
        self.control.edit_acl(list, said, |_| Ok(edit))
    }

    /// Gives a group that rules of access lists name other members.
    ///
    /// # Errors
    /// As for [`Control::replace_acl_group`].
    pub fn replace_acl_group(&mut self, group: impl Into<AclMembers>, said: &AclSaid) -> Result<AclEdited, AclError> {
        self.control.replace_acl_group(said, |_| Ok(group))
    }

    /// The model in force.
    pub fn model(&self) -> &model::Gateway {
        &self.model
    }

    /// Gives the port of an interface (the model's index) a transmitter. Packets to ports without one are dropped.
    pub fn connect(&mut self, interface: u32, transmitter: Box<dyn Transmitter>) {
        self.workers.first().handle(Command::Transmit(interface, transmitter));
    }

    /// As [`Harness::connect`], a transmitter for each worker.
    pub fn connect_each(&mut self, interface: u32, mut transmitter: impl FnMut() -> Box<dyn Transmitter>) {
        self.workers.iter_mut().for_each(|worker| worker.handle(Command::Transmit(interface, transmitter())));
    }

    /// The number, as [`Harness::connect`] and [`Harness::inject`] take it, of the port that is an interface's punt device.
    pub fn punt_port(&self, interface: u32) -> u32 {
        punt_port(&self.model, interface)
    }

    /// Finds neighbours, tests and announces our addresses, and advertises from now on, whenever it is stepped
    /// ([`Harness::step`]). `announces` are the ports, by the model's index of their interfaces, behind which there may be
    /// stations that we do not know of.
    ///
    /// # Errors
    /// When a table has no room.
    pub fn discover(&mut self, announces: &[u32]) -> Result<(), HarnessError> {
        self.listen();
        self.control.state().keeper = Keeper::new(&self.model, Stream::Neighbors.open(&self.entropy));
        self.discovers = true;
        self.announces = announces.iter().copied().collect();
        self.put_into_force(ChangeKind::Model, (*self.model).clone(), self.places())
    }

    /// The link of a port (by the model's index of its interface) goes up or down.
    ///
    /// # Errors
    /// When a table has no room.
    pub fn set_link(&mut self, interface: u32, up: bool) -> Result<(), HarnessError> {
        let mut places = self.places();
        if let Some(place) = places.ports.get_mut(&interface) {
            place.down = !up;
        }
        self.put_into_force(ChangeKind::Links, (*self.model).clone(), places)
    }

    fn places(&self) -> Places {
        self.control.state().places.clone()
    }

    fn put_into_force(&mut self, kind: ChangeKind, model: model::Gateway, places: Places) -> Result<(), HarnessError> {
        self.control.enforce(kind, model, places, &self.announces)?;
        (self.model, self.map) = self.control.in_force();
        Ok(())
    }

    pub(super) fn now(&self) -> Time {
        Clock::from(self.clock.clone()).now()
    }

    /// Runs the control side once: it handles the worker's events and due timers, and publishes the results to the
    /// worker. Returns the time at which it is to be called again.
    pub fn step(&mut self) -> Option<Time> {
        let events = self.events();
        if !self.discovers {
            return None;
        }
        let (now, mut work) = (self.now(), Work::default());
        let mut state = self.control.state();
        events.iter().for_each(|event| state.keeper.handle(event, now, &mut work));
        state.keeper.step(now, &mut work);
        self.control.carry_out(&mut state, None, work);
        state.keeper.next()
    }

    /// Begins the counters of SAs and SPDs with 0.
    pub fn clear_ipsec(&mut self) {
        self.control.clear_sas(None);
        self.control.clear_spds();
    }

    /// Runs the control side's checks of SAs: the worker makes the packets that are due in the next run. Returns the
    /// news.
    pub fn tend_sas(&mut self) -> Vec<News> {
        let due = self.control.due_of_sas();
        self.workers.first().handle(Command::Make(due.packets));
        due.news
    }

    pub(super) fn limit(&mut self) {
        let mut neighbors = self.model.neighbor_discovery;
        if self.rings.events.is_empty() {
            neighbors.hold = 0;
        }
        let icmp = self.model.icmp;
        self.workers.iter_mut().for_each(|worker| worker.handle(Command::Limit(icmp, neighbors)));
    }

    /// Records the fates of packets, or not: a packet whose fate is recorded walks, and takes no learned decision. Without
    /// records, [`Harness::run`] gives no outcomes.
    pub fn set_recording(&mut self, on: bool) {
        let recorder = || if on { Recorder::of_all() } else { Recorder::default() };
        self.workers.iter_mut().for_each(|worker| worker.recorder = recorder());
    }

    /// Has packets merged whatever was cut before. Else a gateway pauses where its super-packets were cut again, and what it merges
    /// depends on earlier packets.
    pub fn never_pause_merging(&mut self) {
        self.workers.iter_mut().for_each(|worker| worker.merges.never_pause());
    }

    /// Moves the clock on. It never goes back.
    pub fn set_time(&mut self, time: Time) {
        self.clock.set(time);
    }

    /// Whether the worker has work without packets: sessions to visit, held packets whose time is over.
    pub fn is_due(&mut self) -> bool {
        let now = self.now();
        self.workers.iter_mut().any(|worker| worker.is_due(now))
    }

    /// Pushes out what transmitters have buffered.
    pub fn flush(&mut self) {
        self.workers.iter_mut().for_each(Worker::flush);
    }
}

fn places(model: &model::Gateway) -> Places {
    let mut places = Places::default();
    for (index, interface) in (0..).zip(&model.interfaces) {
        if matches!(interface.kind, InterfaceKind::Port { .. }) {
            places.ports.insert(index, PortPlace { number: index, ..PortPlace::default() });
        }
        if interface.punt.is_some() {
            places.punts.insert(index, punt_port(model, index));
        }
    }
    places
}

/// Punt devices have the numbers behind those of all interfaces.
fn punt_port(model: &model::Gateway, index: u32) -> u32 {
    model.interfaces.len() as u32 + index
}
