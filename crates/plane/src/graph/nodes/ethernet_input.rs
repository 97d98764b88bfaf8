//! `ethernet-input`: finds the interface of each frame, parses it once, and refuses what can not be forwarded.
//!
//! Ethernet, tags and the IP checks of RFC 1812, 5.2.2 and RFC 8200 are one node: a packet's first line comes into the
//! cache here, and everything that needs it is done while it is there.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_packet::offload::{Checksum, Gso};
use weir_packet::packet::Packet;
use weir_packet::parse::{self, L2, ParseFlags, Parsed, martian};
use weir_packet::vector::{Frame, Vector};
use weir_packet::wire::ethernet::ethertype;
use weir_packet::wire::{ethernet, icmpv6, ipv4, ipv6, protocol, vlan};

use super::options::{Refusal, check_options};
use super::sav::{self, Admission, Ip};
use super::stage::{self, Stage};
use super::{Context, Next, acl, allow, mac_ip, nd_input};
use crate::graph::record::Fate;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::sav::{class_v4, class_v6};
use crate::root::{Interface, NONE, Root};

/// How far ahead frames are asked for.
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
    /// The vector has packets that are to be segmented, so that each of its packets is looked at closely. To ask only those
    /// would cost half a tick for every packet of every vector.
    closely: bool,
}

impl Own {
    const NONE: Own = Own { port: NONE, number: NONE, mac: 0, packets: 0, bytes: 0, closely: false };

    /// Counts what came on the interface so far, and looks another port's up.
    #[cold]
    fn change(&mut self, root: &Root, worker: usize, port: u32) {
        if let Some(interface) = root.interfaces.get(self.number as usize) {
            interface.counters[worker].rx.add(self.packets, self.bytes);
        }
        let number = root.ports.get(port as usize).map_or(NONE, |port| port.untagged);
        let usual = |interface: &&Interface| !self.closely && takes_ip(interface);
        let mac = root.interfaces.get(number as usize).filter(usual).map(|interface| interface.mac);
        // No frame's address is this, as with an interface that is not there: the usual case never applies.
        let mac = mac.map_or(u64::MAX, |[a, b, c, d, e, f]| u64::from_be_bytes([0, 0, a, b, c, d, e, f]));
        *self = Own { port, number, mac, packets: 0, bytes: 0, ..*self };
    }
}

/// Takes packets whose interface field holds the number of their *port*.
pub(super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Frame) {
    let root = context.root;
    let (mut v4, mut v6) = (Frame::new(), Frame::new());
    let mut own = Own { closely: vector.has_segments(), ..Own::NONE };
    let places = frame.places();
    for (index, &place) in places.iter().enumerate() {
        if let Some(&ahead) = places.get(index + AHEAD) {
            vector[ahead].prefetch();
        }
        let packet = &mut vector[place];
        if packet.interface() != own.port {
            own.change(root, context.worker, packet.interface());
        }
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
            None => any(context, packet),
        };
        match admitted {
            Ok(Way::V4) => v4.push(place),
            Ok(Way::V6) => v6.push(place),
            Ok(Way::Validated) => pass(context, packet, place),
            Ok(Way::To(node)) => divert(context.next, node, place),
            Err(refusal) => refuse(context, packet, place, refusal),
        }
    }
    own.change(root, context.worker, NONE);
    let (ip4, ip6) = match context.peers.len() {
        0 | 1 => (stage::node(root, Stage::Sav, true), stage::node(root, Stage::Sav, false)),
        _ => (Node::Handover, Node::Handover),
    };
    context.next.extend(ip4, &v4);
    context.next.extend(ip6, &v6);
}

/// What the rest of the node needs of the link layer.
#[derive(Clone, Copy)]
struct Link {
    ethertype: u16,
    l3: u16,
    flags: ParseFlags,
}

/// The ethertype of a frame without tags that is sent to this address: told by comparing, without taking anything apart.
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
        interface.counters[worker].rx.add(1, packet.len() as u64);
    }
    let (_, l2) = found?;
    admit_ethertype(context, packet, l2.ethertype)?;
    let own = root.interfaces.get(number as usize).is_some_and(|interface| interface.mac == l2.destination.0);
    if !own && !l2.flags.intersects(ParseFlags::L2_GROUP) {
        return Err(Reason::NotOurMac.into());
    }
    admit(context, packet, Link { ethertype: l2.ethertype, l3: l2.l3, flags: l2.flags })
}

/// The interface lets packets of both families in, whatever else it says of ethertypes.
fn takes_ip(interface: &Interface) -> bool {
    let both = |list: &[u16]| list.contains(&ethertype::IPV4) && list.contains(&ethertype::IPV6);
    interface.ethertypes_in.as_deref().is_none_or(both)
}

