//! `nd-input`: answers neighbour solicitations for the gateway's addresses (RFC 4861, 7.2.4) in the buffer of the
//! solicitation, and reports its observations to the control side. The node keeps no state.

use std::net::{IpAddr, Ipv6Addr};

use weir_packet::offload::{Checksum, Offload};
use weir_packet::packet::Packet;
use weir_packet::parse::{ParseFlags, Parsed};
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::ethernet::{self, ethertype};
use weir_packet::wire::nd::{self, Fields, Message};
use weir_packet::wire::{MacAddress, icmpv6, ipv6, protocol};

use super::{Answer, Context, link, mac_ip, punt, savi};
use crate::graph::events::{Claim, Event};
use crate::graph::flags::{DECRYPTED, ORIGINATED};
use crate::reason::Reason;
use crate::root::{Interface, NONE, Root};

/// Whether this interface listens to messages for a destination: its own addresses and their groups, all nodes and all
/// routers.
pub(super) fn listens(interface: &Interface, destination: Ipv6Addr) -> bool {
    if !destination.is_multicast() {
        return interface.has(IpAddr::V6(destination)) || interface.is_anycast(destination);
    }
    destination == nd::ALL_NODES
        || destination == nd::ALL_ROUTERS
        || interface.addresses.iter().chain(interface.tentative.iter()).any(|own| match own.net {
            ipnet::IpNet::V6(net) => {
                nd::solicited_node(net.addr()) == destination
                    || (interface.is_anycast(net.network()) && nd::solicited_node(net.network()) == destination)
            }
            ipnet::IpNet::V4(_) => false,
        })
}

/// `copies` is empty before and after.
pub(super) fn run(context: &mut Context<'_>, copies: &mut Vector, vector: &mut Vector, frame: &Indices) {
    for &place in frame.places() {
        let answer = receive(context, copies, &mut vector[place]);
        link::conclude(context, vector, place, answer);
    }
    punt::send_copies(context, copies);
}

fn receive(context: &mut Context<'_>, copies: &mut Vector, packet: &mut Packet) -> Result<Answer, Reason> {
    let root = context.root;
    let number = packet.interface();
    let interface = root.interfaces.get(number as usize).ok_or(Reason::InterfaceGone)?;
    // RFC 6980, 5: none of these is ever fragmented. And a message out of a tunnel without links is not from a link, whatever its hop limit
    // is (RFC 4861, 3.1 and 11.2).
    let is_linkless = root.tunnels.of(number).is_some_and(|tunnel| !tunnel.wanted.carrier.is_ethernet());
    if packet.flags().intersects(ParseFlags::FRAGMENT) || packet.state().contains(DECRYPTED) || is_linkless {
        return Err(Reason::BadNd);
    }
    let header = *packet.l3_header::<{ ipv6::LENGTH }>().ok_or(Reason::BadNd)?;
    let header = ipv6::Header::new(&header).map_err(|_| Reason::BadNd)?;
    let (source, destination) = (header.source(), header.destination());
    let parsed = packet.parsed();
    let bytes = parsed.transport(packet.data());
    if bytes.first() == Some(&icmpv6::kind::REDIRECT) {
        return Err(Reason::Redirect);
    }
    let read = if packet.offload().checksum == Checksum::Unknown { Message::parse } else { Message::parse_trusted };
    let message = read(source, destination, header.hop_limit(), bytes).map_err(|_| Reason::BadNd)?;
    let fields = message.fields();
    check_bindings(context, packet, source, &message)?;
    let event = Event::Nd { interface: number, source, packet: fields };
    match fields {
        Fields::RouterAdvertisement(_) if interface.punt != NONE => Ok(Answer::Punt),
        Fields::RouterAdvertisement(_) => Err(Reason::RouterAdvertisement),
        Fields::RouterSolicitation { .. } | Fields::NeighborAdvertisement { .. } => {
            hear(context, number)?;
            context.events.tell(event, &context.counters.events_lost);
            if interface.punt != NONE {
                punt::copy(context, copies, packet);
            }
            Ok(Answer::Noted)
        }
        Fields::NeighborSolicitation { target, source_mac } => {
            let own = interface.has(IpAddr::V6(target));
            if !own && interface.is_tentative(target) {
                // An address is not answered for before it is the gateway's (RFC 4862, 5.4.3).
                hear(context, number)?;
                context.events.tell(event, &context.counters.events_lost);
                return Ok(Answer::Noted);
            }
            if !own && !interface.is_anycast(target) {
                return Err(Reason::NdNotForUs);
            }
            // Before any report: else a flood would fill the ring to the control side.
            if !context.limits.link(number).answer.admit(context.now) {
                return Err(Reason::NeighborLimited);
            }
            let on_link = source.is_unicast_link_local() || interface.is_on_link(IpAddr::V6(source));
            if source.is_unspecified() || on_link {
                context.events.tell(event, &context.counters.events_lost);
            }
            let asker = Asker { source, mac: source_mac };
            advertise(context.root, packet, interface, target, own, asker)
        }
    }
}

