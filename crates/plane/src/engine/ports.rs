//! The ports of a model: open ports that stay, ports to open, and ports to close.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use weir_packet::buffer::{MAX_FRAME, Pool};
use weir_packet::wire::{ethernet, vlan};
use weir_port::spec::{Middleware, PortSpec};
use weir_port::{Link, OpenError, Port};

use super::{EngineError, punts};
use crate::compile::{Places, PortPlace};
use crate::model::{self, InterfaceKind};
use crate::neighbor::control::{News, Work};
use crate::root::{derived_mac, station_mac};

pub(super) struct OpenPort {
    pub(super) interface: String,
    pub(super) port: Box<dyn Port>,
    pub(super) kind: InterfaceKind,
    pub(super) mac: [u8; 6],
    /// It is the interface's punt device.
    pub(super) punt: bool,
    /// The state of a punt device that was reported last.
    pub(super) reported: punts::Reported,
    /// The reported MTU of its device, in octets, if it is too small for the interface.
    pub(super) narrow: Option<usize>,
}

impl OpenPort {
    /// Returns the error of the port, if it failed, as text for reports.
    pub(super) fn failure(&self) -> Option<String> {
        let what = if self.punt { "punt of interface" } else { "interface" };
        self.port.failure().map(|failure| format!("{what} {}: {failure}", self.interface))
    }
}

#[derive(Default)]
pub(super) struct Opened {
    /// Where each interface stands.
    pub(super) places: Places,
    /// Numbers of ports that were opened now.
    pub(super) new: Vec<u32>,
    /// Numbers of ports that no interface uses any more.
    pub(super) gone: Vec<u32>,
    /// Ports that became what is wanted now, with what they were.
    adjusted: Vec<(usize, InterfaceKind)>,
}

impl Opened {
    /// Undoes the preparation: new ports are closed, and ports that were adjusted get their old settings back.
    pub(super) fn undo(self, ports: &Mutex<Vec<Option<OpenPort>>>) {
        if let Some(&first) = self.new.first() {
            let new = lock(ports).split_off(first as usize);
            // To close them takes its time.
            drop(new);
        }
        for (number, kind) in self.adjusted.into_iter().rev() {
            let mut ports = lock(ports);
            let Some(known) = &mut ports[number] else { continue };
            // What the kernel refuses now stays as it is: the next reload tries again.
            if let InterfaceKind::Port { port, .. } = &kind {
                let _ = known.port.adjust(port);
            }
            known.kind = kind;
        }
    }
}

/// The lock is held for moments: not while a port is opened.
fn lock(ports: &Mutex<Vec<Option<OpenPort>>>) -> MutexGuard<'_, Vec<Option<OpenPort>>> {
    ports.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the ports of a model that are not open yet, at the end of `ports`, with buffers of `pool`. A port whose
/// specification changed is a new port, unless the open port can be adjusted. `before` are the interfaces of the model in force.
///
/// # Errors
/// When a port cannot be opened; then the others are as they were.
pub(super) fn open_ports(
    model: &model::Gateway,
    before: &[model::Interface],
    pool: &Pool,
    ports: &Mutex<Vec<Option<OpenPort>>>,
) -> Result<Opened, EngineError> {
    let mut opening = Opening { pool, ports, opened: Opened::default(), kept: HashSet::new() };
    match opening.run(model, before) {
        Ok(()) => Ok(opening.opened),
        Err(error) => {
            opening.opened.undo(ports);
            Err(error)
        }
    }
}

/// Opens the ports of a model at the start of a gateway, as [`open_ports`] does. Retries for a second while another process
/// holds a device: the kernel needs time to release the devices of a gateway that was killed.
///
/// # Errors
/// As for [`open_ports`].
pub(super) fn open_first(
    model: &model::Gateway,
    pool: &Pool,
    ports: &Mutex<Vec<Option<OpenPort>>>,
) -> Result<Opened, EngineError> {
    const PATIENCE: Duration = Duration::from_secs(1);
    const STEP: Duration = Duration::from_millis(20);
    let begun = Instant::now();
    loop {
        match open_ports(model, &[], pool, ports) {
            Err(EngineError::Port { source, .. } | EngineError::Punt { source, .. })
                if source.is_held() && begun.elapsed() < PATIENCE =>
            {
                thread::sleep(STEP);
            }
            done => return done,
        }
    }
}

/// A port that a model wants.
struct Wanted<'a> {
    interface: &'a model::Interface,
    kind: &'a InterfaceKind,
    spec: &'a PortSpec,
    middleware: &'a Middleware,
    queues: u16,
    mac: [u8; 6],
    punt: bool,
}

impl<'a> Wanted<'a> {
    /// Returns the port of an interface, or its punt device; `None` for a VLAN.
    fn new(interface: &'a model::Interface, kind: &'a InterfaceKind, mac: [u8; 6], punt: bool) -> Option<Self> {
        let InterfaceKind::Port { port: spec, middleware, queues } = kind else { return None };
        Some(Wanted { interface, kind, spec, middleware, queues: *queues, mac, punt })
    }

