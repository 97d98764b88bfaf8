//! The running gateway, as the control thread holds it.

use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ipnet::IpNet;
use weir_base::clock::Clock;
use weir_base::random::Entropy;
use weir_base::reclaim::{Domain, Published, Reader};
use weir_base::{tsc, wake};
use weir_packet::buffer::{Pool, PoolSize};
use weir_port::links::Monitor;

use super::alarm;
use super::cleared::Cleared;
use super::collect;
use crate::compile::{
    AclEdit, AclEditRow, AclEdited, AclError, AclGroup, AclMembers, AclRestored, AclSaid, Compiler, Edit, Edited,
    EntryKey, LostEdits, Names, SavError, Settings, StageError,
};
use crate::graph::counters::{SessionCounters, WorkerCounters};
use crate::graph::made::Made;
use crate::graph::streams::Stream;
use crate::graph::trace::Tracer;
use crate::graph::worker::Command;
use crate::model;
use crate::neighbor::control::{self as keeping, Keeper, News, Work};
use crate::node::Node;
use crate::root::Root;
use crate::root::counters::Counter;
use crate::root::ipsec::Numbers;
use crate::stats::{self, Snapshot};

use super::control::{self, Control, State, look_at};
use super::error::{EngineError, UnknownNode};
use super::workers::{Parts, Workers};

use super::flows::{self, Compiled, First, FlowFilter, FlowOrder};
use super::keeper;
use super::ports::{OpenPort, announcing, open_first, open_ports, tell_of_mtus};
use super::report::{self, Baseline, Reloaded, count, difference, interfaces, other_tables, tables};
use super::samples::Reader as SampleReader;
use super::stuck::Rounds;
use super::traced::TraceRow;
use super::upkeep::Upkeep;
use super::{policies, sas, translations, tunnels};

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

/// The treatment of live edits that do not apply to a new model, and without which more packets might pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostEdit {
    /// The model is refused.
    Refuse,
    /// They end, and are reported.
    Drop,
}

