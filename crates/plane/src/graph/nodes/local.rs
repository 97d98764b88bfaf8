//! `local`: what is for the gateway itself. Echo requests of any size are answered, put together first where they come in
//! fragments; all else is the host's business.

use std::net::IpAddr;

use weir_packet::checksum;
use weir_packet::fragment::{Fragmenter, SourceFragmenter};
use weir_packet::icmp::{self, NotAnswered};
use weir_packet::offload::Offload;
use weir_packet::packet::Packet;
use weir_packet::parse::{ParseFlags, Parsed};
use weir_packet::reassembly::Piece;
use weir_packet::tunnel::Carrier;
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::{icmpv4, icmpv6, ipv6, protocol, udp};

use super::esp::{self, Arrival};
use super::fragment::Fragments;
use super::scope::scoped;
use super::stage::Stage;
use super::tunnel::{self, Arrival as Arriving};
use super::{Context, discard, handover, lookup, punt, session, spd};
use crate::graph::flags::{ORIGINATED, PIECEMEAL};
use crate::graph::reassembly::{Begun, Taken, Whole};
use crate::graph::record::Fate;
use crate::graph::session::Carried;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::{Interface, NONE};

/// `pieces` is empty before and after.
pub(super) fn run(context: &mut Context<'_>, pieces: &mut Vector, vector: &mut Vector, frame: &Indices) {
    for &place in frame.places() {
        let packet = &mut vector[place];
        // The packet has arrived; a reply in its buffer is another packet.
        session::pass(context, packet);
        Carried::clear(packet);
        packet.set_translation(0);
        if packet.state().contains(ORIGINATED) {
            context.next.push(Node::Punt, place); // an answer to ourselves
        } else if packet.flags().contains(ParseFlags::FRAGMENT) {
            take_in(context, pieces, packet, place);
        } else if !take_esp(context, packet, place)
            && !esp::take_report(context, packet)
            && !take_tunnel(context, packet, place)
        {
            let served = serve(context, packet);
            conclude(context, packet, place, served);
        }
    }
}

/// Sends a packet of ESP to its SA, and drops a keepalive (RFC 3948, 2.3); false for any other packet.
#[inline]
fn take_esp(context: &mut Context<'_>, packet: &mut Packet, place: u8) -> bool {
    match esp::arrival(context.root, packet) {
        Arrival::Other => return false,
        Arrival::Esp(_) => context.next.push(Node::EspDecrypt, place),
        Arrival::Keepalive => {
            context.next.refuse(packet, place, Reason::EspKeepalive);
        }
    }
    true
}

/// Sends a packet of a tunnel to its node, and takes in a report about one; false for any other packet.
#[inline]
fn take_tunnel(context: &mut Context<'_>, packet: &mut Packet, place: u8) -> bool {
    if !context.root.tunnels.is_active() {
        return false;
    }
    match tunnel::arrival(context.root, packet) {
        Arriving::Of(..) | Arriving::Refused(_) => context.next.push(Node::TunnelDecap, place),
        // The host may have tunnels of its own.
        Arriving::Unknown if device(context, packet) == NONE => context.next.push(Node::TunnelDecap, place),
        Arriving::Unknown => return false,
        Arriving::Other => return tunnel::learn(context, packet),
    }
    true
}

/// Sends on what a packet for us has become.
fn conclude(context: &mut Context<'_>, packet: &mut Packet, place: u8, served: Result<(), Reason>) {
    match served {
        Ok(()) => {
            // The request ends here and the reply begins, in the same buffer.
            context.counters.local.add(1);
            context.counters.created.add(1);
            context.record(packet, Fate::Local);
            packet.add_state(ORIGINATED);
            context.next.push(lookup::node(packet), place);
        }
        Err(Reason::LocalUnhandled) => context.next.push(Node::Punt, place),
        Err(reason) => context.next.refuse(packet, place, reason),
    }
}

/// Turns an echo request into its reply.
fn serve(context: &mut Context<'_>, packet: &mut Packet) -> Result<(), Reason> {
    let kind = packet.parsed().icmp(packet.data()).map(|(kind, _)| kind);
    let v4 = packet.flags().contains(ParseFlags::IP4);
    let request = match packet.protocol() {
        protocol::ICMP => v4 && kind == Some(icmpv4::kind::ECHO_REQUEST),
        protocol::ICMPV6 => !v4 && kind == Some(icmpv6::kind::ECHO_REQUEST),
        _ => false,
    };
    if !request {
        return Err(Reason::LocalUnhandled);
    }
    if !context.limits.echo.admit(context.now) {
        return Err(Reason::EchoLimited);
    }
    checksum::complete(packet);
    let reply =
        if v4 { icmp::echo_reply_v4(packet.l3_mut()).map(|()| 0) } else { icmp::echo_reply_v6(packet.l3_mut()) };
    let start = reply.map_err(|refused| match refused {
        NotAnswered::BadChecksum => Reason::LocalBadChecksum,
        _ => Reason::LocalUnhandled,
    })?;
    if !v4 {
        leave_out_headers(packet, start);
        not_from_anycast(context, packet);
    }
    // What was known of the request says nothing of the reply.
    packet.set_offload(Offload::default());
    Ok(())
}

