//! The control side: the one owner of the model, the compiler, its numbers and the root in force, and the locks around them. A
//! running gateway, a harness and a bench each have one.
//!
//! An *operation* (a reload, an edit, new links) may take seconds. Operations come one after the other, and an operation alone
//! changes the compiler. Neighbours, links and what is shown never wait for one: they go by the *state*, whose lock is held
//! for moments. The root in force follows from the compiler's last root and from what the state knows beyond it
//! ([`crate::compile::pending`]):
//!
//! - A neighbour change outside an operation goes through the compiler at once.
//! - A neighbour change during an operation is noted, and a root without the compiler's part is published. The
//!   operation applies the notes to the compiler before it ends. It wakes the control thread, which applies later changes
//!   in its next round.
//! - Links that go down do so at once. A thread of its own then compiles the model again, as an operation.
//!
//! Locks are taken in this order: `operating`, `compiler`, `ports`, `state`. Who has one of the later waits for none of the
//! earlier. Objects that readers have passed are freed by operations, and by who finds that there is none.

use std::collections::{HashMap, HashSet, VecDeque};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use weir_base::clock::Clock;
use weir_base::reclaim::{Domain, Published, Reader};
use weir_base::wake::Waker;

use super::captures::Captures;
use super::cleared::Cleared;
use super::collect;
use super::compiled::Compiled;
use super::made::{ChangeKind, Made};
use super::ports::OpenPort;
use super::report::{self, Baseline};
use super::signal::Signal;
use super::upkeep::Upkeep;
use super::workers::CommandSender;
use crate::compile::pending::Unknown;
use crate::compile::{Compiler, Map, Places, PortPlace, Prepared, StagedAcls, TableFull};
use crate::graph::counters::WorkerCounters;
use crate::graph::trace::Tracer;
use crate::graph::worker::Command;
use crate::model;
use crate::neighbor::control::{self, Keeper, News, Work};
use crate::neighbor::{Link, NeighborChange};
use crate::root::Root;
use crate::root::ipsec::Numbers;
use crate::stats::{Conservation, FastPath, TableStats};

/// The limit on unread news. The oldest are forgotten.
const NEWS: usize = 1024;

/// The control side of a gateway. Threads share it.
pub struct Control {
    /// Held by an operation.
    pub(super) operating: Mutex<()>,
    pub(super) made: Made,
    /// Written by operations alone.
    pub(super) compiler: RwLock<Compiler>,
    /// By number; `None` once closed. Operations alone add and close.
    ports: Mutex<Vec<Option<OpenPort>>>,
    state: Mutex<State>,
    /// Links changed since they were last compiled.
    pub(super) links: Signal,
    pub(super) domain: Domain,
    pub(super) root: Arc<Published<Root>>,
    pub(super) clock: Clock,
    pub(super) tracer: Arc<Tracer>,
    pub(super) captures: Mutex<Captures>,
    pub(super) upkeep: Mutex<Upkeep>,
    pub(super) cleared: Mutex<Cleared>,
    /// Looks at tables as workers do, for people.
    reader: Mutex<Reader>,
    /// The workers that send frames and are woken.
    senders: Vec<Arc<CommandSender>>,
    /// Of all workers, by number.
    counters: Vec<Arc<WorkerCounters>>,
    pub(super) keeper: Waker,
}

