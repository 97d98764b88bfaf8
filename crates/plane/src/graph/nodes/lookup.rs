//! `ip4-lookup`, `ip6-lookup`: longest-prefix match of the destination, by the vector, and the choice of a path.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use weir_base::reclaim::Guard;
use weir_packet::packet::Packet;
use weir_packet::parse::{self, ParseFlags, Seed};
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_packet::wire::{ipv4, ipv6};
use weir_table::lpm::{AsKey, Key, Table};

use super::stage::{self, Stage};
use super::{Context, link_local, next_hop, route, sav, steer};
use crate::graph::flags::{ENCAPSULATED, FOR_HOST, ORIGINATED};
use crate::graph::hold::{self, Disposition};
use crate::graph::record::Fate;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::family::Family;
use crate::root::{Adjacency, Forwarding, Kind, Root};

/// The lookup node of a parsed packet's family.
#[inline(always)]
pub(crate) fn node(packet: &Packet) -> Node {
    if packet.flags().contains(ParseFlags::IP4) { Node::Ip4Lookup } else { Node::Ip6Lookup }
}

#[inline(never)]
pub(super) fn ipv4(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let mut keys = [[0u8; 4]; VECTOR];
    let mut values = [0u32; VECTOR];
    let places = frame.places();
    for (key, &place) in keys.iter_mut().zip(places) {
        // Parsed packets have a whole header; anything else finds no route.
        *key = *field::<4, { ipv4::DESTINATION }, { ipv4::LENGTH }>(&vector[place]);
    }
    by_vrf(context, vector, places, |context, vrf, range| {
        if let Some(tables) = context.root.vrfs.get(usize::from(vrf)) {
            look_up(&tables.v4, context.guard, &keys[range.clone()], &mut values[range]);
        }
    });
    if has_ways(context.root) {
        redirect::<u32, [u8; 4]>(context, vector, places, &keys, &mut values);
    }
    let recording = context.recorder.is_on();
    let mut usual = Indices::new();
    for ((&place, &value), key) in places.iter().zip(&values).zip(&keys) {
        if key[0] >= MULTICAST_V4 && for_host(context, &vector[place], place) {
            continue;
        }
        route::dispatch(context, &mut usual, &mut vector[place], place, value);
        if recording {
            note(context, &vector[place], IpAddr::V4(Ipv4Addr::from(*key)));
        }
    }
    stage::leave(context, vector, &usual, true);
}

/// Writes the destinations of packets of IPv6. Returns whether some packet is not from one ordinary address to another: to a group,
/// or from or to a link-local address.
#[inline(never)]
fn destinations(vector: &Vector, places: &[u8], keys: &mut [[u8; 16]; VECTOR]) -> bool {
    let mut is_odd = false;
    for (key, &place) in keys.iter_mut().zip(places) {
        let addresses: &[u8; 32] = field::<32, { ipv6::SOURCE }, { ipv6::LENGTH }>(&vector[place]);
        let [from, to] = [addresses[0], addresses[16]];
        is_odd |= (from == LINK_LOCAL) | (to >= LINK_LOCAL);
        *key = addresses.last_chunk().copied().unwrap_or_default();
    }
    is_odd
}

#[inline(never)]
pub(super) fn ipv6(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let mut keys = [[0u8; 16]; VECTOR];
    let mut values = [0u32; VECTOR];
    let places = frame.places();
    let is_odd = destinations(vector, places, &mut keys);
    by_vrf(context, vector, places, |context, vrf, range| {
        if let Some(tables) = context.root.vrfs.get(usize::from(vrf)) {
            look_up(&tables.v6, context.guard, &keys[range.clone()], &mut values[range]);
        }
    });
    if has_ways(context.root) {
        redirect::<u128, [u8; 16]>(context, vector, places, &keys, &mut values);
    }
    let recording = context.recorder.is_on();
    let mut usual = Indices::new();
    for ((&place, &value), key) in places.iter().zip(&values).zip(&keys) {
        if is_odd
            && (key[0] == MULTICAST_V6 && for_host(context, &vector[place], place)
                || link_local::settle(context, &mut vector[place], place, key, value))
        {
            continue;
        }
        route::dispatch(context, &mut usual, &mut vector[place], place, value);
        if recording {
            note(context, &vector[place], IpAddr::V6(Ipv6Addr::from(*key)));
        }
    }
    stage::leave(context, vector, &usual, false);
}

