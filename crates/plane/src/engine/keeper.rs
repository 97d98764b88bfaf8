//! The thread that keeps neighbours and links: it takes in what workers saw and what the kernel tells of devices, does what
//! is due, and puts what follows into force. Between these it sleeps.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use weir_base::clock::{Clock, Time};
use weir_base::reclaim::{Domain, Published};
use weir_base::ring::Consumer;
use weir_base::wake::{Sleeper, Waker};
use weir_packet::wire::{ethernet, vlan};
use weir_port::Link;
use weir_port::links::{Change, Monitor};

use super::crew::Mouth;
use super::ports::follow;
use super::{Control, OpenPort};
use crate::compile::{Compiler, Places};
use crate::events;
use crate::keeper::{self, News, Work};
use crate::model::{self, InterfaceKind};
use crate::neighbor::Event;
use crate::root::Root;
use crate::worker::Order;

/// The least time between two versions of the root that follow from what was learned: what comes meanwhile goes into one.
/// The first is never late.
const PAUSE: Duration = Duration::from_millis(1);

/// News that nobody has asked for yet, at most: older ones are forgotten.
const NEWS: usize = 1024;

/// What the thread needs of the engine.
pub(super) struct Parts {
    pub(super) control: Arc<Mutex<Control>>,
    pub(super) domain: Domain,
    pub(super) root: Arc<Published<Root>>,
    pub(super) clock: Clock,
    pub(super) mouths: Vec<Arc<Mouth>>,
    /// What each worker tells.
    pub(super) rings: Vec<Consumer<Event>>,
    /// What the kernel tells; none where no port has a device.
    pub(super) monitor: Option<Monitor>,
}

/// The thread, as the engine holds it. Dropping it ends it.
pub(super) struct Thread {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    waker: Waker,
}

impl Thread {
    pub(super) fn start(parts: Parts, sleeper: Sleeper, waker: Waker) -> io::Result<Thread> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = thread::Builder::new().name("weir_keeper".into()).spawn(move || keep(parts, sleeper, &told))?;
        Ok(Thread { thread: Some(thread), stop, waker })
    }

    /// This thread, which whoever holds the sleeper of this waker may be.
    #[cfg(test)]
    pub(super) fn of(thread: JoinHandle<()>, waker: Waker) -> Thread {
        Thread { thread: Some(thread), stop: Arc::default(), waker }
    }

    /// Has it look around: timers may have changed.
    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    /// It takes its leave of the links, and ends. Further calls do nothing.
    pub(super) fn stop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // If it panicked it has said why on stderr.
            let _ = thread.join();
        }
    }

    /// It ended without being told to.
    pub(super) fn has_failed(&self) -> bool {
        self.thread.as_ref().is_some_and(JoinHandle::is_finished) && !self.stop.load(Ordering::Relaxed)
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.stop();
    }
}

fn keep(mut parts: Parts, mut sleeper: Sleeper, stop: &AtomicBool) {
    loop {
        let last = stop.load(Ordering::Relaxed);
        let (published, next) = parts.round(last);
        if last {
            return;
        }
        if published {
            thread::sleep(PAUSE);
        }
        sleeper.announce();
        if stop.load(Ordering::Relaxed) || parts.rings.iter().any(|ring| !ring.is_empty()) {
            sleeper.stay_up();
            continue;
        }
        let descriptors: Vec<_> = parts.monitor.iter().map(Monitor::descriptor).collect();
        sleeper.sleep(&descriptors, next.map(|next| parts.clock.until(next)));
    }
}

impl Parts {
    /// Does all there is to do. Gives whether a version of the root followed, and when something is due next.
    fn round(&mut self, last: bool) -> (bool, Option<Time>) {
        let mut control = self.control.lock().unwrap_or_else(PoisonError::into_inner);
        let control = &mut *control;
        let now = self.clock.now();
        let mut work = Work::default();
        // Before timers, which may wait for just this.
        for ring in &mut self.rings {
            ring.pop(events::RING, |event| control.keeper.handle(&event, now, &mut work));
        }
        let mut published = false;
        let changes = self.monitor.as_mut().map_or_else(Vec::new, Monitor::changes);
        let refreshed = control.refresh(&changes);
        if refreshed {
            published = control.look_at_links(now, &self.root, &mut work);
        }
        control.keeper.step(now, &mut work);
        if last {
            control.keeper.farewell(&mut work);
        }
        published |= control.carry_out(work, now, &self.root, &self.mouths);
        if published || refreshed {
            // Queues of a device that was made again wait in vain for the old one, also where nothing else is different now.
            self.mouths.iter().for_each(|mouth| mouth.wake());
        }
        if published {
            self.domain.collect();
            control.compiler.collect();
        }
        (published, control.keeper.table.next())
    }
}

