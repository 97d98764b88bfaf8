//! `tunnel-decap`: packets of tunnels for the gateway become the packets inside, which come in by the interface of the tunnel.

use weir_packet::checksum;
use weir_packet::esp::ecn;
use weir_packet::offload::{Checksum, Gso, Offload};
use weir_packet::packet::{Packet, Shown, State};
use weir_packet::parse::{self, ParseFlags, Parsed};
use weir_packet::tunnel::{self, Carrier, Inner, Opened, Refused};
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::ethernet::ethertype;
use weir_packet::wire::{ethernet, ipv4, ipv6, protocol, udp};

use super::super::stage::Stage;
use super::super::{Context, ethernet_input, ip_input, wire};
use super::alike::{Front, Run, Taken};
use super::arrival::{Arrival, arrival};
use super::{path, pieces};
use crate::graph::flow::Unlearned;
use crate::graph::nesting::{self, MOST_NESTING};
use crate::graph::record::Fate;
use crate::model::MssClamp;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::tunnel::Tunnel;

/// The distance at which the second line of frames is prefetched, which has the headers of inner packets.
const AHEAD: usize = 4;

pub(in super::super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let mut entering = Indices::new();
    let mut last = Run::NONE;
    let places = frame.places();
    for (index, &place) in places.iter().enumerate() {
        if let Some(&ahead) = places.get(index + AHEAD) {
            vector[ahead].prefetch_at(64);
        }
        context.notes.forget(place, Unlearned::New);
        let packet = &mut vector[place];
        if !context.requeue.has_added(Stage::Decapsulate as u8, packet) {
            match last.take(packet) {
                Taken::Whole => {
                    entering.push(place);
                    continue;
                }
                Taken::Unusual(tunnel) => {
                    enter(context, packet, place, tunnel, &mut entering);
                    continue;
                }
                Taken::Inner => {
                    context.next.push(Node::IpInput, place);
                    continue;
                }
                Taken::Not => {}
            }
        }
        if let Some((tunnel, front)) = any(context, packet, place, &mut entering) {
            last.follow(context, tunnel, front);
        }
    }
    last.count(context);
    ip_input::enter_all(context, vector, entering);
}

/// Takes any packet out of its tunnel. Returns the tunnel and the front of packets like it, if others may be known by the same octets.
#[inline(never)]
fn any<'r>(
    context: &mut Context<'r>,
    packet: &mut Packet,
    place: u8,
    entering: &mut Indices,
) -> Option<(&'r Tunnel, Front)> {
    let (tunnel, at, opened) = match arrival(context.root, packet) {
        Arrival::Of(tunnel, at, opened) => (tunnel, at, opened),
        Arrival::Refused(refused) => {
            context.next.refuse(packet, place, reason(refused));
            return None;
        }
        Arrival::Unknown | Arrival::Other => {
            context.next.refuse(packet, place, Reason::TunnelUnknown);
            return None;
        }
    };
    if has_several(packet, tunnel, at) {
        pieces::datagrams(context, packet, place);
        return None;
    }
    // Datagrams of a packet before this one go round again: this one must not overtake them.
    if context.requeue.has_added(Stage::Decapsulate as u8, packet) {
        pieces::decapsulate(context, packet, place);
        return None;
    }
    let front = if context.recorder.is_on() { None } else { Front::of(packet, tunnel, at, opened) };
    let taken = take_out(packet, tunnel, at, opened);
    if context.recorder.is_on() {
        context.record(packet, Fate::Tunnelled { interface: tunnel.interface, inbound: true });
    }
    match taken {
        Ok(()) => enter(context, packet, place, tunnel, entering),
        Err(reason) => {
            tunnel.counters[context.worker].refused.add(1);
            context.next.refuse(packet, place, reason);
            return None;
        }
    }
    front.map(|front| (tunnel, front))
}

/// The reason to drop a packet that carries nothing.
fn reason(refused: Refused) -> Reason {
    match refused {
        Refused::Malformed => Reason::TunnelMalformed,
        Refused::Critical => Reason::TunnelOption,
        Refused::Control => Reason::TunnelControl,
    }
}

