//! Ports: which of a model's are open already, which have to be opened, and which nobody needs any more.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use weir_packet::buffer::MAX_FRAME;
use weir_packet::wire::{ethernet, vlan};
use weir_port::spec::{Middleware, PortSpec};
use weir_port::{Link, OpenError, Port};

use super::EngineError;
use crate::compile::{Places, PortPlace};
use crate::model::{self, InterfaceKind};
use crate::neighbor::control::{News, Work};
use crate::root::derived_mac;

pub(super) struct OpenPort {
    pub(super) interface: String,
    pub(super) port: Box<dyn Port>,
    pub(super) kind: InterfaceKind,
    pub(super) mac: [u8; 6],
    /// It is the interface's punt device.
    pub(super) punt: bool,
    /// The MTU of its device where that is too small for the interface, as was told, in octets.
    pub(super) narrow: Option<usize>,
}

impl OpenPort {
    /// Why it failed, if it did, as it is told.
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
    /// Nothing came of it: new ports are closed, and those that were adjusted become what they were.
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

/// Opens the ports of a model that are not open yet, at the end of `ports`. A port whose specification changed is a new
/// port, unless it can become what is wanted. `before` are the interfaces of the model in force.
///
/// # Errors
/// When a port can not be opened; then the others are as they were.
pub(super) fn open_ports(
    model: &model::Gateway,
    before: &[model::Interface],
    ports: &Mutex<Vec<Option<OpenPort>>>,
) -> Result<Opened, EngineError> {
    let mut opened = Opened::default();
    match open_all(model, before, ports, &mut opened) {
        Ok(()) => Ok(opened),
        Err(error) => {
            opened.undo(ports);
            Err(error)
        }
    }
}

/// Opens the ports of a model at the start of a gateway, as [`open_ports`] does. What another process holds is tried again
/// for a while: the kernel takes its time to take back the devices of a gateway that was killed.
///
/// # Errors
/// As for [`open_ports`].
pub(super) fn open_first(model: &model::Gateway, ports: &Mutex<Vec<Option<OpenPort>>>) -> Result<Opened, EngineError> {
    const PATIENCE: Duration = Duration::from_secs(1);
    const STEP: Duration = Duration::from_millis(20);
    let begun = Instant::now();
    loop {
        match open_ports(model, &[], ports) {
            Err(EngineError::Port { source, .. } | EngineError::Punt { source, .. })
                if source.is_held() && begun.elapsed() < PATIENCE =>
            {
                thread::sleep(STEP);
            }
            done => return done,
        }
    }
}

fn open_all(
    model: &model::Gateway,
    before: &[model::Interface],
    ports: &Mutex<Vec<Option<OpenPort>>>,
    opened: &mut Opened,
) -> Result<(), EngineError> {
    let mut kept = HashSet::new();
    for (index, interface) in model.interfaces.iter().enumerate() {
        let InterfaceKind::Port { port, middleware, queues } = &interface.kind else { continue };
        let mac = interface.mac.map_or(derived_mac(&interface.name).0, |mac| mac.0);
        let same = before.iter().any(|other| other.name == interface.name && other.kind == interface.kind);
        let known = lock(ports).iter().position(|known| {
            known.as_ref().is_some_and(|known| {
                !known.punt && known.interface == interface.name && known.kind == interface.kind && known.mac == mac
            })
        });
        let adjusted =
            match known.filter(|_| same) {
                Some(number) => Some(number),
                None => adjust(&interface.name, &interface.kind, mac, false, &mut lock(ports), opened).map_err(
                    |source| EngineError::Port { interface: interface.name.clone(), origin: interface.origin, source },
                )?,
            };
        let number = match adjusted {
            Some(number) => number,
            None => {
                if let Some((path, by)) = taken(&interface.kind, &lock(ports)) {
                    let (interface, origin) = (interface.name.clone(), interface.origin);
                    return Err(EngineError::FileTaken { interface, origin, path, by });
                }
                let context = weir_port::Context {
                    name: interface.name.clone(),
                    mac,
                    max_frame: (interface.mtu as usize + 22).min(MAX_FRAME),
                };
                let port = weir_port::open(port, middleware, *queues, &context).map_err(|source| {
                    EngineError::Port { interface: interface.name.clone(), origin: interface.origin, source }
                })?;
                let kind = interface.kind.clone();
                let mut ports = lock(ports);
                ports.push(Some(OpenPort {
                    interface: interface.name.clone(),
                    port,
                    kind,
                    mac,
                    punt: false,
                    narrow: None,
                }));
                opened.new.push(ports.len() as u32 - 1);
                ports.len() - 1
            }
        };
        kept.insert(number);
        let ports = lock(ports);
        let port = ports[number].as_ref().map(|port| &port.port);
        let place = PortPlace {
            number: number as u32,
            mac: port.and_then(|port| port.mac()),
            peer: port.and_then(|port| port.peer()),
            down: port.is_some_and(|port| port.link() == Link::Down),
        };
        opened.places.ports.insert(index as u32, place);
    }
    open_punts(model, ports, opened, &mut kept)?;
    let ports = lock(ports);
    opened.gone = (0..ports.len())
        .filter(|&number| ports[number].is_some() && !kept.contains(&number))
        .map(|n| n as u32)
        .collect();
    Ok(())
}

/// Has the open port of an interface, or its punt device, become what is wanted now, if it can; gives its number.
fn adjust(
    interface: &str,
    wanted: &InterfaceKind,
    mac: [u8; 6],
    punt: bool,
    ports: &mut [Option<OpenPort>],
    opened: &mut Opened,
) -> Result<Option<usize>, OpenError> {
    let InterfaceKind::Port { port: spec, middleware, queues } = wanted else { return Ok(None) };
    for (number, known) in ports.iter_mut().enumerate() {
        let Some(known) = known.as_mut().filter(|known| {
            let alike = matches!(&known.kind, InterfaceKind::Port { middleware: had, queues: number, .. }
                if had == middleware && number == queues);
            // A punt device stands for the host, and can take another address.
            known.punt == punt && known.interface == interface && (punt || known.mac == mac) && alike
        }) else {
            continue;
        };
        let before = std::mem::replace(&mut known.kind, wanted.clone());
        // Noted first: what fails half way is undone, too.
        opened.adjusted.push((number, before.clone()));
        if known.port.adjust(spec)? {
            return Ok(Some(number));
        }
        opened.adjusted.pop();
        known.kind = before;
    }
    Ok(None)
}

/// The punt devices of a model: the index of each one's interface, its hardware address, and what the device is to be. That has
/// the interface's address unless the model gives it another: it stands for the host on the very link.
fn punts(model: &model::Gateway, places: &Places) -> Vec<(u32, [u8; 6], InterfaceKind)> {
    let mut macs: Vec<[u8; 6]> = Vec::new();
    let mut punts = Vec::new();
    for (index, interface) in (0..).zip(&model.interfaces) {
        let inherited = match &interface.kind {
            InterfaceKind::Port { .. } => places.ports.get(&index).and_then(|place| place.mac),
            InterfaceKind::Vlan { parent, .. } => macs.get(parent.0 as usize).copied(),
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

/// Opens the punt devices of a model that are not open yet.
fn open_punts(
    model: &model::Gateway,
    ports: &Mutex<Vec<Option<OpenPort>>>,
    opened: &mut Opened,
    kept: &mut HashSet<usize>,
) -> Result<(), EngineError> {
    for (index, mac, kind) in punts(model, &opened.places) {
        let interface = &model.interfaces[index as usize];
        let same = |known: &OpenPort| known.punt && known.interface == interface.name && known.kind == kind;
        let failed = |source| EngineError::Punt { interface: interface.name.clone(), origin: interface.origin, source };
        let known = lock(ports).iter().position(|known| known.as_ref().is_some_and(same));
        let adjusted = match known {
            Some(number) => Some(number),
            None => adjust(&interface.name, &kind, mac, true, &mut lock(ports), opened).map_err(failed)?,
        };
        let number = match adjusted {
            Some(number) => number,
            None => {
                let InterfaceKind::Port { port, middleware, queues } = &kind else { continue };
                let context = weir_port::Context {
                    name: interface.name.clone(),
                    mac,
                    max_frame: (interface.mtu as usize + 22).min(MAX_FRAME),
                };
                let port = weir_port::open(port, middleware, *queues, &context).map_err(failed)?;
                let mut ports = lock(ports);
                ports.push(Some(OpenPort {
                    interface: interface.name.clone(),
                    port,
                    kind,
                    mac,
                    punt: true,
                    narrow: None,
                }));
                opened.new.push(ports.len() as u32 - 1);
                ports.len() - 1
            }
        };
        kept.insert(number);
        opened.places.punts.insert(index, number as u32);
    }
    Ok(())
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

/// Tells of the interfaces of a model whose packets may be longer than their devices send now, each once.
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
