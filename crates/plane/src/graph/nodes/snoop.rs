//! Snooping on DHCP: reports messages of clients and servers to the control side, which learns bindings from them, and drops
//! answers of servers that come from elsewhere than trusted interfaces, and messages in the name of other clients.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_packet::packet::Packet;
use weir_packet::parse::{self, ParseFlags};
use weir_packet::wire::dhcp::{self, CLIENT, Kind, Message, SERVER};
use weir_packet::wire::ethernet::{self, ethertype};
use weir_packet::wire::{MacAddress, dhcpv6, ipv6, protocol, udp};

use super::{Context, link};
use crate::graph::events::{Dhcpv6, Event, Part};
use crate::reason::Reason;
use crate::root::Interface;

/// Leases of a message for IPv6 that are reported, at most.
const MOST_LEASES: usize = 16;

/// Returns whether a packet of its family goes to a port of DHCP.
#[inline(always)]
pub(super) fn is_dhcp(packet: &Packet, v4: bool) -> bool {
    let (server, client) = if v4 { (SERVER, CLIENT) } else { (dhcpv6::SERVER, dhcpv6::CLIENT) };
    let port = |&[_, _, a, b]: &[u8; 4]| u16::from_be_bytes([a, b]);
    // A search in a slice is a call, of 30 instructions.
    let is_one = |port: u16| (port == server) | (port == client);
    packet.protocol() == protocol::UDP && packet.l4_header().is_some_and(|own| is_one(port(own)))
}

/// Returns whether a packet of IPv6 is a first fragment that ends before its transport header: what it is stands in another one
/// (RFC 7610, 5, has those of untrusted ports dropped).
#[inline(always)]
pub(super) fn hides(packet: &Packet) -> bool {
    let flags = packet.flags();
    flags.contains(ParseFlags::FRAGMENT)
        && !flags.intersects(ParseFlags::LATER_FRAGMENT | ParseFlags::L4)
        && (packet.protocol() == protocol::UDP || protocol::is_extension(packet.protocol()))
}

/// The meaning of a message of a client for an address of IPv4.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Says {
    /// Nothing that matters here.
    Nothing,
    /// It requests to keep the address from which it comes: it may pass though nobody knows the lease (any more).
    Keeps,
    /// It gives this address back, which is not the one that it comes from.
    GivesBack(Ipv4Addr),
}

/// Reports a message that came in.
#[cold]
pub(super) fn arrived(context: &mut Context<'_>, packet: &Packet, v4: bool) -> Result<Says, Reason> {
    let number = packet.interface();
    let trusted = context.root.interfaces.get(number as usize).is_some_and(|own| own.dhcp_trusted);
    if !v4 && hides(packet) {
        return if trusted { Ok(Says::Nothing) } else { Err(Reason::DhcpServer) };
    }
    let payload = packet.data().get(packet.l4_offset() + udp::LENGTH..).unwrap_or_default();
    let is_reply = if v4 { dhcp::is_reply(payload) } else { dhcpv6::is_reply(payload) };
    // A first fragment that ends behind the ports hides what it is.
    let is_hidden = payload.is_empty() && packet.flags().intersects(ParseFlags::FRAGMENT);
    if !trusted && (is_reply || is_hidden) {
        return Err(Reason::DhcpServer);
    }
    if v4 {
        let Some(message) = Message::parse(payload) else { return Ok(Says::Nothing) };
        if trusted {
            report(context, number, &message, true);
            return Ok(Says::Nothing);
        }
        return client(context, packet, &message);
    }
    if let Some(addresses) = addresses(packet.l3()) {
        report_v6(context, (number, link::station(packet)), addresses, payload, trusted);
    }
    Ok(Says::Nothing)
}

/// Reports a message of a client that came in. The client is the station that sent the frame.
fn client(context: &mut Context<'_>, packet: &Packet, message: &Message) -> Result<Says, Reason> {
    // The answer goes to the relay agent, whose frames bring the packets of its clients: nothing is learned of them.
    if !message.relay.is_unspecified() {
        return Ok(Says::Nothing);
    }
    if message.client != link::station(packet) {
        return Err(Reason::MacIp);
    }
    let source = packet.l3().get(12..16).and_then(|source| source.try_into().ok()).map(<[u8; 4]>::into);
    let source: Ipv4Addr = source.unwrap_or(Ipv4Addr::UNSPECIFIED);
    let is_heard = report(context, packet.interface(), message, false);
    let is_own = message.kind == Kind::REQUEST && message.own == source && !source.is_unspecified();
    let to_server = packet.l4_header().is_some_and(|&[_, _, a, b]: &[u8; 4]| u16::from_be_bytes([a, b]) == SERVER);
    Ok(match message.kind {
        Kind::RELEASE if message.own != source => Says::GivesBack(message.own),
        Kind::DECLINE => Says::GivesBack(message.requested.unwrap_or(message.own)),
        _ if is_heard && is_own && to_server => Says::Keeps,
        _ => Says::Nothing,
    })
}

