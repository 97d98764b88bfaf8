//! Workers on the calling thread, one unless more are wanted, without ports: the caller puts packets in and learns what became of each. Replays,
//! `explain` and tests run the very graph of a live gateway this way; only ports, clock and randomness differ.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use weir_base::clock::{Clock, ManualClock, Time};
use weir_base::random::Entropy;
use weir_base::reclaim::{Domain, Published};
use weir_base::ring::{Consumer, ring};
use weir_packet::buffer::{MAX_FRAME, Pool, PoolSize};
use weir_packet::offload::Offload;
use weir_port::Transmitter;

use crate::compile::{
    AclEdit, AclEdited, AclError, AclMembers, AclSaid, Compiler, Edit, Edited, Map, Names, Offer, Places, PortPlace,
    RoutesChanged, SavError, Settings, StageError, TableFull,
};
use crate::graph::events;
use crate::graph::events::Event;
use crate::graph::record::{Fate, Fragmented, Recorder};
use crate::graph::sample::{self, Sample};
use crate::graph::session::{LOG_RING, NatEvent};
use crate::graph::streams::Stream;
use crate::graph::trace::Tracer;
use crate::graph::worker::{Command, UNASKED, Worker};
use crate::model::{self, BridgeIndex, InterfaceIndex, InterfaceKind, IpFamily, Origin, Place, SaIndex};
use crate::neighbor::Known;
use crate::neighbor::control::{self, Keeper, News, Work};
use crate::node::Node;
use crate::reason::Reason;
use crate::rib::By;
use crate::root::{Adjacency, Kind, NONE, Root};
use crate::stats::{self, Conservation};

use super::outcome::{Filtered, Outcome, Piece, RouteTaken, Secured, Tunnelled, Unlisted, Verdict};
use super::workers::{Parts, Workers};
use crate::engine::cleared::Cleared;
use crate::engine::flows::{self, Compiled, First, FlowFilter, FlowOrder};
use crate::engine::traced::TraceRow;
use crate::engine::upkeep::Upkeep;
use crate::engine::{policies, translations};

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
    pub(super) domain: Domain,
    pub(super) root: Arc<Published<Root>>,
    pub(super) compiler: Compiler,
    pub(super) map: Map,
    pub(super) model: model::Gateway,
    clock: ManualClock,
    tracer: Arc<Tracer>,
    /// By worker, if the caller reads them.
    events: Vec<Consumer<Event>>,
    samples: Vec<Consumer<Sample>>,
    log: Vec<Consumer<NatEvent>>,
    discovery: Option<Discovery>,
    places: Places,
    entropy: Entropy,
    /// Packets out of tunnels in the next vector, before all frames.
    decapsulated: usize,
    upkeep: Upkeep,
    cleared: Cleared,
    /// The next vector has frames.
    frames: bool,
}

/// The control side of neighbours, stepped by the caller.
struct Discovery {
    keeper: Keeper,
    /// Ports, by the model's index, whose links have stations that we do not know of.
    announces: Vec<u32>,
    news: Vec<News>,
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
        let domain = Domain::new();
        let secret = Stream::Bridges.open(&entropy).words();
        let settings = Settings { workers, invent_neighbors: options.invent_neighbors, secret };
        let mut compiler = Compiler::new(&domain, settings, model.limits);
        let places = places(&model);
        let (root, map) = compiler.compile(&model, &places)?;
        let root = Arc::new(Published::new(root, &domain));
        let size = PoolSize { small: model.buffers.small as usize, large: model.buffers.large as usize };
        let pool = Pool::new(size).map_err(HarnessError::Buffers)?;
        let (clock, tracer) = (ManualClock::new(), Arc::<Tracer>::default());
        let parts = Parts {
            domain: &domain,
            root: &root,
            tracer: &tracer,
            pool: &pool,
            clock: clock.clone().into(),
            entropy: &entropy,
        };
        let workers = Workers::new(workers, &parts).map_err(HarnessError::Workers)?;
        let mut harness = Harness {
            workers,
            domain,
            root,
            compiler,
            map,
            model,
            clock,
            tracer,
            events: Vec::new(),
            samples: Vec::new(),
            log: Vec::new(),
            discovery: None,
            places,
            entropy,
            decapsulated: 0,
            upkeep: Upkeep::default(),
            cleared: Cleared::default(),
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
        for (index, place) in &mut places.ports {
            place.down = self.places.ports.get(index).is_some_and(|before| before.down);
        }
        self.put_into_force(model, places)?;
        self.limit();
        Ok(())
    }