/// The configuration in force, and what the gateway learned.
pub(super) struct State {
    pub(super) model: Arc<model::Gateway>,
    pub(super) map: Arc<Map>,
    /// Where interfaces stand, as ports say now.
    pub(super) places: Places,
    pub(super) keeper: Keeper,
    /// Where interfaces stood when they were last compiled.
    pub(super) standing: HashMap<u32, PortPlace>,
    /// The last root of the compiler.
    compiled: Root,
    /// The changes that the compiler has not applied yet.
    unknown: Unknown,
    /// The numbers of interfaces whose links have gone down since.
    pub(super) down: HashSet<u32>,
    /// A compilation is due although no link has changed.
    pub(super) is_cluttered: bool,
    /// The root in force has changes that the compiler does not know.
    was_ahead: bool,
    /// Changes of the root beside those of the compiler, and the number of the last among all.
    beside: u32,
    last_beside: u32,
    /// Of the root in force.
    generation: u64,
    /// Unread news.
    pub(super) news: VecDeque<News>,
    /// Unread changes of neighbours, while somebody watches them.
    neighbors: VecDeque<NeighborChange>,
    pub(super) baseline: Arc<Baseline>,
    /// Failures that were reported.
    pub(super) told: HashSet<String>,
    /// Failures of ports that were closed since, and of links.
    pub(super) untold: Vec<String>,
    /// The occupancy of the compiler's tables at the last listing.
    pub(super) tables: Arc<[TableStats]>,
}

/// Parts of [`Control`].
pub(super) struct Parts {
    pub(super) compiled: Compiled,
    /// None in a gateway without threads, whose owner hands packets in.
    pub(super) ports: Vec<Option<OpenPort>>,
    pub(super) reader: Reader,
    pub(super) tracer: Arc<Tracer>,
    pub(super) clock: Clock,
    pub(super) senders: Vec<Arc<CommandSender>>,
    pub(super) counters: Vec<Arc<WorkerCounters>>,
    pub(super) waker: Waker,
}

impl Control {
    pub(super) fn new(parts: Parts) -> Control {
        let Compiled { model, map, places, keeper, compiler, domain, root, made, links } = parts.compiled;
        let state = State {
            model: Arc::new(model),
            map: Arc::new(map),
            standing: places.ports.clone(),
            places,
            keeper,
            generation: made.generation,
            compiled: made,
            unknown: Unknown::default(),
            down: HashSet::new(),
            is_cluttered: false,
            was_ahead: false,
            beside: 0,
            last_beside: 0,
            news: VecDeque::new(),
            neighbors: VecDeque::new(),
            baseline: Arc::new(Baseline { since: parts.clock.now().0, ..Baseline::default() }),
            told: HashSet::new(),
            untold: Vec::new(),
            tables: Arc::new([]),
        };
        let control = Control {
            operating: Mutex::new(()),
            made: Made::none(),
            compiler: RwLock::new(compiler),
            ports: Mutex::new(parts.ports),
            state: Mutex::new(state),
            links: Signal::default(),
            domain,
            root,
            clock: parts.clock,
            tracer: parts.tracer,
            captures: Mutex::default(),
            upkeep: Mutex::default(),
            cleared: Mutex::default(),
            reader: Mutex::new(parts.reader),
            senders: parts.senders,
            counters: parts.counters,
            keeper: parts.waker,
        };
        control.begin(links);
        control
    }

    /// Adopts the links of the first model, and reports each link that is down.
    fn begin(&self, links: Vec<Link>) {
        let mut work = Work::default();
        let mut guard = self.state();
        let State { model, map, places, keeper, .. } = &mut *guard;
        keeper.adopt(model, map, links, self.clock.now(), &mut work);
        let is_down = |index: u32| places.ports.get(&index).is_some_and(|place| place.down);
        for (_, interface) in (0..).zip(&model.interfaces).filter(|&(index, _)| is_down(index)) {
            work.news.push(News::LinkDown { interface: interface.name.clone() });
        }
        self.carry_out(&mut guard, None, work);
    }

    /// The compiler, to look at, and the model that it compiled last, which is in force.
    pub(super) fn look(&self) -> (RwLockReadGuard<'_, Compiler>, Arc<model::Gateway>, Arc<Map>) {
        let compiler = self.compiler.read().unwrap_or_else(PoisonError::into_inner);
        // Who compiles another puts it into force before others may look.
        let (model, map) = self.in_force();
        (compiler, model, map)
    }