/// Refuses a frame of whose ethertype its interface lets none in.
#[cold]
fn admit_ethertype(context: &mut Context<'_>, packet: &Packet, ethertype: u16) -> Result<(), Reason> {
    let Some(interface) = ingress(context.root, packet) else { return Ok(()) };
    if interface.ethertypes_in.as_deref().is_none_or(|list| list.contains(&ethertype)) {
        return Ok(());
    }
    interface.counters[context.worker].ethertypes.0.add(1);
    context.record(packet, Fate::Unlisted { interface: packet.interface(), output: false });
    Err(Reason::AclEthertype)
}

fn interface_of(root: &Root, packet: &Packet) -> Result<(u32, L2), Reason> {
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
    let number = number.ok_or(Reason::UnknownVlan)?;
    if (number as usize) < root.interfaces.len() { Ok((number, l2)) } else { Err(Reason::InterfaceGone) }
}

/// Where an admitted packet goes.
enum Way {
    V4,
    V6,
    /// As these two, but nothing more is asked about its source.
    Validated,
    /// Past the lookup: what concerns the link that it came by.
    To(Node),
}

#[cold]
fn divert(next: &mut Next, node: Node, place: u8) {
    next.push(node, place);
}

#[cold]
fn pass(context: &mut Context<'_>, packet: &mut Packet, place: u8) {
    Stage::Bindings.resumes(packet);
    let node = if context.peers.len() > 1 { Node::Handover } else { stage::entry(context.root, packet) };
    context.next.push(node, place);
}

#[cold]
fn refuse(context: &mut Context<'_>, packet: &mut Packet, place: u8, refusal: Refusal) {
    match refusal {
        Refusal::Silent(reason) => context.next.refuse(packet, place, reason),
        Refusal::Aloud(reason) => context.next.refuse_aloud(packet, place, reason),
        Refusal::Redirect => sav::redirect(context, packet, place),
    }
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
    settle(packet, &parsed);
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
    settle(packet, &parsed);
    true
}

#[inline(never)]
fn admit(context: &mut Context<'_>, packet: &mut Packet, l2: Link) -> Result<Way, Refusal> {
    let l3 = usize::from(l2.l3);
    match l2.ethertype {
        ethertype::IPV4 => {
            let mut parsed = parse::ipv4(packet.data(), l3).map_err(Reason::from)?;
            parsed.flags |= l2.flags;
            settle(packet, &parsed);
            check_offload(packet)?;
            admit_v4(context, packet, &parsed)
        }
        ethertype::IPV6 => {
            let mut parsed = match parse::ipv6(packet.data(), l3) {
                Ok(parsed) => parsed,
                Err(malformed) => {
                    let flags = ParseFlags::IP6 | l2.flags;
                    packet.set_parsed(&Parsed { l3: l2.l3, flags, ..Parsed::default() });
                    let reason = Reason::from(malformed);
                    return Err(match malformed.parameter_problem() {
                        Some(_) => aloud_v6(context, packet, reason),
                        None => Refusal::Silent(reason),
                    });
                }
            };
            parsed.flags |= l2.flags;
            settle(packet, &parsed);
            check_offload(packet)?;
            admit_v6(context, packet, &parsed)
        }
        other => {
            admit_ethertype(context, packet, other)?;
            if other != ethertype::ARP {
                return Err(Reason::UnhandledEthertype.into());
            }
            packet.set_parsed(&Parsed { l3: l2.l3, flags: l2.flags, ..Parsed::default() });
            Ok(Way::To(Node::ArpInput))
        }
    }
}

/// A packet that is to be segmented is what its state says. One inside of a tunnel comes with the state of what is inside
/// (the kernel says the same of both, whether the tunnel is UDP, GRE or IP): whoever cuts it later would cut the tunnel's
/// own packet, and its segments are not as long as they seem. Nobody is told, for nobody could send anything else.
#[inline]
fn check_offload(packet: &Packet) -> Result<(), Reason> {
    if !packet.is_to_be_segmented() || is_as_its_state_says(packet) { Ok(()) } else { Err(Reason::OffloadMismatch) }
}

#[cold]
fn is_as_its_state_says(packet: &Packet) -> bool {
    let (offload, flags) = (packet.offload(), packet.flags());
    let partial = offload.checksum == Checksum::Partial;
    let starts_here = usize::from(offload.start) == packet.l4_offset();
    let fits = match (offload.gso, packet.protocol()) {
        // What a card has put together it has summed up, too, and then nothing says where it starts.
        (Gso::Tcp4, protocol::TCP) => flags.contains(ParseFlags::IP4) && (starts_here || !partial),
        (Gso::Tcp6, protocol::TCP) => flags.contains(ParseFlags::IP6) && (starts_here || !partial),
        (Gso::Udp, protocol::UDP) => starts_here && partial,
        _ => false,
    };
    fits && flags.contains(ParseFlags::L4_HEADER)
}