    /// Keeps access lists once that several sequences name, where their copies would come to more rules than this; compiles the
    /// model again.
    ///
    /// # Errors
    /// When there is no room.
    pub fn share_acls(&mut self, most_copied: usize) -> Result<(), HarnessError> {
        self.compiler.share_acls(most_copied);
        self.reload(self.model.clone())
    }

    /// Changes what a source says of the table of a policy, at a time in seconds of the Unix epoch.
    ///
    /// # Errors
    /// As for [`Compiler::edit_sav`].
    pub fn edit_sav(&mut self, policy: &str, source: &str, edits: &[Edit], time: u64) -> Result<Edited, SavError> {
        let (edited, root) = self.compiler.edit_sav(&self.model, policy, source, edits, time)?;
        self.root.publish(root);
        Ok(edited)
    }

    /// Makes a source say these entries of the table of a policy and no others.
    ///
    /// # Errors
    /// As for [`Compiler::edit_sav`].
    pub fn replace_sav(
        &mut self,
        policy: &str,
        source: &str,
        entries: &[(crate::compile::EntryKey, Names)],
        time: u64,
    ) -> Result<Edited, SavError> {
        let (edited, root) = self.compiler.replace_sav(&self.model, policy, source, entries, time)?;
        self.root.publish(root);
        Ok(edited)
    }

    /// Has another action than the configured one in force for a policy, from a time on in seconds of the Unix epoch; `None`:
    /// the configured one again.
    ///
    /// # Errors
    /// As for [`Compiler::stage_sav`].
    pub fn stage_sav(&mut self, policy: &str, action: Option<model::SavAction>, time: u64) -> Result<(), StageError> {
        let root = self.compiler.stage_sav(&self.model, policy, action, time)?;
        self.root.publish(root);
        Ok(())
    }

    /// Changes the routes that a source offers for a VRF.
    pub fn change_routes(&mut self, vrf: &str, by: By, offers: Vec<Offer>) -> RoutesChanged {
        let (root, changed) = self.compiler.change_routes(vrf, by, offers);
        self.root.publish(root);
        changed
    }

    /// Changes an access list.
    ///
    /// # Errors
    /// As for [`Compiler::edit_acl`].
    pub fn edit_acl(&mut self, list: &str, edit: AclEdit, said: &AclSaid) -> Result<AclEdited, AclError> {
        let Harness { compiler, model, map, root, .. } = self;
        compiler.edit_acl((model, map), list, edit, said, |new| root.publish(new))
    }

    /// Gives a group that rules of access lists name other members.
    ///
    /// # Errors
    /// As for [`Compiler::replace_acl_group`].
    pub fn replace_acl_group(&mut self, group: impl Into<AclMembers>, said: &AclSaid) -> Result<AclEdited, AclError> {
        let Harness { compiler, model, map, root, .. } = self;
        compiler.replace_acl_group((model, map), group, said, |new| root.publish(new))
    }

    /// The access lists.
    pub fn acl_lists(&self) -> Vec<stats::AclListStats> {
        self.compiler.acl_lists(&self.model)
    }

    /// The rules of an access list, in their order; none if there is no such list.
    pub fn acl_rules(&self, list: &str) -> Vec<stats::AclRuleRow> {
        let found = self.compiler.acl_rules(&self.model, list, |_| true, usize::MAX);
        found.map_or_else(Vec::new, |(rows, _)| rows)
    }

    /// The policies of source address validation, in the order of the configuration.
    pub fn sav_policies(&self) -> Vec<stats::SavPolicyStats> {
        crate::engine::show::sav_policies(&self.model, &self.compiler)
    }

    /// Where packets came from that were not valid.
    pub fn invalid_sources(&self) -> stats::InvalidSources {
        let now = self.now();
        let tables = self.workers.counters().map(|own| &own.spoofed);
        self.root.with(|root| crate::engine::collect::invalid_sources(tables, root, now))
    }

    /// Where packets came from that passed although no rule knew their source.
    pub fn unknown_sources(&self) -> stats::InvalidSources {
        let now = self.now();
        let tables = self.workers.counters().map(|own| &own.unknown);
        self.root.with(|root| crate::engine::collect::invalid_sources(tables, root, now))
    }