    /// Returns whether an open port belongs to the same interface with the same role. A punt device stands for the host and
    /// can take another hardware address.
    fn has_role_of(&self, known: &OpenPort) -> bool {
        known.punt == self.punt && known.interface == self.interface.name && (self.punt || known.mac == self.mac)
    }

    fn failed(&self, source: OpenError) -> EngineError {
        let (interface, origin) = (self.interface.name.clone(), self.interface.origin);
        if self.punt {
            EngineError::Punt { interface, origin, source }
        } else {
            EngineError::Port { interface, origin, source }
        }
    }
}

/// The ports of a model while they are opened.
struct Opening<'a> {
    pool: &'a Pool,
    ports: &'a Mutex<Vec<Option<OpenPort>>>,
    opened: Opened,
    kept: HashSet<usize>,
}

impl Opening<'_> {
    fn run(&mut self, model: &model::Gateway, before: &[model::Interface]) -> Result<(), EngineError> {
        for (index, interface) in (0..).zip(&model.interfaces) {
            let mac = interface.mac.map_or(derived_mac(&interface.name).0, |mac| mac.0);
            let Some(wanted) = Wanted::new(interface, &interface.kind, mac, false) else { continue };
            let same = before.iter().any(|other| other.name == interface.name && other.kind == interface.kind);
            let number = self.provide(&wanted, same)?;
            let ports = lock(self.ports);
            let port = ports[number].as_ref().map(|port| &port.port);
            let place = PortPlace {
                number: number as u32,
                mac: port.and_then(|port| port.mac()),
                peer: port.and_then(|port| port.peer()),
                down: port.is_some_and(|port| port.link() == Link::Down),
            };
            self.opened.places.ports.insert(index, place);
        }
        for (index, mac, kind) in punts(model, &self.opened.places) {
            let Some(wanted) = Wanted::new(&model.interfaces[index as usize], &kind, mac, true) else { continue };
            let number = self.provide(&wanted, true)?;
            if let Some(known) = &mut lock(self.ports)[number] {
                // A device that was deleted is created again by a reload, too.
                known.port.recreate().map_err(|source| wanted.failed(source))?;
            }
            self.opened.places.punts.insert(index, number as u32);
        }
        let ports = lock(self.ports);
        let gone = (0..ports.len()).filter(|&number| ports[number].is_some() && !self.kept.contains(&number));
        self.opened.gone = gone.map(|number| number as u32).collect();
        Ok(())
    }

    /// Returns the number of a wanted port: of an open port if `same` specifications suffice, of one that can be adjusted, or
    /// of a new one.
    fn provide(&mut self, wanted: &Wanted<'_>, same: bool) -> Result<usize, EngineError> {
        let is = |known: &OpenPort| wanted.has_role_of(known) && known.kind == *wanted.kind;
        let known = lock(self.ports).iter().position(|known| known.as_ref().is_some_and(is));
        let adjusted = match known.filter(|_| same) {
            Some(number) => Some(number),
            None => self.adjust(wanted).map_err(|source| wanted.failed(source))?,
        };
        let number = match adjusted {
            Some(number) => number,
            None => self.open(wanted)?,
        };
        self.kept.insert(number);
        Ok(number)
    }

    /// Adjusts the open port of an interface, or its punt device, if it can become the wanted one. Returns its number.
    fn adjust(&mut self, wanted: &Wanted<'_>) -> Result<Option<usize>, OpenError> {
        for (number, known) in lock(self.ports).iter_mut().enumerate() {
            let Some(known) = known.as_mut().filter(|known| {
                let alike = matches!(&known.kind, InterfaceKind::Port { middleware, queues, .. }
                    if middleware == wanted.middleware && *queues == wanted.queues);
                wanted.has_role_of(known) && alike
            }) else {
                continue;
            };
            let before = std::mem::replace(&mut known.kind, wanted.kind.clone());
            // Noted first: an adjustment that fails half way is undone, too.
            self.opened.adjusted.push((number, before.clone()));
            if known.port.adjust(wanted.spec)? {
                return Ok(Some(number));
            }
            self.opened.adjusted.pop();
            known.kind = before;
        }
        Ok(None)
    }

    /// Opens a port and returns its number.
    fn open(&mut self, wanted: &Wanted<'_>) -> Result<usize, EngineError> {
        let &Wanted { interface, kind, mac, punt, .. } = wanted;
        if let Some((path, by)) = taken(kind, &lock(self.ports)) {
            let (interface, origin) = (interface.name.clone(), interface.origin);
            return Err(EngineError::FileTaken { interface, origin, path, by });
        }
        let context = context(interface, mac, self.pool);
        let port = weir_port::open(wanted.spec, wanted.middleware, wanted.queues, &context)
            .map_err(|source| wanted.failed(source))?;
        let mut ports = lock(self.ports);
        let (interface, kind) = (interface.name.clone(), kind.clone());
        let reported = punts::Reported::new(&*port);
        ports.push(Some(OpenPort { interface, port, kind, mac, punt, reported, narrow: None }));
        let number = ports.len() - 1;
        self.opened.new.push(number as u32);
        Ok(number)
    }
}

