//! `ip4-rewrite`, `ip6-rewrite`: TTL, MTU, and the link-layer header of the next hop.

use weir_packet::packet::Packet;
use weir_packet::segment::{self, Segmenter};
use weir_packet::vector::{Indices, Vector};
use weir_packet::wire::{ipv4, ipv6};

use super::stage::Stage;
use super::{Context, flow, next_hop, piece, plain, tunnel};
use crate::graph::events::Event;
use crate::graph::flags::{ENCAPSULATED, ORIGINATED, PIECEMEAL, TUNNELLED};
use crate::graph::hold::Key;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::family::Family;
use crate::root::{Adjacency, Kind, invented_mac};

/// Returns the largest packet that may leave by an adjacency, in octets. An answer of weir to a request in fragments
/// takes the least MTU of IPv6 (RFC 8201, 1: no path MTUs are kept, and no router would fragment it); a whole request
/// shows that its path takes as much. A packet of ESP or of a tunnel takes the MTU of its path, if errors have reported one.
pub(super) fn mtu<K: Family>(packet: &Packet, adjacency: &Adjacency) -> u32 {
    match !K::IS_V4 && packet.state().contains(ORIGINATED | PIECEMEAL) {
        true => adjacency.mtu.min(ipv6::MIN_MTU as u32),
        false if packet.state().contains(ENCAPSULATED) && packet.mtu() > 0 => adjacency.mtu.min(packet.mtu().into()),
        false => adjacency.mtu,
    }
}

/// Sends a packet that is too long for its link to be fragmented, if that is allowed; else reports it to its source. Gives whether the
/// last segment of a super-packet is left of it, which is shorter.
#[cold]
fn too_long<K: Family>(context: &mut Context<'_>, packet: &mut Packet, place: u8) -> bool {
    let originated = packet.state().intersects(ORIGINATED | ENCAPSULATED);
    if packet.state().contains(TUNNELLED) {
        tunnel::shorten(context, packet, usize::from(packet.mtu()));
    }
    let may_fragment = || ipv4::Header::new(packet.l3()).is_ok_and(|header| !header.dont_fragment());
    match K::IS_V4 {
        true if originated || may_fragment() => context.next.push(Node::Ip4Fragment, place),
        false if originated => context.next.push(Node::Ip6Fragment, place),
        _ if leaves_last(context, packet) => return true,
        _ => context.next.refuse_aloud(packet, place, Reason::MtuExceeded),
    }
    false
}

/// Leaves the last segment of a super-packet in its place, if that one is not too long. The others are refused when they come round.
#[cold]
fn leaves_last(context: &mut Context<'_>, packet: &mut Packet) -> bool {
    let mtu = usize::from(packet.mtu());
    let last = match Segmenter::new(packet) {
        Ok(mut all) if all.ends_shorter() && !segment::is_nested(packet) => {
            all.skip_to_last();
            all.next_length()
        }
        _ => None,
    };
    if last.is_none_or(|length| length > mtu) || context.requeue.room() == 0 {
        return false;
    }
    let Ok(mut last) = piece::last_piece(context.cache, packet) else { return false };
    last.take_over_notes(packet);
    packet.set_resume(Stage::Rewrite as u8);
    context.counters.created.add(1);
    let others = std::mem::replace(packet, last);
    // There is room.
    let _ = context.requeue.push(others);
    true
}

pub(super) fn run<K: Family>(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    if context.notes.is_on() {
        flow::learn::<K>(context, vector, frame);
    }
    let adjacencies = context.root.adjacencies.view();
    let mut out = Indices::new();
    for &place in frame.places() {
        let packet = &mut vector[place];
        let Some(adjacency) = adjacencies.get(packet.forwarding()) else {
            context.next.refuse(packet, place, Reason::NoRoute);
            continue;
        };
        if plain::rewrite::<K>(packet, adjacency)
            || plain::bare::<K>(packet, adjacency)
            || any::<K>(context, packet, place, adjacency)
        {
            out.push(place);
        }
    }
    context.next.extend(Node::Output, &out);
}

/// Reports to the control side that a neighbour is in use that was not confirmed lately.
#[cold]
fn tell_use(context: &mut Context<'_>, packet: &Packet) {
    if let Some(Key { interface, address }) = next_hop::key(context.root, packet)
        && context.events.is_news(packet.forwarding(), context.now)
    {
        context.events.tell(Event::Wanted { interface, address }, &context.counters.events_lost);
    }
}

/// Rewrites any packet, or says why not; true when it is ready to leave.
#[cold]
fn any<K: Family>(context: &mut Context<'_>, packet: &mut Packet, place: u8, adjacency: &Adjacency) -> bool {
    let length = packet.len() - packet.l3_offset();
    let originated = packet.state().intersects(ORIGINATED | ENCAPSULATED);
    // Errors are judged on the packet as it came; only what leaves is changed.
    if !originated && packet.l3().get(K::TTL).is_none_or(|&ttl| ttl <= 1) {
        context.next.refuse_aloud(packet, place, Reason::TtlExpired);
        return false;
    }
    let mtu = mtu::<K>(packet, adjacency) as usize;
    if length > mtu && segment::longest(packet) > mtu {
        packet.set_mtu(mtu.try_into().unwrap_or(u16::MAX));
        if too_long::<K>(context, packet, place) {
            return any::<K>(context, packet, place, adjacency);
        }
        return false;
    }
    if adjacency.kind == Kind::RewriteStale {
        tell_use(context, packet);
    }
    if !originated {
        K::decrement_above_one(packet);
    }
    if put_link_layer::<K>(packet, adjacency).is_err() {
        context.next.refuse(packet, place, Reason::NoHeadroom);
        return false;
    }
    true
}

#[inline(always)]
pub(super) fn put_link_layer<K: Family>(packet: &mut Packet, adjacency: &Adjacency) -> Result<(), ()> {
    let room = packet.replace_l2(usize::from(adjacency.l2_len)).map_err(drop)?;
    room.copy_from_slice(&adjacency.l2[..usize::from(adjacency.l2_len)]);
    if let Some(ethertype) = room.last_chunk_mut::<2>() {
        *ethertype = K::ETHERTYPE.to_be_bytes();
    }
    if adjacency.kind == Kind::Neighbor {
        invent(packet, adjacency);
    }
    Ok(())
}

/// Invents a next hop's hardware address for replays, which cannot resolve it.
#[cold]
fn invent(packet: &mut Packet, adjacency: &Adjacency) {
    if let Some(address) = adjacency.next_hop.or_else(|| next_hop::destination(packet))
        && let Some(mac) = packet.data_mut().first_chunk_mut::<6>()
    {
        *mac = invented_mac(address).0;
    }
}