/// Has a reply begin where its IPv6 header is, so many octets behind the extension headers of its request.
fn leave_out_headers(packet: &mut Packet, octets: usize) {
    if octets == 0 {
        return;
    }
    let parsed = packet.parsed();
    // Where the message starts was in 16 bits, and this is in front of it.
    let l3 = parsed.l3 + octets as u16;
    let flags = parsed.flags.without(ParseFlags::OPTIONS);
    packet.set_parsed(&Parsed { l3, flags, ..parsed });
}

/// An echo reply to an address that several routers share comes from one of the interface's own (RFC 4443, 4.2).
fn not_from_anycast(context: &Context<'_>, packet: &mut Packet) {
    let Ok(header) = ipv6::Fields::parse(packet.l3()) else { return };
    let (own, to) = (header.source, header.destination);
    // Such an address is the first of a prefix of at most 126 bits.
    if own.to_bits() & 3 != 0 {
        return;
    }
    let interfaces = &context.root.interfaces;
    if interfaces.iter().any(|interface| interface.has(IpAddr::V6(own)))
        || !interfaces.iter().any(|interface| interface.is_anycast(own))
    {
        return;
    }
    let ingress = interfaces.get(packet.interface() as usize);
    let address = if to.is_unicast_link_local() { Interface::ipv6_on_link } else { Interface::ipv6 };
    if let Some(source) = ingress.and_then(address) {
        icmp::set_source_v6(packet.l3_mut(), source);
    }
}

/// Takes a fragment in, and serves the datagram when it is whole.
#[cold]
fn take_in(context: &mut Context<'_>, pieces: &mut Vector, packet: &mut Packet, place: u8) {
    let piece = match Piece::new(&packet.parsed(), packet.l3()) {
        Ok(piece) => piece,
        Err(_) => return context.next.refuse_aloud(packet, place, Reason::BadFragment),
    };
    // Only what we may have to answer is put together here. The host does that for itself.
    let ours = if piece.is_v4() { protocol::ICMP } else { protocol::ICMPV6 };
    let ipsec = &context.root.ipsec;
    let is_esp = match piece.protocol {
        protocol::ESP => ipsec.is_active(),
        // ESP in UDP, perhaps: only the first fragment has the ports.
        protocol::UDP => !ipsec.ports.is_empty(),
        _ => false,
    };
    let is_tunnel = is_of_tunnel(context, piece.protocol);
    if piece.protocol != ours && !is_esp && !is_tunnel {
        return match device(context, packet) {
            NONE => context.next.refuse(packet, place, Reason::LocalFragment),
            _ => context.next.push(Node::Punt, place),
        };
    }
    let piece = scoped(context, packet, piece);
    match add(context, packet, &piece) {
        Ok(None) => {
            context.counters.absorbed.add(1);
            context.record(packet, Fate::Local);
        }
        Ok(Some(whole)) => {
            context.counters.absorbed.add(1);
            let Whole { packet: mut last, identification, longest } = whole;
            last.inherit_part(packet);
            last.add_state(PIECEMEAL);
            std::mem::swap(packet, &mut last);
            last.recycle(context.cache);
            if is_esp && let Arrival::Esp(_) = esp::arrival(context.root, packet) {
                return give_to_owner(context, packet, place);
            }
            if is_esp && take_esp(context, packet, place) {
                return;
            }
            if is_esp && let Err(reason) = spd_after_all(context, packet) {
                return context.next.refuse(packet, place, reason);
            }
            if is_tunnel && take_tunnel(context, packet, place) {
                return;
            }
            let served = serve(context, packet);
            if served == Err(Reason::LocalUnhandled) && device(context, packet) != NONE {
                give_to_host(context, pieces, packet, place, identification, longest);
            } else {
                conclude(context, packet, place, served);
            }
        }
        Err(reason) => context.next.refuse(packet, place, reason),
    }
}