impl Control {
    /// Whether there may be stations behind a port, by the model's index of its interface, that we do not know of: a kernel's
    /// device leads to a network, if not to a single station.
    pub(super) fn announces(ports: &[Option<OpenPort>], places: &Places, index: u32) -> bool {
        let number = places.ports.get(&index).map(|place| place.number as usize);
        let port = number.and_then(|number| ports.get(number)).and_then(Option::as_ref);
        port.is_some_and(|port| port.port.device().is_some() && port.port.peer().is_none())
    }

    /// Does what is to be done; gives whether there is a new version of the root.
    pub(super) fn carry_out(
        &mut self,
        mut work: Work,
        now: Time,
        root: &Published<Root>,
        mouths: &[Arc<Mouth>],
    ) -> bool {
        let new = keeper::change(&mut self.compiler, &mut self.keeper, now, &mut work);
        let published = new.is_some();
        if let Some(new) = new {
            root.publish(new);
        }
        for (interface, frame) in work.frames {
            mouths[interface as usize % mouths.len()].order(Order::Send(interface, frame));
        }
        self.news.extend(work.news);
        let surplus = self.news.len().saturating_sub(NEWS);
        self.news.drain(..surplus);
        published
    }

    /// Tells of the interfaces that a model goes on with and whose link is not what it was.
    pub(super) fn tell_of_links(&self, model: &model::Gateway, places: &Places, work: &mut Work) {
        for (index, interface) in (0..).zip(&model.interfaces) {
            let Some(place) = places.ports.get(&index) else { continue };
            let before = (0..).zip(&self.model.interfaces).find(|(_, before)| before.name == interface.name);
            let before = before.and_then(|(index, _)| self.places.ports.get(&index));
            if place.down != before.is_some_and(|before| before.down) {
                let interface = interface.name.clone();
                let news = if place.down { News::LinkDown { interface } } else { News::LinkUp { interface } };
                work.news.push(news);
            }
        }
    }

    /// Tells of the interfaces of a model whose packets may be longer than their devices send now, each once.
    pub(super) fn tell_of_mtus(
        ports: &mut [Option<OpenPort>],
        model: &model::Gateway,
        places: &Places,
        work: &mut Work,
    ) {
        for (index, interface) in (0..).zip(&model.interfaces) {
            let number = places.ports.get(&index).map(|place| place.number as usize);
            let port = number.and_then(|number| ports.get_mut(number)).and_then(Option::as_mut);
            let Some(port) = port else { continue };
            let device = port.port.max_frame().map(|most| most.saturating_sub(ethernet::LENGTH + vlan::LENGTH));
            let device = device.filter(|&device| device < interface.mtu as usize);
            if port.narrow == device {
                continue;
            }
            port.narrow = device;
            if let Some(device) = device {
                let (interface, mtu) = (interface.name.clone(), interface.mtu);
                work.news.push(News::DeviceMtu { interface, mtu, device });
            }
        }
    }

    /// Has the ports whose devices changed look at them; gives whether there are any.
    fn refresh(&mut self, changes: &[Change]) -> bool {
        let mut refreshed = false;
        for port in self.ports.iter_mut().flatten() {
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

    /// Puts into force what follows from what ports say of their devices now. Gives whether there is a new version of the
    /// root.
    fn look_at_links(&mut self, now: Time, root: &Published<Root>, work: &mut Work) -> bool {
        let mut places = self.places.clone();
        let mut news = Vec::new();
        for (index, interface) in (0..).zip(&self.model.interfaces) {
            let InterfaceKind::Port { .. } = interface.kind else { continue };
            let Some(place) = places.ports.get_mut(&index) else { continue };
            let Some(port) = self.ports.get(place.number as usize).and_then(Option::as_ref) else { continue };
            let down = port.port.link() == Link::Down;
            if down != place.down {
                let interface = interface.name.clone();
                news.push(if down { News::LinkDown { interface } } else { News::LinkUp { interface } });
            }
            (place.down, place.mac, place.peer) = (down, port.port.mac(), port.port.peer());
        }
        Control::tell_of_mtus(&mut self.ports, &self.model, &places, work);
        if places.ports == self.places.ports {
            return false;
        }
        let refused = follow(&self.model, &places, &mut self.ports);
        self.untold.extend(refused.iter().map(|error| format!("after a change of links: {error}")));
        let announces = |index| Control::announces(&self.ports, &self.places, index);
        match keeper::compile(
            Compiler::recompile,
            &mut self.compiler,
            &self.keeper,
            &self.model,
            &mut places,
            announces,
        ) {
            Ok((new, map, links)) => {
                root.publish(new);
                self.keeper.adopt(&self.model, &map, links, now, work);
                (self.map, self.places) = (map, places);
                work.news.append(&mut news);
                true
            }
            Err(error) => {
                // What is in force goes on; the next change of a link tries again.
                self.untold.push(format!("after a change of links: {error}"));
                false
            }
        }
    }
}