/// The first octets of multicast and broadcast destinations: at least this in IPv4 (RFC 1112, 4), exactly this in IPv6
/// (RFC 4291, 2.7).
const MULTICAST_V4: u8 = 224;
const MULTICAST_V6: u8 = 0xff;

/// The first octet of link-local addresses of IPv6 (RFC 4291, 2.5.6); that of groups is larger.
const LINK_LOCAL: u8 = 0xfe;

/// Gives the host a packet that stays on its link and has passed the policies; false for any other.
#[cold]
fn for_host(context: &mut Context<'_>, packet: &Packet, place: u8) -> bool {
    let is = packet.state().contains(FOR_HOST);
    if is {
        context.next.push(Node::Punt, place);
    }
    is
}

/// The keys have just been written: they need not be fetched.
#[inline(always)]
fn look_up<K: Key, A: AsKey<K>>(table: &Table<K>, guard: &Guard<'_>, keys: &[A], values: &mut [u32]) {
    table.lookup_each(guard, |index| keys[index].as_key(), values);
}

/// Classifier tables, or translations of linked VRFs, may give packets a way.
#[inline(always)]
fn has_ways(root: &Root) -> bool {
    root.classify.input || root.nat.crosses
}

/// Gives packets the targets that classifier tables or translations gave them.
#[inline(never)]
fn redirect<K: Family, A: AsKey<K>>(
    context: &Context<'_>,
    vector: &Vector,
    places: &[u8],
    keys: &[A; VECTOR],
    values: &mut [u32; VECTOR],
) {
    for ((&place, key), value) in places.iter().zip(keys).zip(values) {
        if let Some(way) = vector[place].way() {
            *value = by_way::<K>(context.root, context.guard, &vector[place], way, (key.as_key(), *value));
        }
    }
}

/// Returns the target of a packet with a way: that of the way, or the one found for its destination where the packet is for the
/// gateway, or where the way leads nowhere. Packets that the gateway makes go by their route.
#[cold]
fn by_way<K: Family>(root: &Root, guard: &Guard<'_>, packet: &Packet, way: u32, (to, value): (K, u32)) -> u32 {
    if packet.state().intersects(ORIGINATED | ENCAPSULATED) {
        return value;
    }
    let Some(way) = root.classify.ways.get(way as usize) else { return value };
    if !way.is_translated && Forwarding(value).set().is_none() && is_own(root, value) {
        return value;
    }
    if let Some(target) = if K::IS_V4 { way.v4 } else { way.v6 } {
        return target;
    }
    match way.vrf.and_then(|vrf| root.vrfs.get(usize::from(vrf))) {
        Some(tables) => K::of(tables).lookup(guard, to),
        None => value,
    }
}

/// Returns whether an adjacency is that of the gateway's own addresses, or of broadcasts on its links.
fn is_own(root: &Root, number: u32) -> bool {
    let adjacency = root.adjacencies.get(number as usize);
    adjacency.is_some_and(|own| matches!(own.kind, Kind::Local | Kind::Broadcast | Kind::Tentative))
}

#[inline(always)]
fn field<const N: usize, const AT: usize, const HEADER: usize>(packet: &Packet) -> &[u8; N] {
    packet.l3_header::<HEADER>().and_then(|header| header.get(AT..)?.first_chunk()).unwrap_or(&[0; N])
}

