//! Invalid packets: they are counted and offered to samplers, and then go on, are dropped or are redirected, by the
//! action of the policy.

use std::net::IpAddr;

use weir_base::reclaim::Guard;
use weir_packet::packet::Packet;
use weir_packet::parse::{self, ParseFlags, martian};
use weir_packet::vector::{Indices, VECTOR, Vector};

use super::super::limit::{self, Octets};
use super::super::next_hop::destination;
use super::super::options::check_options;
use super::super::stage::{self, Stage};
use super::super::{Context, wire};
use crate::graph::sample::{About, Cause, Treatment};
use crate::model::{RatePer, SavAction};
use crate::node::Node;
use crate::reason::Reason;
use crate::root::family::Family;
use crate::root::sav::{By, ENTRIES, Finding, Meters, Validator};
use crate::root::{Adjacency, Forwarding, Kind, Root};

/// The disposition of an invalid packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disposition {
    /// It goes on.
    Pass,
    /// It is dropped.
    Drop(Reason),
    /// It goes where the policy sends such packets.
    Redirect,
}

/// Places of a vector's packets in a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Marks([u64; VECTOR / 64]);

impl Marks {
    #[inline(always)]
    pub(super) fn set(&mut self, index: usize) {
        self.0[index / 64] |= 1 << (index % 64);
    }

    #[inline(always)]
    pub(super) fn has(&self, index: usize) -> bool {
        self.0[index / 64] >> (index % 64) & 1 != 0
    }
}

/// Decides the disposition of an invalid packet by the action of the policy. `over` says whether the limit is exceeded,
/// where that matters. A packet that no gateway would forward, because it is link-local or by its own contents, is not
/// redirected but dropped for its cause. Counts all but the source.
#[inline]
pub(super) fn disposition<K: Family>(
    context: &mut Context<'_>,
    packet: &Packet,
    validator: &Validator<K>,
    by: By,
    over: impl FnOnce(&Context<'_>) -> bool,
) -> Disposition {
    let (packets, octets) = wire::frames(packet);
    let counters = context.root.interfaces.get(packet.interface() as usize);
    let counters = counters.map(|interface| Validator::<K>::counters(interface, context.worker));
    if let Some(counters) = counters {
        counters.invalid[by as usize].add(packets, octets);
    }
    let passed = || match is_martian(packet) {
        false => (Disposition::Pass, Treatment::Passed),
        // Without a policy the packet would be dropped, too: an action opens nothing.
        true => (Disposition::Drop(Reason::MartianSource), Treatment::Dropped),
    };
    let (disposition, treatment) = match validator.action {
        SavAction::Permit => passed(),
        SavAction::Redirect if may_leave(packet) => (Disposition::Redirect, Treatment::Redirected),
        SavAction::Discard | SavAction::Redirect => (Disposition::Drop(by.reason()), Treatment::Dropped),
        SavAction::RateLimit if !over(context) => passed(),
        SavAction::RateLimit => {
            if let Some(counters) = counters {
                counters.limited.add(packets);
            }
            (Disposition::Drop(Reason::SavRateLimit), Treatment::RateLimited)
        }
    };
    if let Some(choice) = validator.sample {
        let about = About { cause: Cause::Invalid { policy: validator.policy, by }, treatment };
        context.samples.offer(context.root, context.now, packet, choice, about);
    }
    disposition
}

/// Enters where a packet comes from.
#[cold]
pub(super) fn enter(context: &Context<'_>, packet: &Packet, by: By) {
    let traffic = wire::frames(packet);
    context.counters.spoofed.add(packet.interface(), source(packet), traffic, by, context.now);
}

/// Enters where packets of a list come from, by their places in it: all, or some for all where they are many.
#[inline(never)]
pub(super) fn enter_some<K: Family>(
    context: &mut Context<'_>,
    vector: &Vector,
    frame: &Indices,
    indexes: &[u8],
    by: impl Fn(usize) -> By,
) {
    let places = frame.places();
    for group in indexes.chunks(indexes.len().div_ceil(ENTRIES).max(1)) {
        let chosen = match group.len() {
            1 => 0,
            several => context.random.below(several as u64) as usize,
        };
        let index = usize::from(group[chosen]);
        let packet = &vector[places[index]];
        let packets = group.iter().map(|&index| wire::packets(&vector[places[usize::from(index)]])).sum();
        let (source, traffic) = ((*K::source(packet)).into(), (packets, packets * length(packet)));
        context.counters.spoofed.add(packet.interface(), source, traffic, by(index), context.now);
    }
}

/// Enters where packets of a vector come from that pass although no rule knows their source: one of them, taken at random,
/// for all. These are legitimate more often than not, so they must cost little.
#[inline(never)]
pub(super) fn enter_unknown<K: Family>(context: &mut Context<'_>, vector: &Vector, frame: &Indices, by: By) {
    let places = frame.places();
    let chosen = if places.len() > 1 { context.random.below(places.len() as u64) as usize } else { 0 };
    let packet = &vector[places[chosen]];
    let packets = places.len() as u64 + wire::more(vector, frame);
    let (source, traffic) = ((*K::source(packet)).into(), (packets, packets * length(packet)));
    context.counters.unknown.add(packet.interface(), source, traffic, by, context.now);
}

/// Octets of the frame of a packet, or of that of a segment of it.
fn length(packet: &Packet) -> u64 {
    let (packets, octets) = wire::frames(packet);
    octets / packets
}

/// Whether more packets that are not valid have come than may pass, this one included, of which `found` was found.
#[cold]
pub(super) fn is_over<K: Family>(
    context: &Context<'_>,
    packet: &Packet,
    validator: &Validator<K>,
    found: Option<Finding>,
) -> bool {
    let Some(meters) = &validator.meters else { return true };
    let bucket = validator.bucket(meters, found, packet.interface());
    let mut over = false;
    let lengths = limit::lengths(packet, Octets::OfFrame);
    meters.take(bucket, meters.clock(context.now), lengths, |_, passes| over |= !passes);
    over
}

/// Marks the packets over the limit, among the packets of a list for which `is_invalid` holds by index. A bucket is taken from
/// once for each run of packets.
#[inline(never)]
pub(super) fn those_over<K: Family>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    frame: &Indices,
    validator: &Validator<K>,
    is_invalid: impl Fn(usize) -> bool,
    by: impl Fn(usize) -> By,
) -> Marks {
    let mut over = Marks::default();
    let Some(meters) = &validator.meters else { return Marks([u64::MAX; VECTOR / 64]) };
    let clock = meters.clock(context.now);
    let per_rule = meters.limit().per == RatePer::Rule;
    let (mut indexes, mut lengths) = ([0u8; VECTOR], [0u64; VECTOR]);
    let (mut asked, mut bucket) = (0, 0);
    let ask = |over: &mut Marks, bucket, indexes: &[u8], lengths: &[u64]| {
        meters.take(bucket, clock, lengths.iter().copied(), |at, passes| {
            if !passes {
                over.set(usize::from(indexes[at]));
            }
        });
    };
    for (index, &place) in frame.places().iter().enumerate() {
        if !is_invalid(index) {
            continue;
        }
        let packet = &vector[place];
        // Rows are not kept where all is valid, which is the usual case: they are looked up again.
        let found = || validator.one(context.root.routes(), context.guard, *K::source(packet), packet.interface());
        let own = validator.bucket(meters, per_rule.then(found), packet.interface());
        if own != bucket {
            ask(&mut over, bucket, &indexes[..asked], &lengths[..asked]);
            (asked, bucket) = (0, own);
        }
        if packet.is_to_be_segmented() {
            ask(&mut over, bucket, &indexes[..asked], &lengths[..asked]);
            asked = 0;
            if is_super_over::<K>(context, &mut vector[place], (meters, bucket), by(index)) {
                over.set(index);
            }
            continue;
        }
        indexes[asked] = index as u8;
        lengths[asked] = packet.len() as u64;
        asked += 1;
    }
    ask(&mut over, bucket, &indexes[..asked], &lengths[..asked]);
    over
}