/// The counters or entries to clear.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clear {
    /// Node clocks and rates.
    Runtime,
    /// Drop reasons.
    Errors,
    /// Interface counters, those of source address validation included.
    Interfaces,
    /// Counters of source address validation: those of interfaces, sources, and hits of prefixes.
    Sav,
    /// Counters of the rules of access lists.
    Acl,
    /// Counters of allowlists.
    Allowlists,
    /// Counters of the rules of bindings.
    Bindings,
    /// The EtherTypes that interfaces refused.
    Ethertypes,
    /// Traces, and what was to be traced.
    Trace,
    /// Learned neighbours: they are resolved again when a packet needs them.
    Neighbors,
    /// Counters of SAs.
    Sa,
    /// Counters of SPDs and of their caches.
    Spd,
    /// All of these but neighbours, whose loss traffic would feel.
    All,
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
        let settings = Settings { workers: count, invent_neighbors };
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

    /// Puts a new model into force: ports are opened and tables written first, then everything changes at once, packet
    /// by packet no one sees a mixture. On any error the old model goes on as if nothing had been tried.
    ///
    /// # Errors
    /// As for [`Engine::start`], and when something changed that only a start can change.
    pub fn reload(&self, model: model::Gateway) -> Result<Reloaded, EngineError> {
        self.reload_after(model, LostEdit::Refuse, |_| ())
    }

    /// Reloads as [`Engine::reload`] does; `lost` is the treatment of edits that do not apply. Calls `before_force`
    /// with the sequence numbers of outbound SAs before the model comes into force. The numbers that it reserves serve
    /// the first packets of new SAs.
    ///
    /// # Errors
    /// As for [`Engine::reload`].
    pub fn reload_after(
        &self,
        model: model::Gateway,
        lost: LostEdit,
        before_force: impl FnOnce(Numbers),
    ) -> Result<Reloaded, EngineError> {
        let control = &*self.control;
        let operation = control.operate();
        let (before, _) = control.in_force();
        let place = |workers: &model::Workers| (workers.count, workers.cores.clone());
        if place(&model.workers) != place(&before.workers) {
            return Err(EngineError::NeedsRestart { what: "the number or place of workers" });
        }
        if model.buffers != before.buffers {
            return Err(EngineError::NeedsRestart { what: "the number of packet buffers" });
        }
        if model.limits != before.limits {
            return Err(EngineError::NeedsRestart { what: "the limits of tables" });
        }
        let compiler = operation.read();
        let acls = compiler.stage_acls(&model)?;
        let refused = if lost == LostEdit::Refuse { acls.protecting() } else { Vec::new() };
        if !refused.is_empty() {
            compiler.abandon_acls(acls);
            return Err(EngineError::EditsLost(refused));
        }
        let mut opened = match open_ports(&model, &before.interfaces, &self.pool, control.all_ports()) {
            Ok(opened) => opened,
            Err(error) => {
                compiler.abandon_acls(acls);
                return Err(error);
            }
        };
        let announcing = announcing(&control.ports(), &opened.places);
        let routes = count(&compiler);
        let prepared = keeping::prepare(
            &compiler,
            acls,
            |links| control.state().keeper.unusable(links),
            &model,
            &mut opened.places,
            |index| announcing.contains(&index),
        );
        drop(compiler);
        let (prepared, links) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                opened.undo(control.all_ports());
                return Err(error.into());
            }
        };
        // New ports can send before anything is routed to them; old ones are closed after nothing is routed to them. New
        // ones receive once it is known what belongs to them and once workers have let go of the old ones, which may
        // be of the same device: what both received would come twice, and out of order.
        connect(&self.workers, &opened.new, &mut control.ports());
        self.workers.settle();
        if control.leave(&links) {
            self.workers.settle();
        }
        let mut report = difference(&before, &model);
        let mut work = Work::default();
        let mut places = opened.places.ports.clone();
        {
            let mut ports = control.ports();
            look_at(&model, &ports, &mut places);
            tell_of_mtus(&mut ports, &model, &places, &mut work);
        }
        let model = Arc::new(model);
        let sequences = operation.write().announced_sequences(&model);
        before_force(Numbers { sequences, windows: Vec::new() });
        let mut compiler = operation.write();
        let nat = self.root.with(|root| root.nat.version);
        let (root, map) = compiler.commit(&model, prepared, true);
        report.generation = root.model;
        report.routes = (count(&compiler), routes);
        report.lost = compiler.lost_acl_edits();
        let ended = compiler.ended_sav_stages().into_iter();
        work.news.extend(ended.map(|policy| News::StageEnded { policy }));
        let map = control.take_over(&mut compiler, root, (Arc::clone(&model), map), (opened.places, places), &mut work);
        drop(compiler);
        self.workers.wake();
        for &number in &opened.gone {
            control.ports()[number as usize].iter_mut().for_each(|port| port.port.keep_open());
        }
        for worker in self.workers.iter() {
            // A reload that leaves the limits alone fills no bucket up.
            if (model.icmp, model.neighbor_discovery) != (before.icmp, before.neighbor_discovery) {
                worker.command(Command::Limit(model.icmp, model.neighbor_discovery));
            }
            worker.command(Command::Pace(model.workers.max_latency));
            for &number in &opened.gone {
                worker.command(Command::Forget(number));
            }
        }
        // Workers let go of a port before it counts as closed: whatever it wrote is written.
        self.workers.settle();
        receive(&self.workers, &opened.new, &mut control.ports());
        for &number in &opened.gone {
            let closed = control.ports()[number as usize].take();
            // What its last flush met is known only now.
            let failure = closed.and_then(|port| port.failure());
            control.state().untold.extend(failure);
        }
        {
            let mut compiler = operation.write();
            let mut state = control.state();
            state.keeper.adopt(&model, &map, links, self.clock.now(), &mut work);
            control.carry_out(&mut state, Some(&mut compiler), work);
        }
        // What ports said of their devices since.
        let mut work = Work::default();
        control.look_at_links(&mut work);
        control.state().report(work.news);
        self.workers.wake();
        self.keeper.wake();
        if self.root.with(|root| root.nat.version) != nat {
            report.translations = self.workers.iter().map(|worker| worker.recheck()).sum();
        }
        Ok(report)
    }

    /// Returns the reading ends of the workers' sample rings to the first caller.
    pub fn take_samples(&mut self) -> Option<SampleReader> {
        self.samples.take()
    }

    /// Returns the counts of invalid packets for the alarms of policies.
    pub fn alarms(&self) -> Vec<alarm::Reading> {
        let (model, map) = self.control.in_force();
        self.root.with(|root| collect::alarms(&model, &map, root))
    }

    /// Returns the counters of the samplers, in the order of the configuration.
    pub fn samplers(&self) -> Vec<stats::SamplerStats> {
        let (_, map) = self.control.in_force();
        self.root.with(|root| collect::samplers(&map, root))
    }

    /// The version in force.
    pub fn generation(&self) -> u64 {
        self.root.with(|root| root.model)
    }

    /// One reading of every counter.
    pub fn snapshot(&self) -> Snapshot {
        self.control.collect();
        let now = self.read();
        let baseline = Arc::clone(&self.control.state().baseline);
        let elapsed = self.clock.now().0.saturating_sub(baseline.since) as f64 / 1e9;
        let Baseline { runtime, errors, interfaces, sav, .. } = &*baseline;
        collect::since(now, runtime, errors, interfaces, sav, elapsed)
    }

    /// Every counter from the start on.
    fn read(&self) -> Snapshot {
        let rows = self.tables();
        let (model, map, neighbors) = {
            let state = self.control.state();
            (Arc::clone(&state.model), Arc::clone(&state.map), state.keeper.table.stats())
        };
        let occupancy = self.pool.occupancy();
        let waiting = |of: fn(&WorkerCounters) -> (&Counter, &Counter)| {
            let each = self.workers.iter().map(|worker| of(&worker.counters));
            each.map(|(came, went)| came.value().saturating_sub(went.value())).sum()
        };
        let waiting = report::Waiting {
            packets: waiting(|counters| (&counters.queued, &counters.dequeued)),
            datagrams: waiting(|counters| (&counters.begun, &counters.ended)),
            fragments: waiting(|counters| (&counters.held_fragments, &counters.released)),
            remembered: self.workers.iter().map(|worker| worker.counters.remembered.value()).sum(),
            sources: self.workers.iter().map(|worker| worker.counters.spoofed.read().count()).sum(),
            sessions: self.sessions_in_use(),
            flows: self.fast_path(),
        };
        Snapshot {
            elapsed: 0.0,
            tick_frequency: tsc::frequency(),
            workers: self
                .workers
                .iter()
                .enumerate()
                .map(|(number, worker)| {
                    collect::worker(number, worker.core, worker.sender.is_asleep(), &worker.counters)
                })
                .collect(),
            drops: collect::drops(self.workers.iter().map(|worker| &*worker.counters)),
            interfaces: {
                let ports = self.control.ports();
                self.root.with(|root| interfaces(&model, &map, &ports, root))
            },
            sav: self.root.with(|root| collect::sav(&model, &map, root)),
            conservation: collect::conservation(self.workers.iter().map(|worker| &*worker.counters)),
            buffers: stats::BufferStats {
                small: occupancy.small,
                large: occupancy.large,
                huge_pages: occupancy.pages == weir_base::region::Pages::Huge,
            },
            neighbors: stats::NeighborStats {
                events_lost: self.workers.iter().map(|worker| worker.counters.events_lost.value()).sum(),
                ..neighbors
            },
            tables: {
                let others = other_tables(&model, neighbors.entries, &waiting, self.workers.len());
                rows.iter().cloned().chain(others).collect()
            },
        }
    }

    /// Returns the counters of learned decisions.
    fn fast_path(&self) -> stats::FastPath {
        report::fast_path(self.workers.iter().map(|worker| &worker.counters.flows))
    }

    fn sessions_in_use(&self) -> report::SessionUse {
        let sum = |of: fn(&SessionCounters) -> &Counter| {
            self.workers.iter().map(|worker| of(&worker.counters.sessions).value()).sum()
        };
        report::SessionUse {
            wanted: self.root.with(|root| root.acl.reflecting.contains(&true)),
            used: sum(|of| &of.sessions),
            half_open: sum(|of| &of.half_open),
            octets: sum(|of| &of.octets),
        }
    }

    /// Returns the occupancy of the compiler's tables. During an operation it is that of the last listing.
    fn tables(&self) -> Arc<[stats::TableStats]> {
        if let Some(compiler) = self.control.try_compiler() {
            let (model, map) = self.control.in_force();
            let rows: Arc<[_]> = tables(&model, &map, &compiler).into();
            self.control.state().tables = Arc::clone(&rows);
            return rows;
        }
        Arc::clone(&self.control.state().tables)
    }

    /// Every route of every VRF, by VRF and prefix.
    pub fn routes(&self) -> Vec<stats::RouteRow> {
        let (compiler, model, map) = self.control.look();
        self.root.with(|root| crate::engine::show::routes(&model, &map, &compiler, root))
    }

    /// Changes what a source says of the table of a policy: all changes, or none. The time is the system's, in seconds of
    /// the Unix epoch.
    ///
    /// # Errors
    /// If the policy has no table, a change cannot be made, or there is no room.
    pub fn edit_sav(&self, policy: &str, source: &str, edits: &[Edit], time: u64) -> Result<Edited, SavError> {
        let operation = self.control.operate();
        let (model, _) = self.control.in_force();
        let mut compiler = operation.write();
        let (edited, root) = compiler.edit_sav(&model, policy, source, edits, time)?;
        self.control.put_into_force(root);
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
        let operation = self.control.operate();
        let (model, _) = self.control.in_force();
        let plan = operation.read().plan_sav(&model, policy, source, entries, time)?;
        let mut compiler = operation.write();
        let (edited, root) = compiler.carry_out_sav(&model, plan)?;
        self.control.put_into_force(root);
        Ok(edited)
    }

    /// Has another action than the configured one in force for a policy, from a time on in seconds of the Unix epoch, at once
    /// for all packets; `None`: the configured one again. It stays through reloads as long as the policy does.
    ///
    /// # Errors
    /// When there is no such policy, or it does not say what the action needs.
    pub fn stage_sav(&self, policy: &str, action: Option<model::SavAction>, time: u64) -> Result<(), StageError> {
        let operation = self.control.operate();
        let (model, _) = self.control.in_force();
        let mut compiler = operation.write();
        let root = compiler.stage_sav(&model, policy, action, time)?;
        self.control.put_into_force(root);
        Ok(())
    }

    /// The model in force.
    pub fn model(&self) -> Arc<model::Gateway> {
        self.control.in_force().0
    }

    /// Changes an access list, at once for all packets: all of the change, or none. `edit` gets the model in force, to
    /// resolve the interfaces and groups that rules name. `said` is the source of the change and the system's time.
    ///
    /// # Errors
    /// The errors of `edit`; no such list, rule or place; a rule that cannot be compiled; no room.
    pub fn edit_acl<E: From<AclError>>(
        &self,
        list: &str,
        said: &AclSaid,
        edit: impl FnOnce(&model::Gateway) -> Result<AclEdit, E>,
    ) -> Result<AclEdited, E> {
        let operation = self.control.operate();
        let (model, map) = self.control.in_force();
        let edit = edit(&model)?;
        let plan = operation.read().plan_acl_edit((&model, &map), list, edit, said)?;
        let publish = |root| self.control.put_into_force(root);
        Ok(operation.write().carry_out_acl_edit((&model, &map), plan, said, publish)?)
    }

    /// Replaces the members of a group that rules of access lists name, at once for all packets, and in all groups that
    /// contain it. `group` gets the model in force.
    ///
    /// # Errors
    /// The errors of `group`; no such group; no members, or the group in itself; a rule without addresses of its
    /// family; no room.
    pub fn replace_acl_group<E: From<AclError>, M: Into<AclMembers>>(
        &self,
        said: &AclSaid,
        group: impl FnOnce(&model::Gateway) -> Result<M, E>,
    ) -> Result<AclEdited, E> {
        let operation = self.control.operate();
        let (model, map) = self.control.in_force();
        let group = group(&model)?;
        let plan = operation.read().plan_acl_group((&model, &map), group, said)?;
        let publish = |root| self.control.put_into_force(root);
        Ok(operation.write().carry_out_acl_edit((&model, &map), plan, said, publish)?)
    }

    /// Takes back what a group was given while the gateway runs: one that is declared is as declared again, in all rules at
    /// once; any other is gone.
    ///
    /// # Errors
    /// If there is no such group, or it is as declared, or it cannot be so: rules or groups name one that would go, a
    /// group would contain itself, a rule would have no addresses of its family, or there is no room.
    pub fn restore_acl_group(&self, group: &str) -> Result<AclRestored, AclError> {
        let operation = self.control.operate();
        let (model, map) = self.control.in_force();
        let publish = |root| self.control.put_into_force(root);
        operation.write().restore_acl_group((&model, &map), group, publish)
    }

    /// Creates an access list that the configuration does not have. `list` gets the model in force.
    ///
    /// # Errors
    /// The errors of `list`; a list of this name; a rule that cannot be compiled; no room.
    pub fn create_acl<E: From<AclError>>(
        &self,
        said: &AclSaid,
        list: impl FnOnce(&model::Gateway) -> Result<model::AclList, E>,
    ) -> Result<AclEdited, E> {
        let operation = self.control.operate();
        let (model, map) = self.control.in_force();
        let list = list(&model)?;
        Ok(operation.write().create_acl((&model, &map), list, said)?)
    }

    /// Deletes an access list that was made while the gateway ran.
    ///
    /// # Errors
    /// When there is no such list, interfaces name it, or it is declared.
    pub fn delete_acl(&self, list: &str) -> Result<AclEdited, AclError> {
        let operation = self.control.operate();
        let (model, map) = self.control.in_force();
        operation.write().delete_acl((&model, &map), list)
    }

    /// Returns the access lists in the order of the configuration, then the lists that commands created.
    pub fn acl_lists(&self) -> Vec<stats::AclListStats> {
        let (compiler, model, _) = self.control.look();
        compiler.acl_lists(&model)
    }

    /// Returns the compiled sections of access lists.
    pub fn acl_sections(&self) -> Vec<stats::AclSectionStats> {
        let (compiler, model, _) = self.control.look();
        compiler.acl_sections(&model)
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
        let (compiler, model, _) = self.control.look();
        let (rows, total) = compiler.acl_rules(&model, list, wanted, most)?;
        drop(compiler);
        Some((rows.into_iter().map(|own| row(&model, own)).collect(), total))
    }

    /// The groups that rules may name, as they are now, each as `row` makes of it with the model in force; with who changed
    /// them, if they are not as they were declared.
    pub fn acl_groups<T>(&self, row: impl Fn(&model::Gateway, AclGroup, Option<AclSaid>) -> T) -> Vec<T> {
        let (compiler, model, _) = self.control.look();
        let groups = compiler.acl_groups(&model);
        drop(compiler);
        groups.into_iter().map(|(group, said)| row(&model, group, said)).collect()
    }

    /// Returns the live edits of access lists and groups, each as `row` shows it.
    pub fn acl_edits<T>(&self, row: impl Fn(&model::Gateway, AclEditRow) -> T) -> Vec<T> {
        let (compiler, model, _) = self.control.look();
        compiler.acl_edits(&model).into_iter().map(|edit| row(&model, edit)).collect()
    }

    /// Returns the live edits of access lists and groups that would end with a model, and without which more packets might
    /// pass.
    ///
    /// # Errors
    /// When a list of the model has no room.
    pub fn refused_acl_edits(&self, model: &model::Gateway) -> Result<Vec<LostEdits>, EngineError> {
        Ok(self.control.look().0.refused_acl_edits(model)?)
    }

    /// Returns the default of an access list; `None` if there is no such list.
    pub fn acl_default(&self, list: &str) -> Option<model::AclDefault> {
        self.control.look().0.acl_default(list)
    }

    /// Where packets came from that were not valid, since counters of source address validation were cleared: what each
    /// worker knows, together.
    pub fn invalid_sources(&self) -> stats::InvalidSources {
        let tables = self.workers.iter().map(|worker| &worker.counters.spoofed);
        self.root.with(|root| collect::invalid_sources(tables, root, self.clock.now()))
    }

    /// The same of packets that passed although no rule knew their source.
    pub fn unknown_sources(&self) -> stats::InvalidSources {
        let tables = self.workers.iter().map(|worker| &worker.counters.unknown);
        self.root.with(|root| collect::invalid_sources(tables, root, self.clock.now()))
    }

    /// The policies of source address validation, in the order of the configuration.
    pub fn sav_policies(&self) -> Vec<stats::SavPolicyStats> {
        let (compiler, model, _) = self.control.look();
        crate::engine::show::sav_policies(&model, &compiler)
    }

    /// The bindings of hardware addresses, in the order of the configuration.
    pub fn bindings(&self) -> Vec<stats::BindingsStats> {
        let (compiler, model, _) = self.control.look();
        crate::engine::show::bindings(&model, &compiler)
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
    ) -> Result<stats::Flows, E> {
        let (model, map) = self.control.in_force();
        let filter = Compiled::new(&filter(&model)?, &map);
        let (now, mut first) = (self.clock.now(), First::new(order, most));
        for (number, worker) in self.workers.iter().enumerate() {
            flows::each(
                |from| worker.flows(from),
                |_, session| {
                    if filter.matches(&session) {
                        first.add(number, session, now);
                    }
                },
            );
        }
        let (compiler, model, _) = self.control.look();
        let counted = report::sessions_counted(self.workers.iter().map(|worker| &worker.counters.sessions));
        let counted = (counted, self.fast_path());
        Ok(self.root.with(|root| first.rows((&model, &compiler, root), &model.flow_table, counted, now)))
    }

    /// Translations, at most so many, the oldest first.
    ///
    /// # Errors
    /// As for `filter`.
    pub fn translations<E>(
        &self,
        filter: impl FnOnce(&model::Gateway) -> Result<FlowFilter, E>,
        most: usize,
    ) -> Result<stats::Translations, E> {
        let (model, map) = self.control.in_force();
        let (now, first) = (self.clock.now(), self.gathered(&filter(&model)?, &map, most));
        Ok(self.root.with(|root| translations::rows(first, (&model, root), &model.flow_table, now)))
    }

    /// The pairs of SAs, in the order of the configuration.
    pub fn sas(&self) -> Vec<stats::SaStats> {
        let (model, map) = self.control.in_force();
        let upkeep = self.upkeep();
        self.root.with(|root| sas::rows(&model, &map, root, (&upkeep, &self.cleared(), self.clock.now())))
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

    fn cleared(&self) -> MutexGuard<'_, Cleared> {
        // Each part of it is replaced as a whole.
        self.cleared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn upkeep(&self) -> MutexGuard<'_, Upkeep> {
        // A step that panicked has left out the rest of the SAs, which the next step looks at.
        self.upkeep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The tunnels, in the order of the configuration.
    pub fn tunnels(&self) -> Vec<stats::TunnelStats> {
        let (model, map) = self.control.in_force();
        let now = self.clock.now();
        self.root.with(|root| tunnels::rows(&model, &map, root, now))
    }

    /// The sequence numbers and the windows of the SAs in force, and the digests of their keys; and the directory in which numbers
    /// are reserved, if there is one.
    pub fn numbers(&self) -> (Option<std::path::PathBuf>, Numbers) {
        let (model, _) = self.control.in_force();
        (model.ipsec.state.clone(), self.root.with(root_numbers))
    }

    /// The lists of rules that translate.
    pub fn nat_lists(&self) -> Vec<stats::NatStats> {
        let (model, _) = self.control.in_force();
        self.root.with(|root| translations::lists(&model, root))
    }

    /// The SPDs.
    pub fn spds(&self) -> Vec<stats::SpdStats> {
        let (model, _) = self.control.in_force();
        self.root.with(|root| policies::lists(&model, root, &self.cleared()))
    }

    /// The outside addresses of rules that translate sources.
    pub fn nat_pools(&self) -> Vec<stats::NatPool> {
        let (model, map) = self.control.in_force();
        let first = self.gathered(&FlowFilter::default(), &map, usize::MAX);
        self.root.with(|root| translations::pools(first, (&model, root)))
    }

    /// The inside addresses with the most translations, `most` of them.
    pub fn nat_users(&self, most: usize) -> Vec<stats::NatUser> {
        let (model, map) = self.control.in_force();
        let first = self.gathered(&FlowFilter::default(), &map, usize::MAX);
        self.root.with(|root| translations::users(first, (&model, root), most))
    }

    /// The translations that a filter matches.
    fn gathered(&self, filter: &FlowFilter, map: &crate::compile::Map, most: usize) -> First {
        let filter = Compiled::new(&FlowFilter { translations: true, ..filter.clone() }, map);
        let (now, mut first) = (self.clock.now(), First::new(FlowOrder::Age, most));
        for (number, worker) in self.workers.iter().enumerate() {
            flows::each(
                |from| worker.flows(from),
                |_, session| {
                    if filter.matches(&session) {
                        first.add(number, session, now);
                    }
                },
            );
        }
        first
    }

    /// Ends the sessions that a filter matches; gives how many.
    ///
    /// # Errors
    /// As for `filter`.
    pub fn clear_flows<E>(&self, filter: impl FnOnce(&model::Gateway) -> Result<FlowFilter, E>) -> Result<usize, E> {
        let (model, map) = self.control.in_force();
        let filter = Compiled::new(&filter(&model)?, &map);
        let mut count = 0;
        for worker in self.workers.iter() {
            let mut from = Some(0);
            while let Some(page) = from.and_then(|at| worker.flows(at)) {
                count += worker.end_flows(flows::ended(&page, &filter));
                from = page.next;
            }
        }
        Ok(count)
    }

    /// Returns the EtherType counters of interfaces, in the order of the configuration.
    pub fn ethertypes(&self) -> Vec<stats::EthertypeStats> {
        let (model, map) = self.control.in_force();
        let baseline = Arc::clone(&self.control.state().baseline);
        self.root.with(|root| collect::ethertypes(&model, &map, root, &baseline.ethertypes))
    }

    /// The allowlists, in the order of the configuration.
    pub fn allowlists(&self) -> Vec<stats::AllowlistStats> {
        let (compiler, model, _) = self.control.look();
        crate::engine::show::allowlists(&model, &compiler)
    }

    /// The entries of a policy's list or table whose prefixes `wanted` wants, `most` at most, and how many there are in all;
    /// `None`: there is no such policy, or it has no entries.
    pub fn sav_entries(
        &self,
        policy: &str,
        wanted: impl Fn(IpNet) -> bool,
        most: usize,
    ) -> Option<(Vec<stats::SavEntryRow>, usize)> {
        let (compiler, model, _) = self.control.look();
        compiler.sav_occupancy(policy)?;
        Some(compiler.sav_entries(&model, policy, wanted, most))
    }

    /// Returns all neighbours: the configured ones in their order, then the learned ones by interface and address.
    pub fn neighbors(&self) -> Vec<stats::NeighborRow> {
        let state = self.control.state();
        crate::engine::show::neighbors(&state.model, &state.keeper, self.clock.now())
    }

    /// Returns the news since the last call: links, duplicate addresses, conflicts, full tables. Each is returned once;
    /// of more than a thousand, the latest.
    pub fn news(&self) -> Vec<News> {
        self.control.state().news.drain(..).collect()
    }

    /// Traces the next `count` packets that enter a node.
    ///
    /// # Errors
    /// When there is no node of this name.
    pub fn trace_add(&self, node: &str, count: u32) -> Result<(), UnknownNode> {
        let named = Node::named(node).filter(|node| node.has_packets());
        let node = named.ok_or_else(|| UnknownNode { name: node.to_owned() })?;
        self.tracer.request(node, count);
        Ok(())
    }

    /// Returns the recorded traces.
    pub fn traces(&self) -> Vec<TraceRow> {
        let traces = self.tracer.traces();
        // Before the root is read: a commit may wait for readers of roots.
        let look = (!traces.is_empty()).then(|| self.control.look());
        let decision = |decided: &_, root: &_| {
            let (compiler, model, map) = look.as_ref()?;
            crate::engine::show::decision(decided, compiler, (model, map), root)
        };
        self.root.with(|root| crate::engine::show::trace_rows(&traces, root, |own| decision(own, root)))
    }

    /// Counts from 0 again. The totals of all packets are never cleared.
    pub fn clear(&self, what: Clear) {
        let mut now = self.read();
        // Interfaces that were removed may return, and their counters with them.
        self.root.with(|root| {
            now.interfaces.extend(root.interfaces.iter().filter(|interface| !interface.present).map(|interface| {
                let counted = collect::interface(&interface.counters, None, false);
                stats::InterfaceStats { name: interface.name.to_string(), ..counted }
            }));
            now.sav.extend(collect::sav_of_absent(root));
        });
        let all = what == Clear::All;
        let ethertypes = || self.root.with(collect::all_refused_ethertypes);
        let ethertypes = (all || what == Clear::Ethertypes).then(ethertypes);
        {
            let mut state = self.control.state();
            let baseline = Arc::make_mut(&mut state.baseline);
            if all || what == Clear::Runtime {
                baseline.runtime = now.clone();
                baseline.since = self.clock.now().0;
            }
            if all || what == Clear::Errors {
                baseline.errors = now.clone();
            }
            if all || matches!(what, Clear::Interfaces | Clear::Sav) {
                baseline.sav.clone_from(&now.sav);
            }
            if all || what == Clear::Interfaces {
                baseline.interfaces = now;
            }
            if let Some(ethertypes) = ethertypes {
                baseline.ethertypes = ethertypes;
            }
        }
        if all || matches!(what, Clear::Interfaces | Clear::Sav) {
            for worker in self.workers.iter() {
                worker.counters.spoofed.clear();
                worker.counters.unknown.clear();
            }
        }
        if all || matches!(what, Clear::Sav | Clear::Acl | Clear::Allowlists | Clear::Bindings) {
            let operation = self.control.operate();
            let mut compiler = operation.write();
            if all || what == Clear::Sav {
                compiler.clear_sav();
            }
            if all || what == Clear::Acl {
                compiler.clear_acl();
            }
            if all || what == Clear::Allowlists {
                compiler.clear_allowlists();
            }
            if all || what == Clear::Bindings {
                compiler.clear_bindings();
            }
        }
        if all || what == Clear::Sa {
            let ((model, map), now) = (self.control.in_force(), self.clock.now());
            let upkeep = self.upkeep();
            let mut cleared = self.cleared();
            self.root.with(|root| cleared.clear_sas(sas::counted(&model, &map, root, (&upkeep, now))));
        }
        if all || what == Clear::Spd {
            self.root.with(|root| policies::clear(root, &mut self.cleared()));
        }
        if all || what == Clear::Trace {
            self.tracer.clear();
        }
        if what == Clear::Neighbors {
            let mut work = Work::default();
            let mut state = self.control.state();
            state.keeper.clear(&mut work);
            self.control.carry_out(&mut state, None, work);
        }
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
fn connect(workers: &Workers, numbers: &[u32], ports: &mut [Option<OpenPort>]) {
    for &number in numbers {
        let Some(port) = ports[number as usize].as_mut() else { continue };
        for (worker, transmitter) in workers.iter().zip(port.port.transmitters(workers.len())) {
            worker.command(Command::Transmit(number, transmitter));
        }
    }
}

/// Gives the receive queues of these ports to the workers in turn.
fn receive(workers: &Workers, numbers: &[u32], ports: &mut [Option<OpenPort>]) {
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