/// Holds a frame of a bridge to the bindings of its port, if it is a message of neighbour discovery.
pub(super) fn check_claims(context: &mut Context<'_>, packet: &mut Packet) -> Result<(), Reason> {
    let parsed = packet.parsed();
    let bytes = parsed.transport(packet.data());
    let is_message = |kind: &u8| (icmpv6::kind::ROUTER_SOLICITATION..=icmpv6::kind::REDIRECT).contains(kind);
    if parsed.protocol != protocol::ICMPV6 || !bytes.first().is_some_and(is_message) {
        return Ok(());
    }
    // Hosts ignore redirects of others than their router, and fragments (RFC 6980, 5).
    if packet.flags().intersects(ParseFlags::FRAGMENT) {
        return Err(Reason::BadNd);
    }
    if bytes.first() == Some(&icmpv6::kind::REDIRECT) {
        return Ok(());
    }
    let header = *packet.l3_header::<{ ipv6::LENGTH }>().ok_or(Reason::BadNd)?;
    let header = ipv6::Header::new(&header).map_err(|_| Reason::BadNd)?;
    let (source, destination) = (header.source(), header.destination());
    let read = if packet.offload().checksum == Checksum::Unknown { Message::parse } else { Message::parse_trusted };
    let message = read(source, destination, header.hop_limit(), bytes).map_err(|_| Reason::BadNd)?;
    check_bindings(context, packet, source, &message)
}

/// Reports a message for others on a link that is routed, if it claims an address.
#[cold]
pub(super) fn overhear(context: &mut Context<'_>, packet: &Packet, source: Ipv6Addr, destination: Ipv6Addr) {
    let bytes = packet.parsed().transport(packet.data());
    let Some(header) = packet.l3_header::<{ ipv6::LENGTH }>().copied() else { return };
    let hop_limit = ipv6::Header::new(&header).map_or(0, |header| header.hop_limit());
    if !packet.flags().intersects(ParseFlags::FRAGMENT)
        && let Ok(message) = Message::parse(source, destination, hop_limit, bytes)
    {
        savi::discovered(context, packet, source, &message.fields());
    }
}

/// A station may use its source only where the bindings of the interface say so, and say of an address only what they say.
fn check_bindings(
    context: &mut Context<'_>,
    packet: &Packet,
    source: Ipv6Addr,
    message: &Message<'_>,
) -> Result<(), Reason> {
    let fields = message.fields();
    let said = match fields {
        Fields::NeighborSolicitation { source_mac, .. } | Fields::RouterSolicitation { source_mac } => {
            source_mac.map(|mac| (mac, source))
        }
        // Without the option it is the station that has the address.
        Fields::NeighborAdvertisement { target, target_mac, .. } => {
            Some((target_mac.unwrap_or_else(|| link::station(packet)), target))
        }
        Fields::RouterAdvertisement(_) => {
            savi::advertised(context, packet, message);
            None
        }
    };
    savi::discovered(context, packet, source, &fields);
    let is_advertisement = matches!(fields, Fields::NeighborAdvertisement { .. });
    let how = if is_advertisement { Claim::Advertised } else { Claim::Used };
    let claims = [Some((link::station(packet), source)), said];
    mac_ip::claims(context, packet, how, claims.into_iter().flatten().map(|(mac, address)| (mac, address.into())))
}

/// Checks whether the link may report something unsolicited.
fn hear(context: &mut Context<'_>, interface: u32) -> Result<(), Reason> {
    let may = context.limits.link(interface).hear.admit(context.now);
    may.then_some(()).ok_or(Reason::NeighborLimited)
}

struct Asker {
    source: Ipv6Addr,
    mac: Option<MacAddress>,
}

/// Makes the solicitation the advertisement that answers it.
fn advertise(
    root: &Root,
    packet: &mut Packet,
    interface: &Interface,
    target: Ipv6Addr,
    own: bool,
    asker: Asker,
) -> Result<Answer, Reason> {
    // A host without an address is answered by multicast.
    let (destination, mac) = if asker.source.is_unspecified() {
        (nd::ALL_NODES, MacAddress::of_ipv6_multicast(nd::ALL_NODES))
    } else {
        // A unicast solicitation need not contain the hardware address; the frame has it.
        let sender = ethernet::Header::new(packet.data()).map_err(|_| Reason::BadNd)?.source();
        (asker.source, asker.mac.unwrap_or(sender))
    };
    let message = Fields::NeighborAdvertisement {
        target,
        router: true,
        solicited: !asker.source.is_unspecified(),
        // All routers of a prefix answer for its anycast address (RFC 4861, 7.2.7).
        overrides: own,
        target_mac: Some(MacAddress(interface.mac)),
    };
    let message = message.emit(target, destination);
    let header = ipv6::Fields {
        traffic_class: 0,
        flow_label: 0,
        payload_length: message.len() as u16,
        next_header: protocol::ICMPV6,
        hop_limit: nd::HOP_LIMIT,
        source: target,
        destination,
    };
    let l3 = packet.l3_offset();
    packet.set_len(l3 + ipv6::LENGTH + message.len()).map_err(|_| Reason::NoBuffer)?;
    let (head, body) = packet.l3_mut().split_at_mut_checked(ipv6::LENGTH).ok_or(Reason::BadNd)?;
    head.copy_from_slice(&header.emit());
    body.copy_from_slice(&message);
    packet.set_offload(Offload::default());
    let flags = ParseFlags::IP6 | ParseFlags::L4 | ParseFlags::L4_HEADER;
    let l4 = (l3 + ipv6::LENGTH) as u16;
    let l3_length = (ipv6::LENGTH + message.len()) as u32;
    packet.set_parsed(&Parsed { l3: l3 as u16, l4, protocol: protocol::ICMPV6, flags, l3_length });
    packet.add_state(ORIGINATED);
    link::address(root, packet, interface.on_link, mac, ethertype::IPV6)?;
    Ok(Answer::Reply)
}
