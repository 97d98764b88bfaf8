//! `ethernet-input`: finds the interface of each frame, parses it once, and refuses what can not be forwarded.
//!
//! Ethernet, tags and the IP checks of RFC 1812, 5.2.2 and RFC 8200 are one node: a packet's first line comes into the
//! cache here, and everything that needs it is done while it is there.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_packet::packet::Packet;
use weir_packet::parse::{self, L2, ParseFlags, Parsed, martian};
use weir_packet::vector::{Frame, Vector};
use weir_packet::wire::ethernet::ethertype;
use weir_packet::wire::ipv4;

use super::{Context, Next};
use crate::node::Node;
use crate::reason::Reason;
use crate::root::{Interface, NONE, Root};

/// How far ahead frames are asked for.
const AHEAD: usize = 8;

/// Octets received on one interface, added up before they are counted.
struct Tally {
    interface: u32,
    packets: u64,
    bytes: u64,
}

impl Tally {
    const NONE: Tally = Tally { interface: NONE, packets: 0, bytes: 0 };

    fn flush(&mut self, root: &Root, worker: usize) {
        if let Some(interface) = root.interfaces.get(self.interface as usize) {
            interface.counters[worker].rx.add(self.packets, self.bytes);
        }
        *self = Tally::NONE;
    }
}

/// Where parsed packets go: to the worker that owns their flow, or on.
struct After {
    ip4: Node,
    ip6: Node,
}

/// Takes packets whose interface field holds the number of their *port*.
pub(super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Frame) {
    let root = context.root;
    let after = match context.peers.len() {
        0 | 1 => After { ip4: Node::Ip4Lookup, ip6: Node::Ip6Lookup },
        _ => After { ip4: Node::Handover, ip6: Node::Handover },
    };
    let mut tally = Tally::NONE;
    let places = frame.places();
    for (index, &place) in places.iter().enumerate() {
        if let Some(&ahead) = places.get(index + AHEAD) {
            vector[ahead].prefetch();
        }
        let packet = &mut vector[place];
        let l2 = match parse::ethernet(packet.data()) {
            Ok(l2) => l2,
            Err(malformed) => {
                count_untagged(context, packet);
                context.next.refuse(packet, place, malformed.into());
                continue;
            }
        };
        let number = match interface_of(root, packet.interface(), &l2) {
            Ok(number) => number,
            Err(reason) => {
                count_untagged(context, packet);
                context.next.refuse(packet, place, reason);
                continue;
            }
        };
        packet.set_interface(number);
        if tally.interface != number {
            tally.flush(root, context.worker);
            tally.interface = number;
        }
        tally.packets += 1;
        tally.bytes += packet.len() as u64;
        let interface = &root.interfaces[number as usize];
        match admit(interface, packet, &l2) {
            Ok(Family::V4) => context.next.push(after.ip4, place),
            Ok(Family::V6) => context.next.push(after.ip6, place),
            Err(refusal) => refuse(context.next, packet, place, refusal),
        }
    }
    tally.flush(root, context.worker);
}

/// A frame whose interface is not known counts for the port's own.
#[cold]
fn count_untagged(context: &Context<'_>, packet: &mut Packet) {
    let port = packet.interface() as usize;
    let number = context.root.ports.get(port).map_or(NONE, |port| port.untagged);
    packet.set_interface(number);
    if let Some(interface) = context.root.interfaces.get(number as usize) {
        interface.counters[context.worker].rx.add(1, packet.len() as u64);
    }
}

#[inline(always)]
fn interface_of(root: &Root, port: u32, l2: &L2) -> Result<u32, Reason> {
    let demux = root.ports.get(port as usize).ok_or(Reason::InterfaceGone)?;
    let number = match l2.tags.outer {
        None => demux.untagged,
        Some(outer) => {
            let inner = l2.tags.inner.map_or(0, |inner| inner.vid());
            if outer.vid() == 0 && inner == 0 {
                demux.untagged // a priority tag: no VLAN at all (IEEE 802.1Q, 6.9)
            } else {
                *demux.tagged.get(&(outer.tpid, outer.vid(), inner)).ok_or(Reason::UnknownVlan)?
            }
        }
    };
    if (number as usize) < root.interfaces.len() { Ok(number) } else { Err(Reason::InterfaceGone) }
}

enum Family {
    V4,
    V6,
}

enum Refusal {
    Silent(Reason),
    /// The source is told, if it may be.
    Aloud(Reason),
}

impl From<Reason> for Refusal {
    fn from(reason: Reason) -> Self {
        Refusal::Silent(reason)
    }
}

#[cold]
fn refuse(next: &mut Next, packet: &mut Packet, place: u8, refusal: Refusal) {
    match refusal {
        Refusal::Silent(reason) => next.refuse(packet, place, reason),
        Refusal::Aloud(reason) => next.refuse_aloud(packet, place, reason),
    }
}

