//! Reports bridges with their counters, and their stations.

use weir_base::clock::Time;
use weir_packet::wire::MacAddress;

use crate::model::Gateway;
use crate::root::Root;
use crate::root::bridge::{Bridge, BridgeCounters, second};
use crate::stats::{BridgeMover, BridgePortRow, BridgeStats, MacRow};

/// Returns the bridges, in the order of the configuration.
pub(crate) fn rows(model: &Gateway, root: &Root) -> Vec<BridgeStats> {
    let name = |number: u32| {
        root.interfaces.get(number as usize).map_or_else(|| "?".to_owned(), |interface| interface.name.to_string())
    };
    let row = |(wanted, own): (&crate::model::Bridge, &Bridge)| {
        let sum = |of: &dyn Fn(&BridgeCounters) -> u64| own.counters.iter().map(of).sum::<u64>();
        let kinds =
            [(own.floods.unknown, "unknown"), (own.floods.broadcast, "broadcast"), (own.floods.multicast, "multicast")];
        let ports = own.ports.iter().zip(&wanted.ports).map(|(port, wanted)| BridgePortRow {
            interface: name(port.interface),
            group: wanted.group,
            up: root.interfaces.get(port.interface as usize).is_some_and(|own| own.present && !own.down),
        });
        BridgeStats {
            name: wanted.name.clone(),
            ports: ports.collect(),
            own_station: own.has_station().then(|| name(own.station)),
            learns: own.learns,
            ageing: own.macs.ageing(),
            floods: kinds.iter().filter(|kind| kind.0).map(|kind| kind.1.to_owned()).collect(),
            macs: own.macs.len() as u64,
            most_macs: own.macs.most(),
            memory: own.macs.octets() as u64,
            known: sum(&|own| own.known.value()),
            unknown: sum(&|own| own.unknown.value()),
            broadcast: sum(&|own| own.broadcast.value()),
            multicast: sum(&|own| own.multicast.value()),
            own: sum(&|own| own.own.value()),
            copies: sum(&|own| own.copies.value()),
            lost: sum(&|own| own.lost.value()),
            storm: sum(&|own| own.storm.value()),
            learned: sum(&|own| own.learned.value()),
            moved: sum(&|own| own.moved.value()),
            held: sum(&|own| own.held.value()),
            mover: mover(root, own),
            full: sum(&|own| own.full.value()),
            origin: model.origins.place(wanted.origin).map_or_else(String::new, |place| place.to_string()),
        }
    };
    model.bridges.iter().zip(&*root.bridges.list).map(row).collect()
}

/// Returns a station that has moved lately, or was not to move: the last one of the worker that has counted the most.
fn mover(root: &Root, bridge: &Bridge) -> Option<BridgeMover> {
    let counted = |own: &&BridgeCounters| own.moved.value() + own.held.value();
    let counters = bridge.counters.iter().max_by_key(counted).filter(|own| counted(own) > 0)?;
    let last = counters.mover.value();
    let port = bridge.port((last & 0xffff) as u16)?;
    let interface = root.interfaces.get(port.interface as usize)?.name.to_string();
    Some(BridgeMover { mac: text(last >> 16), interface })
}

/// Returns the text of a hardware address.
fn text(mac: u64) -> String {
    let [_, _, a, b, c, d, e, f] = mac.to_be_bytes();
    MacAddress([a, b, c, d, e, f]).to_string()
}

/// Returns the stations of a bridge by address, the gateway's own one first.
pub(crate) fn macs(root: &Root, bridge: &Bridge, now: Time) -> Vec<MacRow> {
    let name = |number: u32| root.interfaces.get(number as usize).map(|interface| interface.name.to_string());
    let own = name(bridge.station).filter(|_| bridge.has_station()).map(|interface| MacRow {
        mac: text(bridge.own_mac),
        interface,
        kind: "own".to_owned(),
        age: None,
    });
    let others = bridge.macs.entries(second(now)).into_iter().filter_map(|entry| {
        let interface = name(bridge.port(entry.port)?.interface)?;
        let kind = if entry.is_static { "static" } else { "learned" }.to_owned();
        Some(MacRow { mac: text(entry.mac), interface, kind, age: (!entry.is_static).then_some(entry.age) })
    });
    own.into_iter().chain(others).collect()
}

/// Forgets the stations that a bridge has learned. Returns how many that were.
pub(crate) fn clear(bridge: &Bridge) -> usize {
    bridge.macs.clear(|_| true)
}