    /// The same, unless an operation is changing it.
    pub(super) fn try_compiler(&self) -> Option<RwLockReadGuard<'_, Compiler>> {
        match self.compiler.try_read() {
            Ok(compiler) => Some(compiler),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Locks the compiler for changes, if no operation is under way and it has no reader.
    fn idle(&self) -> Option<(MutexGuard<'_, ()>, RwLockWriteGuard<'_, Compiler>)> {
        let alone = match self.operating.try_lock() {
            Ok(alone) => alone,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        match self.compiler.try_write() {
            Ok(compiler) => Some((alone, compiler)),
            Err(TryLockError::Poisoned(poisoned)) => Some((alone, poisoned.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    pub(super) fn ports(&self) -> MutexGuard<'_, Vec<Option<OpenPort>>> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The lock around the ports, for who opens some.
    pub(super) fn all_ports(&self) -> &Mutex<Vec<Option<OpenPort>>> {
        &self.ports
    }

    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The model in force, and its numbers.
    pub(super) fn in_force(&self) -> (Arc<model::Gateway>, Arc<Map>) {
        let state = self.state();
        (Arc::clone(&state.model), Arc::clone(&state.map))
    }

    /// Frees what readers have passed, unless an operation is under way, which does so itself.
    pub(super) fn collect(&self) {
        if let Some((_alone, mut compiler)) = self.idle() {
            compiler.collect();
            self.domain.collect();
        }
    }

    /// Publishes the compiler's root together with the changes that the compiler has not applied yet.
    pub(super) fn put_into_force(&self, root: Root) {
        self.replace(&mut self.state(), root);
    }

    /// Puts a model into force whose interfaces stand where those of the model before do; `root` is the compiler's.
    pub(super) fn put_model_into_force(&self, root: Root, (model, map): (Arc<model::Gateway>, Map)) {
        let mut state = self.state();
        (state.model, state.map) = (model, Arc::new(map));
        self.replace(&mut state, root);
    }

    /// Puts a root into force as a change that concerns all flows.
    pub(super) fn put_into_force_for_all(&self, root: Root) {
        let mut state = self.state();
        state.was_ahead = true;
        self.replace(&mut state, root);
    }

    /// Returns how many changes of each kind were begun since the start.
    pub fn changes_made(&self) -> impl Iterator<Item = (ChangeKind, u64)> + '_ {
        self.made.all()
    }

    /// Compiles a model whose interfaces stand at `places`, and puts it into force. `announces` is as for [`Control::prepare`].
    ///
    /// # Errors
    /// When a table has no room; then the old model stays.
    pub(super) fn enforce(
        &self,
        kind: ChangeKind,
        model: model::Gateway,
        mut places: Places,
        announces: &HashSet<u32>,
    ) -> Result<(), TableFull> {
        let operation = self.operate(kind);
        let (prepared, links) = {
            let compiler = operation.read();
            let acls = compiler.stage_acls(&model)?;
            self.prepare(&compiler, acls, &model, &mut places, announces)?
        };
        let (model, mut work) = (Arc::new(model), Work::default());
        let mut compiler = operation.write();
        let (root, map) = compiler.commit(&model, prepared, true);
        let now = places.ports.clone();
        let map = self.take_over(&mut compiler, root, (Arc::clone(&model), map), (places, now), &mut work);
        self.adopt(&mut compiler, (&model, &map), links, work);
        Ok(())
    }

    /// Puts a model into force for which the compiler has just made `root`. `places` are the places of ports at
    /// compilation, `now` the present ones.
    pub(super) fn take_over(
        &self,
        compiler: &mut Compiler,
        root: Root,
        (model, map): (Arc<model::Gateway>, Map),
        (places, now): (Places, HashMap<u32, PortPlace>),
        work: &mut Work,
    ) -> Arc<Map> {
        let mut state = self.state();
        state.tell_of_links(&model, &now, work);
        (state.model, state.map) = (model, Arc::new(map));
        state.standing.clone_from(&places.ports);
        state.places = Places { ports: now, ..places };
        state.mark_down();
        if state.places.ports != state.standing {
            self.links.set();
        }
        // Numbers of the model before may be others' now.
        if !self.tell(&mut state, compiler) {
            self.replace(&mut state, root);
        }
        Arc::clone(&state.map)
    }

    /// Applies the noted changes to the compiler. Returns whether a new root followed, which is then in force.
    pub(super) fn tell(&self, state: &mut State, compiler: &mut Compiler) -> bool {
        let mut work = Work { changes: state.unknown.take(), ..Work::default() };
        let new = control::change(compiler, &mut state.keeper, self.clock.now(), &mut work);
        state.report(work.news);
        let published = new.is_some();
        if let Some(root) = new {
            self.replace(state, root);
        }
        published
    }

    pub(super) fn replace(&self, state: &mut State, root: Root) {
        let before = std::mem::replace(&mut state.compiled, root);
        // It may be the last to have what is large.
        self.domain.retire(before);
        self.publish(state);
    }

    /// Publishes the root that follows from what is known.
    pub(super) fn publish(&self, state: &mut State) {
        state.generation += 1;
        let mut root = state.compiled.with(&state.unknown, &state.down);
        // What the compiler does not know concerns all flows, when it comes and when it goes.
        let is_ahead = !state.unknown.is_empty() || !state.down.is_empty();
        if is_ahead || state.was_ahead {
            state.beside = state.beside.wrapping_add(1);
            state.last_beside = root.changes.made.wrapping_add(state.beside);
        }
        state.was_ahead = is_ahead;
        root.changes.set_beside(state.beside, state.last_beside);
        self.root.replace(Root { generation: state.generation, ..root });
    }

    /// Does what is to be done. Who is at work gives the compiler. Gives whether there is a new version of the root.
    pub(super) fn carry_out(&self, state: &mut State, compiler: Option<&mut Compiler>, work: Work) -> bool {
        let Work { frames, changes, news, neighbors } = work;
        // Replaced tables are freed as old versions of the root are.
        let mut replaced = false;
        if let Some(table) = state.keeper.learned.take_table(self.clock.now())
            && let Some(learned) = &state.compiled.bindings.learned
        {
            learned.replace(table);
            replaced = true;
        }
        let is_new = !changes.is_empty();
        if is_new || replaced {
            self.made.count(ChangeKind::Neighbors);
        }
        changes.into_iter().for_each(|change| state.unknown.note(change));
        let published = match compiler {
            _ if state.unknown.is_empty() => false,
            Some(compiler) => self.tell(state, compiler),
            None => match self.idle() {
                Some((_alone, mut compiler)) => self.tell(state, &mut compiler),
                None if is_new => {
                    self.publish(state);
                    true
                }
                None => false,
            },
        };
        self.send(frames);
        state.report(news);
        state.neighbors.extend(neighbors);
        let surplus = state.neighbors.len().saturating_sub(NEWS);
        state.neighbors.drain(..surplus);
        published | replaced
    }

    /// Has workers send frames, each with the number of its interface.
    fn send(&self, frames: Vec<(u32, Box<[u8]>)>) {
        for (interface, frame) in frames {
            self.senders[interface as usize % self.senders.len()].command(Command::Send(interface, frame));
        }
    }

    /// Takes leave of links that will not be among `links`; gives whether there is anything to say.
    pub(super) fn leave(&self, links: &[Link]) -> bool {
        let mut work = Work::default();
        let mut state = self.state();
        state.keeper.leave(links, &mut work);
        // They are in force with the next root.
        work.changes.into_iter().for_each(|change| state.unknown.note(change));
        state.report(work.news);
        let speaks = !work.frames.is_empty();
        self.send(work.frames);
        speaks
    }

    /// Has the workers that sleep look around.
    pub(super) fn wake(&self) {
        self.senders.iter().for_each(|sender| sender.wake());
    }

    /// Compiles a model whose access lists were staged beside the model in force. `announces` are the ports, by the model's index,
    /// behind which there may be stations that the gateway does not know of.
    pub(super) fn prepare(
        &self,
        compiler: &Compiler,
        acls: StagedAcls,
        model: &model::Gateway,
        places: &mut Places,
        announces: &HashSet<u32>,
    ) -> Result<(Prepared, Vec<Link>), TableFull> {
        let unusable = |links: &[Link]| self.state().keeper.unusable(links);
        control::prepare(compiler, acls, unusable, model, places, |index| announces.contains(&index))
    }

    /// Adopts the links of a model that is in force.
    pub(super) fn adopt(
        &self,
        compiler: &mut Compiler,
        (model, map): (&model::Gateway, &Map),
        links: Vec<Link>,
        mut work: Work,
    ) {
        let mut state = self.state();
        state.keeper.adopt(model, map, links, self.clock.now(), &mut work);
        self.carry_out(&mut state, Some(compiler), work);
    }

    /// The model in force.
    pub fn model(&self) -> Arc<model::Gateway> {
        self.in_force().0
    }

    /// The version in force.
    pub fn generation(&self) -> u64 {
        self.root.with(|root| root.model)
    }

    /// The counters of all workers, by number.
    pub(super) fn counters(&self) -> impl Iterator<Item = &WorkerCounters> {
        self.counters.iter().map(|own| &**own)
    }

    /// Where all packets went.
    pub fn conservation(&self) -> Conservation {
        collect::conservation(self.counters())
    }

    /// Returns the counters of learned decisions.
    pub fn fast_path(&self) -> FastPath {
        report::fast_path(self.counters().map(|own| &own.flows))
    }

    /// A reader that looks at tables as workers do.
    pub(super) fn reader(&self) -> MutexGuard<'_, Reader> {
        self.reader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn upkeep(&self) -> MutexGuard<'_, Upkeep> {
        // A step that panicked has left out the rest of the SAs, which the next step looks at.
        self.upkeep.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn cleared(&self) -> MutexGuard<'_, Cleared> {
        // Each part of it is replaced as a whole.
        self.cleared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sequence numbers and the windows of the SAs in force, and the digests of their keys; and the directory in which numbers
    /// are reserved, if there is one.
    pub fn numbers(&self) -> (Option<PathBuf>, Numbers) {
        (self.model().ipsec.state.clone(), self.root.with(root_numbers))
    }

    /// Returns the news since the last call: links, duplicate addresses, conflicts, full tables. Each is returned once;
    /// of more than a thousand, the latest.
    pub fn news(&self) -> Vec<News> {
        self.state().news.drain(..).collect()
    }

    /// Returns the changes of neighbours since the last call; of more than a thousand, the latest. They are noted from a call with
    /// `is_watched` on, until one without.
    pub fn neighbor_changes(&self, is_watched: bool) -> Vec<NeighborChange> {
        let mut state = self.state();
        state.keeper.is_watched = is_watched;
        state.neighbors.drain(..).collect()
    }
}

impl State {
    /// Takes note of news.
    pub(super) fn report(&mut self, news: Vec<News>) {
        self.news.extend(news);
        let surplus = self.news.len().saturating_sub(NEWS);
        self.news.drain(..surplus);
    }

    /// Returns whether there are changes that the compiler has not applied.
    pub(super) fn is_ahead(&self) -> bool {
        !self.unknown.is_empty()
    }
}

/// The sequence numbers and windows of the SAs of a root.
pub(super) fn root_numbers(root: &Root) -> Numbers {
    let sas = || root.ipsec.sas.iter().flatten();
    let outbound = sas().filter_map(|sa| sa.outbound.as_ref());
    let inbound = sas().filter_map(|sa| sa.inbound.as_ref());
    Numbers {
        sequences: outbound.map(|own| (own.stream, Arc::clone(&own.sequence))).collect(),
        windows: inbound.map(|own| (own.identity(), Arc::clone(&own.window))).collect(),
    }
}

#[cfg(test)]
mod tests;