/// Notes what was parsed and cuts padding off.
#[inline(always)]
fn settle(packet: &mut Packet, parsed: &Parsed) {
    packet.set_parsed(parsed);
    packet.truncate(usize::from(parsed.l3) + parsed.l3_length as usize);
}

/// First octets of IPv4 addresses some of which no packet to be forwarded comes from or goes to: a first look that the
/// usual packet passes at once.
const SPECIAL_V4: [bool; 256] = {
    let mut special = [false; 256];
    special[0] = true;
    special[127] = true;
    special[169] = true; // 169.254.0.0/16 is link-local
    let mut first = 224;
    while first < 256 {
        special[first] = true;
        first += 1;
    }
    special
};

#[inline(always)]
fn admit_v4(context: &mut Context<'_>, packet: &Packet, parsed: &Parsed) -> Result<Way, Refusal> {
    let Some(header) = packet.l3_header::<{ ipv4::LENGTH }>() else {
        return Err(Reason::TruncatedIpv4.into());
    };
    let special = SPECIAL_V4[usize::from(header[ipv4::SOURCE])] | SPECIAL_V4[usize::from(header[ipv4::DESTINATION])];
    if special | parsed.flags.intersects(ParseFlags::L2_GROUP | ParseFlags::OPTIONS) {
        return admit_special_v4(context, packet, header, parsed);
    }
    Ok(Way::V4)
}

/// The interface that a packet came in by.
fn ingress<'a>(root: &'a Root, packet: &Packet) -> Option<&'a Interface> {
    root.interfaces.get(packet.interface() as usize)
}

/// The packet is for the host, if it is there on this link.
fn for_host(root: &Root, packet: &Packet) -> bool {
    ingress(root, packet).is_some_and(|interface| interface.punt != NONE)
}

#[cold]
fn admit_special_v4(
    context: &mut Context<'_>,
    packet: &Packet,
    header: &[u8; ipv4::LENGTH],
    parsed: &Parsed,
) -> Result<Way, Refusal> {
    let [_, _, _, _, _, _, _, _, _, _, _, _, s0, s1, s2, s3, d0, d1, d2, d3] = *header;
    let (source, destination) = (Ipv4Addr::new(s0, s1, s2, s3), Ipv4Addr::new(d0, d1, d2, d3));
    let link_scope = martian::is_link_scope_v4(destination);
    let class = class_v4(source, destination);
    let admission = sav::admission::<sav::V4>(context, packet, class);
    // A source of which nothing was said, or that it is as any other, is left to the mechanism.
    let open = class.is_none() || admission == Admission::Check;
    match admission {
        Admission::Refuse(reason) => return Err(reason.into()),
        Admission::Redirect => return Err(Refusal::Redirect),
        _ => {}
    }
    let root = context.root;
    let martian = !admission.opens() && martian::is_refused_v4(source, destination);
    if link_scope && !martian && for_host(root, packet) {
        return to_host::<sav::V4>(context, packet, open, source.is_unspecified());
    }
    if martian {
        Err(Reason::MartianSource.into())
    } else if destination.is_broadcast() {
        Err(Reason::Broadcast.into())
    } else if destination.is_multicast() {
        Err(Reason::Multicast.into())
    } else if martian::destination_v4(destination) {
        Err(Reason::MartianDestination.into())
    } else if parsed.flags.intersects(ParseFlags::L2_GROUP) {
        Err(Reason::LinkLayerBroadcast.into())
    } else if (source.is_link_local() || destination.is_link_local())
        && !ingress(root, packet).is_some_and(|interface| interface.has(destination.into()))
    {
        // RFC 3927, 2.7: never forwarded; what is for us is not forwarded.
        Err(Reason::LinkLocal.into())
    } else {
        let way = if admission.is_final() { Way::Validated } else { Way::V4 };
        match check_options(packet.l3()) {
            // Who may not have sent it is not told: it is forged for the answer's sake, perhaps.
            Err(Refusal::Aloud(reason)) if !admission.is_final() => {
                Err(sav::one::<sav::V4>(context, packet).map_or(Refusal::Aloud(reason), Refusal::from))
            }
            checked => checked.map(|()| way),
        }
    }
}

