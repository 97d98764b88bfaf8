//! The checks of IP packets (RFC 1812, 5.2.2; RFC 8200) that both inputs share, and `ip-input`: the way in of a packet that
//! was taken out of a tunnel or decrypted. It has no port and no link-layer header: its interface is that of the tunnel, and
//! every policy of that interface decides about it as about any other packet.

use std::net::{Ipv4Addr, Ipv6Addr};

use weir_packet::offload::{Checksum, Gso};
use weir_packet::packet::{Packet, State};
use weir_packet::parse::{self, ParseFlags, Parsed, martian};
use weir_packet::segment::{self, Segmenter};
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::{icmpv6, ipv4, ipv6, protocol};

use super::options::{Refusal, check_options};
use super::sav::{self, Admission};
use super::spd::{self, Checked};
use super::stage::{self, Stage};
use super::{Context, esp, merging, nd_input, tunnel};
use crate::graph::flags::FOR_HOST;
use crate::graph::nesting::{self, MOST_NESTING};
use crate::node::Node;
use crate::reason::Reason;
use crate::root::sav::{class_v4, class_v6};
use crate::root::{Interface, NONE, Root, bindings};

/// Takes packets that begin with their IP header, of the interface that their field names.
pub(super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let mut entering = Indices::new();
    for &place in frame.places() {
        let packet = &mut vector[place];
        // What was decided about the packet around it is not about this one.
        packet.set_resume(Stage::Sav as u8);
        packet.clear_way();
        let admitted = match (nesting::taken_off(packet), packet.l3().first().map(|first| first >> 4)) {
            (nesting, _) if nesting > MOST_NESTING => Err(Reason::NestingLimit.into()),
            (_, Some(4)) => admit_ipv4(context, packet, packet.l3_offset(), ParseFlags::empty()),
            (_, Some(6)) => admit_ipv6(context, packet, packet.l3_offset(), ParseFlags::empty()),
            _ => Err(Reason::BadVersion.into()),
        };
        let admitted = match admitted {
            Err(refusal) => Err(refusal),
            Ok(way) => match check_policy(context, packet, place) {
                Checked::Gone => continue,
                Checked::Differs => Err(Reason::EspSelector.into()),
                // What the policies of IPsec let in has no other source to be validated by, nor a hardware address.
                Checked::Fits
                    if matches!(way, Way::V4 | Way::V6 | Way::Validated)
                        && !esp::has_own_interface(context, packet) =>
                {
                    Ok(Way::Protected)
                }
                Checked::Fits => Ok(way),
            },
        };
        conclude_or_pass(context, packet, place, admitted, &mut entering);
    }
    enter_all(context, vector, entering);
}

/// Checks the policy of a decrypted packet, whose maximum segment size is that of its SA from here on.
#[inline(always)]
fn check_policy(context: &mut Context<'_>, packet: &mut Packet, place: u8) -> Checked {
    esp::clamp_decrypted(context, packet);
    spd::admit(context, packet, place)
}

/// Sends a packet where its admission says; one that goes to policies is added to a list for [`enter_all`].
#[inline]
pub(super) fn conclude_or_pass(
    context: &mut Context<'_>,
    packet: &mut Packet,
    place: u8,
    admitted: Result<Way, Refusal>,
    entering: &mut Indices,
) {
    match admitted {
        Ok(way @ (Way::V4 | Way::V6 | Way::Validated | Way::Protected)) => pass(packet, place, &way, entering),
        other => conclude(context, packet, place, other),
    }
}

/// Adds a packet that goes to policies to a list for [`enter_all`].
#[inline]
pub(super) fn pass(packet: &mut Packet, place: u8, way: &Way, entering: &mut Indices) {
    let stage = match way {
        Way::Validated => Stage::Bindings,
        Way::Protected => Stage::Acl,
        _ => Stage::Sav,
    };
    stage.resumes(packet);
    entering.push(place);
}

/// Merges packets, and sends each to the first stage of its interface. Packets with steer rules are merged behind these.
pub(super) fn enter_all(context: &mut Context<'_>, vector: &mut Vector, entering: Indices) {
    if entering.is_empty() {
        return;
    }
    let mut unsteered = if context.root.steer.list.is_empty() { entering } else { steer(context, vector, &entering) };
    merging::merge(context, vector, &mut unsteered);
    let is_usual = |packet: &Packet| packet.resume() == Stage::Sav as u8 && packet.state() == State::EMPTY;
    let key = |place: u8| {
        let packet = &vector[place];
        (packet.interface(), packet.flags().contains(ParseFlags::IP4), is_usual(packet))
    };
    for run in unsteered.places().chunk_by(|&one, &other| key(one) == key(other)) {
        if is_usual(&vector[run[0]]) {
            let node = behind_steer(context, &vector[run[0]]);
            context.next.extend_places(node, run);
            continue;
        }
        for &place in run {
            let node = behind_steer(context, &vector[place]);
            context.next.push(node, place);
        }
    }
}