#[inline(always)]
fn admit(interface: &Interface, packet: &mut Packet, l2: &L2) -> Result<Family, Refusal> {
    if l2.destination.0 != interface.mac && !l2.flags.intersects(ParseFlags::L2_GROUP) {
        return Err(Reason::NotOurMac.into());
    }
    let l3 = usize::from(l2.l3);
    match l2.ethertype {
        ethertype::IPV4 => {
            let mut parsed = parse::ipv4(packet.data(), l3).map_err(Reason::from)?;
            parsed.flags |= l2.flags;
            settle(packet, &parsed);
            admit_v4(packet, &parsed)?;
            Ok(Family::V4)
        }
        ethertype::IPV6 => {
            let mut parsed = match parse::ipv6(packet.data(), l3) {
                Ok(parsed) => parsed,
                Err(malformed) => {
                    let flags = ParseFlags::IP6 | l2.flags;
                    packet.set_parsed(&Parsed { l3: l2.l3, flags, ..Parsed::default() });
                    let reason = Reason::from(malformed);
                    return Err(match malformed.parameter_problem() {
                        Some(_) => Refusal::Aloud(reason),
                        None => Refusal::Silent(reason),
                    });
                }
            };
            parsed.flags |= l2.flags;
            settle(packet, &parsed);
            admit_v6(packet, &parsed)?;
            Ok(Family::V6)
        }
        _ => Err(Reason::UnhandledEthertype.into()),
    }
}

/// Notes what was parsed and cuts padding off.
#[inline(always)]
fn settle(packet: &mut Packet, parsed: &Parsed) {
    packet.set_parsed(parsed);
    packet.truncate(usize::from(parsed.l3) + parsed.l3_length as usize);
}

#[inline(always)]
fn admit_v4(packet: &mut Packet, parsed: &Parsed) -> Result<(), Refusal> {
    let Some(header) = packet.l3().first_chunk::<{ ipv4::LENGTH }>() else {
        return Err(Reason::TruncatedIpv4.into());
    };
    let [_, _, _, _, _, _, _, _, _, _, _, _, s0, s1, s2, s3, d0, d1, d2, d3] = *header;
    if martian::source_v4(Ipv4Addr::new(s0, s1, s2, s3)) {
        return Err(Reason::MartianSource.into());
    }
    if d0 >= 224 {
        return Err(if [d0, d1, d2, d3] == [255; 4] {
            Reason::Broadcast
        } else if d0 < 240 {
            Reason::Multicast
        } else {
            Reason::MartianDestination
        }
        .into());
    }
    if martian::destination_v4(Ipv4Addr::new(d0, d1, d2, d3)) {
        return Err(Reason::MartianDestination.into());
    }
    if parsed.flags.intersects(ParseFlags::L2_GROUP) {
        return Err(Reason::LinkLayerBroadcast.into());
    }
    if parsed.flags.contains(ParseFlags::OPTIONS) {
        return check_options(packet.l3());
    }
    Ok(())
}

/// RFC 1812, 5.2.4.1 and 4.2.2.1: options are walked, and what is malformed is refused aloud. Source routes are refused
/// silently, as RFC 7126, 4.3 and 4.4 recommend.
#[cold]
fn check_options(packet: &[u8]) -> Result<(), Refusal> {
    let length = ipv4::Header::new(packet).map_or(0, |header| header.header_length());
    for option in ipv4::options(packet.get(..length).unwrap_or_default()) {
        match option {
            Err(_) => return Err(Refusal::Aloud(Reason::BadOptions)),
            Ok(option)
                if matches!(option.kind(), ipv4::option::LOOSE_SOURCE_ROUTE | ipv4::option::STRICT_SOURCE_ROUTE) =>
            {
                return Err(Reason::SourceRoute.into());
            }
            Ok(_) => {}
        }
    }
    Ok(())
}

#[inline(always)]
fn admit_v6(packet: &Packet, parsed: &Parsed) -> Result<(), Refusal> {
    let l3 = packet.l3();
    let (Some(source), Some(destination)) = (address(l3, 8), address(l3, 24)) else {
        return Err(Reason::TruncatedIpv6.into());
    };
    if martian::source_v6(source) {
        return Err(Reason::MartianSource.into());
    }
    if destination.is_multicast() {
        return Err(Reason::Multicast.into());
    }
    if martian::destination_v6(destination) {
        return Err(Reason::MartianDestination.into());
    }
    if parsed.flags.intersects(ParseFlags::L2_GROUP) {
        return Err(Reason::LinkLayerBroadcast.into());
    }
    Ok(())
}

#[inline(always)]
pub(super) fn address(l3: &[u8], at: usize) -> Option<Ipv6Addr> {
    Some(Ipv6Addr::from(*l3.get(at..)?.first_chunk::<16>()?))
}