/// Reports an answer that the host sends by an interface: a server or a relay of the host is trusted.
#[inline]
pub(super) fn sent(context: &mut Context<'_>, packet: &Packet) {
    let root = context.root;
    let list = |own: &Interface| root.bindings.lists.get(usize::from(own.bindings));
    let interface = root.interfaces.get(packet.interface() as usize);
    if interface.and_then(list).is_some_and(|bound| bound.learns & bound.snoops) {
        answered(context, packet);
    }
}

#[cold]
fn answered(context: &mut Context<'_>, packet: &Packet) {
    let frame = packet.data();
    let kind = frame.get(ethernet::ETHERTYPE..ethernet::LENGTH).unwrap_or_default();
    let (parsed, v4) = if kind == ethertype::IPV4.to_be_bytes() {
        (parse::ipv4(frame, ethernet::LENGTH), true)
    } else if kind == ethertype::IPV6.to_be_bytes() {
        (parse::ipv6(frame, ethernet::LENGTH), false)
    } else {
        return;
    };
    let Ok(parsed) = parsed else { return };
    let server = if v4 { SERVER } else { dhcpv6::SERVER };
    if parsed.protocol != protocol::UDP || parsed.ports(frame).is_none_or(|(from, _)| from != server) {
        return;
    }
    let payload = frame.get(usize::from(parsed.l4) + udp::LENGTH..).unwrap_or_default();
    if v4 {
        if let Some(message) = Message::parse(payload) {
            report(context, packet.interface(), &message, true);
        }
    } else if let Some(addresses) = frame.get(ethernet::LENGTH..).and_then(addresses) {
        // The answer is about the station that sent the request.
        report_v6(context, (packet.interface(), MacAddress::ZERO), addresses, payload, true);
    }
}

/// The source and destination of a packet of IPv6.
fn addresses(packet: &[u8]) -> Option<(Ipv6Addr, Ipv6Addr)> {
    let header = packet.first_chunk::<{ ipv6::LENGTH }>()?;
    let header = ipv6::Header::new(header).ok()?;
    Some((header.source(), header.destination()))
}

/// Reports a message, if the limit of its interface lets it.
fn report(context: &mut Context<'_>, interface: u32, message: &Message, trusted: bool) -> bool {
    let may = may_report(context, interface);
    if may {
        let event = Event::Dhcp { interface, message: *message, trusted };
        context.events.tell(event, &context.counters.events_lost);
    }
    may
}

/// Reports a message for IPv6 in parts: its leases, and the rest.
fn report_v6(
    context: &mut Context<'_>,
    (interface, mac): (u32, MacAddress),
    (source, destination): (Ipv6Addr, Ipv6Addr),
    payload: &[u8],
    trusted: bool,
) {
    let Some(message) = dhcpv6::Message::parse(payload) else { return };
    let is_reply = dhcpv6::is_reply(payload);
    if (is_reply && !trusted) || !may_report(context, interface) {
        return;
    }
    let head = Dhcpv6 {
        interface,
        mac,
        kind: message.kind,
        transaction: message.transaction,
        client: message.peer.unwrap_or(if is_reply { destination } else { source }),
        rapid: message.rapid,
        success: message.success,
        trusted,
        part: Part::Head,
    };
    let lost = &context.counters.events_lost;
    if !is_reply {
        context.events.tell(Event::Dhcpv6(head), lost);
    }
    let mut left = MOST_LEASES;
    message.each_lease(|lease| {
        if left > 0 {
            left -= 1;
            context.events.tell(Event::Dhcpv6(Dhcpv6 { part: Part::Lease(lease), ..head }), lost);
        }
    });
    if is_reply {
        context.events.tell(Event::Dhcpv6(head), lost);
    }
}

/// Before any report: else a flood would fill the ring to the control side.
fn may_report(context: &mut Context<'_>, interface: u32) -> bool {
    let may = context.limits.link(interface).hear.admit(context.now);
    if !may {
        context.counters.events_lost.add(1);
    }
    may
}