/// Sends packets to the steer rules of their interfaces; returns the packets of interfaces without rules.
fn steer(context: &mut Context<'_>, vector: &Vector, entering: &Indices) -> Indices {
    let mut unsteered = Indices::new();
    for &place in entering.places() {
        match stage::steer(context.root, &vector[place]) {
            Some(steer) => context.next.push(steer, place),
            None => unsteered.push(place),
        }
    }
    unsteered
}

/// Where an admitted packet goes.
pub(super) enum Way {
    /// To the first stage of an IPv4 packet.
    V4,
    /// To the first stage of an IPv6 packet.
    V6,
    /// To the stage after validation: its source is decided about already.
    Validated,
    /// To the stage behind source and hardware address: the policies of IPsec have decided about its source.
    Protected,
    /// To the host, once policies have let it pass: it stays on its link.
    ToHost {
        /// Its source is decided about already.
        checked: bool,
    },
    /// Past the policies and the lookup: what concerns the link that it came by.
    To(Node),
}

/// Sends a packet where its admission says.
#[cold]
pub(super) fn conclude(context: &mut Context<'_>, packet: &mut Packet, place: u8, admitted: Result<Way, Refusal>) {
    match admitted {
        Ok(Way::V4 | Way::V6) => enter(context, packet, place, Stage::Sav),
        Ok(Way::Validated) => enter(context, packet, place, Stage::Bindings),
        Ok(Way::Protected) => enter(context, packet, place, Stage::Acl),
        Ok(Way::ToHost { checked }) => to_host(context, packet, place, checked),
        Ok(Way::To(node)) => context.next.push(node, place),
        Err(refusal) => refuse(context, packet, place, refusal),
    }
}

/// Sends a packet to the first stage of its interface from this one on, by its steer rules.
fn enter(context: &mut Context<'_>, packet: &mut Packet, place: u8, stage: Stage) {
    stage.resumes(packet);
    let node = stage::steer(context.root, packet).unwrap_or_else(|| behind_steer(context, packet));
    context.next.push(node, place);
}

/// Sends a packet for the host through the policies of its interface; straight to the host if it has none.
fn to_host(context: &mut Context<'_>, packet: &mut Packet, place: u8, checked: bool) {
    packet.add_state(FOR_HOST);
    enter(context, packet, place, if checked { Stage::Bindings } else { Stage::Sav });
}

/// The node of an admitted packet that its steer rules let go on.
pub(super) fn behind_steer(context: &mut Context<'_>, packet: &Packet) -> Node {
    let several = context.peers.len() > 1;
    if !packet.state().contains(FOR_HOST) {
        return if several { Node::Handover } else { stage::entry(context.root, context.notes, packet) };
    }
    match stage::entry(context.root, context.notes, packet) {
        Node::Ip4Lookup | Node::Ip6Lookup => Node::Punt,
        // It takes no learned decision: whether flows are learned does not change its worker.
        Node::Ip4Flow | Node::Ip6Flow if !stage::is_checked(context.root, packet) => Node::Punt,
        _ if several => Node::Handover,
        policy => policy,
    }
}

fn refuse(context: &mut Context<'_>, packet: &mut Packet, place: u8, refusal: Refusal) {
    match refusal {
        Refusal::Silent(reason) => context.next.refuse(packet, place, reason),
        Refusal::Aloud(reason) => context.next.refuse_aloud(packet, place, reason),
        Refusal::Redirect => sav::redirect(context, packet, place),
    }
}

/// Parses and checks an IPv4 packet whose header starts at `l3`. `link`: what the link layer said of its destination.
#[inline]
pub(super) fn admit_ipv4(
    context: &mut Context<'_>,
    packet: &mut Packet,
    l3: usize,
    link: ParseFlags,
) -> Result<Way, Refusal> {
    let mut parsed = parse::ipv4(packet.data(), l3).map_err(Reason::from)?;
    parsed.flags |= link;
    set_parsed(packet, &parsed);
    check_offload(context.root, packet)?;
    admit_v4(context, packet, &parsed)
}