/// Each segment of a packet is a datagram of the tunnel: the checksum that is to be completed is that of the outer header.
#[inline(always)]
fn has_several(packet: &Packet, tunnel: &Tunnel, at: usize) -> bool {
    let offload = packet.offload();
    offload.gso == Gso::Udp
        && offload.checksum == Checksum::Partial
        && tunnel.wanted.carrier.port().is_some()
        && usize::from(offload.start) + udp::LENGTH == at
}

/// Cuts a packet to what it carries.
#[inline(always)]
fn take_out(packet: &mut Packet, tunnel: &Tunnel, at: usize, opened: Opened) -> Result<(), Reason> {
    if nesting::taken_off(packet) >= MOST_NESTING {
        return Err(Reason::NestingLimit);
    }
    if tunnel.wanted.carrier.port().is_some() {
        check_udp(packet, at)?;
    }
    let is_unknown = packet.offload().checksum == Checksum::Unknown;
    if tunnel.wanted.carrier == Carrier::Gre
        && is_unknown
        && !tunnel::is_intact_gre(packet.data().get(at..).unwrap_or_default())
    {
        return Err(Reason::TunnelChecksum);
    }
    let outer = traffic_class(packet.l3()) & 3;
    let offload = packet.offload();
    if offload.checksum == Checksum::Partial && usize::from(offload.start) < at + opened.header {
        // It is that of the outer UDP header, which goes; those inside are complete.
        packet.set_offload(Offload { checksum: Checksum::Unknown, start: 0, offset: 0, ..offload });
    }
    // No frame begins so far behind its buffer.
    packet.pull(at + opened.header).map_err(|_| Reason::TunnelMalformed)?;
    if tunnel.wanted.ecn && outer != ecn::NOT_ECT {
        let l3 = match opened.inner {
            Inner::Ethernet => ethernet::LENGTH,
            Inner::V4 | Inner::V6 => 0,
        };
        mark(packet, l3, outer)?;
    }
    Ok(())
}

/// Checks length and checksum of UDP. Over IPv6, 0 is no checksum either: both ends of a tunnel are known (RFC 6935, RFC 6936).
#[inline(always)]
fn check_udp(packet: &mut Packet, at: usize) -> Result<(), Reason> {
    let l4 = at - udp::LENGTH;
    let Some(&[_, _, _, _, a, b, c, d]) = packet.data().get(l4..).and_then(|header| header.first_chunk()) else {
        return Err(Reason::TunnelMalformed);
    };
    let (length, sum) = (usize::from(u16::from_be_bytes([a, b])), u16::from_be_bytes([c, d]));
    let offload = packet.offload();
    // The length of what is still to be cut into segments is that of all, modulo 2^16 at most.
    if offload.gso == Gso::None {
        if length < udp::LENGTH || l4 + length > packet.len() {
            return Err(Reason::TunnelMalformed);
        }
        packet.truncate(l4 + length);
    }
    if sum == 0 || offload.checksum != Checksum::Unknown {
        return Ok(());
    }
    let datagram = packet.data().get(l4..).unwrap_or_default();
    let pseudo = match packet.flags().contains(ParseFlags::IP4) {
        true => ipv4::Header::new(packet.l3()).map(|own| {
            // IP lets no datagram be longer.
            checksum::pseudo_v4(own.source(), own.destination(), protocol::UDP, datagram.len() as u16)
        }),
        false => ipv6::Header::new(packet.l3())
            .map(|own| checksum::pseudo_v6(own.source(), own.destination(), protocol::UDP, datagram.len() as u32)),
    };
    let is_valid = pseudo.is_ok_and(|pseudo| pseudo.bytes(datagram).is_valid());
    if is_valid { Ok(()) } else { Err(Reason::TunnelChecksum) }
}

/// Joins the congestion marks of the outer header and of the inner one at `l3`.
#[cold]
fn mark(packet: &mut Packet, l3: usize, outer: u8) -> Result<(), Reason> {
    let is_ip = l3 == 0
        || packet
            .data()
            .get(ethernet::ETHERTYPE..l3)
            .is_some_and(|kind| kind == ethertype::IPV4.to_be_bytes() || kind == ethertype::IPV6.to_be_bytes());
    let Some(header) = packet.data_mut().get_mut(l3..).filter(|header| is_ip && !header.is_empty()) else {
        return Ok(());
    };
    let inner = traffic_class(header) & 3;
    let mark = ecn::decapsulate(inner, outer).ok_or(Reason::TunnelEcn)?;
    if mark != inner {
        ecn::write(header, mark);
    }
    Ok(())
}

