//! `esp-encrypt`: packets that a policy protects, or a caller sends to an SA, become packets of ESP. The packet's forwarding
//! field holds the number of the SA.

use weir_crypto::Job;
use weir_packet::checksum;
use weir_packet::esp::UDP_CHECKSUM;
use weir_packet::offload::Checksum;
use weir_packet::packet::{NoRoom, Packet};
use weir_packet::parse::{self, ParseFlags};
use weir_packet::vector::{Indices, VECTOR, Vector};
use weir_packet::wire::{ipv4, ipv6, protocol};

use super::super::stage::Stage;
use super::super::{Context, handover, session, tunnel};
use super::build::{self, Draw};
use super::jobs::{self, BATCH};
use super::path::{self, Path};
use super::warm::Sas;
use super::{fragments, segments};
use crate::graph::flags::{ENCAPSULATED, ORIGINATED, TUNNELLED};
use crate::graph::flow::Unlearned;
use crate::graph::peer::Peer;
use crate::graph::record::Fate;
use crate::graph::session::Carried;
use crate::model::SaMode;
use crate::node::Node;
use crate::reason::Reason;
use crate::root::ipsec::{Outbound, Sa, Taken};
use crate::root::{NONE, Root};

/// A packet that is to be sealed.
#[derive(Clone, Copy)]
struct Ready<'a> {
    place: u8,
    number: u32,
    sa: &'a Sa,
    outbound: &'a Outbound,
    sequence: u64,
    /// Octets from the IP header on.
    octets: u64,
    /// The MTU by which the packet of ESP is cut, if errors reported one of the path and the packet exceeds it; else 0.
    limit: u16,
}

pub(in super::super) fn run(context: &mut Context<'_>, vector: &mut Vector, frame: &Indices) {
    let mut path = Path { sa: NONE, mtu: 0, learned: 0 };
    let places = frame.places();
    let mut is_queueing = false;
    let mut numbers = [NONE; VECTOR];
    numbers.iter_mut().zip(places).for_each(|(number, &place)| *number = vector[place].forwarding());
    let sas = Sas::new(context, &numbers[..places.len()]);
    sas.outbound(context, 0, BATCH);
    sas.outbound_parts(context, vector, places, 0);
    for from in (0..places.len()).step_by(BATCH) {
        sas.outbound(context, from + BATCH, BATCH);
        is_queueing = run_batch(context, vector, (places, from), (&sas, &mut path), is_queueing);
    }
}

