//! The running gateway, as the control thread holds it: ports, workers, the compiler, and what they count.

mod crew;
mod error;
mod health;
mod keeper;
mod ports;
mod report;
mod why;

use std::collections::{HashSet, VecDeque};
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};

use ipnet::IpNet;
use weir_base::clock::Clock;
use weir_base::random::Entropy;
use weir_base::reclaim::{Domain, Published};
use weir_base::{tsc, wake};
use weir_packet::buffer::{Pool, PoolSize};
use weir_port::links::Monitor;

use crate::alarm;
use crate::collect::{self, RefusedEthertypes};
use crate::compile::{
    AclEdit, AclEdited, AclError, AclGroup, AclMembers, AclRestored, AclSaid, Compiler, Edit, Edited, EntryKey,
    LostEdits, Map, Names, Places, SavError, Settings, StageError,
};
use crate::counters::{Counter, WorkerCounters};
pub use crate::keeper::News;
use crate::keeper::{self as keeping, Keeper, Work};
use crate::model;
use crate::node::Node;
use crate::root::Root;
use crate::sample;
use crate::stats::{self, Snapshot};
use crate::streams::Stream;
use crate::trace::Tracer;
use crate::worker::Order;

use crew::{Crew, Parts};
pub use error::{EngineError, UnknownNode};
pub use health::Stuck;
use ports::{OpenPort, open_first, open_ports};
use report::{count, difference, interfaces, tables};
pub use why::{Refusal, WayBack};

/// How a gateway is to run.
pub struct Options {
    /// What time it is.
    pub clock: Clock,
    /// Where all randomness comes from: keys of hashes, identifications, jitter.
    pub random: Entropy,
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
    /// Changes to access lists and their groups that were made while the gateway ran, and ended: these are declared
    /// otherwise now.
    pub lost: Vec<LostEdits>,
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
    /// Counters of the rules of access lists.
    Acl,
    /// Counters of allowlists.
    Allowlists,
    /// Counters of the rules of bindings.
    Bindings,
    /// What interfaces refused for its ethertype.
    Ethertypes,
    /// Traces, and what was to be traced.
    Trace,
    /// Neighbours that were learned: they are asked for again when somebody wants them.
    Neighbors,
    /// All of these but neighbours, whose loss traffic would feel.
    All,
}

/// A running gateway. Dropping it stops it.
pub struct Engine {
    control: Arc<Mutex<Control>>,
    keeper: keeper::Thread,
    domain: Domain,
    root: Arc<Published<Root>>,
    tracer: Arc<Tracer>,
    pool: Pool,
    clock: Clock,
    workers: Crew,
    busy: Arc<AtomicUsize>,
    rounds: health::Rounds,
    samples: Option<sample::Reader>,
}

struct Control {
    model: Arc<model::Gateway>,
    compiler: Compiler,
    map: Map,
    places: Places,
    keeper: Keeper,
    /// What happened and was not asked for yet.
    news: VecDeque<News>,
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
    ethertypes: RefusedEthertypes,
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
        let Options { clock, random, invent_neighbors, pin } = options;
        let count = usize::from(model.workers.count.max(1));
        let model::Buffers { small, large } = model.buffers;
        let pool = Pool::new(PoolSize { small: small as usize, large: large as usize })
            .map_err(|source| EngineError::Buffers { small, large, source })?;
        let domain = Domain::new();
        let settings = Settings { workers: count, invent_neighbors };
        let mut compiler = Compiler::new(&domain, settings, model.limits);