    /// Returns the SAV counters of the interfaces.
    pub fn sav(&self) -> Vec<stats::SavInterfaceStats> {
        self.root.with(|root| crate::engine::collect::sav(&self.model, &self.map, root))
    }

    /// The entries of a policy's list or table.
    pub fn sav_entries(&self, policy: &str) -> Vec<stats::SavEntryRow> {
        self.compiler.sav_entries(&self.model, policy, |_| true, usize::MAX).0
    }

    /// The bindings of hardware addresses, in the order of the configuration.
    pub fn bindings(&self) -> Vec<stats::BindingsStats> {
        crate::engine::show::bindings(&self.model, &self.compiler)
    }

    /// Returns the EtherType counters of the interfaces.
    pub fn ethertypes(&self) -> Vec<stats::EthertypeStats> {
        self.root.with(|root| crate::engine::collect::ethertypes(&self.model, &self.map, root, &Default::default()))
    }

    /// The allowlists, in the order of the configuration.
    pub fn allowlists(&self) -> Vec<stats::AllowlistStats> {
        crate::engine::show::allowlists(&self.model, &self.compiler)
    }

    /// Sessions, at most so many in this order.
    pub fn flows(&self, filter: &FlowFilter, order: FlowOrder, most: usize) -> stats::Flows {
        let (now, filter) = (self.now(), Compiled::new(filter, &self.map));
        let mut first = First::new(order, most);
        for (number, worker) in self.workers.iter().enumerate() {
            flows::each(
                |from| Some(worker.flows(from, now)),
                |_, session| {
                    if filter.matches(&session) {
                        first.add(number, session, now)
                    }
                },
            );
        }
        let at = (&self.model, &self.compiler);
        let counted = crate::engine::report::sessions_counted(self.workers.counters().map(|own| &own.sessions));
        let counted = (counted, self.fast_path());
        self.root.with(|root| first.rows((at.0, at.1, root), &self.model.flow_table, counted, now))
    }

    /// Translations, at most so many, the oldest first.
    pub fn translations(&self, filter: &FlowFilter, most: usize) -> stats::Translations {
        let first = self.gathered(filter, most);
        self.root.with(|root| translations::rows(first, (&self.model, root), &self.model.flow_table, self.now()))
    }

    /// The lists of rules that translate.
    pub fn nat_lists(&self) -> Vec<stats::NatStats> {
        self.root.with(|root| translations::lists(&self.model, root))
    }

    /// The SPDs.
    pub fn spds(&self) -> Vec<stats::SpdStats> {
        self.root.with(|root| policies::lists(&self.model, root, &self.cleared))
    }

    /// The pairs of SAs, in the order of the configuration.
    pub fn sas(&self) -> Vec<stats::SaStats> {
        self.root.with(|root| {
            crate::engine::sas::rows(&self.model, &self.map, root, (&self.upkeep, &self.cleared, self.now()))
        })
    }

    /// The bridges, in the order of the configuration.
    pub fn bridges(&self) -> Vec<stats::BridgeStats> {
        self.root.with(|root| crate::engine::bridges::rows(&self.model, root))
    }

    /// The stations of a bridge, by place in the model.
    pub fn bridge_macs(&self, bridge: u16) -> Vec<stats::MacRow> {
        let now = self.now();
        self.root.with(|root| {
            let bridge = root.bridges.get(bridge);
            bridge.map_or_else(Vec::new, |bridge| crate::engine::bridges::macs(root, bridge, now))
        })
    }

    /// Forgets the stations that a bridge has learned, by place in the model. Returns how many that were.
    pub fn clear_bridge(&mut self, bridge: u16) -> usize {
        self.root.with(|root| root.bridges.get(bridge).map_or(0, crate::engine::bridges::clear))
    }

    /// The tunnels, in the order of the configuration.
    pub fn tunnels(&self) -> Vec<stats::TunnelStats> {
        self.root.with(|root| crate::engine::tunnels::rows(&self.model, &self.map, root, self.now()))
    }

    /// The sequence numbers of each outbound key that was ever in force, by the digest of the key.
    pub fn sequences(&self) -> crate::root::ipsec::Sequences {
        self.compiler.sequences()
    }

