//! `arp-input`: answers requests for the gateway's addresses (RFC 826) in the buffer of the request, and reports its
//! observations to the control side. The node keeps no state.

use std::net::{IpAddr, Ipv4Addr};

use weir_packet::packet::Packet;
use weir_packet::parse::{ParseFlags, Parsed, martian};
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::arp::{self, Fields, Operation};
use weir_packet::wire::ethernet::ethertype;

use super::{Answer, Context, link, mac_ip, punt};
use crate::graph::events::{Claim, Event};
use crate::graph::flags::ORIGINATED;
use crate::reason::Reason;
use crate::root::{Interface, NONE, Root};

/// `copies` is empty before and after.
pub(super) fn run(context: &mut Context<'_>, copies: &mut Vector, vector: &mut Vector, frame: &Indices) {
    for &place in frame.places() {
        let answer = receive(context, copies, &mut vector[place]);
        link::conclude(context, vector, place, answer);
    }
    punt::send_copies(context, copies);
}

/// The kind of a packet for the gateway.
#[derive(PartialEq)]
enum Matter {
    /// Nothing.
    Nothing,
    /// The packet is worth a report.
    Tell,
    /// The packet requests one of the gateway's addresses.
    Asked,
    /// It answers us, or announces its address: a copy is for the host.
    Heard,
}

fn receive(context: &mut Context<'_>, copies: &mut Vector, packet: &mut Packet) -> Result<Answer, Reason> {
    let root = context.root;
    let number = packet.interface();
    let interface = root.interfaces.get(number as usize).ok_or(Reason::InterfaceGone)?;
    let fields = Fields::parse(packet.l3()).map_err(|_| Reason::BadArp)?;
    let probe = fields.operation == Operation::Request && fields.sender.is_unspecified();
    // RFC 1812, 3.3.2: no reply is believed that claims a group's address.
    if !fields.sender_mac.is_unicast() || (martian::source_v4(fields.sender) && !probe) {
        return Err(Reason::BadArp);
    }
    let sender = fields.sender.into();
    mac_ip::claims(context, packet, Claim::Used, [(link::station(packet), sender), (fields.sender_mac, sender)])?;
    let matter = matter(interface, &fields);
    if matter == Matter::Nothing {
        return Err(Reason::ArpNotForUs);
    }
    // Before any report: else a flood would fill the ring to the control side.
    let limits = context.limits.link(number);
    let limit = if matter == Matter::Asked { &mut limits.answer } else { &mut limits.hear };
    if !limit.admit(context.now) {
        return Err(Reason::NeighborLimited);
    }
    if matter != Matter::Asked || probe || interface.is_on_link(fields.sender.into()) {
        context.events.tell(Event::Arp { interface: number, packet: fields }, &context.counters.events_lost);
    }
    match matter {
        Matter::Asked => reply(context.root, packet, interface, &fields),
        Matter::Heard if interface.punt != NONE => {
            punt::copy(context, copies, packet);
            Ok(Answer::Noted)
        }
        _ => Ok(Answer::Noted),
    }
}

fn matter(interface: &Interface, fields: &Fields) -> Matter {
    let ours = |address: Ipv4Addr| interface.has(IpAddr::V4(address));
    if fields.sender_mac.0 == interface.mac {
        return Matter::Nothing; // what we said ourselves
    }
    match fields.operation {
        Operation::Request if ours(fields.target) => Matter::Asked,
        Operation::Reply if ours(fields.target) || fields.target_mac.0 == interface.mac => Matter::Heard,
        _ if ours(fields.sender) => Matter::Tell,
        // A station announces its address (RFC 5227, 3).
        _ if fields.sender == fields.target && interface.is_on_link(fields.sender.into()) => Matter::Heard,
        _ => Matter::Nothing,
    }
}

/// Makes the request its own reply.
fn reply(root: &Root, packet: &mut Packet, interface: &Interface, asked: &Fields) -> Result<Answer, Reason> {
    let reply = Fields {
        operation: Operation::Reply,
        sender_mac: weir_packet::wire::MacAddress(interface.mac),
        sender: asked.target,
        target_mac: asked.sender_mac,
        target: asked.sender,
    };
    let room = packet.l3_header_mut::<{ arp::LENGTH }>().ok_or(Reason::BadArp)?;
    *room = reply.emit();
    packet.truncate(packet.l3_offset() + arp::LENGTH);
    packet.set_parsed(&Parsed { l3: packet.l3_offset() as u16, ..Parsed::default() });
    packet.add_state(ORIGINATED);
    debug_assert!(!packet.flags().intersects(ParseFlags::IP4 | ParseFlags::IP6));
    link::address(root, packet, interface.on_link, asked.sender_mac, ethertype::ARP)?;
    Ok(Answer::Reply)
}
