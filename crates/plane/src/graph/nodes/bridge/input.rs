//! `bridge-input`: checks frames of bridges. Frames of ports with lists pass these as packets that are routed do, before the bridge
//! learns anything from them.

use weir_packet::packet::Packet;
use weir_packet::parse::{self, ParseFlags, Parsed};
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_packet::wire::arp;
use weir_packet::wire::ethernet::{self, ethertype};
use weir_packet::wire::{ipv4, ipv6, vlan};

use super::super::stage::{self, Stage};
use super::super::{Context, ethernet_input, link, mac_ip, merging, nd_input, sav};
use super::frame::{is_group, stations};
use super::tags;
use crate::graph::events::Claim;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::bridge::Bridge;
use crate::root::sav::{class_v4, class_v6};
use crate::root::{Interface, NONE, Root, bindings};

/// Groups of stations on one link, whose frames a bridge does not forward: 01:80:c2:00:00:00 to 0f (IEEE 802.1Q, 8.6.3).
const LINK_GROUPS: u64 = 0x0180_c200_0000;

#[inline(never)]
pub(in super::super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    if vector.has_segments() && merging::may_cut(context.root) {
        return cut(context, vector, frame);
    }
    let mut rest = Indices::new();
    let mut own = Own::new(context.root);
    for &place in frame.places() {
        let packet = &mut vector[place];
        if packet.interface() != own.number {
            own.look_up(packet.interface());
        }
        match check(context, &own, packet) {
            Ok(Node::BridgeForward) => rest.push(place),
            Ok(node) => context.next.push(node, place),
            Err(reason) => context.next.refuse(&mut vector[place], place, reason),
        }
    }
    context.next.extend(Node::BridgeForward, &rest);
}

/// The same where lists and tables of some port may match some segments of a super-packet, and others not: it is cut
/// before. What goes to another worker is cut there.
#[cold]
#[inline(never)]
fn cut(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let mut passed = Indices::new();
    let mut nodes = [Node::BridgeForward; VECTOR];
    let mut own = Own::new(context.root);
    for &place in frame.places() {
        let packet = &mut vector[place];
        if packet.interface() != own.number {
            own.look_up(packet.interface());
        }
        match check(context, &own, packet) {
            Ok(Node::Handover) => context.next.push(Node::Handover, place),
            Ok(node) => {
                nodes[usize::from(place)] = node;
                passed.push(place);
            }
            Err(reason) => context.next.refuse(packet, place, reason),
        }
    }
    merging::cut(context, vector, &mut passed);
    passed.places().iter().for_each(|&place| context.next.push(nodes[usize::from(place)], place));
}

/// The port that frames came in by, looked up once for each run of frames of an interface.
struct Own<'r> {
    root: &'r Root,
    number: u32,
    found: Option<(&'r Interface, &'r Bridge)>,
    /// VLAN tags of its frames.
    tags: usize,
    /// Its frames need no look at what is in them.
    is_plain: bool,
}

impl<'r> Own<'r> {
    fn new(root: &'r Root) -> Self {
        Own { root, number: NONE, found: None, tags: 0, is_plain: false }
    }

    #[cold]
    fn look_up(&mut self, number: u32) {
        let root = self.root;
        let interface = root.interfaces.get(number as usize);
        let found = interface.and_then(|interface| Some((interface, root.bridges.get(interface.bridge.bridge)?)));
        let is_plain = found.is_some_and(|(own, bridge)| !bridge.parses && own.ethertypes_in.is_none());
        let tags = interface.map_or(0, |interface| tags::of(root, interface));
        *self = Own { root, number, found, tags, is_plain };
    }
}

/// Checks a frame; returns the node that it goes to.
#[inline(always)]
fn check(context: &mut Context<'_>, own: &Own<'_>, packet: &mut Packet) -> Result<Node, Reason> {
    let (interface, bridge) = own.found.ok_or(Reason::InterfaceGone)?;
    let (destination, source) = stations(packet).ok_or(Reason::TruncatedEthernet)?;
    if is_group(source) | (source == 0) | (source == bridge.own_mac) {
        return Err(Reason::BridgeSource);
    }
    // Of these, spanning trees of others (00) pass: they find loops through the bridge.
    if destination & !0xf == LINK_GROUPS && destination != LINK_GROUPS {
        return Err(Reason::BridgeLinkGroup);
    }
    if own.tags > 0 {
        tags::take_off(packet, own.tags)?;
    }
    packet.set_parsed(&Parsed { l3: ethernet::LENGTH as u16, ..Parsed::default() });
    if own.is_plain & !packet.is_to_be_segmented() {
        return Ok(Node::BridgeForward);
    }
    parse(context, packet, interface, bridge.is_strict)
}

