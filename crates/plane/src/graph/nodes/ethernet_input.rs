//! `ethernet-input`: finds the interface of each frame, parses it once, and refuses what cannot be forwarded.
//!
//! Ethernet, tags and the IP checks ([`ip_input`]) are one node: a packet's first line comes into the cache here, and
//! everything that needs it is done while it is there.

use weir_packet::offload::{Checksum, Gso};
use weir_packet::packet::Packet;
use weir_packet::parse::{self, L2, ParseFlags, Parsed};
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::ethernet::ethertype;
use weir_packet::wire::{ethernet, ipv4, ipv6, vlan};

use super::ip_input::{self, SPECIAL_V4, Way, ingress, set_parsed, special_v6};
use super::options::Refusal;
use super::stage;
use super::{Context, merging, steer, wire};
use crate::graph::record::Fate;
use crate::model::Merge;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::{Interface, NONE, Root};

/// The distance at which frames are prefetched.
const AHEAD: usize = 8;

/// The interface of a port's untagged frames, as the loop holds it: looked up once for each run of packets of a port,
/// with what it received since.
struct Own {
    port: u32,
    number: u32,
    /// Its hardware address, as the upper 48 bits of the first eight octets of a frame.
    mac: u64,
    packets: u64,
    bytes: u64,
    /// The vector has super-packets, so that each of its packets is examined closely. Examining only the super-packets
    /// would cost half a tick for every packet of every vector.
    closely: bool,
    /// The interface is a port of a bridge, and all frames of the port are its own.
    is_bridged: bool,
}

impl Own {
    const NONE: Own = Own { port: NONE, number: NONE, mac: 0, packets: 0, bytes: 0, closely: false, is_bridged: false };

    /// Counts what came on the interface so far, sends on its packets of each family, and looks another port's up.
    #[cold]
    fn change(&mut self, context: &mut Context<'_>, vector: &mut Vector, ours: [&mut Indices; 2], port: u32) {
        let root = context.root;
        if let Some(interface) = root.interfaces.get(self.number as usize) {
            interface.counters[context.worker].rx.add(self.packets, self.bytes);
            let several = context.peers.len() > 1;
            for (frame, v4) in ours.into_iter().zip([true, false]) {
                let steer = stage::steer_of(interface, v4);
                if steer.is_none() && (interface.merge == Merge::All) | self.closely {
                    merging::merge(context, vector, frame);
                }
                let own = || if several { Node::Handover } else { stage::first(root, interface, v4) };
                context.next.extend(steer.unwrap_or_else(own), frame);
                frame.clear();
            }
        }
        let demux = root.ports.get(port as usize);
        let number = demux.map_or(NONE, |port| port.untagged);
        let interface = root.interfaces.get(number as usize);
        let is_alone = demux.is_some_and(|port| port.host == NONE && port.tagged.is_empty());
        let is_bridged = is_alone && interface.is_some_and(|interface| interface.bridge.is_port());
        let mac = usual_mac(interface.filter(|_| !self.closely));
        *self = Own { port, number, mac, packets: 0, bytes: 0, is_bridged, ..*self };
    }
}

/// Takes packets whose interface field holds the number of their *port*.
pub(super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let (mut v4, mut v6, mut bridged, mut others) = (Indices::new(), Indices::new(), Indices::new(), Indices::new());
    let mut own = Own { closely: vector.has_segments(), ..Own::NONE };
    let places = frame.places();
    for (index, &place) in places.iter().enumerate() {
        if let Some(&ahead) = places.get(index + AHEAD) {
            vector[ahead].prefetch();
        }
        let port = vector[place].interface();
        if port != own.port {
            own.change(context, vector, [&mut v4, &mut v6], port);
        }
        let packet = &mut vector[place];
        // No common value with the usual cases: what they know stays in registers.
        let admitted = match untagged_for(packet, own.mac) {
            Some(ethertype) => {
                packet.set_interface(own.number);
                own.packets += 1;
                own.bytes += packet.len() as u64;
                match ethertype {
                    ethertype::IPV4 if usual_v4(packet) => {
                        v4.push(place);
                        continue;
                    }
                    ethertype::IPV6 if usual_v6(packet) => {
                        v6.push(place);
                        continue;
                    }
                    _ => {}
                }
                admit(context, packet, Link { ethertype, l3: ethernet::LENGTH as u16, flags: ParseFlags::empty() })
            }
            None if own.is_bridged && !own.closely => {
                packet.set_interface(own.number);
                own.packets += 1;
                own.bytes += packet.len() as u64;
                bridged.push(place);
                continue;
            }
            None => any(context, packet),
        };
        match admitted {
            Ok(Way::V4) if packet.interface() == own.number => v4.push(place),
            Ok(Way::V6) if packet.interface() == own.number => v6.push(place),
            Ok(way @ (Way::V4 | Way::V6 | Way::Validated)) if context.root.merges_all | own.closely => {
                ip_input::pass(packet, place, &way, &mut others);
            }
            other => ip_input::conclude(context, packet, place, other),
        }
    }
    own.change(context, vector, [&mut v4, &mut v6], NONE);
    ip_input::enter_all(context, vector, others);
    context.next.extend(Node::BridgeInput, &bridged);
}