/// As for options of IPv4: a malformed packet's source is told if it is valid.
#[cold]
fn aloud_v6(context: &mut Context<'_>, packet: &Packet, reason: Reason) -> Refusal {
    let Some(header) = packet.l3_header::<{ ipv6::LENGTH }>() else { return reason.into() };
    let (source, destination) = addresses_v6(header);
    let refused = sav::refusal::<sav::V6>(context, packet, class_v6(source, destination));
    refused.map_or(Refusal::Aloud(reason), Refusal::from)
}

fn addresses_v6(header: &[u8; ipv6::LENGTH]) -> (Ipv6Addr, Ipv6Addr) {
    let address = |at: usize| Ipv6Addr::from(header[at..].first_chunk::<16>().copied().unwrap_or([0; 16]));
    (address(ipv6::SOURCE), address(ipv6::DESTINATION))
}

/// Gives the host what stays on the link, unless validation refuses it, where that is `open`, or a list. Who has no
/// address yet is in none.
fn to_host<F: Ip>(context: &mut Context<'_>, packet: &Packet, open: bool, nobody: bool) -> Result<Way, Refusal> {
    let mut refused = if open { sav::one::<F>(context, packet) } else { None };
    if refused.is_none() {
        refused = mac_ip::one::<F>(context, packet);
    }
    if refused.is_none() {
        refused = acl::one_in(context, packet);
    }
    if refused.is_none() && !nobody {
        refused = allow::one::<F>(context, packet);
    }
    refused.map_or(Ok(Way::To(Node::Punt)), |reason| Err(reason.into()))
}

/// As [`SPECIAL_V4`]: ::/8 holds the unspecified and loopback addresses, fe00::/8 the link-local and ff00::/8 the multicast
/// ones.
#[inline(always)]
const fn special_v6(first: u8) -> bool {
    first == 0 || first >= 0xfe
}

#[inline(always)]
fn admit_v6(context: &mut Context<'_>, packet: &Packet, parsed: &Parsed) -> Result<Way, Refusal> {
    let Some(header) = packet.l3_header::<{ ipv6::LENGTH }>() else {
        return Err(Reason::TruncatedIpv6.into());
    };
    if special_v6(header[ipv6::SOURCE])
        | special_v6(header[ipv6::DESTINATION])
        | parsed.flags.intersects(ParseFlags::L2_GROUP)
    {
        return admit_special_v6(context, packet, header, parsed);
    }
    if parsed.protocol == protocol::ICMPV6 && is_discovery(packet, parsed) {
        return admit_special_v6(context, packet, header, parsed);
    }
    Ok(Way::V6)
}

/// The packet is a message of neighbour discovery (RFC 4861, 4).
fn is_discovery(packet: &Packet, parsed: &Parsed) -> bool {
    let kind = parsed.icmp(packet.data()).map(|(kind, _)| kind);
    parsed.protocol == protocol::ICMPV6
        && kind.is_some_and(|kind| (icmpv6::kind::ROUTER_SOLICITATION..=icmpv6::kind::REDIRECT).contains(&kind))
}

#[cold]
fn admit_special_v6(
    context: &mut Context<'_>,
    packet: &Packet,
    header: &[u8; ipv6::LENGTH],
    parsed: &Parsed,
) -> Result<Way, Refusal> {
    let (source, destination) = addresses_v6(header);
    let link_scope = martian::is_link_scope_v6(destination);
    let root = context.root;
    if is_discovery(packet, parsed) {
        // Before the source is looked at: who has no address yet asks from the unspecified one.
        if ingress(root, packet).is_some_and(|interface| nd_input::listens(interface, destination)) {
            return Ok(Way::To(Node::NdInput));
        }
    }
    let class = class_v6(source, destination);
    let admission = sav::admission::<sav::V6>(context, packet, class);
    let open = class.is_none() || admission == Admission::Check;
    match admission {
        Admission::Refuse(reason) => return Err(reason.into()),
        Admission::Redirect => return Err(Refusal::Redirect),
        _ => {}
    }
    let martian = !admission.opens() && martian::is_refused_v6(source, destination);
    if link_scope && !martian && !is_discovery(packet, parsed) && for_host(root, packet) {
        return to_host::<sav::V6>(context, packet, open, source.is_unspecified());
    }
    if martian {
        Err(Reason::MartianSource.into())
    } else if destination.is_multicast() {
        Err(Reason::Multicast.into())
    } else if martian::destination_v6(destination) {
        Err(Reason::MartianDestination.into())
    } else if parsed.flags.intersects(ParseFlags::L2_GROUP) {
        Err(Reason::LinkLayerBroadcast.into())
    } else if admission.is_final() {
        Ok(Way::Validated)
    } else {
        Ok(Way::V6)
    }
}
