//! Snooping on DHCP: reports messages of clients and servers to the control side, which learns bindings from them, and drops
//! answers of servers that come from elsewhere than trusted interfaces.

use weir_packet::packet::Packet;
use weir_packet::parse;
use weir_packet::wire::dhcp::{self, CLIENT, Message, SERVER};
use weir_packet::wire::ethernet::{self, ethertype};
use weir_packet::wire::{protocol, udp};

use super::Context;
use crate::graph::events::Event;
use crate::reason::Reason;
use crate::root::Interface;

/// Returns whether a packet of IPv4 goes to a port of DHCP.
#[inline(always)]
pub(super) fn is_dhcp(packet: &Packet) -> bool {
    let port = |&[_, _, a, b]: &[u8; 4]| u16::from_be_bytes([a, b]);
    packet.protocol() == protocol::UDP && packet.l4_header().is_some_and(|own| [SERVER, CLIENT].contains(&port(own)))
}

/// Reports a message that came in.
#[cold]
pub(super) fn arrived(context: &mut Context<'_>, packet: &Packet) -> Result<(), Reason> {
    let number = packet.interface();
    let trusted = context.root.interfaces.get(number as usize).is_some_and(|own| own.dhcp_trusted);
    let payload = packet.data().get(packet.l4_offset() + udp::LENGTH..).unwrap_or_default();
    if !trusted && dhcp::is_reply(payload) {
        return Err(Reason::DhcpServer);
    }
    report(context, number, payload, trusted);
    Ok(())
}

/// Reports an answer that the host sends by an interface: a server or a relay of the host is trusted.
#[inline]
pub(super) fn sent(context: &mut Context<'_>, packet: &Packet) {
    let root = context.root;
    let list = |own: &Interface| root.bindings.lists.get(usize::from(own.bindings));
    let interface = root.interfaces.get(packet.interface() as usize);
    if interface.and_then(list).is_some_and(|bound| bound.learns) {
        answered(context, packet);
    }
}

#[cold]
fn answered(context: &mut Context<'_>, packet: &Packet) {
    let frame = packet.data();
    if frame.get(ethernet::ETHERTYPE..ethernet::LENGTH) != Some(&ethertype::IPV4.to_be_bytes()) {
        return;
    }
    let Ok(parsed) = parse::ipv4(frame, ethernet::LENGTH) else { return };
    if parsed.protocol != protocol::UDP || parsed.ports(frame).is_none_or(|(from, _)| from != SERVER) {
        return;
    }
    let payload = frame.get(usize::from(parsed.l4) + udp::LENGTH..).unwrap_or_default();
    report(context, packet.interface(), payload, true);
}

fn report(context: &mut Context<'_>, interface: u32, payload: &[u8], trusted: bool) {
    let Some(message) = Message::parse(payload) else { return };
    // Before any report: else a flood would fill the ring to the control side.
    if !context.limits.link(interface).hear.admit(context.now) {
        context.counters.events_lost.add(1);
        return;
    }
    context.events.tell(Event::Dhcp { interface, message, trusted }, &context.counters.events_lost);
}