/// Parses and checks an IPv6 packet, as [`admit_ipv4`].
#[inline]
pub(super) fn admit_ipv6(
    context: &mut Context<'_>,
    packet: &mut Packet,
    l3: usize,
    link: ParseFlags,
) -> Result<Way, Refusal> {
    let mut parsed = match parse::ipv6(packet.data(), l3) {
        Ok(parsed) => parsed,
        Err(malformed) => {
            let flags = ParseFlags::IP6 | link;
            // A frame has at most 2^16 octets in front of its IP header.
            packet.set_parsed(&Parsed { l3: l3 as u16, flags, ..Parsed::default() });
            let reason = Reason::from(malformed);
            return Err(match malformed.parameter_problem() {
                Some(_) => aloud_v6(context, packet, reason),
                None => Refusal::Silent(reason),
            });
        }
    };
    parsed.flags |= link;
    set_parsed(packet, &parsed);
    check_offload(context.root, packet)?;
    admit_v6(context, packet, &parsed)
}

/// Checks that a super-packet is as its state claims. A packet in a tunnel arrives with the state of the inner packet:
/// the kernel reports both alike, whether the tunnel is UDP, GRE or IP. A later segmentation would cut the tunnel's own
/// packet, and its segments are not as long as they seem: the gateway cuts such a packet itself, where it can read the tunnel. A tunnel
/// that ends here takes it whole. No ICMP error is sent about others, as the source could not send anything else.
#[inline]
fn check_offload(root: &Root, packet: &Packet) -> Result<(), Reason> {
    let fits = !packet.is_to_be_segmented()
        || is_as_its_state_says(packet)
        || tunnel::takes_segments(root, packet)
        || segment::is_nested(packet) && Segmenter::new(packet).is_ok();
    if fits { Ok(()) } else { Err(Reason::OffloadMismatch) }
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

/// Keeps what was parsed, and cuts padding off.
#[inline(always)]
pub(super) fn set_parsed(packet: &mut Packet, parsed: &Parsed) {
    packet.set_parsed(parsed);
    packet.truncate(usize::from(parsed.l3) + parsed.l3_length as usize);
}

/// First octets of IPv4 addresses some of which no packet to be forwarded comes from or goes to: a first look that the
/// usual packet passes at once.
pub(super) const SPECIAL_V4: [bool; 256] = {
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
pub(super) fn ingress<'a>(root: &'a Root, packet: &Packet) -> Option<&'a Interface> {
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
    let admission = sav::admission::<u32>(context, packet, class);
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
        return Ok(Way::ToHost { checked: !open });
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
            // A source that is not valid gets no error: it may be forged to attract the answer.
            Err(Refusal::Aloud(reason)) if !admission.is_final() => {
                Err(sav::one::<u32>(context, packet).map_or(Refusal::Aloud(reason), Refusal::from))
            }
            checked => checked.map(|()| way),
        }
    }
}

/// Returns the refusal for a malformed packet, as for options of IPv4: its source gets an ICMP error if it is valid.
#[cold]
fn aloud_v6(context: &mut Context<'_>, packet: &Packet, reason: Reason) -> Refusal {
    let Some(header) = packet.l3_header::<{ ipv6::LENGTH }>() else { return reason.into() };
    let (source, destination) = addresses_v6(header);
    let refused = sav::refusal::<u128>(context, packet, class_v6(source, destination));
    refused.map_or(Refusal::Aloud(reason), Refusal::from)
}

fn addresses_v6(header: &[u8; ipv6::LENGTH]) -> (Ipv6Addr, Ipv6Addr) {
    let address = |at: usize| Ipv6Addr::from(header[at..].first_chunk::<16>().copied().unwrap_or([0; 16]));
    (address(ipv6::SOURCE), address(ipv6::DESTINATION))
}

/// As [`SPECIAL_V4`]: ::/8 holds the unspecified and loopback addresses, fe00::/8 the link-local and ff00::/8 the multicast
/// ones.
#[inline(always)]
pub(super) const fn special_v6(first: u8) -> bool {
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
        // Before the source is validated: a host without an address solicits from the unspecified one.
        let interface = ingress(root, packet);
        if interface.is_some_and(|interface| nd_input::listens(interface, destination)) {
            return Ok(Way::To(Node::NdInput));
        }
        // Stations of the link may claim addresses by it.
        if interface.is_some_and(|interface| interface.bindings != bindings::NONE) {
            nd_input::overhear(context, packet, source, destination);
        }
    }
    let class = class_v6(source, destination);
    let admission = sav::admission::<u128>(context, packet, class);
    let open = class.is_none() || admission == Admission::Check;
    match admission {
        Admission::Refuse(reason) => return Err(reason.into()),
        Admission::Redirect => return Err(Refusal::Redirect),
        _ => {}
    }
    let martian = !admission.opens() && martian::is_refused_v6(source, destination);
    if link_scope && !martian && !is_discovery(packet, parsed) && for_host(root, packet) {
        return Ok(Way::ToHost { checked: !open });
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
