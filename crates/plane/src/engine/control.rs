//! The state that the threads of the control side share, and the locks around it.
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
use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError,
};
use std::thread;
use std::time::{Duration, Instant};

use weir_base::clock::Clock;
use weir_base::reclaim::{Domain, Published};
use weir_base::wake::Waker;
use weir_port::Link;
use weir_port::links::Change;

use super::ports::{OpenPort, announcing, follow, tell_of_mtus};
use super::report::Baseline;
use super::workers::CommandSender;
use crate::compile::pending::Unknown;
use crate::compile::{Compiler, Map, Places, PortPlace};
use crate::graph::worker::Command;
use crate::model::{self, InterfaceKind};
use crate::neighbor;
use crate::neighbor::control::{self, Keeper, News, Work};
use crate::root::Root;
use crate::stats::TableStats;

/// The limit on unread news. The oldest are forgotten.
const NEWS: usize = 1024;

/// The time for which an operation lets new readers of the compiler in before they have to wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// How long an operation waits for readers to pass what it retired, at most; the next one frees the rest.
const FREEING: Duration = Duration::from_millis(100);

/// A short pause.
const PAUSE: Duration = Duration::from_micros(50);

/// The state that the threads of the control side share.
pub(super) struct Control {
    /// Held by an operation.
    operating: Mutex<()>,
    /// Written by operations alone.
    compiler: RwLock<Compiler>,
    /// By number; `None` once closed. Operations alone add and close.
    ports: Mutex<Vec<Option<OpenPort>>>,
    state: Mutex<State>,
    /// Links changed since they were last compiled.
    pub(super) links: Signal,
    pub(super) domain: Domain,
    pub(super) root: Arc<Published<Root>>,
    pub(super) clock: Clock,
    pub(super) senders: Vec<Arc<CommandSender>>,
    keeper: Waker,
}

/// The configuration in force, and what the gateway learned.
pub(super) struct State {
    pub(super) model: Arc<model::Gateway>,
    pub(super) map: Arc<Map>,
    /// Where interfaces stand, as ports say now.
    pub(super) places: Places,
    pub(super) keeper: Keeper,
    /// Where interfaces stood when they were last compiled.
    standing: HashMap<u32, PortPlace>,
    /// The last root of the compiler.
    compiled: Root,
    /// The changes that the compiler has not applied yet.
    unknown: Unknown,
    /// The numbers of interfaces whose links have gone down since.
    down: HashSet<u32>,
    /// A compilation is due although no link has changed.
    is_cluttered: bool,
    /// The root in force has changes that the compiler does not know.
    was_ahead: bool,
    /// Changes of the root beside those of the compiler, and the number of the last among all.
    beside: u32,
    last_beside: u32,
    /// Of the root in force.
    generation: u64,
    /// Unread news.
    pub(super) news: VecDeque<News>,
    pub(super) baseline: Arc<Baseline>,
    /// Failures that were reported.
    pub(super) told: HashSet<String>,
    /// Failures of ports that were closed since, and of links.
    pub(super) untold: Vec<String>,
    /// The occupancy of the compiler's tables at the last listing.
    pub(super) tables: Arc<[TableStats]>,
}

/// Wakes a thread when there is work.
#[derive(Default)]
pub(super) struct Signal(Mutex<bool>, Condvar);

impl Signal {
    /// There is something to do.
    pub(super) fn set(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.1.notify_one();
    }

    /// Waits until there is.
    pub(super) fn wait(&self) {
        let set = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *self.1.wait_while(set, |set| !*set).unwrap_or_else(PoisonError::into_inner) = false;
    }
}

/// Parts of [`Control`].
pub(super) struct Parts {
    pub(super) model: model::Gateway,
    pub(super) map: Map,
    pub(super) places: Places,
    pub(super) keeper: Keeper,
    /// The last root of the compiler, and the root in force.
    pub(super) compiled: Root,
    pub(super) compiler: Compiler,
    pub(super) ports: Vec<Option<OpenPort>>,
    pub(super) domain: Domain,
    pub(super) root: Arc<Published<Root>>,
    pub(super) clock: Clock,
    pub(super) senders: Vec<Arc<CommandSender>>,
    pub(super) waker: Waker,
}

/// The right to change the compiler. Dropping it applies the changes that were learned meanwhile.
pub(super) struct Operation<'c> {
    control: &'c Control,
    alone: Option<MutexGuard<'c, ()>>,
}