/// Returns the surroundings of the port of an interface.
pub(super) fn context(interface: &model::Interface, mac: [u8; 6], pool: &Pool) -> weir_port::Context {
    // An Ethernet header with two tags.
    let link = ethernet::LENGTH + 2 * vlan::LENGTH;
    let max_frame = (interface.mtu as usize + link).min(MAX_FRAME);
    weir_port::Context { name: interface.name.clone(), mac, max_frame, pool: pool.clone() }
}

/// The punt devices of a model: the index of each one's interface, its hardware address, and what the device is to be. That has
/// the interface's address unless the model gives it another: it stands for the host on the very link.
pub(super) fn punts(model: &model::Gateway, places: &Places) -> Vec<(u32, [u8; 6], InterfaceKind)> {
    let mut macs: Vec<[u8; 6]> = Vec::new();
    let mut punts = Vec::new();
    for (index, interface) in (0..).zip(&model.interfaces) {
        let inherited = match &interface.kind {
            InterfaceKind::Port { .. } => places.ports.get(&index).and_then(|place| place.mac),
            InterfaceKind::Vlan { parent, .. } => macs.get(parent.0 as usize).copied(),
            InterfaceKind::Bridge(_) => Some(station_mac(interface).0),
            InterfaceKind::Ipsec | InterfaceKind::Tunnel(_) => None,
        };
        let mac = interface.mac.map(|mac| mac.0).or(inherited).unwrap_or(derived_mac(&interface.name).0);
        macs.push(mac);
        let Some(spec) = &interface.punt else { continue };
        let mut spec = spec.clone();
        spec.mac = spec.mac.or(Some(mac));
        spec.mtu = spec.mtu.or(Some(interface.mtu));
        let kind = InterfaceKind::Port { port: PortSpec::Tap(spec), middleware: Middleware::default(), queues: 1 };
        punts.push((index, mac, kind));
    }
    punts
}

/// Has the punt devices of the model in force follow the hardware addresses of its interfaces, which are at these places now.
/// Gives what went wrong.
pub(super) fn follow(model: &model::Gateway, places: &Places, ports: &mut [Option<OpenPort>]) -> Vec<EngineError> {
    let mut failures = Vec::new();
    for (index, _, kind) in punts(model, places) {
        let number = places.punts.get(&index).map(|&number| number as usize);
        let known = number.and_then(|number| ports.get_mut(number)).and_then(Option::as_mut);
        let Some(known) = known.filter(|known| known.kind != kind) else { continue };
        let InterfaceKind::Port { port: spec, .. } = &kind else { continue };
        match known.port.adjust(spec) {
            Ok(true) => known.kind = kind,
            Ok(false) => {}
            Err(source) => {
                let interface = &model.interfaces[index as usize];
                let (interface, origin) = (interface.name.clone(), interface.origin);
                failures.push(EngineError::Punt { interface, origin, source });
            }
        }
    }
    failures
}

/// The ports, by the model's index of their interface, behind which there may be stations that we do not know of: a kernel's
/// device leads to a network, if not to a single station.
pub(super) fn announcing(ports: &[Option<OpenPort>], places: &Places) -> HashSet<u32> {
    let announces = |place: &PortPlace| {
        let port = ports.get(place.number as usize).and_then(Option::as_ref);
        port.is_some_and(|port| port.port.device().is_some() && port.port.peer().is_none())
    };
    places.ports.iter().filter(|(_, place)| announces(place)).map(|(&index, _)| index).collect()
}

/// Reports each interface of a model whose packets may be longer than its device sends.
pub(super) fn tell_of_mtus(
    ports: &mut [Option<OpenPort>],
    model: &model::Gateway,
    places: &HashMap<u32, PortPlace>,
    work: &mut Work,
) {
    for (index, interface) in (0..).zip(&model.interfaces) {
        let number = places.get(&index).map(|place| place.number as usize);
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

/// A file that a port would write and that an open port writes, with the interface of that one.
fn taken(kind: &InterfaceKind, ports: &[Option<OpenPort>]) -> Option<(PathBuf, String)> {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let wanted = written(kind);
    ports.iter().flatten().find_map(|open| {
        let files = written(&open.kind);
        let path = wanted.iter().find(|path| files.iter().any(|file| real(file) == real(path)))?;
        Some((path.to_path_buf(), open.interface.clone()))
    })
}

/// The files that a port writes.
fn written(kind: &InterfaceKind) -> Vec<&Path> {
    let InterfaceKind::Port { port, middleware, .. } = kind else { return Vec::new() };
    let output = match port {
        PortSpec::Pcap(spec) => spec.output.as_deref(),
        _ => None,
    };
    output.into_iter().chain(middleware.capture.as_deref()).collect()
}