/// Takes a super-packet out of a bucket; true if none of its segments passes. Segments that do not pass leave it, and count as the
/// others.
#[cold]
fn is_super_over<K: Family>(context: &mut Context<'_>, packet: &mut Packet, bucket: (&Meters, usize), by: By) -> bool {
    let before = wire::frames(packet);
    if limit::segments(context, packet, bucket, Octets::OfFrame, Reason::SavRateLimit).is_some() {
        return true;
    }
    let after = wire::frames(packet);
    if let Some(interface) = context.root.interfaces.get(packet.interface() as usize) {
        let counters = Validator::<K>::counters(interface, context.worker);
        counters.invalid[by as usize].add(before.0 - after.0, before.1 - after.1);
        counters.limited.add(before.0 - after.0);
    }
    false
}

/// Sends a packet that is not valid where the policy of its interface says.
#[cold]
pub(in crate::graph::nodes) fn redirect(context: &mut Context<'_>, packet: &mut Packet, place: u8) {
    Stage::Redirect.resumes(packet);
    let node = redirect_again(context.root, context.guard, packet);
    if node != Node::Drop
        && let Some(interface) = context.root.interfaces.get(packet.interface() as usize)
    {
        let both = &interface.counters[context.worker].sav;
        let own = if packet.flags().contains(ParseFlags::IP4) { &both.v4 } else { &both.v6 };
        own.redirected.add(wire::packets(packet));
    }
    context.next.push(node, place);
}