/// The octet with DSCP and ECN of an IP header; 0 of anything else.
#[inline(always)]
fn traffic_class(header: &[u8]) -> u8 {
    match header {
        [first, second, ..] if first >> 4 == 4 => *second,
        [first, second, ..] => first << 4 | second >> 4,
        _ => 0,
    }
}

/// Sends what was inside of a packet on as a packet of the tunnel's interface.
#[inline(always)]
fn enter(context: &mut Context<'_>, packet: &mut Packet, place: u8, tunnel: &Tunnel, entering: &mut Indices) {
    packet.set_parsed(&Parsed { l3_length: packet.len() as u32, ..Parsed::default() });
    // A checksum that is still to be completed is the inner packet's, and so are segments.
    if packet.offload().checksum != Checksum::Partial {
        packet.set_offload(Offload { checksum: Checksum::Unknown, ..packet.offload() });
    }
    packet.set_shown(Shown::EMPTY);
    nesting::take_off(packet);
    packet.set_state(State::EMPTY);
    packet.set_interface(tunnel.interface);
    if packet.is_to_be_segmented() && packet.offload().checksum != Checksum::Partial {
        find_headers(packet, tunnel.wanted.carrier.is_ethernet());
    }
    if let Some(wanted) = tunnel.wanted.mss_clamp {
        clamp(context, packet, tunnel, wanted);
    }
    let (packets, octets) = wire::frames(packet);
    tunnel.counters[context.worker].inbound.add(packets, octets);
    if let Some(interface) = context.root.interfaces.get(tunnel.interface as usize) {
        interface.counters[context.worker].rx.add(packets, octets);
    }
    if !tunnel.wanted.carrier.is_ethernet() {
        return context.next.push(Node::IpInput, place);
    }
    // What was decided about the packet around it is not about this one.
    packet.set_resume(0);
    if context.root.interfaces.get(tunnel.interface as usize).is_some_and(|interface| interface.bridge.is_port()) {
        return context.next.push(Node::BridgeInput, place);
    }
    let admitted = ethernet_input::admit_inner(context, packet);
    ip_input::conclude_or_pass(context, packet, place, admitted, entering);
}

/// Lowers the maximum segment size of a SYN segment that came out of a tunnel. Its headers are parsed here first.
#[cold]
fn clamp(context: &Context<'_>, packet: &mut Packet, tunnel: &Tunnel, wanted: MssClamp) {
    if packet.is_to_be_segmented() {
        return;
    }
    let before = packet.parsed();
    let l3 = match tunnel.wanted.carrier.is_ethernet() {
        true => parse::ethernet(packet.data()).map(|l2| usize::from(l2.l3)),
        false => Ok(0),
    };
    let Ok(l3) = l3 else { return };
    let parsed = match packet.data().get(l3).map(|first| first >> 4) {
        Some(4) => parse::ipv4(packet.data(), l3).ok(),
        Some(6) => parse::ipv6(packet.data(), l3).ok(),
        _ => None,
    };
    if let Some(parsed) = parsed {
        packet.set_parsed(&parsed);
        path::clamp(context, packet, tunnel, wanted);
        packet.set_parsed(&before);
    }
}

/// Notes where the headers of a super-packet end, of which its state says nothing: so it counts as its segments, whatever drops it.
#[cold]
fn find_headers(packet: &mut Packet, is_frame: bool) {
    let l3 = if is_frame { parse::ethernet(packet.data()).map(|l2| usize::from(l2.l3)) } else { Ok(0) };
    let Ok(l3) = l3 else { return };
    let parsed = match packet.offload().gso {
        Gso::Tcp4 => parse::ipv4(packet.data(), l3).ok(),
        _ => parse::ipv6(packet.data(), l3).ok(),
    };
    parsed.iter().for_each(|parsed| packet.set_parsed(parsed));
}
