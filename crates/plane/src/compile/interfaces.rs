//! Compiles interfaces and samplers by number, the addresses of interfaces, and the interfaces of ports' frames.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use weir_packet::wire::{MacAddress, nd};

use super::map::{Map, Places, PortPlace};
use super::prefix::is_link_local;
use crate::model::{self, Address, Gateway, InterfaceKind, Origin, PerFamily};
use crate::root::sampler::Sampler;
use crate::root::{
    Adjacency, BRIDGE, Demux, Interface, InterfaceCounters, LinkLocals, NONE, TUNNEL, derived_mac, station_mac,
};

/// The link-local addresses (RFC 4291, 2.5.6) have a prefix of this length on a link.
const LINK_LOCAL_LENGTH: u8 = 64;

/// Returns the samplers by number. A sampler that the model no longer has leaves a hole.
pub(super) fn samplers(before: &[Sampler], workers: usize, (gateway, map): (&Gateway, &Map)) -> Vec<Sampler> {
    let mut samplers: Vec<Sampler> = before.iter().map(Sampler::gone).collect();
    for (sampler, &number) in gateway.samplers.iter().zip(&map.samplers) {
        let compiled = Sampler::new(sampler, workers, samplers.get(number as usize));
        // New numbers come in ascending order, one past the last.
        match samplers.get_mut(number as usize) {
            Some(slot) => *slot = compiled,
            None => samplers.push(compiled),
        }
    }
    samplers
}

/// Returns the interfaces by number. An interface that the model no longer has leaves a hole.
pub(super) fn interfaces(
    before: &[Interface],
    workers: usize,
    (gateway, map): (&Gateway, &Map),
    places: &Places,
) -> Vec<Interface> {
    let mut interfaces = before.to_vec();
    interfaces.iter_mut().for_each(|interface| interface.present = false);
    let mut stands: Vec<PortPlace> = Vec::new();
    for (index, interface) in gateway.interfaces.iter().enumerate() {
        let place = match &interface.kind {
            InterfaceKind::Port { .. } => {
                let nowhere = PortPlace { number: NONE, ..PortPlace::default() };
                places.ports.get(&(index as u32)).copied().unwrap_or(nowhere)
            }
            // A VLAN interface stands after its parent.
            InterfaceKind::Vlan { parent, .. } => stands[parent.0 as usize],
            InterfaceKind::Ipsec => PortPlace { number: NONE, ..PortPlace::default() },
            InterfaceKind::Bridge(_) => {
                PortPlace { number: BRIDGE, mac: Some(station_mac(interface).0), ..PortPlace::default() }
            }
            InterfaceKind::Tunnel(tunnel) => {
                // Both ends may have one name, and have to differ.
                let mac = derived_mac(&format!("{} {}", interface.name, tunnel.local));
                PortPlace { number: TUNNEL, mac: Some(mac.0), ..PortPlace::default() }
            }
        };
        let mac = interface.mac.map(|mac| mac.0).or(place.mac).unwrap_or(derived_mac(&interface.name).0);
        stands.push(PortPlace { mac: Some(mac), ..place });
        let number = map.interfaces[index] as usize;
        let counters = match interfaces.get(number) {
            Some(known) => known.counters.clone(),
            None => (0..workers).map(|_| InterfaceCounters::default()).collect(),
        };
        let unusable = |own: &Address| match own.net.addr() {
            IpAddr::V6(address) => places.unusable.contains(&(number as u32, address)),
            IpAddr::V4(_) => false,
        };
        let (tentative, addresses): (Vec<_>, Vec<_>) =
            addresses(interface, MacAddress(mac)).into_iter().partition(unusable);
        let compiled = Interface {
            present: true,
            name: interface.name.as_str().into(),
            port: place.number,
            peer: place.peer,
            is_linkless: interface.kind.is_linkless(),
            down: place.down,
            vrf: map.vrfs[usize::from(interface.vrf.0)],
            zone: map.zones[index],
            fast_path: interface.fast_path,
            merge: interface.merge,
            mac,
            mtu: interface.mtu,
            addresses: addresses.into(),
            tentative: tentative.into(),
            punt: places.punts.get(&(index as u32)).copied().unwrap_or(NONE),
            on_link: Adjacency::NO_ROUTE,
            link_local: LinkLocals::default(),
            sav: PerFamily { v4: crate::root::sav::NONE, v6: crate::root::sav::NONE },
            acl_in: PerFamily { v4: crate::root::acl::NONE, v6: crate::root::acl::NONE },
            acl_out: PerFamily { v4: crate::root::acl::NONE, v6: crate::root::acl::NONE },
            allow: PerFamily { v4: crate::root::allow::NONE, v6: crate::root::allow::NONE },
            bindings: crate::root::bindings::NONE,
            dhcp_trusted: interface.access.dhcp_trusted,
            slaac_trusted: interface.access.slaac_trusted,
            bridge: crate::root::bridge::OfInterface::NONE,
            classify_in: interface.access.classify_in.map_or(crate::root::classify::NONE, |table| table.0),
            classify_out: interface.access.classify_out.map_or(crate::root::classify::NONE, |table| table.0),
            nat: crate::root::nat::OfInterface::NONE,
            spd: crate::root::spd::NONE,
            steer: crate::root::steer::NONE,
            ethertypes_in: interface.access.ethertypes_in.as_ref().map(|of| Arc::from(of.types.as_slice())),
            ethertypes_out: interface.access.ethertypes_out.as_ref().map(|of| Arc::from(of.types.as_slice())),
            broadcasts: Arc::default(),
            counters,
        };
        // New numbers come in ascending order, one past the last.
        match interfaces.get_mut(number) {
            Some(slot) => *slot = compiled,
            None => interfaces.push(compiled),
        }
    }
    interfaces
}