/// Sends a packet of ESP whose fragments came to the worker of their addresses to the worker that has the window. It keeps its place
/// among the packets of ESP that came whole: numbers behind it may not close the window to it.
fn give_to_owner(context: &mut Context<'_>, packet: &mut Packet, place: u8) {
    let owner = esp::owner_hash(context.root, packet, context.seed).map(|hash| handover::owner(context, hash));
    if owner.is_none_or(|owner| owner == context.worker) {
        return context.next.push(Node::EspDecrypt, place);
    }
    packet.set_resume(Stage::Decrypt as u8);
    context.next.push(Node::Handover, place);
}

/// Fragments of a protocol are parts of packets of tunnels, perhaps.
fn is_of_tunnel(context: &Context<'_>, number: u8) -> bool {
    let tunnels = &context.root.tunnels;
    match number {
        protocol::UDP => !tunnels.ports.is_empty(),
        _ => tunnels.is_active() && Carrier::of_protocol(number).is_some(),
    }
}

/// Matches a datagram for a port of ESP against the SPD if it is not ESP: its fragments passed beside the SPD.
fn spd_after_all(context: &mut Context<'_>, packet: &Packet) -> Result<(), Reason> {
    let port = packet.l4_header::<{ udp::LENGTH }>().map(|header| u16::from_be_bytes([header[2], header[3]]));
    match port.is_some_and(|port| packet.protocol() == protocol::UDP && context.root.ipsec.has_port(port)) {
        true => spd::receive(context, packet),
        false => Ok(()),
    }
}

/// The port of the punt device of the interface that a packet came in by.
fn device(context: &Context<'_>, packet: &Packet) -> u32 {
    context.root.interfaces.get(packet.interface() as usize).map_or(NONE, |interface| interface.punt)
}

/// Adds a fragment to its datagram, which comes out when it is whole.
fn add(context: &mut Context<'_>, packet: &Packet, piece: &Piece) -> Result<Option<Whole>, Reason> {
    if !context.reassembly.knows(piece) {
        let Begun { evicted } = context.reassembly.begin(piece, packet, context.cache, context.now)?;
        context.counters.created.add(1);
        context.counters.begun.add(1);
        if let Some(evicted) = evicted {
            end(context, evicted);
        }
    }
    match context.reassembly.add(piece, packet.l3(), context.cache)? {
        Taken::Kept => Ok(None),
        Taken::Whole(whole) => {
            context.counters.ended.add(1);
            Ok(Some(whole))
        }
        Taken::Spoilt(rest) => {
            let reason = Reason::of(rest.reason()).unwrap_or(Reason::ReassemblyOverlap);
            end(context, rest);
            Err(reason)
        }
    }
}

/// Drops a datagram that will not be whole.
fn end(context: &mut Context<'_>, mut packet: Packet) {
    context.counters.ended.add(1);
    let reason = Reason::of(packet.reason()).unwrap_or(Reason::ReassemblyFull);
    discard(context, &packet, reason);
    packet.recycle(context.cache);
}

/// Gives a reassembled datagram to the host in fragments of the size in which it arrived: the punt device has the MTU
/// of its link.
fn give_to_host(
    context: &mut Context<'_>,
    pieces: &mut Vector,
    packet: &mut Packet,
    place: u8,
    identification: u32,
    longest: u16,
) {
    if !context.limits.punt.admit(context.now) {
        return context.next.refuse(packet, place, Reason::PuntLimited);
    }
    let fragments = if packet.flags().contains(ParseFlags::IP4) {
        Fragmenter::new(packet.l3(), longest.into()).map(Fragments::V4)
    } else {
        SourceFragmenter::new(packet.l3(), longest.into(), identification).map(Fragments::V6)
    };
    let outcome = match fragments {
        Ok(fragments) => gather(context, pieces, packet, fragments),
        Err(_) => Err(Reason::FragmentFailed),
    };
    punt::send_copies(context, pieces);
    match outcome {
        Ok(()) => {
            context.counters.absorbed.add(1);
            context.record(packet, Fate::Local);
        }
        Err(reason) => context.next.refuse(packet, place, reason),
    }
}

/// Makes the fragments of a packet, and gives them to the host whenever there is no room for more.
fn gather(
    context: &mut Context<'_>,
    pieces: &mut Vector,
    packet: &Packet,
    mut fragments: Fragments<'_>,
) -> Result<(), Reason> {
    while let Some(mut piece) = fragments.piece(context.cache)? {
        piece.inherit(packet);
        if pieces.room() == 0 {
            punt::send_copies(context, pieces);
        }
        context.counters.created.add(1);
        // There is room now.
        let _ = pieces.push(piece);
    }
    Ok(())
}