/// Calls `look_up` for each run of packets of one VRF: once in the usual case.
#[inline(always)]
fn by_vrf(
    context: &mut Context<'_>,
    vector: &Vector,
    places: &[u8],
    mut look_up: impl FnMut(&mut Context<'_>, u16, std::ops::Range<usize>),
) {
    if context.root.vrfs.len() == 1 {
        return look_up(context, 0, 0..places.len());
    }
    let interfaces = &context.root.interfaces;
    let vrf = |place: u8| interfaces.get(vector[place].interface() as usize).map_or(0, |interface| interface.vrf);
    let mut start = 0;
    while start < places.len() {
        let first = vrf(places[start]);
        let run = places[start..].iter().take_while(|&&place| vrf(place) == first).count();
        look_up(context, first, start..start + run);
        start += run;
    }
}

/// Decides about packets held for a neighbour under a new root, by the first of them.
pub(crate) fn decide(root: &Root, guard: &Guard<'_>, seed: &Seed, key: hold::Key, packet: &Packet) -> Disposition {
    if !root.interfaces.get(key.interface as usize).is_some_and(|interface| interface.present) {
        return Disposition::Refuse(Reason::InterfaceGone);
    }
    let Some(ingress) = root.interfaces.get(packet.interface() as usize).filter(|ingress| ingress.present) else {
        return Disposition::Release;
    };
    let Some(tables) = root.vrfs.get(usize::from(ingress.vrf)) else { return Disposition::Release };
    let Some(destination) = next_hop::destination(packet) else { return Disposition::Release };
    let waits_at = |adjacency: &Adjacency| {
        adjacency.kind == Kind::Neighbor
            && adjacency.interface == key.interface
            && adjacency.next_hop.unwrap_or(destination) == key.address
            && root.resolved(key.interface, key.address).is_none()
    };
    if Stage::of(packet) == Stage::Redirect {
        let adjacency = sav::redirection(root, guard, packet);
        let waits = adjacency.is_some_and(|number| root.adjacencies.get(number as usize).is_some_and(waits_at));
        return if waits { Disposition::Wait } else { Disposition::Release };
    }
    if Stage::of(packet) == Stage::Steered {
        let adjacency = steer::target_again(root, guard, packet);
        let waits = adjacency.is_some_and(|number| root.adjacencies.get(number as usize).is_some_and(waits_at));
        return if waits { Disposition::Wait } else { Disposition::Release };
    }
    let value = match destination {
        IpAddr::V4(to) => tables.v4.lookup(guard, u32::from(to)),
        IpAddr::V6(to) if to.is_unicast_link_local() => Forwarding::adjacency(ingress.neighbor(to)).0,
        IpAddr::V6(to) => tables.v6.lookup(guard, u128::from(to)),
    };
    let value = match (packet.way(), destination) {
        (None, _) => value,
        (Some(way), IpAddr::V4(to)) => by_way::<u32>(root, guard, packet, way, (u32::from(to), value)),
        (Some(way), IpAddr::V6(to)) => by_way::<u128>(root, guard, packet, way, (u128::from(to), value)),
    };
    let hash = || parse::flow_hash(&packet.parsed(), packet.data(), seed);
    let adjacency = root.adjacencies.get(Forwarding(value).resolve(hash, &root.buckets) as usize);
    if adjacency.is_some_and(waits_at) { Disposition::Wait } else { Disposition::Release }
}

#[cold]
fn note(context: &mut Context<'_>, packet: &Packet, destination: IpAddr) {
    if packet.state().contains(ORIGINATED) {
        return;
    }
    let (root, adjacency) = (context.root, packet.forwarding());
    let octets = packet.parsed().l3_length;
    let interface = root.interfaces.get(packet.interface() as usize);
    let mut vrf = interface.map_or(0, |interface| interface.vrf);
    if let Some(way) = packet.way().and_then(|way| root.classify.ways.get(way as usize))
        && (way.is_translated || !is_own(root, adjacency))
        && !packet.state().contains(ENCAPSULATED)
    {
        if (if destination.is_ipv4() { way.v4 } else { way.v6 }).is_some() {
            return context.record(packet, Fate::Directed { destination, adjacency, steered: false, octets });
        }
        vrf = way.vrf.unwrap_or(vrf);
    }
    context.record(packet, Fate::LookedUp { vrf, destination, adjacency, octets });
}