/// Returns the interfaces of the ports' frames.
pub(super) fn demux(gateway: &Gateway, map: &Map, interfaces: &[Interface]) -> Vec<Demux> {
    let numbers = interfaces.iter().flat_map(|interface| [interface.port, interface.punt]);
    let count = numbers.filter(|number| ![NONE, TUNNEL, BRIDGE].contains(number)).map(|number| number + 1).max();
    let mut untagged = vec![NONE; count.unwrap_or(0) as usize];
    let mut hosts = untagged.clone();
    let mut tagged: Vec<HashMap<(u16, u16, u16), u32>> = vec![HashMap::new(); untagged.len()];
    for (index, interface) in gateway.interfaces.iter().enumerate() {
        let number = map.interfaces[index];
        let port = interfaces[number as usize].port as usize;
        if let Some(host) = hosts.get_mut(interfaces[number as usize].punt as usize) {
            *host = number;
        }
        match interface.kind {
            _ if port >= untagged.len() => {}
            InterfaceKind::Port { .. } => untagged[port] = number,
            InterfaceKind::Vlan { outer, inner, .. } => {
                tagged[port].insert((outer.tpid, outer.vid, inner.unwrap_or(0)), number);
            }
            InterfaceKind::Ipsec | InterfaceKind::Tunnel(_) | InterfaceKind::Bridge(_) => {}
        }
    }
    let ports = untagged.into_iter().zip(hosts).zip(tagged);
    ports.map(|((untagged, host), tagged)| Demux { untagged, host, tagged: tagged.into() }).collect()
}

/// Returns the addresses of an interface. An interface with IPv6 and without a link-local address has the one that follows from
/// the hardware address (RFC 4291, 2.1 and appendix A). Its origin is weir itself.
pub(super) fn addresses(interface: &model::Interface, mac: MacAddress) -> Vec<Address> {
    let mut addresses = interface.addresses.clone();
    let v6 = || interface.addresses.iter().filter(|own| own.net.addr().is_ipv6());
    if v6().next().is_some()
        && !v6().any(|own| is_link_local(own.net.addr()))
        && let Ok(net) = IpNet::new(IpAddr::V6(nd::link_local(mac)), LINK_LOCAL_LENGTH)
    {
        addresses.push(Address { net, origin: Origin::default() });
    }
    addresses
}