impl Operation<'_> {
    /// Locks the compiler for reading, together with other readers: it does not change meanwhile.
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Compiler> {
        self.control.compiler.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the compiler for changes: readers wait.
    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Compiler> {
        let since = Instant::now();
        // A waiting writer keeps readers out. So the lock is tried, and long listings delay this operation only.
        while since.elapsed() < PATIENCE {
            match self.control.compiler.try_write() {
                Ok(compiler) => return compiler,
                Err(TryLockError::Poisoned(poisoned)) => return poisoned.into_inner(),
                Err(TryLockError::WouldBlock) => thread::sleep(PAUSE),
            }
        }
        self.control.compiler.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Operation<'_> {
    fn drop(&mut self) {
        if !thread::panicking() {
            let mut compiler = self.write();
            let published = self.control.tell(&mut self.control.state(), &mut compiler);
            compiler.collect();
            let rubbish = compiler.take_rubbish();
            drop(compiler);
            drop(rubbish);
            if published {
                self.control.wake();
            }
            let since = Instant::now();
            while self.control.domain.collect() > 0 && since.elapsed() < FREEING {
                thread::sleep(PAUSE);
            }
        }
        self.alone = None;
        // The control thread applies later changes: it found an operation under way.
        if self.control.state().is_ahead() {
            self.control.keeper.wake();
        }
    }
}

impl Control {
    pub(super) fn new(parts: Parts) -> Control {
        let Parts { model, map, places, keeper, compiled, compiler, ports, domain, root, clock, senders, waker } =
            parts;
        let state = State {
            model: Arc::new(model),
            map: Arc::new(map),
            standing: places.ports.clone(),
            places,
            keeper,
            generation: compiled.generation,
            compiled,
            unknown: Unknown::default(),
            down: HashSet::new(),
            is_cluttered: false,
            was_ahead: false,
            beside: 0,
            last_beside: 0,
            news: VecDeque::new(),
            baseline: Arc::new(Baseline { since: clock.now().0, ..Baseline::default() }),
            told: HashSet::new(),
            untold: Vec::new(),
            tables: Arc::new([]),
        };
        Control {
            operating: Mutex::new(()),
            compiler: RwLock::new(compiler),
            ports: Mutex::new(ports),
            state: Mutex::new(state),
            links: Signal::default(),
            domain,
            root,
            clock,
            senders,
            keeper: waker,
        }
    }

    /// Begins an operation when the operations before it have ended.
    pub(super) fn operate(&self) -> Operation<'_> {
        // A panic in between left at worst a port open that no one uses.
        let alone = self.operating.lock().unwrap_or_else(PoisonError::into_inner);
        Operation { control: self, alone: Some(alone) }
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
    fn tell(&self, state: &mut State, compiler: &mut Compiler) -> bool {
        let mut work = Work { changes: state.unknown.take(), ..Work::default() };
        let new = control::change(compiler, &mut state.keeper, self.clock.now(), &mut work);
        state.report(work.news);
        let published = new.is_some();
        if let Some(root) = new {
            self.replace(state, root);
        }
        published
    }

    fn replace(&self, state: &mut State, root: Root) {
        let before = std::mem::replace(&mut state.compiled, root);
        // It may be the last to have what is large.
        self.domain.retire(before);
        self.publish(state);
    }

    /// Publishes the root that follows from what is known.
    fn publish(&self, state: &mut State) {
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
        let Work { frames, changes, news } = work;
        let is_new = !changes.is_empty();
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
        published
    }

    /// Has workers send frames, each with the number of its interface.
    fn send(&self, frames: Vec<(u32, Box<[u8]>)>) {
        for (interface, frame) in frames {
            self.senders[interface as usize % self.senders.len()].command(Command::Send(interface, frame));
        }
    }

    /// Takes leave of links that will not be among `links`; gives whether there is anything to say.
    pub(super) fn leave(&self, links: &[neighbor::Link]) -> bool {
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

    /// Has the ports whose devices changed look at them; gives whether there are any.
    pub(super) fn refresh(&self, changes: &[Change]) -> bool {
        if changes.is_empty() {
            return false;
        }
        let mut refreshed = false;
        for port in self.ports().iter_mut().flatten() {
            let changed = |device: &str| {
                changes.iter().any(|change| match change {
                    Change::Device(name) => name == device,
                    Change::Everything => true,
                })
            };
            if port.port.device().is_some_and(changed) {
                port.port.refresh();
                refreshed = true;
            }
        }
        refreshed
    }

    /// Takes note of what ports say of their devices now: links that are down are down in the next version of the root, and
    /// what else follows is compiled soon. Gives whether there is a new version.
    pub(super) fn look_at_links(&self, work: &mut Work) -> bool {
        let mut ports = self.ports();
        let mut state = self.state();
        let model = Arc::clone(&state.model);
        let mut places = state.places.ports.clone();
        let down = |place: Option<&PortPlace>| place.is_some_and(|place| place.down);
        look_at(&model, &ports, &mut places);
        for (index, interface) in (0..).zip(&model.interfaces) {
            let now = down(places.get(&index));
            if now != down(state.places.ports.get(&index)) {
                let interface = interface.name.clone();
                work.news.push(if now { News::LinkDown { interface } } else { News::LinkUp { interface } });
            }
        }
        tell_of_mtus(&mut ports, &model, &places, work);
        if places == state.places.ports {
            return false;
        }
        state.places.ports = places;
        let before = state.down.clone();
        state.mark_down();
        let differs = state.down != before;
        if differs {
            self.publish(&mut state);
        }
        self.links.set();
        differs
    }

    /// Has the model compiled again, which frees the next hops that nothing leads to any more.
    pub(super) fn compile_again(&self) {
        self.state().is_cluttered = true;
        self.links.set();
    }

    /// Compiles the model anew where links are not what they were when it was compiled.
    pub(super) fn follow_links(&self) {
        let operation = self.operate();
        let (model, mut places) = {
            let mut state = self.state();
            if !std::mem::take(&mut state.is_cluttered) && state.places.ports == state.standing {
                return;
            }
            (Arc::clone(&state.model), state.places.clone())
        };
        let (refused, announcing) = {
            let mut ports = self.ports();
            (follow(&model, &places, &mut ports), announcing(&ports, &places))
        };
        let told = |error: &dyn std::fmt::Display| format!("after a change of links: {error}");
        self.state().untold.extend(refused.iter().map(|error| told(error)));
        let prepared = {
            let compiler = operation.read();
            let unusable = |links: &[neighbor::Link]| self.state().keeper.unusable(links);
            let announces = |index| announcing.contains(&index);
            compiler
                .stage_acls(&model)
                .and_then(|acls| control::prepare(&compiler, acls, unusable, &model, &mut places, announces))
        };
        match prepared {
            Ok((prepared, links)) => {
                let mut work = Work::default();
                let mut compiler = operation.write();
                let (root, map) = compiler.commit(&model, prepared, false);
                let mut state = self.state();
                state.map = Arc::new(map);
                state.standing = places.ports;
                state.mark_down();
                let map = Arc::clone(&state.map);
                self.replace(&mut state, root);
                state.keeper.adopt(&model, &map, links, self.clock.now(), &mut work);
                self.carry_out(&mut state, Some(&mut compiler), work);
                drop(state);
                self.wake();
                self.keeper.wake();
            }
            // What is in force goes on; the next change of a link tries again.
            Err(error) => self.state().untold.push(told(&error)),
        }
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

    /// Finds out which links have gone down since the model was compiled.
    fn mark_down(&mut self) {
        let is_down = |of: &HashMap<u32, PortPlace>, port: &u32| of.get(port).is_some_and(|place| place.down);
        let interfaces = (0..).zip(&self.model.interfaces).zip(&self.map.interfaces);
        let down = interfaces.filter_map(|((index, interface), &number)| {
            let port = match interface.kind {
                InterfaceKind::Port { .. }
                | InterfaceKind::Ipsec
                | InterfaceKind::Tunnel(_)
                | InterfaceKind::Bridge(_) => index,
                InterfaceKind::Vlan { parent, .. } => parent.0,
            };
            (is_down(&self.places.ports, &port) && !is_down(&self.standing, &port)).then_some(number)
        });
        self.down = down.collect();
    }

    /// Reports interfaces that the new model keeps and whose link has changed.
    fn tell_of_links(&self, model: &model::Gateway, places: &HashMap<u32, PortPlace>, work: &mut Work) {
        for (index, interface) in (0..).zip(&model.interfaces) {
            let Some(place) = places.get(&index) else { continue };
            let before = (0..).zip(&self.model.interfaces).find(|(_, before)| before.name == interface.name);
            let before = before.and_then(|(index, _)| self.places.ports.get(&index));
            if place.down != before.is_some_and(|before| before.down) {
                let interface = interface.name.clone();
                let news = if place.down { News::LinkDown { interface } } else { News::LinkUp { interface } };
                work.news.push(news);
            }
        }
    }
}

/// Where interfaces stand by what their ports say now.
pub(super) fn look_at(model: &model::Gateway, ports: &[Option<OpenPort>], places: &mut HashMap<u32, PortPlace>) {
    for (index, interface) in (0..).zip(&model.interfaces) {
        let InterfaceKind::Port { .. } = interface.kind else { continue };
        let Some(place) = places.get_mut(&index) else { continue };
        let Some(port) = ports.get(place.number as usize).and_then(Option::as_ref) else { continue };
        (place.down, place.mac, place.peer) = (port.port.link() == Link::Down, port.port.mac(), port.port.peer());
    }
}

#[cfg(test)]
mod tests;