/// Where a packet goes on that is redirected, and has waited for the hardware address of its next hop, perhaps.
#[cold]
pub(crate) fn redirect_again(root: &Root, guard: &Guard<'_>, packet: &mut Packet) -> Node {
    let number = redirection(root, guard, packet);
    let adjacency = number.and_then(|number| root.adjacencies.get(number as usize));
    let v4 = packet.flags().contains(ParseFlags::IP4);
    packet.set_forwarding(number.unwrap_or(Adjacency::NO_ROUTE));
    let leave = stage::egress(root, packet.forwarding(), v4);
    match adjacency.map(|adjacency| adjacency.kind) {
        Some(Kind::Rewrite | Kind::RewriteStale) => leave,
        Some(Kind::Neighbor) if root.invent_neighbors => leave,
        Some(Kind::Neighbor) => Node::Neighbor,
        _ => {
            packet.set_reason(Reason::SavRedirect.number());
            Node::Drop
        }
    }
}

/// The adjacency that the policy of its interface gives a packet that is redirected, if it (still) redirects.
pub(in crate::graph::nodes) fn redirection(root: &Root, guard: &Guard<'_>, packet: &Packet) -> Option<u32> {
    fn of<K: Family>(root: &Root, packet: &Packet) -> Option<u32> {
        let interface = root.interfaces.get(packet.interface() as usize)?;
        K::of(&root.sav).get(usize::from(*K::of(&interface.sav)))?.redirect
    }
    let v4 = packet.flags().contains(ParseFlags::IP4);
    let number = if v4 { of::<u32>(root, packet) } else { of::<u128>(root, packet) }?;
    of_destination(root, guard, packet, number)
}

/// The adjacency for a packet that is to leave by one: that of its destination, if the adjacency names no next hop and the
/// destination is a known neighbour.
pub(in crate::graph::nodes) fn of_destination(
    root: &Root,
    guard: &Guard<'_>,
    packet: &Packet,
    number: u32,
) -> Option<u32> {
    let adjacency = root.adjacencies.get(number as usize)?;
    // Without an address the destination is the next hop: a known neighbour has an adjacency of its own.
    if adjacency.next_hop.is_none() && adjacency.kind == Kind::Neighbor {
        let vrf = root.interfaces.get(adjacency.interface as usize).map_or(0, |interface| interface.vrf);
        let tables = root.vrfs.get(usize::from(vrf))?;
        let value = match destination(packet)? {
            IpAddr::V4(to) => tables.v4.lookup(guard, to.into()),
            IpAddr::V6(to) => tables.v6.lookup(guard, to.into()),
        };
        let is_his = |own: &Adjacency| own.interface == adjacency.interface && own.next_hop == destination(packet);
        if Forwarding(value).set().is_none() && root.adjacencies.get(value as usize).is_some_and(is_his) {
            return Some(value);
        }
    }
    Some(number)
}

/// Whether a packet is dropped for its source where no policy is in force.
#[inline]
pub(super) fn is_martian(packet: &Packet) -> bool {
    match source(packet) {
        IpAddr::V4(source) => {
            let refused = |to| matches!(to, Some(IpAddr::V4(to)) if martian::is_refused_v4(source, to));
            martian::source_v4(source) && refused(destination(packet))
        }
        IpAddr::V6(source) => {
            let refused = |to| matches!(to, Some(IpAddr::V6(to)) if martian::is_refused_v6(source, to));
            martian::source_v6(source) && refused(destination(packet))
        }
    }
}

/// Whether a gateway may send a packet to another link at all.
pub(in crate::graph::nodes) fn may_leave(packet: &Packet) -> bool {
    if packet.flags().intersects(ParseFlags::L2_GROUP) || is_martian(packet) {
        return false;
    }
    match (source(packet), destination(packet)) {
        (IpAddr::V4(source), Some(IpAddr::V4(to))) => {
            let options = packet.flags().contains(ParseFlags::OPTIONS);
            let of_link = source.is_link_local() || to.is_link_local() || to.is_broadcast() || to.is_multicast();
            !(of_link || martian::destination_v4(to)) && (!options || check_options(packet.l3()).is_ok())
        }
        (IpAddr::V6(source), Some(IpAddr::V6(to))) => {
            let link_local = source.is_unicast_link_local() || to.is_unicast_link_local();
            // What is malformed has no transport header for the parser, as some have none that is fine.
            let is_whole = || packet.l4_offset() != 0 || parse::ipv6(packet.data(), packet.l3_offset()).is_ok();
            !(link_local || to.is_multicast() || martian::destination_v6(to)) && is_whole()
        }
        _ => false,
    }
}

/// The source of a packet of either family.
fn source(packet: &Packet) -> IpAddr {
    if packet.flags().contains(ParseFlags::IP4) {
        (*u32::source(packet)).into()
    } else {
        (*u128::source(packet)).into()
    }
}