    /// The numbers that workers show one another, of an outbound SA that they share: its own worker is 0, and 1 is anybody else.
    pub fn sharing(&self, sa: SaIndex) -> Option<Arc<crate::root::ipsec::Sharing>> {
        let number = *self.map.sas.get(sa.0 as usize)?;
        self.root.with(|root| root.ipsec.sa(number)?.sharing.clone())
    }

    /// The outside addresses of rules that translate sources.
    pub fn nat_pools(&self) -> Vec<stats::NatPool> {
        let first = self.gathered(&FlowFilter::default(), usize::MAX);
        self.root.with(|root| translations::pools(first, (&self.model, root)))
    }

    /// The inside addresses with the most translations, `most` of them.
    pub fn nat_users(&self, most: usize) -> Vec<stats::NatUser> {
        let first = self.gathered(&FlowFilter::default(), usize::MAX);
        self.root.with(|root| translations::users(first, (&self.model, root), most))
    }

    /// The translations that a filter matches.
    fn gathered(&self, filter: &FlowFilter, most: usize) -> First {
        let filter = FlowFilter { translations: true, ..filter.clone() };
        let (now, filter) = (self.now(), Compiled::new(&filter, &self.map));
        let mut first = First::new(FlowOrder::Age, most);
        for (number, worker) in self.workers.iter().enumerate() {
            flows::each(
                |from| Some(worker.flows(from, now)),
                |_, session| {
                    if filter.matches(&session) {
                        first.add(number, session, now)
                    }
                },
            );
        }
        first
    }