/// The fields of the link layer that the rest of the node needs.
#[derive(Clone, Copy)]
struct Link {
    ethertype: u16,
    l3: u16,
    flags: ParseFlags,
}

/// Returns the EtherType of an untagged frame to this address. It compares words, without parsing.
#[inline(always)]
fn untagged_for(packet: &Packet, mac: u64) -> Option<u16> {
    let header = packet.data().first_chunk::<{ ethernet::LENGTH }>()?;
    let [a, b, c, d, e, f, g, h, _, _, _, _, x, y] = *header;
    let ethertype = u16::from_be_bytes([x, y]);
    (u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 16 == mac && !vlan::is_tag(ethertype)).then_some(ethertype)
}

/// Finds the interface of any frame, counts it there, and admits it.
#[cold]
fn any(context: &mut Context<'_>, packet: &mut Packet) -> Result<Way, Refusal> {
    let (root, worker) = (context.root, context.worker);
    if let Some(port) = root.ports.get(packet.interface() as usize)
        && port.host != NONE
    {
        // The host sends: nothing came in by the interface.
        packet.set_interface(port.host);
        return Ok(Way::To(Node::HostInput));
    }
    let found = interface_of(root, packet);
    // A frame whose interface is not known counts for the port's own.
    let number = match found {
        Ok((number, _)) => number,
        Err(_) => root.ports.get(packet.interface() as usize).map_or(NONE, |port| port.untagged),
    };
    packet.set_interface(number);
    if let Some(interface) = root.interfaces.get(number as usize) {
        let (packets, octets) = on_wire(packet, found.as_ref().ok().map(|(_, l2)| l2));
        interface.counters[worker].rx.add(packets, octets);
    }
    let (_, l2) = found?;
    if root.interfaces.get(number as usize).is_some_and(|interface| interface.bridge.is_port()) {
        return Ok(Way::To(Node::BridgeInput));
    }
    admit_ethertype(context, packet, l2.ethertype)?;
    let own = root.interfaces.get(number as usize).is_some_and(|interface| interface.mac == l2.destination.0);
    if !own && !l2.flags.intersects(ParseFlags::L2_GROUP) {
        return Err(Reason::NotOurMac.into());
    }
    admit(context, packet, Link { ethertype: l2.ethertype, l3: l2.l3, flags: l2.flags })
}

/// The packets on the wire that a frame stands for, and the octets of their frames. What a card has put together says nowhere where
/// its headers end.
fn on_wire(packet: &mut Packet, l2: Option<&L2>) -> (u64, u64) {
    if packet.is_to_be_segmented()
        && packet.offload().checksum != Checksum::Partial
        && let Some(l2) = l2
    {
        let parsed = match packet.offload().gso {
            Gso::Tcp4 => parse::ipv4(packet.data(), usize::from(l2.l3)).ok(),
            _ => parse::ipv6(packet.data(), usize::from(l2.l3)).ok(),
        };
        parsed.iter().for_each(|parsed| packet.set_parsed(parsed));
    }
    wire::frames(packet)
}

/// The interface lets packets of both families in, whatever else it says of ethertypes.
fn takes_ip(interface: &Interface) -> bool {
    let both = |list: &[u16]| list.contains(&ethertype::IPV4) && list.contains(&ethertype::IPV6);
    interface.ethertypes_in.as_deref().is_none_or(both)
}

/// Refuses a frame of whose ethertype its interface lets none in.
#[cold]
pub(super) fn admit_ethertype(context: &mut Context<'_>, packet: &Packet, ethertype: u16) -> Result<(), Reason> {
    let Some(interface) = ingress(context.root, packet) else { return Ok(()) };
    if interface.ethertypes_in.as_deref().is_none_or(|list| list.contains(&ethertype)) {
        return Ok(());
    }
    interface.counters[context.worker].ethertypes.0.add(wire::packets(packet));
    context.record(packet, Fate::Unlisted { interface: packet.interface(), output: false });
    Err(Reason::AclEthertype)
}

