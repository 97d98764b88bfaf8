//! Links: their state as ports report it, and the model compiled again after they changed.

use std::collections::HashMap;
use std::sync::Arc;

use weir_base::clock::Time;
use weir_port::links::Change;
use weir_port::{HostSide, Link};

use super::control::{Control, State};
use super::made::ChangeKind;
use super::ports::{OpenPort, announcing, follow, tell_of_mtus};
use crate::compile::{Places, PortPlace};
use crate::model::{self, InterfaceKind};
use crate::neighbor::control::{News, Work};

impl Control {
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
        let places = state.places.clone();
        drop(state);
        // Last: the kernel may take long to change a device.
        show_carriers(&model, &places, &mut ports);
        differs
    }

    /// Returns what the host has given the punt device of each interface; `None`: the device is missing.
    pub fn host_sides(&self) -> Vec<(String, Option<HostSide>)> {
        let ports = self.ports();
        let punts = ports.iter().flatten().filter(|port| port.punt);
        punts.map(|punt| (punt.interface.clone(), punt.port.host_side().cloned())).collect()
    }

    /// Watches the punt devices: see [`super::punts`]. Returns the time of the next attempt to create one again.
    pub(super) fn watch_punts(&self, now: Time, work: &mut Work) -> Option<Time> {
        let mut ports = self.ports();
        let punts = ports.iter_mut().flatten().filter(|port| port.punt);
        punts.filter_map(|punt| punt.reported.watch(&punt.interface, &mut *punt.port, now, work)).min()
    }

    /// Has the model compiled again, which frees the next hops that nothing leads to any more.
    pub(super) fn compile_again(&self) {
        self.state().is_cluttered = true;
        self.links.set();
    }

    /// Compiles the model anew where links are not what they were when it was compiled.
    pub(super) fn follow_links(&self) {
        let operation = self.operate(ChangeKind::Links);
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
            let staged = compiler.stage_acls(&model);
            staged.and_then(|acls| self.prepare(&compiler, acls, &model, &mut places, &announcing))
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
    /// Finds out which links have gone down since the model was compiled.
    pub(super) fn mark_down(&mut self) {
        let is_down = |of: &HashMap<u32, PortPlace>, port: &u32| of.get(port).is_some_and(|place| place.down);
        let interfaces = (0..).zip(&self.model.interfaces).zip(&self.map.interfaces);
        let down = interfaces.filter_map(|((index, interface), &number)| {
            let port = port_of(index, interface);
            (is_down(&self.places.ports, &port) && !is_down(&self.standing, &port)).then_some(number)
        });
        self.down = down.collect();
    }

    /// Reports interfaces that the new model keeps and whose link has changed.
    pub(super) fn tell_of_links(&self, model: &model::Gateway, places: &HashMap<u32, PortPlace>, work: &mut Work) {
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

/// The place of the interface whose link an interface has: a VLAN has that of its parent.
fn port_of(index: u32, interface: &model::Interface) -> u32 {
    match interface.kind {
        InterfaceKind::Port { .. } | InterfaceKind::Ipsec | InterfaceKind::Tunnel(_) | InterfaceKind::Bridge(_) => {
            index
        }
        InterfaceKind::Vlan { parent, .. } => parent.0,
    }
}

/// Shows the host by each punt device whether the link of the interface is up.
pub(super) fn show_carriers(model: &model::Gateway, places: &Places, ports: &mut [Option<OpenPort>]) {
    for (index, interface) in (0..).zip(&model.interfaces) {
        let Some(&number) = places.punts.get(&index) else { continue };
        let is_down = places.ports.get(&port_of(index, interface)).is_some_and(|place| place.down);
        if let Some(Some(punt)) = ports.get_mut(number as usize) {
            punt.port.set_carrier(!(interface.follow.carrier && is_down));
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