    /// Ends the sessions that a filter matches; gives how many.
    pub fn clear_flows(&mut self, filter: &FlowFilter) -> usize {
        let (now, filter) = (self.now(), Compiled::new(filter, &self.map));
        let mut count = 0;
        for worker in self.workers.iter_mut() {
            let mut from = Some(0);
            while let Some(at) = from {
                let page = worker.flows(at, now);
                count += worker.end_flows(&flows::ended(&page, &filter));
                from = page.next;
            }
        }
        count
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

    /// Lets the caller resolve neighbours from now on: packets are held until it answers ([`Harness::events`]) instead
    /// of being refused at once.
    pub fn listen(&mut self) {
        let connect = |worker: &mut Worker| {
            let (producer, events) = ring(events::RING);
            worker.events.connect(producer, None);
            events
        };
        self.events = self.workers.iter_mut().map(connect).collect();
        self.limit();
    }

    /// Logs translations from now on, for the caller ([`Harness::nat_events`]).
    pub fn log_translations(&mut self) {
        let connect = |worker: &mut Worker| {
            let (producer, events) = ring(LOG_RING);
            worker.sessions.log.connect(producer, None, Arc::default());
            events
        };
        self.log = self.workers.iter_mut().map(connect).collect();
    }

    /// The events of translations since the last call.
    pub fn nat_events(&mut self) -> Vec<NatEvent> {
        let mut taken = Vec::new();
        for events in &mut self.log {
            events.pop(LOG_RING, |event| taken.push(event));
        }
        taken
    }

    /// Takes samples from now on, for the caller ([`Harness::samples`]).
    pub fn take_samples(&mut self) {
        let connect = |worker: &mut Worker| {
            let (producer, samples) = ring(sample::RING);
            worker.samples.connect(producer, None);
            samples
        };
        self.samples = self.workers.iter_mut().map(connect).collect();
    }

    /// The samples that were taken since the last call, if any are; the oldest thousand, if there were more.
    pub fn samples(&mut self) -> Vec<Sample> {
        let mut taken = Vec::new();
        for samples in &mut self.samples {
            samples.pop(sample::RING, |sample| taken.push(sample));
        }
        taken
    }

    /// Returns the counts of invalid packets for the alarms of policies.
    pub fn alarms(&self) -> Vec<crate::engine::alarm::Reading> {
        self.root.with(|root| crate::engine::collect::alarms(&self.model, &self.map, root))
    }

    /// Returns the counters of the samplers, in the order of the model.
    pub fn samplers(&self) -> Vec<stats::SamplerStats> {
        self.root.with(|root| crate::engine::collect::samplers(&self.map, root))
    }

    /// Finds neighbours, tests and announces our addresses, and advertises from now on, whenever it is stepped
    /// ([`Harness::step`]). `announces` are the ports, by the model's index of their interfaces, behind which there may be
    /// stations that we do not know of.
    ///
    /// # Errors
    /// When a table has no room.
    pub fn discover(&mut self, announces: &[u32]) -> Result<(), HarnessError> {
        self.listen();
        let keeper = Keeper::new(&self.model, Stream::Neighbors.open(&self.entropy));
        self.discovery = Some(Discovery { keeper, announces: announces.to_vec(), news: Vec::new() });
        self.put_into_force(self.model.clone(), self.places.clone())
    }

    /// The link of a port (by the model's index of its interface) goes up or down.
    ///
    /// # Errors
    /// When a table has no room.
    pub fn set_link(&mut self, interface: u32, up: bool) -> Result<(), HarnessError> {
        let mut places = self.places.clone();
        if let Some(place) = places.ports.get_mut(&interface) {
            place.down = !up;
        }
        self.put_into_force(self.model.clone(), places)
    }

    fn put_into_force(&mut self, model: model::Gateway, mut places: Places) -> Result<(), HarnessError> {
        let now = self.now();
        let mut work = Work::default();
        if let Some(Discovery { keeper, announces, .. }) = &mut self.discovery {
            let announces = |port| announces.contains(&port);
            let unusable = |links: &[crate::neighbor::Link]| keeper.unusable(links);
            let (prepared, links) = {
                let acls = self.compiler.stage_acls(&model)?;
                control::prepare(&self.compiler, acls, unusable, &model, &mut places, announces)?
            };
            let (root, map) = self.compiler.commit(&model, prepared, true);
            drop(self.compiler.take_rubbish());
            self.root.publish(root);
            keeper.adopt(&model, &map, links, now, &mut work);
            self.map = map;
        } else {
            let (root, map) = self.compiler.compile(&model, &places)?;
            self.root.publish(root);
            self.map = map;
        }
        (self.model, self.places) = (model, places);
        self.carry_out(work);
        Ok(())
    }

    fn now(&self) -> Time {
        Clock::from(self.clock.clone()).now()
    }

    /// Runs the control side once: it handles the worker's events and due timers, and publishes the results to the
    /// worker. Returns the time at which it is to be called again.
    pub fn step(&mut self) -> Option<Time> {
        let told = self.events();
        let now = self.now();
        let discovery = self.discovery.as_mut()?;
        let mut work = Work::default();
        told.iter().for_each(|event| discovery.keeper.handle(event, now, &mut work));
        discovery.keeper.step(now, &mut work);
        self.carry_out(work);
        self.discovery.as_ref()?.keeper.table.next()
    }

    /// Begins the counters of SAs and SPDs with 0.
    pub fn clear_ipsec(&mut self) {
        let (upkeep, now) = (&self.upkeep, self.now());
        let Harness { model, map, root, cleared, .. } = self;
        root.with(|root| {
            cleared.clear_sas(crate::engine::sas::counted(model, map, root, (upkeep, now)));
            policies::clear(root, cleared);
        });
    }

    /// Runs the control side's checks of SAs: the worker makes the packets that are due in the next run. Returns the
    /// news.
    pub fn tend_sas(&mut self) -> Vec<News> {
        let now = self.now();
        let due = self.root.with(|root| self.upkeep.step(now, &root.ipsec));
        self.workers.first().handle(Command::Make(due.packets));
        due.news
    }

    fn carry_out(&mut self, mut work: Work) {
        let now = self.now();
        if let Some(discovery) = &mut self.discovery
            && let Some(root) = control::change(&mut self.compiler, &mut discovery.keeper, now, &mut work)
        {
            self.root.publish(root);
        }
        for (interface, frame) in work.frames.drain(..) {
            self.workers.first().handle(Command::Send(interface, frame));
        }
        if let Some(discovery) = &mut self.discovery {
            discovery.news.append(&mut work.news);
        }
    }

    /// The neighbours that were learned, in no particular order.
    pub fn neighbors(&self) -> Vec<Known> {
        self.discovery.iter().flat_map(|discovery| discovery.keeper.table.iter()).collect()
    }

    /// Returns the news since the last call.
    pub fn news(&mut self) -> Vec<News> {
        self.discovery.as_mut().map_or_else(Vec::new, |discovery| std::mem::take(&mut discovery.news))
    }

    fn limit(&mut self) {
        let mut neighbors = self.model.neighbor_discovery;
        if self.events.is_empty() {
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

    /// Returns the counters of learned decisions.
    pub fn fast_path(&self) -> stats::FastPath {
        crate::engine::report::fast_path(self.workers.counters().map(|own| &own.flows))
    }

    /// Packets that went from one worker to another.
    pub fn handed(&self) -> u64 {
        self.workers.counters().map(|own| own.handed_out.value()).sum()
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

    /// Adds a frame to the next vector, as received by the port of an interface (the model's index). False when the
    /// vector is full or no buffer is left: run it first. A frame that no buffer can hold is dropped at once.
    pub fn inject(&mut self, interface: u32, frame: &[u8], time: Time, ordinal: u32) -> bool {
        self.inject_offloaded(interface, frame, Offload::default(), time, ordinal)
    }

    /// As [`Harness::inject`], for a frame that a card or the kernel left work on: its checksum, or its segmentation.
    pub fn inject_offloaded(
        &mut self,
        interface: u32,
        frame: &[u8],
        offload: Offload,
        time: Time,
        ordinal: u32,
    ) -> bool {
        if frame.len() > MAX_FRAME {
            let Some(counters) = self.workers.counters().next() else { return false };
            counters.received.add(1);
            counters.drops[Reason::FrameTooLong as usize].add(1);
            self.workers
                .first()
                .recorder
                .add_unseen(ordinal, Fate::Dropped { reason: Reason::FrameTooLong, created: false });
            return true;
        }
        let worker = self.workers.of_port(interface);
        let Some(mut packet) = worker.packet(frame) else { return false };
        packet.set_time(time);
        packet.set_ordinal(ordinal);
        packet.set_offload(offload);
        self.frames = true;
        worker.inject(interface, packet).is_ok()
    }

    /// Adds a packet without a link-layer header to the next vector, as if it had been taken out of a tunnel of an interface
    /// (its number), so many tunnels deep. False when the vector is full, no buffer is left, or a frame was added before.
    pub fn inject_decapsulated(&mut self, interface: u32, nesting: u8, packet: &[u8], ordinal: u32) -> bool {
        if self.frames {
            return false;
        }
        let Some(mut packet) = self.workers.first().packet(packet) else { return false };
        packet.set_ordinal(ordinal);
        let added = self.workers.first().inject_decapsulated(interface, nesting, packet).is_ok();
        self.decapsulated += usize::from(added);
        added
    }

    /// Adds a packet without a link-layer header to the next vector, as if a policy had found that a pair of SAs protects it
    /// on its way from an interface (its number). False as for [`Harness::inject_decapsulated`].
    pub fn inject_protected(&mut self, interface: u32, sa: SaIndex, packet: &[u8], ordinal: u32) -> bool {
        if self.frames {
            return false;
        }
        let Some(&number) = self.map.sas.get(sa.0 as usize) else { return false };
        let Some(mut packet) = self.workers.first().packet(packet) else { return false };
        packet.set_ordinal(ordinal);
        let added = self.workers.first().inject_protected(interface, number, packet).is_ok();
        self.decapsulated += usize::from(added);
        added
    }

    /// Runs the graph over what was injected and returns what became of it, by ascending number.
    pub fn run(&mut self) -> Vec<Outcome> {
        self.frames = false;
        self.workers.run(std::mem::take(&mut self.decapsulated));
        let mut outcomes: Vec<Outcome> = Vec::new();
        let mut index: HashMap<u32, usize> = HashMap::new();
        let fates = self.workers.iter_mut().flat_map(|worker| worker.recorder.take());
        let fates: Vec<(u32, Fate)> = fates.filter(|(ordinal, _)| *ordinal != UNASKED).collect();
        for (ordinal, fate) in fates {
            let place = *index.entry(ordinal).or_insert_with(|| {
                outcomes.push(Outcome {
                    ordinal,
                    verdict: Verdict::Held,
                    out: Vec::new(),
                    answers: Vec::new(),
                    unlisted: None,
                    flow: None,
                    sav: None,
                    fragments: Vec::new(),
                    acl: Vec::new(),
                    bindings: None,
                    allow: Vec::new(),
                    nat: Vec::new(),
                    spd: Vec::new(),
                    sas: Vec::new(),
                    tunnels: Vec::new(),
                    merged: false,
                    bridges: Vec::new(),
                    route: None,
                    waits: false,
                });
                outcomes.len() - 1
            });
            self.note(&mut outcomes[place], fate);
        }
        outcomes.sort_by_key(|outcome| outcome.ordinal);
        outcomes
    }

    fn note(&self, outcome: &mut Outcome, fate: Fate) {
        match fate {
            Fate::Unlisted { interface, output } => outcome.unlisted = self.unlisted(interface, output),
            Fate::Flow { miss, .. } => outcome.flow = Some(miss),
            Fate::Validated { interface, source, policy, said, .. } => {
                let decision = self.decision(policy, interface, source, said);
                outcome.sav = outcome.sav.take().or(decision);
            }
            Fate::Fragment { interface, output, v4, fragmented } => {
                let Harness { compiler, model, map, .. } = self;
                let family = if v4 { IpFamily::V4 } else { IpFamily::V6 };
                // Fragments with the fields of their first one are skipped: a capture may have many.
                let asked_by = match fragmented {
                    Fragmented::Given(..) => None,
                    Fragmented::Waits | Fragmented::NoRoom | Fragmented::Refused => {
                        compiler.acl_asks_transport((model, map), interface, output, family)
                    }
                };
                outcome.fragments.retain(|piece| (piece.interface, piece.output) != (interface, output));
                outcome.fragments.push(Piece { interface, output, fragmented, asked_by });
                outcome.waits = fragmented == Fragmented::Waits;
            }
            Fate::Filtered { interface, output, found, session } => {
                let decision = self.compiler.acl_decision(found);
                outcome.acl.extend(decision.map(|decision| Filtered { interface, output, decision, session }));
            }
            Fate::Bound { interface, mac, number, permit, .. } => {
                let Harness { compiler, model, map, .. } = self;
                outcome.bindings = compiler.binding_decision((model, map), interface, mac, number, permit);
            }
            Fate::Allowed { interface, source, refused_by } => {
                let Harness { compiler, model, map, .. } = self;
                outcome.allow = compiler.allow_decision(model, map, interface, source, refused_by);
            }
            Fate::Nat { list, place, effect } => outcome.nat.push((list, place, effect)),
            Fate::Spd { spd, place, output, effect } => outcome.spd.push((spd, place, output, effect)),
            Fate::Secured { sa, inbound } => {
                let index = self.map.sas.iter().position(|&number| number == sa);
                outcome.sas.extend(index.map(|index| Secured { sa: SaIndex(index as u32), inbound }));
                if inbound {
                    // What was inside has a route of its own.
                    outcome.route = None;
                }
            }
            Fate::Tunnelled { interface, inbound } => {
                let index = self.map.interfaces.iter().position(|&number| number == interface);
                let interface = index.map(|index| InterfaceIndex(index as u32));
                outcome.tunnels.extend(interface.map(|interface| Tunnelled { interface, inbound }));
                if inbound {
                    // What was inside has a route of its own.
                    outcome.route = None;
                }
            }
            Fate::Merged { .. } => outcome.merged = true,
            Fate::Bridged { bridge, to } => outcome.bridges.push((BridgeIndex(bridge), to)),
            Fate::LookedUp { vrf, destination, adjacency } => {
                let route = || self.route(vrf, destination, adjacency);
                outcome.route.get_or_insert_with(route);
            }
            Fate::Transmitted { interface, created: false } => {
                outcome.out.push(interface);
                outcome.end(Verdict::Forward);
            }
            Fate::Transmitted { interface, created: true } => outcome.answers.push(interface),
            Fate::Local => outcome.end(Verdict::Local),
            Fate::Dropped { reason, created: false } => outcome.end(Verdict::Drop(reason)),
            // An answer that could not be sent changes nothing for the packet that it answers.
            Fate::Dropped { created: true, .. } => {}
        }
    }

    fn unlisted(&self, interface: u32, output: bool) -> Option<Unlisted> {
        let index = self.map.interfaces.iter().position(|&number| number == interface)?;
        let access = &self.model.interfaces[index].access;
        let declared = if output { &access.ethertypes_out } else { &access.ethertypes_in };
        Some(Unlisted { interface, output, origin: declared.as_ref()?.origin })
    }

    pub(super) fn route(&self, vrf: u16, destination: IpAddr, adjacency: u32) -> RouteTaken {
        if let IpAddr::V6(address) = destination
            && address.is_unicast_link_local()
        {
            return self.own_link_local(vrf, destination);
        }
        let found = self.compiler.ribs().get(usize::from(vrf)).and_then(|rib| rib.covering(destination));
        let none = Adjacency::terminal(Kind::NoRoute);
        let (to, adjacency) = self.root.with(|root| {
            let adjacency = root.adjacencies.get(adjacency as usize).copied().unwrap_or(none);
            (root.describe(&adjacency), adjacency)
        });
        RouteTaken {
            destination,
            vrf,
            prefix: found.map(|(prefix, _)| prefix),
            origin: found.map_or(Origin::default(), |(_, entry)| entry.origin),
            to,
            interface: (adjacency.interface != NONE).then_some(adjacency.interface),
            next_hop: adjacency.next_hop,
        }
    }

    /// Link-local addresses are in no table: what is recorded of them is that they are ours.
    fn own_link_local(&self, vrf: u16, destination: IpAddr) -> RouteTaken {
        let mut addresses = self.model.interfaces.iter().flat_map(|interface| &interface.addresses);
        let own = addresses.find(|address| address.net.addr() == destination);
        let origin = own.map_or(Origin::default(), |address| address.origin);
        let (prefix, to) = (Some(destination.into()), "local".to_owned());
        RouteTaken { destination, vrf, prefix, origin, to, interface: None, next_hop: None }
    }

    /// The name of an interface, by the number that outcomes use.
    pub fn interface_name(&self, number: u32) -> String {
        self.root.with(|root| {
            root.interfaces.get(number as usize).map_or("?".into(), |interface| interface.name.to_string())
        })
    }

    /// The number that outcomes use for an interface of the model.
    pub fn interface_number(&self, index: u32) -> Option<u32> {
        self.map.interfaces.get(index as usize).copied()
    }

    /// The hardware address of an interface of the model.
    pub fn interface_mac(&self, index: u32) -> Option<[u8; 6]> {
        let number = self.interface_number(index)?;
        self.root.with(|root| root.interfaces.get(number as usize).map(|interface| interface.mac))
    }

    /// The index in the model of the port that carries an interface of the model.
    pub fn port_of(&self, index: u32) -> u32 {
        match self.model.interfaces[index as usize].kind {
            InterfaceKind::Port { .. } | InterfaceKind::Ipsec | InterfaceKind::Tunnel(_) | InterfaceKind::Bridge(_) => {
                index
            }
            InterfaceKind::Vlan { parent, .. } => parent.0,
        }
    }

    /// The place in the configuration that an origin stands for.
    pub fn place(&self, origin: Origin) -> Option<Place> {
        self.model.origins.place(origin)
    }

    /// Traces the next packets through a node.
    pub fn trace(&self, node: Node, count: u32) {
        self.tracer.request(node, count);
    }

    /// Returns the recorded traces.
    pub fn traces(&self) -> Vec<TraceRow> {
        self.root.with(|root| crate::engine::show::trace_rows(&self.tracer.traces(), root, |_| None))
    }

    /// Packets that a node was given.
    pub fn visits(&self, node: Node) -> u64 {
        self.workers.counters().map(|own| own.nodes[node as usize].packets.value()).sum()
    }

    /// How often a reason dropped a packet.
    pub fn drops(&self, reason: Reason) -> u64 {
        self.workers.counters().map(|own| own.drops[reason as usize].value()).sum()
    }

    /// Returns the counters of an interface of the model.
    pub fn interface_stats(&self, index: u32) -> Option<stats::InterfaceStats> {
        let number = self.interface_number(index)?;
        self.root.with(|root| {
            let interface = root.interfaces.get(number as usize)?;
            Some(crate::engine::collect::interface(&interface.counters, None, false))
        })
    }

    /// Where all packets went.
    pub fn conservation(&self) -> Conservation {
        crate::engine::collect::conservation(self.workers.counters())
    }

    /// Returns the worker's neighbour events since the last call, if the caller resolves neighbours: the oldest few
    /// thousand, if there were more.
    pub fn events(&mut self) -> Vec<Event> {
        let mut told = Vec::new();
        for events in &mut self.events {
            events.pop(events::RING, |event| told.push(event));
        }
        told
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