/// Seals a batch. Once a packet was cut into pieces, which go round again, the packets behind it do, too: `is_queueing`.
fn run_batch(
    context: &mut Context<'_>,
    vector: &mut Vector,
    (places, from): (&[u8], usize),
    (sas, path): (&Sas<'_>, &mut Path),
    mut is_queueing: bool,
) -> bool {
    let mut ready: [Option<Ready<'_>>; BATCH] = [None; BATCH];
    let mut count = 0;
    for &place in &places[from..places.len().min(from + BATCH)] {
        context.notes.forget(place, Unlearned::Spd);
        if is_queueing {
            fragments::queue(context, &mut vector[place], place);
            continue;
        }
        match check(context, &mut vector[place], place, path, &mut ready[count]) {
            Ok(true) => count += 1,
            Ok(false) => handover_to_owner(context, &mut vector[place], place),
            Err(Stop::Reason(reason)) => context.next.refuse(&mut vector[place], place, reason),
            Err(Stop::Aloud(reason)) => context.next.refuse_aloud(&mut vector[place], place, reason),
            Err(Stop::Fragment(room)) => {
                fragments::cut(context, &mut vector[place], place, room);
                is_queueing = true;
            }
            Err(Stop::Defer) => fragments::defer(context, &mut vector[place], place),
            Err(Stop::Segment) => {
                segments::cut(context, &mut vector[place], place);
                is_queueing = true;
            }
        }
    }
    let count = number(context, vector, &mut ready, count);
    sas.outbound_parts(context, vector, places, from + BATCH);
    let count = seal_all(context, vector, &mut ready[..count]);
    let sealed = &ready[..count];
    count_all(context.worker, sealed);
    for one in sealed.iter().flatten().filter(|one| one.sa.outer.needs_checksum()) {
        complete_udp(&mut vector[one.place]);
    }
    is_queueing
}

/// Counts sealed packets: those of one SA that follow each other at once.
fn count_all(worker: usize, sealed: &[Option<Ready<'_>>]) {
    for run in sealed.chunk_by(|one, next| one.map(|own| own.number) == next.map(|own| own.number)) {
        let octets = run.iter().flatten().map(|one| one.octets).sum();
        if let Some(first) = run.first().copied().flatten() {
            first.sa.counters[worker].outbound.add(run.len() as u64, octets);
        }
    }
}

/// Why a packet is not sealed now.
enum Stop {
    Reason(Reason),
    /// An error goes to its source.
    Aloud(Reason),
    /// It is cut first, into packets of at most so many octets.
    Fragment(u32),
    /// It is cut first, into the segments that the kernel left uncut.
    Segment,
    /// Its SA gives no number now.
    Defer,
}

impl From<Reason> for Stop {
    fn from(reason: Reason) -> Stop {
        Stop::Reason(reason)
    }
}

/// Checks a packet before anything is changed, and notes it at `ready`. False: another worker owns the SA.
#[inline(always)]
fn check<'a>(
    context: &mut Context<'a>,
    packet: &mut Packet,
    place: u8,
    path: &mut Path,
    ready: &mut Option<Ready<'a>>,
) -> Result<bool, Stop> {
    let root: &'a Root = context.root;
    let number = packet.forwarding();
    let (number, sa) = match root.ipsec.sa(number) {
        Some(sa) => (number, sa),
        None => follow(root, packet).ok_or(Reason::EspNoOutbound)?,
    };
    let outbound = sa.outbound.as_ref().ok_or(Reason::EspNoOutbound)?;
    if outbound.is_shared {
        // None of these overtakes another one.
        if context.requeue.is_deferred() {
            return Err(Stop::Defer);
        }
    } else if context.peers.len() > 1 && !is_own(context, outbound) {
        return Ok(false);
    }
    if packet.is_to_be_segmented() {
        return Err(Stop::Segment);
    }
    let v4 = packet.flags().contains(ParseFlags::IP4);
    let originated = packet.state().intersects(ORIGINATED | ENCAPSULATED);
    let ttl = packet.l3().get(if v4 { ipv4::TTL } else { ipv6::HOP_LIMIT });
    if !originated && ttl.is_none_or(|&ttl| ttl <= 1) {
        return Err(Stop::Aloud(Reason::TtlExpired));
    }
    if sa.mode == SaMode::Transport && !fits_transport(packet, sa) {
        return Err(Reason::EspTransport.into());
    }
    if sa.clamps {
        path::clamp(context, packet, (number, sa, outbound));
    }
    let octets = packet.len() - packet.l3_offset();
    let mut limit = 0;
    if path::may_be_exceeded(context, sa, outbound, octets) {
        limit = check_length(context, packet, (number, sa, outbound), octets, path)?;
    }
    *ready = Some(Ready { place, number, sa, outbound, sequence: 0, octets: octets as u64, limit });
    Ok(true)
}

/// Has a packet on its way between workers, whose pair is gone, name the pair that has the SA now.
#[cold]
fn follow<'a>(root: &'a Root, packet: &mut Packet) -> Option<(u32, &'a Sa)> {
    let (number, sa) = root.ipsec.successor(packet.forwarding())?;
    packet.set_forwarding(number);
    Some((number, sa))
}

/// This worker seals for an SA: it owns it, or the owner has failed.
fn is_own(context: &Context<'_>, outbound: &Outbound) -> bool {
    let hash = parse::spi_hash(outbound.spi, context.seed);
    let owner = handover::owner(context, hash);
    owner == context.worker || context.peers[owner].as_ref().is_none_or(Peer::is_gone)
}

/// Gives a packet to the worker that owns its SA.
#[cold]
fn handover_to_owner(context: &mut Context<'_>, packet: &mut Packet, place: u8) {
    let spi = context.root.ipsec.sa(packet.forwarding()).and_then(|sa| Some(sa.outbound.as_ref()?.spi));
    packet.set_resume(Stage::Encrypt as u8);
    let hash = parse::spi_hash(spi.unwrap_or_default(), context.seed);
    if !handover::give(context, packet, place, hash) {
        // The owner has failed a moment ago.
        context.next.refuse(packet, place, Reason::WorkerGone);
    }
}

/// A packet may be sealed in transport mode: it is whole, and between the addresses of the SA.
fn fits_transport(packet: &Packet, sa: &Sa) -> bool {
    let ends = if packet.flags().contains(ParseFlags::IP4) {
        ipv4::Header::new(packet.l3()).map(|header| (header.source().into(), header.destination().into()))
    } else {
        ipv6::Header::new(packet.l3()).map(|header| (header.source().into(), header.destination().into()))
    };
    !packet.flags().contains(ParseFlags::FRAGMENT) && ends == Ok((sa.local, sa.remote))
}

/// Checks that a packet fits the path once it is sealed. One that may be fragmented and does not fit is cut before (tunnel
/// mode) or behind (transport mode). Returns the MTU by which it is cut behind, 0 for that of the link.
#[cold]
fn check_length(
    context: &Context<'_>,
    packet: &mut Packet,
    (number, sa, outbound): (u32, &Sa, &Outbound),
    octets: usize,
    path: &mut Path,
) -> Result<u16, Stop> {
    if path.sa != number {
        *path = path::of(context, number, sa, outbound);
    }
    let room = path::room(packet, sa, path);
    if octets <= room {
        return Ok(0);
    }
    let originated = packet.state().contains(ORIGINATED);
    if packet.state().contains(TUNNELLED) {
        // Its own source, the gateway, learns what fits: inner packets are reported then.
        tunnel::shorten(context, packet, room);
    }
    if !packet.flags().contains(ParseFlags::IP4) {
        // Every path takes 1,280 octets (RFC 8200, 5): the packet of ESP is cut then.
        let room = room.max(ipv6::MIN_MTU);
        if originated || octets <= room || packet.state().contains(TUNNELLED) {
            return Ok(path.learned);
        }
        packet.set_mtu(room.try_into().unwrap_or(u16::MAX));
        return Err(Stop::Aloud(Reason::MtuExceeded));
    }
    if !originated && ipv4::Header::new(packet.l3()).is_ok_and(|header| header.dont_fragment()) {
        packet.set_mtu(room.clamp(path::LEAST_MTU_V4, usize::from(u16::MAX)) as u16);
        return Err(Stop::Aloud(Reason::MtuExceeded));
    }
    match sa.mode {
        SaMode::Tunnel => Err(Stop::Fragment(room as u32)),
        SaMode::Transport => Ok(path.learned),
    }
}

/// Takes numbers for packets of one SA.
#[inline(always)]
fn take(context: &mut Context<'_>, first: &Ready<'_>, count: u64) -> Taken {
    match first.outbound.is_shared {
        false => first.outbound.sequence.take(count, first.sa.last()),
        true => take_shared(context, first, count),
    }
}

/// Takes numbers that other workers take, too.
#[cold]
fn take_shared(context: &mut Context<'_>, first: &Ready<'_>, count: u64) -> Taken {
    let sequence = &*first.outbound.sequence;
    // Packets before these have got no number: these overtake none.
    if context.requeue.is_deferred() || !context.shares.note(first.number) {
        return Taken { first: sequence.next(), count: 0 };
    }
    let peers = &*context.peers;
    let is_gone = |worker: usize| peers.get(worker).and_then(Option::as_ref).is_some_and(Peer::is_gone);
    match &first.sa.sharing {
        Some(sharing) => sharing.take((sequence, first.sa.last()), context.worker, count, is_gone),
        None => sequence.take(count, first.sa.last()),
    }
}

/// An SA had numbers, but gave a worker none, as others have not sent theirs.
fn is_held_back(first: &Ready<'_>, taken: Taken) -> bool {
    let sequence = &*first.outbound.sequence;
    let next = taken.first.saturating_add(taken.count);
    first.outbound.is_shared && next <= first.sa.last() && next < sequence.reserved() && !sequence.is_expired()
}

/// Gives packets their sequence numbers: those of one SA that follow each other take theirs at once. Returns how many
/// packets got one; the others are dropped.
fn number<'a>(
    context: &mut Context<'_>,
    vector: &mut Vector,
    ready: &mut [Option<Ready<'a>>; BATCH],
    count: usize,
) -> usize {
    let (mut start, mut kept) = (0, 0);
    while start < count {
        let Some(first) = ready[start] else { break };
        let same = |one: &Option<Ready<'_>>| one.is_some_and(|one| one.number == first.number);
        let run = ready[start..count].iter().take_while(|one| same(one)).count();
        let taken = take(context, &first, run as u64);
        if kept == start && taken.count == run as u64 {
            // All stay where they are.
            let these = ready[start..start + run].iter_mut().flatten();
            (0..).zip(these).for_each(|(index, one)| one.sequence = taken.first + index);
            (start, kept) = (start + run, kept + run);
            continue;
        }
        for index in 0..run {
            let Some(mut one) = ready[start + index] else { continue };
            if (index as u64) < taken.count {
                one.sequence = taken.first + index as u64;
                ready[kept] = Some(one);
                kept += 1;
            } else if is_held_back(&first, taken) {
                fragments::defer(context, &mut vector[one.place], one.place);
            } else {
                let is_over = taken.first.saturating_add(taken.count) > one.sa.last() || taken.first == u64::MAX;
                let counters = &one.sa.counters[context.worker];
                let (counter, reason) = if first.outbound.sequence.is_expired() {
                    (&counters.expired, Reason::EspExpired)
                } else if is_over {
                    (&counters.exhausted, Reason::EspExhausted)
                } else {
                    (&counters.unreserved, Reason::EspUnreserved)
                };
                counter.add(1);
                context.next.refuse(&mut vector[one.place], one.place, reason);
            }
        }
        start += run;
    }
    kept
}

/// Builds the packets of ESP and seals them; returns how many there was room for, which come first. One walk over the vector finds
/// them, as their places are in ascending order.
fn seal_all<'a>(context: &mut Context<'a>, vector: &mut Vector, ready: &mut [Option<Ready<'a>>]) -> usize {
    let Some(&Some(Ready { place, outbound, .. })) = ready.first() else { return 0 };
    let mut jobs = jobs::none(&outbound.key);
    let (mut next, mut kept) = (0, 0);
    let (mut v4, mut v6) = (Sent::default(), Sent::default());
    for (place, packet) in vector.filled().iter_mut().enumerate().skip(place.into()) {
        let Some(Some(one)) = ready.get(next) else { break };
        if usize::from(one.place) != place {
            continue;
        }
        match build_one(context, packet, one) {
            Ok(at) => {
                finish(context, packet, one);
                if one.sa.outer.is_v4() { &mut v4 } else { &mut v6 }.push(one.place);
                let high = one.sa.esn.then_some((one.sequence >> 32) as u32);
                // Each job is written in its place: what was just written in parts, and is read as a whole, makes the CPU wait.
                if let Some(job) = jobs.get_mut(kept) {
                    *job = Job::esp(&one.outbound.key, packet.data_mut().get_mut(at..).unwrap_or_default(), high);
                }
                if kept != next {
                    ready[kept] = ready[next];
                }
                kept += 1;
            }
            Err(_) => context.next.refuse(packet, one.place, Reason::NoHeadroom),
        }
        next += 1;
    }
    context.next.extend_places(Node::Ip4Lookup, v4.places());
    context.next.extend_places(Node::Ip6Lookup, v6.places());
    weir_crypto::seal(&mut jobs[..kept]);
    debug_assert!(jobs[..kept].iter().all(|job| job.result().is_ok()), "the layout is that of the algorithm");
    kept
}

/// Builds a packet of ESP. Returns the offset of the SPI.
#[inline(always)]
fn build_one(context: &mut Context<'_>, packet: &mut Packet, one: &Ready<'_>) -> Result<usize, NoRoom> {
    // The packet leaves for its session here: what goes on is another one.
    session::pass(context, packet);
    Carried::clear(packet);
    packet.set_translation(0);
    if context.recorder.is_on() {
        context.record(packet, Fate::Secured { sa: one.number, inbound: false });
    }
    // Its checksum is sealed: nobody could complete it later.
    if packet.offload().checksum == Checksum::Partial {
        checksum::complete(packet);
    }
    if !packet.state().intersects(ORIGINATED | ENCAPSULATED) {
        match packet.flags().contains(ParseFlags::IP4) {
            true => packet.l3_header_mut::<{ ipv4::LENGTH }>().and_then(|header| checksum::decrement_ttl(header)),
            false => {
                packet.l3_header_mut::<{ ipv6::LENGTH }>().and_then(|header| checksum::decrement_hop_limit(header))
            }
        };
    }
    let flow = if one.sa.outer.is_v4() { 0 } else { parse::flow_hash(&packet.parsed(), packet.data(), context.seed) };
    let padded = path::padded(context, one.sa, one.outbound);
    let draw = Draw { number: one.sequence, flow, padded, random: context.random };
    build::build(packet, one.sa, one.outbound, draw)
}

/// Notes where a packet of ESP goes: to the lookup of its outer destination.
#[inline(always)]
fn finish(context: &Context<'_>, packet: &mut Packet, one: &Ready<'_>) {
    let sa = one.sa;
    packet.add_state(ENCAPSULATED);
    packet.clear_state(TUNNELLED);
    packet.set_mtu(one.limit);
    packet.set_resume(Stage::Lookup as u8);
    let is_there = |own: &crate::root::Interface| own.vrf == sa.vrf;
    if sa.home != NONE && !context.root.interfaces.get(packet.interface() as usize).is_some_and(is_there) {
        packet.set_interface(sa.home);
    }
}

/// Packets of a batch that go to one node.
#[derive(Default)]
struct Sent {
    places: [u8; BATCH],
    count: usize,
}

impl Sent {
    #[inline(always)]
    fn push(&mut self, place: u8) {
        if let Some(next) = self.places.get_mut(self.count) {
            *next = place;
            self.count += 1;
        }
    }

    fn places(&self) -> &[u8] {
        &self.places[..self.count]
    }
}

/// Completes the checksum of UDP over IPv6 around a sealed packet (RFC 8200, 8.1).
#[cold]
pub(super) fn complete_udp(packet: &mut Packet) {
    let l4 = packet.l4_offset();
    let Some(header) = packet.l3_header::<{ ipv6::LENGTH }>() else { return };
    let Ok(header) = ipv6::Header::new(header) else { return };
    let (source, destination) = (header.source(), header.destination());
    let Some(datagram) = packet.data().get(l4..) else { return };
    let sum = checksum::pseudo_v6(source, destination, protocol::UDP, datagram.len() as u32).bytes(datagram).checksum();
    // A sum of 0 is sent as 0xffff (RFC 768).
    let sum = if sum == 0 { u16::MAX } else { sum };
    let at = l4 + UDP_CHECKSUM - ipv6::LENGTH;
    if let Some(field) = packet.data_mut().get_mut(at..at + 2) {
        field.copy_from_slice(&sum.to_be_bytes());
    }
}