/// Admits a frame that came out of a tunnel, of the interface that its field names.
pub(super) fn admit_inner(context: &mut Context<'_>, packet: &mut Packet) -> Result<Way, Refusal> {
    let l2 = parse::ethernet(packet.data()).map_err(Reason::from)?;
    // A tag of VLAN 0 gives a priority alone (IEEE 802.1Q, 6.9).
    if [l2.tags.outer, l2.tags.inner].into_iter().flatten().any(|tag| tag.vid() != 0) {
        return Err(Reason::UnknownVlan.into());
    }
    admit_ethertype(context, packet, l2.ethertype)?;
    let own = ingress(context.root, packet).is_some_and(|interface| interface.mac == l2.destination.0);
    if !own && !l2.flags.intersects(ParseFlags::L2_GROUP) {
        return Err(Reason::NotOurMac.into());
    }
    admit(context, packet, Link { ethertype: l2.ethertype, l3: l2.l3, flags: l2.flags })
}

/// The hardware address of an interface as [`admit_usual`] compares it; one that no frame has if each frame needs a closer look.
pub(super) fn usual_mac(interface: Option<&Interface>) -> u64 {
    let mac = interface.filter(|own| !own.bridge.is_port() && takes_ip(own)).map(|own| own.mac);
    mac.map_or(u64::MAX, |[a, b, c, d, e, f]| u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
}

/// Admits a usual packet in an untagged frame to this address, which came out of a tunnel. False, with nothing changed, for any other
/// frame: `admit_inner` says what is with it.
#[inline(always)]
pub(super) fn admit_usual(packet: &mut Packet, mac: u64) -> bool {
    match untagged_for(packet, mac) {
        Some(ethertype::IPV4) => usual_v4(packet),
        Some(ethertype::IPV6) => usual_v6(packet),
        _ => false,
    }
}

/// Finds the interface of a frame, whose interface field holds the number of its port.
pub(super) fn interface_of(root: &Root, packet: &Packet) -> Result<(u32, L2), Reason> {
    let port = root.ports.get(packet.interface() as usize).ok_or(Reason::InterfaceGone)?;
    let l2 = parse::ethernet(packet.data()).map_err(Reason::from)?;
    // A tag of VLAN 0 gives a priority, and is no VLAN at all (IEEE 802.1Q, 6.9): what is within it decides.
    let mut tags = [l2.tags.outer, l2.tags.inner].into_iter().flatten().filter(|tag| tag.vid() != 0);
    let number = match (tags.next(), tags.next()) {
        (None, _) => Some(port.untagged),
        (Some(tag), None) => port.tagged.get(&(tag.tpid, tag.vid(), 0)).copied(),
        (Some(outer), Some(inner)) if inner.tpid == ethertype::VLAN => {
            port.tagged.get(&(outer.tpid, outer.vid(), inner.vid())).copied()
        }
        (Some(_), Some(_)) => None,
    };
    // A port of a bridge takes all frames that are no other interface's.
    let is_bridged = |number: &u32| root.interfaces.get(*number as usize).is_some_and(|own| own.bridge.is_port());
    let number = number.or(Some(port.untagged).filter(is_bridged)).ok_or(Reason::UnknownVlan)?;
    if (number as usize) < root.interfaces.len() { Ok((number, l2)) } else { Err(Reason::InterfaceGone) }
}

/// Admits a whole TCP or UDP packet without options between ordinary addresses; false, with nothing changed, for any
/// other: `admit` says what is with it.
#[inline(always)]
fn usual_v4(packet: &mut Packet) -> bool {
    let Some(parsed) = parse::usual_ipv4(packet.data()) else { return false };
    let at =
        |field: usize| packet.data().get(ethernet::LENGTH + field).is_none_or(|&first| SPECIAL_V4[usize::from(first)]);
    if at(ipv4::SOURCE) | at(ipv4::DESTINATION) {
        return false;
    }
    set_parsed(packet, &parsed);
    true
}

/// As `usual_v4`.
#[inline(always)]
fn usual_v6(packet: &mut Packet) -> bool {
    let Some(parsed) = parse::usual_ipv6(packet.data()) else { return false };
    let at = |field: usize| packet.data().get(ethernet::LENGTH + field).is_none_or(|&first| special_v6(first));
    if at(ipv6::SOURCE) | at(ipv6::DESTINATION) {
        return false;
    }
    set_parsed(packet, &parsed);
    true
}

#[inline(never)]
fn admit(context: &mut Context<'_>, packet: &mut Packet, l2: Link) -> Result<Way, Refusal> {
    let l3 = usize::from(l2.l3);
    match l2.ethertype {
        ethertype::IPV4 => ip_input::admit_ipv4(context, packet, l3, l2.flags),
        ethertype::IPV6 => ip_input::admit_ipv6(context, packet, l3, l2.flags),
        other => {
            admit_ethertype(context, packet, other)?;
            packet.set_parsed(&Parsed { l3: l2.l3, flags: l2.flags, ..Parsed::default() });
            if let Some(node) = steer::frame(context, packet, other)? {
                return Ok(Way::To(node));
            }
            if other != ethertype::ARP {
                return Err(Reason::UnhandledEthertype.into());
            }
            Ok(Way::To(Node::ArpInput))
        }
    }
}
