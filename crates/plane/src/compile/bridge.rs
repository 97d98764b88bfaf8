//! Bridges become those of the root. What outlives a version (stations, limits, counters) goes on where the bridge does.

use std::collections::HashMap;
use std::sync::Arc;

use weir_table::mac::MacTable;

use super::map::Map;
use crate::model::{self, Gateway, InterfaceKind, RateLimit};
use crate::root::bridge::{Bridge, BridgeCounters, Bridges, OfInterface, Port, number};
use crate::root::sav::Meters;
use crate::root::{Interface, NONE, TUNNEL};

/// The bridges in force, and what outlives them.
#[derive(Default)]
pub(super) struct Store {
    known: HashMap<String, Known>,
    current: Bridges,
}

/// A bridge of the last model.
struct Known {
    bridge: Bridge,
    /// Its configured stations, with the numbers of their interfaces.
    stations: Vec<(u64, u32)>,
}

impl Store {
    /// The bridges in force.
    pub(super) fn current(&self) -> &Bridges {
        &self.current
    }

    /// Puts the bridges of a model into force, and notes the part of each interface in them.
    pub(super) fn commit(
        &mut self,
        (workers, secret): (usize, [u64; 4]),
        (gateway, map): (&Gateway, &Map),
        interfaces: &mut [Interface],
    ) {
        let mut before = std::mem::take(&mut self.known);
        for (place, bridge) in (0..).zip(&gateway.bridges) {
            for (port, own) in (0..).zip(&bridge.ports) {
                let number = map.interfaces[own.interface.0 as usize];
                let interface = &mut interfaces[number as usize];
                interface.bridge = OfInterface { bridge: place, port, ..OfInterface::NONE };
                // Frames of a bridge are looked up by their stations.
                interface.fast_path = false;
            }
        }
        let mut own: HashMap<u16, u32> = HashMap::new();
        for (interface, &number) in gateway.interfaces.iter().zip(&map.interfaces) {
            if let InterfaceKind::Bridge(index) = interface.kind {
                interfaces[number as usize].bridge = OfInterface { station: index.0, ..OfInterface::NONE };
                own.insert(index.0, number);
            }
        }
        let compiled: Vec<Bridge> = (0..)
            .zip(&gateway.bridges)
            .map(|(place, bridge)| {
                let known = before.remove(&bridge.name);
                let station = own.get(&place).copied();
                let known = made((workers, secret), (bridge, map), interfaces, station, known);
                let bridge_in_force = known.bridge.clone();
                self.known.insert(bridge.name.clone(), known);
                bridge_in_force
            })
            .collect();
        self.current = Bridges { list: compiled.into() };
    }
}

/// Makes a bridge, with what it had before.
fn made(
    (workers, secret): (usize, [u64; 4]),
    (wanted, map): (&model::Bridge, &Map),
    interfaces: &[Interface],
    station: Option<u32>,
    before: Option<Known>,
) -> Known {
    let ports: Arc<[Port]> = (wanted.ports.iter())
        .map(|port| Port {
            interface: map.interfaces[port.interface.0 as usize],
            group: port.group.map_or(0, |group| u32::from(group) + 1),
        })
        .collect();
    let stations: Vec<(u64, u32)> =
        (wanted.stations.iter()).map(|own| (number(own.mac.0), map.interfaces[own.interface.0 as usize])).collect();
    let own_mac = station.map_or(0, |own| number(interfaces[own as usize].mac));
    let known = before.as_ref().map(|known| &known.bridge);
    let macs = match &before {
        Some(Known { bridge, stations: fixed }) if is_kept(wanted, bridge, &ports) && *fixed == stations => {
            Arc::clone(&bridge.macs)
        }
        _ => Arc::new(table(wanted, secret, &ports, &stations, known)),
    };
    let meters = |limit: Option<RateLimit>, kept: Option<&Arc<Meters>>| {
        let limit = limit?;
        let kept = kept.filter(|kept| kept.limit() == limit).cloned();
        Some(kept.unwrap_or_else(|| Arc::new(Meters::new(limit, 1, true))))
    };
    let of_ports = || ports.iter().map(|port| &interfaces[port.interface as usize]);
    let is_strict = of_ports().any(has_lists);
    let bridge = Bridge {
        name: wanted.name.as_str().into(),
        station: station.unwrap_or(NONE),
        own_mac,
        learns: wanted.learns,
        floods: wanted.floods,
        parses: is_strict || of_ports().any(|own| own.port == TUNNEL),
        is_strict,
        storm: meters(wanted.storm_limit, known.and_then(|known| known.storm.as_ref())),
        moves: meters(wanted.move_limit, known.and_then(|known| known.moves.as_ref())),
        macs,
        counters: match known {
            Some(known) => Arc::clone(&known.counters),
            None => (0..workers).map(|_| BridgeCounters::default()).collect(),
        },
        ports,
    };
    Known { bridge, stations }
}

/// The table of a bridge in force serves the wanted one as it is.
fn is_kept(wanted: &model::Bridge, known: &Bridge, ports: &[Port]) -> bool {
    let interfaces = |ports: &[Port]| ports.iter().map(|port| port.interface).collect::<Vec<_>>();
    known.macs.most() == wanted.macs
        && known.macs.ageing() == wanted.ageing
        && interfaces(&known.ports) == interfaces(ports)
        && known.learns == wanted.learns
}

/// A table with the configured stations, and with those learned that are still behind a port.
fn table(
    wanted: &model::Bridge,
    secret: [u64; 4],
    ports: &[Port],
    stations: &[(u64, u32)],
    known: Option<&Bridge>,
) -> MacTable {
    let [first, second, ..] = secret;
    let table = MacTable::new(wanted.macs, wanted.ageing, [first, second]);
    let port_of = |interface: u32| ports.iter().position(|port| port.interface == interface).map(|port| port as u16);
    for &(mac, interface) in stations {
        if let Some(port) = port_of(interface) {
            // The configuration has checked that there is room.
            table.fix(mac, port);
        }
    }
    if let Some(known) = known.filter(|_| wanted.learns) {
        // Workers forget what is too old.
        table.adopt(&known.macs, 0, |port| known.port(port).and_then(|port| port_of(port.interface)));
    }
    table
}

/// Nodes that look at IP packets have to do with frames of an interface.
fn has_lists(interface: &Interface) -> bool {
    let both = |numbers: &model::PerFamily<u16>| numbers.v4 != u16::MAX || numbers.v6 != u16::MAX;
    both(&interface.sav)
        || both(&interface.acl_in)
        || both(&interface.acl_out)
        || both(&interface.allow)
        || interface.bindings != crate::root::bindings::NONE
        || interface.classify_in != crate::root::classify::NONE
        || interface.classify_out != crate::root::classify::NONE
}