        // Before the ports look at their devices: no change falls in between.
        let monitor = Monitor::open();
        let mut ports = Vec::new();
        let mut opened = open_first(&model, &mut ports)?;
        let monitor = match monitor {
            Ok(monitor) => Some(monitor),
            Err(source) if ports.iter().flatten().any(|port| port.port.device().is_some()) => {
                return Err(EngineError::Monitor(source));
            }
            Err(_) => None,
        };
        let mut keeper = Keeper::new(&model, Stream::Neighbors.open(&random));
        let places = opened.places.clone();
        let announces = |index| Control::announces(&ports, &places, index);
        let (root, map, links) =
            keeping::compile(Compiler::compile, &mut compiler, &keeper, &model, &mut opened.places, announces)?;
        let root = Arc::new(Published::new(root, &domain));
        let tracer = Arc::<Tracer>::default();
        let busy = Arc::new(AtomicUsize::new(count));
        before_threads().map_err(EngineError::BeforeThreads)?;

        let (sleeper, waker) = wake::pair().map_err(EngineError::Keeper)?;
        let bed = wake::pair().map_err(EngineError::Keeper)?;
        let parts = Parts {
            domain: &domain,
            root: &root,
            tracer: &tracer,
            pool: &pool,
            clock: &clock,
            busy: &busy,
            keeper: &waker,
            sampler: &bed.1,
        };
        let (workers, rings) = Crew::start(&model, pin, &random, &parts)?;
        connect(&workers, &opened.new, &mut ports);
        receive(&workers, &opened.new, &mut ports);
        let mut work = Work::default();
        keeper.adopt(&model, &map, links, clock.now(), &mut work);
        let down = |index: &u32| opened.places.ports.get(index).is_some_and(|place| place.down);
        for (_, interface) in (0..).zip(&model.interfaces).filter(|(index, _)| down(index)) {
            work.news.push(News::LinkDown { interface: interface.name.clone() });
        }
        let mut control = Control {
            model: Arc::new(model),
            compiler,
            map,
            places: opened.places,
            keeper,
            news: VecDeque::new(),
            ports,
            baseline: Baseline { since: clock.now().0, ..Baseline::default() },
            told: HashSet::new(),
            untold: Vec::new(),
        };
        let mouths: Vec<_> = workers.iter().map(|worker| Arc::clone(&worker.mouth)).collect();
        control.carry_out(work, clock.now(), &root, &mouths);
        let control = Arc::new(Mutex::new(control));
        let samples = sample::Reader::new(rings.samples, bed, Arc::clone(&root), clock.clone());
        let parts = keeper::Parts {
            control: Arc::clone(&control),
            domain: domain.clone(),
            root: Arc::clone(&root),
            clock: clock.clone(),
            mouths,
            rings: rings.events,
            monitor,
        };
        Ok(Engine {
            control,
            keeper: keeper::Thread::start(parts, sleeper, waker).map_err(EngineError::Keeper)?,
            domain,
            root,
            tracer,
            pool,
            clock,
            workers,
            busy,
            rounds: health::Rounds::default(),
            samples: Some(samples),
        })
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
        let mut opened = open_ports(&model, &control.model.interfaces, &mut control.ports)?;
        let before = count(&control.compiler);
        let places = opened.places.clone();
        let announces = |index| Control::announces(&control.ports, &places, index);
        let compiled = keeping::compile(
            Compiler::compile,
            &mut control.compiler,
            &control.keeper,
            &model,
            &mut opened.places,
            announces,
        );
        let (root, map, links) = match compiled {
            Ok(compiled) => compiled,
            Err(error) => {
                opened.undo(&mut control.ports);
                return Err(error.into());
            }
        };
        // New ports can send before anything is routed to them; old ones are closed after nothing is routed to them. New
        // ones receive once it is known what belongs to them and once workers have let go of the old ones, which may
        // be of the same device: what both received would come twice, and out of order.
        connect(&self.workers, &opened.new, &mut control.ports);
        let generation = root.model;
        let mut report = difference(&control.model, &model);
        report.generation = generation;
        report.routes = (count(&control.compiler), before);
        let mut goodbyes = Work::default();
        control.keeper.leave(&links, &mut goodbyes);
        if !goodbyes.frames.is_empty() {
            control.carry_out(goodbyes, self.clock.now(), &self.root, &self.mouths());
            self.workers.settle();
        }
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
        // Workers let go of a port before it counts as closed: whatever it wrote is written.
        self.workers.settle();
        receive(&self.workers, &opened.new, &mut control.ports);
        for &number in &opened.gone {
            let closed = control.ports[number as usize].take();
            // What its last flush met is known only now.
            control.untold.extend(closed.and_then(|port| port.failure()));
        }
        let mut work = Work::default();
        control.keeper.adopt(&model, &map, links, self.clock.now(), &mut work);
        let ended = control.compiler.ended_sav_stages().into_iter();
        work.news.extend(ended.map(|policy| News::StageEnded { policy }));
        report.lost = control.compiler.lost_acl_edits();
        control.tell_of_links(&model, &opened.places, &mut work);
        Control::tell_of_mtus(&mut control.ports, &model, &opened.places, &mut work);
        (control.model, control.map, control.places) = (Arc::new(model), map, opened.places);
        control.carry_out(work, self.clock.now(), &self.root, &self.mouths());
        self.workers.wake();
        self.keeper.wake();
        self.domain.collect();
        control.compiler.collect();
        Ok(report)
    }

    /// The reading ends of what workers take samples by, for whoever asks first.
    pub fn take_samples(&mut self) -> Option<sample::Reader> {
        self.samples.take()
    }

    /// What interfaces counted for the alarms of their policies. `None`: a reload is under way, which this does not wait for.
    pub fn alarms(&self) -> Option<Vec<alarm::Reading>> {
        let control = self.try_lock()?;
        Some(self.root.with(|root| collect::alarms(&control.model, &control.map, root)))
    }

    /// What samplers took, in the order of the configuration.
    pub fn samplers(&self) -> Vec<stats::SamplerStats> {
        let control = self.lock();
        self.root.with(|root| collect::samplers(&control.map, root))
    }

    /// The version in force.
    pub fn generation(&self) -> u64 {
        self.root.with(|root| root.model)
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
            fragments: waiting(|counters| (&counters.set_aside, &counters.taken_up)),
            remembered: self.workers.iter().map(|worker| worker.counters.remembered.value()).sum(),
            sources: self.workers.iter().map(|worker| worker.counters.spoofed.read().count()).sum(),
        };
        Snapshot {
            elapsed: 0.0,
            tick_frequency: tsc::frequency(),
            workers: self
                .workers
                .iter()
                .enumerate()
                .map(|(number, worker)| {
                    collect::worker(number, worker.core, worker.mouth.is_asleep(), &worker.counters)
                })
                .collect(),
            drops: collect::drops(self.workers.iter().map(|worker| &*worker.counters)),
            interfaces: self.root.with(|root| interfaces(control, root)),
            sav: self.root.with(|root| collect::sav(&control.model, &control.map, root)),
            conservation: collect::conservation(self.workers.iter().map(|worker| &*worker.counters)),
            buffers: stats::BufferStats {
                small: occupancy.small,
                large: occupancy.large,
                huge_pages: occupancy.pages == weir_base::region::Pages::Huge,
            },
            neighbors: stats::NeighborStats {
                events_lost: self.workers.iter().map(|worker| worker.counters.events_lost.value()).sum(),
                ..control.keeper.table.stats()
            },
            tables: tables(control, &waiting, self.workers.len()),
        }
    }

    /// Every route of every VRF, by VRF and prefix.
    pub fn routes(&self) -> Vec<stats::RouteRow> {
        let control = self.lock();
        self.root.with(|root| crate::show::routes(&control.model, &control.map, &control.compiler, root))
    }

    /// Changes what a source says of the table of a policy: all changes, or none. The time is the system's, in seconds of
    /// the Unix epoch.
    ///
    /// # Errors
    /// When the policy has no table, a change can not be made, or there is no room.
    pub fn edit_sav(&self, policy: &str, source: &str, edits: &[Edit], time: u64) -> Result<Edited, SavError> {
        let mut control = self.lock();
        let Control { compiler, model, .. } = &mut *control;
        let (edited, root) = compiler.edit_sav(model, policy, source, edits, time)?;
        self.put_into_force(root, compiler);
        Ok(edited)
    }

    /// Makes a source say these entries of the table of a policy and no others.
    ///
    /// # Errors
    /// As for [`Engine::edit_sav`].
    pub fn replace_sav(
        &self,
        policy: &str,
        source: &str,
        entries: &[(EntryKey, Names)],
        time: u64,
    ) -> Result<Edited, SavError> {
        let mut control = self.lock();
        let Control { compiler, model, .. } = &mut *control;
        let (edited, root) = compiler.replace_sav(model, policy, source, entries, time)?;
        self.put_into_force(root, compiler);
        Ok(edited)
    }

    /// Has another action than the configured one in force for a policy, from a time on in seconds of the Unix epoch, at once
    /// for all packets; `None`: the configured one again. It stays through reloads as long as the policy does.
    ///
    /// # Errors
    /// When there is no such policy, or it does not say what the action needs.
    pub fn stage_sav(&self, policy: &str, action: Option<model::SavAction>, time: u64) -> Result<(), StageError> {
        let mut control = self.lock();
        let Control { compiler, model, .. } = &mut *control;
        let root = compiler.stage_sav(model, policy, action, time)?;
        self.put_into_force(root, compiler);
        Ok(())
    }

    /// The model in force.
    pub fn model(&self) -> Arc<model::Gateway> {
        Arc::clone(&self.lock().model)
    }

    /// Changes an access list, at once for all packets: all of the change, or none. `edit` is told the model in force, whose
    /// interfaces and groups rules name; `said` is who says so, at the system's time.
    ///
    /// # Errors
    /// Those of `edit`; and when there is no such list, rule or place, a rule can not be had, or there is no room.
    pub fn edit_acl<E: From<AclError>>(
        &self,
        list: &str,
        said: &AclSaid,
        edit: impl FnOnce(&model::Gateway) -> Result<AclEdit, E>,
    ) -> Result<AclEdited, E> {
        let mut control = self.lock();
        let Control { compiler, model, map, .. } = &mut *control;
        let edit = edit(model)?;
        let edited = compiler.edit_acl((model, map), list, edit, said, |root| self.root.publish(root))?;
        compiler.collect_acl();
        Ok(edited)
    }

    /// Gives a group that rules of access lists name other members, at once for all packets, and to all groups that it is in.
    /// `group` is told the model in force.
    ///
    /// # Errors
    /// Those of `group`; and when there is no such group, it would have no members or be in itself, a rule would have no
    /// addresses of its family, or there is no room.
    pub fn replace_acl_group<E: From<AclError>, M: Into<AclMembers>>(
        &self,
        said: &AclSaid,
        group: impl FnOnce(&model::Gateway) -> Result<M, E>,
    ) -> Result<AclEdited, E> {
        let mut control = self.lock();
        let Control { compiler, model, map, .. } = &mut *control;
        let group = group(model)?;
        Ok(compiler.replace_acl_group((model, map), group, said, |root| self.root.publish(root))?)
    }

    /// Takes back what a group was given while the gateway runs: one that is declared is as declared again, in all rules at
    /// once; any other is gone.
    ///
    /// # Errors
    /// When there is no such group, it is as it was declared, or it can not be so: rules or groups name one that would go, a
    /// group would be in itself, a rule would have no addresses of its family, or there is no room.
    pub fn restore_acl_group(&self, group: &str) -> Result<AclRestored, AclError> {
        let mut control = self.lock();
        let Control { compiler, model, map, .. } = &mut *control;
        compiler.restore_acl_group((model, map), group, |root| self.root.publish(root))
    }

    /// Makes an access list that is not declared. `list` is told the model in force.
    ///
    /// # Errors
    /// Those of `list`; and when there is one of its name, a rule can not be had, or there is no room.
    pub fn create_acl<E: From<AclError>>(
        &self,
        said: &AclSaid,
        list: impl FnOnce(&model::Gateway) -> Result<model::AclList, E>,
    ) -> Result<AclEdited, E> {
        let mut control = self.lock();
        let Control { compiler, model, map, .. } = &mut *control;
        let list = list(model)?;
        Ok(compiler.create_acl((model, map), list, said)?)
    }

    /// Deletes an access list that was made while the gateway ran.
    ///
    /// # Errors
    /// When there is no such list, interfaces name it, or it is declared.
    pub fn delete_acl(&self, list: &str) -> Result<AclEdited, AclError> {
        let mut control = self.lock();
        let Control { compiler, model, map, .. } = &mut *control;
        compiler.delete_acl((model, map), list)
    }

    /// The access lists, in the order of the configuration; then those that were made while the gateway ran.
    pub fn acl_lists(&self) -> Vec<stats::AclListStats> {
        let control = self.lock();
        control.compiler.acl_lists(&control.model)
    }

    /// What sequences of access lists are compiled to.
    pub fn acl_sections(&self) -> Vec<stats::AclSectionStats> {
        let control = self.lock();
        control.compiler.acl_sections(&control.model)
    }

    /// The rules of an access list that are wanted, in their order, `most` at most, each as `row` makes of it with the model
    /// in force; and how many there are in all. `None`: there is no such list.
    pub fn acl_rules<T>(
        &self,
        list: &str,
        wanted: impl Fn(&model::AclRule) -> bool,
        most: usize,
        row: impl Fn(&model::Gateway, stats::AclRuleRow) -> T,
    ) -> Option<(Vec<T>, usize)> {
        let control = self.lock();
        let (rows, total) = control.compiler.acl_rules(&control.model, list, wanted, most)?;
        Some((rows.into_iter().map(|own| row(&control.model, own)).collect(), total))
    }

    /// The groups that rules may name, as they are now, each as `row` makes of it with the model in force; with who changed
    /// them, if they are not as they were declared.
    pub fn acl_groups<T>(&self, row: impl Fn(&model::Gateway, AclGroup, Option<AclSaid>) -> T) -> Vec<T> {
        let control = self.lock();
        let groups = control.compiler.acl_groups(&control.model);
        groups.into_iter().map(|(group, said)| row(&control.model, group, said)).collect()
    }

    /// What an access list does with packets that no rule of it matches; `None`: there is no such list.
    pub fn acl_default(&self, list: &str) -> Option<model::AclDefault> {
        self.lock().compiler.acl_default(list)
    }

    /// Where packets came from that were not valid, since the counters of interfaces were cleared: what each worker knows,
    /// together.
    pub fn invalid_sources(&self) -> stats::InvalidSources {
        let now = self.clock.now();
        let counters = self.workers.iter().map(|worker| &*worker.counters);
        self.root.with(|root| collect::invalid_sources(counters, root, now))
    }

    fn put_into_force(&self, root: Root, compiler: &mut Compiler) {
        self.root.publish(root);
        self.domain.collect();
        compiler.collect();
    }

    /// The policies of source address validation, in the order of the configuration.
    pub fn sav_policies(&self) -> Vec<stats::SavPolicyStats> {
        let control = self.lock();
        crate::show::sav_policies(&control.model, &control.compiler)
    }

    /// The bindings of hardware addresses, in the order of the configuration.
    pub fn bindings(&self) -> Vec<stats::BindingsStats> {
        let control = self.lock();
        crate::show::bindings(&control.model, &control.compiler)
    }

    /// What interfaces let pass by ethertype, in the order of the configuration.
    pub fn ethertypes(&self) -> Vec<stats::EthertypeStats> {
        let control = self.lock();
        self.root.with(|root| collect::ethertypes(&control.model, &control.map, root, &control.baseline.ethertypes))
    }

    /// The allowlists, in the order of the configuration.
    pub fn allowlists(&self) -> Vec<stats::AllowlistStats> {
        let control = self.lock();
        crate::show::allowlists(&control.model, &control.compiler)
    }

    /// The entries of a policy's list or table whose prefixes `wanted` wants, `most` at most, and how many there are in all;
    /// `None`: there is no such policy, or it has no entries.
    pub fn sav_entries(
        &self,
        policy: &str,
        wanted: impl Fn(IpNet) -> bool,
        most: usize,
    ) -> Option<(Vec<stats::SavEntryRow>, usize)> {
        let control = self.lock();
        control.compiler.sav_occupancy(policy)?;
        Some(control.compiler.sav_entries(&control.model, policy, wanted, most))
    }

    /// Every neighbour: those of the configuration, in its order, then those that were learned, by interface and address.
    pub fn neighbors(&self) -> Vec<stats::NeighborRow> {
        let control = self.lock();
        crate::show::neighbors(&control.model, &control.keeper, self.clock.now())
    }

    /// What happened since the last call: links, duplicate addresses, conflicts, full tables. Each is told once; of more
    /// than a thousand the latest. Does not wait for a reload that is under way: then it is told next time.
    pub fn news(&self) -> Vec<News> {
        self.try_lock().map_or_else(Vec::new, |mut control| control.news.drain(..).collect())
    }

    fn mouths(&self) -> Vec<Arc<crew::Mouth>> {
        self.workers.iter().map(|worker| Arc::clone(&worker.mouth)).collect()
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
            now.sav.extend(collect::sav_of_absent(root));
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
            self.workers.iter().for_each(|worker| worker.counters.spoofed.clear());
        }
        if all || what == Clear::Acl {
            control.compiler.clear_acl();
        }
        if all || what == Clear::Allowlists {
            control.compiler.clear_allowlists();
        }
        if all || what == Clear::Bindings {
            control.compiler.clear_bindings();
        }
        if all || what == Clear::Ethertypes {
            control.baseline.ethertypes = self.root.with(collect::all_refused_ethertypes);
        }
        if all || what == Clear::Trace {
            self.tracer.clear();
        }
        if what == Clear::Neighbors {
            let mut work = Work::default();
            control.keeper.clear(&mut work);
            control.carry_out(work, self.clock.now(), &self.root, &self.mouths());
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
    /// Does not wait for a reload that is under way: then they are told next time.
    pub fn faults(&self) -> Vec<String> {
        let Some(mut control) = self.try_lock() else { return Vec::new() };
        let Control { ports, told, untold, .. } = &mut *control;
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
        self.keeper.stop();
        self.workers.stop();
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Control>> {
        match self.control.try_lock() {
            Ok(control) => Some(control),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Control> {
        // A panic in between left at worst a port open that no one uses.
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives each worker a transmit queue of every one of these ports, and waits until all have them.
fn connect(workers: &Crew, numbers: &[u32], ports: &mut [Option<OpenPort>]) {
    for &number in numbers {
        let Some(port) = ports[number as usize].as_mut() else { continue };
        for (worker, transmitter) in workers.iter().zip(port.port.transmitters(workers.len())) {
            worker.order(Order::Transmit(number, transmitter));
        }
    }
    workers.settle();
}

/// Gives the receive queues of these ports to the workers in turn.
fn receive(workers: &Crew, numbers: &[u32], ports: &mut [Option<OpenPort>]) {
    for &number in numbers {
        let Some(port) = ports[number as usize].as_mut() else { continue };
        for (index, receiver) in port.port.receivers().into_iter().enumerate() {
            workers[(number as usize + index) % workers.len()].order(Order::Receive(number, receiver));
        }
    }
}