/// Parses a frame for lists, tunnels and segmentation, and returns the node of the first list of its port. `is_strict`: some port of
/// the bridge has lists, so that malformed packets are dropped.
#[inline(never)]
fn parse(
    context: &mut Context<'_>,
    packet: &mut Packet,
    interface: &Interface,
    is_strict: bool,
) -> Result<Node, Reason> {
    let l2 = parse::ethernet(packet.data()).map_err(Reason::from)?;
    ethernet_input::admit_ethertype(context, packet, l2.ethertype)?;
    let l3 = usize::from(l2.l3);
    let parsed = match l2.ethertype {
        ethertype::IPV4 => parse::ipv4(packet.data(), l3),
        ethertype::IPV6 => parse::ipv6(packet.data(), l3),
        ethertype::ARP => {
            packet.set_parsed(&Parsed { l3: l2.l3, flags: l2.flags, ..Parsed::default() });
            if interface.bindings != bindings::NONE {
                check_arp(context, packet)?;
            }
            return Ok(Node::BridgeForward);
        }
        // Lists would not see what is behind a third tag.
        other if is_strict && vlan::is_tag(other) => return Err(Reason::UnknownVlan),
        _ => return Ok(Node::BridgeForward),
    };
    match parsed {
        Ok(mut parsed) => {
            parsed.flags |= l2.flags;
            packet.set_parsed(&parsed);
        }
        Err(malformed) if is_strict => return Err(malformed.into()),
        Err(_) => return Ok(Node::BridgeForward),
    }
    enter(context, packet, interface)
}

/// Sends a packet to the first list of its port.
fn enter(context: &mut Context<'_>, packet: &mut Packet, interface: &Interface) -> Result<Node, Reason> {
    let v4 = packet.flags().contains(ParseFlags::IP4);
    if stage::node(Some(interface), Stage::Sav, v4) == Node::BridgeForward {
        return Ok(Node::BridgeForward);
    }
    let from = if v4 { first_v4(context, packet)? } else { first_v6(context, packet, interface)? };
    packet.set_resume(from as u8);
    match stage::node(Some(interface), from, v4) {
        Node::BridgeForward => Ok(Node::BridgeForward),
        _ if context.peers.len() > 1 => Ok(Node::Handover),
        node => Ok(node),
    }
}

/// The first stage of a packet of IPv4: hosts without an address send from the unspecified one, which is nobody's.
fn first_v4(context: &mut Context<'_>, packet: &Packet) -> Result<Stage, Reason> {
    let header = *packet.l3_header::<{ ipv4::LENGTH }>().ok_or(Reason::TruncatedIpv4)?;
    let header = ipv4::Header::new(&header).map_err(|_| Reason::TruncatedIpv4)?;
    let (source, destination) = (header.source(), header.destination());
    let class = class_v4(source, destination);
    after(sav::admission::<u32>(context, packet, class), source.is_unspecified())
}

/// The first stage of a packet of IPv6: link-local addresses are valid on every link. Bindings hold messages of neighbour discovery
/// to what they say.
fn first_v6(context: &mut Context<'_>, packet: &mut Packet, interface: &Interface) -> Result<Stage, Reason> {
    let header = *packet.l3_header::<{ ipv6::LENGTH }>().ok_or(Reason::TruncatedIpv6)?;
    let header = ipv6::Header::new(&header).map_err(|_| Reason::TruncatedIpv6)?;
    let (source, destination) = (header.source(), header.destination());
    if interface.bindings != bindings::NONE {
        nd_input::check_claims(context, packet)?;
    }
    let is_of_link = source.is_unspecified() || source.is_unicast_link_local();
    let class = class_v6(source, destination);
    after(sav::admission::<u128>(context, packet, class), is_of_link)
}

fn after(admission: sav::Admission, is_of_link: bool) -> Result<Stage, Reason> {
    match admission {
        sav::Admission::Refuse(reason) => Err(reason),
        // There is no route by which a frame of a bridge could be redirected.
        sav::Admission::Redirect => Err(Reason::SavRedirect),
        admission if admission.is_final() || is_of_link => Ok(Stage::Bindings),
        _ => Ok(Stage::Sav),
    }
}

/// Holds an ARP packet to the bindings of its port: the station that sends it, and the one that it names.
#[cold]
fn check_arp(context: &mut Context<'_>, packet: &Packet) -> Result<(), Reason> {
    let fields = arp::Fields::parse(packet.l3()).map_err(|_| Reason::BadArp)?;
    let sender = fields.sender.into();
    mac_ip::claims(context, packet, Claim::Used, [(link::station(packet), sender), (fields.sender_mac, sender)])
}
